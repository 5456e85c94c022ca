"""Operations in the transaction of a host: one commit saves both, a rollback removes both.

Some sessions of a host cannot be used, and transactions may block each other.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import create_engine, func, insert, make_url, select, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from support.host_app import Host, Thesis
from support.operations import DUBLIN_CORE, dump, record_of

from flask_ibi_archive import IBIArchive, ItemRecord
from flask_ibi_archive.archive.items.minting import Minter
from flask_ibi_archive.errors import (
    ConfigError,
    MintingError,
    RuleBroken,
    StorageError,
)
from flask_ibi_archive.server.start import StartError, hide_password


@pytest.fixture
def host(new_host: Callable[..., Host]) -> Host:
    return new_host(IBI_DATABASE_TIMEOUT=1)


def block_writers(host: Host) -> None:
    """Write a row without an item: on SQLite, this blocks every other writer."""
    host.session.execute(insert(Thesis).values(title="annual"))


def rows(host: Host) -> int:
    with host.engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(Thesis)).scalar_one()


@pytest.mark.postgresql
@pytest.mark.parametrize("kind", ["scoped", "callable", "session"])
def test_one_commit_saves_the_hosts_rows_and_ours_and_a_rollback_neither(
    new_host: Callable[..., Host], uri: str, kind: str, tmp_path: Path
) -> None:
    engine = create_engine(uri)
    own = Session(engine)
    host = new_host(session={"scoped": None, "callable": lambda: own, "session": own}[kind])
    session = host.session if kind == "scoped" else own
    (tmp_path / "a.txt").write_text("a")
    session.execute(insert(Thesis).values(title="annual"))
    item = host.archive.deposit(ItemRecord(metadata=DUBLIN_CORE), [tmp_path / "a.txt"])
    edition = host.archive.new_edition(item.rep, ItemRecord())
    assert host.archive.get(item.rep) is None  # not before the commit
    session.commit()
    assert record_of(host.archive, item.rep).next_edition == edition.rep
    assert rows(host) == 1

    before = dump(host.archive.database)
    session.execute(insert(Thesis).values(title="another"))
    host.archive.deposit(ItemRecord())
    host.archive.delete(item.rep, "gone")
    host.archive.reserve("a draft")
    session.rollback()
    assert dump(host.archive.database) == before
    assert rows(host) == 1
    own.close()
    engine.dispose()


@pytest.mark.postgresql
def test_a_refused_operation_leaves_the_hosts_transaction_usable(
    host: Host,
) -> None:
    item = host.archive.deposit(ItemRecord(language="en"))
    block_writers(host)
    host.archive.add_translation(item.rep, ItemRecord(language="pt"))
    with pytest.raises(RuleBroken):
        host.archive.deposit(ItemRecord(language="fr", translations={"pt": item.rep}))
    host.archive.delete(item.rep, "gone")
    with pytest.raises(StorageError):
        host.archive.edit(item.rep, language="fr")
    host.session.commit()
    assert rows(host) == 1
    assert record_of(host.archive, item.rep).state == "Deleted"
    assert len(list(host.archive.find())) == 2


@pytest.mark.postgresql
@pytest.mark.parametrize("back", [0, 1, 3600], ids=["answer", "moment", "hour"])
def test_no_identifier_is_issued_twice_if_its_date_was_rolled_back(host: Host, back: int) -> None:
    """The next identifier is minted at the time of the answer, of the request, or before."""
    block_writers(host)
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


@pytest.mark.only_on("sqlite")
@pytest.mark.parametrize("content", ["", "soon", "1287587640.5\n"])
def test_a_damaged_file_of_the_last_date_stops_minting(uri: str, host: Host, content: str) -> None:
    path = Path(f"{make_url(uri).database}-ibi-last-date")
    path.write_text(content)
    for attempt in (
        host.archive.without_session().mint,
        lambda: host.archive.deposit(ItemRecord()),
    ):
        with pytest.raises(MintingError, match="if the clock was never set back") as told:
            attempt()
        assert str(path) in str(told.value)
        assert "\n" not in str(told.value)
        host.session.rollback()
    path.unlink()
    host.archive.deposit(ItemRecord())
    host.session.commit()


@pytest.mark.only_on("sqlite")
def test_a_date_that_can_not_be_recorded_is_not_issued(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    block_writers(host)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(MintingError, match="No space left on device") as told:
            host.archive.deposit(ItemRecord())
        assert "-ibi-last-date" in str(told.value)
    host.archive.deposit(ItemRecord())
    host.session.commit()
    assert len(list(host.archive.find())) == 1


def test_a_reservation_is_used_once_within_and_without_the_hosts_transaction(
    host: Host,
) -> None:
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
        (lambda: SQLAlchemy().session, r"call db.init_app\(app\) before ibi.init_app\(app\)"),
        (SQLAlchemy, "its attribute session, such as db.session"),
        (lambda: lambda: None, "a scoped_session"),
    ],
    ids=["memory", "unbound", "too early", "db", "nothing"],
)
def test_a_session_that_will_not_do_stops_the_start(
    tmp_path: Path, source: Callable[[], Any], advice: str
) -> None:
    app = Flask("host", instance_path=str(tmp_path))
    app.config.update(SECRET_KEY="a secret for tests", IBI_ARCHIVE_ADDRESS="a.br")
    with pytest.raises(ConfigError, match=advice):
        IBIArchive(app, session=source())


@pytest.mark.postgresql
def test_a_session_in_autocommit_mode_is_refused(new_host: Callable[..., Host]) -> None:
    host = new_host(savepoints=False, **engine_options(isolation_level="AUTOCOMMIT"))
    with pytest.raises(StorageError, match="autocommit mode"):
        host.archive.deposit(ItemRecord())
    assert not list(host.archive.without_session().find())


def engine_options(**options: Any) -> dict[str, Any]:
    return {"SQLALCHEMY_ENGINE_OPTIONS": options}


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
    app = Flask("host", instance_path=str(tmp_path))
    app.config.update(
        SECRET_KEY="a secret for tests", IBI_ARCHIVE_ADDRESS="a.br", IBI_DATABASE_URI=given
    )
    engine = create_engine(bound.replace("postgresql:", "postgresql+psycopg:"))
    with pytest.raises(StartError) as refused:
        IBIArchive(app, session=scoped_session(sessionmaker(engine)))
    assert str(refused.value) == (
        f"IBI_DATABASE_URI is {hide_password(given)!r}; it should be unset, or the URL of the "
        f"session's database: {hide_password(bound.replace('postgresql:', 'postgresql+psycopg:'))}"
    )
    assert "secret" not in str(refused.value)
