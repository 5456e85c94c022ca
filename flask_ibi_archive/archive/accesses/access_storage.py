"""Stores accesses in the database, and imports the accesses of the spool.

The spool contains the accesses that could not be stored when their acknowledgments arrived.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from logging import getLogger
from pathlib import Path
from threading import Lock

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, IntegrityError

from flask_ibi_archive.archive.accesses.access_rows import (
    LOCK_TIMEOUT,
    STORING,
    find_item,
    get_utc_day,
    insert_access,
    lock_visitors,
)
from flask_ibi_archive.archive.accesses.delivered_item import (
    AccessedItems,
    Claim,
    DeliveredItem,
    NotCounted,
    find_delivered_item,
    get_row_id,
)
from flask_ibi_archive.archive.accesses.spool import ReceivedAccess, Spool
from flask_ibi_archive.archive.accesses.visitors import choose_pseudonym
from flask_ibi_archive.archive.items.archives import ServedArchive
from flask_ibi_archive.archive.service.item_catalogue import ItemCatalogue
from flask_ibi_archive.core.protocol.archive_urls import ArchiveFacts
from flask_ibi_archive.core.protocol.query import decode_url
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.database_errors import get_driver_message
from flask_ibi_archive.server.database.engines import limit_lock_wait

log = getLogger("flask_ibi_archive.accesses")

#: The number of spool files that are imported in one transaction.
BATCH = 100


class ThreadLock:
    """A lock for the threads of a process. A forked process gets a new lock."""

    def __init__(self) -> None:
        self._owner = (os.getpid(), Lock())

    def get(self) -> Lock:
        """Return the lock of this process."""
        process, lock = self._owner
        if process != os.getpid():  # the lock of the parent process may have been in use
            _, lock = self._owner = (os.getpid(), Lock())
        return lock


class AccessStore:
    """Stores accesses in the database, also those that are in the spool.

    :param find_served: a function that returns the Archive and its description. The function raises
        NotReady if the Archive does not exist yet.
    :param items: the items of the Archive.
    :param anonymises: whether the IP addresses of users are anonymised before they are stored.
    :param lock_timeout: the maximum number of seconds to wait for a lock of the database.
    """

    def __init__(
        self,
        database: Database,
        spool: Spool,
        find_served: Callable[[], tuple[ServedArchive, ArchiveFacts]],
        items: ItemCatalogue,
        anonymises: bool = True,
        lock_timeout: float = LOCK_TIMEOUT,
    ) -> None:
        self.database = database
        self.spool = spool
        self.find_served = find_served
        self.anonymises = anonymises
        self.lock_timeout = lock_timeout
        self.items = items
        self._import_lock = ThreadLock()  # only one thread imports the spool
        self._write_lock = ThreadLock()

    def store(self, archive_id: int, access: ReceivedAccess, delivered: DeliveredItem) -> bool:
        """Store and count an access.

        :param archive_id: the row ID of the Archive.
        :returns: False if the URL key of the access was used before. Then nothing is changed.
        :raises IntegrityError: if the item or the Archive no longer exists.
        :raises NotReady: if the database is locked or does not answer.
        """
        with (
            self._queue() as lock_timeout,
            self.database.writing(lock_timeout, lock_visitors(access.visitors)) as connection,
        ):
            return store_access(connection, archive_id, access, delivered)

    @contextmanager
    def _queue(self) -> Iterator[float]:
        """On SQLite, let the threads of this process store their accesses one after the other.

        SQLite has no queue: each waiting thread tries again and again, or sleeps for too long. The
        number of seconds that is left to wait for locks of the database is yielded.

        :raises NotReady: if other threads need longer than the timeout for locks.
        """
        if self.database.engine.dialect.name != "sqlite":
            yield self.lock_timeout
            return
        lock = self._write_lock.get()
        begun = time.monotonic()
        budget = self.database.find_budget()
        seconds = limit_lock_wait(budget, self.lock_timeout) / 1000
        with budget or nullcontext():
            if not lock.acquire(timeout=seconds):
                raise NotReady("other threads are storing accesses", "try again")
        try:
            yield max(0, self.lock_timeout - (time.monotonic() - begun))
        finally:
            lock.release()

    def import_spool(self, limit: int | None = None) -> int:
        """Store the accesses of the spool in the database, and delete their files.

        :param limit: the maximum number of files to import, rounded up to whole batches; None
            imports all files.
        :returns: the number of accesses that are new in the database.
        :raises NotReady: if the database is locked or does not answer. A file is deleted only after
            its access was imported.
        """
        served, facts = self.find_served()
        if self.spool.is_empty(served.id):
            return 0
        self.spool.delete_abandoned_files()
        after, new, done = "", 0, 0
        while limit is None or done < limit:
            paths = self.spool.list_files(served.id, after, BATCH)
            if not paths:
                break
            new += self._import_files(paths, served, facts)
            after, done = paths[-1].name, done + len(paths)
        if new:
            log.info("%d accesses were imported from the spool", new)
        return new

    def import_some_files(self, archive: int) -> None:
        """Import some files of the spool, unless another thread is importing files.

        If the database does not answer, this method logs the error and does not raise it.
        """
        if self.spool.is_empty(archive):
            return
        lock = self._import_lock.get()
        if not lock.acquire(blocking=False):
            return
        try:
            self.import_spool(BATCH)
        except NotReady as error:
            log.info("the spool is imported later: %s", error)
        finally:
            lock.release()

    def _import_files(self, paths: list[Path], served: ServedArchive, facts: ArchiveFacts) -> int:
        """Store the accesses of spool files and delete the files.

        :returns: the number of accesses that are new in the database.
        """
        read = [(path, self.spool.read(path)) for path in paths]
        found = [(path, access) for path, access in read if access is not None]
        valid = self.database.read(
            lambda connection: self._select_countable(connection, found, served, facts)
        )
        new, broken = 0, []
        with self.database.writing(self.lock_timeout, STORING) as connection:
            for path, access, delivered in valid:
                try:
                    with connection.begin_nested():
                        new += store_access(connection, served.id, access, delivered)
                except (IntegrityError, DataError) as error:
                    broken.append((path, get_driver_message(error)))
        for path, reason in broken:
            self.spool.set_aside(path, reason)
        for path, _, _ in valid:
            self.spool.delete(path)
        return new

    def _select_countable(
        self,
        connection: Connection,
        found: list[tuple[Path, ReceivedAccess]],
        served: ServedArchive,
        facts: ArchiveFacts,
    ) -> list[tuple[Path, ReceivedAccess, DeliveredItem]]:
        """Return the accesses of this Archive that count.

        Files with accesses that do not count are deleted.
        """
        valid = []
        items = AccessedItems(connection, served, self.items)
        for path, access in found:
            owner = find_item(connection, access.item) if isinstance(access.item, int) else None
            if access.archive is None and owner is not None and owner[0] != served.id:
                continue  # the other Archive will import this file
            try:
                delivered = access.delivery or find_delivered_item(
                    items, facts, access.item, self._build_claim(access)
                )
            except NotCounted as refusal:
                log_refusal(access.address, refusal)
                self.spool.delete(path)
            else:
                valid.append((path, access, delivered))
        return valid

    def _build_claim(self, access: ReceivedAccess) -> Claim:
        return Claim(
            access.content_type,
            access.ibi,
            decode_url(access.url),
            access.address,
            get_utc_day(access.second),
            self.anonymises,
        )


def log_refusal(address: str | None, reason: NotCounted) -> None:
    """Log that an acknowledgment does not count.

    :param address: the stored address of the user; None if there is none.
    """
    sender = address or "an unknown address"
    log.warning("an acknowledgment from %s is not counted: %s", sender, reason)


def store_access(
    connection: Connection, archive_id: int, access: ReceivedAccess, delivered: DeliveredItem
) -> bool:
    """Store and count an access; return False if its URL key was used before."""
    other = delivered.item_id
    return insert_access(
        connection,
        {
            "archive_id": archive_id,
            "url_key": access.url_key,
            "item_id": get_row_id(connection, archive_id, access.item),
            "delivered_item_id": None
            if other is None
            else get_row_id(connection, archive_id, other),
            "second": access.second,
            "visitor": choose_pseudonym(connection, archive_id, access.visitors, access.second),
            "address": access.address,
            "robot": access.robot,
            "content_type": access.content_type,
            "state": access.state,
            "relation": delivered.relation[:255],
            "persistent_url": access.persistent_url,
            "url": access.url if delivered.is_our_url else "",
        },
    )
