"""Writes the items of a batch of lines.

New items are inserted together. The option --on-conflict determines what is done with items that
already exist.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.items.daily_counts import replace_counts
from flask_ibi_archive.archive.items.identifiers import find_owners_and_originals
from flask_ibi_archive.archive.items.importing.source import Errors, Line
from flask_ibi_archive.archive.items.items import ItemStore
from flask_ibi_archive.archive.items.keys import KeyHolder, find_holders
from flask_ibi_archive.archive.items.locks import lock_items
from flask_ibi_archive.archive.items.operations.context import note_import
from flask_ibi_archive.archive.items.operations.updating import with_all_identifiers
from flask_ibi_archive.archive.items.rules import RULES, find_broken_rule
from flask_ibi_archive.archive.items.same_as import explain_taken, find_all_holders, keep_same_as
from flask_ibi_archive.core.identifiers.foreign import parse_foreign
from flask_ibi_archive.core.protocol.states import ELSEWHERE, State
from flask_ibi_archive.core.records.fields import FieldError, quoted
from flask_ibi_archive.core.records.parse import check_record
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.core.records.switches import DailyCount
from flask_ibi_archive.errors import RecordError, RuleBroken

#: For the number of a rule: the field of a record that must be corrected if the rule is broken.
FIELD_OF_RULE = {4: "original_archive", 7: "next_edition", 8: "translations"}


def rule_error(name: str, line: int, error: RuleBroken, field: str | None = None) -> RecordError:
    """Return the error for a line whose record breaks a rule.

    :param name: the name of the file in messages.
    :param line: the number of the line.
    :param field: the wrong field; None if the field follows from the number of the rule.
    """
    return RecordError(name, line, field or FIELD_OF_RULE.get(error.rule), str(error))


def find_field(record: Record, text: str) -> str:
    """Return the name of the field of a record that contains an identifier."""
    if text == record.rep:
        return "rep"
    return "ibip" if text == record.ibip else "aliases"


class StoredLines:
    """What an import remembers of the lines whose items are stored, until the relations are stored.

    The arrays need a few bytes for each line, so that a file may have millions of lines.

    :param newest_item: the highest row ID of an item before the import.
    """

    def __init__(self, newest_item: int) -> None:
        self.newest_item = newest_item
        #: For each of these row IDs: 1 if a line has replaced the item or stub.
        self.replaced = bytearray(newest_item + 1)
        #: The line number and the row ID of each item whose relations must be stored.
        self.related = array("q")
        #: The line number, the row ID and the former group of each replaced item that got its
        #: language from the record of another item.
        self.grouped = array("q")
        self.languages: list[str] = []


@dataclass
class Counts:
    """The numbers of records of a file that were added, updated and skipped."""

    added: int = 0
    updated: int = 0
    skipped: int = 0


@dataclass
class ItemBatch:
    """A batch of lines whose items are written together in the transaction of the caller.

    :param name: the name of the file in messages.
    :param errors: the object to which errors of lines are added.
    :param on_conflict: see :class:`~.importer.Importer`; also ``take_back``.
    :param now: the timestamp of items whose records have no timestamp.
    """

    store: ItemStore
    stored: StoredLines
    counts: Counts
    name: str
    lines: Sequence[Line]
    errors: Errors
    on_conflict: str
    take_back: bool
    now: datetime
    #: For each known identifier of the batch: the row ID and the state of the item or stub.
    _known: dict[str, tuple[int, str]] = field(default_factory=dict)
    #: The line number and the row ID of each item whose relations must be stored.
    _related: list[tuple[int, int]] = field(default_factory=list)
    #: The items that have keys of the batch, by their keys.
    _keys: dict[str, KeyHolder] = field(default_factory=dict)
    #: The daily counts of the items whose lines have some, by the row IDs of the items.
    _counts: dict[int, Sequence[DailyCount]] = field(default_factory=dict)
    #: The row IDs and the names of the items that have foreign identifiers, by their digests.
    _aliases: dict[str, tuple[int, str]] = field(default_factory=dict)

    def write(self) -> None:
        """Write the items without their relations."""
        identifiers = [text for line in self.lines for text in line.record.identifiers]
        self._known, elsewhere = find_owners_and_originals(
            self.store.connection, self.store.archive_id, identifiers
        )
        keys = [line.record.key for line in self.lines if line.record.key is not None]
        holders = find_holders(self.store.connection, self.store.archive_id, keys)
        self._keys = {key: one for key, one in holders.items() if one.item_id is not None}
        digests = [
            parse_foreign(text).digest for line in self.lines for text in line.record.same_as
        ]
        self._aliases = find_all_holders(self.store.connection, self.store.archive_id, digests)
        in_batch: dict[str, int] = {}
        new: list[Line] = []
        for line in self.lines:
            try:
                texts = line.record.identifiers
                self._check(line, texts, in_batch, elsewhere)
                if self._known.keys().isdisjoint(texts):
                    self._check_same_as(line, 0)
                    new.append(line)
                else:
                    self._write_existing(line)
            except RecordError as error:
                self.errors.add(error)
        self._insert(new)
        if self._counts:
            replace_counts(self.store.connection, self.store.archive_id, self._counts)
        for pair in sorted(self._related):
            self.stored.related.extend(pair)

    def _insert(self, lines: Sequence[Line]) -> None:
        """Insert the items of lines whose identifiers are unknown."""
        ids = self.store.insert_items(
            [line.record for line in lines],
            [line.contents for line in lines],
            self.now,
        )
        self.counts.added += len(ids)
        for item_id, line in zip(ids, lines, strict=True):
            note_import(self.store, item_id, None, line.record)
            if line.counts is not None:
                self._counts[item_id] = line.counts
            if line.record.has_references:
                self._related.append((line.number, item_id))

    def _check(
        self, line: Line, texts: Sequence[str], in_batch: dict[str, int], elsewhere: set[str]
    ) -> None:
        """Check that a line does not conflict with earlier lines or with other Archives.

        :param texts: the identifiers of the line.
        :param in_batch: the line numbers of the identifiers of earlier lines.
        :param elsewhere: the identifiers of Originals in other Archives of the database.
        :raises RecordError: if the line conflicts.
        """
        record = line.record
        for text in texts:
            if text in in_batch:
                raise self._error(line, text, f"{text} is already in line {in_batch[text]}")
            in_batch[text] = line.number
            if text in elsewhere and record.state == State.ORIGINAL:
                broken = RuleBroken(3, text, RULES[3])
                raise rule_error(self.name, line.number, broken, find_field(record, text))
        self._check_key(line)
        try:
            self.store.copies.check_original_of(record)
        except RuleBroken as error:
            raise rule_error(self.name, line.number, error) from error

    def _check_key(self, line: Line) -> None:
        """Check that no other item has the key of a line.

        :raises RecordError: if another item has the key.
        """
        key, owned = line.record.key, [self._known.get(text) for text in line.record.identifiers]
        if key is None:
            return
        holder = self._keys.get(key)
        if holder is not None and holder.item_id not in [owner[0] for owner in owned if owner]:
            reason = f"the item {holder.ibi} of the Archive already has the key {quoted(key)}"
            raise RecordError(self.name, line.number, "key", reason)
        # the next line of the file with the key is another item
        ibi = line.record.identifiers[0]
        self._keys[key] = KeyHolder(key, holder.item_id if holder else 0, ibi, None)

    def _check_same_as(self, line: Line, item_id: int) -> None:
        """Check that no other item has a foreign identifier of a line.

        :param item_id: the row ID of the item or stub that the line replaces; 0 for a new item.
        :raises RecordError: if another item has the identifier.
        """
        for number, text in enumerate(line.record.same_as):
            digest = parse_foreign(text).digest
            own = (item_id, f"the item of line {line.number}")
            holder = self._aliases.setdefault(digest, own)
            if holder != own and (item_id == 0 or holder[0] != item_id):
                reason = explain_taken(text, holder[1])
                raise RecordError(self.name, line.number, f"same_as[{number}]", reason)

    def _write_existing(self, line: Line) -> None:
        """Handle a line whose identifiers belong to an item or a stub.

        If an item exists, the line is skipped, updates the item or is refused. A stub is replaced
        by the item of the line.

        :raises RecordError: if the line is refused.
        """
        found = {self._known[text] for text in line.record.identifiers if text in self._known}
        items = {item_id for item_id, state in found if state != ELSEWHERE}
        in_this_file = any(
            item_id > self.stored.newest_item or self.stored.replaced[item_id] for item_id in items
        )
        if items and self.on_conflict == "skip" and not in_this_file:
            self.counts.skipped += 1
            return
        self._refuse_service(line)
        if items and (self.on_conflict != "update" or len(items) > 1 or in_this_file):
            raise self._build_conflict_error(line, len(items), in_this_file)
        owners = {item_id for item_id, _ in found}
        self._check_same_as(line, min(items or owners))
        try:
            with self.errors.rolling_back_on_error(self.store.connection):
                self._replace(line, min(items or owners), owners, bool(items))
        except RuleBroken as error:
            raise rule_error(self.name, line.number, error) from error
        except FieldError as error:
            raise RecordError(self.name, line.number, error.field, error.reason) from error
        except IntegrityError as error:
            broken = find_broken_rule(error, line.record.identifiers[0])
            raise (rule_error(self.name, line.number, broken) if broken else error) from error

    def _replace(self, line: Line, item_id: int, owners: set[int], exists: bool) -> None:
        """Replace an item or its stubs with the item of a line.

        :param item_id: the row ID of the item or stub that is replaced.
        :param owners: the row IDs of all items and stubs that have an identifier of the line.
        :param exists: true if an item is replaced, false if a stub is replaced.
        """
        record, before = line.record, None
        if exists:
            lock_items(self.store.connection, [item_id])
            before = self.store.reader.read_record(item_id)
            elsewhere = before.original_elsewhere
            if elsewhere and record.state == State.ORIGINAL and not self.take_back:
                reason = f"the Original is in {elsewhere}; if it is given up there, add --take-back"
                raise FieldError("state", reason)
            record = with_all_identifiers(record, before)
            record = replace(keep_same_as(record, before), key=record.key or before.key)
            check_record(record)
            self.store.copies.check_no_copies(item_id, record)
            self.store.relations.remove(item_id)
        assigned = [
            self.store.relations.translations.leave_for_update(owner) for owner in sorted(owners)
        ]
        self.store.replace_item(item_id, record, line.contents, self.now)
        note_import(self.store, item_id, before, record)
        if line.counts is not None:
            self._counts[item_id] = line.counts
        self.counts.added += not exists
        self.counts.updated += exists
        if item_id <= self.stored.newest_item:  # otherwise, another transaction has just stored it
            self.stored.replaced[item_id] = 1
        if line.record.has_references:
            self._related.append((line.number, item_id))
        for language in assigned:
            if language is not None:
                self.stored.grouped.extend((line.number, item_id, language.group))
                self.stored.languages.append(sys.intern(language.language))

    def _refuse_service(self, line: Line) -> None:
        for text in line.record.identifiers:
            if text in self._known and self.store.is_service(self._known[text][0]):
                reason = f"{text} is the Archive service, and the Archive service can't be imported"
                raise self._error(line, text, reason)

    def _build_conflict_error(self, line: Line, items: int, in_this_file: bool) -> RecordError:
        """Return the error for a line whose item already exists.

        :param items: the number of items that have identifiers of the line.
        :param in_this_file: whether an earlier line of the file has written the item.
        """
        text = next(
            text
            for text in line.record.identifiers
            if self._known.get(text, (0, ELSEWHERE))[1] != ELSEWHERE
        )
        if items > 1:
            reason = "the identifiers of the record belong to several items of the Archive"
        elif in_this_file:
            reason = f"{text} is already in an earlier line"
        else:
            reason = f"an item of the Archive already has {text}; see the option --on-conflict"
        return self._error(line, text, reason)

    def _error(self, line: Line, text: str, reason: str) -> RecordError:
        return RecordError(self.name, line.number, find_field(line.record, text), reason)
