"""Fixtures for all tests: a real database of each kind, an app with an Archive on it."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from flask import Flask
from hypothesis import HealthCheck, settings
from jinja2 import FileSystemBytecodeCache
from pytest_httpserver import HTTPServer
from sqlalchemy import Connection, Engine, event
from support.archives import archive_of, close, initialise, make_app
from support.databases import BACKENDS, new_database
from support.far import Far

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.server.database.migrate import ARCHIVE, History

pytest_plugins = [
    "flask_ibi_archive.testing",
    "support.fixtures",
]

# their packages are not installed here: nox -s hosts runs these tests
collect_ignore = ["installed_hosts"]

# with the usual thresholds, collections of garbage take a fifth of the time
gc.set_threshold(20_000, 20, 20)
# the processes that tests start need not compile the modules again
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# commands speak the language of their user; the tests read English
os.environ.pop("LANGUAGE", None)
os.environ["LC_ALL"] = "C.UTF-8"

# databases and files in memory, where nothing waits for a disk; a container may have little of it
MEMORY = Path("/dev/shm")
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# to compile for each app takes a third of the time
_folder = TemporaryDirectory()
_cache = FileSystemBytecodeCache(_folder.name)
Flask.jinja_options = {**Flask.jinja_options, "bytecode_cache": _cache}


class Statements(dict[Any, Any]):
    """Compiled statements by the kind of their dialect, which all engines of a process share."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get((type(key[0]), *key[1:]), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__((type(key[0]), *key[1:]), value)


_compiled = Statements()


@event.listens_for(Engine, "engine_connect")
def share_statements(connection: Connection) -> None:
    """Let engines share what they compile."""
    connection.execution_options(compiled_cache=_compiled)


# a slow machine is not a failure; .ci/full tries six times as many examples in slow tests
for profile, examples in (("quick", 16), ("thorough", 100)):
    settings.register_profile(
        profile,
        deadline=None,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
settings.load_profile("quick")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let an option say on which databases the tests run."""
    parser.addoption(
        "--database",
        choices=[*BACKENDS, "both"],
        help="where all tests with a database run;"
        " default: on sqlite, and those with the mark postgresql on both",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with a database once on each kind that its mark or the option names.

    All fixtures with a database depend on ``backend``, the kind of the database.
    """
    if "backend" in metafunc.fixturenames:
        item = metafunc.definition
        wanted = metafunc.config.getoption("--database")
        if (only := item.get_closest_marker("only_on")) is not None:
            [wanted] = only.args
        elif wanted is None:
            wanted = "both" if item.get_closest_marker("postgresql") else "sqlite"
        backends = BACKENDS if wanted == "both" else [wanted]
        metafunc.parametrize("backend", backends, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests for mutmut."""
    if "MUTANT_UNDER_TEST" in os.environ:
        # mutmut runs the tests of a changed function until one fails: those without an app first
        items.sort(key=lambda item: len(getattr(item, "fixturenames", ())))


def pytest_make_parametrize_id(val: Any) -> str | None:
    """Return what names a case with a list, a date or another object, instead of its number."""
    if val is None or callable(val) or isinstance(val, (int, float, Enum)):
        return None  # pytest names it
    if isinstance(val, (str, bytes)):
        return ascii(val[:60]).strip("b'\"") if len(val) > 60 else None
    if isinstance(val, Mapping):
        val = [f"{name}={value}" for name, value in val.items()]
    if isinstance(val, Set):
        val = sorted(map(str, val))
    if isinstance(val, Sequence):
        val = " ".join(map(str, val)) or "empty"
    with suppress(ValueError):  # a number with too many digits
        # an object without a text of its own has another one in each process
        return None if " at 0x" in str(val) else ascii(str(val))[1:-1][:60]
    return None


def pytest_collection_finish() -> None:
    """Leave what exists until the end (modules, tests) out of the collections of garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    """Remove Flask's environment variables, which its command line sets, from each test."""
    with patch.dict(os.environ):
        for name in [name for name in os.environ if name.startswith("FLASK_")]:
            del os.environ[name]
        yield


@pytest.fixture(scope="session")
def history() -> History:
    """Whose tables are in new databases: those of an Archive, but of a resolver in its tests."""
    return ARCHIVE


@pytest.fixture
def uri(
    request: pytest.FixtureRequest, backend: str, history: History, tmp_path: Path
) -> Iterator[str]:
    """The URL of a new database.

    Our tables are in it already, but for tests with the mark ``no_tables`` that don't use ``app``.
    """
    marked = request.node.get_closest_marker("no_tables") is not None
    ready = "app" in request.fixturenames or not marked
    with new_database(backend, tmp_path, ready=ready, history=history) as url:
        yield url


@pytest.fixture
def new_app(uri: str, tmp_path: Path) -> Iterator[Callable[..., Flask]]:
    """Makes apps on the database, each with its own settings; not initialised."""
    made: list[Flask] = []

    def make(**config: Any) -> Flask:
        made.append(make_app(uri, tmp_path, **config))
        return made[-1]

    yield make
    for app in made:
        close(app)


@pytest.fixture
def app(new_app: Callable[..., Flask], uri: str) -> Flask:
    """An app with an Archive that is initialised and empty."""
    app = new_app()
    initialise(app, uri)
    return app


@pytest.fixture
def archive(app: Flask) -> Archive:
    """The Archive of the app."""
    return archive_of(app)


@pytest.fixture
def far(httpserver: HTTPServer) -> Far:
    """A server on another host than the Archive."""
    return Far(httpserver)
