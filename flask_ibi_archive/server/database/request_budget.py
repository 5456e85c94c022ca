"""Limits the time that a request waits for a database.

A database server that does not respond cannot apply its own timeouts. Therefore, each request has a
budget, and each wait of the request ends when the budget is spent: the wait for a connection, for a
lock, and for an answer (:mod:`.limited_connection`).
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

#: The default of IBI_DATABASE_TIMEOUT, in seconds.
DEFAULT_TIMEOUT = 5.0


class Budget:
    """The time that a request may wait for databases, in seconds.

    The time that a ``with`` block takes is subtracted from the budget. If blocks are nested, their
    time is subtracted only once.

    :ivar total: the budget at the beginning of the request.
    """

    __slots__ = ("_deadline", "_depth", "_left", "total")

    def __init__(self, seconds: float) -> None:
        self.total = self._left = seconds
        self._deadline = 0.0
        self._depth = 0

    @property
    def left(self) -> float:
        """The remaining time. It already decreases while a block runs."""
        return self._deadline - monotonic() if self._depth else self._left

    def __enter__(self) -> None:
        """Begin to subtract time."""
        if not self._depth:
            self._deadline = monotonic() + self._left
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        """Stop subtracting time at the end of the outer block."""
        self._depth -= 1
        if not self._depth:
            self._left = self._deadline - monotonic()


FindBudget = Callable[[], "Budget | None"]


def no_budget() -> None:
    """Return None, which means that commands may wait for any time."""
