"""Split many values into batches: a statement accepts a limited number of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

Value = TypeVar("Value")

#: Values of one statement; SQLite accepts 32766 parameters, PostgreSQL 65535.
MAX_VALUES = 5000


def batched(values: Iterable[Value], size: int = MAX_VALUES) -> Iterator[list[Value]]:
    """Yield the values in lists of a certain size; the last list may be shorter."""
    remaining = iter(values)
    while batch := list(islice(remaining, size)):
        yield batch
