"""Sessions of a host that will not do, and transactions that others stand in the way of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import create_engine, event, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from support.archives import SERVICE, archive_of, close

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.errors import ConfigError, NotReady, StorageError
from flask_ibi_archive.records.record import ItemRecord
from flask_ibi_archive.service.archive import ArchiveService


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[Any], ArchiveService]]:
    """Makes the Archive of a host that brings a session."""
    made: list[Flask] = []

    def make(session: Any) -> ArchiveService:
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
    """Give a session on an engine of its own."""
    engine = create_engine(uri, **options)
    if engine.dialect.name == "sqlite":  # transactions begin when SQLAlchemy says so

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
    """An object that has a session and is none, as Flask-SQLAlchemy's ``db``."""


@pytest.mark.parametrize("source", [Db(), lambda: None, Db], ids=["db", "nothing", "another"])
def test_what_is_no_session_stops_the_start(
    serve: Callable[[Any], ArchiveService], source: Any
) -> None:
    with pytest.raises(ConfigError, match="a scoped_session") as refused:
        serve(source)
    assert refused.value.key == "session"


def test_a_session_that_commits_each_statement_by_itself_is_told_so_or_served_whole(
    uri: str, serve: Callable[[Any], ArchiveService]
) -> None:
    with session_of(uri, isolation_level="AUTOCOMMIT") as session:
        archive = serve(session)
        if uri.startswith("postgresql"):
            with pytest.raises(StorageError, match="autocommit mode"):
                archive.deposit(ItemRecord())
        else:  # there a transaction can be begun all the same
            item = archive.deposit(ItemRecord())
            session.rollback()
            assert archive.view(item.rep) is None


def test_who_works_on_what_another_has_changed_meanwhile_is_told_to_try_again(
    uri: str, serve: Callable[[Any], ArchiveService]
) -> None:
    options = {"isolation_level": "REPEATABLE READ"} if uri.startswith("postgresql") else {}
    with session_of(uri, **options) as session:
        archive = serve(session)
        item = archive.apart().deposit(ItemRecord())
        session.execute(text("SELECT count(*) FROM ibi_item")).all()
        archive.apart().edit(item.rep, language="en")
        with pytest.raises(NotReady, match="another transaction is in the way") as refused:
            archive.edit(item.rep, language="pt")
        assert "try again" in str(refused.value)
        session.rollback()
        archive.edit(item.rep, language="pt")
        session.commit()
        view = archive.view(item.rep)
        assert view is not None
        assert view.record.language == "pt"
