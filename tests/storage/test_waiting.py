"""Requests wait for answers, locks and connections for a limited time; commands have no limit."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from contextvars import copy_context
from fractions import Fraction
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from psycopg import OperationalError
from sqlalchemy import Connection, text
from support.databases import new_database
from support.relay import relaying

from flask_ibi_archive.archive.minting import Minter, Subsystem
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.storage import migrate, prefixes, request_budget
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.engines import begin
from flask_ibi_archive.storage.prefixes import lock_last_date, transaction
from flask_ibi_archive.storage.request_budget import DEFAULT_TIMEOUT, Budget, Server, no_budget

#: Seconds that a request may wait; seconds within which an expected failure must happen.
TIMEOUT = 1.0
LONG = 20
SUBSYSTEM = Subsystem("mtc-m18.sid.inpe.br", "150.163.34.243")
COUNT = text("SELECT count(*) FROM ibi_prefix")
ADD = text("INSERT INTO ibi_prefix VALUES ('a', '1')")
SLEEP = text("SELECT pg_sleep(:seconds)")


class Request:
    """The budget of the current request, None outside of requests."""

    budget: Budget | None = None

    def begin(self, seconds: float = TIMEOUT) -> None:
        """Begin a request."""
        self.budget = Budget(seconds)


@pytest.fixture
def request_() -> Request:
    """The current request."""
    return Request()


@pytest.fixture
def database(uri: str, request_: Request) -> Iterator[Database]:
    """A database that is used in requests and outside of them."""
    database = Database.at(uri, timeout=TIMEOUT, find_budget=lambda: request_.budget)
    yield database
    database.close()


@pytest.fixture
def postgresql(tmp_path: Path) -> Iterator[str]:
    """The URL of a PostgreSQL database."""
    with new_database("postgresql", tmp_path, ready=True) as uri:
        yield uri


def test_a_request_waits_for_a_lock_for_a_limited_time(
    database: Database, uri: str, request_: Request
) -> None:
    other = Database.at(uri)
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
    assert request_.budget is not None
    assert request_.budget.left < TIMEOUT / 2
    other.close()


def test_a_command_waits_longer_than_requests(postgresql: str, request_: Request) -> None:
    database = Database.at(postgresql, timeout=0.2, find_budget=lambda: request_.budget)
    with database.writing() as connection:
        connection.execute(SLEEP, {"seconds": 0.3})
    database.close()


def test_minting_in_a_request_waits_for_a_lock_for_a_limited_time(
    database: Database, uri: str, request_: Request
) -> None:
    minter, other = Minter(database, SUBSYSTEM, Fraction(1, 1000)), Database.at(uri)
    minter.mint()
    request_.begin()
    with other.writing() as holder:
        lock_last_date(holder, minter.prefixes)
        with pytest.raises(NotReady, match="another transaction blocks this transaction"):
            minter.mint()
    assert request_.budget is not None
    assert request_.budget.left < TIMEOUT / 2
    other.close()


def test_a_command_waits_for_another_writer_before_it_mints(uri: str) -> None:
    database, other = Database.at(uri, timeout=0.1), Database.at(uri)
    minter = Minter(database, SUBSYSTEM, Fraction(1, 1000))
    minter.mint()
    with ExitStack() as stack:
        lock_last_date(stack.enter_context(other.writing()), minter.prefixes)
        # a minter that does not wait would end before the lock is released
        with ThreadPoolExecutor() as pool:
            minted = pool.submit(minter.mint)
            wait([minted], timeout=0.5)
            stack.close()
            assert len(minted.result()) == 1
    database.close()
    other.close()


def test_an_interrupt_at_the_begin_of_a_transaction_leaves_no_lock(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, other = Database.at(uri, timeout=0.1), Database.at(uri, timeout=0.1)

    def interrupted(connection: Connection, *arguments: Any) -> None:
        begin(connection, *arguments)
        lock_last_date(connection, SUBSYSTEM.prefixes)
        raise KeyboardInterrupt

    monkeypatch.setattr(prefixes, "begin", interrupted)
    with pytest.raises(KeyboardInterrupt), transaction(database):
        pass
    monkeypatch.undo()
    with other.writing(0.1) as connection:
        lock_last_date(connection, SUBSYSTEM.prefixes)
    database.close()
    other.close()


def test_a_transaction_that_cannot_begin_leaves_the_open_transaction_alone() -> None:
    database = Database.at("sqlite:///:memory:")  # its users share one connection
    with database.writing() as connection:
        migrate.upgrade(connection)
    with database.writing() as connection:
        connection.execute(ADD)
        with pytest.raises(NotReady, match="within a transaction"), transaction(database):
            pass
    with database.reading() as connection:
        assert connection.scalar(COUNT) == 1
    database.close()


def test_a_request_has_one_budget_for_all_statements(postgresql: str, request_: Request) -> None:
    database = Database.at(postgresql, timeout=TIMEOUT, find_budget=lambda: request_.budget)
    request_.begin(LONG)

    def sleep() -> None:
        with database.reading() as connection:
            connection.execute(SLEEP, {"seconds": 0.3})

    sleep()
    assert request_.budget is not None
    assert request_.budget.left <= LONG - 0.3
    request_.begin(0.2)
    with pytest.raises(NotReady, match="did not answer within 1 s"):
        sleep()
    # the server answers others: it is not down
    request_.begin(LONG)
    assert database.read(lambda connection: connection.scalar(COUNT)) == 0
    database.close()


class Simulation:
    """The time as the package sees it, and the tests of a server that it starts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.tests = 0
        monkeypatch.setattr(request_budget, "monotonic", lambda: self.now)
        monkeypatch.setattr(request_budget, "Thread", lambda **given: self)

    def start(self) -> None:
        """Start a test."""
        self.tests += 1

    def pass_time(self, *commands: Generator[Any, Any, Any]) -> None:
        """Let as much time pass as psycopg waits before it resumes commands without an answer."""
        self.now += 0.1
        for one in commands:
            one.send(0)


