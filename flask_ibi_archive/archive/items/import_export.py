"""Imports and exports items as JSON Lines, and imports works without identifiers."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import stat
import sys
import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import structs
from sqlalchemy import ColumnElement, Connection, delete, func, select
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.items.files import Content, FileStore, copy_and_measure, measure
from flask_ibi_archive.archive.items.minting import Minted
from flask_ibi_archive.archive.items.operations import (
    OperationContext,
    begin_change,
    name_archives,
    note_import,
    with_all_identifiers,
)
from flask_ibi_archive.archive.items.read import ItemReader, find_owners, find_owners_and_originals
from flask_ibi_archive.archive.items.relations import (
    STORING,
    AssignedLanguage,
    RelationBatch,
    examine_tables,
    lock_items,
    prepare_for_many_rows,
)
from flask_ibi_archive.archive.items.rules import RULES, explain_refusal, find_broken_rule
from flask_ibi_archive.archive.items.tables import AccessCount, ArchiveAccessCount, Item
from flask_ibi_archive.archive.items.write import (
    ItemStore,
    KeyHolder,
    explain_taken,
    find_all_holders,
    find_holders,
    keep_same_as,
)
from flask_ibi_archive.core.identifiers.foreign import parse_foreign
from flask_ibi_archive.core.protocol.states import ELSEWHERE, State
from flask_ibi_archive.core.records.lines import (
    check_record,
    find_errors,
    format_record,
    parse_record,
    read_json,
)
from flask_ibi_archive.core.records.messages import DailyCount, format_counts, parse_counts
from flask_ibi_archive.core.records.readers import (
    WorksFile,
    name_field,
    read_csl_json,
    read_csv,
    read_json_lines,
)
from flask_ibi_archive.core.records.record import Record, References
from flask_ibi_archive.core.records.values import FieldError, parse_key, quoted
from flask_ibi_archive.errors import RecordError, RuleBroken, StorageError
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import (
    batched,
    insert_or_update,
    is_one_of,
    run_on_postgresql,
)
from flask_ibi_archive.signals import NOBODY, Notice, Notifier, item_minted

# --- daily counts ------------------------------------------------------------------------------


NUMBERS = ("accesses", "double_clicks", "robots")
COLUMNS = (AccessCount.item_id, *(getattr(AccessCount, name) for name in DailyCount._fields))
#: The number of counts that are stored with one statement.
COUNTS_BATCH = 500

#: The counts of items, by the row IDs of the items.
CountsByItem = Mapping[int, Sequence[DailyCount]]


def read_counts(connection: Connection, items: Sequence[int]) -> dict[int, tuple[DailyCount, ...]]:
    """Return the counts of items that have any."""
    return _group(
        connection.execute(
            select(*COLUMNS).where(is_one_of(connection, AccessCount.item_id, items))
        )
    )


def take_counts(connection: Connection, items: Sequence[int]) -> dict[int, tuple[DailyCount, ...]]:
    """Remove the counts of items, and return them."""
    return _group(
        connection.execute(
            delete(AccessCount)
            .where(is_one_of(connection, AccessCount.item_id, items))
            .returning(*COLUMNS)
        )
    )


def _group(rows: Iterable[Any]) -> dict[int, tuple[DailyCount, ...]]:
    counts: dict[int, list[DailyCount]] = {}
    for item_id, *values in rows:
        counts.setdefault(item_id, []).append(DailyCount(*values))
    return {item_id: tuple(sorted(of_item)) for item_id, of_item in counts.items()}


def add_counts(connection: Connection, archive_id: int, counts: CountsByItem) -> None:
    """Add counts to those of items."""
    _add(
        connection,
        AccessCount,
        [
            {"item_id": item_id, "archive_id": archive_id, **count._asdict()}
            for item_id, of_item in counts.items()
            for count in of_item
        ],
    )


def replace_counts(connection: Connection, archive_id: int, counts: CountsByItem) -> None:
    """Replace the counts of items, and correct the sums of the Archive."""
    run_on_postgresql(connection, STORING)  # no access is counted meanwhile
    before = take_counts(connection, list(counts))
    add_counts(connection, archive_id, counts)
    sums: Counter[tuple[Any, ...]] = Counter()
    for sign, some in ((-1, before), (1, counts)):
        for count in (count for of_item in some.values() for count in of_item):
            for name in NUMBERS:
                sums[count.day, count.content_type, name] += sign * getattr(count, name)
    days = sorted({key[:2] for key in sums})
    _add(
        connection,
        ArchiveAccessCount,
        [
            {"archive_id": archive_id, "day": day, "content_type": content_type}
            | {name: sums[day, content_type, name] for name in NUMBERS}
            for day, content_type in days
        ],
    )


def _add(connection: Connection, model: Any, rows: Sequence[dict[str, Any]]) -> None:
    table = model.__table__
    statement = insert_or_update(connection, table)
    statement = statement.on_conflict_do_update(
        index_elements=[*table.primary_key.columns],
        set_={name: table.c[name] + statement.excluded[name] for name in NUMBERS},
    )
    for part in batched(rows, COUNTS_BATCH):
        connection.execute(statement, part)


# --- source ------------------------------------------------------------------------------------


MAX_LINE = 16 << 20
#: With these flags, the system neither follows a symbolic link nor waits for the writer of a FIFO.
#: Windows has no such flags.
SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

#: A function that adds a file to the store, or only computes the size and checksum of the file.
AddFile = Callable[[BinaryIO], Content]


@dataclass(slots=True)
class Line:
    """A parsed line.

    :param number: the number of the line. The first line has the number 1.
    :param contents: the checksum and size of each file that the record adds, by path.
    :param counts: the daily counts of accesses to the item; None if the line has none.
    """

    number: int
    record: Record
    contents: Mapping[str, Content] = field(default_factory=dict)
    counts: tuple[DailyCount, ...] | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a batch of lines.

    The batch ends with the line that reaches one of the limits.

    :param lines: the number of lines.
    :param bytes: the number of bytes.
    :param identifiers: the number of identifiers.
    """

    lines: int
    bytes: int = 4 << 20
    identifiers: int = 5000


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


