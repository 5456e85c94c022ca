"""Connections to PostgreSQL whose waits end when the time budget of a request is spent.

This module is only imported if psycopg is installed.

libpq and psycopg offer a timeout for connecting (``connect_timeout``), but none for the answer to a
statement. The server applies ``statement_timeout``, but not if it hangs. ``tcp_user_timeout`` and
the keepalives do not help if the kernel of the server, or a proxy, still confirms that it received
the statement. Therefore :meth:`LimitedConnection.wait` extends the method with which psycopg waits
for all answers. This method is public, but it is not documented that psycopg resumes its generator
several times per second while there is no answer. Tested with psycopg 3.2.1 and 3.3.9;
``tests/archive/items/test_waiting.py`` fails if psycopg changes this.
"""

from __future__ import annotations

from collections.abc import Generator
from time import monotonic
from typing import Any

from psycopg import Connection, OperationalError

from flask_ibi_archive.server.database.request_budget import Budget, FindBudget, no_budget

#: The smallest timeout for connecting that libpq accepts, in seconds.
MIN_CONNECT_TIMEOUT = 2


class NoAnswer(OperationalError, TimeoutError):
    """The server did not answer in time."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(f"the database server did not answer within {budget.total:g} s")


class LimitedConnection(Connection[Any]):
    """A connection whose waits end when the time budget of the current request is spent."""

    find_budget: FindBudget = staticmethod(no_budget)

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        """Wait for an answer, at most until the budget of the current request is spent.

        After a timeout, the connection is closed, because a late answer may still arrive.

        :raises NoAnswer: if the budget is spent.
        """
        budget = self.find_budget()
        if budget is None:
            return super().wait(gen, *arguments, **options)
        try:
            with budget:
                return super().wait(_stop_at(budget, gen), *arguments, **options)
        except NoAnswer:
            self.close()
            raise


def _stop_at(budget: Budget, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Run the steps of psycopg until they end or the budget is spent.

    :param steps: the generator of psycopg. It yields what it waits for, and gets what is ready.
    """
    deadline = monotonic() + budget.left
    try:
        waits_for = next(steps)
        while True:
            ready = yield waits_for
            if monotonic() >= deadline:
                raise NoAnswer(budget)
            waits_for = steps.send(ready)
    except StopIteration as end:
        return end.value


def connect(find_budget: FindBudget, *arguments: Any, **options: Any) -> LimitedConnection:
    """Return a new connection.

    :param find_budget: a function that returns the time that the current request may wait. The
        function returns None outside of requests.
    :param arguments: the arguments of ``psycopg.connect``, and its options.
    :raises NoAnswer: if the budget is spent.
    """
    if (budget := find_budget()) is not None:
        if budget.left <= 0:
            raise NoAnswer(budget)
        # psycopg applies the timeout to each host
        hosts = str(options.get("host", "")).count(",") + 1
        options["connect_timeout"] = max(MIN_CONNECT_TIMEOUT, int(budget.left) // hosts)
    connection = LimitedConnection.connect(*arguments, **options)
    connection.find_budget = find_budget
    return connection
