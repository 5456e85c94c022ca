"""Tests for hosts: a contract that a host's items must satisfy, and fixtures for its own tests.

This package needs pytest. A host names it as a plugin in its ``conftest.py``::

    pytest_plugins = ["flask_ibi_archive.testing"]

The fixtures are ``ibi_settings``, ``ibi_database_uri``, ``ibi_clock``, ``ibi_app``, ``ibi_server``
and ``ibi_resolver``; a host can replace each of them. A test that uses them::

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

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

# the assertions of these modules explain their values, as those of test modules do
MODULES = ("contract", "servers")
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in MODULES))

from flask_ibi_archive import IBIArchive  # noqa: E402
from flask_ibi_archive.server.database import migrate  # noqa: E402
from flask_ibi_archive.server.database.database import Database  # noqa: E402
from flask_ibi_archive.testing import servers  # noqa: E402
from flask_ibi_archive.testing.contract import CatalogueContract  # noqa: E402
from flask_ibi_archive.testing.servers import (  # noqa: E402
    FixedClock,
    LoopbackResolver,
    LoopbackServer,
    Reader,
)

__all__ = ["CatalogueContract", "FixedClock", "LoopbackResolver", "LoopbackServer", "Reader"]


@pytest.fixture
def ibi_clock() -> FixedClock:
    """Provide a clock that stands still, for ``IBIArchive(clock=ibi_clock)``."""
    return FixedClock()


@pytest.fixture(scope="session")
def ibi_empty_database(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Provide the content of an SQLite file with the tables of an Archive."""
    path = tmp_path_factory.mktemp("ibi") / "empty.sqlite"
    database = Database(f"sqlite:///{path}")
    database.create()
    with database.writing() as connection:
        migrate.upgrade(connection)
    database.close()
    return path.read_bytes()


@pytest.fixture
def ibi_database_uri(ibi_empty_database: bytes, tmp_path: Path) -> str:
    """Provide the URL of a new SQLite database with the tables of an Archive."""
    path = tmp_path / "ibi.sqlite"
    path.write_bytes(ibi_empty_database)
    return f"sqlite:///{path}"


@pytest.fixture
def ibi_server() -> Iterator[LoopbackServer]:
    """Provide a server for the app; its address is already in ``ibi_settings``."""
    server = LoopbackServer()
    yield server
    server.close()


@pytest.fixture
def ibi_settings(
    ibi_database_uri: str, ibi_server: LoopbackServer, tmp_path: Path
) -> dict[str, Any]:
    """Provide the settings of an app with an Archive in temporary folders and a new database."""
    return {
        "SECRET_KEY": "a secret for tests",
        "TESTING": True,
        "IBI_DATABASE_URI": ibi_database_uri,
        "IBI_DATABASE_TIMEOUT": servers.PATIENCE,
        "IBI_FILES_FOLDER": str(tmp_path / "ibi_files"),
        "IBI_CLAIMS_FOLDER": str(tmp_path / "ibi_claims"),
        "IBI_ARCHIVE_ADDRESS": ibi_server.address,
        "IBI_ARCHIVE_SERVICE_IBI": "sid.inpe.br/mtc-m18@80/2008/03.17.15.17",
        "IBI_MINT_HOST": "mtc-m16c.sid.inpe.br",
        "IBI_ARCHIVE_IP": "150.163.34.243",
        "IBI_INNER_HOSTS": servers.LOOPBACK,
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


@pytest.fixture
def ibi_resolver(tmp_path: Path) -> Iterator[LoopbackResolver]:
    """Provide a resolver that has included no Archive yet.

    The test is skipped if the extra ``resolver`` is not installed.
    """
    resolver = LoopbackResolver(tmp_path / "ibi_resolver")
    yield resolver
    resolver.close()
