"""Acknowledgments: check each acknowledgment of a resolver and store the access ([R] 6.2, 7.2).

An acknowledgment reports that a resolver has redirected a reader to an item. Each acknowledgment
contains a URL key. A URL key is a signed number that the Archive has sent to the resolver with the
URLs of the item. Only the first acknowledgment with a URL key counts.

The Archive stores the access before it answers the acknowledgment. If the database is locked or
does not answer, the resolver gets an error, and the access does not count. Otherwise the resolver
always gets the same answer. If an acknowledgment does not count, a warning with the reason is
written to the log ``flask_ibi_archive.accesses``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from logging import getLogger
from urllib.parse import quote

from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.accesses.access_rows import (
    LOCK_TIMEOUT,
    get_utc_day,
    insert_access,
    lock_visitors,
)
from flask_ibi_archive.archive.accesses.delivered_item import (
    AccessedItems,
    Claim,
    NotCounted,
    find_delivered_item,
    get_row_id,
)
from flask_ibi_archive.archive.accesses.visitors import (
    Visitors,
    choose_pseudonym,
    is_robot_access,
)
from flask_ibi_archive.archive.items.archives import ServedArchive
from flask_ibi_archive.archive.service.item_catalogue import ItemCatalogue
from flask_ibi_archive.archive.service.url_keys import KeyFacts, URLKeys
from flask_ibi_archive.core.protocol.archive_urls import ArchiveFacts
from flask_ibi_archive.core.protocol.hosts import CLIENT_ADDRESSES, anonymise
from flask_ibi_archive.core.protocol.messages import (
    CONTENT_TYPE,
    NO_AGENTS,
    PERSISTENT_URL,
    URL,
    URL_KEY,
    Acknowledgment,
    Agents,
)
from flask_ibi_archive.core.protocol.query_strings import to_bytes
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.database_errors import get_driver_message

log = getLogger("flask_ibi_archive.accesses")


class Acknowledgments:
    """Checks acknowledgments and stores the accesses that they report.

    :param find_served: a function that returns the Archive and its description. The function raises
        NotReady if the Archive does not exist yet.
    :param items: the items of the Archive.
    :param anonymises: whether the IP addresses of users are anonymised before they are stored.
    :param clock: a function that returns the time in POSIX seconds.
    """

    def __init__(
        self,
        database: Database,
        url_keys: URLKeys,
        find_served: Callable[[], tuple[ServedArchive, ArchiveFacts]],
        items: ItemCatalogue,
        anonymises: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.database = database
        self.url_keys = url_keys
        self.find_served = find_served
        self.items = items
        self.anonymises = anonymises
        self.clock = clock
        self.visitors = Visitors()

    def record(self, acknowledgment: Acknowledgment, agents: Agents = NO_AGENTS) -> bool:
        """Check an acknowledgment, and store and count its access.

        :returns: False if the acknowledgment does not count.
        :raises NotReady: if the database is locked or does not answer. The access does not count.
        """
        try:
            self._record(acknowledgment, agents)
        except NotCounted as refusal:
            addresses = acknowledgment.client_addresses
            sender = self._stored_address(addresses[0]) if addresses else "an unknown address"
            log.warning("an acknowledgment from %s is not counted: %s", sender, refusal)
            return False
        return True

    def _record(self, acknowledgment: Acknowledgment, agents: Agents) -> None:
        """Check an acknowledgment, and store and count its access.

        :raises NotCounted: if the acknowledgment does not count.
        """
        key = self._check_key(acknowledgment)
        second = int(self.clock())
        claim = Claim(
            acknowledgment.content_type or "",
            tuple(identifier.text for identifier in acknowledgment.ibi or ()),
            acknowledgment.url or "",
            (acknowledgment.client_addresses or ("",))[0],
            get_utc_day(second),
        )
        served, facts = self.find_served()
        delivered = self.database.read(
            lambda connection: find_delivered_item(
                AccessedItems(connection, served, self.items), facts, key.item, claim
            )
        )
        self.visitors.load_salts(self.database, second)
        pseudonyms = self.visitors.build_pseudonyms(second, claim.user, agents.reader or "")
        try:
            with self.database.writing(LOCK_TIMEOUT, lock_visitors(pseudonyms)) as connection:
                is_new = insert_access(
                    connection,
                    {
                        "archive_id": served.id,
                        "url_key": key.name,
                        "item_id": get_row_id(connection, served.id, key.item),
                        "second": second,
                        "visitor": choose_pseudonym(connection, served.id, pseudonyms, second),
                        "address": self._stored_address(claim.user),
                        "robot": is_robot_access(agents.sender, agents.reader),
                        "content_type": claim.content_type,
                        "state": acknowledgment.state,
                        "relation": delivered.relation[:255],
                        "persistent_url": encode_url(acknowledgment.persistent_url or ""),
                        "url": encode_url(claim.url) if delivered.is_our_url else "",
                    },
                )
        except IntegrityError as error:  # the item or the Archive has just been deleted
            raise NotCounted(
                f"the database refuses the access: {get_driver_message(error)}"
            ) from error
        if not is_new:
            raise NotCounted("the URL key was used before")

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

    def _stored_address(self, address: str) -> str:
        return anonymise(address) if self.anonymises else address


def encode_url(url: str) -> str:
    """Return a URL in percent-encoded form, as the database stores URLs.

    :param url: the URL, decoded once.
    """
    return quote(to_bytes(url), safe="/:?#[]@!$&'()*+,;=~")
