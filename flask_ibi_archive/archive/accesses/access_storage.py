"""Stores accesses in the database, or in the spool while the database does not answer.

The spool is a folder with one file for each access. A file is written completely or not at all. The
files contain only such data about the user as the database also contains. The files are imported
when the database is available again. If a file is imported twice, the access is counted only once,
because the URL key of an access is unique in the database.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from logging import getLogger
from pathlib import Path
from threading import Lock
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, IntegrityError

from flask_ibi_archive.archive.accesses.access_rows import (
    LOCK_TIMEOUT,
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
from flask_ibi_archive.archive.accesses.visitors import choose_pseudonym
from flask_ibi_archive.archive.items.archives import ServedArchive
from flask_ibi_archive.archive.items.locks import STORING
from flask_ibi_archive.archive.service.item_catalogue import ItemCatalogue, ItemKey
from flask_ibi_archive.core.protocol.archive_urls import ArchiveFacts
from flask_ibi_archive.core.protocol.query_strings import decode_url
from flask_ibi_archive.errors import NotReady, StorageError
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.database_errors import get_driver_message
from flask_ibi_archive.server.files import new_file, sync_folder

ADVICE = "set IBI_SPOOL_FOLDER to a folder that can be written"
SUFFIX = ".json"
#: The maximum number of bytes that are read from a file. No acknowledgment is longer.
MAX_SIZE = 1 << 20
#: The age in seconds after which temporary files are deleted. A process that crashed has left
#: these files.
ABANDONED = 3600


@dataclass(frozen=True, slots=True)
class ReceivedAccess:
    """An access that an acknowledgment with a valid URL key reports.

    A spool file contains these fields as JSON.

    :param second: the time when the acknowledgment was received, in POSIX seconds.
    :param url_key: the name of the URL key (KeyFacts.name).
    :param item: the key of the requested item, from the URL key.
    :param content_type: the content type of the delivered item, ``Data`` or ``Metadata``.
    :param state: the state of the item in the acknowledgment.
    :param ibi: the identifiers (rep, ibip or both) of the delivered item; empty if the
        acknowledgment contains no identifier.
    :param url: the URL that was delivered, percent-encoded.
    :param persistent_url: the persistent URL that the reader requested, percent-encoded.
    :param address: the user's IP address; anonymised unless IBI_ANONYMISE_IPS is false.
    :param visitors: the user's pseudonym of the day. Shortly after midnight, the user's pseudonym
        of the day before follows.
    :param robot: whether a robot made the access.
    :param archive: the row ID of the Archive; None if the Archive is not known yet.
    :param delivery: the delivered item; None if the item is not known yet.
    """

    second: int
    url_key: str
    item: ItemKey
    content_type: str
    state: str | None
    ibi: tuple[str, ...]
    url: str
    persistent_url: str
    address: str
    visitors: tuple[str, ...]
    robot: bool
    archive: int | None = None
    delivery: DeliveredItem | None = None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ReceivedAccess:
        """Return the access that a spool file contains.

        :raises ValueError, TypeError, KeyError: if the file does not contain an access.
        """
        delivery = value.pop("delivery")
        access = cls(
            **{**value, "ibi": tuple(value["ibi"]), "visitors": tuple(value["visitors"])},
            delivery=None if delivery is None else DeliveredItem(**delivery),
        )
        texts = (access.url_key, access.content_type, access.url, access.persistent_url)
        lists = (*access.ibi, *access.visitors)
        if not (
            all(isinstance(text, str) for text in (*texts, access.address, *lists))
            and type(access.second) is int
            and type(access.item) in (int, str)
            and access.visitors
        ):
            raise ValueError("a field has a wrong type")
        return access


class Spool:
    """A folder of accesses that are not in the database yet.

    :param folder: the folder; it is created when the first access is stored.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def store(self, access: ReceivedAccess) -> None:
        """Store an access as a file, and wait until the file is on the disk.

        :raises NotReady: if the file cannot be written.
        """
        claims = (access.content_type, access.ibi, access.url, access.persistent_url)
        # equal acknowledgments have the same file name, so they are stored only once
        digest = hashlib.sha256(repr(claims).encode()).hexdigest()[:16]
        path = self.folder / f"{access.archive or 0}-{access.url_key}-{digest}{SUFFIX}"
        try:
            if not self.folder.is_dir():
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                sync_folder(self.folder.parent)
            elif path.exists():
                return
            with new_file(path) as file:
                file.write(json.dumps(asdict(access)).encode())
        except OSError as error:
            detail = f"{error.filename or self.folder}: {error.strerror}"
            raise NotReady("an access cannot be stored now", ADVICE, detail) from error
        except StorageError as error:
            raise NotReady("an access cannot be stored now", ADVICE, str(error)) from error

    def list_files(self, archive: int, after: str = "", limit: int | None = None) -> list[Path]:
        """Return the files of an Archive and the files whose Archive is unknown, sorted by name.

        :param archive: the row ID of the Archive.
        :param after: a file name; only files whose names come after this name are returned.
        :param limit: the maximum number of files; None returns all files.
        """
        names = sorted([name for name in self._names_for(archive) if name > after])
        return [self.folder / name for name in names[:limit]]

    def is_empty(self, archive: int) -> bool:
        """Return whether there are no files of an Archive and no files whose Archive is unknown.

        :param archive: the row ID of the Archive.
        """
        return next(self._names_for(archive), None) is None

    def read(self, path: Path) -> ReceivedAccess | None:
        """Return the access in a file, or None if the file cannot be read or does not exist.

        If the content is invalid, the file is renamed and an error is logged. If the file does not
        exist, another process has imported the file.
        """
        try:
            with path.open("rb") as stream:
                return ReceivedAccess.from_json(json.loads(stream.read(MAX_SIZE)))
        except FileNotFoundError:
            return None
        except OSError as error:
            log.error("%s cannot be read: %s", path, error.strerror)
            return None
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            self.set_aside(path, " ".join(str(error).split())[:200])
            return None

    def set_aside(self, path: Path, reason: str) -> None:
        """Rename an invalid file, so that it is not read again, and log an error.

        The administrator can examine the renamed file.
        """
        log.error("%s contains no valid access (%s); see %s.bad", path, reason, path.name)
        with suppress(OSError):
            path.rename(path.with_name(path.name + ".bad"))

    def delete(self, path: Path) -> None:
        """Delete the file of an access; an error is only logged."""
        with suppress(FileNotFoundError):
            try:
                path.unlink()
            except PermissionError as error:
                log.error("%s cannot be deleted: %s", path, error.strerror)

    def delete_abandoned_files(self) -> None:
        """Delete temporary files of processes that crashed."""
        for name in self._names():
            path = self.folder / name
            if name.startswith(".new-"):
                with suppress(OSError):
                    if time.time() - path.stat().st_mtime > ABANDONED:
                        path.unlink()

    def _names_for(self, archive: int) -> Iterator[str]:
        """Yield the names of the files of an Archive and of the files whose Archive is unknown."""
        prefixes = (f"{archive}-", "0-")
        for name in self._names():
            if name.startswith(prefixes) and name.endswith(SUFFIX):
                yield name

    def _names(self) -> Iterator[str]:
        try:
            with os.scandir(self.folder) as entries:
                for entry in entries:
                    yield entry.name
        except FileNotFoundError:
            return
        except OSError as error:
            log.error("%s cannot be read: %s", self.folder, error.strerror)


