"""Reports of an import: errors and progress while it runs, and the counts at the end."""

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
    """The numbers of records of a file that were added, updated and skipped."""

    added: int = 0
    updated: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class ImportResult(Counts):
    """The counts of all runs of an import.

    :param earlier: the counts of the earlier runs.
    """

    earlier: Counts = Counts()


class Errors:
    """The errors of an import, which raises the first error or reports all errors.

    :param report: called with each error, whose line is then ignored; None: the first error is
        raised.
    :ivar lines: the numbers of the lines that are ignored.
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
        """Return a context that, if the import continues, rolls back its changes after an error."""
        return connection.begin_nested() if self.collects else nullcontext()


class ImportProgress:
    """Reports how much of the work of an import is done, in units of about equal time.

    :param size: the size of the file in bytes.
    :param report: called with the number of units that are done, and their total number; None: the
        progress is not reported.
    """

    def __init__(self, size: int, report: Callable[[int, int], None] | None) -> None:
        self._size = size
        self._report = report
        self._total = size * (STAGING_COST + sum(COSTS.values()))

    def staged(self, position: int) -> None:
        """Report the number of bytes that were searched for files to add."""
        if self._report is not None:
            self._report(position * STAGING_COST, self._total)

    def reached(self, state: ImportState) -> None:
        """Report the state of an import."""
        if self._report is None:
            return
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
        if self._report is not None:
            self._report(self._total, self._total)
