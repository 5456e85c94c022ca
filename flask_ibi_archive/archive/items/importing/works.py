"""Imports works without identifiers: each item gets new ones.

The entries of a file of works are written to a temporary file as records, which are checked as an
import with invented identifiers that is rolled back. If nothing is wrong, the records are imported
in one transaction. The key of an entry says which item was made from it: what has an item already
is not imported again.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import BinaryIO

from flask_ibi_archive.archive.items.importing.importer import Counts, Importer
from flask_ibi_archive.archive.items.importing.source import ImportSource
from flask_ibi_archive.archive.items.keys import find_holders
from flask_ibi_archive.archive.items.minting import Minted
from flask_ibi_archive.archive.items.operations.context import OperationContext
from flask_ibi_archive.core.records.fields import FieldError, parse_key
from flask_ibi_archive.core.records.readers.entries import WorksFile, name_field
from flask_ibi_archive.errors import RecordError
from flask_ibi_archive.signals import Notice, item_minted

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
