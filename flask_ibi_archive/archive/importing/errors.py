"""What becomes of the errors that an import finds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from sqlalchemy import Connection

from flask_ibi_archive.errors import RecordError


class Errors:
    """The errors of an import: the first one ends it; or each is reported and its line is left out.

    :param report: called with each error; None: the first one is raised.
    :ivar lines: the numbers of the lines that are left out.
    """

    def __init__(self, report: Callable[[RecordError], None] | None = None) -> None:
        self._report = report
        self.lines: set[int] = set()

    @property
    def collects(self) -> bool:
        """Whether the import goes on after an error."""
        return self._report is not None

    def add(self, error: RecordError) -> None:
        """Report an error, or raise it."""
        if self._report is None:
            raise error
        self.lines.add(error.line)
        self._report(error)

    def undoing(self, connection: Connection) -> AbstractContextManager[object]:
        """Return a context in which an exception undoes what was written, if the import then goes
        on.
        """
        return connection.begin_nested() if self.collects else nullcontext()
