"""Limits the time that a request waits for a database, with a circuit breaker for PostgreSQL.

A server that does not respond cannot apply its own timeouts, so this module checks the deadline. If
the server does not respond for some time, a thread tests it with another connection. If this test
gets no answer either, the server is down: until a test succeeds, requests fail immediately, so that
they do not occupy the threads of the web server.
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

#: The default of IBI_DATABASE_TIMEOUT. If the setting is lower, the next times are shorter too.
DEFAULT_TIMEOUT = 5.0
#: The seconds without an answer after which the server is tested.
SILENCE = 0.5
#: The seconds that a test may take.
TEST = 1.5
#: The seconds between two tests.
PAUSE = 0.5


class Budget:
    """The remaining seconds that a request, or a test of the server, may wait for databases."""

    __slots__ = ("is_test", "left")

    def __init__(self, seconds: float, *, is_test: bool = False) -> None:
        self.left = seconds
        self.is_test = is_test

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Subtract the time that the block takes; the time of nested blocks counts only once."""
        deadline = monotonic() + self.left
        try:
            yield
        finally:
            self.left = deadline - monotonic()


FindBudget = Callable[[], "Budget | None"]


def unlimited() -> None:
    """Return None: commands wait without a limit."""


_test: ContextVar[Budget | None] = ContextVar("ibi_database_test", default=None)


class Server:
    """The state of a PostgreSQL server, as this process has observed it.

    :param find_budget: returns the budget of the current request; None outside of requests.
    :param timeout: the seconds that a request may wait.
    """

    def __init__(self, find_budget: FindBudget, timeout: float) -> None:
        scale = min(1.0, timeout / DEFAULT_TIMEOUT)
        self.silence, self.test_timeout, self.pause = SILENCE * scale, TEST * scale, PAUSE * scale
        self.is_down = False
        self._find_budget = find_budget
        self._timeout = timeout
        self._answered_at = 0.0
        #: The id of the process whose thread tests the server; a forked process has no such thread.
        self._tested_by: int | None = None
        self._arguments: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
        self._connection_class, self._no_answer = _make_connection_class(self)

    def connect(self, *arguments: Any, **options: Any) -> psycopg.Connection[Any]:
        """Return a new connection; requests can open and use it only for a limited time."""
        self._arguments = arguments, options
        return self._connection_class.connect(*arguments, **options)

    def budget(self) -> Budget | None:
        """Return the time that the caller may wait now; None: without a limit.

        :raises OperationalError: in a request, while the server is down.
        """
        budget = _test.get() or self._find_budget()
        if budget is not None and self.is_down and not budget.is_test:
            self._test()
            raise self._no_answer("the server does not respond")
        return budget

    def limit(self, steps: Generator[Any, Any, Any], budget: Budget) -> Generator[Any, Any, Any]:
        """Run the steps of an exchange with the server until the budget is spent.

        :param steps: a generator of psycopg, which is resumed several times per second.
        :raises OperationalError: if the budget is spent, or the server turns out to be down.
        """
        began = monotonic()
        deadline = began + budget.left
        try:
            wanted = next(steps)
            while True:
                ready = yield wanted
                now = monotonic()
                if now >= deadline:
                    raise self._no_answer(f"no answer within {self._timeout:g} s")
                if not ready and not budget.is_test:
                    if self.is_down:
                        raise self._no_answer("the server does not respond")
                    if now - max(began, self._answered_at) >= self.silence:
                        self._test()
                wanted = steps.send(ready)
        except StopIteration as end:
            self._answered_at = monotonic()
            return end.value
        finally:
            budget.left = deadline - monotonic()

    def _test(self) -> None:
        """Start a test of the server, unless a test is running."""
        if self._tested_by != os.getpid():
            self._tested_by = os.getpid()
            Thread(target=self._test_until_answered, name="ibi-database-test", daemon=True).start()

    def _test_until_answered(self) -> None:
        try:
            while not self._answers():
                self.is_down = True
                sleep(self.pause)
            self.is_down = False
        finally:
            self._tested_by = None

    def _answers(self) -> bool:
        import psycopg

        _test.set(Budget(self.test_timeout, is_test=True))
        arguments, options = self._arguments
        try:
            with closing(self._connection_class.connect(*arguments, **options)) as connection:
                connection.execute("SELECT 1")
        except (self._no_answer, psycopg.errors.ConnectionTimeout):
            return False
        except psycopg.Error:  # a refusal is an answer too
            pass
        return True


def _make_connection_class(
    server: Server,
) -> tuple[type[psycopg.Connection[Any]], type[psycopg.Error]]:
    """Return a class of connections that wait until a deadline, and the class of their error."""
    import psycopg  # imported here, because it is only installed for PostgreSQL

    class NoAnswer(psycopg.OperationalError, TimeoutError):
        """The server did not answer in time."""

    class LimitedConnection(psycopg.Connection[Any]):
        """A connection that is closed after a timeout, because the answer may still arrive."""

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
