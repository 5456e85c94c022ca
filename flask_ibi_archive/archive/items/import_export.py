"""Imports and exports items as JSON Lines, and imports works without identifiers."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import tempfile
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from io import TextIOWrapper
from itertools import chain, groupby, islice, product
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO
from unicodedata import normalize

from msgspec import structs
from sqlalchemy import Connection, and_, cast, delete, func, select, tuple_
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.items import operations, ownership, write
from flask_ibi_archive.archive.items.files import Content, copy_and_measure, measure
from flask_ibi_archive.archive.items.minting import Minted
from flask_ibi_archive.archive.items.ownership import Owner
from flask_ibi_archive.archive.items.read import EXPORT_BATCH
from flask_ibi_archive.archive.items.rules import explain_refusal
from flask_ibi_archive.archive.items.stored_relations import STORING, lock_items
from flask_ibi_archive.archive.items.tables import (
    AccessCount,
    ArchiveAccessCount,
    Item,
    ItemIdentifier,
)
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records import csl_reader, readers
from flask_ibi_archive.core.records.offer_messages import DailyCount, format_counts, parse_counts
from flask_ibi_archive.core.records.record import (
    FileRecord,
    Record,
    check_record,
    find_errors,
    format_record,
    parse_record,
    read_json,
)
from flask_ibi_archive.core.records.values import FieldError, parse_key, quoted
from flask_ibi_archive.errors import RecordError, RuleBroken, StorageError
from flask_ibi_archive.errors import translatable as _
from flask_ibi_archive.server.atomic_files import new_file
from flask_ibi_archive.server.database import dialects
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.signals import Notice, item_deposited, item_minted

NUMBERS = ("accesses", "double_clicks", "robots")

#: The counts of items, by the row IDs of the items.
CountsByItem = Mapping[int, Sequence[DailyCount]]


def read_counts(connection: Connection, items: Iterable[int]) -> dict[int, tuple[DailyCount, ...]]:
    """Return the daily counts of accesses to items, by row ID. Items without any are missing."""
    columns = (ItemIdentifier.item_id, AccessCount.day, AccessCount.content_type)
    is_name = and_(
        ItemIdentifier.archive_id == AccessCount.archive_id, ItemIdentifier.text == AccessCount.ibi
    )
    sums = (cast(func.sum(getattr(AccessCount, name)), dialects.Key) for name in NUMBERS)
    rows = connection.execute(
        select(*columns, *sums)
        .join(AccessCount, is_name)
        .where(dialects.is_one_of(ItemIdentifier.item_id, items))
        .group_by(*columns)
        .order_by(*columns)
    )
    return {
        item_id: tuple(DailyCount._make(row[1:]) for row in of_item)
        for item_id, of_item in groupby(rows, itemgetter(0))
    }


def take_counts(connection: Connection, items: Iterable[int]) -> dict[int, tuple[DailyCount, ...]]:
    """Delete the daily counts of accesses to items, and return them as :func:`read_counts` does."""
    counts = read_counts(connection, items)
    are_theirs = dialects.is_one_of(ItemIdentifier.item_id, items)
    names = select(ItemIdentifier.archive_id, ItemIdentifier.text).where(are_theirs)
    connection.execute(
        delete(AccessCount).where(tuple_(AccessCount.archive_id, AccessCount.ibi).in_(names))
    )
    return counts


def add_counts(connection: Connection, archive_id: int, counts: CountsByItem) -> None:
    """Add daily counts of accesses to the stored counts of items."""
    is_chosen = dialects.is_one_of(Item.id, counts)
    selected = select(Item.id, func.coalesce(Item.rep, Item.ibip)).where(is_chosen)
    names = {row[0]: row[1] for row in connection.execute(selected)}
    _add(
        connection,
        AccessCount,
        [
            {"ibi": names[item_id], "archive_id": archive_id, **count._asdict()}
            for item_id, of_item in counts.items()
            for count in of_item
        ],
    )


def replace_counts(connection: Connection, archive_id: int, counts: CountsByItem) -> None:
    """Replace the daily counts of accesses to items, and correct the sums of the Archive."""
    stored = read_counts(connection, counts)
    changed = {
        item_id: of_item
        for item_id, of_item in counts.items()
        if stored.get(item_id, ()) != tuple(sorted(of_item))
    }
    if not changed:
        return
    dialects.run_on_postgresql(connection, STORING)  # no access is counted meanwhile
    before = take_counts(connection, changed)
    add_counts(connection, archive_id, changed)
    sums: dict[tuple[Any, str], Counter[str]] = defaultdict(Counter)
    for sign, by_item in ((-1, before), (1, changed)):
        for count in chain.from_iterable(by_item.values()):
            for name in NUMBERS:
                sums[count.day, count.content_type][name] += sign * getattr(count, name)
    _add(
        connection,
        ArchiveAccessCount,
        [
            {"archive_id": archive_id, "day": key[0], "content_type": key[1], **sums[key]}
            for key in sorted(sums)
        ],
    )


def _add(connection: Connection, model: Any, rows: Sequence[dict[str, Any]]) -> None:
    table = model.__table__
    statement = dialects.insert_or_update(connection, table)
    statement = statement.on_conflict_do_update(
        index_elements=[*table.primary_key.columns],
        set_={name: table.c[name] + statement.excluded[name] for name in NUMBERS},
    )
    if rows:
        connection.execute(statement, rows)


MAX_LINE = 16 << 20
#: With these flags, the system neither follows a symbolic link nor waits for the writer of a FIFO.
#: Windows has no such flags.
SAFE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

#: A function that adds a file to the store, or only computes the size and checksum of the file.
AddFile = Callable[[BinaryIO], Content]


@dataclass(slots=True)
class Line:
    """One parsed line of a file of records.

    :param number: the number of the line. The first line has the number 1.
    :param contents: the checksum and size of each file that the record adds, by path.
    :param counts: the daily counts of accesses to the item; None if the line has none.
    """

    number: int
    record: Record
    contents: dict[str, Content] = field(default_factory=dict)
    counts: tuple[DailyCount, ...] | None = None


@dataclass(slots=True)
class ImportSource:
    """A file of records, and the folders with the files that its records name.

    :param name: the name of the file in messages.
    :param folder: the folder of the file of records. A relative path in a field ``source`` begins
        there if ``files_folder`` has no file with this path.
    :param files_folder: the fields ``source`` may name files in this folder and below. None: they
        may name no files.
    :param identifiers: the identifiers of the items, if the lines of the file contain none.
    """

    name: str
    stream: BinaryIO
    folder: Path
    files_folder: Path | None = None
    identifiers: Sequence[Minted] = ()

    def read_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield (number, line) for each line that is not empty. The first number is 1.

        :raises RecordError: if a line is too long.
        """
        self.stream.seek(0)
        for number, text in enumerate(iter(partial(self.stream.readline, MAX_LINE + 1), b""), 1):
            if len(text) > MAX_LINE:
                reason = f"the line is longer than {MAX_LINE} bytes"
                raise RecordError(self.name, number, None, reason)
            if self.identifiers:
                forms = self.identifiers[number - 1]
                text = f'{{"rep": "{forms.rep}", "ibip": "{forms.ibip}", '.encode() + text[1:]
            if text.strip():
                yield number, text.removeprefix(b"\xef\xbb\xbf") if number == 1 else text


