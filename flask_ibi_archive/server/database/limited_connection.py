"""Connections to PostgreSQL whose waits end when the time budget of a request is spent.

This module is only imported if psycopg is installed.

libpq and psycopg offer a timeout for connecting (``connect_timeout``), but none for the answer to a
statement. The server applies ``statement_timeout``, but not if it hangs. ``tcp_user_timeout`` and
the keepalives do not help if the kernel of the server, or a proxy, still confirms that it received
the statement. And the smallest ``connect_timeout`` is too long for the test of a silent server
(:mod:`.breaker`). Therefore :class:`LimitedConnection` extends the methods with which psycopg waits
for answers, and connects. Only the first is public, and it is not documented that psycopg resumes
its generators several times per second while there is no answer. Tested with psycopg 3.2.1 and
3.3.9; ``test_waiting.py`` and ``test_breaker.py`` fail if psycopg changes this.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import nullcontext
from time import monotonic
from typing import Any

from psycopg import Connection, OperationalError
from psycopg.errors import ConnectionTimeout

from flask_ibi_archive.server.database.breaker import Breaker
from flask_ibi_archive.server.database.request_budget import Budget, FindBudget

#: The smallest timeout for connecting that libpq accepts, in seconds.
MIN_CONNECT_TIMEOUT = 2


class NoAnswer(OperationalError, TimeoutError):
    """The server did not answer in time."""


class LimitedConnection(Connection[Any]):
    """A connection whose waits end when the time budget of the current request is spent.

    :func:`limit_connections` returns a subclass with the class variables.
    """

    find_budget: FindBudget
    breaker: Breaker

    @classmethod
    def connect(cls, *arguments: Any, **options: Any) -> Any:
        """Return a new connection.

        The parameters are those of ``psycopg.connect``.

        :raises NoAnswer: if the budget is spent.
        :raises ServerSilent: if the server became silent while the request waited for its turn.
        """
        answers = cls.breaker.answers
        if (budget := cls.find_budget()) is not None:
            if budget.left <= 0:
                raise _make_error(budget.total)
            cls.breaker.check()
            # psycopg applies the timeout to each host
            hosts = str(options.get("host", "")).count(",") + 1
            options["connect_timeout"] = max(MIN_CONNECT_TIMEOUT, int(budget.left) // hosts)
        try:
            return super().connect(*arguments, **options)
        except ConnectionTimeout:
            cls.breaker.note_timeout(answers)
            raise

    @classmethod
    def _connect_gen(cls, *arguments: Any, **options: Any) -> Any:
        budget, steps = cls.find_budget(), super()._connect_gen(*arguments, **options)
        return steps if budget is None else _stop_at(budget, cls.breaker, steps)

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        """Wait for an answer, at most until the budget of the current request is spent.

        After a timeout, the connection is closed, because a late answer may still arrive.

        :raises NoAnswer: if the budget is spent, or if a silent server remains silent.
        """
        budget = self.find_budget()
        steps = gen if budget is None else _stop_at(budget, self.breaker, gen)
        try:
            with budget or nullcontext():
                answer = super().wait(steps, *arguments, **options)
        except NoAnswer:
            self.close()
            raise
        self.breaker.note_answer()
        return answer


def _stop_at(
    budget: Budget, breaker: Breaker, steps: Generator[Any, Any, Any]
) -> Generator[Any, Any, Any]:
    """Run the steps of psycopg until they end, the budget is spent, or the server stays silent.

    :param steps: the generator of psycopg. It yields what it waits for, and gets what is ready.
    """
    answers, patience, sign_at = breaker.answers, breaker.patience, monotonic()
    deadline = sign_at + budget.left
    try:
        waits_for = next(steps)
        while True:
            ready = yield waits_for
            now = monotonic()
            if ready:
                sign_at = now
            if now >= min(deadline, sign_at + patience):
                breaker.note_timeout(answers)
                raise _make_error(min(budget.total, patience))
            waits_for = steps.send(ready)
    except StopIteration as end:
        return end.value


def _make_error(seconds: float) -> NoAnswer:
    return NoAnswer(f"the database server did not answer within {seconds:g} s")


def limit_connections(find_budget: FindBudget, breaker: Breaker) -> type[LimitedConnection]:
    """Return a class of connections for an engine.

    :param find_budget: a function that returns the time that the current request may wait. The
        function returns None outside of requests.
    """
    members = {"find_budget": staticmethod(find_budget), "breaker": breaker}
    return type("LimitedConnection", (LimitedConnection,), members)
