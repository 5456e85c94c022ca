"""Deletes the files of operations that the host has rolled back.

An operation moves its files to the store before the host commits. If the host rolls back, also to a
savepoint, no item needs these files. They are deleted at the end of the transaction of the host.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy.orm import Session, SessionTransaction

from flask_ibi_archive.archive.items.file_rows import find_needed_checksums, remove_unneeded
from flask_ibi_archive.archive.items.file_store import FileStore, Staging
from flask_ibi_archive.archive.items.operations.sessions import get_part
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import batched

#: The maximum number of seconds to wait for locks. If a lock is not free, the files are deleted
#: after the next rollback, or with ``flask ibi verify --prune``.
LOCK_TIMEOUT = 0.1


@dataclass
class NewFiles:
    """The files that were added to a store in the present transaction of a session.

    :ivar checksums: the checksums of the files.
    :ivar operations: the number of operations. A later one may replace a file of an earlier one.
    :ivar rolled_back: whether the host has rolled back, also to a savepoint.
    """

    database: Database
    store: FileStore
    checksums: set[str] = field(default_factory=set)
    operations: int = 0
    rolled_back: bool = False

    def end(self, session: Session, transaction: SessionTransaction, is_committed: bool) -> None:
        """Delete unneeded files at the end of the transaction of the host."""
        self.rolled_back = self.rolled_back or not is_committed
        if transaction.parent is not None or not (self.checksums or self.store.unneeded):
            return
        if self.rolled_back or self.operations > 1:
            self._remove_unneeded()

    def _remove_unneeded(self) -> None:
        self.checksums |= self.store.unneeded
        self.store.unneeded = self.checksums
        if self._are_needed():
            self.store.unneeded = set()
            return
        with suppress(StorageError), self.store.locked(exclusive=True):
            with self.database.writing(LOCK_TIMEOUT) as connection:
                list(remove_unneeded(connection, self.store, sorted(self.checksums), math.inf))
            self.store.unneeded = set()

    def _are_needed(self) -> bool:
        """Return whether committed items need all files. Then no lock is necessary."""
        with suppress(StorageError):
            return all(
                len(self.database.read(partial(find_needed_checksums, checksums=part))) == len(part)
                for part in batched(self.checksums)
            )
        return False


@contextmanager
def stage_for_session(session: Session, database: Database, store: FileStore) -> Iterator[Staging]:
    """Yield a staging folder for files that the host may roll back."""
    files = get_part(session, store, lambda: NewFiles(database, store))
    files.operations += 1
    with store.staging(files.checksums.add) as staging:
        yield staging