@contextmanager
def open_source(
    path: str, standard_input: Callable[[], BinaryIO], files_folder: Path | None = None
) -> Iterator[ImportSource]:
    """Open a file of records until the end of the ``with`` block.

    :param path: the path of the file. The path ``-`` means standard input.
    :param standard_input: returns the standard input. It is copied to a temporary file.
    :param files_folder: the fields ``source`` may name files in this folder and below. None: the
        folder of the file; with standard input, they may name no files.
    :raises StorageError: if the file cannot be read.
    """
    if path == "-":
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(standard_input(), copy)
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


def add_files(source: ImportSource, line: Line, add_file: AddFile) -> Iterator[FieldError]:
    """Read the files that a record names, and note their contents in its line.

    Yield an error for each file that cannot be read or has a wrong checksum.

    A relative path begins at ``files_folder``. If this folder has no such file, the path begins at
    the folder of the records file, for an export whose paths lead out of that folder. A file is
    found whether its name is in NFC or NFD.

    :param add_file: reads a file, and returns its content.
    """
    folders = (source.files_folder or source.folder, source.folder)
    for number, file in enumerate(line.record.files):
        if file.source is None:
            continue
        source_path = file.source
        forms = (source_path, *(normalize(form, source_path) for form in ("NFC", "NFD")))
        paths = [os.path.join(*pair) for pair in product(folders, forms)]  # noqa: PTH118 - any text
        path = next(filter(os.path.exists, paths), paths[0])
        try:
            with open_file(path, source.files_folder) as stream:
                content = line.contents[file.path] = add_file(stream)
            if file.sha256 not in (None, content.sha256):
                reason = f"the file {quoted(path)} has the checksum {content.sha256}"
                yield FieldError(f"files[{number}].sha256", reason)
        except (OSError, ValueError) as error:
            problem = getattr(error, "strerror", None) or error.args[0]
            reason = _("{path} can't be read: {problem}", path=quoted(path), problem=problem)
            yield FieldError(f"files[{number}].source", reason)


