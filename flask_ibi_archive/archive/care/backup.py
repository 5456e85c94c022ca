"""Writes a backup of all Archives of a database and of their stored files.

The backup contains the state of the database at one moment. A backup is a ZIP file with these
members:

``tables/NAME.jsonl``
    the rows of a table, with one JSON object per line (``archive/items/table_rows.py``);
``contents/SHA256``
    a stored file;
``faults.jsonl``
    the stored files that were missing or damaged, with one :class:`ContentFault` per line;
``malformed.jsonl``
    only if rows are malformed: the malformed values as text, with one value per line. The rows in
    ``tables`` contain other values instead;
``manifest.json``
    a :class:`BackupManifest`.
"""

from __future__ import annotations

import json
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO

from sqlalchemy import Connection, Table

from flask_ibi_archive.archive.items import table_rows
from flask_ibi_archive.archive.items.archives import find_archives
from flask_ibi_archive.archive.items.file_io import ProgressReader, copy_and_measure
from flask_ibi_archive.archive.items.file_store import FileStore
from flask_ibi_archive.archive.items.item_parts import read_needed_contents
from flask_ibi_archive.archive.items.minting import read_clock
from flask_ibi_archive.archive.items.prefixes import EVERY_PREFIX, LastDateFile
from flask_ibi_archive.archive.items.tables import Item, Prefix
from flask_ibi_archive.core.identifiers import format_decimal, parse_decimal
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.files import new_file

FORMAT = "flask_ibi_archive backup"
VERSION = 2

MANIFEST = "manifest.json"
FAULTS = "faults.jsonl"
MALFORMED = "malformed.jsonl"

