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
    """The time that a request may wait for databases, and the remaining time, in seconds."""

    __slots__ = ("left", "total")

    def __init__(self, seconds: float) -> None:
        self.total = self.left = seconds

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