@contextmanager
def open_file(path: str, folder: Path | None) -> Iterator[BinaryIO]:
    """Open a regular file in a folder; close it at the end of the ``with`` block.

    :param folder: the folder; None: no file may be opened.
    :raises OSError: if the file cannot be read.
    :raises ValueError: if the file is not in the folder, or is not a regular file.
    """
    if folder is None:
        raise ValueError("for standard input, --files-folder must name the folder of the files")
    real = os.path.realpath(path)
    if not Path(real).is_relative_to(os.path.realpath(folder)):
        reason = "it is not in the folder {folder}; --files-folder names another folder"
        raise ValueError(_(reason, folder=folder))
    with open(real, "rb", opener=lambda name, flags: os.open(name, flags | SAFE)) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        yield stream


#: A batch of lines that are stored together ends with the line that reaches one of these numbers.
BATCH = 500
BATCH_BYTES = 4 << 20
#: For the number of a rule: the field of a record that must be corrected if the rule is broken.
FIELD_OF_RULE = {4: "original_archive", 7: "next_edition", 8: "translations"}


def find_field(record: Record, text: str | None) -> str | None:
    """Return the field of a record that contains an identifier: rep, ibip, aliases or None."""
    fields: dict[str | None, str] = {record.rep: "rep", record.ibip: "ibip"}
    return fields.get(text) or ("aliases" if text in record.aliases else None)


@dataclass
class Counts:
    """How many records of a file were added, updated, or left out (skipped or without a change)."""

    added: int = 0
    updated: int = 0
    skipped: int = 0


