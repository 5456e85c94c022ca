"""Open transactions of a host: which changes wait for them, for how long, and what they report.

On SQLite, writers never run at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session
from support.host_app import Host

from flask_ibi_archive.archive.items import stored_relations as locks
from flask_ibi_archive.errors import IBIError, NotReady

pytestmark = pytest.mark.only_on("postgresql")


@pytest.fixture
def host(uri: str, tmp_path: Any) -> Iterator[Host]:
    """A host with a plain model and four rows."""
    host = Host(uri, tmp_path)
    for title in ("On rain", "On snow", "On ice", "On hail"):
        host.add(title, language="en")
    yield host
    host.close()


CHANGES: dict[str, Callable[[Host, Session, Any], object]] = {
    "edit": lambda host, session, row: setattr(row, "title", "On wind"),
    "withdraw": lambda host, session, row: setattr(row, "state", "Deleted"),
    "delete": lambda host, session, row: session.delete(row),
    "add": lambda host, session, row: session.add(host.Thesis(title="On wind")),
}
RELATED: dict[str, Callable[[Host, Session, Any], object]] = {
    "edition": lambda host, session, row: session.add(host.Thesis(title="next", previous=row)),
    "translation": lambda host, session, row: session.add(
        host.Thesis(title="Chuva", language="pt", translated=row)
    ),
    "language": lambda host, session, row: setattr(row, "language", "fr"),
}


def change(host: Host, session: Session, key: int, work: Callable[..., object]) -> None:
    """Change a row in a session, and flush. Statements wait at most 2 seconds for locks."""
    session.execute(text("SET LOCAL lock_timeout = '2s'"))
    work(host, session, session.get(host.Thesis, key))
    session.flush()


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ("edit", "edition"),
        ("edit", "withdraw"),
        ("withdraw", "translation"),
        ("delete", "language"),
        ("add", "delete"),
    ],
)
def test_an_open_transaction_does_not_block_changes_of_other_rows(
    host: Host, own: str, other: str
) -> None:
    with Session(host.engine) as first, Session(host.engine) as second:
        change(host, first, 1, CHANGES[own])
        change(host, second, 2, {**CHANGES, **RELATED}[other])
        second.commit()
        first.commit()


@pytest.mark.parametrize("other", RELATED)
def test_changes_of_relations_wait_for_each_other_for_a_limited_time(
    host: Host, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "LOCK_WAIT", 0.1)
    with Session(host.engine) as first, Session(host.engine) as second:
        change(host, first, 1, RELATED["edition"])
        assert first.scalar(text("SHOW lock_timeout")) == "2s"
        with pytest.raises(NotReady, match=r"another transaction blocks .*end this transaction"):
            change(host, second, 2, RELATED[other])
        second.rollback()
        first.commit()
        change(host, second, 2, RELATED[other])
        second.commit()


def test_of_two_changes_that_make_a_circle_of_editions_one_is_refused(host: Host) -> None:
    barrier = Barrier(2)

    def link(key: int, previous: int) -> str:
        with host.app.app_context(), Session(host.engine) as session:
            row = session.get_one(host.Thesis, key)
            row.previous = session.get(host.Thesis, previous)
            barrier.wait(30)
            try:
                session.commit()
            except IBIError as error:
                return str(error)
            return ""

    with ThreadPoolExecutor(2) as threads:
        refused = list(threads.map(link, (1, 2), (2, 1)))
    assert sorted(map(bool, refused)) == [False, True]
    assert "circle" in "".join(refused)


def test_a_deadlock_reaches_the_host_as_the_error_of_the_driver(host: Host) -> None:
    ibis = [str(ibi) for ibi in host.session.scalars(select(host.Thesis.ibi_ibip))]
    host.session.rollback()
    barrier = Barrier(2)

    def edit(first: str, second: str) -> Any:
        with host.app.app_context():
            try:
                host.archive.edit(first, title="On wind")
                barrier.wait(30)
                host.archive.edit(second, title="On wind")
                host.session.commit()
            except OperationalError as error:
                return getattr(error.orig, "sqlstate", None)
            finally:
                host.session.remove()

    with ThreadPoolExecutor(2) as threads:
        found = list(threads.map(edit, ibis[:2], ibis[1::-1]))
    assert sorted(found, key=str) == ["40P01", None]
