"""Writes all that a database and its folder of contents hold into one file, as it is at one moment."""

from __future__ import annotations

import hashlib
import json
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import IO, Any, BinaryIO

from sqlalchemy import Connection, Table

from flask_ibi_archive.archive.archives import find_archives
from flask_ibi_archive.archive.backup.format import (
    FAULTS,
    MANIFEST,
    PART_BYTES,
    PART_ROWS,
    BackupManifest,
    Part,
    format_manifest,
)
from flask_ibi_archive.archive.minting import read_clock
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.storage import migrate
from flask_ibi_archive.storage.database import ADVICE_INIT, Database
from flask_ibi_archive.storage.file_io import new_file
from flask_ibi_archive.storage.file_rows import read_needed_contents
from flask_ibi_archive.storage.file_store import FileStore, ProgressReader, copy_and_measure
from flask_ibi_archive.storage.floors import with_recorded_date
from flask_ibi_archive.storage.last_date_file import LastDateFile
from flask_ibi_archive.storage.models import Item, Prefix
from flask_ibi_archive.storage.table_rows import count_rows, dump_rows, read_numbers, reflect_tables

#: ProgressReader the stage (rows or bytes), how many of them are done, and how many there are.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class BackedUp:
    """What a backup holds; ``faults``: the contents that are missing in it, or damaged."""

    archives: list[str]
    items: int
    rows: int
    contents: int
    bytes: int
    faults: int


@dataclass(frozen=True, slots=True)
class ContentFault:
    """A content that could not be read; ``kind``: missing or damaged."""

    kind: str
    sha256: str
    text: str