@dataclass
class ImportPass:
    """Stores the lines of a file, in the order of the file, in the transaction of the caller.

    The next editions and the translations are set after the last line, because the lines are in any
    order: two of them may swap their next editions or their languages. If the file updates an item,
    the old relations of the item are removed before the first line (:meth:`clear`). So the result
    does not depend on the order. If the record of an item that is not in the file lists an item as
    its translation, that item stays in this group.

    Lines are stored in batches. If the database refuses a batch, the lines of the batch are stored
    one by one, to find the wrong line.

    :param name: the name of the file in messages.
    :param now: the timestamp of items whose records have no timestamp.
    :param newest: the row ID of the newest item that was present before the import.
    """

    store: write.ItemStore
    name: str
    importer: Importer
    now: datetime
    newest: int
    counts: Counts = field(default_factory=Counts)
    #: The row IDs of the items that were present before the import, and that a line has named.
    _named: set[int] = field(default_factory=set)
    #: The former records of the items whose relations were removed.
    _former: dict[int, Record] = field(default_factory=dict)
    #: The row IDs of the items that had languages in groups that were removed.
    _members: set[int | None] = field(default_factory=set)
    #: The row IDs of those of them whose lines state no language.
    _without_language: set[int] = field(default_factory=set)
    #: The row IDs of items, and what their lines say about relations.
    _related: list[tuple[int, Line]] = field(default_factory=list)

    def clear(self, identifiers: Iterable[str]) -> None:
        """Remove the next editions and the translations of the items that exist already.

        :param identifiers: all identifiers in the file.
        """
        relations = self.store.relations
        for part in dialects.batched(identifiers, BATCH):
            ids = {owner.id for owner in self.store.find_owners(part).values()}
            for item_id, item in self.store.reader.read_items(ids).items():
                record = item.record
                if record.next_edition is not None or record.translations:
                    self._former[item_id] = record
                if record.next_edition is not None:
                    relations.set_next_edition(item_id, None)
                if record.translations:
                    members = relations.find_members(record.identifiers[0])
                    self._members.update(
                        member.item_id for member in members if member.item_id != item_id
                    )
                    relations.dissolve(record.identifiers[0])

    def write(self, lines: Sequence[Line]) -> None:
        """Store a batch of lines."""
        for part in [[line] for line in lines] if self.importer.collects else [lines]:
            self._attempt(self._write, part, part)

    def finish(self) -> None:
        """Store the relations that were noted for all lines."""
        self.store.clear_languages(self._without_language)  # they get those of their groups
        for part in dialects.batched(self._related, BATCH):
            self._attempt(self._relate, part, [line for _, line in part])

    def _attempt(
        self, store: Callable[[Sequence[Any]], None], parts: Sequence[Any], lines: Sequence[Line]
    ) -> None:
        """Store a part of each line in one savepoint. If this is refused, store them one by one.

        A line that is refused alone is an error, which is reported or raised.

        :param store: stores the parts.
        :param parts: the parts, one for each of the lines.
        """
        before = replace(self.counts), len(self.store.notices), len(self._related)
        try:
            with self.store.connection.begin_nested():
                store(parts)
        except (IntegrityError, StorageError) as error:
            self.counts, notices, related = before
            del self.store.notices[notices:]
            if store == self._write:
                del self._related[related:]
            if len(lines) == 1:
                self.importer.handle(self._explain(lines[0], error))
                return
            for part, line in zip(parts, lines, strict=True):
                self._attempt(store, [part], [line])

    def _explain(self, line: Line, error: IntegrityError | StorageError) -> RecordError:
        """Convert an error of the database to the error of a line, which is returned."""
        ibi = line.record.identifiers[0]
        if isinstance(error, RecordError):
            return error
        if isinstance(error, IntegrityError):
            error = explain_refusal(error, ibi)
        if not isinstance(error, RuleBroken):
            name, _, reason = str(error).partition(": ")
            return RecordError(self.name, line.number, name, reason)
        field = error.field or FIELD_OF_RULE.get(error.rule) or find_field(line.record, error.ibi)
        return RecordError(self.name, line.number, field, str(error))

    def _write(self, lines: Sequence[Line]) -> None:
        store = self.store
        texts = [text for line in lines for text in line.record.identifiers]
        new, named, seen = self._sort(lines, store.find_owners(texts))
        self._update(named)
        stored = {**named, **dict(zip(self._insert(new), new, strict=True))}
        counts = {item_id: line.counts for item_id, line in stored.items() if line.counts}
        if counts:
            replace_counts(store.connection, store.archive_id, counts)
        self._named |= seen

    def _insert(self, lines: Sequence[Line]) -> list[int]:
        """Insert new items, and return their row IDs in the order of the lines."""
        if not lines:
            return []
        records = [without_relations(line.record) for line in lines]
        ids = self.store.insert(records, [line.contents for line in lines], self.now)
        self.counts.added += len(ids)
        for item_id, line in zip(ids, lines, strict=True):
            self._note_relations(item_id, line.number, line.record)
            if line.record.state == State.ORIGINAL.value:
                operations.note_signal(self.store, item_deposited, line.record)
            else:
                operations.note_change(self.store, None, line.record)
        return ids

    def _sort(
        self, lines: Sequence[Line], owners: Mapping[str, Owner]
    ) -> tuple[list[Line], dict[int, Line], set[int]]:
        """Find out which lines are new items, and which lines update items.

        :param owners: the items that have identifiers in the lines, by identifier.
        :returns: the lines of new items; the lines that update items, by row ID; the row IDs of all
            items whose identifiers are in a line, even if the line is skipped.
        :raises RecordError: if a line is refused, because an item already has its identifiers.
        """
        new: list[Line] = []
        named: dict[int, Line] = {}
        seen: set[int] = set()
        for line in lines:
            texts = [text for text in line.record.identifiers if text in owners]
            items = {owners[text].id for text in texts}
            if not items:
                new.append(line)
                continue
            in_file = max(items) > self.newest or not (
                items.isdisjoint(self._named) and items.isdisjoint(seen)
            )
            seen |= items
            if self.importer.on_conflict == "skip" and not in_file:
                self.counts.skipped += 1
                continue
            reason = None
            if owners[texts[0]].is_service:
                reason = "{} is the Archive service, and the Archive service can't be imported"
            elif len(items) > 1:
                reason = "the identifiers of the record belong to several items of the Archive"
            elif in_file:
                reason = "{} is already in an earlier line"
            elif self.importer.on_conflict != "update":
                reason = "an item of the Archive already has {}; see the option --on-conflict"
            if reason is not None:
                place = find_field(line.record, texts[0])
                raise RecordError(self.name, line.number, place, reason.format(texts[0]))
            named[items.pop()] = line
        return new, named, seen

    def _update(self, lines: Mapping[int, Line]) -> None:
        """Update items from lines. If a line changes nothing, its item is not written.

        :param lines: the lines by the row IDs of their items.
        """
        if not lines:
            return
        store = self.store
        lock_items(store.connection, list(lines))
        updates = []
        for item_id, view in store.reader.read_items(list(lines)).items():
            line, before = lines[item_id], self._former.get(item_id, view.record)
            try:
                record = self._merge(line, before)
            except FieldError as error:
                raise RecordError(self.name, line.number, error.field, error.reason) from error
            [record] = store.resolve([record])
            self._note_relations(item_id, line.number, record)
            ibi, language = before.identifiers[0], before.language
            if view.head is not None and language is not None:
                # the record of an item outside of the file lists this item
                write.check_language(ibi, record.language, language)
                record = structs.replace(record, language=language)
            elif record.language is None and item_id in self._members:
                self._without_language.add(item_id)
                record = structs.replace(record, language=language)
            # a line may omit the timestamp
            record = structs.replace(record, timestamp=record.timestamp or before.timestamp)
            if before == record:
                self.counts.skipped += 1
                continue
            store.check_no_copies(item_id, record)
            new = without_relations(record)
            updates.append(write.Update(item_id, without_relations(before), new, line.contents))
            # the line of another item of the group may change the translations, too
            record = structs.replace(record, translations=before.translations)
            operations.note_change(store, before, record)
        store.replace(updates, self.now)
        self.counts.updated += len(updates)

    def _merge(self, line: Line, before: Record) -> Record:
        """Return the new record of an item: that of the line, with all identifiers of the item.

        :param before: the present record of the item.
        """
        record, elsewhere = line.record, before.original_elsewhere
        if elsewhere and record.state == State.ORIGINAL and not self.importer.take_back:
            reason = f"the Original is in {elsewhere}; if it is given up there, add --take-back"
            raise FieldError("state", reason)
        record = write.keep_same_as(operations.with_all_identifiers(record, before), before)
        check_record(record)
        checksums = {file.path: file.sha256 for file in before.files if file.url is None}
        checksums.update((path, content.sha256) for path, content in line.contents.items())
        files = tuple(
            structs.replace(
                file,
                source=None,
                sha256=file.sha256 or (checksums.get(file.path) if file.url is None else None),
            )
            for file in record.files
        )
        first = files[0].path if files else None
        return structs.replace(
            record,
            key=record.key or before.key,
            files=files,
            target_file=None if record.target_file == first else record.target_file,
        )

    def _note_relations(self, item_id: int, number: int, record: Record) -> None:
        """Note the relations of an item, to set them after the last line."""
        if record.next_edition is not None or record.translations:
            names = ("rep", "ibip", "aliases", "next_edition", "translations")
            relations = Record(**{name: getattr(record, name) for name in names})
            self._related.append((item_id, Line(number, relations)))

    def _relate(self, items: Sequence[tuple[int, Line]]) -> None:
        """Store the relations of items.

        :param items: the row ID of each item, and its line.
        """
        records = self.store.resolve([line.record for _, line in items])
        for (item_id, __), record in zip(items, records, strict=True):
            if record.next_edition is not None:
                self.store.relations.set_next_edition(item_id, record.next_edition)
        lists = {record.identifiers[0]: record.translations for record in records}
        self.store.relations.join({ibi: listed for ibi, listed in lists.items() if listed})


