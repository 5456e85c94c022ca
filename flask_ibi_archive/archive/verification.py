"""Checks the contents of files against what the database says of them, and takes out what nobody
needs.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import IO

from flask_ibi_archive.errors import UnknownItem
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.file_rows import (
    KeptFile,
    is_kept,
    lock_files,
    needed_of,
    read_kept_files,
)
from flask_ibi_archive.storage.file_store import GRACE, FileStore, StoredFile, measure
from flask_ibi_archive.storage.items import Content, ItemStore
from flask_ibi_archive.storage.states import ELSEWHERE

#: Contents that are taken out in one transaction, which keeps writers waiting.
BATCH = 2000
HEAL = "put it back from a backup, or take the file in again"


@dataclass(frozen=True, slots=True)
class Fault:
    """A file whose content is not what it should be.

    :param kind: missing, truncated, altered, swapped or unreadable.
    :param advice: what was found, and what to do about it.
    """

    kind: str
    ibi: str
    path: str
    sha256: str
    advice: str


@dataclass(slots=True)
class Verification:
    """What was looked at and found: files, their contents and bytes, how many files have a fault.

    :param unneeded: contents that no file of any Archive needs, with their bytes; None: not looked
        for.
    :param removed: those that were taken out, with what killed processes had left behind.
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
    """Verifies the files of an Archive.

    :param tell: told each fault as it is found.
    :param progress: told the bytes that were read, and those that there are to read.
    :param clock: gives the time, in POSIX seconds.
    """

    database: Database
    archive_id: int
    folder: FileStore
    tell: Callable[[Fault], None] = lambda fault: None
    progress: Callable[[int, int], None] = lambda done, total: None
    clock: Callable[[], float] = time.time
    result: Verification = field(default_factory=Verification)

    def run(
        self, identifiers: Sequence[str] = (), prune: bool = False, dry_run: bool = False
    ) -> Verification:
        """Look at the files of some items, or at all and at what no file needs.

        :param prune: take out what no file needs; ``dry_run``: only count it.
        :raises UnknownItem: if no item of the Archive bears one of the identifiers.
        :raises StorageError: if the folder can't be read, or changed.
        """
        item_ids = self._find(identifiers)
        # what was there before the clock is read and is younger than a day may be on its way
        before = self.clock() - GRACE
        with tempfile.TemporaryFile("w+", encoding="utf-8") as rows:
            self._spool(rows, item_ids)
            self._look_at_all(rows)
            if not identifiers:
                self._look_for_unneeded(rows, before, remove=prune and not dry_run)
        return self.result

    def _find(self, identifiers: Sequence[str]) -> set[int]:
        found = set()
        with self.database.reading() as connection:
            store = ItemStore(connection, self.archive_id)
            for identifier in identifiers:
                text = parse_identifier(identifier).text
                item_id, state = store.owners([text]).get(text, (0, ELSEWHERE))
                if state == ELSEWHERE:
                    raise UnknownItem(text)
                found.add(item_id)
        return found

    def _spool(self, rows: IO[str], item_ids: set[int]) -> None:
        """Write down what the rows say at one moment: reading all contents may take hours."""
        last = None
        with self.database.snapshot() as connection:
            # a statement has room for so many of them; more are sorted out here
            for file in read_kept_files(connection, item_ids if len(item_ids) <= 500 else ()):
                if item_ids and file.item_id not in item_ids:
                    continue
                json.dump(file, rows)
                rows.write("\n")
                if file.archive_id == self.archive_id:
                    self.result.files += 1
                    if file.sha256 != last:
                        self.result.contents += 1
                        self.result.bytes += file.size
                        last = file.sha256

    # --- contents against rows -------------------------------------------------------------------

    def _look_at_all(self, rows: IO[str]) -> None:
        done = 0

        def read(count: int) -> None:
            nonlocal done
            done += count
            self.progress(done, max(done, self.result.bytes))

        read(0)
        ours = (file for file in _read(rows) if file.archive_id == self.archive_id)
        for sha256, files in groupby(ours, lambda file: file.sha256):
            try:
                found: Content | OSError = measure(self.folder.path(sha256), read)
            except OSError as error:
                found = error
            for file in files:
                if isinstance(found, OSError) or found != (Content(sha256, file.size)):
                    self._judge(file, found)

    def _judge(self, file: KeptFile, found: Content | OSError) -> None:
        if not self.database.read(lambda connection: is_kept(connection, file)):
            return  # it was taken out meanwhile
        kind, advice = self._explain(file, found)
        self.result.faults += 1
        self.tell(Fault(kind, file.ibi, file.path, file.sha256, advice))

    def _explain(self, file: KeptFile, found: Content | OSError) -> tuple[str, str]:
        place = self.folder.path(file.sha256)
        if isinstance(found, FileNotFoundError):
            return "missing", f"there is no {place}; {HEAL}"
        if isinstance(found, OSError):
            reason = found.strerror or str(found)
            return "unreadable", f"{place} can't be read: {reason}; see to the disk, or {HEAL}"
        if found.sha256 == file.sha256:
            return "altered", (
                f"{place} is whole, but the database says that it has {file.size} bytes, not "
                f"{found.size}; take the file in again"
            )
        # nothing at all is what is left of a content, rather than an empty one from elsewhere
        if found.size and self.database.read(
            lambda connection: needed_of(connection, [found.sha256])
        ):
            right = self.folder.path(found.sha256)
            return "swapped", f"{place} holds the content that belongs at {right}; {HEAL}"
        if found.size < file.size:
            return "truncated", f"{place} has {found.size} of {file.size} bytes; {HEAL}"
        return "altered", f"{place} has the checksum {found.sha256}; {HEAL}"

    # --- contents without rows -------------------------------------------------------------------

    def _look_for_unneeded(self, rows: IO[str], before: float, remove: bool) -> None:
        self.result.unneeded = 0
        if not remove:
            for kept in self._unneeded(rows, before):
                self.result.unneeded += 1
                self.result.unneeded_bytes += kept.size
            self.result.leftovers = len(self.folder.stale_stagings(before))
            return
        with self.folder.in_use(alone=True):
            contents = (kept.sha256 for kept in self._unneeded(rows, before))
            while batch := list(islice(contents, BATCH)):
                self._remove(batch, before)
            for path in self.folder.stale_stagings(before):
                shutil.rmtree(path, ignore_errors=True)
                self.result.leftovers += 1

    def _unneeded(self, rows: IO[str], before: float) -> Iterator[StoredFile]:
        """Return the contents that had no row; rows and folder are in the same order."""
        needed = (sha256 for sha256, _ in groupby(_read(rows), lambda file: file.sha256))
        wanted = next(needed, "")
        for kept in self.folder.walk():
            while wanted and wanted < kept.sha256:
                wanted = next(needed, "")
            if kept.sha256 != wanted and kept.modified < before:
                yield kept

    def _remove(self, contents: Sequence[str], before: float) -> None:
        """Take out those contents that still have no row, while nobody can write one."""
        with self.database.writing() as connection:
            lock_files(connection)
            needed = needed_of(connection, contents)
            for sha256 in contents:
                if sha256 in needed:
                    continue
                size = self.folder.remove(sha256, before)
                if size is not None:
                    self.result.unneeded = (self.result.unneeded or 0) + 1
                    self.result.unneeded_bytes += size
                    self.result.removed += 1


def _read(rows: IO[str]) -> Iterator[KeptFile]:
    rows.seek(0)
    for line in rows:
        yield KeptFile(*json.loads(line))


__all__ = ["Fault", "Verification", "Verifier"]
