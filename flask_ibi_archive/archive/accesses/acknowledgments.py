"""Accesses: takes the acknowledgments of resolvers, and counts each good one once ([R] 6.2, 7.2).

What is answered is stored: in the database, or, while that is locked or away, in the spool, whose
files are taken in as soon as it is free again. What comes of an acknowledgment is told to the log
alone (``flask_ibi_archive.accesses``): the reason why one counts nothing as a warning.
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

from flask_ibi_archive.archive.accesses.counting import AccessCounter
from flask_ibi_archive.archive.accesses.delivered_item import (
    Claim,
    Delivery,
    Uncounted,
    find_delivery,
)
from flask_ibi_archive.archive.accesses.robots import is_robots_access
from flask_ibi_archive.archive.accesses.spool import Arrival, Spool
from flask_ibi_archive.archive.accesses.url_keys import KeyFacts, URLKeys
from flask_ibi_archive.archive.accesses.visitors import Visitors, anonymise, choose_name
from flask_ibi_archive.archive.archives import ServedArchive
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
from flask_ibi_archive.storage.accesses import INSERTING, PATIENCE, find_item, insert_access
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.failures import one_line

log = getLogger("flask_ibi_archive.accesses")

#: Files of the spool that are taken in together.
BATCH = 100
REPLAYED = "its key was used before"


class Outcome(str, Enum):
    """What came of an acknowledgment."""

    COUNTED = "counted"
    KEPT = "kept in the spool"
    REFUSED = "counts nothing"


@dataclass(frozen=True, slots=True)
class Agents:
    """The programs behind an acknowledgment.

    :param sender: the User-Agent of the request, the resolver's as a rule.
    :param reader: the reader's User-Agent, where the resolver passes it on.
    """

    sender: str | None = None
    reader: str | None = None


NO_AGENTS = Agents()


class Accesses:
    """Takes acknowledgments.

    :param find_served: gives the Archive and what it says of itself; raises NotReady while it
        can't.
    :param anonymises: whether addresses are anonymised when they are written.
    :param patience: seconds that one waits for other writers.
    """

    def __init__(
        self,
        database: Database,
        url_keys: URLKeys,
        spool: Spool,
        find_served: Callable[[], tuple[ServedArchive, ArchiveFacts]],
        anonymises: bool = True,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.database = database
        self.url_keys = url_keys
        self.spool = spool
        self.find_served = find_served
        self.anonymises = anonymises
        self.patience = patience
        self.clock = clock
        self.visitors = Visitors()
        self.counter = AccessCounter(database)
        self._taking_in = (os.getpid(), Lock())

    def take(self, acknowledgment: Acknowledgment, agents: Agents = NO_AGENTS) -> Outcome:
        """Count an access; when this returns it is stored, unless it is refused.

        :raises NotReady: if neither the database nor the spool takes it.
        """
        try:
            outcome = self._take(acknowledgment, agents)
        except Uncounted as refusal:
            addresses = acknowledgment.client_addresses
            sender = self._shown(addresses[0]) if addresses else "an unknown address"
            log.warning("an acknowledgment from %s counts nothing: %s", sender, refusal)
            return Outcome.REFUSED
        log.debug("an acknowledgment was %s", outcome.value)
        return outcome

    def has_our_key(self, acknowledgment: Acknowledgment) -> bool:
        """Tell whether an acknowledgment brings a good key; the database is not asked."""
        key = acknowledgment.url_key
        return key is not None and self.url_keys.verify(key) is not None

    def take_in(self, limit: int | None = None) -> int:
        """Take the accesses of the spool into the database.

        :param limit: take in that many at most.
        :returns: how many were new.
        :raises NotReady: if the database is locked or away; what is left stays where it is.
        """
        served, facts = self.find_served()
        if self.spool.is_empty(served.id):
            return 0
        self.spool.sweep()
        after, new, done = "", 0, 0
        while limit is None or done < limit:
            paths = self.spool.waiting(served.id, after, BATCH)
            if not paths:
                break
            new += self._take_in(paths, served, facts)
            after, done = paths[-1].name, done + len(paths)
        if new:
            log.info("%d accesses were taken in from the spool", new)
        return new

    # --- one acknowledgment ----------------------------------------------------------------------

    def _take(self, acknowledgment: Acknowledgment, agents: Agents) -> Outcome:
        key = self._read_key(acknowledgment)
        arrival, claim = self._read(acknowledgment, key, agents)

        def name_user(arrival: Arrival) -> Arrival:
            names = self.visitors.names(arrival.second, claim.user, agents.reader or "")
            return replace(arrival, visitors=names)

        try:
            served, facts = self.find_served()
            arrival = replace(arrival, archive=served.id)
            delivery = self.database.read(
                lambda connection: self._check(connection, served, facts, arrival, claim)
            )
            arrival = replace(arrival, delivery=delivery)
            self.visitors.begin_day(self.database, arrival.second, self.patience)
            arrival = name_user(arrival)
            with self.database.writing(self.patience, INSERTING) as connection:
                access = self._insert(connection, arrival, served, delivery)
        except IntegrityError as error:  # the item, or the Archive, has gone since
            raise Uncounted(f"the database refuses it: {one_line(error)}") from error
        except NotReady as error:
            self.spool.keep(name_user(arrival))
            log.info("an access waits in the spool: %s", error)
            return Outcome.KEPT
        if access is None:
            raise Uncounted(REPLAYED)
        self.counter.note(access)
        self._take_some_in(served.id)
        return Outcome.COUNTED

    def _read_key(self, acknowledgment: Acknowledgment) -> KeyFacts:
        """Return what the key says.

        :raises Uncounted: if a pair is missing, or the key is no good.
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
            raise Uncounted(", ".join(faults))
        facts = self.url_keys.read(acknowledgment.url_key or "")
        if facts is None:
            raise Uncounted("its key is forged")
        if not self.url_keys.is_current(facts):
            raise Uncounted("its key has expired")
        return facts

    def _read(
        self, acknowledgment: Acknowledgment, key: KeyFacts, agents: Agents
    ) -> tuple[Arrival, Claim]:
        user = (acknowledgment.client_addresses or ("",))[0]
        claim = Claim(
            acknowledgment.content_type or "",
            tuple(identifier.text for identifier in acknowledgment.ibi or ()),
            acknowledgment.url or "",
            user,
        )
        arrival = Arrival(
            second=int(self.clock()),
            url_key=key.name,
            item=key.item,
            content_type=claim.content_type,
            state=acknowledgment.state,
            ibi=claim.ibi,
            url=encode(claim.url),
            persistent_url=encode(acknowledgment.persistent_url or ""),
            address=self._shown(user),
            visitors=(),
            robot=is_robots_access(agents.sender, agents.reader),
        )
        return arrival, claim

    def _shown(self, address: str) -> str:
        return anonymise(address) if self.anonymises else address

    def _check(
        self,
        connection: Connection,
        served: ServedArchive,
        facts: ArchiveFacts,
        arrival: Arrival,
        claim: Claim,
    ) -> Delivery:
        """Return what was delivered.

        :raises Uncounted: if the key's item is none of this Archive, or does not lead to it.
        """
        found = find_item(connection, arrival.item)
        if found is None:
            raise Uncounted("its key is about an item that is not here any more")
        archive_id, asked = found
        if archive_id != served.id:
            raise Uncounted("its key is about an item of another Archive")
        return find_delivery(connection, served.id, facts, asked, claim)

    def _insert(
        self, connection: Connection, arrival: Arrival, served: ServedArchive, delivery: Delivery
    ) -> int | None:
        visitor = choose_name(connection, served.id, arrival.visitors, arrival.second)
        return insert_access(
            connection,
            {
                "archive_id": served.id,
                "url_key": arrival.url_key,
                "item_id": arrival.item,
                "delivered_item_id": delivery.item_id,
                "second": arrival.second,
                "visitor": visitor,
                "address": arrival.address,
                "robot": arrival.robot,
                "content_type": arrival.content_type,
                "state": arrival.state,
                "relation": delivery.relation[:255],
                "persistent_url": arrival.persistent_url,
                "url": arrival.url if delivery.is_our_url else "",
            },
        )

    # --- the spool -------------------------------------------------------------------------------

    def _take_some_in(self, archive: int) -> None:
        """Take some files in, unless another thread does; what fails is tried again another time."""
        if self.spool.is_empty(archive):
            return
        process, lock = self._taking_in
        if process != os.getpid():  # forked while a thread of the parent held it
            process, lock = self._taking_in = (os.getpid(), Lock())
        if not lock.acquire(blocking=False):
            return
        try:
            self.take_in(BATCH)
        except NotReady as error:
            log.info("the spool waits: %s", error)
        finally:
            lock.release()

    def _take_in(self, paths: list[Path], served: ServedArchive, facts: ArchiveFacts) -> int:
        read = [(path, self.spool.read(path)) for path in paths]
        found = [(path, arrival) for path, arrival in read if arrival is not None]
        good = self.database.read(
            lambda connection: self._check_all(connection, found, served, facts)
        )
        # in one order, so that two who take the same in never wait for each other
        good.sort(key=lambda one: one[1].url_key)
        new, bad = 0, []
        with self.database.writing(self.patience, INSERTING) as connection:
            for path, arrival, delivery in good:
                try:
                    with connection.begin_nested():
                        new += self._insert(connection, arrival, served, delivery) is not None
                except (IntegrityError, DataError) as error:
                    bad.append((path, one_line(error)))
        for path, reason in bad:
            self.spool.set_aside(path, reason)
        for path, _, _ in good:
            self.spool.drop(path)
        return new

    def _check_all(
        self,
        connection: Connection,
        found: list[tuple[Path, Arrival]],
        served: ServedArchive,
        facts: ArchiveFacts,
    ) -> list[tuple[Path, Arrival, Delivery]]:
        """Return the accesses of this Archive that are to be stored; throw away those that count
        nothing.
        """
        good = []
        for path, arrival in found:
            owner = find_item(connection, arrival.item)
            if arrival.archive is None and owner is not None and owner[0] != served.id:
                continue  # it waits for the Archive that it is for
            claim = Claim(
                arrival.content_type,
                arrival.ibi,
                decode_url(arrival.url),
                arrival.address,
                is_rough=self.anonymises,
            )
            try:
                delivery = arrival.delivery
                if delivery is None:
                    delivery = self._check(connection, served, facts, arrival, claim)
            except Uncounted as refusal:
                log.warning(
                    "an acknowledgment from %s counts nothing: %s", arrival.address, refusal
                )
                self.spool.drop(path)
            else:
                good.append((path, arrival, delivery))
        return good


def encode(url: str) -> str:
    """Return a URL that was decoded once as ASCII again, as a database keeps it."""
    return quote(to_bytes(url), safe="/:?#[]@!$&'()*+,;=~")
