"""Puts a backup back: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from fractions import Fraction
from pathlib import Path

from sqlalchemy import Connection, func, select
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.backup.file import BackupFile, open_backup
from flask_ibi_archive.archive.backup.writing import BackedUp, Progress
from flask_ibi_archive.archive.minting import read_clock
from flask_ibi_archive.errors import BackupError, StorageError
from flask_ibi_archive.storage import migrate
from flask_ibi_archive.storage.database import Database, lock_out_others
from flask_ibi_archive.storage.failures import one_line
from flask_ibi_archive.storage.file_store import FileStore, Staging
from flask_ibi_archive.storage.floors import move_last_dates, read_last_dates, stop_minting
from flask_ibi_archive.storage.loading import Loader
from flask_ibi_archive.storage.models import Archive, Item
from flask_ibi_archive.storage.table_rows import read_numbers, reflect_tables, set_numbers


class _Undo(Exception):
    """Ends a dry run: the transaction is rolled back."""


@dataclass
class Restorer:
    """Restores a backup into a database and a folder of contents.

    :param replace: take out what the database holds first; else it must hold no Archive.
    :param dry_run: change nothing in the end. What the database holds is then left alone
        altogether.
    :param clock: tells the time in POSIX seconds.
    """

    database: Database
    folder: FileStore
    replace: bool = False
    dry_run: bool = False
    progress: Progress = lambda stage, done, total: None
    clock: Callable[[], Fraction] = read_clock

    def run(self, path: Path) -> BackedUp:
        """Check a backup and restore it.

        :raises BackupError: if it can't be restored; then nothing was changed.
        :raises StorageError: if the database holds an Archive; nor then.
        """
        with open_backup(path) as backup, self.folder.staging() as staging:
            self._check_moment(backup)
            occupied = self.database.exists() and self.database.read(count_archives) > 0
            if occupied and not self.replace:
                raise _occupied()
            backup.check(self.folder, None if self.dry_run else staging, self.progress)
            if not (self.dry_run and occupied):
                self._restore(backup, staging)
            manifest = backup.manifest
            return BackedUp(
                manifest.archives,
                manifest.rows(Item.__tablename__),
                manifest.all_rows,
                manifest.contents,
                manifest.bytes,
                manifest.faults,
            )

    def _check_moment(self, backup: BackupFile) -> None:
        """Check that the clock is not behind the one under which the backup's identifiers were
        given.
        """
        created = datetime.fromisoformat(backup.manifest.created)
        now = datetime.fromtimestamp(int(self.clock()), timezone.utc)
        if created > now:
            raise BackupError(
                str(backup.path),
                f"it was made at {backup.manifest.created}, and the clock shows {now.isoformat()} only: "
                "identifiers could be given again; set the clock right",
            )

    def _restore(self, backup: BackupFile, staging: Staging) -> None:
        self.database.create()
        try:
            with self.database.writing() as connection:
                self._fill(connection, backup)
                if self.dry_run:
                    raise _Undo
                for content in backup.contents():
                    staging.keep(content)
        except _Undo:
            pass
        except IntegrityError as error:
            reason = one_line(error)
            raise BackupError(str(backup.path), f"the database refuses a row: {reason}") from error

    def _fill(self, connection: Connection, backup: BackupFile) -> None:
        lock_out_others(connection)
        before: dict[str, Fraction] = {}
        numbers = dict(backup.manifest.numbers)
        if migrate.current_revision(connection) is not None:
            if count_archives(connection) and not self.replace:
                raise _occupied()
            stop_minting(connection)
            before = read_last_dates(connection)
            held = read_numbers(connection, reflect_tables(connection))
            numbers.update({name: max(held[name], numbers.get(name, 0)) for name in held})
            migrate.downgrade(connection, "base")
        migrate.upgrade(connection, backup.manifest.revision)
        self._load(connection, backup)
        migrate.upgrade(connection)
        set_numbers(connection, reflect_tables(connection), numbers)
        move_last_dates(connection, before, self.clock())

    def _load(self, connection: Connection, backup: BackupFile) -> None:
        done = 0

        def written(count: int) -> None:
            nonlocal done
            done += count
            self.progress("rows", done, backup.manifest.all_rows)

        loader = Loader(connection, backup.rows, written)
        if loader.tables.keys() != backup.manifest.parts.keys():
            raise ValueError("it has not the tables of its revision")
        loader.run()
        loader.check()


def count_archives(connection: Connection) -> int:
    """Return how many Archives a database holds; 0 where it has none of our tables."""
    if migrate.current_revision(connection) is None:
        return 0
    return int(connection.execute(select(func.count()).select_from(Archive)).scalar_one())


def _occupied() -> StorageError:
    return StorageError(
        "the database holds an Archive already; restore into an empty one, or take out what it holds "
        "with --replace"
    )
