"""Sessions of a host that cannot be used, and transactions that block each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, appcontext_pushed
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import create_engine, event, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from support.archives import SERVICE, archive_of, close
from support.commands import command

from flask_ibi_archive import IBIArchive, ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.errors import ConfigError, NotReady, StorageError
from flask_ibi_archive.extension import StartError
from flask_ibi_archive.server.start import hide_password


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[Any], Archive]]:
    """Creates the Archive of a host that passes a session."""
    made: list[Flask] = []

    def make(session: Any) -> Archive:
        app = Flask("host", instance_path=str(tmp_path / "instance"))
        app.config.update(
            SECRET_KEY="a secret for tests",
            IBI_FILES_FOLDER=str(tmp_path / "files"),
            IBI_ARCHIVE_ADDRESS="mtc-m16c.sid.inpe.br",
            IBI_ARCHIVE_SERVICE_IBI=SERVICE,
            IBI_ARCHIVE_IP="150.163.34.243",
        )
        IBIArchive(app, session=session)
        made.append(app)
        archive_of(app).init()
        return archive_of(app)

    yield make
    for app in made:
        close(app)


@contextmanager
def session_of(uri: str, **options: Any) -> Iterator[scoped_session[Session]]:
    """Return a session with its own engine."""
    engine = create_engine(uri, **options)
    if engine.dialect.name == "sqlite" and not options:  # let SQLAlchemy begin transactions

        @event.listens_for(engine, "connect")
        def _leave_alone(connection: Any, record: Any) -> None:
            connection.isolation_level = None

        @event.listens_for(engine, "begin")
        def _begin(connection: Any) -> None:
            connection.exec_driver_sql("BEGIN")

    session = scoped_session(sessionmaker(engine))
    yield session
    session.remove()
    engine.dispose()


class Db:
    """An object that has a session but is not one, like ``db`` of Flask-SQLAlchemy."""


@pytest.mark.parametrize("source", [Db(), lambda: None, Db], ids=["db", "nothing", "another"])
def test_a_value_that_is_not_a_session_stops_the_start(
    serve: Callable[[Any], Archive], source: Any
) -> None:
    with pytest.raises(ConfigError, match="a scoped_session") as refused:
        serve(source)
    assert refused.value.key == "session"


def test_an_archive_may_precede_the_database(uri: str, tmp_path: Path) -> None:
    app, db = bare_app(), SQLAlchemy()
    app.instance_path = str(tmp_path / "instance")
    app.config.update(
        SQLALCHEMY_DATABASE_URI=uri,
        IBI_FILES_FOLDER=str(tmp_path / "files"),
        IBI_ARCHIVE_ADDRESS="mtc-m16c.sid.inpe.br",
        IBI_ARCHIVE_SERVICE_IBI=SERVICE,
        IBI_ARCHIVE_IP="150.163.34.243",
    )
    ibi = IBIArchive(session=db.session)
    ibi.init_app(app)
    with app.app_context():
        pass  # another extension may need a context before the database is known
    db.init_app(app)
    assert command(app, "init").data == f"{SERVICE}\n"
    with app.app_context():
        item = ibi.archive.deposit(title="Report")
        db.session.commit()
        assert ibi.archive.get(item.rep) is not None
        db.session.remove()
        db.engine.dispose()
    assert app.test_client().get(f"/col/{item.rep}/").status_code == 200
    assert not list(appcontext_pushed.receivers_for(app))
    close(app)


def bare_app() -> Flask:
    """Return an app without extensions."""
    app = Flask("host")
    app.config["SECRET_KEY"] = "a secret for tests"
    return app


@pytest.mark.postgresql
def test_a_session_in_autocommit_mode_is_refused(uri: str, serve: Callable[[Any], Archive]) -> None:
    with session_of(uri, isolation_level="AUTOCOMMIT") as session:
        archive = serve(session)
        with pytest.raises(StorageError, match="autocommit mode"):
            archive.deposit(ItemRecord())
        assert not list(archive.without_session().find())


@pytest.mark.postgresql
def test_a_conflict_with_another_transaction_is_the_error_of_the_driver_or_has_advice(
    uri: str, serve: Callable[[Any], Archive]
) -> None:
    """Hosts that repeat transactions on PostgreSQL look at the sqlstate. SQLite has none."""
    is_postgresql = uri.startswith("postgresql")
    options = {"isolation_level": "REPEATABLE READ"} if is_postgresql else {}
    with session_of(uri, **options) as session:
        archive = serve(session)
        item = archive.without_session().deposit(ItemRecord())
        session.execute(text("SELECT count(*) FROM ibi_item")).all()
        archive.without_session().edit(item.rep, language="en")
        with pytest.raises(OperationalError if is_postgresql else NotReady) as refused:
            archive.edit(item.rep, language="pt")
        if isinstance(refused.value, OperationalError):
            assert getattr(refused.value.orig, "sqlstate", None) == "40001"
        else:
            assert "another transaction blocks this transaction" in str(refused.value)
            assert "try again" in str(refused.value)
        session.rollback()
        archive.edit(item.rep, language="pt")
        session.commit()
        view = archive.get(item.rep)
        assert view is not None
        assert view.record.language == "pt"


# --- IBI_DATABASE_URI with a session -----------------------------------------------------------


@pytest.mark.parametrize(
    ("bound", "given"),
    [
        ("sqlite:///{folder}/host.sqlite", "sqlite:///{folder}/other.sqlite"),
        ("postgresql://u:secret@h/x", "postgresql://u:secret@h/y"),
        ("postgresql://u:secret@h/x", "postgresql://u:secret@g/x"),
        ("postgresql://u:secret@h/x", "postgresql://u:secret@h:5433/x"),
        ("postgresql://u:secret@h/x", "postgresql://u:secret@h/x?options=-csearch_path%3Dy"),
    ],
)
def test_a_database_other_than_that_of_the_session_stops_the_start(
    tmp_path: Path, bound: str, given: str
) -> None:
    bound, given = bound.format(folder=tmp_path), given.format(folder=tmp_path)
    with pytest.raises(StartError) as refused:
        start(tmp_path, bound, given)
    assert str(refused.value) == (
        f"IBI_DATABASE_URI is {hide_password(given)!r}; it should be unset, or the URL of the "
        f"session's database: {hide_password(bound.replace('postgresql:', 'postgresql+psycopg:'))}"
    )
    assert "secret" not in str(refused.value)


def start(folder: Path, bound: str, given: str | None) -> Archive:
    """Start an app whose session is bound to a database, with IBI_DATABASE_URI set."""
    app = Flask("host", instance_path=str(folder))
    app.config.update(
        SECRET_KEY="a secret for tests", IBI_ARCHIVE_ADDRESS="a.br", IBI_DATABASE_URI=given
    )
    engine = create_engine(bound.replace("postgresql:", "postgresql+psycopg:"))
    IBIArchive(app, session=scoped_session(sessionmaker(engine)))
    return archive_of(app)
