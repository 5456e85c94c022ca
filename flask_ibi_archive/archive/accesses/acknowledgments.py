"""Acknowledgments: check each acknowledgment of a resolver and store the access ([R] 6.2, 7.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from logging import getLogger
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from sqlalchemy import Connection

from flask_ibi_archive.archive.accesses.rows import LOCK_TIMEOUT, insert_access, lock_visitors
from flask_ibi_archive.archive.accesses.visitors import (
    build_pseudonyms,
    choose_pseudonym,
    is_robot_access,
)
from flask_ibi_archive.archive.items.relations import COUNTING
from flask_ibi_archive.archive.service.archive_service import KeyFacts, URLKeys
from flask_ibi_archive.archive.service.catalogue import ItemCatalogue, ItemKey
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol import messages
from flask_ibi_archive.core.protocol.catalogue_items import CatalogueItem, Scope
from flask_ibi_archive.core.protocol.hosts import CLIENT_ADDRESSES, find_client
from flask_ibi_archive.core.protocol.pairs import decode_url, to_bytes
from flask_ibi_archive.core.protocol.relations import NO_VERBS, VerbList
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.protocol.url_list import ArchiveFacts, list_target_urls
from flask_ibi_archive.errors import IBIError
from flask_ibi_archive.signals import Notice, access_acknowledged

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

log = getLogger("flask_ibi_archive.accesses")

FILE_LIST = VerbList(file_list=True)
#: The largest number of folder levels in the path of a file.
MAX_DEPTH = 64
#: A database accepts neither NUL nor bytes that are not UTF-8, which surrogates represent.
STORABLE = re.compile("[^\0\ud800-\udfff]+")


class NotCounted(IBIError):
    """Raised if an acknowledgment does not count; the message states the reason."""


def take_acknowledgment(
    archive: Archive,
    acknowledgment: messages.Acknowledgment,
    agents: messages.Agents = messages.NO_AGENTS,
) -> bool:
    """Count the access that an acknowledgment reports; return False if it does not count.

    :param agents: the User-Agent headers, by which robots are recognised.
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


def _store_access(
    archive: Archive,
    acknowledgment: messages.Acknowledgment,
    agents: messages.Agents,
    client: str | None,
) -> None:
    """Check an acknowledgment, and store and count its access.

    :raises NotCounted: if the acknowledgment does not count.
    """
    key = _check_key(archive.url_keys, acknowledgment)
    user = (acknowledgment.client_addresses or ("",))[0]
    second, archive_id = int(archive.clock().timestamp()), archive.served().id
    facts = replace(archive.facts(), relations=None, filter_url_list=False)
    ibi, relation, url = archive.database.read(
        lambda connection: _Delivery(connection, archive.items, facts, acknowledgment, user).find(
            key.ibi, archive.today
        )
    )
    with archive.database.writing(LOCK_TIMEOUT, COUNTING) as connection:
        pseudonyms = build_pseudonyms(connection, second, user, agents.reader or "")
        lock_visitors(connection, pseudonyms)
        is_new = insert_access(
            connection,
            {
                "archive_id": archive_id,
                "url_key": key.name,
                "ibi": ibi,
                "second": second,
                "visitor": choose_pseudonym(connection, archive_id, pseudonyms, second),
                "address": client,
                "robot": is_robot_access(agents.sender, agents.reader),
                "content_type": acknowledgment.content_type,
                "state": acknowledgment.state,
                "relation": relation[:255],
                "persistent_url": encode_url(acknowledgment.persistent_url or ""),
                "url": encode_url(url),
            },
        )
    if not is_new:
        raise NotCounted("the URL key was used before")


