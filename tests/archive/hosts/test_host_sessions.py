"""Operations in the transaction of a host: one commit saves both, a rollback removes both.

Some sessions of a host cannot be used, and transactions may block each other.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, appcontext_pushed
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import create_engine, event, func, make_url, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    scoped_session,
    sessionmaker,
)
from support.archives import SERVICE, archive_of, close, configure, make_app
from support.commands import command
from support.operations import DUBLIN_CORE, dump

from flask_ibi_archive import IBIArchive, ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.minting import Minter
from flask_ibi_archive.errors import (
    ConfigError,
    MintingError,
    NotReady,
    RuleBroken,
    StorageError,
)
from flask_ibi_archive.extension import StartError
from flask_ibi_archive.server.start import hide_password


class Base(DeclarativeBase):
    """The base class of the host's models."""


class Report(Base):
    """A model of the host, with the identifier of its item."""

    __tablename__ = "host_report"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    rep: Mapped[str | None]


class Host:
    """A host with its own engine, session and tables in the Archive's database."""

    def __init__(self, uri: str, folder: Path, kind: str = "scoped") -> None:
        url = make_url(uri)
        self.engine = create_engine(url)
        if url.get_backend_name() == "sqlite":
            with self.engine.connect() as connection:
                # the mode that SQLite uses by default
                connection.execute(text("PRAGMA journal_mode = DELETE"))
        # connections that are older than the Archive
        Base.metadata.create_all(self.engine)
        self.session = scoped_session(sessionmaker(self.engine))
        source = {
            "scoped": self.session,
            "callable": lambda: self.session(),
            "session": self.session(),
        }[kind]
        app = make_app(uri, folder, IBIArchive(session=source), IBI_DATABASE_TIMEOUT=1)
        self.archive: Archive = archive_of(app)
        self.archive.init()

    def reports(self) -> int:
        with self.engine.connect() as connection:
            return connection.execute(select(func.count()).select_from(Report)).scalar_one()

    def close(self) -> None:
        self.session.remove()
        self.engine.dispose()
        self.archive.database.close()


