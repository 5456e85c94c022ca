"""Acknowledgments: check each acknowledgment of a resolver and store the access ([R] 6.2, 7.2)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from logging import getLogger
from typing import NamedTuple
from urllib.parse import quote

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.archive.accesses.rows import (
    LOCK_TIMEOUT,
    find_item,
    get_utc_day,
    insert_access,
    lock_visitors,
)
from flask_ibi_archive.archive.accesses.visitors import (
    Visitors,
    choose_pseudonym,
    is_robot_access,
)
from flask_ibi_archive.archive.items.archives import ServedArchive
from flask_ibi_archive.archive.service.catalogue import ItemCatalogue, ItemKey
from flask_ibi_archive.archive.service.url_keys import KeyFacts, URLKeys
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.archive_urls import ArchiveFacts
from flask_ibi_archive.core.protocol.catalogue import CatalogueItem, Scope
from flask_ibi_archive.core.protocol.hosts import CLIENT_ADDRESSES, anonymise
from flask_ibi_archive.core.protocol.messages import (
    CONTENT_TYPE,
    NO_AGENTS,
    PERSISTENT_URL,
    URL,
    URL_KEY,
    Acknowledgment,
    Agents,
    UrlRequest,
)
from flask_ibi_archive.core.protocol.query_strings import decode_url, to_bytes
from flask_ibi_archive.core.protocol.relations import NO_VERBS, VerbList
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.protocol.url_list import list_target_urls
from flask_ibi_archive.errors import IBIError
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.database_errors import get_driver_message

# --- delivered item ----------------------------------------------------------------------------


FILE_LIST = VerbList(file_list=True)
#: The largest number of folder levels in the path of a file.
MAX_DEPTH = 64


class NotCounted(IBIError):
    """Raised if an acknowledgment does not count; the message states the reason."""


@dataclass(frozen=True, slots=True)
class AccessedItems:
    """The items of an Archive to which acknowledgments refer."""

    connection: Connection
    served: ServedArchive
    catalogue: ItemCatalogue

    def get_identifier(self, key: ItemKey) -> str:
        """Return an identifier of an item.

        :raises NotCounted: if the item does not exist, or is in another Archive.
        """
        if isinstance(key, str):
            return key
        found = find_item(self.connection, key)
        if found is None:
            raise NotCounted("the URL key is for an item that no longer exists")
        if found[0] != self.served.id:
            raise NotCounted("the URL key is for an item of another Archive")
        return found[1]


def get_row_id(connection: Connection, archive_id: int, key: ItemKey) -> int:
    """Return the row ID of an item.

    :param connection: a connection in a transaction for writing.
    """
    if isinstance(key, int):
        return key
    raise NotCounted(f"{key} has no row")


@dataclass(frozen=True, slots=True)
class Claim:
    """The delivered item as an acknowledgment describes it ([R] Table 6.11).

    :param content_type: the content type of the delivered item, ``Data`` or ``Metadata``.
    :param ibi: the identifiers (rep, ibip or both) of the delivered item; empty if the
        acknowledgment contains no identifier.
    :param url: the URL of the delivered item, decoded once.
    :param user: the user's IP address.
    :param day: the day (UTC) of the access, on which embargoes depend.
    """

    content_type: str
    ibi: tuple[str, ...]
    url: str
    user: str
    day: date


class DeliveredItem(NamedTuple):
    """The item that was delivered.

    :param relation: the relation from the requested to the delivered item, such as ``.metadata``.
    :param is_our_url: whether this Archive uses the URL in the acknowledgment for the delivered
        item. The URL in the acknowledgment may have an additional query or fragment, because a
        resolver appends the query of a persistent URL.
    """

    relation: str
    is_our_url: bool


class Target(NamedTuple):
    """The target of a relation: an item, or the metadata of an item, and the URL of the target.

    :param is_item: True if the target is the item; False if the target is metadata of the item.
    """

    relation: str
    item: CatalogueItem
    is_item: bool
    url: str


def find_delivered_item(
    items: AccessedItems, facts: ArchiveFacts, key: ItemKey, claim: Claim
) -> DeliveredItem:
    """Return the delivered item and the relation that leads to the delivered item.

    If the claim contains an identifier, a relation with the claimed content type must lead to the
    item with this identifier. If several relations lead to this item, the relation with the
    claimed URL is returned. If no relation has the claimed URL, the shortest relation is returned.
    If the claim contains no identifier, the claimed URL must be the URL of a relation, of a file or
    of a list of files.

    :param key: the key of the requested item.
    :raises NotCounted: if the requested item is not in this Archive, or if no relation leads to the
        delivered item.
    """
    requested = items.get_identifier(key)
    whole = replace(facts, relations=None, filter_url_list=False)
    scope = Scope(
        whole.shapes,
        next_edition=True,
        follow_editions=facts.follow_editions,
        own_formats={**facts.own_formats, **dict.fromkeys(facts.written_formats)},
    )
    item = items.catalogue.open(items.connection, claim.day).find(requested, scope)
    if item is None:
        raise NotCounted(f"no item of this Archive has the identifier {requested}")
    if item.state == State.DELETED:
        # The item was delivered before it was deleted. Its relations are no longer stored.
        if claim.ibi and _is_named(claim, item):
            return DeliveredItem("", is_our_url=False)
        raise NotCounted(f"{requested} was deleted and no longer leads to another item")
    search = _Search(items, item, whole, claim)
    found = search.find_by_identifier() if claim.ibi else search.find_by_url()
    if found is not None:
        target, is_our_url = found
        return DeliveredItem(target.relation, is_our_url)
    what = " ".join(claim.ibi) or claim.url
    raise NotCounted(
        f"{requested} does not lead to {what[:300]!a} with the content type {claim.content_type}"
    )


def compare_urls(claimed: str, ours: str) -> int:
    """Return 2 if two URLs are equal, 1 if the claimed URL has an additional query, otherwise 0.

    The result is also 1 if the claimed URL has an additional fragment.

    :param claimed: the URL in the acknowledgment, decoded once. If the resolver has encoded the URL
        twice, the decoded URL is compared as well.
    :param ours: the URL that this Archive uses.
    """
    ours = decode_url(ours)
    separators = "&#" if "?" in ours else "?#"
    urls = (claimed, decode_url(claimed))
    if ours in urls:
        return 2
    return int(any(url.startswith(ours) and url[len(ours)] in separators for url in urls))


def _is_named(claim: Claim, item: CatalogueItem) -> bool:
    return set(claim.ibi) <= {item.rep, item.ibip}


class _Search:
    """Searches the targets of all relations of an item.

    If several targets are equally suitable, the target with the shortest relation is chosen.
    """

    def __init__(
        self, items: AccessedItems, item: CatalogueItem, facts: ArchiveFacts, claim: Claim
    ) -> None:
        self.items = items
        self.item = item
        self.facts = facts
        self.claim = claim

    def find_by_identifier(self) -> tuple[Target, bool] | None:
        """Return the target with the claimed identifier, and whether its item has the claimed URL.

        :returns: None if no target has the claimed identifier.
        """
        items = [target for target in self._targets() if target.is_item]
        named = [target for target in items if _is_named(self.claim, target.item)]
        # max() returns the first of equal targets; the first target has the shortest relation
        best = max(named, key=lambda target: compare_urls(self.claim.url, target.url), default=None)
        if best is None:
            return None
        # The best target usually has the claimed URL. Comparing all other URLs takes longer.
        is_our_url = bool(compare_urls(self.claim.url, best.url)) or any(
            compare_urls(self.claim.url, target.url)
            for target in self._all_targets()
            if target.item.key == best.item.key
        )
        return best, is_our_url

    def find_by_url(self) -> tuple[Target, bool] | None:
        """Return the target with the claimed URL and True; None if no target has this URL.

        The target is an item, a list of files, or a file.
        """
        targets = self._all_targets()
        similarity = [compare_urls(self.claim.url, target.url) for target in targets]
        best = max(similarity, default=0)
        return (targets[similarity.index(best)], True) if best else None

    def _all_targets(self) -> list[Target]:
        return [*self._targets(), *self._targets(FILE_LIST), *self._files()]

    def _targets(self, verbs: VerbList = NO_VERBS) -> Iterator[Target]:
        """Yield the targets that have the claimed content type; the shortest relation comes first.

        :param verbs: the verbs that the target URLs must contain.
        """
        ibi = self.item.rep or self.item.ibip or ""
        request = UrlRequest(parse_identifier(ibi), (self.claim.user,), verbs=verbs)
        found = list_target_urls(self.item, request, self.facts)
        for relation, entry in sorted(found, key=lambda pair: (len(pair[0]), pair[0])):
            if entry.values is not None and entry.values[0] == self.claim.content_type:
                reached = entry.target
                yield Target(relation, reached.item, reached.own is None, entry.values[-1])

    def _files(self) -> Iterator[Target]:
        """Yield the files that may have the claimed URL; each file has its shortest relation."""
        found: dict[ItemKey, Target] = {}
        for target in self._targets(FILE_LIST):
            if self.facts.may_read(target.item, self.claim.user):
                found.setdefault(target.item.key, target)
        connection, catalogue = self.items.connection, self.items.catalogue
        for key, path, url in catalogue.find_files(connection, list(found), self._paths()):
            target = found[key]
            yield target._replace(url=url or self.facts.addresses.file(target.item, path))

    def _paths(self) -> list[str]:
        """Return the file paths with which the claimed URL may end."""
        paths = set()
        for url in (self.claim.url, decode_url(self.claim.url)):
            for text in (url, url.partition("?")[0], url.partition("#")[0]):
                words = text.split("/")[3:][-MAX_DEPTH:]
                paths |= {"/".join(words[number:]) for number in range(len(words))}
        # a database accepts neither NUL nor bytes that are not UTF-8
        return [path for path in paths if path and "\0" not in path and is_utf8(path)]


def is_utf8(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8.

    A text with surrogates cannot be encoded. Surrogates represent bytes that are not UTF-8.
    """
    return not any("\ud800" <= sign <= "\udfff" for sign in text)


# --- acknowledgments ---------------------------------------------------------------------------


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
