"""Reads and checks backups (see :mod:`.backup`), and restores them.

A backup is restored completely, or nothing changes if an error occurs.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.care.backup import (
    FAULTS,
    FORMAT,
    MALFORMED,
    MANIFEST,
    VERSION,
    BackupManifest,
    Progress,
)
from flask_ibi_archive.archive.items import table_rows
from flask_ibi_archive.archive.items.archives import find_archives
from flask_ibi_archive.archive.items.bulk import examine_tables
from flask_ibi_archive.archive.items.claim_changes import compare_all_items
from flask_ibi_archive.archive.items.file_io import BLOCK, Content, ProgressReader, copy_and_measure
from flask_ibi_archive.archive.items.file_store import FileStore
from flask_ibi_archive.archive.items.minting import read_clock
from flask_ibi_archive.archive.items.operations.restoring_moves import (
    MovedItems,
    read_moved_items,
    restore_moves,
)
from flask_ibi_archive.archive.items.prefixes import lock_minting, raise_last_dates, read_last_dates
from flask_ibi_archive.archive.items.staging import Staging
from flask_ibi_archive.archive.items.tables import ArchiveRow
from flask_ibi_archive.errors import BackupError, StorageError
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database, lock_table_setup
from flask_ibi_archive.server.database.database_errors import get_driver_message

CONTENT = re.compile(r"contents/([0-9a-f]{64})")
#: The maximum size of a row, and of the manifest, in bytes.
MAX_TEXT = 64 << 20
#: The exceptions that are raised if a file is damaged or is not a ZIP file, or if a value in the
#: JSON of a member has a wrong type.
ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    LookupError,
    NotImplementedError,
    OverflowError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
)


@contextmanager
def open_backup(path: Path) -> Iterator[BackupReader]:
    """Open a backup until the end of the ``with`` block.

    :raises BackupError: if the backup is damaged. Damage that is found in the ``with`` block, while
        the backup is read, also raises this error.
    """
    try:
        try:
            backup = zipfile.ZipFile(path)
        except OSError as error:
            raise BackupError(
                str(path), f"the file can't be read: {error.strerror or error}"
            ) from error
        # the stack closes members that were not read to the end
        with backup, ExitStack() as streams:
            yield BackupReader(path, backup, streams)
    except ZIP_ERRORS as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise BackupError(
            str(path), f"the file is not a backup, or it is damaged: {reason[:200]}"
        ) from error


class BackupReader:
    """An open backup.

    If the backup is damaged, the methods raise one of the exceptions :data:`ZIP_ERRORS`.

    :param streams: the stack that closes the members of the ZIP file.
    """

    def __init__(self, path: Path, backup: zipfile.ZipFile, streams: ExitStack) -> None:
        self.path = path
        self._backup = backup
        self._streams = streams

    @cached_property
    def manifest(self) -> BackupManifest:
        """The manifest of the backup.

        :raises BackupError: if this version of the package cannot read the tables of the backup.
        """
        with self._open(MANIFEST) as stream:
            text = stream.read(MAX_TEXT + 1)
        if len(text) > MAX_TEXT:
            raise ValueError(f"{MANIFEST} is too long")
        data = json.loads(text)
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ValueError(f"{MANIFEST} is not the manifest of a {FORMAT}")
        revision = str(data.get("revision"))
        manifest = parse_manifest(data)
        if not migrate.is_known(revision):
            raise BackupError(
                str(self.path),
                f"the tables have the revision {revision[:40]!r}, which this version of "
                "the package does not know; install the version that made the backup or a newer "
                "version",
            )
        return manifest

    def rows(self, table: str) -> Iterator[Any]:
        """Yield the rows of a table."""
        member = _member(table)
        with self._streams.enter_context(self._open(member)) as stream:
            while line := stream.readline(MAX_TEXT + 1):
                if len(line) > MAX_TEXT:
                    raise ValueError(f"a row in {member} is too long")
                yield json.loads(line)

    @cached_property
    def faulty(self) -> frozenset[str]:
        """The checksums of the stored files that are missing or damaged in the backup."""
        with self._open(FAULTS) as stream:
            lines = iter(lambda: stream.readline(MAX_TEXT), b"")
            return frozenset(str(json.loads(line)["sha256"]) for line in lines)

    def contents(self) -> Iterator[Content]:
        """Yield the undamaged stored files with the sizes that the ZIP directory states."""
        for info in self._backup.infolist():
            found = CONTENT.fullmatch(info.filename)
            if found and found[1] not in self.faulty:
                yield Content(found[1], info.file_size)

    # --- checks ----------------------------------------------------------------------------------

    def check(self, files: FileStore, staging: Staging | None, progress: Progress) -> None:
        """Check the whole backup.

        Stored files that are missing or damaged in the file store are copied to the staging folder.

        :param files: the file store.
        :param staging: the staging folder; None means that no files are copied.
        :param progress: a function that is called with "bytes", the number of checked bytes, and
            the total number of bytes.
        :raises ValueError: if the backup is damaged; or another of :data:`ZIP_ERRORS`.
        """
        self._check_members()
        total = sum(info.file_size for info in self._backup.infolist())
        done = 0

        def add_bytes(count: int) -> None:
            nonlocal done
            done += count
            progress("bytes", done, max(done, total))

        for table in self.manifest.tables:
            self._check_table(table, add_bytes)
        count = size = 0
        for stated in self.contents():
            self._check_content(stated, files, staging, add_bytes)
            count += 1
            size += stated.size
        if (count, size) != (self.manifest.contents, self.manifest.bytes):
            raise ValueError(
                f"the backup contains {count} stored files ({size} bytes), but {MANIFEST} states "
                f"{self.manifest.contents} stored files ({self.manifest.bytes} bytes)"
            )

    def _check_members(self) -> None:
        """Check that the ZIP file contains exactly the members that the manifest names."""
        manifest = self.manifest
        for table in manifest.tables.keys() - table_rows.NAMES:
            raise ValueError(f"{table[:80]!r} is not a table of an Archive")
        expected = {MANIFEST, FAULTS, *map(_member, manifest.tables)}
        seen = set()
        for info in self._backup.infolist():
            name = info.filename
            if name not in {*expected, MALFORMED} and not CONTENT.fullmatch(name):
                raise ValueError(
                    f"the backup contains {name[:80]!r}, but {MANIFEST} does not name this member"
                )
            if name in seen:
                raise ValueError(f"the backup contains {name} twice")
            if info.flag_bits & 1 or info.compress_type not in (
                zipfile.ZIP_STORED,
                zipfile.ZIP_DEFLATED,
            ):
                raise ValueError(f"{name} is encrypted or has an unknown compression method")
            seen.add(name)
        for name in sorted(expected - seen):
            raise ValueError(f"{name} is missing")
        if len(self.faulty) != manifest.faults:
            raise ValueError(
                f"{FAULTS} does not have the {manifest.faults} lines that {MANIFEST} states"
            )

    def _check_table(self, table: str, progress: Callable[[int], None]) -> None:
        """Check the CRC-32 and the size of the member of a table, and the number of its rows."""
        member = _member(table)
        rows = size = 0
        with self._open(member) as stream:
            while block := stream.read(BLOCK):
                size += len(block)
                rows += block.count(b"\n")
                progress(len(block))
        if size != self._backup.getinfo(member).file_size:
            raise ValueError(f"{member} does not have the size that the ZIP file states")
        stated = self.manifest.tables[table]
        if rows != stated:
            raise ValueError(f"{table} has {rows} rows, but {MANIFEST} states {stated}")

    def _check_content(
        self,
        stated: Content,
        files: FileStore,
        staging: Staging | None,
        progress: Callable[[int], None],
    ) -> None:
        """Check the size and the checksum of a stored file.

        If the file is missing or damaged in the file store, it is copied to the staging folder.

        :param stated: the stated checksum and size of the file.
        :param staging: the staging folder; None means that no files are copied.
        """
        with self._open(f"contents/{stated.sha256}") as stream:
            source = ProgressReader(stream, progress)
            if staging is None or files.has_undamaged_file(stated):
                content = copy_and_measure(source, None)
            else:
                content = staging.add_stream(source)
        if content != stated:
            raise ValueError(f"contents/{stated.sha256} has the checksum {content.sha256}")

    def _open(self, name: str) -> io.BufferedReader:
        return io.BufferedReader(cast(io.RawIOBase, self._backup.open(name)), BLOCK)


def _member(table: str) -> str:
    """Return the name of the member of the ZIP file that contains a table."""
    return f"tables/{table}.jsonl"


def parse_manifest(values: dict[str, Any]) -> BackupManifest:
    """Return the manifest of a backup.

    :param values: the decoded JSON of a manifest.
    :raises ValueError: if the values are not a manifest, or if the version is unknown.
    """
    version = values.get("version")
    if version != VERSION:
        raise ValueError(
            f"the backup format has the version {str(version)[:20]!r}, but this version of the "
            f"package reads only the version {VERSION}"
        )
    names = BackupManifest.__dataclass_fields__.keys()
    if values.keys() != {"format", "version", *names}:
        raise ValueError(f"{MANIFEST} does not have the expected fields")
    _check_types(values, str, "revision", "created")
    _check_types(values, int, "contents", "bytes", "faults")
    _check_types(values, dict, "tables", "numbers")
    _check_types(values, list, "archives")
    _check_types(dict(enumerate(values["archives"])), str, *range(len(values["archives"])))
    _check_types(values["numbers"], int, *values["numbers"])
    _check_types(values["tables"], int, *values["tables"])
    return BackupManifest(**{name: values[name] for name in names})


def _check_types(data: dict[Any, Any], kind: type, *names: Any) -> None:
    """Check that values of a manifest have a certain type and that integers are not negative.

    :param kind: the type.
    :param names: the names of the values.
    :raises ValueError: if a value has another type or is negative.
    """
    for name in names:
        if type(data[name]) is not kind or (kind is int and data[name] < 0):
            raise ValueError(f"{str(name)[:80]} in {MANIFEST} has a wrong value")


class _Rollback(Exception):
    """Ends a dry run, to roll back the transaction."""


@dataclass
class Restorer:
    """Restores a backup to a database and a folder of stored files.

    :param replace: True: the contents of the database are deleted first. False: the database must
        not contain an Archive.
    :param dry_run: True: the backup is checked, but nothing is changed. If the database is empty,
        the check loads the backup in a transaction and then rolls back the transaction. A database
        that contains an Archive is not written to.
    :param progress: called with a stage, the amount that is done, and the total amount.
    :param clock: returns the time in POSIX seconds.
    :ivar notes: what the administrator must know about items that may have moved since.
    """

    database: Database
    files: FileStore
    replace: bool = False
    dry_run: bool = False
    progress: Progress = lambda stage, done, total: None
    clock: Callable[[], Fraction] = read_clock
    notes: list[str] = field(default_factory=list)

    def run(self, path: Path) -> BackupManifest:
        """Check and restore a backup.

        :raises BackupError: if the backup cannot be restored. Nothing was changed.
        :raises StorageError: if the database already contains an Archive. Nothing was changed.
        """
        # without get_entry: _restore() enters the Archives when they are in the database
        files = FileStore(self.files.folder)
        with open_backup(path) as backup, files.staging() as staging:
            self._check_clock(backup)
            occupied = self.database.exists() and self.database.read(self._has_archive)
            if occupied and not self.replace:
                raise _occupied_error()
            backup.check(self.files, None if self.dry_run else staging, self.progress)
            if not (self.dry_run and occupied):
                self._restore(backup, staging)
            return backup.manifest

    def _check_clock(self, backup: BackupReader) -> None:
        """Check that the clock is not earlier than the time of the backup."""
        created = datetime.fromisoformat(backup.manifest.created)
        now = datetime.fromtimestamp(int(self.clock()), timezone.utc)
        if created > now:
            raise BackupError(
                str(backup.path),
                f"the backup was made at {backup.manifest.created}, but the clock shows "
                f"{now.isoformat()}; set the clock right, because otherwise identifiers could be "
                "minted twice",
            )

    def _restore(self, backup: BackupReader, staging: Staging) -> None:
        """Load the backup into the database, and move its files to the store.

        :param staging: the staging folder with the files that the store needs.
        """
        self.database.create()
        try:
            with self.database.writing() as connection:
                self._fill(connection, backup)
                if self.dry_run:
                    raise _Rollback
                for content in backup.contents():
                    staging.move_to_store(content)
                for archive in find_archives(connection):
                    self.files.enter(archive.make_entry(self.database, self.files))
        except _Rollback:
            pass
        except IntegrityError as error:
            reason = get_driver_message(error)
            raise BackupError(str(backup.path), f"the database refuses a row: {reason}") from error

    def _fill(self, connection: Connection, backup: BackupReader) -> None:
        """Replace the tables by the tables of the backup, and migrate to the newest revision."""
        lock_table_setup(connection)
        history = self.database.history
        moved: list[MovedItems] = []
        replaced_dates: dict[str, Fraction] = {}
        last_ids = dict(backup.manifest.numbers)
        if self.database.find_revision(connection) is not None:
            if self._has_archive(connection) and not self.replace:
                raise _occupied_error()
            lock_minting(connection)
            moved = read_moved_items(connection)
            replaced_dates = read_last_dates(connection)
            replaced_ids = table_rows.read_last_ids(
                connection, table_rows.reflect_tables(connection)
            )
            for name, last_id in replaced_ids.items():
                last_ids[name] = max(last_id, last_ids.get(name, 0))
            migrate.downgrade(connection, "base", history)
        migrate.upgrade(connection, backup.manifest.revision, history)
        self._load(connection, backup)
        migrate.upgrade(connection, history=history)
        table_rows.raise_last_ids(connection, table_rows.reflect_tables(connection), last_ids)
        raise_last_dates(connection, replaced_dates, self.clock())
        compare_all_items(connection)
        created = datetime.fromisoformat(backup.manifest.created)
        now = datetime.fromtimestamp(int(self.clock()), timezone.utc)
        self.notes.extend(restore_moves(connection, moved, created, now))
        examine_tables(connection)

    def _load(self, connection: Connection, backup: BackupReader) -> None:
        """Load the rows of the backup into empty tables of the same revision."""
        done = 0
        tables = backup.manifest.tables
        total = sum(tables.values())

        def add_rows(count: int) -> None:
            nonlocal done
            done += count
            self.progress("rows", done, total)

        loader = table_rows.TableLoader(connection, backup.rows, add_rows)
        if loader.tables.keys() != tables.keys():
            raise ValueError("the backup does not contain the tables of its revision")
        loader.run()

    def _has_archive(self, connection: Connection) -> bool:
        """Return whether the database contains an Archive. It may have no tables yet."""
        if self.database.find_revision(connection) is None:
            return False
        return bool(connection.execute(select(func.count()).select_from(ArchiveRow)).scalar_one())


def _occupied_error() -> StorageError:
    return StorageError(
        "the database already contains an Archive; restore the backup to an empty database, or "
        "replace this Archive with --replace"
    )