log = getLogger("flask_ibi_archive.accesses")

#: The number of spool files that are imported in one transaction.
BATCH = 100


class AccessStore:
    """Stores accesses in the database, and imports the accesses of the spool into the database.

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
        self._import_lock = Lock()  # only one thread imports the spool

    def store(self, archive_id: int, access: ReceivedAccess, delivered: DeliveredItem) -> bool:
        """Store and count an access.

        :param archive_id: the row ID of the Archive.
        :returns: False if the URL key of the access was used before. Then nothing is changed.
        :raises IntegrityError: if the item or the Archive no longer exists.
        :raises NotReady: if the database is locked or does not answer.
        """
        table_lock = lock_visitors(access.visitors)
        with self.database.writing(self.lock_timeout, table_lock) as connection:
            return store_access(connection, archive_id, access, delivered)

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
        if not self._import_lock.acquire(blocking=False):
            return
        try:
            self.import_spool(BATCH)
        except NotReady as error:
            log.info("the spool is imported later: %s", error)
        finally:
            self._import_lock.release()

    def _import_files(self, paths: list[Path], served: ServedArchive, facts: ArchiveFacts) -> int:
        """Store the accesses of spool files and delete the files.

        :returns: the number of accesses that are new in the database.
        """
        found = [(path, access) for path in paths if (access := self.spool.read(path)) is not None]
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
        """Return the accesses of this Archive that count, with their delivered items.

        Files with accesses that do not count are deleted.

        :param found: spool files with their accesses; some may belong to another Archive.
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
