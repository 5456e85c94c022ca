"""Requests wait for answers, locks and connections for a limited time; commands have no limit."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from fractions import Fraction
from threading import local
from time import monotonic

import pytest
from sqlalchemy import text
from support.clocks import pass_in_time
from support.database_servers import relaying

from flask_ibi_archive.archive.items.minting import Minter, lock_last_date
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.server.database.database import Database

pytestmark = pytest.mark.postgresql

#: Seconds that a request may wait; seconds within which an expected failure must happen.
TIMEOUT = 1.0
LONG = 20
PREFIXES = "sid.inpe.br/mtc-m18", "8JMKD3MGP8W"
COUNT = text("SELECT count(*) FROM ibi_prefix")
ADD = text("INSERT INTO ibi_prefix VALUES ('a', '1')")
SLEEP = text("SELECT pg_sleep(:seconds)")


class Request:
    """The time that a statement of the current request may take, None outside of requests."""

    limit: float | None = None

    def begin(self, seconds: float = TIMEOUT) -> None:
        """Begin a request."""
        self.limit = seconds


@pytest.fixture
def request_() -> Request:
    """The current request."""
    return Request()


@pytest.fixture
def database(uri: str, request_: Request) -> Iterator[Database]:
    """A database that is used in requests and outside of them."""
    database = Database(uri, timeout=TIMEOUT, find_limit=lambda: request_.limit)
    yield database
    database.close()


def test_a_request_waits_shortly_for_a_lock(
    database: Database, uri: str, request_: Request
) -> None:
    other = Database(uri)
    request_.begin()
    began = monotonic()
    with other.writing() as holder:
        holder.execute(ADD)
        with (
            pytest.raises(NotReady, match="another transaction blocks this transaction"),
            database.writing() as connection,
        ):
            connection.execute(ADD)  # PostgreSQL waits for the row of the other transaction
    assert monotonic() - began < LONG
    other.close()


def test_a_command_waits_for_another_writer_before_it_mints(uri: str) -> None:
    database, other = Database(uri, timeout=0.1), Database(uri)
    minter = Minter(database, PREFIXES, Fraction(1, 1000))
    minter.mint()
    with ExitStack() as stack:
        lock_last_date(stack.enter_context(other.writing()), minter.prefixes)
        # a minter that does not wait would end before the lock is released
        with ThreadPoolExecutor() as pool:
            minted = pool.submit(minter.mint)
            wait([minted], timeout=0.2)
            stack.close()
            assert len(minted.result()) == 1
    database.close()
    other.close()


def test_a_request_waits_shortly_for_connections(database: Database, request_: Request) -> None:
    def take_all(stack: ExitStack) -> None:
        for _ in range(50):
            request_.begin()
            stack.enter_context(database.reading())

    with ExitStack() as stack, pytest.raises(NotReady, match="no connection is free"):
        take_all(stack)


@pytest.mark.slow
@pytest.mark.only_on("postgresql")
def test_a_request_that_waited_for_a_connection_waits_no_longer_for_the_server(uri: str) -> None:
    requests = local()

    def read(database: Database, timeout: float) -> float:
        requests.limit, began = timeout, monotonic()
        with pytest.raises(NotReady):
            database.read(lambda connection: connection.scalar(COUNT))
        return monotonic() - began

    def check(timeout: float) -> None:
        with relaying(uri) as (relay, through):
            database = Database(
                through, timeout=timeout, find_limit=lambda: getattr(requests, "limit", None)
            )
            relay.hangs = True
            with ThreadPoolExecutor(20) as pool:  # more threads than the pool has connections
                seconds = list(pool.map(read, [database] * 20, [timeout] * 20))
            database.close()
        assert max(seconds) < 1.9 * timeout

    # libpq may need two seconds to give up a connection
    pass_in_time(check, 4.0, 16.0, 64.0)


@pytest.mark.slow
@pytest.mark.only_on("postgresql")
def test_after_a_commit_without_answer_the_result_is_unknown(uri: str, request_: Request) -> None:
    with relaying(uri) as (relay, through):
        database = Database(through, timeout=TIMEOUT, find_limit=lambda: request_.limit)

        def write() -> None:
            with database.writing() as connection:
                connection.execute(ADD)
                relay.hangs = True

        request_.begin()
        with pytest.raises(NotReady, match="it is unknown whether the change was stored"):
            write()
        request_.begin()
        with pytest.raises(NotReady) as refusal, database.reading():
            pass
        assert "whether the change" not in str(refusal.value)
        database.close()


@pytest.mark.slow
@pytest.mark.only_on("postgresql")
def test_a_late_answer_is_not_returned_to_another_request(uri: str, request_: Request) -> None:
    with relaying(uri) as (relay, through):
        database = Database(through, timeout=TIMEOUT, find_limit=lambda: request_.limit)

        def read(value: int) -> int:
            return database.read(lambda one: int(one.scalar(text(f"SELECT {value}")) or 0))

        assert read(1) == 1
        request_.begin()
        relay.hangs = True
        with pytest.raises(NotReady):
            read(2)
        relay.hangs = False
        request_.limit = None
        assert read(3) == 3
        database.close()
