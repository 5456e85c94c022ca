"""Find the figures of a run, and format them as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

#: In the order of the page.
DATABASES = ("sqlite", "postgresql")


class Figures:
    """The figures of a run.

    :param found: the output of ``python -m benchmarks``.
    """

    def __init__(self, found: dict[str, Any]) -> None:
        self.databases = [name for name in DATABASES if name in found["databases"]]
        self.comparable: dict[str, str] = found["comparable"]
        self._figures: list[dict[str, Any]] = found["figures"]

    def systems(self, row: str) -> list[str]:
        """Return the names of the systems that were measured, in their order."""
        return list(dict.fromkeys(one["system"] for one in self._figures if one["row"] == row))

    def find(self, row: str, system: str, database: str, name: str) -> float | None:
        """Return a figure; None if it was not measured."""
        for one in self._figures:
            if (one["row"], one["system"], one["database"]) == (row, system, database):
                value: float | None = one.get(name)
                return value
        return None


def format_number(value: float) -> str:
    """Return a number with three digits at least, and separators of thousands."""
    if isinstance(value, int) or value >= 100:
        return f"{value:,.0f}"
    digits = 4 if 1 <= value < 1.1 else 3  # so that it is seen that 1.034 is more than 1.03
    return f"{value:#.{digits}g}".rstrip(".")


def format_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table in reStructuredText."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    border = "  ".join("=" * width for width in widths)
    yield border
    yield format_cells(headings, widths)
    yield border
    for cells in rows:
        # an empty first cell would continue the previous row; other empty cells are fine
        yield format_cells(cells, widths)
    yield border
    yield ""


def format_cells(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return one line of a table."""
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(padded).rstrip()
