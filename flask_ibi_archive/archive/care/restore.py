"""Restore a backup completely, or change nothing if an error occurs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from fractions import Fraction
from pathlib import Path

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.care.backup import BackupSummary, Progress
from flask_ibi_archive.archive.care.backup_reader import BackupReader, open_backup
from flask_ibi_archive.archive.items.archives import find_archives
from flask_ibi_archive.archive.items.bulk import examine_tables
from flask_ibi_archive.archive.items.file_store import FileStore, Staging
from flask_ibi_archive.archive.items.minting import read_clock
from flask_ibi_archive.archive.items.prefixes import lock_minting, raise_last_dates, read_last_dates
from flask_ibi_archive.archive.items.table_rows import (
    TableLoader,
    raise_last_ids,
    read_last_ids,
    reflect_tables,
)
from flask_ibi_archive.archive.items.tables import ArchiveRow
from flask_ibi_archive.errors import BackupError, StorageError
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database, lock_table_setup
from flask_ibi_archive.server.database.database_errors import get_driver_message


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
    """

    database: Database
    files: FileStore
    replace: bool = False
    dry_run: bool = False
    progress: Progress = lambda stage, done, total: None
    clock: Callable[[], Fraction] = read_clock

    def run(self, path: Path) -> BackupSummary:
        """Check and restore a backup.

        :raises BackupError: if the backup cannot be restored. Nothing was changed.
        :raises StorageError: if the database already contains an Archive. Nothing was changed.
        """
        # the entries of the Archives are written when they are in the database
        files = FileStore(self.files.folder)
        with open_backup(path) as backup, files.staging() as staging:
            self._check_clock(backup)
            occupied = self.database.exists() and self.database.read(self._has_archive)
            if occupied and not self.replace:
                raise _occupied_error()
            backup.check(self.files, None if self.dry_run else staging, self.progress)
            if not (self.dry_run and occupied):
                self._restore(backup, staging)
            return BackupSummary.of(backup.manifest)

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
        replaced_dates: dict[str, Fraction] = {}
        last_ids = dict(backup.manifest.numbers)
        if self.database.find_revision(connection) is not None:
            if self._has_archive(connection) and not self.replace:
                raise _occupied_error()
            lock_minting(connection)
            replaced_dates = read_last_dates(connection)
            replaced_ids = read_last_ids(connection, reflect_tables(connection))
            for name, last_id in replaced_ids.items():
                last_ids[name] = max(last_id, last_ids.get(name, 0))
            migrate.downgrade(connection, "base", history)
        migrate.upgrade(connection, backup.manifest.revision, history)
        self._load(connection, backup)
        migrate.upgrade(connection, history=history)
        raise_last_ids(connection, reflect_tables(connection), last_ids)
        raise_last_dates(connection, replaced_dates, self.clock())
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

        loader = TableLoader(connection, backup.rows, add_rows)
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
