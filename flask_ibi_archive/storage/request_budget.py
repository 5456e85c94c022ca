"""Limits the time that a request waits for a database.

A database server that does not respond cannot apply its own timeouts. Therefore, this module checks
the deadline of each request.

For PostgreSQL, the module is also a circuit breaker. If the server does not respond for some time,
a thread tests the server with another connection. If neither the test nor any other command gets an
answer, the server is down. While the server is down, requests fail immediately and do not occupy
the threads of the web server. The thread repeats the test until the server answers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from threading import Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

#: The default of IBI_DATABASE_TIMEOUT, in seconds.
DEFAULT_TIMEOUT = 5.0
#: The server is tested when it has not answered for this number of seconds. If IBI_DATABASE_TIMEOUT
#: is less than a second, these three times are shortened in proportion. The first two times, and
#: the three tenths of a second that psycopg may take to notice, are less than a second.
MAX_SILENCE = 0.25
#: The maximum number of seconds that a test takes.
TEST_TIMEOUT = 0.4
#: The number of seconds between two tests.
TEST_PAUSE = 0.5


class Budget:
    """The remaining time that a request or a test may wait for databases, in seconds."""

    __slots__ = ("is_test", "left")

    def __init__(self, seconds: float, *, is_test: bool = False) -> None:
        self.left = seconds
        self.is_test = is_test

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Subtract the time that the block takes from the budget.

        If blocks are nested, their time is subtracted only once.
        """
        deadline = monotonic() + self.left
        try:
            yield
        finally:
            self.left = deadline - monotonic()


FindBudget = Callable[[], "Budget | None"]


def no_budget() -> None:
    """Return None, which means that commands may wait for any time."""


_test: ContextVar[Budget | None] = ContextVar("ibi_database_test", default=None)


class Server:
    """The state of a PostgreSQL server, as this process has observed it.

    :param find_budget: a function that returns the budget of the current request. Outside of
        requests, the function returns None.
    :param timeout: the number of seconds that a request may wait for the server.
    """

    def __init__(self, find_budget: FindBudget, timeout: float) -> None:
        scale = min(1.0, timeout)
        self.silence, self.test_timeout, self.pause = (
            MAX_SILENCE * scale,
            TEST_TIMEOUT * scale,
            TEST_PAUSE * scale,
        )
        self.is_down = False
        self._find_budget = find_budget
        self._timeout = timeout
        self._answered_at = 0.0
        #: The id of the process that has a thread for the test. A forked process does not inherit
        #: this thread.
        self._tested_by: int | None = None
        self._arguments: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
        self._connection_class, self._no_answer = _make_connection_class(self)

    def connect(self, *arguments: Any, **options: Any) -> psycopg.Connection[Any]:
        """Return a new connection, which waits at most for the budget of a request."""
        self._arguments = arguments, options
        return self._connection_class.connect(*arguments, **options)

    def budget(self) -> Budget | None:
        """Return the time that the caller may wait now.

        :returns: None if there is no time limit.
        :raises OperationalError: if the caller is a request and the server is down.
        """
        budget = _test.get() or self._find_budget()
        if budget is not None and self.is_down and not budget.is_test:
            self._start_test()
            raise self._no_answer("the database server does not respond")
        return budget

    def limit(self, steps: Generator[Any, Any, Any], budget: Budget) -> Generator[Any, Any, Any]:
        """Run a command until the server answers or the budget is spent.

        :param steps: the generator of psycopg that runs the command. Psycopg resumes the generator
            several times per second.
        :returns: the return value of the generator.
        :raises OperationalError: if the budget is spent, or if the server is down.
        """
        began = monotonic()
        deadline = began + budget.left
        try:
            wanted = next(steps)
            while True:
                ready = yield wanted
                now = monotonic()
                if now >= deadline:
                    raise self._no_answer(
                        f"the database server did not answer within {self._timeout:g} s"
                    )
                if not ready and not budget.is_test:
                    if self.is_down:
                        raise self._no_answer("the database server does not respond")
                    if now - max(began, self._answered_at) >= self.silence:
                        self._start_test()
                wanted = steps.send(ready)
        except StopIteration as end:
            self._answered_at = monotonic()
            return end.value
        finally:
            budget.left = deadline - monotonic()

    def _start_test(self) -> None:
        """Start a thread that tests the server, unless this thread is already running."""
        if self._tested_by != os.getpid():
            self._tested_by = os.getpid()
            Thread(target=self._test_until_answered, name="ibi-database-test", daemon=True).start()

    def _test_until_answered(self) -> None:
        """Repeat the test until the server answers."""
        try:
            while not self._is_answering():
                self.is_down = True
                sleep(self.pause)
            self.is_down = False
        finally:
            self._tested_by = None

    def _is_answering(self) -> bool:
        """Return whether the server answers the test, or another command meanwhile, in time."""
        import psycopg

        began = monotonic()
        _test.set(Budget(self.test_timeout, is_test=True))
        arguments, options = self._arguments
        try:
            with closing(self._connection_class.connect(*arguments, **options)) as connection:
                connection.execute("SELECT 1")
        except (self._no_answer, psycopg.errors.ConnectionTimeout):
            return self._answered_at > began
        except psycopg.Error:  # a server that refuses the connection has also answered
            pass
        return True


def _make_connection_class(
    server: Server,
) -> tuple[type[psycopg.Connection[Any]], type[psycopg.Error]]:
    """Return a class of connections with a deadline, and the error that these connections raise."""
    import psycopg  # imported here, because psycopg is only installed for PostgreSQL

    class NoAnswer(psycopg.OperationalError, TimeoutError):
        """The server did not answer in time."""

    class LimitedConnection(psycopg.Connection[Any]):
        """A connection with a deadline.

        After a timeout, the connection is closed, because a late answer may still arrive.
        """

        @classmethod
        def _connect_gen(cls, *arguments: Any, **options: Any) -> Any:
            budget = server.budget()
            steps = super()._connect_gen(*arguments, **options)
            return steps if budget is None else server.limit(steps, budget)

        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
            try:
                budget = server.budget()
                if budget is not None:
                    gen = server.limit(gen, budget)
                return super().wait(gen, *arguments, **options)
            except NoAnswer:
                self.pgconn.finish()
                raise

    return LimitedConnection, NoAnswer