@dataclass(slots=True)
class ImportSource:
    """A file of records.

    :param name: the name of the file in messages.
    :param folder: the folder of the file of records. A relative path in a field ``source`` begins
        there if ``files_folder`` has no file with this path.
    :param files_folder: the fields ``source`` may name files in this folder and below. None: they
        may name no files.
    """

    name: str
    stream: BinaryIO
    folder: Path
    files_folder: Path | None = None

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        position = self.stream.tell()
        size = self.stream.seek(0, os.SEEK_END)
        self.stream.seek(position)
        return size


@contextmanager
def open_source(
    path: str, standard_input: BinaryIO, files_folder: Path | None = None
) -> Iterator[ImportSource]:
    """Open a file of records until the end of the ``with`` block.

    :param path: the path of the file. The path ``-`` means standard input.
    :param standard_input: the standard input. It is copied to a temporary file.
    :param files_folder: the fields ``source`` may name files in this folder and below. None: the
        folder of the file; with standard input, they may name no files.
    :raises StorageError: if the file cannot be read.
    """
    if path == "-":
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(standard_input, copy)
            yield ImportSource("standard input", copy, Path(), files_folder)
        return
    try:
        stream = Path(path).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise StorageError(f"{path} can't be read: {error.strerror}") from error
    with stream:
        if not stream.seekable():
            raise StorageError(f"{path} is a pipe; read it as standard input: import - < {path}")
        folder = Path(path).parent
        yield ImportSource(path, stream, folder, files_folder or folder)


