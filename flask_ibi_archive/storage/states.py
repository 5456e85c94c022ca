"""The states of an item ([R] 2, Figure 3.4)."""

from __future__ import annotations

from enum import Enum


class State(str, Enum):
    """The state of an identified item: one of three, nothing else ([R] 2)."""

    ORIGINAL = "Original"
    COPY = "Copy"
    DELETED = "Deleted"


#: Stands in the state column of a row that is no item of this Archive, only what its items refer to:
#: an identifier that lives elsewhere, or that nobody has brought here yet.
ELSEWHERE = "Elsewhere"