def wait_for_answer() -> Generator[Any, Any, str]:
    """Wait as a command of psycopg does; the answer is any value but 0."""
    while not (yield 1):
        pass
    return "an answer"


def test_a_request_waits_for_a_silent_server_for_less_than_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    simulation = Simulation(monkeypatch)
    server = Server(no_budget, DEFAULT_TIMEOUT)
    command = server.limit(wait_for_answer(), Budget(DEFAULT_TIMEOUT))
    next(command)
    while not simulation.tests:
        simulation.pass_time(command)
    test = server.limit(wait_for_answer(), Budget(server.test_timeout, is_test=True))
    next(test)
    with pytest.raises(OperationalError, match="did not answer within"):
        [simulation.pass_time(test) for _ in range(100)]
    server.is_down = True  # as after the test
    with pytest.raises(OperationalError, match="does not respond"):
        simulation.pass_time(command)
    assert simulation.now - 1000 < 1


def test_a_server_that_answers_another_command_is_not_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server with much to do may accept new connections late."""
    simulation = Simulation(monkeypatch)
    server = Server(no_budget, DEFAULT_TIMEOUT)
    command = server.limit(wait_for_answer(), Budget(DEFAULT_TIMEOUT))
    next(command)

    def connect(*arguments: object, **options: object) -> None:
        simulation.pass_time()
        with pytest.raises(StopIteration):
            command.send(1)
        raise server._no_answer("the server did not answer in time")

    monkeypatch.setattr(server, "_connection_class", SimpleNamespace(connect=connect))
    assert copy_context().run(server._is_answering)  # as in a thread of its own


def test_a_request_waits_for_a_free_connection_for_a_limited_time(
    database: Database, request_: Request
) -> None:
    def take_all(stack: ExitStack) -> None:
        for _ in range(50):
            request_.begin()
            stack.enter_context(database.reading())

    with ExitStack() as stack, pytest.raises(NotReady, match="no connection is free"):
        take_all(stack)
    assert request_.budget is not None
    assert request_.budget.left < TIMEOUT / 2


def test_after_a_commit_without_an_answer_the_result_is_unknown(
    postgresql: str, request_: Request
) -> None:
    with relaying(postgresql) as (relay, through):
        database = Database.at(through, timeout=TIMEOUT, find_budget=lambda: request_.budget)

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


def test_a_late_answer_is_not_returned_to_another_request(
    postgresql: str, request_: Request
) -> None:
    with relaying(postgresql) as (relay, through):
        database = Database.at(through, timeout=TIMEOUT, find_budget=lambda: request_.budget)

        def read(value: int) -> int:
            return database.read(lambda one: int(one.scalar(text(f"SELECT {value}")) or 0))

        assert read(1) == 1
        request_.begin()
        relay.hangs = True
        with pytest.raises(NotReady):
            read(2)
        relay.hangs = False
        request_.budget = None
        assert read(3) == 3
        database.close()