class LineReader:
    """Reads the lines of a source.

    :ivar line: the number of the line that was read last.
    """

    def __init__(self, source: ImportSource) -> None:
        self.source = source
        self.line = 0
        self._lines = self._read_lines()
        source.stream.seek(0)

    def _read_lines(self) -> Iterator[bytes]:
        while text := self.source.stream.readline(MAX_LINE + 1):
            self.line += 1
            if len(text) > MAX_LINE:
                raise self.error(None, f"the line is longer than {MAX_LINE} bytes")
            yield text.removeprefix(b"\xef\xbb\xbf") if self.line == 1 else text

    def read_batch(self, limits: Limits, errors: Errors, add_file: AddFile) -> list[Line]:
        """Return the next lines that contain records, and add their files.

        Empty lines are skipped. At the end of the file, the result is an empty list.

        :param errors: the object to which the errors of lines are added.
        :param add_file: a function that adds a file.
        """
        lines: list[Line] = []
        size = identifiers = 0
        for text in self._lines:
            if not text.strip():
                continue
            try:
                line = self.parse(text)
            except RecordError as error:
                # an error in the counts is the only one of its line
                for each in (errors.collects and self.find_errors(text)) or [error]:
                    errors.add(each)
                continue
            line.contents = add_files(self.source, line, add_file, errors)
            if line.number in errors.lines:
                continue
            lines.append(line)
            size += len(text)
            identifiers += len(line.record.identifiers)
            if (
                len(lines) >= limits.lines
                or size >= limits.bytes
                or identifiers >= limits.identifiers
            ):
                break
        return lines

    def read_references(self, numbers: Iterable[int]) -> list[References]:
        """Return the references of the lines with certain numbers.

        The file is read only up to the last of these lines.

        :param numbers: the numbers of the lines, in ascending order.
        """
        found: list[References] = []
        for number in numbers:
            text = next((text for text in self._lines if self.line == number), b"")
            found.append(self.parse(text).record.references)
        return found

    def parse(self, text: bytes) -> Line:
        """Parse the line that was read last.

        :raises RecordError: if the line is not a valid record.
        """
        try:
            data, counts = read_json(text), None
            if isinstance(data, dict) and "counts" in data:
                counts = parse_counts("counts", data.pop("counts"))
            return Line(self.line, parse_record(data), counts=counts)
        except FieldError as error:
            raise self.error(error.field or None, error.reason) from error

    def find_errors(self, text: bytes) -> list[RecordError]:
        """Return all errors in the record of the line that was read last."""
        return [
            self.error(error.field or None, error.reason)
            for error in find_errors(text)
            if error.field != "counts"  # a field of the line, but not of the record
        ]

    def error(self, field: str | None, reason: str) -> RecordError:
        """Return an error in the line that was read last.

        :param field: the wrong field; None if the whole line is wrong.
        """
        return RecordError(self.source.name, self.line, field, reason)


def measure_file(stream: BinaryIO) -> Content:
    """Return the checksum and the size of a file."""
    return copy_and_measure(stream, None)


def add_files(
    source: ImportSource, line: Line, add_file: AddFile, errors: Errors
) -> dict[str, Content]:
    """Add the files that a record names, and return the checksum and size of each file by path.

    :param add_file: a function that adds a file.
    :param errors: the object to which an error is added for each file that cannot be read or has a
        wrong checksum.
    """
    found: dict[str, Content] = {}
    for number, file in enumerate(line.record.files):
        if file.source is None:
            continue
        path, name = find_file(source, file.source), f"files[{number}]"
        try:
            with open_file(path, source.files_folder) as stream:
                content = add_file(stream)
        except (OSError, ValueError) as error:
            reason = f"{quoted(path)} can't be read: {getattr(error, 'strerror', error)}"
            errors.add(RecordError(source.name, line.number, f"{name}.source", reason))
            continue
        if file.sha256 not in (None, content.sha256):
            reason = f"the file {quoted(path)} has the checksum {content.sha256}"
            errors.add(RecordError(source.name, line.number, f"{name}.sha256", reason))
        found[file.path] = content
    return found


def find_file(source: ImportSource, name: str) -> str:
    """Return the path of the file that a field ``source`` names.

    A relative path begins at ``files_folder``. If this folder has no such file, the path begins at
    the folder of the file of records, as in an export whose files are not below its folder.

    :param name: the value of the field.
    """
    folders = (source.files_folder or source.folder, source.folder)
    paths = [os.path.join(folder, name) for folder in folders]  # noqa: PTH118 - name may be wrong
    return next(filter(os.path.exists, paths), paths[0])


@contextmanager
def open_file(path: str, folder: Path | None) -> Iterator[BinaryIO]:
    """Open a regular file in a folder.

    :param folder: the folder; None: no file may be opened.
    :raises OSError: if the file cannot be read.
    :raises ValueError: if the file is not in the folder, or is not a regular file.
    """
    if folder is None:
        raise ValueError("for standard input, --files-folder must name the folder of the files")
    real = os.path.realpath(path)
    if not Path(real).is_relative_to(os.path.realpath(folder)):
        raise ValueError(f"it is not in the folder {folder}; --files-folder names another folder")
    with open(real, "rb", opener=lambda name, flags: os.open(name, flags | SAFE)) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        yield stream


# --- items -------------------------------------------------------------------------------------


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
            record = structs.replace(keep_same_as(record, before), key=record.key or before.key)
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


# --- importer ----------------------------------------------------------------------------------


