"""What is remembered of an import that is under way: how far it is, and the lines it isn't done
with.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from enum import Enum

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

from flask_ibi_archive.storage.batches import pieces
from flask_ibi_archive.storage.links import ToldLanguage
from flask_ibi_archive.storage.models import Import, ImportLine, Item

#: What stands for the digest of no bytes.
NO_BYTES = ""


class Phase(str, Enum):
    """What an import does, one after the other."""

    ITEMS = "items"
    #: Puts items back into the groups of translations that other records put them in.
    LANGUAGES = "languages"
    TIES = "ties"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class ImportState:
    """How far an import is; its attributes are the columns of :class:`Import`."""

    id: int
    source: str
    on_conflict: str
    started_at: datetime
    newest_item: int
    phase: Phase = Phase.ITEMS
    position: int = 0
    line: int = 0
    lines: int | None = None
    digest: str = NO_BYTES
    added: int = 0
    updated: int = 0
    skipped: int = 0


#: The columns that change as an import goes on.
GOES_ON = ("phase", "position", "line", "lines", "digest", "added", "updated", "skipped")


@dataclass(frozen=True, slots=True)
class LineNote:
    """What is remembered of a line whose item is here.

    :param written: whether it was written over an item, or a mention of one.
    :param tied: whether its record speaks of other items.
    :param told: what others tell of the item's language.
    """

    line: int
    item_id: int
    written: bool
    tied: bool
    told: tuple[ToldLanguage, ...] = ()


class ImportLog:
    """The imports of one Archive that are under way, inside the caller's transaction."""

    def __init__(self, connection: Connection, archive_id: int) -> None:
        self._connection = connection
        self._archive_id = archive_id

    def unfinished(self) -> ImportState | None:
        """Return the import that can be resumed, if there is one."""
        return self._find(Import.resumable)

    def finished(self, source: str) -> ImportState | None:
        """Return the import of a file that was done last, if none that can be resumed was begun
        since.
        """
        return self._find(and_(Import.phase == Phase.DONE.value, Import.source == source))

    def _find(self, condition: ColumnExpressionArgument[bool]) -> ImportState | None:
        row = self._connection.execute(
            select(*(getattr(Import, one.name) for one in fields(ImportState))).where(
                Import.archive_id == self._archive_id, condition
            )
        ).first()
        if row is None:
            return None
        values = row._asdict()
        return ImportState(**{**values, "phase": Phase(values["phase"])})

    def begin(self, source: str, on_conflict: str, now: datetime, resumable: bool) -> ImportState:
        """Note that an import begins.

        :raises IntegrityError: if there is an unfinished one and it is to be resumable.
        """
        if resumable:
            self._connection.execute(
                delete(Import).where(
                    Import.archive_id == self._archive_id, Import.phase == Phase.DONE.value
                )
            )
        newest = self._connection.execute(select(func.max(Item.id))).scalar() or 0
        values = {
            "source": source,
            "on_conflict": on_conflict,
            "started_at": now,
            "newest_item": newest,
        }
        import_id = self._connection.execute(
            insert(Import)
            .values(archive_id=self._archive_id, resumable=resumable, digest=NO_BYTES, **values)
            .returning(Import.id)
        ).scalar_one()
        return ImportState(import_id, source, on_conflict, now, newest)

    def is_at(self, state: ImportState) -> bool:
        """Tell whether an import is as far as somebody knows it to be: nobody else went on with it."""
        row = self._connection.execute(
            select(Import.phase, Import.position, Import.line).where(Import.id == state.id)
        ).first()
        return row is not None and tuple(row) == (state.phase.value, state.position, state.line)

    def go_on(self, state: ImportState) -> None:
        """Note how far an import is now."""
        values = {name: getattr(state, name) for name in GOES_ON}
        self._connection.execute(
            update(Import)
            .where(Import.id == state.id)
            .values({**values, "phase": state.phase.value})
        )

    def finish(self, state: ImportState) -> None:
        """Note that an import that could be resumed is done."""
        self._connection.execute(delete(ImportLine).where(ImportLine.import_id == state.id))
        self.go_on(replace(state, phase=Phase.DONE))
        self._connection.execute(
            update(Import).where(Import.id == state.id).values(resumable=False)
        )

    def forget(self, state: ImportState) -> None:
        """Forget an import, and what is remembered of its lines."""
        self._connection.execute(delete(ImportLine).where(ImportLine.import_id == state.id))
        self._connection.execute(delete(Import).where(Import.id == state.id))

    # --- lines -----------------------------------------------------------------------------------

    def note(self, state: ImportState, notes: Sequence[LineNote]) -> None:
        """Note down lines that must be remembered."""
        if notes:
            self._connection.execute(
                insert(ImportLine),
                [
                    {
                        "import_id": state.id,
                        "line": one.line,
                        "item_id": one.item_id,
                        "written": one.written,
                        "tied": one.tied,
                        "told": _format_told(one.told),
                    }
                    for one in notes
                ],
            )

    def written_over(self, state: ImportState, items: Sequence[int]) -> set[int]:
        """Return those items that lines were written over."""
        return {
            item_id
            for piece in pieces(items)
            for item_id in self._connection.scalars(
                select(ImportLine.item_id).where(
                    ImportLine.import_id == state.id,
                    ImportLine.item_id.in_(piece),
                    ImportLine.written,
                )
            )
        }

    def told(self, state: ImportState, limit: int) -> list[tuple[LineNote, str]]:
        """Return the next lines that others tell the languages of, with the identifiers of their
        items.
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
            (LineNote(line, item_id, written, tied, _parse_told(told)), ibi)
            for line, item_id, written, tied, told, ibi in rows
        ]

    def tied(self, state: ImportState, limit: int) -> dict[int, int]:
        """Return the next lines that speak of other items, in order, with the rows of their items."""
        rows = self._connection.execute(
            select(ImportLine.line, ImportLine.item_id)
            .where(ImportLine.import_id == state.id, ImportLine.line > state.line, ImportLine.tied)
            .order_by(ImportLine.line)
            .limit(limit)
        )
        return {row.line: row.item_id for row in rows}


def _format_told(told: Sequence[ToldLanguage]) -> str | None:
    return json.dumps([[one.group, one.language] for one in told]) if told else None


def _parse_told(text: str | None) -> tuple[ToldLanguage, ...]:
    return tuple(ToldLanguage(group, language) for group, language in json.loads(text or "[]"))
