"""Operations in the transaction of a host: one commit saves both, a rollback removes both."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import create_engine, event, func, make_url, select, text
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    mapped_column,
    scoped_session,
    sessionmaker,
)
from support.archives import SERVICE, archive_of
from support.operations import DUBLIN_CORE, dump

from flask_ibi_archive import IBIArchive, ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.minting import Minter
from flask_ibi_archive.errors import (
    ConfigError,
    MintingError,
    RuleBroken,
    StorageError,
)


class Base(DeclarativeBase):
    """The base class of the host's models."""


class Report(Base):
    """A model of the host, with the identifier of its item."""

    __tablename__ = "host_report"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    rep: Mapped[str | None]


@pytest.fixture(params=["scoped", "callable", "session"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Host:
    """A host with its own engine, session and tables in the Archive's database."""

    def __init__(self, uri: str, folder: Path, kind: str = "scoped", **config: object) -> None:
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
        app = Flask("host", instance_path=str(folder / "instance"))
        app.config.update(
            SECRET_KEY="a secret for tests",
            IBI_FILES_FOLDER=str(folder / "files"),
            IBI_ARCHIVE_ADDRESS="mtc-m16c.sid.inpe.br",
            IBI_ARCHIVE_SERVICE_IBI=SERVICE,
            IBI_ARCHIVE_IP="150.163.34.243",
            IBI_DATABASE_TIMEOUT=1,
            **config,
        )
        IBIArchive(app, session=source)
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
def test_a_host_can_begin_its_transactions_itself(
    new_host: Callable[..., Host],
) -> None:
    host = new_host()
    if host.engine.dialect.name != "sqlite":
        return

    # as the documentation of SQLAlchemy advises for pysqlite
    @event.listens_for(host.engine, "connect")
    def connected(connection: object, record: object) -> None:
        connection.isolation_level = None  # type: ignore[attr-defined]

    @event.listens_for(host.engine, "begin")
    def begin(connection: object) -> None:
        connection.exec_driver_sql("BEGIN")  # type: ignore[attr-defined]

    host.session.remove()
    host.engine.dispose()
    item = host.archive.deposit(ItemRecord())
    host.session.rollback()
    assert host.archive.get(item.rep) is None
    item = host.archive.deposit(ItemRecord())
    host.session.commit()
    assert host.archive.get(item.rep) is not None


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
            before = connection.execute(text("SELECT prefix, last_date FROM ibi_prefix")).all()
        fresh = later.mint(5)
        assert not {one.rep for one in given} & {one.rep for one in fresh}
        assert not {one.ibip for one in given} & {one.ibip for one in fresh}
        with host.archive.database.writing() as connection:
            connection.execute(text("DELETE FROM ibi_prefix"))
            for prefix, date in before:
                connection.execute(
                    text("INSERT INTO ibi_prefix VALUES (:p, :d)"), {"p": prefix, "d": date}
                )
    assert len({one.rep for one in given}) == 3


@pytest.mark.parametrize("content", ["", "soon", "1287587640.5\n"])
def test_a_damaged_file_of_the_last_date_stops_minting(
    uri: str, new_host: Callable[..., Host], content: str
) -> None:
    if not uri.startswith("sqlite"):
        return
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
    uri: str, new_host: Callable[..., Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not uri.startswith("sqlite"):
        return
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
