"""Takes a batch of records into an Archive: what is new, and what is here already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.importing.errors import Errors
from flask_ibi_archive.archive.importing.source import Line
from flask_ibi_archive.archive.operations.updating import with_all_identifiers
from flask_ibi_archive.errors import RecordError, RuleBroken
from flask_ibi_archive.records.fields import FieldError
from flask_ibi_archive.records.parse import check_record
from flask_ibi_archive.records.record import ItemRecord
from flask_ibi_archive.storage.imports import ImportLog, ImportState, LineNote
from flask_ibi_archive.storage.items import Content, ItemStore
from flask_ibi_archive.storage.rules import explain
from flask_ibi_archive.storage.states import ELSEWHERE

#: The field of a record that a broken rule is about.
FIELD_OF_RULE = {4: "original_archive", 7: "next_edition", 8: "translations"}


def rule_error(name: str, line: int, error: RuleBroken, field: str | None = None) -> RecordError:
    """Return the error of a line whose record would break a rule."""
    return RecordError(name, line, field or FIELD_OF_RULE.get(error.rule), str(error))


def field_of(record: ItemRecord, text: str) -> str:
    """Return the field of a record that holds an identifier."""
    if text == record.rep:
        return "rep"
    return "ibip" if text == record.ibip else "aliases"


@dataclass
class ItemBatch:
    """A batch of lines that are taken in together, inside the caller's transaction.

    :param name: what messages call the file.
    :param contents: what was taken in of the files of the lines, by their numbers.
    :param errors: gets those of lines that can't be taken in.
    """

    store: ItemStore
    log: ImportLog
    state: ImportState
    name: str
    lines: Sequence[Line]
    contents: Mapping[int, Mapping[str, Content]]
    errors: Errors
    added: int = 0
    updated: int = 0
    skipped: int = 0
    _known: dict[str, tuple[int, str]] = field(default_factory=dict)
    #: Rows that lines of this file were written over.
    _written: set[int] = field(default_factory=set)
    _notes: list[LineNote] = field(default_factory=list)
    _fresh: list[Line] = field(default_factory=list)

    def take(self) -> None:
        """Write the items, but for what ties them to others, and note what is still to be done."""
        identifiers = [text for line in self.lines for text in line.record.identifiers]
        self._known = self.store.find_owners(identifiers)
        elsewhere = self.store.copies.find_originals_elsewhere(identifiers)
        self._written = self.log.written_over(
            self.state, sorted({item_id for item_id, _ in self._known.values()})
        )
        in_batch: dict[str, int] = {}
        for line in self.lines:
            try:
                self._check(line, in_batch, elsewhere)
                self._take_line(line)
            except RecordError as error:
                self.errors.add(error)
        ids = self.store.insert_items(
            [line.record for line in self._fresh],
            [self.contents.get(line.number, {}) for line in self._fresh],
            self.state.started_at,
        )
        self.added += len(ids)
        for line, item_id in zip(self._fresh, ids, strict=True):
            if line.record.has_references:
                self._notes.append(LineNote(line.number, item_id, written=False, tied=True))
        self.log.note(self.state, self._notes)

    def _check(self, line: Line, in_batch: dict[str, int], elsewhere: set[str]) -> None:
        record = line.record
        for text in record.identifiers:
            if text in in_batch:
                raise self._error(line, text, f"{text} stands in line {in_batch[text]} already")
            in_batch[text] = line.number
            if record.state == "Original" and text in elsewhere:
                broken = RuleBroken(3, text, "another Archive of the database holds the Original")
                raise rule_error(self.name, line.number, broken, field_of(record, text))
        try:
            self.store.copies.check_original_of(record)
        except RuleBroken as error:
            raise rule_error(self.name, line.number, error) from error

    def _take_line(self, line: Line) -> None:
        here = {self._known[text] for text in line.record.identifiers if text in self._known}
        if not here:
            self._fresh.append(line)
            return
        held = {item_id for item_id, state in here if state != ELSEWHERE}
        in_this_file = bool(held) and (
            max(held) > self.state.newest_item or not held.isdisjoint(self._written)
        )
        on_conflict = self.state.on_conflict
        if held and on_conflict == "skip" and not in_this_file:
            self.skipped += 1
            return
        self._refuse_service(line)
        if held and (on_conflict != "update" or len(held) > 1 or in_this_file):
            raise self._conflict(line, len(held), in_this_file)
        owners = {item_id for item_id, _ in here}
        try:
            with self.errors.undoing(self.store.connection):
                self._write_over(line, min(held or owners), owners, bool(held))
        except RuleBroken as error:
            raise rule_error(self.name, line.number, error) from error
        except FieldError as error:
            raise RecordError(self.name, line.number, error.field, error.reason) from error
        except IntegrityError as error:
            broken = explain(error, line.record.identifiers[0])
            raise (rule_error(self.name, line.number, broken) if broken else error) from error

    def _write_over(self, line: Line, item_id: int, owners: set[int], held: bool) -> None:
        """Write a line over an item, or over the mentions of one."""
        record = line.record
        if held:
            record = with_all_identifiers(record, self.store.reader.read_record(item_id))
            check_record(record)
            self.store.copies.check_no_copies(item_id, record)
            self.store.relations.remove(item_id)
        translations = self.store.relations.translations
        told = [translations.leave_for_update(owner) for owner in sorted(owners)]
        contents = self.contents.get(line.number, {})
        self.store.replace_item(item_id, record, contents, self.state.started_at)
        self.added, self.updated = self.added + (not held), self.updated + held
        self._written.add(item_id)
        self._notes.append(
            LineNote(
                line.number,
                item_id,
                written=True,
                tied=line.record.has_references,
                told=tuple(one for one in told if one is not None),
            )
        )

    def _refuse_service(self, line: Line) -> None:
        for text in line.record.identifiers:
            if text in self._known and self.store.is_service(self._known[text][0]):
                reason = f"{text} is the service of the Archive, which is not imported"
                raise self._error(line, text, reason)

    def _conflict(self, line: Line, owners: int, in_this_file: bool) -> RecordError:
        text = next(
            text
            for text in line.record.identifiers
            if self._known.get(text, (0, ELSEWHERE))[1] != ELSEWHERE
        )
        if owners > 1:
            reason = "its identifiers belong to several items of the Archive"
        elif in_this_file:
            reason = f"{text} stands in an earlier line already"
        else:
            reason = f"an item of the Archive bears {text} already (see --on-conflict)"
        return self._error(line, text, reason)

    def _error(self, line: Line, text: str, reason: str) -> RecordError:
        return RecordError(self.name, line.number, field_of(line.record, text), reason)
