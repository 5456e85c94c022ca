"""Connections to PostgreSQL whose waits end after a time.

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
from time import monotonic
from typing import Any

from psycopg import Connection, OperationalError
from psycopg.errors import ConnectionTimeout

from flask_ibi_archive.server.database.breaker import Breaker, FindLimit


class NoAnswer(OperationalError, TimeoutError):
    """The server did not answer in time."""


class LimitedConnection(Connection[Any]):
    """A connection on which a request waits for each answer for a limited time.

    :func:`limit_connections` returns a subclass with the class variables.
    """

    find_limit: FindLimit
    breaker: Breaker

    @classmethod
    def connect(cls, *arguments: Any, **options: Any) -> Any:
        """Return a new connection.

        The parameters are those of ``psycopg.connect``.

        :raises ServerSilent: if the server became silent while the request waited for its turn.
        """
        answers = cls.breaker.answers
        if cls.find_limit() is not None:
            cls.breaker.check()
        try:
            return super().connect(*arguments, **options)
        except ConnectionTimeout:
            cls.breaker.note_timeout(answers)
            raise

    @classmethod
    def _connect_gen(cls, *arguments: Any, **options: Any) -> Any:
        limit, steps = cls.find_limit(), super()._connect_gen(*arguments, **options)
        return steps if limit is None else _stop_after(limit, cls.breaker, steps)

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        """Wait for an answer; a request waits for a limited time.

        After a timeout, the connection is closed, because a late answer may still arrive.

        :raises NoAnswer: if the time is over, or if a silent server remains silent.
        """
        limit = self.find_limit()
        steps = gen if limit is None else _stop_after(limit, self.breaker, gen)
        try:
            answer = super().wait(steps, *arguments, **options)
        except NoAnswer:
            self.close()
            raise
        self.breaker.note_answer()
        return answer


def _stop_after(
    limit: float, breaker: Breaker, steps: Generator[Any, Any, Any]
) -> Generator[Any, Any, Any]:
    """Run the steps of psycopg until they end, the time is over, or the server stays silent.

    :param limit: the time in seconds.
    :param steps: the generator of psycopg. It yields what it waits for, and gets what is ready.
    """
    answers, patience, sign_at = breaker.answers, breaker.patience, monotonic()
    deadline = sign_at + limit
    try:
        waits_for = next(steps)
        while True:
            ready = yield waits_for
            now = monotonic()
            if ready:
                sign_at = now
            if now >= min(deadline, sign_at + patience):
                breaker.note_timeout(answers)
                seconds = min(limit, patience)
                raise NoAnswer(f"the database server did not answer within {seconds:g} s")
            waits_for = steps.send(ready)
    except StopIteration as end:
        return end.value


def limit_connections(find_limit: FindLimit, breaker: Breaker) -> type[LimitedConnection]:
    """Return a class of connections for an engine."""
    members = {"find_limit": staticmethod(find_limit), "breaker": breaker}
    return type("LimitedConnection", (LimitedConnection,), members)
