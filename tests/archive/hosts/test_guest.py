"""A host works with the extension exactly as it does without it.

The same steps run in an app without the extension and in the same app with it: migrations up and
down, deletes, bulk statements and plain SQL. After each step, what the step has returned, the data,
the schema, the settings of the host's connections and the files of the database are compared.
"""

from __future__ import annotations

import logging.config
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, delete, event, insert, inspect, make_url, select, text, update
from sqlalchemy.exc import SQLAlchemyError
from support.databases import new_database
from support.host_app import HostApp
from support.web import SERVICE_PATH, ask, query_of

pytestmark = pytest.mark.filterwarnings("ignore:'get_engine' is deprecated:DeprecationWarning")

FILE = """\
from alembic import op
import sqlalchemy as sa

revision, down_revision = "{number:03}", {before}
branch_labels = depends_on = None

def upgrade():
    {up}

def downgrade():
    {down}
"""


def change(table: str, *operations: str) -> str:
    """Return the code that changes a table in the batch mode of alembic."""
    body = "\n".join(f"        batch.{operation}" for operation in operations)
    return f'with op.batch_alter_table("{table}") as batch:\n{body}'


CREATE = """op.create_table("author",
        sa.Column("id", sa.Integer, primary_key=True), sa.Column("name", sa.String(80)))
    op.create_table("thesis",
        sa.Column("id", sa.Integer, primary_key=True), sa.Column("title", sa.String(80)),
        sa.Column("author_id", sa.Integer,
            sa.ForeignKey("author.id", name="fk_author", ondelete="CASCADE")))
    op.create_table("review",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("thesis_id", sa.Integer, sa.ForeignKey("thesis.id", name="fk_reviewed")))"""
DROP = "\n    ".join(f'op.drop_table("{name}")' for name in ("review", "thesis", "author"))
#: What each migration does, and what undoes it.
MIGRATIONS = [
    (CREATE, DROP),
    # as the guide names it: "Add identifiers"
    (
        change(
            "thesis",
            'add_column(sa.Column("ibi_rep", sa.String(255)))',
            'add_column(sa.Column("ibi_ibip", sa.String(255)))',
            'create_unique_constraint("uq_rep", ["ibi_rep"])',
            'create_unique_constraint("uq_ibip", ["ibi_ibip"])',
        ),
        change(
            "thesis",
            'drop_constraint("uq_ibip", type_="unique")',
            'drop_constraint("uq_rep", type_="unique")',
            'drop_column("ibi_ibip")',
            'drop_column("ibi_rep")',
        ),
    ),
]


class Host(HostApp):
    """A host with models, migrations and rows; with or without the extension."""

    def __init__(self, uri: str, folder: Path, has_archive: bool) -> None:
        super().__init__(uri, folder, has_archive=has_archive)
        integer, string = self.db.Integer, self.db.String

        class Author(self.db.Model):  # type: ignore[name-defined, misc]
            id = self.db.Column(integer, primary_key=True)
            name = self.db.Column(string(80))

        class Thesis(self.db.Model):  # type: ignore[name-defined, misc]
            id = self.db.Column(integer, primary_key=True)
            title = self.db.Column(string(80))
            author_id = self.db.Column(self.db.ForeignKey("author.id", ondelete="CASCADE"))
            author = self.db.relationship(Author, backref="theses")

        self.Author, self.Thesis = Author, Thesis
        self.flask("db", "init")
        versions = self.migrations / "versions"
        for number, (up, down) in enumerate(MIGRATIONS, 1):
            before = repr(f"{number - 1:03}") if number > 1 else None
            content = FILE.format(number=number, before=before, up=up, down=down)
            (versions / f"{number:03}.py").write_text(content)

    def flask(self, *words: str) -> tuple[int, str]:
        result = self.app.test_cli_runner().invoke(args=words)
        output = result.output.replace(str(self.folder), "")
        return result.exit_code, f"{output}{result.exception or ''}"

    def use_archive(self) -> None:
        """Let the extension work in the host's session, and answer a resolver."""
        if self.archive is None:
            return
        session = self.db.session
        item = self.archive.deposit(title="Report")
        self.archive.edit(item.rep, title="Annual report")
        self.archive.delete(item.rep, "withdrawn")
        session.commit()
        self.archive.deposit(title="Report")
        session.rollback()
        question = [("servicesubject", "urlRequest"), ("clientinformation.ipaddress", "192.0.2.1")]
        query = query_of(*question, ("parsedibiurl.ibi", item.rep))
        assert ask(self.app, f"{SERVICE_PATH}?{query}").pairs["state"] == ("Deleted",)

    def describe(self) -> dict[str, Any]:
        """Return all that a host sees of its database."""
        with self.db.engine.connect() as connection:
            names = [
                name for name in sorted(inspect(connection).get_table_names()) if is_theirs(name)
            ]
            found = {
                name: sorted(map(tuple, connection.execute(text(f"SELECT * FROM {name}"))), key=str)
                for name in names
            }
            return {
                "rows": found,
                "schema": describe_schema(connection),
                "settings": describe_settings(connection),
                "in the session": describe_settings(self.db.session.connection()),
                "files": sorted(
                    path.name for path in self.folder.glob("host.sqlite*") if is_theirs(path.name)
                ),
            }


