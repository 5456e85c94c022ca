"""The departmental app, as it is and embedded; each test has a database of its own."""

from __future__ import annotations

import importlib.util
import logging.config
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from flask import Flask
from sqlalchemy import create_engine, inspect, text
from support.archives import SERVICE, archive_of, close
from support.databases import EMPTYING, Schemas, why_no_postgresql

HERE = Path(__file__).parent
MODES = ("plain", "embedded")
VERSION_TABLES = ("alembic_version", "ibi_alembic_version")


@dataclass
class Built:
    """The files of the app with its migrations, and a migrated SQLite file."""

    folder: Path
    module: ModuleType
    database: Path


@dataclass
class Department:
    """An app of the department for one test; its context is not open."""

    module: Any
    folder: Path
    uri: str
    migrations: Path = Path()
    made: list[Flask] = field(default_factory=list)

    def create(self, **config: Any) -> Flask:
        """Return a new app on the database of the test."""
        app: Flask = self.module.create_app(
            instance_path=str(self.folder),
            SQLALCHEMY_DATABASE_URI=self.uri,
            UPLOADS=str(self.folder),
            IBI_FILES_FOLDER=str(self.folder / "files"),
            IBI_ARCHIVE_SERVICE_IBI=SERVICE,
            **config,
        )
        self.made.append(app)
        return app

    def close(self) -> None:
        """Close the connections of all apps."""
        for app in self.made:
            with app.app_context():
                self.module.db.session.remove()
                self.module.db.engine.dispose()
            if "ibi_archive" in app.extensions:
                close(app)


def run(app: Flask, *words: str) -> tuple[int, str]:
    """Run a command of flask, and return its exit status and its output."""
    result = app.test_cli_runner().invoke(args=words)
    return result.exit_code, f"{result.output}{result.exception or ''}"


def build(folder: Path, mode: str) -> Built:
    """Copy the app, embed an Archive unless the mode is "plain", and write the migrations."""
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("__pycache__", "*test*", "con*"))
    if mode != "plain":
        command = ["git", "apply", str(HERE / "embedding.diff")]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    if mode == "early":
        move_start(folder / "app.py")
    catalogue = folder / "translations/pt/LC_MESSAGES/messages.po"
    with catalogue.open("rb") as source, catalogue.with_suffix(".mo").open("wb") as target:
        write_mo(target, read_po(source))
    name = f"departmental_{mode}"
    spec = importlib.util.spec_from_file_location(name, folder / "app.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    department = Department(module, folder / "first", f"sqlite:///{folder / 'first.sqlite'}")
    app = department.create()
    migrations = folder / "migrations"
    assert run(app, "db", "init", "-d", str(migrations))[0] == 0
    shutil.copytree(folder / "versions", migrations / "versions", dirs_exist_ok=True)
    migrate(app, migrations, mode)
    department.close()
    return Built(folder, module, folder / "first.sqlite")


def move_start(file: Path) -> None:
    """Let the app start the Archive before all other extensions but its database."""
    text, start, database = file.read_text(), "    ibi.init_app(app)\n", "    db.init_app(app)\n"
    assert text.count(start) == text.count(database) == 1
    file.write_text(text.replace(start, "").replace(database, database + start))


def migrate(app: Flask, migrations: Path, mode: str) -> None:
    """Bring the database up to date as the page about embedding says."""
    folder = ("-d", str(migrations))
    assert run(app, "db", "upgrade", *folder)[0] == 0
    if mode != "plain":
        if len(list((migrations / "versions").glob("*.py"))) == 2:
            assert run(app, "db", "migrate", "-m", "Add identifiers", *folder)[0] == 0
            assert run(app, "db", "upgrade", *folder)[0] == 0
        assert run(app, "ibi", "init") == (0, f"{SERVICE}\n")


@pytest.fixture(autouse=True, scope="session")
def _loggers_stay() -> Iterator[None]:
    """Keep the loggers of pytest, which env.py of Flask-Migrate would replace."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.config, "fileConfig", lambda *arguments, **options: None)
        yield


@pytest.fixture(scope="session")
def built(
    tmp_path_factory: pytest.TempPathFactory, _loggers_stay: None
) -> Iterator[Callable[[str], Built]]:
    """Return the files of the app in a mode."""
    found: dict[str, Built] = {}

    def find(mode: str) -> Built:
        if mode not in found:
            found[mode] = build(tmp_path_factory.mktemp("departmental") / mode, mode)
        return found[mode]

    yield find
    for mode in found:
        sys.modules.pop(f"departmental_{mode}")


@pytest.fixture(scope="session")
def schemas(built: Callable[[str], Built]) -> Iterator[Callable[[str], str]]:
    """Return a function that empties the PostgreSQL schema of a mode, and returns its URL."""
    made: dict[str, str] = {}

    def find(mode: str) -> str:
        found = built(mode)
        if mode not in made:
            made[mode] = Schemas.of_this_run().take(ready=False)
        uri = Schemas.of_this_run().url(made[mode])
        engine = create_engine(uri)
        with engine.begin() as connection:
            names = set(inspect(connection).get_table_names()) - set(VERSION_TABLES)
            deletes = "; ".join(f'DELETE FROM "{name}"' for name in names) or "NULL"
            connection.execute(text(EMPTYING.format(schema=made[mode], deletes=deletes)))
        engine.dispose()
        department = Department(found.module, found.folder / "postgresql", uri)
        app = department.create()
        if names:
            if mode != "plain":
                archive_of(app).init()
        else:
            migrate(app, found.folder / "migrations", mode)
        department.close()
        return uri

    yield find
    for schema in made.values():
        Schemas.of_this_run().give_back(schema, ready=False)


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    """Whether the app embeds an Archive; each test runs in both modes, or names one."""
    return str(request.param)


@pytest.fixture
def department(
    request: pytest.FixtureRequest,
    backend: str,
    mode: str,
    built: Callable[[str], Built],
    tmp_path: Path,
) -> Iterator[Department]:
    """The app of the department with an empty database."""
    found = built(mode)
    if backend == "sqlite":
        path = shutil.copy(found.database, tmp_path / "department.sqlite")
        uri = f"sqlite:///{path}"
    else:
        why = why_no_postgresql()
        if why is not None:
            pytest.skip(why)
        uri = request.getfixturevalue("schemas")(mode)
    department = Department(found.module, tmp_path, uri, found.folder / "migrations")
    yield department
    department.close()


@pytest.fixture
def app(department: Department) -> Iterator[Flask]:
    """An app of the department, in whose context the test runs."""
    app = department.create()
    with app.app_context():
        yield app
