"""Lets requests fail at once while a PostgreSQL server is silent.

Without this, each request would wait for the server until its timeout, and soon all threads of the
web server would wait. A server is *silent* after a request has waited in vain, if the server has
answered nobody in this process meanwhile. Then one request a second is let through as a test. It
waits only briefly for each sign of the server. The first answer to a statement ends the silence.

Each process finds this out for itself. There is no lock: if two requests begin a test at the same
moment, one more request waits briefly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import inf
from threading import get_ident
from time import monotonic

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

    :ivar patience: the number of seconds that a request waits for the next sign of the server. The
        server is silent if there is a limit.
    :ivar answers: the number of answers to statements. It tells whether there was one meanwhile.
    :ivar clock: returns the time in seconds.
    """

    clock: Callable[[], float] = staticmethod(monotonic)

    def __init__(self) -> None:
        self.patience = inf
        self.answers = 0
        self._next_test = -inf
        self._tester: int | None = None

    def check(self) -> None:
        """Return if the request of the current thread may wait for the server.

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

        :param answers: the number of answers when the wait began. If there were more meanwhile,
            only one statement takes too long.
        """
        if answers == self.answers:
            self.patience = PATIENCE
            self._tester = None


@cache
def find_breaker(database: str) -> Breaker:
    """Return the breaker of a database, which an Archive and a resolver in one process share."""
    return Breaker()