@dataclass
class Backup:
    """Backs up a database, with all its Archives, and a folder of contents.

    :param tell: told each content that can't be read as it should.
    """

    database: Database
    folder: FileStore
    tell: Callable[[ContentFault], None] = lambda fault: None
    progress: Progress = lambda stage, done, total: None
    clock: Callable[[], Fraction] = read_clock
    _faults: list[ContentFault] = field(default_factory=list)

    def write(self, path: Path) -> BackedUp:
        """Write the backup; the file is the old one, or not there, until all is written.

        The tables are read in one transaction. What contents their rows need then is not taken out
        before it is read (:meth:`FileStore.in_use`), however long that takes.

        :raises StorageError: if the file can't be written; nothing is left of it then.
        :raises NotReady: if the database does not answer, or has not our tables.
        """
        with (
            self.folder.in_use(),
            new_file(path) as stream,
            tempfile.TemporaryFile("w+", dir=path.parent) as needed,
            zipfile.ZipFile(stream, "w") as archive,
        ):
            manifest = self._write(archive, needed)
        return BackedUp(
            manifest.archives,
            manifest.rows(Item.__tablename__),
            manifest.all_rows,
            manifest.contents,
            manifest.bytes,
            manifest.faults,
        )

    def _write(self, archive: zipfile.ZipFile, needed: IO[str]) -> BackupManifest:
        created = datetime.fromtimestamp(int(self.clock()), timezone.utc)
        with self.database.snapshot() as connection:
            revision = _revision(connection)
            tables = reflect_tables(connection)
            archives = [found.service_ibi for found in find_archives(connection)]
            numbers = read_numbers(connection, tables)
            parts = self._write_tables(archive, connection, tables)
            total = 0
            for content in read_needed_contents(connection):
                needed.write(f"{content.sha256}\n")
                total += content.size
        count, size, digest = self._write_contents(archive, needed, total)
        faults = (
            {"sha256": fault.sha256, "kind": fault.kind, "text": fault.text}
            for fault in self._faults
        )
        with archive.open(_info(FAULTS, zipfile.ZIP_DEFLATED), "w", force_zip64=True) as target:
            target.writelines(_line(fault) for fault in faults)
        manifest = BackupManifest(
            revision,
            created.isoformat(),
            archives,
            parts,
            numbers,
            count,
            size,
            digest,
            len(self._faults),
        )
        text = json.dumps(format_manifest(manifest), ensure_ascii=False, indent=1)
        archive.writestr(_info(MANIFEST, zipfile.ZIP_DEFLATED), text)
        return manifest

    # --- tables ----------------------------------------------------------------------------------

    def _write_tables(
        self, archive: zipfile.ZipFile, connection: Connection, tables: dict[str, Table]
    ) -> dict[str, list[Part]]:
        total = sum(count_rows(connection, table) for table in tables.values())
        done = 0
        found: dict[str, list[Part]] = {}
        for name, table in tables.items():
            found[name] = []
            rows = dump_rows(connection, table)
            if name == Prefix.__tablename__:
                rows = with_recorded_date(rows, LastDateFile.of(self.database))
            lines = (_line(row) for row in rows)
            while first := next(lines, b""):
                part_name = f"tables/{name}/{len(found[name]) + 1:06}.jsonl"
                part = _write_part(archive, part_name, chain([first], lines))
                found[name].append(part)
                done += part.rows
                self.progress("rows", done, total)
        return found

    # --- contents --------------------------------------------------------------------------------

    def _write_contents(
        self, archive: zipfile.ZipFile, needed: IO[str], total: int
    ) -> tuple[int, int, str]:
        """Write the contents; give how many are whole, their bytes and the digest of their
        checksums.
        """
        count = size = done = 0
        digest = hashlib.sha256()

        def read(block: int) -> None:
            nonlocal done
            done += block
            self.progress("bytes", done, max(done, total))

        needed.seek(0)
        for line in needed:
            sha256 = line.strip()
            written = self._write_content(archive, sha256, read)
            if written is not None:
                count += 1
                size += written
                digest.update(f"{sha256}\n".encode())
        return count, size, digest.hexdigest()

    def _write_content(
        self, archive: zipfile.ZipFile, sha256: str, progress: Callable[[int], None]
    ) -> int | None:
        place = self.folder.path(sha256)
        try:
            stream = place.open("rb")
        except FileNotFoundError:
            self._miss("missing", sha256, f"there is no {place}")
            return None
        except OSError as error:
            self._miss("missing", sha256, f"{place} can't be read: {error.strerror}")
            return None
        info = _info(f"contents/{sha256}", zipfile.ZIP_STORED)
        with stream, archive.open(info, "w", force_zip64=True) as target:
            try:
                found = copy_and_measure(ProgressReader(_Source(stream), progress), target)
            except _Unreadable as error:
                self._miss("damaged", sha256, f"{place} can't be read: {error}")
                return None
        if found.sha256 != sha256:
            # what is written of it stays where it is; the list of faults says what it is
            self._miss("damaged", sha256, f"{place} has the checksum {found.sha256}")
            return None
        return found.size

    def _miss(self, kind: str, sha256: str, text: str) -> None:
        fault = ContentFault(kind, sha256, text)
        self._faults.append(fault)
        self.tell(fault)


class _Unreadable(Exception):
    """A content that breaks off; no OSError, which the target may give as well."""


class _Source:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        try:
            return self._stream.read(size)
        except OSError as error:
            raise _Unreadable(error.strerror or str(error)) from error


def _revision(connection: Connection) -> str:
    revision = migrate.current_revision(connection)
    if revision is None:
        raise NotReady("the database has none of our tables", ADVICE_INIT)
    if not migrate.is_known(revision):
        raise NotReady(
            f"the database is at revision {revision}, this version knows those up to "
            f"{migrate.head_revision()}",
            "back it up with the version that it is used with",
        )
    return revision


def _line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _info(name: str, compression: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.compress_type = compression
    info.external_attr = (stat.S_IFREG | 0o600) << 16
    return info


def _write_part(archive: zipfile.ZipFile, name: str, lines: Iterable[bytes]) -> Part:
    digest = hashlib.sha256()
    rows = size = 0
    with archive.open(_info(name, zipfile.ZIP_DEFLATED), "w", force_zip64=True) as target:
        for line in lines:
            target.write(line)
            digest.update(line)
            rows += 1
            size += len(line)
            if rows == PART_ROWS or size >= PART_BYTES:
                break
    return Part(name, rows, size, digest.hexdigest())