def _check_key(url_keys: URLKeys, acknowledgment: messages.Acknowledgment) -> KeyFacts:
    """Check the fields of an acknowledgment and its URL key; return the content of the key.

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


def encode_url(url: str) -> str:
    """Return a URL in percent-encoded form, as the database stores URLs.

    :param url: the URL, decoded once.
    """
    return quote(to_bytes(url), safe="/:?#[]@!$&'()*+,;=~")


# --- the delivered item --------------------------------------------------------------------------


class Target(NamedTuple):
    """The target of a relation: an item, or the metadata of an item, and the URL of the target.

    :param is_item: True if the target is the item; False if the target is metadata of the item.
    """

    relation: str
    item: CatalogueItem
    is_item: bool
    url: str


@dataclass(frozen=True, slots=True)
class _Delivery:
    """Searches what was delivered among the targets of all relations of an item.

    If the acknowledgment contains identifiers, a relation with its content type must lead to the
    item with these identifiers; among several relations, one with its URL is preferred. Without
    identifiers, the URL must be the URL of a relation, of a file or of a list of files. Among
    equally suitable targets, the one with the shortest relation is chosen.

    :param user: the user's IP address.
    """

    connection: Connection
    catalogue: ItemCatalogue
    facts: ArchiveFacts
    acknowledgment: messages.Acknowledgment
    user: str

    def find(self, requested: str, today: date) -> tuple[str, str, str]:
        """Return what was delivered.

        :param requested: an identifier of the requested item.
        :param today: the day (UTC) of the access, on which embargoes depend.
        :returns: an identifier of the requested item; the relation from the requested to the
            delivered item, such as ``.metadata``; and the URL in the acknowledgment, or "" if this
            Archive does not use it for the delivered item. The URL may have an additional query or
            fragment, because a resolver appends the query of a persistent URL.
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
                return ibi, "", ""
            raise NotCounted(f"{requested} was deleted and no longer leads to another item")
        targets = list(self._list_targets(item))
        if names:
            candidates = [
                target
                for target in targets
                if target.is_item and names <= {target.item.rep, target.item.ibip}
            ]
        else:
            targets += [*self._list_targets(item, FILE_LIST), *self._list_files(item)]
            candidates = [target for target in targets if compare_urls(url, target.url)]
        # max() returns the first of equal targets; the first target has the shortest relation
        best = max(candidates, key=lambda target: compare_urls(url, target.url), default=None)
        if best is None:
            raise NotCounted(
                f"{requested} does not lead to {(' '.join(sorted(names)) or url)[:300]!a}"
                f" with the content type {self.acknowledgment.content_type}"
            )
        # The best target usually has the URL. The files are read only if no target has it.
        is_ours = compare_urls(url, best.url) or any(
            compare_urls(url, other.url)
            for other in (*self._list_targets(item, FILE_LIST), *self._list_files(item))
            if other.item.key == best.item.key
        )
        return ibi, best.relation, url if is_ours else ""

    def _list_targets(self, item: CatalogueItem, verbs: VerbList = NO_VERBS) -> list[Target]:
        """Return the targets with the content type; the shortest relation comes first.

        :param verbs: the verbs that the target URLs must contain.
        """
        ibi = parse_identifier(item.rep or item.ibip or "")
        request = messages.UrlRequest(ibi, (self.user,), verbs=verbs)
        found = list_target_urls(item, request, self.facts)
        return [
            Target(relation, entry.target.item, entry.target.own is None, entry.values[-1])
            for relation, entry in sorted(found, key=lambda pair: (len(pair[0]), pair[0]))
            if entry.values is not None and entry.values[0] == self.acknowledgment.content_type
        ]

    def _list_files(self, item: CatalogueItem) -> Iterator[Target]:
        """Yield the files that may have the URL; each file has its shortest relation."""
        found: dict[ItemKey, Target] = {}
        for target in self._list_targets(item, FILE_LIST):
            if target.item.allows(self.user):
                found.setdefault(target.item.key, target)
        paths = list_paths(self.acknowledgment.url or "")
        for key, path, url in self.catalogue.find_files(self.connection, list(found), paths):
            target = found[key]
            yield target._replace(url=url or self.facts.addresses.file(target.item, path))


def compare_urls(delivered: str, ours: str) -> int:
    """Return 2 if two URLs are equal, 1 if the delivered URL has an additional query, otherwise 0.

    The result is also 1 if the delivered URL has an additional fragment.

    :param delivered: the URL in the acknowledgment, decoded once. If the resolver has encoded the
        URL twice, the decoded URL is compared as well.
    :param ours: the URL that this Archive uses.
    """
    ours = decode_url(ours)
    separators = "&#" if "?" in ours else "?#"
    urls = (delivered, decode_url(delivered))
    if ours in urls:
        return 2
    return int(any(url.startswith(ours) and url[len(ours)] in separators for url in urls))


def list_paths(delivered: str) -> list[str]:
    """Return the file paths with which the URL in an acknowledgment may end."""
    paths = set()
    for url in (delivered, decode_url(delivered)):
        for text in (url, url.partition("?")[0], url.partition("#")[0]):
            words = text.split("/")[3:][-MAX_DEPTH:]
            paths |= {"/".join(words[number:]) for number in range(len(words))}
    return [path for path in paths if STORABLE.fullmatch(path)]
