"""Acknowledgments: check each acknowledgment of a resolver and store the access ([R] 6.2, 7.2).

An acknowledgment reports that a resolver has redirected a reader to an item. Each acknowledgment
contains a URL key. A URL key is a signed number that the Archive has sent to the resolver with the
URLs of the item. Only the first acknowledgment with a URL key counts.

The Archive stores the access before it answers the acknowledgment. If the database is locked or
does not answer, the access is stored in the spool (a folder of files). The files are imported into
the database later. The resolver always gets the same answer. If an acknowledgment does not count,
a warning with the reason is written to the log ``flask_ibi_archive.accesses``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from logging import getLogger
from pathlib import Path
from threading import Lock
from urllib.parse import quote

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, IntegrityError

from flask_ibi_archive.archive.accesses.accessed_items import (
    AccessedItems,
    NotCounted,
    get_row_id,
)
from flask_ibi_archive.archive.accesses.daily_counts import AccessCounter
from flask_ibi_archive.archive.accesses.delivered_item import (
    Claim,
    DeliveredItem,
    find_delivered_item,
)
from flask_ibi_archive.archive.accesses.robots import is_robot_access
from flask_ibi_archive.archive.accesses.spool import ReceivedAccess, Spool
from flask_ibi_archive.archive.accesses.url_keys import KeyFacts, URLKeys
from flask_ibi_archive.archive.accesses.visitors import (
    Visitors,
    anonymise,
    choose_pseudonym,
)
from flask_ibi_archive.archive.archives import ServedArchive
from flask_ibi_archive.archive.host_catalogue import HostItems
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.protocol.client_addresses import CLIENT_ADDRESSES
from flask_ibi_archive.protocol.messages import (
    CONTENT_TYPE,
    PERSISTENT_URL,
    URL,
    URL_KEY,
    Acknowledgment,
)
from flask_ibi_archive.protocol.query import decode_url, to_bytes
from flask_ibi_archive.protocol.url_list import ArchiveFacts
from flask_ibi_archive.storage.accesses import (
    INSERTING,
    LOCK_TIMEOUT,
    find_item,
    get_utc_day,
    insert_access,
)
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.database_errors import get_driver_message

log = getLogger("flask_ibi_archive.accesses")

#: The number of spool files that are imported in one transaction.
BATCH = 100


class Outcome(str, Enum):
    """The result of processing an acknowledgment."""

    COUNTED = "counted"
    SPOOLED = "stored in the spool"
    REFUSED = "not counted"


@dataclass(frozen=True, slots=True)
class Agents:
    """The User-Agent headers of the programs that caused an acknowledgment.

    :param sender: the User-Agent of the program that sent the request, usually the resolver.
    :param reader: the User-Agent of the reader's browser, if the resolver sends it.
    """

    sender: str | None = None
    reader: str | None = None


NO_AGENTS = Agents()


class Acknowledgments:
    """Checks acknowledgments and stores the accesses that they report.

    :param find_served: a function that returns the Archive and its description. The function raises
        NotReady if the Archive does not exist yet.
    :param anonymises: whether the IP addresses of users are anonymised before they are stored.
    :param lock_timeout: the maximum number of seconds to wait for a lock of the database.
    :param clock: a function that returns the time in POSIX seconds.
    :param host_items: the items of the host; None if the items are in the tables of this package.
    """

    def __init__(
        self,
        database: Database,
        url_keys: URLKeys,
        spool: Spool,
        find_served: Callable[[], tuple[ServedArchive, ArchiveFacts]],
        anonymises: bool = True,
        lock_timeout: float = LOCK_TIMEOUT,
        clock: Callable[[], float] = time.time,
        host_items: HostItems | None = None,
    ) -> None:
        self.database = database
        self.url_keys = url_keys
        self.spool = spool
        self.find_served = find_served
        self.anonymises = anonymises
        self.lock_timeout = lock_timeout
        self.clock = clock
        self.host_items = host_items
        self.visitors = Visitors()
        self.counter = AccessCounter(database)
        #: The id of this process, and a lock that allows only one thread to import the spool.
        self._import_lock = (os.getpid(), Lock())

    def record(self, acknowledgment: Acknowledgment, agents: Agents = NO_AGENTS) -> Outcome:
        """Check an acknowledgment and store the access in the database or in the spool.

        :returns: where the access was stored, or ``Outcome.REFUSED`` if it does not count.
        :raises NotReady: if neither the database nor the spool can store the access.
        """
        try:
            outcome = self._record(acknowledgment, agents)
        except NotCounted as refusal:
            addresses = acknowledgment.client_addresses
            _log_refusal(self._stored_address(addresses[0]) if addresses else None, refusal)
            return Outcome.REFUSED
        log.debug("an acknowledgment was %s", outcome.value)
        return outcome

    def has_valid_key(self, acknowledgment: Acknowledgment) -> bool:
        """Return whether the URL key of an acknowledgment is valid.

        This method does not read the database.
        """
        key = acknowledgment.url_key
        return key is not None and self.url_keys.verify(key) is not None

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

    # --- one acknowledgment ----------------------------------------------------------------------

    def _record(self, acknowledgment: Acknowledgment, agents: Agents) -> Outcome:
        key = self._check_key(acknowledgment)
        user = (acknowledgment.client_addresses or ("",))[0]
        access, claim = self._build_access(acknowledgment, key, user, agents)

        def add_pseudonyms() -> ReceivedAccess:
            pseudonyms = self.visitors.build_pseudonyms(access.second, user, agents.reader or "")
            return replace(access, visitors=pseudonyms)

        try:
            served, facts = self.find_served()
            access = replace(access, archive=served.id)
            delivered = self.database.read(
                lambda connection: find_delivered_item(
                    AccessedItems(connection, served, self.host_items), facts, access.item, claim
                )
            )
            access = replace(access, delivery=delivered)
            self.visitors.load_salts(self.database, access.second, self.lock_timeout)
            with self.database.writing(self.lock_timeout, INSERTING) as connection:
                number = _insert(connection, served.id, add_pseudonyms(), delivered)
        except IntegrityError as error:  # the item or the Archive has just been deleted
            raise NotCounted(
                f"the database refuses the access: {get_driver_message(error)}"
            ) from error
        except NotReady as error:
            self.spool.store(add_pseudonyms())
            log.info("an access was stored in the spool: %s", error)
            return Outcome.SPOOLED
        if number is None:
            raise NotCounted("the URL key was used before")
        self.counter.update_if_due(number)
        self._import_some_files(served.id)
        return Outcome.COUNTED

    def _check_key(self, acknowledgment: Acknowledgment) -> KeyFacts:
        """Check the fields of an acknowledgment and its URL key; return the content of the key.

        :raises NotCounted: if a field is missing or wrong, or if the key is not valid.
        """
        needed = {
            CLIENT_ADDRESSES: acknowledgment.client_addresses,
            CONTENT_TYPE: acknowledgment.content_type,
            URL: acknowledgment.url,
            PERSISTENT_URL: acknowledgment.persistent_url,
            URL_KEY: acknowledgment.url_key,
        }
        wrong = sorted(acknowledgment.wrong)
        missing = sorted(name for name, value in needed.items() if not value and name not in wrong)
        faults = [f"{name} is missing" for name in missing] + [f"{name} is wrong" for name in wrong]
        if faults:
            raise NotCounted(", ".join(faults))
        facts = self.url_keys.read(acknowledgment.url_key or "")
        if facts is None:
            raise NotCounted("the URL key is forged")
        if not self.url_keys.is_current(facts):
            raise NotCounted("the URL key has expired")
        return facts

    def _build_access(
        self, acknowledgment: Acknowledgment, key: KeyFacts, user: str, agents: Agents
    ) -> tuple[ReceivedAccess, Claim]:
        """Return the access without pseudonyms, and the claimed delivered item."""
        second = int(self.clock())
        claim = Claim(
            acknowledgment.content_type or "",
            tuple(identifier.text for identifier in acknowledgment.ibi or ()),
            acknowledgment.url or "",
            user,
            get_utc_day(second),
        )
        access = ReceivedAccess(
            second=second,
            url_key=key.name,
            item=key.item,
            content_type=claim.content_type,
            state=acknowledgment.state,
            ibi=claim.ibi,
            url=encode_url(claim.url),
            persistent_url=encode_url(acknowledgment.persistent_url or ""),
            address=self._stored_address(user),
            visitors=(),
            robot=is_robot_access(agents.sender, agents.reader),
        )
        return access, claim

    def _stored_address(self, address: str) -> str:
        return anonymise(address) if self.anonymises else address

    # --- the spool -------------------------------------------------------------------------------

    def _import_some_files(self, archive: int) -> None:
        """Import some files of the spool, unless another thread is importing files.

        If the database does not answer, this method logs the error and does not raise it.
        """
        if self.spool.is_empty(archive):
            return
        process, lock = self._import_lock
        if process != os.getpid():  # the lock of the parent process may have been in use
            process, lock = self._import_lock = (os.getpid(), Lock())
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
        # two processes that insert in the same order cannot deadlock
        valid.sort(key=lambda row: row[1].url_key)
        new, broken = 0, []
        with self.database.writing(self.lock_timeout, INSERTING) as connection:
            for path, access, delivered in valid:
                try:
                    with connection.begin_nested():
                        number = _insert(connection, served.id, access, delivered)
                        new += number is not None
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
        items = AccessedItems(connection, served, self.host_items)
        for path, access in found:
            owner = find_item(connection, access.item) if isinstance(access.item, int) else None
            if access.archive is None and owner is not None and owner[0] != served.id:
                continue  # the other Archive will import this file
            try:
                delivered = access.delivery or find_delivered_item(
                    items, facts, access.item, self._build_claim(access)
                )
            except NotCounted as refusal:
                _log_refusal(access.address, refusal)
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


def _log_refusal(address: str | None, reason: NotCounted) -> None:
    sender = address or "an unknown address"
    log.warning("an acknowledgment from %s is not counted: %s", sender, reason)


def _insert(
    connection: Connection, archive_id: int, access: ReceivedAccess, delivered: DeliveredItem
) -> int | None:
    """Store an access and return its row ID, or None if its URL key was used before."""
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


def encode_url(url: str) -> str:
    """Return a URL in percent-encoded form, as the database stores URLs.

    :param url: the URL, decoded once.
    """
    return quote(to_bytes(url), safe="/:?#[]@!$&'()*+,;=~")
