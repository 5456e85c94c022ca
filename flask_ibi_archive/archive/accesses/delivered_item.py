"""The delivered item of an acknowledgment: whether the requested item leads to it, and how."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlalchemy import Connection

from flask_ibi_archive.errors import IBIError
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.protocol.catalogue import CatalogueItem, Scope
from flask_ibi_archive.protocol.messages import UrlRequest
from flask_ibi_archive.protocol.query import decode_url
from flask_ibi_archive.protocol.url_list import ArchiveFacts, list_target_urls
from flask_ibi_archive.protocol.verbs import NO_VERBS, VerbList
from flask_ibi_archive.storage.accesses import find_files, find_item
from flask_ibi_archive.storage.catalogue import OpenCatalogue, StoredCatalogue

FILE_LIST = VerbList(file_list=True)
#: The levels of folders in which a file is looked for at most.
MAX_DEPTH = 64


class NotCounted(IBIError):
    """An acknowledgment does not count; the message says why."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What an acknowledgment says was delivered ([R] Table 6.11).

    :param ibi: the forms of the delivered item's identifier, none if it names none.
    :param url: its URL, decoded once.
    :param user: the user's address.
    :param is_anonymised: whether the address is anonymised, so that access rules cannot be applied.
    """

    content_type: str
    ibi: tuple[str, ...]
    url: str
    user: str
    is_anonymised: bool = False


@dataclass(frozen=True, slots=True)
class DeliveredItem:
    """What was delivered; the fields are those of a spool file.

    :param item_id: the item, None if it is the requested one.
    :param relation: the relation that leads to it, such as ``.metadata``.
    :param is_our_url: whether this Archive gives the URL for the delivered item. A query or a
        fragment may follow: the query of a persistent URL is passed on to the item.
    """

    item_id: int | None
    relation: str
    is_our_url: bool = False


class Target(NamedTuple):
    """An item, or its metadata, that a relation leads to, with its URL."""

    relation: str
    item: CatalogueItem
    is_item: bool
    url: str


def find_delivered_item(
    connection: Connection, archive_id: int, facts: ArchiveFacts, item_id: int, claim: Claim
) -> DeliveredItem:
    """Return what was delivered.

    If the claim names an item, a relation of the requested item must lead to it, with the content
    type that is claimed; of several relations the one with the URL that is claimed, or the shortest
    one, is returned. If it names none, its URL must be one that the relations of the requested item
    lead to, including those of files and lists of files. In both cases the URL is compared with
    those that this Archive gives.

    :param item_id: the requested item.
    :raises NotCounted: if it is not an item of this Archive, or does not lead there.
    """
    asked = _get_identifier(connection, archive_id, item_id)
    whole = replace(facts, relations=None, filter_url_list=False)
    scope = Scope(whole.shapes, next_edition=True, follow_editions=facts.follow_editions)
    for catalogue in (
        (StoredCatalogue, OpenCatalogue) if claim.is_anonymised else (StoredCatalogue,)
    ):
        item = catalogue(connection, archive_id).find(asked, scope)
        if item is None:
            raise NotCounted(f"no item of this Archive has the identifier {asked}")
        if item.state == "Deleted":
            # it was delivered before; its relations are not known any more
            if claim.ibi and _is_named(claim, item):
                return DeliveredItem(None, "")
            raise NotCounted(f"{asked} was deleted and does not lead to another item any more")
        search = _Search(connection, item, whole, claim)
        found = search.by_identifier() if claim.ibi else search.by_url()
        if found is not None:
            target, is_our_url = found
            delivered = None if target.item.key == item.key else target.item.key
            return DeliveredItem(delivered, target.relation, is_our_url)
    what = " ".join(claim.ibi) or claim.url
    raise NotCounted(
        f"{asked} does not lead to {what[:300]!a} with the content type {claim.content_type}"
    )


def _get_identifier(connection: Connection, archive_id: int, item_id: int) -> str:
    found = find_item(connection, item_id)
    if found is None:
        raise NotCounted("its key is for an item that does not exist any more")
    if found[0] != archive_id:
        raise NotCounted("its key is for an item of another Archive")
    return found[1]


def compare_urls(claimed: str, ours: str) -> int:
    """Return 2 if a URL is the same as ours, decoded; 1 if a query follows ours; otherwise 0.

    :param claimed: decoded once; it may have been encoded twice.
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
    """A search among all that an item leads to; it finds the shortest relations."""

    def __init__(
        self, connection: Connection, item: CatalogueItem, facts: ArchiveFacts, claim: Claim
    ) -> None:
        self.connection = connection
        self.item = item
        self.facts = facts
        self.claim = claim

    def by_identifier(self) -> tuple[Target, bool] | None:
        """Return the target that the claim names, and whether the URL is one of this item's."""
        named = [one for one in self._targets() if one.is_item and _is_named(self.claim, one.item)]
        # max() returns the first of equal ones, which has the shortest relation
        best = max(named, key=lambda one: compare_urls(self.claim.url, one.url), default=None)
        if best is None:
            return None
        # most URLs are that of the relation; to compare all of them takes longer
        is_our_url = bool(compare_urls(self.claim.url, best.url)) or any(
            compare_urls(self.claim.url, one.url)
            for one in self._all_targets()
            if one.item.key == best.item.key
        )
        return best, is_our_url

    def by_url(self) -> tuple[Target, bool] | None:
        """Return the target with the URL of the claim: an item, a list of files, or a file."""
        targets = self._all_targets()
        likeness = [compare_urls(self.claim.url, one.url) for one in targets]
        best = max(likeness, default=0)
        return (targets[likeness.index(best)], True) if best else None

    def _all_targets(self) -> list[Target]:
        return [*self._targets(), *self._targets(FILE_LIST), *self._files()]

    def _targets(self, verbs: VerbList = NO_VERBS) -> Iterator[Target]:
        """Yield the targets with the content type of the claim, the shortest relation first."""
        ibi = self.item.rep or self.item.ibip or ""
        request = UrlRequest(parse_identifier(ibi), (self.claim.user,), verbs=verbs)
        reached_urls = list_target_urls(self.item, request, self.facts)
        for relation, reached, pairs in sorted(reached_urls, key=lambda one: (len(one[0]), one[0])):
            values = dict(pairs)
            url = values.get(f"url{relation}")
            content_type = values.get(f"contenttype{relation}")
            if isinstance(url, str) and content_type == self.claim.content_type:
                yield Target(relation, reached.item, reached.own is None, url)

    def _files(self) -> Iterator[Target]:
        """Yield the files that may have the URL, with the shortest relations to their items."""
        found: dict[int, Target] = {}
        for one in self._targets(FILE_LIST):
            if one.item.allows(self.claim.user):
                found.setdefault(one.item.key, one)
        for item_id, path, url in find_files(self.connection, list(found), self._paths()):
            one = found[item_id]
            yield one._replace(url=url or self.facts.addresses.file(one.item, path))

    def _paths(self) -> list[str]:
        """Return the paths of files that the URL may end with."""
        paths = set()
        for url in (self.claim.url, decode_url(self.claim.url)):
            for text in (url, url.partition("?")[0], url.partition("#")[0]):
                words = text.split("/")[3:][-MAX_DEPTH:]
                paths |= {"/".join(words[number:]) for number in range(len(words))}
        # the databases refuse a NUL, and bytes that are not UTF-8
        return [path for path in paths if path and "\0" not in path and is_text(path)]


def is_text(text: str) -> bool:
    """Return whether a text has no surrogates, which represent bytes that are not UTF-8."""
    return not any("\ud800" <= sign <= "\udfff" for sign in text)
