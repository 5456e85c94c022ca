"""A host works with the extension exactly as it does without it.

Its connections, its session and its database are compared with those of the same app without the
extension, after the extension has worked in the session and has answered a resolver.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, event, inspect, make_url, text
from support.databases import new_database
from support.host_app import HostApp
from support.web import SERVICE_PATH, ask, query_of

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


def list_listeners(*targets: Any) -> list[list[str]]:
    """Return the names of the events that have listeners, also those of the class of a target."""
    return [
        [name for name in target.dispatch._event_names if [*getattr(target.dispatch, name)]]
        for target in targets
    ]


def use_archive(host: HostApp) -> None:
    """Let the extension work in the host's session, and answer a resolver."""
    host.archive.init()
    item = host.archive.deposit(title="Report")
    host.archive.edit(item.rep, title="Annual report")
    host.archive.delete(item.rep, "withdrawn")
    host.session.commit()
    host.archive.deposit(title="Report")
    host.session.rollback()
    question = [("servicesubject", "urlRequest"), ("clientinformation.ipaddress", "192.0.2.1")]
    query = query_of(*question, ("parsedibiurl.ibi", item.rep))
    assert ask(host.app, f"{SERVICE_PATH}?{query}").pairs["state"] == ("Deleted",)


def see(uri: str, folder: Path, has_archive: bool) -> dict[str, Any]:
    """Return all that a host sees of its connections and of its database."""
    folder.mkdir()
    if uri.startswith("sqlite"):
        uri = f"sqlite:///{folder / 'host.sqlite'}"
    engine = create_engine(uri)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE thesis (id INTEGER PRIMARY KEY, title TEXT)"))
        connection.execute(text("INSERT INTO thesis VALUES (1, 'On rain')"))
    engine.dispose()
    host = HostApp(uri, folder, has_archive=has_archive)
    with host.app.app_context():
        try:
            if has_archive:
                use_archive(host)
            engine, session = host.db.engine, host.session()
            seen: list[str] = []
            event.listen(engine, "before_cursor_execute", lambda *values: seen.append(values[2]))
            with session.begin_nested():
                session.execute(text("UPDATE thesis SET title = 'On snow'"))
            session.rollback()  # on SQLite, the driver has committed: the savepoint came first
            found = {
                "statements": seen,
                "listeners": list_listeners(engine, engine.pool),
                "in the session": describe_settings(session.connection()),
                "rows": session.execute(text("SELECT * FROM thesis")).all(),
            }
            session.rollback()
            with engine.connect() as connection:
                found["settings"] = describe_settings(connection)
                tables = inspect(connection).get_table_names()
                found["tables"] = [name for name in tables if not name.startswith("ibi_")]
            files = {path.name for path in folder.glob("host.sqlite*")}
            return {**found, "files": {name for name in files if "-ibi-" not in name}}
        finally:
            host.close()


@pytest.mark.postgresql
@pytest.mark.no_tables
def test_the_host_works_as_without_the_extension(uri: str, tmp_path: Path) -> None:
    backend = make_url(uri).get_backend_name()
    with new_database(backend, tmp_path) as other:
        alone = see(uri, tmp_path / "alone", False)
        assert see(other, tmp_path / "both", True) == alone


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
