"""Apps of hosts: with the shelf (items of every kind, imported once), or with models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of, close, import_records, make_app, make_host
from support.databases import new_database
from support.host_app import Host
from support.web import shelf


@pytest.fixture
def ibi_database_uri(uri: str) -> str:
    """A new database of each kind, for the fixtures of flask_ibi_archive.testing."""
    return uri


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The URL of an SQLite database and the folder with the shelf; tests must not change them."""
    folder = tmp_path_factory.mktemp("shelf")
    with new_database("sqlite", folder, ready=True) as uri:
        app = make_app(uri, folder)
        archive_of(app).init()
        import_records(archive_of(app), shelf(folder / "sources"))
        close(app)
        yield uri, folder


@pytest.fixture
def host(place: tuple[str, Path]) -> Iterator[Callable[..., Flask]]:
    """A function that creates apps of hosts with the shelf; see :func:`.make_host`."""
    made: list[Flask] = []

    def make(**options: Any) -> Flask:
        made.append(make_host(*place, **options))
        return made[-1]

    yield make
    for app in made:
        close(app)


@pytest.fixture
def new_host(uri: str, tmp_path: Path) -> Iterator[Callable[..., Host]]:
    """A function that creates hosts with a model of their own."""
    made: list[Host] = []

    def make(**options: Any) -> Host:
        made.append(Host(uri, tmp_path, **options))
        return made[-1]

    yield make
    for host in made:
        host.close()