def without_relations(record: Record) -> Record:
    """Return a record without its next edition and its translations."""
    return structs.replace(record, next_edition=None, translations={})


@dataclass
class Importer:
    """Imports the records of a file in one transaction: an interrupted import changes nothing.

    :param on_conflict: what is done if an item already exists: error, skip or update.
    :param take_back: whether a line may make an item an Original again after its Original was
        transferred to another Archive.
    :param dry_run: if true, the file is only checked and nothing is changed.
    :param progress: called with the stage, the number of units of work that are done, and the total
        number of units.
    :param on_error: a function that is called with each error of a dry run. The dry run then
        ignores the line. None means that the first error ends the dry run.
    :param stage: the stage of the work, for ``progress``.
    """

    context: operations.OperationContext
    on_conflict: str = "error"
    take_back: bool = False
    dry_run: bool = False
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None
    on_error: Callable[[RecordError], None] | None = None
    stage: str = "work"

    @property
    def collects(self) -> bool:
        """Whether the import goes on after an error and reports it, instead of raising it."""
        return self.dry_run and self.on_error is not None

    def handle(self, error: RecordError) -> None:
        """Report an error if the import collects errors; otherwise raise it."""
        if self.on_error is None or not self.dry_run:
            raise error
        self.on_error(error)

    def run(self, source: ImportSource) -> Counts:
        """Import the file.

        :raises RecordError: if a record is wrong. The error names the line and the field. Nothing
            was changed.
        """
        context = self.context
        size = source.stream.seek(0, os.SEEK_END)
        self.progress(self.stage, 0, size)
        notices: list[Notice] = []
        counts = Counts()
        try:
            with context.folder.staging() as staging:
                measure_file = partial(copy_and_measure, target=None)
                add_file = measure_file if self.dry_run else staging.add_stream
                batches = self._read_batches(source, add_file)
                # the first files are copied before the transaction, which blocks other writers
                first = next(batches)
                with context.database.writing() as connection:
                    store = write.ItemStore(connection, context.archive.id)
                    store.lock_relations(limited=False)
                    newest = connection.scalar(select(func.max(Item.id))) or 0
                    lines = ImportPass(store, source.name, self, context.now(), newest)
                    if self.on_conflict == "update":
                        position = source.stream.tell()
                        lines.clear(self._read_identifiers(source))
                        source.stream.seek(position)
                    for number, batch in enumerate(chain([first], batches), 1):
                        if number.bit_count() == 1:  # before the batches 1, 2, 4, 8 and so on
                            write.examine_tables(connection)
                        lines.write(batch)
                        self.progress(self.stage, source.stream.tell(), size)
                    lines.finish()
                    counts = lines.counts
                    if self.dry_run:
                        connection.rollback()
                    else:
                        staging.move_all_to_store()
                        notices = operations.name_archives(store)
        except RecordError as error:
            self.handle(error)  # some errors end a dry run, too
        context.notifier.send(notices)
        self.progress(self.stage, size, size)
        return counts

    def _read_identifiers(self, source: ImportSource) -> Iterator[str]:
        """Yield all identifiers in the file. Wrong lines are left out, and reported later."""
        for __, text in source.read_lines():
            with suppress(FieldError):
                data = read_json(text)
                if isinstance(data, dict):
                    data.pop("counts", None)
                yield from parse_record(data).identifiers

    def _read_batches(self, source: ImportSource, add_file: AddFile) -> Iterator[list[Line]]:
        lines: list[Line] = []
        size = 0
        for number, text in source.read_lines():
            line = self._read_line(source, number, text, add_file)
            if line is not None:
                lines.append(line)
                size += len(text)
            if len(lines) >= BATCH or size >= BATCH_BYTES:
                yield lines
                lines, size = [], 0
        yield lines

    def _read_line(
        self, source: ImportSource, number: int, text: bytes, add_file: AddFile
    ) -> Line | None:
        """Parse a line, and read the files that it names. Return None if the line has an error."""
        try:
            data, counts = read_json(text), None
            if isinstance(data, dict) and "counts" in data:
                counts = parse_counts("counts", data.pop("counts"))
            line = Line(number, parse_record(data), counts=counts)
            errors = list(add_files(source, line, add_file))
        except FieldError as error:
            # "counts" is a field of the line, but not of the record
            found = find_errors(text) if self.collects else ()
            # an error in the counts is the only one of its line
            errors = [each for each in found if each.field != "counts"] or [error]
        for each in errors:
            self.handle(RecordError(source.name, number, each.field or None, each.reason))
        return None if errors else line


