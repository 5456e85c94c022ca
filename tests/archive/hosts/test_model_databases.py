"""Models whose session uses several databases: binds, replicas, and translated schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from flask_sqlalchemy import SQLAlchemy
from flask_sqlalchemy.session import Session as FlaskSession
from sqlalchemy import insert, select
from sqlalchemy.orm import Mapped, mapped_column
from support.commands import command
from support.databases import read_only
from support.host_app import HostApp

from flask_ibi_archive import IdentifiedItem, ItemRecord
from flask_ibi_archive.archive.hosts import models, sync
from flask_ibi_archive.server.start import StartError


@pytest.fixture
def make(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    made: list[tuple[HostApp, Any]] = []

    def make_host(db: SQLAlchemy, bind_key: str | None = None, **config: Any) -> tuple[Any, Any]:
        host = HostApp(uri, tmp_path, db=db, **config)
        context = host.app.app_context()
        made.append((host, context))

        class Report(IdentifiedItem, db.Model):  # type: ignore[name-defined, misc]
            __tablename__ = "host_report"
            __bind_key__ = bind_key
            id: Mapped[int] = mapped_column(primary_key=True)
            title: Mapped[str]

            def ibi_record(self) -> ItemRecord:
                return ItemRecord(title=self.title)

        monkeypatch.setattr(models, "identified_models", {sa.inspect(Report)})
        monkeypatch.setitem(globals(), "Report", Report)  # for the names of models in commands
        Report.__module__, Report.__qualname__ = __name__, "Report"
        context.push()
        db.create_all(bind_key)
        host.archive.init()
        return host, Report

    yield make_host
    for host, context in made:
        host.session.remove()
        host.db.drop_all("archive" if "archive" in host.db.engines else None)
        context.pop()
        host.close()


def assert_that_commands_work(host: HostApp, report: Any) -> None:
    """Add a row, insert one in bulk, and adopt, compare and check both."""
    session = host.session
    session.add(report(title="first"))
    session.commit()
    deposited = host.archive.deposit(title="without a row")
    session.execute(insert(report).values(title="bulk"))
    session.commit()
    [line] = [line for line in command(host.app, "check").out.splitlines() if " rows: " in line]
    assert "1 rows of" in line
    assert "have no identifiers" in line
    found = list(sync.Sync(host.archive, report, adopt=True).run())
    assert [(one.kind, one.repaired) for one in found] == [("no identifier", True)]
    assert list(sync.Sync(host.archive, report).run()) == []
    lines = command(host.app, "check").out.splitlines()
    [line] = [line for line in lines if " rows: " in line]
    assert "has 2 rows and items; last rows that were compared: 2" in line
    assert "ok   session: operations on items can write with the session of the app" in lines
    titles = {item.ibi: item.title for item in host.archive.find()}
    rows = {row.ibi: row.title for row in session.scalars(select(report))}
    assert titles == {**rows, deposited.ibi: "without a row"}


def test_models_and_items_may_be_in_another_bind(make: Any, tmp_path: Path) -> None:
    binds = {"archive": f"sqlite:///{tmp_path}/archive.sqlite"}
    config = {"SQLALCHEMY_BINDS": binds, "IBI_DATABASE_BIND": "archive"}
    assert_that_commands_work(*make(SQLAlchemy(), "archive", **config))


class RoutingSession(FlaskSession):
    """Reads from a replica, as the documentation of SQLAlchemy shows it."""

    replica: sa.Engine
    knows_clauses = True

    def get_bind(self, mapper: Any = None, clause: Any = None, **options: Any) -> Any:
        is_change = isinstance(clause, sa.Update | sa.Delete) and self.knows_clauses
        if self._flushing or is_change or isinstance(clause, sa.Insert):
            return super().get_bind(mapper, clause=clause, **options)
        return self.replica


@pytest.mark.postgresql
def test_a_session_may_read_from_a_replica(
    make: Any, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What precedes a change is read where the change is written."""
    monkeypatch.setattr(RoutingSession, "replica", sa.create_engine(read_only(uri)), raising=False)
    host, report = make(SQLAlchemy(session_options={"class_": RoutingSession}))
    assert_that_commands_work(host, report)
    host.session.rollback()
    monkeypatch.setattr(RoutingSession, "knows_clauses", False)
    [line] = [line for line in command(host.app, "check").out.splitlines() if "session: " in line]
    assert line.startswith("FAIL session: the session can't write items: ")
    assert "must choose the one for writing if get_bind() gets an UPDATE" in line
    host.session.remove()
    RoutingSession.replica.dispose()


def test_a_translated_schema_is_refused_in_one_line(uri: str, tmp_path: Path) -> None:
    options = {"execution_options": {"schema_translate_map": {None: "tenant"}}}
    with pytest.raises(StartError) as refused:
        HostApp(uri, tmp_path, SQLALCHEMY_ENGINE_OPTIONS=options)
    [line] = refused.value.format_message().splitlines()
    assert line.startswith(
        "session is 'using schema_translate_map'; it should be a session without"
    )