def is_theirs(name: str) -> bool:
    """Return whether the name of a table, an index or a file is not one of ours."""
    return "ibi_" not in name.replace("ibi_rep", "").replace("ibi_ibip", "") and "-ibi-" not in name


def describe_schema(connection: Connection) -> list[object]:
    """Return the tables with their columns, indexes and constraints; on SQLite also triggers."""
    inspector = inspect(connection)
    parts = ("columns", "pk_constraint", "indexes", "foreign_keys", "unique_constraints",
             "check_constraints")  # fmt: skip
    found: list[object] = []
    for name in filter(is_theirs, sorted(inspector.get_table_names())):
        descriptions = [getattr(inspector, f"get_{part}")(name) for part in parts]
        # alembic writes constraints in any order
        found += [name, *(sorted(map(str, one)) for one in descriptions)]
        found.append(str(descriptions[0]))  # but columns have one
    if connection.dialect.name == "sqlite":
        names = connection.scalars(text("SELECT name FROM sqlite_master ORDER BY name"))
        found += [name for name in names if is_theirs(name) and name != "sqlite_sequence"]
    return found


PRAGMAS = [
    "foreign_keys", "journal_mode", "synchronous", "busy_timeout", "cache_size", "temp_store",
    "locking_mode", "defer_foreign_keys", "recursive_triggers", "query_only",
    "legacy_alter_table", "user_version", "application_id",
]  # fmt: skip


def describe_settings(connection: Connection) -> dict[str, Any]:
    driver: Any = connection.connection.dbapi_connection
    if connection.dialect.name == "sqlite":
        pragmas = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in PRAGMAS}
        return pragmas | {"isolation": driver.isolation_level, "factory": str(driver.row_factory)}
    settings = "SELECT name, setting FROM pg_settings WHERE source = 'session' ORDER BY name"
    # psycopg prepares what it runs often; our own names begin with ibi_
    prepared = text("SELECT name FROM pg_prepared_statements WHERE name LIKE 'ibi%'")
    return {
        **{row.name: row.setting for row in connection.execute(text(settings))},
        "prepared": connection.scalars(prepared).all(),
        "isolation": str(driver.isolation_level),
        "autocommit": driver.autocommit,
    }


# --- the steps -----------------------------------------------------------------------------------

Step = Callable[[Host], object]


def sql(statement: str) -> Step:
    def run(host: Host) -> object:
        with host.db.engine.begin() as connection:
            return connection.execute(text(statement)).rowcount

    return run


def flask(*words: str) -> Step:
    return lambda host: host.flask(*words)


def fill(host: Host) -> None:
    session = host.db.session
    session.execute(insert(host.Author), [{"id": n, "name": f"Author {n}"} for n in range(1, 6)])
    session.execute(
        insert(host.Thesis),
        [{"id": n, "title": f"Thesis {n}", "author_id": n % 5 + 1} for n in range(1, 21)],
    )
    session.execute(text("INSERT INTO review SELECT id, id FROM thesis WHERE id <= 5"))
    session.commit()


def add_with_the_session(host: Host) -> int:
    session = host.db.session
    session.add(host.Author(id=6, name="Six", theses=[host.Thesis(id=21, title="T")]))
    session.commit()
    return int(session.scalar(select(host.Thesis.author_id).where(host.Thesis.id == 21)))


def change_in_bulk(host: Host) -> object:
    session, thesis = host.db.session, host.Thesis
    deleted = session.execute(delete(thesis).where(thesis.id.in_([19, 20, 21])))
    updated = session.execute(update(thesis).values(title=thesis.title + "!"))
    session.commit()
    return deleted.rowcount, updated.rowcount


def release_first_savepoint(host: Host) -> None:
    """On SQLite, the driver commits: the savepoint is the first statement."""
    session = host.db.session
    with session.begin_nested():
        session.add(host.Author(id=7, name="Seven"))
    session.rollback()


