"""Tests for hosts: a contract for the items of a host, and fixtures for the host's own tests.

This package needs pytest. A host names it as a plugin in its ``conftest.py``::

    pytest_plugins = ["flask_ibi_archive.testing"]

The fixtures are ``ibi_settings``, ``ibi_database_uri``, ``ibi_clock`` and ``ibi_app``; a host can
replace each of them. A test that uses them::

    def test_resolvers_are_led_to_the_file_of_a_thesis(ibi_settings):
        app = create_app(ibi_settings)
        ...
        answer = Reader(app).request_urls(thesis.ibi)
        assert answer["url"] == ("http://repository.example.org/theses/7.pdf",)

A class that inherits from :class:`CatalogueContract` tests that the Archive answers correctly for
the items of the host::

    class TestRepository(CatalogueContract):
        def create_app(self, settings):
            return create_app(settings)

        def add_item(self, record):
            ...
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

# the assertions of these modules explain their values, as those of test modules do
MODULES = ("contract", "reader")
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in MODULES))

from flask_ibi_archive import IBIArchive  # noqa: E402
from flask_ibi_archive.testing.contract import CatalogueContract  # noqa: E402
from flask_ibi_archive.testing.reader import FixedClock, Reader  # noqa: E402

__all__ = ["CatalogueContract", "FixedClock", "Reader"]


@pytest.fixture
def ibi_clock() -> FixedClock:
    """Provide a clock that stands still, for ``IBIArchive(clock=ibi_clock)``."""
    return FixedClock()


@pytest.fixture
def ibi_database_uri(tmp_path: Path) -> str:
    """Provide the URL of a new SQLite database."""
    return f"sqlite:///{tmp_path / 'ibi.sqlite'}"


@pytest.fixture
def ibi_settings(ibi_database_uri: str, tmp_path: Path) -> dict[str, Any]:
    """Provide the settings of an app with an Archive in temporary folders and a new database."""
    return {
        "SECRET_KEY": "a secret for tests",
        "TESTING": True,
        "IBI_DATABASE_URI": ibi_database_uri,
        "IBI_FOLDER": str(tmp_path),
        "IBI_ARCHIVE_ADDRESS": "repository.example.org",
        "IBI_ARCHIVE_SERVICE_IBI": "sid.inpe.br/mtc-m18@80/2008/03.17.15.17",
        "IBI_MINT_HOST": "mtc-m16c.sid.inpe.br",
        "IBI_ARCHIVE_IP": "150.163.34.243",
    }


@pytest.fixture
def ibi_app(ibi_settings: dict[str, Any], tmp_path: Path) -> Iterator[Flask]:
    """Provide an app with an empty Archive."""
    app = Flask("ibi_app", instance_path=str(tmp_path / "instance"))
    app.config.from_mapping(ibi_settings)
    IBIArchive(app)
    archive = Reader(app).archive
    archive.init()
    yield app
    archive.database.close()
