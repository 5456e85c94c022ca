"""Long lists, a piece at a time: a statement takes so many parameters and no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

Value = TypeVar("Value")

#: Values of one statement; SQLite takes 32766 parameters, PostgreSQL 65535.
MANY = 5000


def pieces(values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """Return a list in pieces of :data:`MANY`."""
    for start in range(0, len(values), MANY):
        yield values[start : start + MANY]
