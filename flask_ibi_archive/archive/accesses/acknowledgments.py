"""Acknowledgments: check each acknowledgment of a resolver and store the access ([R] 6.2, 7.2).

An acknowledgment reports that a resolver has redirected a reader to an item. Each acknowledgment
contains a URL key. A URL key is a signed number that the Archive has sent to the resolver with the
URLs of the item. Only the first acknowledgment with a URL key counts.

The Archive stores the access before it answers the acknowledgment. If the database is locked or
does not answer, the access is stored in the spool (a folder of files). The files are imported into
the database later. The resolver always gets the same answer. With ``IBI_COUNT_ONLY_RESOLVER``, URL
keys are bound to the network that asked for them, and only the acknowledgments of the resolver
count. If an acknowledgment does not count, a warning with the reason is written to the log
``flask_ibi_archive.accesses``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from logging import getLogger
from urllib.parse import quote

from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.accesses.access_rows import get_utc_day
from flask_ibi_archive.archive.accesses.access_storage import (
    AccessStore,
    ReceivedAccess,
    log_refusal,
)
from flask_ibi_archive.archive.accesses.delivered_item import (
    AccessedItems,
    Claim,
    NotCounted,
    find_delivered_item,
)
from flask_ibi_archive.archive.accesses.visitors import Visitors, is_robot_access, name_network
from flask_ibi_archive.archive.service.url_keys import KeyFacts, URLKeys
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
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.server.database.database_errors import get_driver_message

log = getLogger("flask_ibi_archive.accesses")


class Outcome(str, Enum):
    """The result of processing an acknowledgment."""

    COUNTED = "counted"
    SPOOLED = "stored in the spool"
    REFUSED = "not counted"


class Acknowledgments:
    """Checks acknowledgments and stores the accesses that they report.

    :param store: stores the accesses.
    :param clock: a function that returns the time in POSIX seconds.
    :param is_resolver: returns whether an IP address belongs to the resolver.
    """

    def __init__(
        self,
        store: AccessStore,
        url_keys: URLKeys,
        clock: Callable[[], float] = time.time,
        is_resolver: Callable[[str], bool] = lambda address: False,
    ) -> None:
        self.store = store
        self.url_keys = url_keys
        self.clock = clock
        self.is_resolver = is_resolver
        self.visitors = Visitors()

    def record(
        self, acknowledgment: Acknowledgment, agents: Agents = NO_AGENTS, sender: str | None = None
    ) -> Outcome:
        """Check an acknowledgment and store the access in the database or in the spool.

        :param sender: the IP address of the sender if only the resolver may acknowledge accesses.
            None if everybody may, or if the acknowledgment comes from this process.
        :returns: where the access was stored, or ``Outcome.REFUSED`` if it does not count.
        :raises NotReady: if neither the database nor the spool can store the access.
        """
        try:
            outcome = self._record(acknowledgment, agents, sender)
        except NotCounted as refusal:
            addresses = acknowledgment.client_addresses
            log_refusal(self._stored_address(addresses[0]) if addresses else None, refusal)
            return Outcome.REFUSED
        log.debug("an acknowledgment was %s", outcome.value)
        return outcome

    def has_valid_key(self, acknowledgment: Acknowledgment, sender: str | None = None) -> bool:
        """Return whether the URL key of an acknowledgment is valid.

        This method does not read the database.

        :param sender: the same as in :meth:`record`.
        """
        key = acknowledgment.url_key
        return key is not None and self.url_keys.verify(key, _list_networks(sender)) is not None

    # --- one acknowledgment ----------------------------------------------------------------------

    def _record(
        self, acknowledgment: Acknowledgment, agents: Agents, sender: str | None
    ) -> Outcome:
        """Check an acknowledgment, and store its access in the database or in the spool.

        :raises NotCounted: if the acknowledgment does not count.
        """
        key = self._check_key(acknowledgment, sender)
        user = (acknowledgment.client_addresses or ("",))[0]
        access, claim = self._build_access(acknowledgment, key, user, agents)

        def add_pseudonyms() -> ReceivedAccess:
            pseudonyms = self.visitors.build_pseudonyms(access.second, user, agents.reader or "")
            return replace(access, visitors=pseudonyms)

        store = self.store
        try:
            served, facts = store.find_served()
            access = replace(access, archive=served.id)
            delivered = store.database.read(
                lambda connection: find_delivered_item(
                    AccessedItems(connection, served, store.items), facts, access.item, claim
                )
            )
            access = replace(access, delivery=delivered)
            self.visitors.load_salts(store.database, access.second, store.lock_timeout)
            is_new = store.store(served.id, add_pseudonyms(), delivered)
        except IntegrityError as error:  # the item or the Archive has just been deleted
            raise NotCounted(
                f"the database refuses the access: {get_driver_message(error)}"
            ) from error
        except NotReady as error:
            store.spool.store(add_pseudonyms())
            log.info("an access was stored in the spool: %s", error)
            return Outcome.SPOOLED
        if not is_new:
            raise NotCounted("the URL key was used before")
        store.import_some_files(served.id)
        return Outcome.COUNTED

    def _check_key(self, acknowledgment: Acknowledgment, sender: str | None) -> KeyFacts:
        """Check the fields of an acknowledgment and its URL key; return the content of the key.

        :raises NotCounted: if a field is missing or wrong, if the key is not valid, or if the
            sender is not the resolver.
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
        facts = self.url_keys.read(acknowledgment.url_key or "", _list_networks(sender))
        if facts is None:
            other = f", or was not issued to {name_network(sender)}" if sender else ""
            raise NotCounted(f"the URL key is forged{other}")
        if not self.url_keys.is_current(facts):
            raise NotCounted("the URL key has expired")
        if sender is not None and not self.is_resolver(sender):
            raise NotCounted(f"{name_network(sender)} is not a network of the resolver")
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
        return anonymise(address) if self.store.anonymises else address


def _list_networks(sender: str | None) -> Sequence[str]:
    """Return the names of the networks to which the URL key of a sender may be bound.

    The second name is "": the keys of a resolver in this process are bound to no network.
    """
    return (name_network(sender), name_network(None))


def encode_url(url: str) -> str:
    """Return a URL in percent-encoded form, as the database stores URLs.

    :param url: the URL, decoded once.
    """
    return quote(to_bytes(url), safe="/:?#[]@!$&'()*+,;=~")