#: The maximum number of lines that are stored together.
BATCH = 2000


class _Rollback(Exception):
    """Raised at the end of a dry run to roll back the transaction."""


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0)


@dataclass
class Importer:
    """Imports the records of one file.

    :param files: the folder of stored files.
    :param on_conflict: what is done if an item already exists: error, skip or update.
    :param take_back: whether a line may make an item an Original again whose Original is in another
        Archive.
    :param dry_run: if true, the file is only checked and nothing is changed.
    :param progress: a function that is called with the number of units of work that are done, and
        with the total number of units. None means that the progress is not reported.
    :param clock: a function that returns the timestamp for items whose records have no timestamp.
    :param on_error: a function that is called with each error of a dry run. The dry run then
        continues with the next line. None means that the first error ends the dry run.
    :param notifier: sends the signals after the commit.
    """

    database: Database
    archive_id: int
    files: FileStore
    on_conflict: str = "error"
    take_back: bool = False
    dry_run: bool = False
    progress: Callable[[int, int], None] | None = None
    clock: Callable[[], datetime] = _now
    on_error: Callable[[RecordError], None] | None = None
    notifier: Notifier = NOBODY
    _errors: Errors = field(init=False)

    def __post_init__(self) -> None:
        self._errors = Errors(self.on_error if self.dry_run else None)

    def run(self, source: ImportSource) -> Counts:
        """Import the file.

        :raises RecordError: if a record is wrong. The error names the line and the field. Nothing
            was changed.
        """
        self._report(source, 0)
        try:
            with self.files.staging() as staging:
                add_file = measure_file if self.dry_run else staging.add_stream
                reader = LineReader(source)
                read = partial(reader.read_batch, Limits(BATCH), self._errors, add_file)
                # the first files are copied before the transaction, which blocks other writers
                first = read()
                with self.database.writing() as connection:
                    begin_change(connection)
                    store = ItemStore(connection, self.archive_id)
                    store.lock_relations(limited=False)
                    counts = self._store(store, source, chain([first], iter(read, [])))
                    if self.dry_run:
                        raise _Rollback
                    staging.move_all_to_store()
                    notices = name_archives(store, {})
            self.notifier.send(notices)
        except _Rollback:
            pass
        except IntegrityError as error:
            raise explain_refusal(error) from error
        if counts.added + counts.updated >= BATCH and not self.dry_run:
            with self.database.writing() as connection:
                examine_tables(connection)
        self._report(source, 3 * source.size)
        return counts

    def _report(self, source: ImportSource, done: int) -> None:
        """Report the progress. Items take about twice as much time as their relations."""
        if self.progress is not None:
            self.progress(done, 3 * source.size)

    def _store(
        self, store: ItemStore, source: ImportSource, batches: Iterable[list[Line]]
    ) -> Counts:
        """Store the items of batches of lines and their relations."""
        counts, now = Counts(), self.clock()
        newest = store.connection.execute(select(func.max(Item.id))).scalar() or 0
        stored = StoredLines(newest)
        for lines in batches:
            prepare_for_many_rows(store.connection)
            ItemBatch(
                store,
                stored,
                counts,
                source.name,
                lines,
                self._errors,
                self.on_conflict,
                self.take_back,
                now,
            ).write()
            self._report(source, 2 * source.stream.tell())
        self._store_languages(store, source, stored)
        self._store_relations(store, source, stored, now)
        if self.on_conflict == "update":
            store.relations.delete_unused_stubs()
        return counts

    def _store_languages(self, store: ItemStore, source: ImportSource, stored: StoredLines) -> None:
        """Put replaced items back into the groups of translations that records of others define.

        Only now, because two items of the file may swap their languages.
        """
        numbers = iter(stored.grouped)
        columns = zip(numbers, numbers, numbers, stored.languages, strict=True)
        for line, item_id, group, language in columns:
            ibi, _ = store.get_name_and_state(item_id)
            try:
                with self._errors.rolling_back_on_error(store.connection):
                    assigned = AssignedLanguage(group, language)
                    store.relations.translations.rejoin(item_id, assigned, ibi)
            except RuleBroken as error:
                self._errors.add(rule_error(source.name, line, error, "language"))

    def _store_relations(
        self, store: ItemStore, source: ImportSource, stored: StoredLines, now: datetime
    ) -> None:
        """Store next editions, translations and metadata items, and read the file again for it."""
        reader = LineReader(source)
        for start in range(0, len(stored.related), 2 * BATCH):
            prepare_for_many_rows(store.connection)
            pairs = stored.related[start : start + 2 * BATCH]
            lines = pairs[::2]
            items = list(zip(pairs[1::2], reader.read_references(lines), strict=True))
            batch = RelationBatch(store.connection, store.archive_id, items, now)
            for line, (item_id, references) in zip(lines, items, strict=True):
                if batch.known[references.identifiers[0]][0] != item_id:
                    reason = "the line was changed during the import; run the import again"
                    raise RecordError(source.name, line, None, reason)
                try:
                    batch.add(item_id, references)
                except RuleBroken as error:
                    self._errors.add(rule_error(source.name, line, error))
            batch.write()
            self._report(source, 2 * source.size + source.stream.tell())


