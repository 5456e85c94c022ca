"""Rule 4 with two transactions at the same time: no Copy remains without its Original."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from support.rows import REP, SECOND_SERVICE, SERVICE, Rows

from flask_ibi_archive.server.database.database import Database

Leave = Callable[[Rows, int], None]
LEAVES: dict[str, Leave] = {
    "marked": lambda rows, item: rows.set(item, state="Deleted"),
    "removed": lambda rows, item: rows.delete(item),
}
STRAY = (
    "SELECT count(*) FROM ibi_item copy WHERE copy.state = 'Copy' AND NOT EXISTS"
    " (SELECT 1 FROM ibi_item o WHERE o.rep = copy.rep AND o.state = 'Original')"
)


@pytest.mark.rule("R3-05")
@pytest.mark.postgresql
def test_in_either_order_no_Copy_remains_without_its_Original(uri: str) -> None:
    database = Database(uri)
    names = [f"{REP}.{number:02}" for number in range(40)]
    with database.writing() as connection:
        rows = Rows(connection)
        first, second = rows.archive(), rows.archive(SECOND_SERVICE)
        originals = [rows.item(first, name) for name in names]
    outcomes: list[Future[None]] = []
    with ThreadPoolExecutor(2) as pool:
        for number, (name, original) in enumerate(zip(names, originals, strict=True)):
            barrier = Barrier(2)
            leave = LEAVES["marked" if number % 2 else "removed"]
            outcomes += [
                pool.submit(make_copy, database, second, name, barrier),
                pool.submit(remove_original, database, leave, original, barrier),
            ]
    failed = [error for error in (outcome.exception() for outcome in outcomes) if error]
    with database.reading() as connection:
        assert connection.scalar(text(STRAY)) == 0
    # one of each two transactions is refused, but never by a deadlock
    assert [type(error) for error in failed] == [IntegrityError] * len(names)
    database.close()


def make_copy(database: Database, archive: int, rep: str, barrier: Barrier) -> None:
    with database.writing() as connection:
        if connection.dialect.name == "postgresql":
            barrier.wait(30)
        Rows(connection).copy(archive, SERVICE, rep=rep)


def remove_original(database: Database, leave: Leave, original: int, barrier: Barrier) -> None:
    with database.writing() as connection:
        if connection.dialect.name == "postgresql":
            barrier.wait(30)
        leave(Rows(connection), original)
