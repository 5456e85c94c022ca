"""Reports of an import: errors, progress and the counts of imported records."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from sqlalchemy import Connection

from flask_ibi_archive.archive.items.importing.import_rows import ImportState, Phase
from flask_ibi_archive.errors import RecordError

#: The relative time that a byte of the file takes in each phase.
COSTS = {Phase.ITEMS: 12, Phase.LANGUAGES: 1, Phase.TIES: 6}


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
    """The errors of an import. Either the first error is raised, or all errors are reported.

    :param report: a function that is called with each error. The line with the error is then
        ignored. None means that the first error is raised.
    :ivar lines: the numbers of the ignored lines.
    :ivar collects: whether all errors are reported.
    """

    def __init__(self, report: Callable[[RecordError], None] | None = None) -> None:
        self._report = report
        self.lines: set[int] = set()
        self.collects = report is not None

    def add(self, error: RecordError) -> None:
        """Report the error, or raise the error if no function ``report`` was given."""
        if self._report is None:
            raise error
        self.lines.add(error.line)
        self._report(error)

    def rolling_back_on_error(self, connection: Connection) -> AbstractContextManager[object]:
        """Return a context manager that rolls back the changes of its context after an error.

        If the first error ends the import, the context manager does nothing.
        """
        return connection.begin_nested() if self.collects else nullcontext()


class ImportProgress:
    """Reports the progress of an import. Each unit of work takes about the same time.

    :param size: the size of the file in bytes.
    :param report: a function that is called with the number of units of work that are done, and
        with the total number of units. None means that the progress is not reported.
    """

    def __init__(self, size: int, report: Callable[[int, int], None] | None) -> None:
        self._size = size
        self._report = report
        self._total = size * sum(COSTS.values())

    def report_state(self, state: ImportState) -> None:
        """Report the progress that an import has reached."""
        if self._report is None:
            return
        done = 0
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
