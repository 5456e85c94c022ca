"""Takes in a file of records: all of it, or nothing."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.errors import RecordError, RuleBroken, StorageError
from flask_ibi_archive.records.fields import FieldError, shown
from flask_ibi_archive.records.parse import check_record, parse_line
from flask_ibi_archive.records.record import ItemRecord
from flask_ibi_archive.storage.contents import ContentFolder, Staging, measure
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.items import Content, ItemStore
from flask_ibi_archive.storage.links import ToldLanguage
from flask_ibi_archive.storage.rules import explain
from flask_ibi_archive.storage.states import ELSEWHERE

BATCH = 400
MAX_LINE = 16 << 20
#: What a line holds that takes files in; the name of the field may be written with escapes.
SOURCE = re.compile(rb"source|\\u")
#: The field of a record that a broken rule is about.
FIELD_OF_RULE = {4: "original_archive", 7: "next_edition", 8: "translations"}


@dataclass(slots=True)
class ImportResult:
    """What became of the records of a file."""

    added: int = 0
    updated: int = 0
    skipped: int = 0


@dataclass(slots=True)
class Source:
    """A file of records, opened for reading twice.

    :param name: what messages call it.
    :param folder: what the paths in ``source`` fields are relative to.
    """

    name: str
    stream: BinaryIO
    folder: Path

    def records(
        self,
        wanted: Callable[[int], bool] | None = None,
        holding: re.Pattern[bytes] | None = None,
    ) -> Iterator[_Line]:
        """Give the records with their line numbers, from 1; empty lines are passed over.

        :raises RecordError: at the first line that holds no record.
        """
        self.stream.seek(0)
        number = 0
        while line := self.stream.readline(MAX_LINE + 1):
            number += 1
            if len(line) > MAX_LINE:
                raise RecordError(self.name, number, None, f"is longer than {MAX_LINE} bytes")
            if wanted is not None and not wanted(number):
                continue
            if holding is not None and not holding.search(line):
                continue
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            if not line.strip():
                continue
            try:
                yield _Line(number, parse_line(line))
            except FieldError as error:
                raise RecordError(self.name, number, error.field or None, error.reason) from error


@dataclass(slots=True)
class _Line:
    number: int
    record: ItemRecord


@contextmanager
def open_source(path: str, standard_input: BinaryIO) -> Iterator[Source]:
    """Open a file of records; ``-`` is standard input, which is kept in a temporary file meanwhile.

    :raises StorageError: if it can't be read.
    """
    if path == "-":
        with tempfile.TemporaryFile() as copy:
            shutil.copyfileobj(standard_input, copy)
            yield Source("standard input", copy, Path())
        return
    try:
        stream = Path(path).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise StorageError(f"{path} can't be read: {error.strerror}") from error
    with stream:
        yield Source(path, stream, Path(path).parent)


class _Undo(Exception):
    """Ends a dry run: the transaction is rolled back."""


@dataclass
class Importer:
    """Takes the records of a file into an Archive.

    :param folder: where the contents of files are kept.
    :param on_conflict: what to do with an item that is here already: error, skip or update.
    :param progress: told the number of bytes that were read since it was told last.
    """

    database: Database
    archive_id: int
    folder: ContentFolder
    on_conflict: str = "error"
    dry_run: bool = False
    progress: Callable[[int], None] = lambda done: None
    #: Rows of the lines that speak of other items, by their numbers; rows of those whose languages other
    #: records tell, with what they tell; the contents of the lines that take files in; rows written over.
    _tied: dict[int, int] = field(default_factory=dict)
    _told: dict[int, tuple[int, list[ToldLanguage]]] = field(default_factory=dict)
    _contents: dict[int, dict[str, Content]] = field(default_factory=dict)
    _written: set[int] = field(default_factory=set)

    def run(self, source: Source) -> ImportResult:
        """Take in a file, in one transaction.

        :raises RecordError: naming line and field; then nothing was changed.
        """
        with self.folder.staging() if not self.dry_run else nullcontext() as staging:
            # before the transaction, which keeps other writers waiting
            for line in source.records(holding=SOURCE):
                found = self._files(source, line, staging.take if staging else measure)
                if found:
                    self._contents[line.number] = found
            return self._write(source, staging)

    def _write(self, source: Source, staging: Staging | None) -> ImportResult:
        try:
            with self.database.writing() as connection:
                store = ItemStore(connection, self.archive_id)
                store.lock_ties()
                result = self._take(store, source)
                if staging is None:
                    raise _Undo
                for contents in self._contents.values():
                    for content in contents.values():
                        staging.keep(content)
        except _Undo:
            return result
        except IntegrityError as error:
            raise explain(error) or StorageError(
                f"the database refuses it: {error.orig}"
            ) from error
        return result

    def _take(self, store: ItemStore, source: Source) -> ImportResult:
        result = ImportResult()
        newest = store.newest_item()
        now = datetime.now(timezone.utc).replace(microsecond=0)
        lines = source.records()
        position = 0
        while batch := list(islice(lines, BATCH)):
            self._take_batch(store, source, batch, newest, now, result)
            position, before = source.stream.tell(), position
            self.progress(position - before)
        if self._told:
            for line in source.records(self._told.__contains__):
                item_id, told = self._told[line.number]
                try:
                    for one in told:
                        store.rejoin_translations(item_id, one, line.record.identifiers[0])
                except RuleBroken as error:
                    raise self._error(source, line, error, "language") from error
        for line in source.records(self._tied.__contains__):
            try:
                store.tie(self._tied[line.number], line.record)
            except RuleBroken as error:
                raise self._error(source, line, error) from error
        if self.on_conflict == "update":
            store.forget_mentions()
        return result

    def _take_batch(
        self,
        store: ItemStore,
        source: Source,
        batch: Sequence[_Line],
        newest: int,
        now: datetime,
        result: ImportResult,
    ) -> None:
        identifiers = [text for line in batch for text in line.record.identifiers]
        known = store.owners(identifiers)
        elsewhere = store.originals_elsewhere(identifiers)
        fresh: list[_Line] = []
        contents: list[dict[str, Content]] = []
        in_batch: dict[str, int] = {}
        for line in batch:
            record = line.record
            for text in record.identifiers:
                if text in in_batch:
                    raise RecordError(
                        source.name,
                        line.number,
                        _field_of(record, text),
                        f"{text} stands in line {in_batch[text]} already",
                    )
                in_batch[text] = line.number
                if record.state == "Original" and text in elsewhere:
                    raise self._error(
                        source,
                        line,
                        RuleBroken(3, text, "another Archive of the database holds the Original"),
                        _field_of(record, text),
                    )
            try:
                store.check_copy(record)
            except RuleBroken as error:
                raise self._error(source, line, error) from error
            here = {known[text] for text in record.identifiers if text in known}
            held = {item_id for item_id, state in here if state != ELSEWHERE}
            in_this_file = bool(held) and (max(held) > newest or not held.isdisjoint(self._written))
            if held and self.on_conflict == "skip" and not in_this_file:
                result.skipped += 1
                continue
            self._check_service(store, source, line, known)
            if held and (self.on_conflict != "update" or len(held) > 1 or in_this_file):
                raise self._conflict(source, line, known, len(held), in_this_file)
            taken = self._contents.get(line.number, {})
            if not here:
                fresh.append(line)
                contents.append(taken)
                continue
            item_id = min(held or {item_id for item_id, _ in here})
            try:
                if held:
                    record = with_all_identifiers(record, store.read_record(item_id))
                    check_record(record)
                    store.check_copies(item_id, record)
                    store.untie(item_id)
                    result.updated += 1
                else:
                    result.added += 1
                told = [store.leave_translations(owner) for owner, _ in sorted(here)]
                if any(told):
                    self._told[line.number] = item_id, [one for one in told if one is not None]
                self._written.add(item_id)
                store.replace_item(item_id, record, taken, now)
            except RuleBroken as error:
                raise self._error(source, line, error) from error
            except FieldError as error:
                raise RecordError(source.name, line.number, error.field, error.reason) from error
            except IntegrityError as error:
                broken = explain(error, record.identifiers[0])
                raise (self._error(source, line, broken) if broken else error) from error
            if record.has_references:
                self._tied[line.number] = item_id
        ids = store.insert_items([line.record for line in fresh], contents, now)
        result.added += len(fresh)
        self._tied.update(
            (line.number, item_id)
            for line, item_id in zip(fresh, ids, strict=True)
            if line.record.has_references
        )

    def _check_service(
        self, store: ItemStore, source: Source, line: _Line, known: dict[str, tuple[int, str]]
    ) -> None:
        for text in line.record.identifiers:
            if text in known and store.is_service(known[text][0]):
                reason = f"{text} is the service of the Archive, which is not imported"
                raise RecordError(source.name, line.number, _field_of(line.record, text), reason)

    def _conflict(
        self,
        source: Source,
        line: _Line,
        known: dict[str, tuple[int, str]],
        owners: int,
        in_this_file: bool,
    ) -> RecordError:
        text = next(
            text
            for text in line.record.identifiers
            if known.get(text, (0, ELSEWHERE))[1] != ELSEWHERE
        )
        if owners > 1:
            reason = "its identifiers belong to several items of the Archive"
        elif in_this_file:
            reason = f"{text} stands in an earlier line already"
        else:
            reason = f"an item of the Archive bears {text} already (see --on-conflict)"
        return RecordError(source.name, line.number, _field_of(line.record, text), reason)

    def _files(
        self, source: Source, line: _Line, look: Callable[[Path], Content]
    ) -> dict[str, Content]:
        """Give the contents of the files that a record takes in, after a look at each."""
        found: dict[str, Content] = {}
        for number, file in enumerate(line.record.files):
            if file.source is None:
                continue
            path = source.folder / file.source
            name = f"files[{number}]"
            try:
                content = look(path)
            except (OSError, ValueError) as error:
                raise RecordError(
                    source.name,
                    line.number,
                    f"{name}.source",
                    f"{shown(str(path))} can't be taken in: {getattr(error, 'strerror', error)}",
                ) from error
            if file.sha256 not in (None, content.sha256):
                raise RecordError(
                    source.name,
                    line.number,
                    f"{name}.sha256",
                    f"the content of {shown(str(path))} has the checksum {content.sha256}",
                )
            found[file.path] = content
        return found

    def _error(
        self, source: Source, line: _Line, error: RuleBroken, name: str | None = None
    ) -> RecordError:
        return RecordError(
            source.name, line.number, name or FIELD_OF_RULE.get(error.rule), str(error)
        )


def with_all_identifiers(record: ItemRecord, before: ItemRecord) -> ItemRecord:
    """Give a record with those identifiers that its item bears already: what was given stays given.

    :raises RuleBroken: rule 1, if it would replace one of the item's forms.
    Source: [G] 4 and 5 (an item gets its label for good).
    """
    ibi = before.identifiers[0]
    for form, now in (("rep", record.rep), ("ibip", record.ibip)):
        given = getattr(before, form)
        if None not in (given, now) and given != now:
            raise RuleBroken(1, ibi, f"it bears {given}, and an identifier is given for good")
    rep, ibip = record.rep or before.rep, record.ibip or before.ibip
    kept = [text for text in before.aliases if text not in (rep, ibip, *record.aliases)]
    aliases = [text for text in record.aliases if text not in (rep, ibip)]
    return replace(record, rep=rep, ibip=ibip, aliases=(*aliases, *kept))


def _field_of(record: ItemRecord, text: str) -> str:
    if text == record.rep:
        return "rep"
    return "ibip" if text == record.ibip else "aliases"