#: The number of works that get identifiers together.
WORKS_PER_BATCH = 1000


@dataclass
class WorksImporter:
    """Imports the works of a file into an Archive.

    :param importer: imports the records of the works. With ``on_conflict="update"``, entries that
        were imported earlier update their items. Otherwise they are skipped. The ``on_error`` of
        the importer is called with each error of the file. If there is one, nothing is imported.
    :param on_identified: called with each work, also if it was imported before: its place in the
        file, such as ``row 7``, its key, its identifiers and its title.
    :param on_warning: called with a note about the file, and with each value of a description that
        was changed or left out.
    :param is_strict: whether such values are errors.
    """

    importer: Importer
    on_identified: Callable[[str, str, Minted, str], None] | None
    on_warning: Callable[[RecordError], None]
    is_strict: bool = False
    _errors: int = 0
    #: The keys and the places of the works.
    _works: Sequence[tuple[str, str]] = ()
    #: The names of the fields in the file, by the paths of records.
    _names: Mapping[str, str] = field(default_factory=dict)

    def run(self, source: ImportSource, works: readers.WorksFile, prefix: str) -> Counts:
        """Import the works of a file.

        :param source: the file. Its folder contains the files that the works name.
        :param works: the entries of the file, as a reader has read them.
        :param prefix: the beginning of the keys of entries that have no key.
        :returns: the numbers of items. If there are errors, nothing was imported.
        :raises RecordError: if a work cannot be imported although the check has found no error.
        :raises MintingError: if no identifiers can be minted.
        """
        invented = self.importer.context.get_minter().invent()  # reports wrong settings first
        if self.importer.on_conflict != "update":
            self.importer = replace(self.importer, on_conflict="skip")
        with tempfile.TemporaryFile() as records:
            self._write_records(records, source.name, works, prefix)
            source = replace(source, stream=records)
            check = replace(
                self.importer,
                dry_run=True,
                on_error=lambda error: self._report(self._explain(error)),
                stage="check",
            )
            counts = check.run(self._identify(source, partial(islice, invented)))
            if self._errors or self.importer.dry_run:
                return counts
            return self._import(source)

    def _write_records(
        self, records: BinaryIO, name: str, works: readers.WorksFile, prefix: str
    ) -> None:
        """Write each entry as a line of JSON with its key, but without identifiers.

        Report the entries that are wrong.
        """
        self._names, places = works.names, dict[str, str]()
        key_field = str(readers.name_field("key", self._names))
        report = self._report if self.is_strict else self.on_warning
        if works.note:
            self.on_warning(RecordError(name, 0, None, works.note, _("row {number}", number=1)))
        for entry in works.entries:
            errors = [*entry.errors]
            warnings = [*entry.warnings]
            if entry.data and not (works.is_strict or self.is_strict):
                warnings += [
                    FieldError(str(readers.name_field(wrong.field, self._names)), wrong.reason)
                    for wrong in readers.leave_out_wrong(entry.data)
                ]
            for wrong in warnings:
                report(RecordError(name, 0, wrong.field or None, wrong.reason, entry.place))
            if entry.data:
                key = entry.data.get("key") or f"{prefix}:{entry.key}"
                try:
                    earlier = places.setdefault(parse_key(key_field, key), entry.place)
                    if earlier is not entry.place:
                        reason = _("this is the same work as in {place}", place=earlier)
                        if "key" in entry.data:
                            reason = _("{place} has the same key", place=earlier)
                        raise FieldError("", reason)
                    records.write(json.dumps({**entry.data, "key": key}).encode() + b"\n")
                except FieldError as error:
                    errors.append(error)
            elif not errors:
                errors.append(FieldError("", _("nothing is stated")))
            for wrong in errors:
                self._report(RecordError(name, 0, wrong.field or None, wrong.reason, entry.place))
        self._works = [*places.items()]

    def _report(self, error: RecordError) -> None:
        self._errors += 1
        if self.importer.on_error is not None:
            self.importer.on_error(error)

    def _explain(self, error: RecordError) -> RecordError:
        """Return an error that names the place in the user's file, not in the file of records."""
        _, place = self._works[error.line - 1]
        field = readers.name_field(error.field, self._names)
        return RecordError(error.source, 0, field, error.reason, place)

    def _identify(
        self, source: ImportSource, mint: Callable[[int], Iterable[Minted]]
    ) -> ImportSource:
        """Return the source of the records together with an identifier for each of them.

        If an item already has the key of a work, the work gets the identifiers of this item.

        :param mint: returns new identifiers.
        """
        identifiers: list[Minted] = []
        for works in dialects.batched(self._works, WORKS_PER_BATCH):
            keys = [key for key, _ in works]
            with self.importer.context.reading() as store:
                holders = ownership.find_holders(store.connection, store.archive_id, keys)
            known = {
                key: Minted(holder.rep, holder.ibip)
                for key, holder in holders.items()
                if holder.item_id is not None and holder.rep and holder.ibip
            }
            new = iter(mint(len(keys) - len(known)))
            identifiers += [known.get(key) or next(new) for key in keys]
        return replace(source, identifiers=identifiers)

    def _mint(self, count: int) -> list[Minted]:
        """Mint identifiers, send the signals about them, and return them."""
        context = self.importer.context
        minted = context.get_minter().for_many(count).mint(count) if count else []
        for new in minted:
            values = {**asdict(new), "ibi": new.ibi, "archive": context.archive.service_ibi}
            context.notifier.send([Notice(item_minted, values)])
        return minted

    def _import(self, source: ImportSource) -> Counts:
        source = self._identify(source, self._mint)
        try:
            counts = self.importer.run(source)
        except RecordError as error:
            raise self._explain(error) from error
        if self.on_identified is not None:
            source.stream.seek(0)
            for (key, place), forms, line in zip(
                self._works, source.identifiers, source.stream, strict=True
            ):
                titles = json.loads(line).get("metadata", {}).get("work", {}).get("titles", [])
                title = next(iter(titles), "")
                if isinstance(title, dict):
                    title = title["value"]
                self.on_identified(place, key, forms, title)
        return counts


