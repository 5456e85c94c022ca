"""Limits the time that a request waits for a database.

A database server that does not respond cannot apply its own timeouts. Therefore, each request has a
budget, and each wait of the request ends when the budget is spent: the wait for a connection, for a
lock, and for an answer (:mod:`.limited_connection`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

#: The default of IBI_DATABASE_TIMEOUT, in seconds.
DEFAULT_TIMEOUT = 5.0


class Budget:
    """The time that a request may wait for databases, in seconds.

    :ivar total: the time at the beginning of the request.
    """

    __slots__ = ("_deadline", "_left", "total")

    def __init__(self, seconds: float) -> None:
        self.total = self._left = seconds
        self._deadline: float | None = None

    @property
    def left(self) -> float:
        """The remaining time. It already decreases while a block of :meth:`spending` runs."""
        return self._left if self._deadline is None else self._deadline - monotonic()

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Subtract the time that the block takes from the budget.

        If blocks are nested, their time is subtracted only once.
        """
        if self._deadline is not None:
            yield
            return
        self._deadline = monotonic() + self._left
        try:
            yield
        finally:
            self._left, self._deadline = self.left, None


FindBudget = Callable[[], "Budget | None"]


def no_budget() -> None:
    """Return None, which means that commands may wait for any time."""
