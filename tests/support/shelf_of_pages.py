"""An app with the shelf: items of every kind, imported once into each kind of database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from support.archives import archive_of, close, import_records, make_app
from support.databases import new_database
from support.web import shelf


@pytest.fixture(scope="session")
def shelf_place(
    backend: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """The URL of a database and the folder with the shelf; tests must not change them."""
    folder = tmp_path_factory.mktemp("shelf")
    with new_database(backend, folder, ready=True) as uri:
        app = make_app(uri, folder)
        archive_of(app).init()
        import_records(archive_of(app), shelf(folder / "sources"))
        close(app)
        yield uri, folder


@pytest.fixture(scope="session")
def web(shelf_place: tuple[str, Path]) -> Iterator[Flask]:
    """An app that serves the shelf; an exception in a view fails the test."""
    app = make_app(*shelf_place, PROPAGATE_EXCEPTIONS=True)
    yield app
    close(app)


@pytest.fixture
def web_with(shelf_place: tuple[str, Path]) -> Iterator[Callable[..., Flask]]:
    """A function that creates apps with the shelf, each with its own settings."""
    made: list[Flask] = []

    def make(**config: Any) -> Flask:
        made.append(make_app(*shelf_place, **config))
        return made[-1]

    yield make
    for app in made:
        close(app)