def roll_back_to_savepoint(host: Host) -> None:
    session = host.db.session
    session.add(host.Author(id=8, name="Eight"))
    session.flush()
    savepoint = session.begin_nested()
    session.execute(delete(host.Thesis))
    savepoint.rollback()
    session.commit()


def read_while_writing(host: Host) -> object:
    """Return what a second connection sees, and whether it can write."""
    with host.db.engine.connect() as writer, host.db.engine.connect() as reader:
        writer.execute(text("UPDATE thesis SET title = 'busy' WHERE id = 2"))
        seen = reader.execute(text("SELECT title FROM thesis WHERE id = 2")).all()
        reader.rollback()
        writer.rollback()
        return seen


def count_listeners(host: Host) -> object:
    """Return the statements that the engine runs for a statement of the host."""
    seen: list[str] = []

    def note(connection: object, cursor: object, statement: str, *rest: object) -> None:
        seen.append(statement)

    event.listen(host.db.engine, "before_cursor_execute", note)
    try:
        host.db.session.scalars(select(host.Author.id)).all()
        host.db.session.commit()
    finally:
        event.remove(host.db.engine, "before_cursor_execute", note)
    return seen


def compare_with_models(host: Host) -> object:
    """Return what alembic would change, in any order."""
    status, output = host.flask("db", "check")
    return status, sorted(re.sub(r"0x[0-9a-f]+", "", output).split())


STEPS: list[Step] = [
    flask("db", "upgrade", "001"),
    fill,
    flask("db", "upgrade", "002"),
    flask("db", "downgrade", "001"),
    flask("db", "upgrade", "head"),
    add_with_the_session,
    count_listeners,
    sql("UPDATE thesis SET ibi_rep = title WHERE id < 4"),
    sql("DELETE FROM author WHERE id = 5"),  # with CASCADE
    sql("DELETE FROM thesis WHERE id = 1"),  # to which a review refers
    change_in_bulk,
    release_first_savepoint,
    roll_back_to_savepoint,
    read_while_writing,
    compare_with_models,
    flask("db", "downgrade", "base"),
    flask("db", "upgrade", "head"),
]


def run(uri: str, folder: Path, has_archive: bool) -> list[dict[str, Any]]:
    """Run all steps, and return what the host sees after each of them."""
    folder.mkdir()
    if uri.startswith("sqlite"):
        uri = f"sqlite:///{folder / 'host.sqlite'}"
    host = Host(uri, folder, has_archive)
    found = []
    with host.app.app_context():
        try:
            if has_archive:
                assert host.flask("ibi", "init")[0] == 0
            for step in STEPS:
                host.use_archive()
                try:
                    result = step(host)
                except SQLAlchemyError as error:
                    result = type(error).__name__, str(error)
                host.db.session.rollback()
                found.append({"result": result, **host.describe()})
                host.db.session.rollback()
        finally:
            host.close()
    return found


@pytest.mark.slow
@pytest.mark.no_tables
def test_the_host_works_as_without_the_extension(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.config, "fileConfig", lambda *arguments, **options: None)
    backend = make_url(uri).get_backend_name()
    with new_database(backend, tmp_path) as other:
        alone, accompanied = (
            [normalise(one, place) for one in run(place, tmp_path / name, has_archive)]
            for place, name, has_archive in ((uri, "alone", False), (other, "both", True))
        )
    for number, (one, both) in enumerate(zip(alone, accompanied, strict=True)):
        assert both == one, f"step {number}"


def normalise(seen: dict[str, Any], uri: str) -> dict[str, str]:
    database = str(make_url(uri).database)
    return {name: str(value).replace(database, "") for name, value in seen.items()}


LISTENERS = """
from sqlalchemy import Column, Integer
from sqlalchemy.orm import Session, SessionEvents, declarative_base
from flask_ibi_archive import {names}

def list_events():
    names = (name for name in vars(SessionEvents) if not name.startswith("_"))
    return sorted(name for name in names if list(getattr(session.dispatch, name, ())))

session = Session()
print(list_events())
Model = type("Model", (IdentifiedItem, declarative_base()),
             {{"__tablename__": "a", "id": Column(Integer, primary_key=True)}})
print(list_events())
"""


@pytest.mark.slow
@pytest.mark.parametrize("names", ["IBIArchive, IdentifiedItem", "IdentifiedItem"])
def test_sessions_have_listeners_once_the_host_has_a_model_with_identifiers(names: str) -> None:
    """The module of the models may be imported before that of the app."""
    command = [sys.executable, "-c", LISTENERS.format(names=names)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    listeners = ["after_flush_postexec", "before_flush", "persistent_to_deleted"]
    assert run.stdout == f"[]\n{listeners}\n"
