"""Fixtures: apps with the shelf (items of every kind), Archives, a browser."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from support.archives import FAR_SERVICE, archive_of, close, import_records, make_app
from support.commands import command
from support.databases import new_database
from support.web import shelf

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """The options of pytest-playwright; without Chromium, the tests with a browser are skipped."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip(f"no browser here: none of {', '.join(BROWSERS)}")
    return {**browser_type_launch_args, "executable_path": path, "args": ["--no-sandbox"]}


# --- the shelf on a database that tests must not change


@pytest.fixture(scope="session")
def shelf_place(
    backend: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Path]]:
    """The URL of a database and the folder with the shelf."""
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


# --- the shelf on a database of the test


def write(path: Path, records: Iterable[dict[str, Any]]) -> Path:
    """Write records to a file as JSON Lines."""
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def items(tmp_path: Path) -> Path:
    """The path of a file with the records of the shelf."""
    return write(tmp_path / "items.jsonl", shelf(tmp_path / "sources"))


@pytest.fixture
def filled(app: Flask, items: Path) -> Flask:
    """An app that has imported the shelf."""
    assert command(app, "import", items).status == 0
    return app


@pytest.fixture(scope="module")
def archives(
    backend: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Flask, Flask]]:
    """The apps of two empty Archives with one database and one folder of files."""
    folder = tmp_path_factory.mktemp("archives")
    with new_database(backend, folder, ready=True) as uri:
        far = {"IBI_ARCHIVE_SERVICE_IBI": FAR_SERVICE, "IBI_ARCHIVE_ADDRESS": "mtc-m19.sid.inpe.br"}
        made = make_app(uri, folder), make_app(uri, folder, **far)
        for app in made:
            archive_of(app).init()
        yield made
        for app in made:
            close(app)


@pytest.fixture
def here(archives: tuple[Flask, Flask]) -> Flask:
    """The app of the first Archive."""
    return archives[0]


@pytest.fixture
def there(archives: tuple[Flask, Flask]) -> Flask:
    """The app of the second Archive."""
    return archives[1]


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """The path of a file to deposit."""
    path = tmp_path / "report.pdf"
    path.write_bytes(b"%PDF-1.4 report")
    return path