__all__ = ["BATCH", "Counts", "ImportSource", "Importer", "open_source"]


# --- works -------------------------------------------------------------------------------------


#: The number of works that get identifiers together.
WORKS_PER_BATCH = 1000


@dataclass(frozen=True, slots=True)
class IdentifiedWork:
    """A work that has been imported, and its identifiers.

    :param place: where the work is in the file, such as ``row 7``.
    """

    place: str
    key: str
    rep: str
    ibip: str
    title: str


@dataclass
class WorksImporter:
    """Imports the works of a file into an Archive.

    :param on_error: called with each error of the file. If there is one, nothing is imported.
    :param dry_run: if true, the file is only checked.
    :param updates: whether entries that were imported earlier update their items. Otherwise they
        are skipped.
    :param take_back: see :class:`~.importer.Importer`.
    :param on_identified: called with each work and its identifiers, also if it was imported before.
    :param progress: called with a stage (``check`` or ``work``), the number of units of work that
        are done, and the total number of units. None: the progress is not reported.
    """

    context: OperationContext
    on_error: Callable[[RecordError], None]
    dry_run: bool = False
    updates: bool = False
    take_back: bool = False
    on_identified: Callable[[IdentifiedWork], None] | None = None
    progress: Callable[[str, int, int], None] | None = None
    _errors: int = 0
    _places: list[str] = field(default_factory=list)

    def run(self, source: ImportSource, works: WorksFile, prefix: str) -> Counts | None:
        """Import the works of a file.

        :param source: the file. Its folder contains the files that the works name.
        :param works: what a reader reads in the file.
        :param prefix: the beginning of the keys of entries that state no key.
        :returns: the numbers of items; None if there are errors, and nothing was imported.
        :raises RecordError: if a work cannot be imported although the check has found no error.
        :raises MintingError: if no identifiers can be minted.
        """
        self.context.get_minter()  # reports wrong settings before anything is read
        with tempfile.TemporaryFile() as records:
            self._write_records(records, source.name, works, prefix)
            records.seek(0)
            counts = self._check(records, source, works)
            if self._errors:
                return None
            if self.dry_run:
                return counts
            records.seek(0)
            return self._import(records, source, works)

    # --- the check -------------------------------------------------------------------------------

    def _write_records(self, records: BinaryIO, name: str, works: WorksFile, prefix: str) -> None:
        """Write the record of each entry as a line, without identifiers and with its key."""
        places: dict[str, str] = {}
        for entry in works.entries:
            for error in entry.errors:
                self._report(RecordError(name, 0, error.field or None, error.reason, entry.place))
            if not entry.data:
                if not entry.errors:
                    self._report(RecordError(name, 0, None, "nothing is stated", entry.place))
                continue
            key = entry.data.get("key") or f"{prefix}:{entry.key}"
            try:
                earlier = places.setdefault(parse_key("key", key), entry.place)
            except FieldError as error:
                field = name_field("key", works.names)
                self._report(RecordError(name, 0, field, error.reason, entry.place))
                continue
            if earlier is not entry.place:
                reason = f"this is the same work as in {earlier}"
                if "key" in entry.data:
                    reason = f"{earlier} has the same key"
                self._report(RecordError(name, 0, None, reason, entry.place))
                continue
            self._places.append(entry.place)
            records.write(json.dumps({**entry.data, "key": key}).encode() + b"\n")

    def _check(self, records: BinaryIO, source: ImportSource, works: WorksFile) -> Counts:
        """Check the records together, and report their errors."""
        dates = self.context.get_minter().invent()
        with self._identify(records, lambda count: list(islice(dates, count))) as identified:

            def report(error: RecordError) -> None:
                self._report(self._explain(error, works))

            importer = replace(self._importer("check"), dry_run=True, on_error=report)
            try:
                return importer.run(replace(source, stream=identified))
            except RecordError as error:  # some errors end the check
                report(error)
                return Counts()

    def _report(self, error: RecordError) -> None:
        self._errors += 1
        self.on_error(error)

    def _explain(self, error: RecordError, works: WorksFile) -> RecordError:
        """Return the error with the place and the field of the file instead of those of records."""
        place = self._places[error.line - 1]
        field = name_field(error.field, works.names)
        return RecordError(error.source, 0, field, error.reason, place)

    # --- the import ------------------------------------------------------------------------------

    def _import(self, records: BinaryIO, source: ImportSource, works: WorksFile) -> Counts:
        with self._identify(records, self._mint) as identified:
            try:
                counts = self._importer("work").run(replace(source, stream=identified))
            except RecordError as error:
                raise self._explain(error, works) from error
            identified.seek(0)
            self._report_identifiers(identified)
        return counts

    def _mint(self, count: int) -> list[Minted]:
        """Return new identifiers, and send the signals about them."""
        minted = self.context.get_minter().for_many(count).mint(count)
        archive = self.context.archive.service_ibi
        self.context.notifier.send(
            [
                Notice(
                    item_minted,
                    {"ibi": new.ibi, "rep": new.rep, "ibip": new.ibip, "archive": archive},
                )
                for new in minted
                if item_minted.receivers
            ]
        )
        return minted

    def _importer(self, stage: str) -> Importer:
        """Return the importer of records, which reports its progress as that of a stage."""
        progress, context = self.progress, self.context
        return Importer(
            context.database,
            context.archive.id,
            context.folder,
            on_conflict="update" if self.updates else "skip",
            take_back=self.take_back,
            clock=context.now,
            notifier=context.notifier,
            progress=None if progress is None else lambda done, total: progress(stage, done, total),
        )

    @contextmanager
    def _identify(
        self, records: BinaryIO, mint: Callable[[int], list[Minted]]
    ) -> Iterator[BinaryIO]:
        """Yield a file with the records and their identifiers, which is deleted at the end.

        A work whose key belongs to an item gets the identifiers of this item.
        """
        with tempfile.TemporaryFile() as identified:
            while lines := list(islice(records, WORKS_PER_BATCH)):
                keys = [json.loads(line)["key"] for line in lines]
                with self.context.reading() as store:
                    holders = find_holders(store.connection, store.archive_id, keys)
                known = {
                    key: Minted(holder.rep, holder.ibip)
                    for key, holder in holders.items()
                    if holder.item_id is not None and holder.rep and holder.ibip
                }
                missing = len(keys) - len(known)
                new = iter(mint(missing) if missing else ())
                for key, line in zip(keys, lines, strict=True):
                    forms = known.get(key) or next(new)
                    text = f'{{"rep": "{forms.rep}", "ibip": "{forms.ibip}", '
                    identified.write(text.encode() + line[1:])
            yield identified

    def _report_identifiers(self, identified: BinaryIO) -> None:
        if self.on_identified is None:
            return
        for place, line in zip(self._places, identified, strict=True):
            data = json.loads(line)
            title = next(iter(data.get("metadata", {}).get("work", {}).get("titles", [])), "")
            if isinstance(title, dict):
                title = title["value"]
            work = IdentifiedWork(place, data["key"], data["rep"], data["ibip"], title)
            self.on_identified(work)


