"""The fixtures for the tests of hosts. A host can replace each of them in its ``conftest.py``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from flask_ibi_archive.extension import IBIArchive
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.testing.servers import LOOPBACK, PATIENCE, LoopbackResolver, LoopbackServer

#: The service of the Archive in tests.
SERVICE = "sid.inpe.br/mtc-m18@80/2008/03.17.15.17"


class FixedClock:
    """A clock that stands still until a test advances it.

    ::

        clock = FixedClock()
        app = create_app(settings, clock=clock)     # IBIArchive(clock=clock)
        clock.advance(3600)

    :param now: the time that the clock shows, with a time zone.
    """

    def __init__(self, now: datetime = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)) -> None:
        self.now = now

    def __call__(self) -> datetime:
        """Return the time that the clock shows."""
        return self.now

    def advance(self, seconds: float = 0, *, days: float = 0) -> None:
        """Set the clock to a later time."""
        self.now += timedelta(days=days, seconds=seconds)


@pytest.fixture
def ibi_clock() -> FixedClock:
    """Provide a clock that stands still, for ``IBIArchive(clock=ibi_clock)``."""
    return FixedClock()


@pytest.fixture(scope="session")
def ibi_empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide an SQLite file with the tables of an Archive. Tests copy it."""
    path = tmp_path_factory.mktemp("ibi") / "empty.sqlite"
    database = Database(f"sqlite:///{path}")
    try:
        database.create()
        with database.writing() as connection:
            migrate.upgrade(connection)
    finally:
        database.close()
    return path


@pytest.fixture
def ibi_database_uri(ibi_empty_database: Path, tmp_path: Path) -> str:
    """Provide the URL of a new SQLite database with the tables of an Archive."""
    path = tmp_path / "ibi.sqlite"
    path.write_bytes(ibi_empty_database.read_bytes())
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
        "IBI_DATABASE_TIMEOUT": PATIENCE,
        "IBI_FILES_FOLDER": str(tmp_path / "ibi_files"),
        "IBI_CLAIMS_FOLDER": str(tmp_path / "ibi_claims"),
        "IBI_ARCHIVE_ADDRESS": ibi_server.address,
        "IBI_ARCHIVE_SERVICE_IBI": SERVICE,
        "IBI_MINT_HOST": "mtc-m16c.sid.inpe.br",
        "IBI_ARCHIVE_IP": "150.163.34.243",
        "IBI_INNER_HOSTS": LOOPBACK,
    }


@pytest.fixture
def ibi_app(ibi_settings: dict[str, Any], tmp_path: Path) -> Iterator[Flask]:
    """Provide an app with an empty Archive."""
    app = Flask("ibi_app", instance_path=str(tmp_path / "instance"))
    app.config.from_mapping(ibi_settings)
    IBIArchive(app)
    archive = app.extensions["ibi_archive"].archive
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
