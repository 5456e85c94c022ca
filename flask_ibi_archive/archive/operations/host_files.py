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
from weakref import WeakKeyDictionary

from sqlalchemy import event
from sqlalchemy.orm import Session, SessionTransaction

from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.dialects import batched
from flask_ibi_archive.storage.file_rows import find_needed_checksums, remove_unneeded
from flask_ibi_archive.storage.file_store import FileStore, Staging

#: The maximum number of seconds to wait for locks. If a lock is not free, the files are deleted
#: after the next rollback, or with ``flask ibi verify --prune``.
LOCK_TIMEOUT = 0.1


@dataclass
class NewFiles:
    """The files that were added to a store in the present transaction of a session.

    :ivar checksums: the checksums of the files.
    :ivar operations: the number of operations. A later one may replace a file of an earlier one.
    :ivar rolled_back: whether the host has rolled back to a savepoint.
    :ivar committed: whether the host has committed the transaction.
    """

    database: Database
    store: FileStore
    checksums: set[str] = field(default_factory=set)
    operations: int = 0
    rolled_back: bool = False
    committed: bool = False

    def remove_unneeded(self) -> None:
        """Delete the files that no item needs. Call this after the end of the transaction."""
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
            for part in batched(self.checksums):
                find = partial(find_needed_checksums, checksums=part)
                needed = self.database.read(find)
                if len(needed) < len(part):
                    return False
            return True
        return False


_new_files: WeakKeyDictionary[Session, list[NewFiles]] = WeakKeyDictionary()


@contextmanager
def stage_for_session(session: Session, database: Database, store: FileStore) -> Iterator[Staging]:
    """Yield a staging folder for files that the host may roll back."""
    if not event.contains(session, "after_commit", _remember_commit):
        event.listen(session, "after_commit", _remember_commit)
        event.listen(session, "after_soft_rollback", _remember_rollback)
        event.listen(session, "after_transaction_end", _remove_unneeded)
    known = _new_files.setdefault(session, [])
    found = next((one for one in known if one.store is store), None)
    if found is None:
        known.append(found := NewFiles(database, store))
    found.operations += 1
    with store.staging(found.checksums.add) as staging:
        yield staging


def _remember_rollback(session: Session, previous: SessionTransaction) -> None:
    for one in _new_files.get(session, ()):
        one.rolled_back = True


def _remember_commit(session: Session) -> None:
    if not session.in_nested_transaction():
        for one in _new_files.get(session, ()):
            one.committed = True


def _remove_unneeded(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is None:
        for one in _new_files.pop(session, ()):
            is_kept = one.committed and not one.rolled_back and one.operations == 1
            if not is_kept and (one.checksums or one.store.unneeded):
                one.remove_unneeded()