# --- works source ------------------------------------------------------------------------------


TABLES = (".csv", ".tsv")
ENDINGS = (*TABLES, ".jsonl", ".json")
#: Files that other programs convert to CSL-JSON, and the names of their formats in pandoc.
CONVERTED = {".bib": "bibtex", ".ris": "ris"}


def read_works(
    source: ImportSource,
    columns: Mapping[str, str],
    separator: str,
    ignored: Collection[str],
) -> WorksFile:
    """Return the works of a file. The parameters after ``source`` are those of a table.

    :raises StorageError: if the file has an unknown kind or cannot be read as a whole.
    """
    ending = Path(source.name).suffix.lower()
    try:
        if ending in TABLES:
            lines = (line.decode("utf-8", "replace") for line in source.stream)
            return read_csv(lines, columns, separator, ignored)
        if ending == ".jsonl":
            return read_json_lines(source.stream)
        if ending == ".json":
            return read_csl_json(_read_text(source))
    except FieldError as error:
        raise StorageError(f"{source.name}: {error}") from error
    if ending in CONVERTED:
        path = Path(source.name)
        raise StorageError(
            f"{path} is not read; export CSL JSON from Zotero, or run: pandoc -f "
            f"{CONVERTED[ending]} -t csljson {path} -o {path.with_suffix('.json')}"
        )
    raise StorageError(
        f"{source.name} is not a file of works; its name must end with {', '.join(ENDINGS)}"
    )