TABLES = (".csv", ".tsv")
#: Files of spreadsheets, and how the first of them begins, whatever its name.
SPREADSHEETS = (".xlsx", ".xls", ".ods")
ZIP = b"PK\x03\x04"
SAVE_AS_CSV = _(
    'open it in the spreadsheet program, choose "Save as", and "CSV UTF-8 (comma delimited)"'
)
#: The second byte of a letter of Portuguese in UTF-8, which is no letter in Windows-1252.
UTF_8 = re.compile(rb"[\xc2\xc3][\x80-\xbf]")
#: The encodings of tables other than UTF-8, which the user should know, and their names.
ENCODINGS = {"cp1252": "Windows-1252", "utf-16": "UTF-16"}
ENDINGS = (*TABLES, ".jsonl", ".json")
#: Files that other programs convert to CSL-JSON, and the names of their formats in pandoc.
CONVERTED = {".bib": "bibtex", ".ris": "ris"}


@dataclass
class TextLines:
    """The lines of a text, with their line ends. It can be iterated several times."""

    stream: BinaryIO
    encoding: str

    def __iter__(self) -> Iterator[str]:
        """Yield the lines.

        :raises UnicodeDecodeError: if the text has another encoding.
        """
        self.stream.seek(0)
        text = TextIOWrapper(self.stream, self.encoding, newline="")
        try:
            yield from text
        finally:
            if not self.stream.closed:
                text.detach()  # otherwise, the stream is closed


