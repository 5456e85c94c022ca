"""The progress of an import: stored, so that it can be resumed, and reported."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import Enum
from operator import attrgetter

from sqlalchemy import (
    ColumnExpressionArgument,
    Connection,
    and_,
    delete,
    func,
    insert,
    select,
    update,
)

from flask_ibi_archive.archive.items.bulk import insert_rows
from flask_ibi_archive.archive.items.tables import Import, ImportLine, Item
from flask_ibi_archive.archive.items.translations import AssignedLanguage
from flask_ibi_archive.errors import RecordError, StorageError
from flask_ibi_archive.server.database.dialects import batched

#: The digest of an import that has not read any bytes yet.
NO_BYTES = ""


class Phase(str, Enum):
    """The phases of an import, in the order in which they are executed."""

    ITEMS = "items"
    #: Updated items are added again to groups of translations that records of other items define.
    LANGUAGES = "languages"
    #: The relations of the items are stored: next editions, translations and metadata.
    TIES = "ties"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class ImportState:
    """The progress of an import.

    The attributes are the columns of :class:`Import`, where they are explained. The id is 0 if the
    import is not stored yet.
    """

    id: int
    source: str
    on_conflict: str
    started_at: datetime
    newest_item: int = 0
    phase: Phase = Phase.ITEMS
    position: int = 0
    line: int = 0
    lines: int | None = None
    digest: str = NO_BYTES
    added: int = 0
    updated: int = 0
    skipped: int = 0


#: The columns that change during an import.
CHANGING = ("phase", "position", "line", "lines", "digest", "added", "updated", "skipped")
_get_changing = attrgetter(*CHANGING)


@dataclass(frozen=True, slots=True)
class PendingLine:
    """A line of an import file whose item is stored, but whose relations are not stored yet.

    :param line: the number of the line.
    :param replaced: True if the line replaced an item or a stub.
    :param has_references: True if the record of the line refers to other items.
    :param languages: the groups of translations that the item left when the line replaced it, with
        the languages that the records of other items state for the item.
    """

    line: int
    item_id: int
    replaced: bool
    has_references: bool
    languages: tuple[AssignedLanguage, ...] = ()


class ImportLog:
    """The stored imports of one Archive. The methods use the transaction of the caller."""

    def __init__(self, connection: Connection, archive_id: int) -> None:
        self._connection = connection
        self._archive_id = archive_id

    def find_unfinished(self) -> ImportState | None:
        """Return the import that can be resumed; None if there is no such import."""
        return self._find(Import.resumable)

    def find_finished(self, source: str) -> ImportState | None:
        """Return the last completed import if its file had this name, otherwise None."""
        return self._find(and_(Import.phase == Phase.DONE.value, Import.source == source))

    def _find(self, condition: ColumnExpressionArgument[bool]) -> ImportState | None:
        row = self._connection.execute(
            select(*(getattr(Import, column.name) for column in fields(ImportState))).where(
                Import.archive_id == self._archive_id, condition
            )
        ).first()
        if row is None:
            return None
        values = row._asdict()
        return ImportState(**{**values, "phase": Phase(values["phase"])})

    def begin(self, state: ImportState, resumable: bool, restart: bool = False) -> ImportState:
        """Store a new import and return its state.

        :param resumable: True if the import can be resumed after an interruption. The Archive has
            at most one such unfinished import.
        :param restart: with ``resumable``: True if an unfinished import is deleted first.
        :raises StorageError: with ``resumable`` and without ``restart``, if there is an unfinished
            import.
        """
        if resumable:
            unfinished = self.find_unfinished()
            if unfinished is not None and not restart:
                raise StorageError(f"another process continues the import of {unfinished.source}")
            if unfinished is not None:
                self.forget(unfinished)
            self._connection.execute(
                delete(Import).where(
                    Import.archive_id == self._archive_id, Import.phase == Phase.DONE.value
                )
            )
        newest = self._connection.execute(select(func.max(Item.id))).scalar() or 0
        import_id = self._connection.execute(
            insert(Import)
            .values(
                archive_id=self._archive_id,
                resumable=resumable,
                digest=NO_BYTES,
                source=state.source,
                on_conflict=state.on_conflict,
                started_at=state.started_at,
                newest_item=newest,
            )
            .returning(Import.id)
        ).scalar_one()
        return replace(state, id=import_id, newest_item=newest)

    def has_state(self, state: ImportState) -> bool:
        """Return whether the stored progress of an import is still the same.

        The result is False if another process has continued the import.
        """
        row = self._connection.execute(
            select(Import.phase, Import.position, Import.line).where(Import.id == state.id)
        ).first()
        return row is not None and tuple(row) == (state.phase.value, state.position, state.line)

    def save(self, state: ImportState) -> None:
        """Store the progress of an import."""
        values = dict(zip(CHANGING, _get_changing(state), strict=True))
        values["phase"] = state.phase.value
        self._connection.execute(update(Import).where(Import.id == state.id).values(values))

    def finish(self, state: ImportState) -> None:
        """Store that an import is complete, and delete its pending lines."""
        self._connection.execute(delete(ImportLine).where(ImportLine.import_id == state.id))
        self.save(replace(state, phase=Phase.DONE))
        self._connection.execute(
            update(Import).where(Import.id == state.id).values(resumable=False)
        )

    def forget(self, state: ImportState) -> None:
        """Delete an import and its pending lines."""
        self._connection.execute(delete(ImportLine).where(ImportLine.import_id == state.id))
        self._connection.execute(delete(Import).where(Import.id == state.id))

    # --- lines -----------------------------------------------------------------------------------

    def add_lines(self, state: ImportState, lines: Sequence[PendingLine]) -> None:
        """Store pending lines of an import."""
        insert_rows(
            self._connection,
            ImportLine,
            [
                {
                    "import_id": state.id,
                    "line": line.line,
                    "item_id": line.item_id,
                    "written": line.replaced,
                    "tied": line.has_references,
                    "told": _format_languages(line.languages),
                }
                for line in lines
            ],
        )

    def find_replaced(self, state: ImportState, items: Sequence[int]) -> set[int]:
        """Return the given items that lines of an import have replaced.

        :param items: the ids of the items to check.
        """
        found: set[int] = set()
        for batch in batched(items) if items else ():
            statement = select(ImportLine.item_id).where(
                ImportLine.import_id == state.id,
                ImportLine.item_id.in_(batch),
                ImportLine.written,
            )
            found.update(self._connection.scalars(statement))
        return found

    def read_languages(self, state: ImportState, limit: int) -> list[tuple[PendingLine, str]]:
        """Return the next pending lines that have languages, with the identifier of each item.

        :param limit: the largest number of lines.
        """
        rows = self._connection.execute(
            select(
                ImportLine.line,
                ImportLine.item_id,
                ImportLine.written,
                ImportLine.tied,
                ImportLine.told,
                func.coalesce(Item.rep, Item.ibip),
            )
            .join(Item, Item.id == ImportLine.item_id)
            .where(
                ImportLine.import_id == state.id,
                ImportLine.line > state.line,
                ImportLine.told.is_not(None),
            )
            .order_by(ImportLine.line)
            .limit(limit)
        )
        return [
            (PendingLine(line, item_id, written, tied, _parse_languages(told)), ibi)
            for line, item_id, written, tied, told, ibi in rows
        ]

    def read_references(self, state: ImportState, limit: int) -> dict[int, int]:
        """Return the next pending lines with references: the item id for each line number.

        :param limit: the largest number of lines.
        """
        rows = self._connection.execute(
            select(ImportLine.line, ImportLine.item_id)
            .where(ImportLine.import_id == state.id, ImportLine.line > state.line, ImportLine.tied)
            .order_by(ImportLine.line)
            .limit(limit)
        )
        return {row.line: row.item_id for row in rows}


def _format_languages(languages: Sequence[AssignedLanguage]) -> str | None:
    pairs = [[assigned.group, assigned.language] for assigned in languages]
    return json.dumps(pairs) if pairs else None


def _parse_languages(text: str | None) -> tuple[AssignedLanguage, ...]:
    return tuple(AssignedLanguage(group, language) for group, language in json.loads(text or "[]"))


#: For each phase: how much time a byte of the file takes, compared with the other phases.
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
        """Report the error, or raise the error if there is no function ``report``."""
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