def _read_text(source: ImportSource) -> str:
    try:
        return source.stream.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise StorageError(
            f"{source.name} is not UTF-8 text (byte {error.start + 1}); save it as UTF-8"
        ) from error


# --- exporting ---------------------------------------------------------------------------------


#: The number of items that are read with one statement.
EXPORT_BATCH = 500


def export_records(
    database: Database,
    archive_id: int,
    files: FileStore,
    where: Sequence[ColumnElement[bool]] = (),
    limit: int | None = None,
) -> Generator[Record, None, None]:
    """Yield the records of all items except the service, in the order of their creation.

    All items are read in one transaction. In the records, the ``source`` of a stored file is the
    absolute path of the file.

    :param where: conditions that the items must satisfy, as for :func:`.select_items`.
    :param limit: the maximum number of items; None returns all items.
    """
    with database.snapshot() as connection:
        reader = ItemReader(
            connection, archive_id, lambda sha256: str(files.path(sha256).absolute())
        )
        last_id, left = 0, sys.maxsize if limit is None else limit
        while items := reader.read_listed(last_id, min(EXPORT_BATCH, left), where):
            for item in items.values():
                yield item.record
            last_id, left = max(items), left - len(items)


def format_with_counts(
    records: Iterable[Record], database: Database, archive_id: int
) -> Iterator[str]:
    """Yield records as lines of JSON, with the daily counts of accesses to their items."""
    for batch in batched(records, EXPORT_BATCH):
        names = [record.identifiers[0] for record in batch]
        with database.reading() as connection:
            owners = find_owners(connection, archive_id, names)
            counts = read_counts(connection, [item_id for item_id, _ in owners.values()])
        for record, name in zip(batch, names, strict=True):
            line = format_record(record)
            if of_item := counts.get(owners.get(name, (0, ""))[0]):
                line["counts"] = format_counts(of_item)
            yield json.dumps(line, ensure_ascii=False)


def copy_files(records: Iterable[Record], folder: Path, base: Path) -> Iterator[Record]:
    """Copy the stored files of records to a folder, and yield the records with the new paths.

    :param folder: the folder for the copies. Files with equal contents are copied only once.
    :param base: a folder. The new ``source`` of each file is the path relative to this folder.
    :raises StorageError: if a file cannot be copied, or a stored file is damaged.
    """
    for record in records:
        copies = []
        for file in record.files:
            if file.source is None:
                copies.append(file)
                continue
            try:
                source = Path(file.source)
                copy = copy_content(source, file.sha256 or measure(source).sha256, folder)
            except OSError as error:
                raise StorageError(
                    f"file {file.path} of {record.identifiers[0]} can't be copied to {folder}: "
                    f"{error.strerror}: {error.filename}"
                ) from error
            except ValueError as error:
                raise StorageError(
                    f"file {file.path} of {record.identifiers[0]} is damaged; run flask ibi verify"
                ) from error
            copies.append(
                structs.replace(file, source=Path(os.path.relpath(copy, base)).as_posix())
            )
        yield structs.replace(record, files=tuple(copies))


def copy_content(source: Path, sha256: str, folder: Path) -> Path:
    """Copy a file to a folder and return the path of the copy.

    The name of the copy is the checksum of the file. If the folder already contains the copy,
    nothing is copied.

    :raises ValueError: if the file does not have the stated checksum.
    """
    target = folder / sha256
    if target.exists() and measure(target).sha256 == sha256:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f".new-{secrets.token_hex(8)}"
    try:
        with source.open("rb") as stream, new.open("xb") as copy:
            if copy_and_measure(stream, copy).sha256 != sha256:
                raise ValueError(f"{source} does not have the checksum {sha256}")
            copy.flush()
            os.fsync(copy.fileno())
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
    return target