#: A function that reports progress. Its arguments are the unit ("rows" or "bytes"), the number of
#: units that are done, and the total number of units.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """The description of the contents of a backup.

    :param revision: the migration revision of the tables.
    :param created: the time when the backup was made, in ISO 8601.
    :param archives: the service IBIs of the Archives in the backup.
    :param tables: the number of rows of each table.
    :param numbers: the last used row ID of each table that never uses a row ID twice.
    :param contents: the number of undamaged stored files.
    :param bytes: the total size of the undamaged stored files.
    :param faults: the number of stored files that were missing or damaged.
    """

    revision: str
    created: str
    archives: list[str]
    tables: dict[str, int]
    numbers: dict[str, int]
    contents: int
    bytes: int
    faults: int

    @property
    def items(self) -> int:
        """The number of items."""
        return self.tables.get(Item.__tablename__, 0)

    @property
    def rows(self) -> int:
        """The number of rows of all tables."""
        return sum(self.tables.values())

    def summarise(self) -> dict[str, Any]:
        """Return what the commands backup and restore print as JSON."""
        names = ("archives", "items", "rows", "contents", "bytes", "faults")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class ContentFault:
    """A stored file or a value of a row that could not be backed up.

    :param kind: ``missing`` or ``damaged``; ``malformed`` for a value.
    :param sha256: the checksum that is the name of the stored file; "" for a value.
    :param text: the message for the user.
    """

    kind: str
    sha256: str
    text: str


@dataclass
class BackupWriter:
    """Writes a backup of a database and of the folder with the stored files.

    :param report: a function that is called for each stored file that is missing or damaged, and
        for each malformed value of a row.
    :param progress: a function that is called with the progress of the backup.
    :param clock: a function that returns the time in POSIX seconds.
    """

    database: Database
    files: FileStore
    report: Callable[[ContentFault], None] = lambda fault: None
    progress: Progress = lambda stage, done, total: None
    clock: Callable[[], Fraction] = read_clock
    _faults: list[ContentFault] = field(default_factory=list)
    _malformed: list[table_rows.Row] = field(default_factory=list)

    def write(self, path: Path) -> BackupManifest:
        """Write the backup to a file.

        An existing file is replaced only when the new backup is complete. All tables are read in
        one transaction. During the backup, a lock prevents that stored files are deleted.

        :raises StorageError: if the backup cannot be written. The incomplete backup is deleted.
        :raises NotReady: if the database does not respond or has no tables.
        """
        with (
            self.files.locked(),
            new_file(path) as stream,
            tempfile.TemporaryFile("w+", dir=path.parent) as needed,
            zipfile.ZipFile(stream, "w") as backup,
        ):
            manifest = self._write(backup, needed)
            values = {"format": FORMAT, "version": VERSION, **asdict(manifest)}
            text = json.dumps(values, ensure_ascii=False, indent=1)
            backup.writestr(_compressed(MANIFEST), text)
        return manifest

    def _write(self, backup: zipfile.ZipFile, needed: IO[str]) -> BackupManifest:
        """Write all members except the manifest, and return the manifest.

        :param needed: a temporary file for the checksums of the stored files that items need.
        """
        created = datetime.fromtimestamp(int(self.clock()), timezone.utc)
        with self.database.snapshot() as connection:
            revision = _get_revision(self.database, connection)
            tables = table_rows.reflect_tables(connection)
            archives = [archive.service_ibi for archive in find_archives(connection)]
            numbers = table_rows.read_last_ids(connection, tables)
            counts = self._write_tables(backup, connection, tables)
            total = 0
            for content in read_needed_contents(connection):
                needed.write(f"{content.sha256}\n")
                total += content.size
        contents, size = self._write_contents(backup, needed, total)
        with backup.open(_compressed(FAULTS), "w", force_zip64=True) as target:
            target.writelines(_format_line(asdict(fault)) for fault in self._faults)
        if self._malformed:
            backup.writestr(_compressed(MALFORMED), b"".join(map(_format_line, self._malformed)))
        return BackupManifest(
            revision,
            created.isoformat(),
            archives,
            counts,
            numbers,
            contents,
            size,
            len(self._faults),
        )

    # --- tables ----------------------------------------------------------------------------------

    def _write_tables(
        self, backup: zipfile.ZipFile, connection: Connection, tables: dict[str, Table]
    ) -> dict[str, int]:
        """Write the rows of all tables and return the number of rows of each table."""
        total = sum(table_rows.count_rows(connection, table) for table in tables.values())
        done = 0
        counts = dict.fromkeys(tables, 0)
        for name, table in tables.items():
            rows = table_rows.dump_rows(connection, table, partial(self._add_malformed, name))
            if name == Prefix.__tablename__:
                rows = self._with_recorded_date(rows)
            with backup.open(_compressed(f"tables/{name}.jsonl"), "w", force_zip64=True) as target:
                for row in rows:
                    target.write(_format_line(row))
                    counts[name] += 1
                    done += 1
                    if done % 1000 == 0:
                        self.progress("rows", done, total)
        self.progress("rows", done, total)
        return counts

    def _add_malformed(
        self, table: str, row: table_rows.Row, column: str, error: Exception
    ) -> None:
        name = row.get("rep") or row.get("ibip") or next(iter(row.values()))
        value = {"table": table, "row": name, "column": column, "value": str(row[column])}
        self._malformed.append(value)
        reason = f"{column} of the row {name} of {table} can't be read: {error}"
        self.report(ContentFault("malformed", "", " ".join(reason.split())))

    def _with_recorded_date(self, rows: Iterator[table_rows.Row]) -> Iterator[table_rows.Row]:
        """Return the rows of the table of prefixes, and the date in the file :class:`LastDateFile`.

        When an identifier is minted in a transaction of the host, its date is also written to this
        file. If the transaction is rolled back, only the file contains the date.

        :param rows: the rows of the table of prefixes.
        :raises MintingError: if the file with the last date cannot be read.
        """
        recorded = self.database.read(LastDateFile.of)
        date = recorded.read() if recorded else None
        if date is None:
            return rows
        others = []
        for row in rows:
            if row["prefix"] == EVERY_PREFIX and row["last_date"]:
                date = max(date, parse_decimal(row["last_date"]))
            else:
                others.append(row)
        return iter([{"prefix": EVERY_PREFIX, "last_date": format_decimal(date)}, *others])

    # --- stored files ----------------------------------------------------------------------------

    def _write_contents(
        self, backup: zipfile.ZipFile, needed: IO[str], total: int
    ) -> tuple[int, int]:
        """Write the needed stored files to the backup.

        :param needed: the checksums of the files, one per line.
        :param total: the total size of the files according to the database.
        :returns: the number of undamaged files, and their total size.
        """
        count = size = done = 0

        def add_bytes(read: int) -> None:
            nonlocal done
            done += read
            self.progress("bytes", done, max(done, total))

        needed.seek(0)
        for line in needed:
            written = self._write_content(backup, line.strip(), add_bytes)
            if written is not None:
                count += 1
                size += written
        return count, size

    def _write_content(
        self, backup: zipfile.ZipFile, sha256: str, progress: Callable[[int], None]
    ) -> int | None:
        """Write a stored file and return its size, or None if the file is missing or damaged."""
        path = self.files.path(sha256)
        try:
            stream = path.open("rb")
        except FileNotFoundError:
            self._add_fault("missing", sha256, f"the file {path} does not exist")
            return None
        except OSError as error:
            self._add_fault("missing", sha256, f"{path} can't be read: {error.strerror}")
            return None
        member = _member(f"contents/{sha256}", zipfile.ZIP_STORED)
        with stream, backup.open(member, "w", force_zip64=True) as target:
            try:
                copied = copy_and_measure(ProgressReader(_Source(stream), progress), target)
            except _ReadError as error:
                self._add_fault("damaged", sha256, f"{path} can't be read: {error}")
                return None
        if copied.sha256 != sha256:
            # The backup contains the damaged file. The member faults.jsonl says that it is damaged.
            self._add_fault("damaged", sha256, f"{path} has the checksum {copied.sha256}")
            return None
        return copied.size

    def _add_fault(self, kind: str, sha256: str, text: str) -> None:
        fault = ContentFault(kind, sha256, text)
        self._faults.append(fault)
        self.report(fault)


class _ReadError(Exception):
    """Raised if a stored file cannot be read. An OSError means that the backup can't be written."""


class _Source:
    """A stored file whose method ``read`` raises _ReadError instead of OSError."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        try:
            return self._stream.read(size)
        except OSError as error:
            raise _ReadError(error.strerror or str(error)) from error


def _get_revision(database: Database, connection: Connection) -> str:
    """Return the revision of the tables.

    :raises NotReady: if the tables do not exist, or if this version of the package does not know
        their revision.
    """
    revision = database.find_revision(connection)
    if revision is None:
        advice = f"run: {database.history.init}"
        raise NotReady("the database does not contain the tables", advice)
    if not migrate.is_known(revision):
        raise NotReady(
            f"the tables have the revision {revision}, but this version of the package knows only "
            f"the revisions up to {migrate.head_revision()}",
            "install the version of the package that created these tables",
        )
    return revision


def _format_line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _compressed(name: str) -> zipfile.ZipInfo:
    return _member(name, zipfile.ZIP_DEFLATED)


def _member(name: str, compression: int) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name)
    member.compress_type = compression
    member.external_attr = (stat.S_IFREG | 0o600) << 16
    return member
