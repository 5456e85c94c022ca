"""Compare stored files with their checksums, and delete stored files that no item needs."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import groupby
from typing import IO

from flask_ibi_archive.archive.items import item_parts
from flask_ibi_archive.archive.items.archives import find_archives
from flask_ibi_archive.archive.items.file_io import Content, measure
from flask_ibi_archive.archive.items.file_store import GRACE, FileStore, StoredFile
from flask_ibi_archive.archive.items.identifiers import find_owners
from flask_ibi_archive.archive.items.tables import FileCheck
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.states import ELSEWHERE
from flask_ibi_archive.errors import StorageError, UnknownItem
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import batched, insert_or_update

#: The largest number of files that one transaction deletes. The transaction blocks other writers.
BATCH = 2000
#: If more items than this are checked, the rows of all items are read, and the others are skipped.
MAX_ITEMS = 500
#: If there are more unneeded files than this, they are only deleted if they are at most a tenth of
#: all files, or if ``yes`` is True.
MANY = 10
#: The number of faulty files whose names are stored with the result of a check of all files.
MAX_STORED = 100
REPAIR = "restore the file from a backup, or add the file again"


@dataclass(frozen=True, slots=True)
class Fault:
    """A file of an item whose stored content is wrong.

    :param kind: one of: missing, truncated, altered, swapped, unreadable.
    :param ibi: the identifier of the item.
    :param path: the path of the file in the item.
    :param sha256: the right checksum.
    :param advice: a message that says what is wrong, and how to repair the file.
    """

    kind: str
    ibi: str
    path: str
    sha256: str
    advice: str


@dataclass(slots=True)
class Verification:
    """The result of a check.

    :param files: the number of files of items that were checked.
    :param contents: the number of different contents of these files.
    :param bytes: the total size of these contents, in bytes.
    :param faults: the number of faulty files.
    :param unneeded: the number of stored contents that no item of any Archive needs. None if they
        were not counted.
    :param unneeded_bytes: the total size of the unneeded contents, in bytes.
    :param removed: the number of unneeded contents that were deleted.
    :param leftovers: the number of staging folders of killed processes.
    """

    files: int = 0
    contents: int = 0
    bytes: int = 0
    faults: int = 0
    unneeded: int | None = None
    unneeded_bytes: int = 0
    removed: int = 0
    leftovers: int = 0


@dataclass
class Verifier:
    """Checks the stored files of an Archive.

    :param report: called with each fault.
    :param progress: called with the number of bytes that were read, and the total number of bytes.
    :param clock: returns the time in POSIX seconds.
    """

    database: Database
    archive_id: int
    files: FileStore
    report: Callable[[Fault], None] = lambda fault: None
    progress: Callable[[int, int], None] = lambda done, total: None
    clock: Callable[[], float] = time.time
    result: Verification = field(default_factory=Verification)
    _faulty: list[dict[str, str]] = field(default_factory=list)

    def run(
        self,
        identifiers: Sequence[str] = (),
        prune: bool = False,
        dry_run: bool = False,
        yes: bool = False,
    ) -> Verification:
        """Check the files of items.

        A check of all items also counts the unneeded files, and its result is stored for the page
        of the librarian.

        :param identifiers: identifiers of the items to check. Empty: all items.
        :param prune: True: delete the unneeded files.
        :param dry_run: True: only count the unneeded files, even if ``prune`` is True.
        :param yes: True: delete any number of unneeded files; see :data:`MANY`.
        :raises UnknownItem: if the Archive has no item for one of the identifiers.
        :raises StorageError: if the folder of the files cannot be read or changed; with ``prune``
            also if the folder may contain files of another database, or if too many files are
            unneeded.
        """
        item_ids = self._find_items(identifiers)
        # Take the time before the rows are read: a newer file may belong to a row that is added
        # later.
        before = self.clock() - GRACE
        with tempfile.TemporaryFile("w+", encoding="utf-8") as rows:
            self._copy_rows(rows, item_ids)
            if prune:
                self._check_folder()
                if not yes:
                    self._check_share(rows, before)
            self._check_contents(rows)
            if not identifiers:
                self._store_result()
                self._check_unneeded(rows, before, remove=prune and not dry_run)
        return self.result

    def _find_items(self, identifiers: Sequence[str]) -> set[int]:
        item_ids = set()
        with self.database.reading() as connection:
            for identifier in identifiers:
                text = parse_identifier(identifier).text
                owners = find_owners(connection, self.archive_id, [text])
                item_id, state = owners.get(text, (0, ELSEWHERE))
                if state == ELSEWHERE:
                    raise UnknownItem(text)
                item_ids.add(item_id)
        return item_ids

    def _copy_rows(self, rows: IO[str], item_ids: set[int]) -> None:
        """Copy the rows to a file in a short transaction.

        The check of the contents may take hours. The transaction must not take so long.
        """
        last = None
        with self.database.snapshot() as connection:
            selected = item_ids if len(item_ids) <= MAX_ITEMS else ()
            for row in item_parts.read_file_rows(connection, selected):
                if item_ids and row.item_id not in item_ids:
                    continue
                json.dump(row, rows)
                rows.write("\n")
                if row.archive_id == self.archive_id:
                    self.result.files += 1
                    # the rows are sorted by checksum, so that each content is counted once
                    if row.sha256 != last:
                        self.result.contents += 1
                        self.result.bytes += row.size
                        last = row.sha256

    # --- the contents of files -------------------------------------------------------------------

    def _check_contents(self, rows: IO[str]) -> None:
        """Compare the stored contents with the rows of this Archive."""
        done = 0

        def add_bytes(count: int) -> None:
            nonlocal done
            done += count
            self.progress(done, max(done, self.result.bytes))

        add_bytes(0)
        own = (row for row in _read(rows) if row.archive_id == self.archive_id)
        for sha256, group in groupby(own, lambda row: row.sha256):
            try:
                found: Content | OSError = measure(self.files.path(sha256), add_bytes)
            except OSError as error:
                found = error
            for row in group:
                if isinstance(found, OSError) or found != Content(sha256, row.size):
                    self._add_fault(row, found)

    def _add_fault(self, row: item_parts.FileRow, found: Content | OSError) -> None:
        """Report a fault. If the row was deleted or changed meanwhile, report nothing."""
        if self.database.read(lambda connection: item_parts.is_row_unchanged(connection, row)):
            kind, advice = self._explain(row, found)
            self.result.faults += 1
            self.report(Fault(kind, row.ibi, row.path, row.sha256, advice))
            if len(self._faulty) < MAX_STORED:
                self._faulty.append({"kind": kind, "ibi": row.ibi, "path": row.path})

    def _store_result(self) -> None:
        """Replace the stored result of the check before."""
        values = {
            "checked_at": datetime.fromtimestamp(self.clock(), timezone.utc),
            "files": self.result.files,
            "faults": self.result.faults,
            "faulty": self._faulty,
        }
        with self.database.writing() as connection:
            statement = insert_or_update(connection, FileCheck)
            connection.execute(
                statement.values(archive_id=self.archive_id, **values).on_conflict_do_update(
                    index_elements=[FileCheck.archive_id], set_=values
                )
            )

    def _explain(self, row: item_parts.FileRow, found: Content | OSError) -> tuple[str, str]:
        """Return the kind and the advice of a fault."""
        path = self.files.path(row.sha256)
        if isinstance(found, FileNotFoundError):
            return "missing", f"{path} does not exist; {REPAIR}"
        if isinstance(found, OSError):
            reason = found.strerror or str(found)
            return "unreadable", f"{path} can't be read: {reason}; check the disk, or {REPAIR}"
        if found.sha256 == row.sha256:
            return "altered", (
                f"{path} has the right checksum and {found.size} bytes, but the database states "
                f"{row.size} bytes; add the file again"
            )
        # An empty file is reported as truncated, even if another item has an empty file.
        if found.size and self.database.read(
            lambda connection: item_parts.find_needed_checksums(connection, [found.sha256])
        ):
            right = self.files.path(found.sha256)
            return "swapped", f"{path} has the content of another file, {right}; {REPAIR}"
        if found.size < row.size:
            return "truncated", f"{path} has {found.size} of {row.size} bytes; {REPAIR}"
        return "altered", f"{path} has a wrong checksum, {found.sha256}; {REPAIR}"

    # --- unneeded files --------------------------------------------------------------------------

    def _check_folder(self) -> None:
        """Check that only Archives of this database use the folder."""
        archives = self.database.read(find_archives)
        entries = {
            archive.id: archive.make_entry(self.database, self.files) for archive in archives
        }
        self.files.check_users(entries[self.archive_id], entries.values())

    def _check_share(self, rows: IO[str], before: float) -> None:
        """Check that at most :data:`MANY` files, or a tenth of all files, are unneeded."""
        unneeded = sum(1 for _ in self._find_unneeded(rows, before))
        stored = sum(1 for _ in self.files.walk())
        if unneeded > MANY and unneeded * 10 > stored:
            raise StorageError(
                f"{unneeded} of the {stored} stored files in {self.files.folder} would be deleted, "
                "which is more than a tenth; check IBI_DATABASE_URI, then add --yes"
            )

    def _check_unneeded(self, rows: IO[str], before: float, remove: bool) -> None:
        """Count or delete unneeded files and staging folders of killed processes.

        :param before: a time in POSIX seconds. Only files and folders that are older than this time
            are counted.
        :param remove: True: also delete the counted files and folders.
        """
        self.result.unneeded = 0
        if not remove:
            for stored in self._find_unneeded(rows, before):
                self.result.unneeded += 1
                self.result.unneeded_bytes += stored.size
            self.result.leftovers = len(self.files.find_stale_stagings(before))
            return
        with self.files.locked(exclusive=True):
            checksums = (stored.sha256 for stored in self._find_unneeded(rows, before))
            for batch in batched(checksums, BATCH):
                self._remove(batch, before)
            for path in self.files.find_stale_stagings(before):
                shutil.rmtree(path, ignore_errors=True)
                self.result.leftovers += 1

    def _find_unneeded(self, rows: IO[str], before: float) -> Iterator[StoredFile]:
        """Yield the stored files that are older than a time and have no row.

        Rows and files are sorted by checksum.
        """
        needed = (sha256 for sha256, _ in groupby(_read(rows), lambda row: row.sha256))
        next_needed = next(needed, "")
        for stored in self.files.walk():
            while next_needed and next_needed < stored.sha256:
                next_needed = next(needed, "")
            if stored.sha256 != next_needed and stored.modified < before:
                yield stored

    def _remove(self, checksums: Sequence[str], before: float) -> None:
        """Delete the files that still have no row. A lock prevents new rows at the same time."""
        with self.database.writing() as connection:
            for size in item_parts.remove_unneeded(connection, self.files, checksums, before):
                self.result.unneeded = (self.result.unneeded or 0) + 1
                self.result.unneeded_bytes += size
                self.result.removed += 1


def _read(rows: IO[str]) -> Iterator[item_parts.FileRow]:
    rows.seek(0)
    for line in rows:
        yield item_parts.FileRow(*json.loads(line))
