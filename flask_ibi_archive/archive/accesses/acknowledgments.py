"""Checks the acknowledgments of resolvers, and stores an access for each ([R] 6.2, 7.2)."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from itertools import chain
from logging import Logger, getLogger
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from sqlalchemy import Connection

from flask_ibi_archive.archive.accesses import rows
from flask_ibi_archive.archive.items.stored_relations import COUNTING
from flask_ibi_archive.archive.service.catalogue import ItemCatalogue
from flask_ibi_archive.archive.service.url_keys import KeyFacts, URLKeys
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol import messages
from flask_ibi_archive.core.protocol.catalogue_items import CatalogueItem, Scope
from flask_ibi_archive.core.protocol.hosts import CLIENT_ADDRESSES, find_client
from flask_ibi_archive.core.protocol.pairs import decode_url, to_bytes
from flask_ibi_archive.core.protocol.relations import NO_VERBS, VerbList
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.protocol.url_list import ArchiveFacts, list_target_urls
from flask_ibi_archive.core.records.record import ItemView
from flask_ibi_archive.errors import IBIError
from flask_ibi_archive.signals import Notice, access_acknowledged

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

log: Logger = getLogger("flask_ibi_archive.accesses")

FILE_LIST = VerbList(file_list=True)
#: The characters of a URL besides letters, digits and "-._", as it is stored.
URL_CHARACTERS = "/:?#[]@!$&'()*+,;=~"
#: The largest number of folder levels in the path of a file.
MAX_DEPTH = 64
#: A database accepts neither NUL nor bytes that are not UTF-8, which surrogates represent.
STORABLE = re.compile("[^\0\ud800-\udfff]+")


class NotCounted(IBIError):
    """Raised for an acknowledgment that is not counted; the message gives the reason."""


def take_acknowledgment(
    archive: Archive,
    acknowledgment: messages.Acknowledgment,
    agents: messages.Agents = messages.NO_AGENTS,
) -> bool:
    """Store and count the access that an acknowledgment reports.

    :param agents: the User-Agent headers, by which robots are recognised.
    :returns: False if the acknowledgment is not counted, for example because its key is forged.
    :raises NotReady: if the access cannot be stored.
    """
    client = find_client(acknowledgment.client_addresses, archive.config.anonymise_ips)
    try:
        _store_access(archive, acknowledgment, agents, client)
    except NotCounted as refusal:
        sender = client or "an unknown address"
        log.warning("an acknowledgment from %s is not counted: %s", sender, refusal)
        return False
    if access_acknowledged.receivers:
        values = {
            "ibi": acknowledgment.ibi[0].text if acknowledgment.ibi else None,
            "client_address": client,
            "url": acknowledgment.url,
            "persistent_url": acknowledgment.persistent_url,
            "content_type": acknowledgment.content_type,
        }
        archive.notifier.send([Notice(access_acknowledged, values)])
    return True


def take_page_view(
    archive: Archive, item: ItemView, url: str, client_addresses: tuple[str, ...], agent: str
) -> None:
    """Count a view of the page of an item, unless a resolver has brought the reader there.

    Resolvers need not know the reader's browser. Therefore the reader of a page is recognised by
    the IP address alone.

    :param url: the URL of the page.
    :param agent: the User-Agent of the browser.
    :raises NotReady: if the view cannot be stored.
    """
    user, second, archive_id = (
        client_addresses[0],
        int(archive.clock().timestamp()),
        archive.served().id,
    )
    values = {
        "archive_id": archive_id,
        "url_key": f"{rows.PAGE_KEY}{secrets.token_hex(16)}",
        "ibi": item.rep or item.ibip or "",
        "second": second,
        "address": find_client(client_addresses, archive.config.anonymise_ips),
        "robot": rows.is_robot_access(None, agent),
        "content_type": "Metadata",
        "url": quote(to_bytes(url), safe=URL_CHARACTERS),
    }
    with archive.database.writing(rows.LOCK_TIMEOUT, COUNTING) as connection:
        visitor = rows.build_pseudonym(connection, second, user)
        readers = {visitor, rows.build_pseudonym(connection, second, user, agent)}
        rows.lock_visitors(connection, readers)
        if not rows.find_other_way(connection, values, readers, by_page=False):
            rows.insert_access(connection, {**values, "visitor": visitor})


def _store_access(
    archive: Archive,
    acknowledgment: messages.Acknowledgment,
    agents: messages.Agents,
    client: str | None,
) -> None:
    """Check an acknowledgment, and store and count the access that it reports.

    :raises NotCounted: if the acknowledgment does not count.
    """
    key = _check_key(archive.url_keys, acknowledgment)
    user = (acknowledgment.client_addresses or ("",))[0]
    second, archive_id = int(archive.clock().timestamp()), archive.served().id
    facts = replace(archive.facts(), relations=None, filter_url_list=False)
    ibi, url, is_page = archive.database.read(
        lambda connection: _Delivery(connection, archive.items, facts, acknowledgment, user).find(
            key.ibi, archive.today
        )
    )
    values = {
        "archive_id": archive_id,
        "url_key": key.name,
        "ibi": ibi,
        "second": second,
        "address": client,
        "robot": rows.is_robot_access(agents.sender, agents.reader),
        "content_type": "Metadata"
        if facts.lands_on_page and is_page
        else acknowledgment.content_type,
        "url": quote(to_bytes(url), safe=URL_CHARACTERS),
    }
    with archive.database.writing(rows.LOCK_TIMEOUT, COUNTING) as connection:
        visitor = rows.build_pseudonym(connection, second, user, agents.reader or "")
        readers = {visitor, rows.build_pseudonym(connection, second, user)}
        rows.lock_visitors(connection, readers)
        if is_page and rows.find_other_way(connection, values, readers, by_page=True):
            return
        is_new = rows.insert_access(connection, {**values, "visitor": visitor})
    if not is_new:
        raise NotCounted("the URL key was used before")


def _check_key(url_keys: URLKeys, acknowledgment: messages.Acknowledgment) -> KeyFacts:
    """Check the fields and the URL key of an acknowledgment; return the content of the key.

    :raises NotCounted: if a field is missing or wrong, or if the key is not valid.
    """
    needed = {
        CLIENT_ADDRESSES: acknowledgment.client_addresses,
        messages.CONTENT_TYPE: acknowledgment.content_type,
        messages.URL: acknowledgment.url,
        messages.PERSISTENT_URL: acknowledgment.persistent_url,
        messages.URL_KEY: acknowledgment.url_key,
    }
    faults = {name: f"{name} is missing" for name, value in sorted(needed.items()) if not value}
    faults |= {name: f"{name} is wrong" for name in sorted(acknowledgment.wrong)}
    if faults:
        raise NotCounted(", ".join(faults.values()))
    facts = url_keys.read(acknowledgment.url_key or "")
    if facts is None:
        raise NotCounted("the URL key is forged")
    if not url_keys.is_current(facts):
        raise NotCounted("the URL key has expired")
    return facts


# --- the delivered item --------------------------------------------------------------------------


class Target(NamedTuple):
    """One target of a relation: the item or the metadata to which the relation leads, and its URL.

    :param is_item: True if the relation leads to the item; False if it leads to the metadata.
    """

    item: CatalogueItem
    is_item: bool
    url: str


@dataclass(frozen=True, slots=True)
class _Delivery:
    """Finds out to which target of a requested item the resolver has led the reader.

    If the acknowledgment contains identifiers, they must be those of an item to which a relation
    with the acknowledged content type leads. Without identifiers, the acknowledged URL must be that
    of such a relation, of a file or of a list of files.

    :param user: the IP address of the reader.
    """

    connection: Connection
    catalogue: ItemCatalogue
    facts: ArchiveFacts
    acknowledgment: messages.Acknowledgment
    user: str

    def find(self, requested: str, today: date) -> tuple[str, str, bool]:
        """Check what was delivered, and return the requested item and the delivered URL.

        :param requested: an identifier of the requested item.
        :param today: the day (UTC) of the access, on which embargoes depend.
        :returns: an identifier of the requested item, the delivered URL, and whether this URL is
            that of a landing page. The URL is "" if it is no URL that this Archive uses for the
            delivered item; a query or a fragment at the end is not compared, because a resolver
            appends the query of a persistent URL.
        :raises NotCounted: if the requested item is not in this Archive, or if no relation leads to
            the delivered item.
        """
        scope = Scope(
            self.facts.shapes,
            next_edition=True,
            follow_editions=self.facts.follow_editions,
            own_formats={**self.facts.own_formats, **dict.fromkeys(self.facts.written_formats)},
        )
        item = self.catalogue.open(self.connection, today).find(requested, scope)
        if item is None:
            raise NotCounted(f"no item of this Archive has the identifier {requested}")
        names = {identifier.text for identifier in self.acknowledgment.ibi or ()}
        ibi, url = item.rep or item.ibip or "", self.acknowledgment.url or ""
        if item.state == State.DELETED:
            # The item was delivered before it was deleted. Its relations are no longer stored.
            if names and names <= {item.rep, item.ibip}:
                return ibi, "", False
            raise NotCounted(f"{requested} was deleted and no longer leads to another item")
        targets = self._list_targets(item)
        named = [t for t in targets if t.is_item and names <= {t.item.rep, t.item.ibip}]
        keys = {target.item.key for target in named if names}
        # The files are read only if no other target has the URL.
        is_ours = any(
            is_url_of(url, target.url)
            for target in chain(targets, self._list_files(item))
            if not names or target.item.key in keys
        )
        if not keys and not is_ours:
            raise NotCounted(
                f"{requested} does not lead to {(' '.join(sorted(names)) or url)[:300]!a}"
                f" with the content type {self.acknowledgment.content_type}"
            )
        pages = {self.facts.addresses.item(t.item) for t in named if not t.item.is_service}
        is_page = is_ours and any(is_url_of(url, page) for page in pages)
        return ibi, url if is_ours else "", is_page

    def _list_targets(self, item: CatalogueItem, verbs: VerbList = NO_VERBS) -> list[Target]:
        """Return the targets of all relations that have the acknowledged content type.

        :param verbs: the verbs that the target URLs must contain.
        """
        ibi = parse_identifier(item.rep or item.ibip or "")
        request = messages.UrlRequest(ibi, (self.user,), verbs=verbs)
        return [
            Target(entry.target.item, entry.target.own is None, entry.values[-1])
            for _, entry in list_target_urls(item, request, self.facts)
            if entry.values is not None and entry.values[0] == self.acknowledgment.content_type
        ]

    def _list_files(self, item: CatalogueItem) -> Iterator[Target]:
        """Yield the lists of files, then the files whose paths or URLs fit the acknowledged URL."""
        lists = self._list_targets(item, FILE_LIST)
        yield from lists
        open_items = {target.item.key: target for target in lists if target.item.allows(self.user)}
        paths = list_paths(self.acknowledgment.url or "")
        for key, path, url in self.catalogue.find_files(self.connection, [*open_items], paths):
            target = open_items[key]
            yield target._replace(url=url or self.facts.addresses.file(target.item, path))


def is_url_of(delivered: str, ours: str) -> bool:
    """Return whether a URL is that of this Archive, with or without a query or a fragment added.

    :param delivered: the URL in the acknowledgment, decoded once. If the resolver has encoded the
        URL twice, the decoded URL is compared as well.
    :param ours: the URL that this Archive uses.
    """
    ours = decode_url(ours)
    separators = "&#" if "?" in ours else "?#"
    return any(
        url.startswith(ours) and (url == ours or url[len(ours)] in separators)
        for url in (delivered, decode_url(delivered))
    )


def list_paths(delivered: str) -> list[str]:
    """Return all endings of a URL that may be the path of a file, with and without its query.

    :param delivered: the URL in an acknowledgment.
    """
    paths = set()
    for url in (delivered, decode_url(delivered)):
        for text in (url, url.partition("?")[0], url.partition("#")[0]):
            words = text.split("/")[3:][-MAX_DEPTH:]
            paths |= {"/".join(words[number:]) for number in range(len(words))}
    return [path for path in paths if STORABLE.fullmatch(path)]