@pytest.fixture
def new_host(uri: str, tmp_path: Path) -> Iterator[Callable[..., Host]]:
    made: list[Host] = []

    def make(**options: object) -> Host:
        made.append(Host(uri, tmp_path, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for host in made:
        host.close()


@pytest.mark.postgresql
@pytest.mark.parametrize("kind", ["scoped", "callable", "session"])
def test_one_commit_saves_the_hosts_rows_and_ours_and_a_rollback_neither(
    new_host: Callable[..., Host], kind: str, tmp_path: Path
) -> None:
    host = new_host(kind=kind)
    (tmp_path / "a.txt").write_text("a")
    report = Report(name="annual")
    host.session.add(report)
    item = host.archive.deposit(ItemRecord(metadata=DUBLIN_CORE), [tmp_path / "a.txt"])
    report.rep = item.rep
    edition = host.archive.new_edition(item.rep, ItemRecord())
    assert host.archive.get(item.rep) is None  # not before the commit
    host.session.commit()
    found = host.archive.get(item.rep)
    assert found is not None
    assert found.record.next_edition == edition.rep
    assert host.reports() == 1

    before = dump(host.archive.database)
    host.session.add(Report(name="another"))
    host.archive.deposit(ItemRecord())
    host.archive.delete(item.rep, "gone")
    host.archive.reserve("a draft")
    host.session.rollback()
    assert dump(host.archive.database) == before
    assert host.reports() == 1


@pytest.mark.postgresql
def test_a_refused_operation_leaves_the_hosts_transaction_usable(
    new_host: Callable[..., Host],
) -> None:
    host = new_host()
    item = host.archive.deposit(ItemRecord(language="en"))
    host.session.add(Report(name="annual"))
    host.archive.add_translation(item.rep, ItemRecord(language="pt"))
    with pytest.raises(RuleBroken):
        host.archive.deposit(ItemRecord(language="fr", translations={"pt": item.rep}))
    host.archive.delete(item.rep, "gone")
    with pytest.raises(StorageError):
        host.archive.edit(item.rep, language="fr")
    host.session.commit()
    assert host.reports() == 1
    found = host.archive.get(item.rep)
    assert found is not None
    assert found.record.state == "Deleted"
    assert len(list(host.archive.find())) == 2


@pytest.mark.postgresql
@pytest.mark.parametrize("back", [0, 1, 3600], ids=["answer", "moment", "hour"])
def test_no_identifier_is_issued_twice_if_its_date_was_rolled_back(
    uri: str, new_host: Callable[..., Host], back: int
) -> None:
    """The next identifier is minted at the time of the answer, of the request, or before."""
    host = new_host()
    host.session.add(Report(name="annual"))
    host.session.flush()  # on SQLite, this blocks every other writer
    minter = host.archive.minter
    now = Fraction(1_287_587_640)  # a multiple of every granularity
    time = [now]
    minter.clock = lambda: time[0]
    minter.wait = lambda seconds: time.__setitem__(0, time[0] + Fraction(seconds))
    savepoint = host.session.begin_nested()
    given = [host.archive.deposit(ItemRecord()), host.archive.reserve()]
    savepoint.rollback()
    given.append(host.archive.deposit(ItemRecord()))
    host.session.rollback()
    after = now - back if back else time[0]
    for granularity in ("60", "1", "0.1", "0.01", "0.001", "0.0001"):
        later = Minter(
            host.archive.database,
            host.archive.minter.prefixes,
            Fraction(granularity),
            max_wait=10_000,
            clock=lambda: after,
            wait=lambda seconds: None,
        )
        with host.archive.database.writing() as connection:
            before = connection.execute(text("SELECT prefix AS p, last_date AS d FROM ibi_prefix"))
            dates = [dict(row) for row in before.mappings()]
        fresh = later.mint(5)
        assert not {one.rep for one in given} & {one.rep for one in fresh}
        assert not {one.ibip for one in given} & {one.ibip for one in fresh}
        with host.archive.database.writing() as connection:
            connection.execute(text("DELETE FROM ibi_prefix"))
            if dates:
                connection.execute(text("INSERT INTO ibi_prefix VALUES (:p, :d)"), dates)
    assert len({one.rep for one in given}) == 3


@pytest.mark.parametrize("content", ["", "soon", "1287587640.5\n"])
def test_a_damaged_file_of_the_last_date_stops_minting(
    uri: str, new_host: Callable[..., Host], content: str
) -> None:
    host = new_host()
    path = Path(f"{make_url(uri).database}-ibi-last-date")
    path.write_text(content)
    host.session.add(Report(name="annual"))
    for attempt in (
        host.archive.without_session().mint,
        lambda: host.archive.deposit(ItemRecord()),
    ):
        with pytest.raises(MintingError, match="if the clock was never set back") as told:
            attempt()
        assert str(path) in str(told.value)
        assert "\n" not in str(told.value)
        host.session.rollback()
        host.session.add(Report(name="annual"))
    path.unlink()
    host.archive.deposit(ItemRecord())
    host.session.commit()


def test_a_date_that_can_not_be_recorded_is_not_issued(
    new_host: Callable[..., Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = new_host()
    host.session.add(Report(name="annual"))

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(MintingError, match="No space left on device") as told:
            host.archive.deposit(ItemRecord())
        assert "-ibi-last-date" in str(told.value)
    host.archive.deposit(ItemRecord())
    host.session.commit()
    assert len(list(host.archive.find())) == host.reports() == 1


def test_a_reservation_is_used_once_within_and_without_the_hosts_transaction(
    new_host: Callable[..., Host],
) -> None:
    host = new_host()
    held = host.archive.reserve()
    host.session.commit()
    host.archive.deposit(ItemRecord(), reserved=held.rep)
    with pytest.raises(StorageError, match="already used"):
        host.archive.deposit(ItemRecord(), reserved=held.rep)
    host.session.rollback()
    host.archive.without_session().deposit(ItemRecord(), reserved=held.rep)
    with pytest.raises(StorageError, match="already used"):
        host.archive.release(held.rep)


# --- what is refused -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "advice"),
    [
        (lambda: scoped_session(sessionmaker(create_engine("sqlite://"))), "SQLite file"),
        (lambda: scoped_session(sessionmaker()), "bound to a database"),
    ],
    ids=["memory", "unbound"],
)
def test_a_session_that_will_not_do_stops_the_start(
    tmp_path: Path, source: Callable[[], object], advice: str
) -> None:
    app = Flask("host", instance_path=str(tmp_path))
    app.config.update(SECRET_KEY="a secret for tests", IBI_ARCHIVE_ADDRESS="a.br")
    with pytest.raises(ConfigError, match=advice):
        # a session without a database may get one until the Archive is used
        archive_of(IBIArchive(app, session=source()) and app)  # type: ignore[arg-type]


# --- sessions that cannot be used, and conflicts --------------------------------------------------


@pytest.fixture
def serve(uri: str, tmp_path: Path) -> Iterator[Callable[[Any], Archive]]:
    """Creates the Archive of a host that passes a session."""
    made: list[Flask] = []

    def make(session: Any) -> Archive:
        app = make_app(uri, tmp_path, IBIArchive(session=session))
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
    app, db = Flask("host", instance_path=str(tmp_path / "instance")), SQLAlchemy()
    configure(app, uri, tmp_path, SQLALCHEMY_DATABASE_URI=uri)
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