def find_encoding(stream: BinaryIO) -> str:
    """Return the encoding of a table: UTF-8, UTF-16 (with a byte order mark) or Windows-1252.

    Excel writes Windows-1252.

    :raises FieldError: if the table has another encoding, or is no text.
    """
    start = stream.read(4)
    encodings = ["utf-8-sig", "cp1252"]
    if start.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        encodings = ["utf-16"]
    elif start.startswith(BOM_UTF8) or any(map(UTF_8.search, stream)):
        del encodings[1]
    for encoding in encodings if start != ZIP else []:
        with suppress(UnicodeDecodeError):
            deque(TextLines(stream, encoding), 0)
            return encoding
    reason = _("the file is no text in UTF-8 or UTF-16; {advice}", advice=SAVE_AS_CSV)
    raise FieldError("", reason)


def read_works(
    source: ImportSource,
    columns: Mapping[str, str],
    separator: str,
    ignored: Collection[str],
    dates: str,
) -> readers.WorksFile:
    """Read the works of a file: a table (CSV), JSON Lines or CSL-JSON.

    The parameters after ``source`` are only used for a table.

    :raises StorageError: if the file has an unknown kind or cannot be read as a whole.
    """
    ending = Path(source.name).suffix.lower()
    try:
        if ending in TABLES:
            encoding = find_encoding(source.stream)
            lines = TextLines(source.stream, encoding)
            works = readers.read_csv(lines, columns, separator, ignored, dates)
            if name := ENCODINGS.get(encoding):
                note = _(
                    "the table is read as {encoding}; if letters are wrong, {advice}",
                    **{"encoding": name, "advice": SAVE_AS_CSV},
                )
                works = replace(works, note=note)
            return works
        if ending == ".jsonl":
            return readers.read_json_lines(source.stream)
        if ending == ".json":
            return csl_reader.read_csl_json(source.stream.read().decode("utf-8-sig"))
    except FieldError as error:
        reason = _("{name}: {reason}", name=source.name, reason=error.args[0])
        raise StorageError(reason) from error
    except UnicodeDecodeError as error:
        reason = _("{name} is not UTF-8 text (byte {number}); save it as UTF-8")
        number = error.start + 1
        raise StorageError(_(reason, name=source.name, number=number)) from error
    path = Path(source.name)
    endings = ", ".join(ENDINGS)
    reason = _("is not a file of works; its name must end with {endings}", endings=endings)
    if ending in SPREADSHEETS:
        reason = _("is not read; {advice}", advice=SAVE_AS_CSV)
    if ending in CONVERTED:
        command = f"pandoc -f {CONVERTED[ending]} -t csljson {path} -o {path.with_suffix('.json')}"
        reason = _("is not read; export CSL JSON from Zotero, or run: {command}", command=command)
    raise StorageError(_("{name} {reason}", name=source.name, reason=reason))


def format_with_counts(
    records: Iterable[Record], database: Database, archive_id: int
) -> Iterator[str]:
    """Yield each record as a line of JSON, with the daily counts of accesses to the item."""
    for batch in dialects.batched(records, EXPORT_BATCH):
        names = [record.identifiers[0] for record in batch]
        with database.reading() as connection:
            owners = write.ItemStore(connection, archive_id).find_owners(names)
            counts = read_counts(connection, [owner.id for owner in owners.values()])
        for record, name in zip(batch, names, strict=True):
            line = format_record(record)
            if name in owners and (of_item := counts.get(owners[name].id)):
                line["counts"] = format_counts(of_item)
            yield json.dumps(line, ensure_ascii=False)


def copy_files(records: Iterable[Record], folder: Path, base: Path) -> Iterator[Record]:
    """Copy the stored files of items to a folder, and yield the records with the new paths.

    :param folder: the folder for the copies. Files with equal contents are copied only once.
    :param base: a folder. The new ``source`` of each file is the path relative to this folder.
    :raises StorageError: if a file cannot be copied, or a stored file is damaged.
    """
    for record in records:
        ibi = record.identifiers[0]
        files = tuple(
            file if file.source is None else _copy_file(file, ibi, folder, base)
            for file in record.files
        )
        yield structs.replace(record, files=files)


def _copy_file(file: FileRecord, ibi: str, folder: Path, base: Path) -> FileRecord:
    """Copy a file to a folder, unless the copy exists, and return its record with the new path.

    The name of the copy is the checksum.
    """
    name, source = f"file {file.path} of {ibi}", Path(str(file.source))
    try:
        sha256 = file.sha256 or measure(source).sha256  # hosts need not know checksums
        target = folder / sha256
        if not target.exists() or measure(target).sha256 != sha256:
            folder.mkdir(parents=True, exist_ok=True)
            with source.open("rb") as stream, new_file(target, mode=0o666) as copy:
                if copy_and_measure(stream, copy).sha256 != sha256:
                    raise StorageError(f"{name} is damaged; run flask ibi verify")
    except OSError as error:
        reason = f"can't be copied to {folder}: {error.strerror}: {error.filename}"
        raise StorageError(f"{name} {reason}") from error
    return structs.replace(file, source=Path(os.path.relpath(target, base)).as_posix())
