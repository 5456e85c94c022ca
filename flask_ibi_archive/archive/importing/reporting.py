"""What an import reports: errors and progress while it runs, and the number of items at the end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from sqlalchemy import Connection

from flask_ibi_archive.errors import RecordError
from flask_ibi_archive.storage.imports import ImportState, Phase

#: The relative cost of a byte of the file in each pass.
STAGING_COST = 1
COSTS = {Phase.ITEMS: 12, Phase.LANGUAGES: 1, Phase.TIES: 6}
#: Bytes of the file after which the first pass reports its progress.
STEP = 1 << 20


@dataclass(frozen=True, slots=True)
class Counts:
    """How many records of a file were added, updated and skipped."""

    added: int = 0
    updated: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class ImportResult(Counts):
    """The counts of all runs of an import.

    :param earlier: those of the runs before this one.
    """

    earlier: Counts = Counts()


class Errors:
    """The errors of an import: either the first one ends it, or all of them are reported.

    :param report: called with each error, whose line is then left out; None: the first error is
        raised.
    :ivar lines: the numbers of the lines that are left out.
    """

    def __init__(self, report: Callable[[RecordError], None] | None = None) -> None:
        self._report = report
        self.lines: set[int] = set()
        self.collects = report is not None

    def add(self, error: RecordError) -> None:
        """Report an error, or raise it."""
        if self._report is None:
            raise error
        self.lines.add(error.line)
        self._report(error)

    def undoing(self, connection: Connection) -> AbstractContextManager[object]:
        """Return a context that undoes what an error interrupts, if the import continues."""
        return connection.begin_nested() if self.collects else nullcontext()


class ImportProgress:
    """Reports how much of the work of an import is done; the number grows evenly over all passes.

    :param size: the bytes of the file.
    :param report: called with the units of work that are done, and with their total.
    """

    def __init__(self, size: int, report: Callable[[int, int], None]) -> None:
        self._size = size
        self._report = report
        self._total = size * (STAGING_COST + sum(COSTS.values()))

    def staged(self, position: int) -> None:
        """Report how many bytes were searched for files to add."""
        self._report(position * STAGING_COST, self._total)

    def reached(self, state: ImportState) -> None:
        """Report the state of an import."""
        done = self._size * STAGING_COST
        for phase, cost in COSTS.items():
            if phase is state.phase:
                break
            done += self._size * cost
        part = state.position
        if state.phase is Phase.LANGUAGES:
            part = self._size * state.line // (state.lines or 1)
        self._report(done + part * COSTS[state.phase], self._total)

    def finish(self) -> None:
        """Report that all work is done."""
        self._report(self._total, self._total)
