"""Tests for hosts: a contract that a host's items must satisfy, and fixtures for its own tests.

This package needs pytest. A host names it as a plugin in its ``conftest.py``::

    pytest_plugins = ["flask_ibi_archive.testing"]

The fixtures are ``ibi_settings``, ``ibi_database_uri``, ``ibi_clock``, ``ibi_app``, ``ibi_server``
and ``ibi_resolver``. A test that uses them::

    def test_a_thesis_is_found_by_a_resolver(ibi_settings, ibi_server, ibi_resolver):
        app = create_app(ibi_settings)
        ...
        ibi_server.serve(app)
        ibi_resolver.include(app)
        assert ibi_resolver.get(ibi).location == ibi_server.url + "/theses/7.pdf"

A class that inherits from :class:`CatalogueContract` tests that the Archive answers correctly for
the items of the host::

    class TestRepository(CatalogueContract):
        def create_app(self, settings):
            return create_app(settings)

        def add_item(self, record):
            ...
"""

import pytest

# the assertions of these modules explain their values, as those of test modules do
MODULES = ("contract", "host_under_test", "servers")
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in MODULES))

from flask_ibi_archive.testing.contract import CatalogueContract  # noqa: E402
from flask_ibi_archive.testing.fixtures import (  # noqa: E402
    FixedClock,
    ibi_app,
    ibi_clock,
    ibi_database_uri,
    ibi_empty_database,
    ibi_resolver,
    ibi_server,
    ibi_settings,
)
from flask_ibi_archive.testing.servers import (  # noqa: E402
    LoopbackResolver,
    LoopbackServer,
    Reader,
)

__all__ = [
    "CatalogueContract",
    "FixedClock",
    "LoopbackResolver",
    "LoopbackServer",
    "Reader",
    "ibi_app",
    "ibi_clock",
    "ibi_database_uri",
    "ibi_empty_database",
    "ibi_resolver",
    "ibi_server",
    "ibi_settings",
]
