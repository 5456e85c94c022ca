"""Imports works without identifiers: each item gets new ones.

A file of works is read twice. First, its entries are written to a temporary file as records, which
are checked as an import with invented identifiers that is rolled back. If nothing is wrong, the
records are imported in batches, each of which is a transaction. The key of an entry says which item
was made from it. Therefore an interrupted import is continued by repeating it: what has an item
already is not imported again.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import IO

from flask_ibi_archive.archive.items.bulk import examine_tables
from flask_ibi_archive.archive.items.importing.importer import BATCH, Importer
from flask_ibi_archive.archive.items.importing.progress import Counts
from flask_ibi_archive.archive.items.importing.source import ImportSource
from flask_ibi_archive.archive.items.keys import find_holders
from flask_ibi_archive.archive.items.minting import Minted
from flask_ibi_archive.archive.items.operations.context import OperationContext
from flask_ibi_archive.core.records.fields import FieldError, parse_key
from flask_ibi_archive.core.records.readers.entries import WorksFile, name_field
from flask_ibi_archive.errors import RecordError
from flask_ibi_archive.signals import Notice, item_minted

#: The number of works that are imported in one transaction.
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
            The works before it are imported.
        :raises MintingError: if no identifiers can be minted. The works before are imported.
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

    def _write_records(self, records: IO[bytes], name: str, works: WorksFile, prefix: str) -> None:
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

    def _check(self, records: IO[bytes], source: ImportSource, works: WorksFile) -> Counts:
        """Check the records together, and report their errors."""
        with tempfile.TemporaryFile() as identified:
            dates = self.context.get_minter().invent()
            for lines in _read_batches(records):
                for line, _, _ in self._identify(lines, lambda count: list(islice(dates, count))):
                    identified.write(line)

            def report(error: RecordError) -> None:
                self._report(self._explain(error, 0, works))

            importer = replace(self._importer("check"), dry_run=True, on_error=report)
            try:
                return importer.run(replace(source, stream=identified, place=None))
            except RecordError as error:  # some errors end the check
                report(error)
                return Counts()

    def _report(self, error: RecordError) -> None:
        self._errors += 1
        self.on_error(error)

    def _explain(self, error: RecordError, before: int, works: WorksFile) -> RecordError:
        """Return the error with the place and the field of the file instead of those of records.

        :param before: the number of works before the first line of the records.
        """
        place = self._places[before + error.line - 1]
        field = name_field(error.field, works.names)
        return RecordError(error.source, 0, field, error.reason, place)

    # --- the import ------------------------------------------------------------------------------

    def _import(self, records: IO[bytes], source: ImportSource, works: WorksFile) -> Counts:
        counts, done = Counts(), 0
        for lines in _read_batches(records):
            identified = self._identify(lines, self._mint)
            stream = io.BytesIO(b"".join(line for line, _, _ in identified))
            try:
                result = self._importer().run(replace(source, stream=stream, place=None))
            except RecordError as error:
                raise self._explain(error, done, works) from error
            counts = Counts(
                counts.added + result.added,
                counts.updated + result.updated,
                counts.skipped + result.skipped,
            )
            self._report_identifiers(lines, identified, done)
            done += len(lines)
            if self.progress is not None:
                self.progress("work", done, len(self._places))
        if counts.added + counts.updated >= BATCH:
            with self.context.database.writing() as connection:
                examine_tables(connection)
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

    def _importer(self, stage: str | None = None) -> Importer:
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
            progress=None
            if progress is None or stage is None
            else lambda done, total: progress(stage, done, total),
        )

    def _identify(
        self, lines: list[bytes], mint: Callable[[int], list[Minted]]
    ) -> list[tuple[bytes, str, str]]:
        """Return lines with identifiers, and both forms of these.

        A work whose key belongs to an item gets the identifiers of this item.
        """
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
        identified = []
        for key, line in zip(keys, lines, strict=True):
            forms = known.get(key) or next(new)
            text = f'{{"rep": "{forms.rep}", "ibip": "{forms.ibip}", '.encode()
            identified.append((text + line[1:], forms.rep, forms.ibip))
        return identified

    def _report_identifiers(
        self, lines: list[bytes], identified: list[tuple[bytes, str, str]], done: int
    ) -> None:
        if self.on_identified is None:
            return
        for number, (line, (_, rep, ibip)) in enumerate(zip(lines, identified, strict=True), done):
            data = json.loads(line)
            title = next(iter(data.get("metadata", {}).get("work", {}).get("titles", [])), "")
            if isinstance(title, dict):
                title = title["value"]
            self.on_identified(IdentifiedWork(self._places[number], data["key"], rep, ibip, title))


def _read_batches(records: IO[bytes]) -> Iterator[list[bytes]]:
    """Yield the lines of records in batches."""
    while lines := list(islice(records, WORKS_PER_BATCH)):
        yield lines
