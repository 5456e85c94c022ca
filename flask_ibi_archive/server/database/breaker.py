"""Let requests fail at once while a PostgreSQL server is silent.

Without this, each request would wait for the database server until a timeout, and soon all threads
of the web server would wait. A server is *silent* if a request has waited in vain, and no other
request of this process got an answer meanwhile. Then one request in each second is a test: it may
use the server, but waits only briefly for any reaction. The other requests fail. The first answer
to a statement ends the silence.

Each process finds this out for itself. There is no lock: if two requests begin a test at the same
moment, one more request waits briefly.

libpq and psycopg offer a timeout for connecting (``connect_timeout``), but none for the answer to a
statement. The server applies ``statement_timeout``, but not if it hangs. ``tcp_user_timeout`` and
the keepalives do not help if the kernel of the server, or a proxy, still confirms that it received
the statement. And the smallest ``connect_timeout``, two seconds, is too long for the test of a
silent server. Therefore :func:`limit_connections` overrides two methods of psycopg: ``wait``, which
is public, and ``_connect_gen``, which is not. It is also not documented that psycopg resumes its
generators several times per second while there is no answer. Tested with psycopg 3.2.1 and 3.3.9;
``test_breaker.py`` fails if psycopg changes this.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import cache
from math import inf
from threading import get_ident
from time import monotonic
from typing import Any

from sqlalchemy.exc import TimeoutError as PoolTimeoutError

#: Returns the number of seconds that the current request may wait for each answer of a database.
#: None: there is no current request, and commands may wait for any time.
FindLimit = Callable[[], "float | None"]

#: The number of seconds between two tests of a silent server.
PAUSE = 1.0
#: The number of seconds that a request waits for the next sign of a silent server, such as the next
#: step of the login. A distant server needs several of them for one connection.
PATIENCE = 0.5


class ServerSilent(PoolTimeoutError):
    """The request did not wait for the server, because other requests had waited in vain."""


class Breaker:
    """Decides whether a request may wait for a database server.

    :ivar patience: the number of seconds that a request waits for the next reaction of the server.
        It is infinite unless the server is silent.
    :ivar answers: the number of answers to statements so far. Two values show whether there was an
        answer in between.
    :ivar clock: returns the time in seconds.
    """

    clock: Callable[[], float] = staticmethod(monotonic)

    def __init__(self) -> None:
        self.patience: float = inf
        self.answers: int = 0
        self._next_test = -inf
        self._tester: int | None = None

    def check(self) -> None:
        """Check that the request of the current thread may wait for the server.

        :raises ServerSilent: if the server is silent and this request is not a test.
        """
        if self.patience == inf:
            return
        now = self.clock()
        if now >= self._next_test:
            self._next_test = now + PAUSE
            self._tester = get_ident()
        elif self._tester != get_ident():
            raise ServerSilent("it did not answer earlier requests")

    def note_answer(self) -> None:
        """Note that the server has answered a statement."""
        self.answers += 1
        self.patience = inf

    def note_timeout(self, answers: int) -> None:
        """Note that a request has waited in vain.

        :param answers: the value of :attr:`answers` when the wait began. If it has grown, the
            server answers others, and is not silent.
        """
        if answers == self.answers:
            self.patience = PATIENCE
            self._tester = None

    def limit_wait(
        self, limit: float | None, no_answer: type[Exception], steps: Generator[Any, Any, Any]
    ) -> Generator[Any, Any, Any]:
        """Run the steps of psycopg until they end, the time is over, or the server stays silent.

        :param limit: the number of seconds that the steps may take; None: any time.
        :param no_answer: the class of the error if the server did not answer in time.
        :param steps: a generator of psycopg. It yields the events that it waits for; the events
            that happened are sent to it.
        """
        if limit is None:
            return (yield from steps)
        answers, patience, sign_at = self.answers, self.patience, monotonic()
        deadline = sign_at + limit
        try:
            waits_for = next(steps)
            while True:
                ready = yield waits_for
                now = monotonic()
                if ready:
                    sign_at = now
                if now >= min(deadline, sign_at + patience):
                    self.note_timeout(answers)
                    seconds = min(limit, patience)
                    raise no_answer(f"the database server did not answer within {seconds:g} s")
                waits_for = steps.send(ready)
        except StopIteration as end:
            return end.value


@cache
def find_breaker(database: str) -> Breaker:
    """Return the breaker of a database; there is one for all users of a database in a process."""
    return Breaker()


def limit_connections(find_limit: FindLimit, breaker: Breaker) -> type[Any]:
    """Return a subclass of psycopg's Connection that waits for each answer for a limited time.

    psycopg must be installed.

    :param find_limit: returns the limit for the current request in seconds; None: there is none.
    """
    from psycopg import Connection, OperationalError
    from psycopg.errors import ConnectionTimeout

    class NoAnswer(OperationalError, TimeoutError):
        """The server did not answer in time."""

    class LimitedConnection(Connection[Any]):
        @classmethod
        def connect(cls, *arguments: Any, **options: Any) -> Any:
            """Return a new connection.

            The parameters are those of ``psycopg.connect``.

            :raises ServerSilent: if the server became silent while the request waited for its turn.
            """
            answers = breaker.answers
            if find_limit() is not None:
                breaker.check()
            try:
                return super().connect(*arguments, **options)
            except ConnectionTimeout:
                breaker.note_timeout(answers)
                raise

        @classmethod
        def _connect_gen(cls, *arguments: Any, **options: Any) -> Any:
            return breaker.limit_wait(
                find_limit(), NoAnswer, super()._connect_gen(*arguments, **options)
            )

        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
            """Wait for an answer; a request waits for a limited time.

            After a timeout, the connection is closed, because a late answer may still arrive.

            :raises NoAnswer: if the time is over, or if a silent server remains silent.
            """
            try:
                answer = super().wait(
                    breaker.limit_wait(find_limit(), NoAnswer, gen), *arguments, **options
                )
            except NoAnswer:
                self.close()
                raise
            breaker.note_answer()
            return answer

    return LimitedConnection
