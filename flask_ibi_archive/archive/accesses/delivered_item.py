"""What an acknowledgment says was delivered: whether the item asked for leads there, and by which
relation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from flask_ibi_archive.errors import IBIError
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.protocol.catalogue import CatalogueItem, Scope
from flask_ibi_archive.protocol.messages import UrlRequest
from flask_ibi_archive.protocol.query import decode_url
from flask_ibi_archive.protocol.relation_targets import RelationTarget
from flask_ibi_archive.protocol.url_list import ArchiveFacts, reach_urls
from flask_ibi_archive.protocol.verbs import NO_VERBS, VerbList
from flask_ibi_archive.storage.accesses import find_files
from flask_ibi_archive.storage.catalogue import OpenCatalogue, StoredCatalogue

FILE_LIST = VerbList(file_list=True)
#: Folders that a file is looked for in at most.
DEEPEST = 64


class Uncounted(IBIError):
    """An acknowledgment counts nothing; the message says why."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What an acknowledgment says was delivered ([R] Table 6.11).

    :param ibi: the forms of the identifier delivered, none where it names none.
    :param url: as it was told, decoded once.
    :param user: the user's address.
    :param is_rough: whether that is anonymised, so that access rules can't tell for sure.
    """

    content_type: str
    ibi: tuple[str, ...]
    url: str
    user: str
    is_rough: bool = False


@dataclass(frozen=True, slots=True)
class Delivery:
    """What was delivered.

    :param item_id: the item, None where it is the one asked for.
    :param relation: that led there, such as ``.metadata``.
    :param is_our_url: whether the URL told is one that this Archive gives for the item delivered,
        perhaps with a query or a fragment added: the query of a persistent URL is passed on to the
        item.
    """

    item_id: int | None
    relation: str
    is_our_url: bool = False


def find_delivery(
    connection: Connection, archive_id: int, facts: ArchiveFacts, asked: str, claim: Claim
) -> Delivery:
    """Return what was delivered.

    Where the claim names an item, a relation of the item asked for has to lead to it, with the
    content type told; of several relations it is the one with the URL told, else the shortest.
    Where it names none, the URL has to be one that the item's relations lead to, a file's or a list
    of files included. The URL told is compared with those in both cases.

    :param asked: an identifier of the item asked for.
    :raises Uncounted: if the item asked for does not lead there.
    """
    whole = replace(facts, relations=None, filter_url_list=False)
    scope = Scope(whole.shapes, next_edition=True, follow_editions=facts.follow_editions)
    for catalogue in (StoredCatalogue, OpenCatalogue) if claim.is_rough else (StoredCatalogue,):
        item = catalogue(connection, archive_id).find(asked, scope)
        if item is None:
            raise Uncounted(f"no item here bears {asked}")
        if item.state == "Deleted":
            # it was delivered before; what else it led to can't be told any more
            if claim.ibi and _names(claim, item):
                return Delivery(None, "")
            raise Uncounted(f"{asked} was deleted, and doesn't lead to anything any more")
        search = _Search(connection, item, whole, claim)
        found = search.by_ibi() if claim.ibi else search.by_url()
        if found is not None:
            relation, reached, is_our_url = found
            delivered = None if reached.item.key == item.key else reached.item.key
            return Delivery(delivered, relation, is_our_url)
    what = " ".join(claim.ibi) or claim.url
    raise Uncounted(
        f"{asked} doesn't lead to {what[:300]!a} with the content type {claim.content_type}"
    )


def compare_urls(told: str, ours: str) -> int:
    """Tell how much a URL is like one of ours, decoded: 2 the same, 1 with a query added, 0
    another.

    :param told: decoded once, perhaps to be decoded once more.
    """
    ours = decode_url(ours)
    added = "&#" if "?" in ours else "?#"
    urls = (told, decode_url(told))
    if ours in urls:
        return 2
    return int(any(url.startswith(ours) and url[len(ours)] in added for url in urls))


def _names(claim: Claim, item: CatalogueItem) -> bool:
    return set(claim.ibi) <= {item.rep, item.ibip}


class _Search:
    """A search among all that an item leads to; the relations found are the shortest ones."""

    def __init__(
        self, connection: Connection, item: CatalogueItem, facts: ArchiveFacts, claim: Claim
    ) -> None:
        self.connection = connection
        self.item = item
        self.facts = facts
        self.claim = claim

    def by_ibi(self) -> tuple[str, RelationTarget, bool] | None:
        """Return the relation that leads to the item named, and whether the URL is one of that
        item's.
        """
        named = [
            (relation, reached, url)
            for relation, reached, url in self._urls()
            if reached.own is None and _names(self.claim, reached.item)
        ]
        # of equals the first, the shortest relation, is the greatest
        best = max(named, key=lambda one: compare_urls(self.claim.url, one[2]), default=None)
        if best is None:
            return None
        relation, delivered, url = best
        # most URLs are that of the relation; to look at all of them takes longer
        is_our_url = bool(compare_urls(self.claim.url, url)) or any(
            compare_urls(self.claim.url, url)
            for _, reached, url in self._all_urls()
            if reached.item.key == delivered.item.key
        )
        return relation, delivered, is_our_url

    def by_url(self) -> tuple[str, RelationTarget, bool] | None:
        """Return the relation that leads to the URL: as it is, to a list of files, or to a file."""
        found = self._all_urls()
        likeness = [compare_urls(self.claim.url, url) for _, _, url in found]
        best = max(likeness, default=0)
        return (*found[likeness.index(best)][:2], True) if best else None

    def _all_urls(self) -> list[tuple[str, RelationTarget, str]]:
        return [*self._urls(), *self._urls(FILE_LIST), *self._files()]

    def _urls(self, verbs: VerbList = NO_VERBS) -> Iterator[tuple[str, RelationTarget, str]]:
        """Return the relations with the content type told, the shortest first, what they reach,
        their URLs.
        """
        ibi = self.item.rep or self.item.ibip or ""
        request = UrlRequest(parse_identifier(ibi), (self.claim.user,), verbs=verbs)
        reached_urls = reach_urls(self.item, request, self.facts)
        for relation, reached, pairs in sorted(reached_urls, key=lambda one: (len(one[0]), one[0])):
            told = dict(pairs)
            url = told.get(f"url{relation}")
            if isinstance(url, str) and told[f"contenttype{relation}"] == self.claim.content_type:
                yield relation, reached, url

    def _files(self) -> Iterator[tuple[str, RelationTarget, str]]:
        """Return the files that the URL may be of, with the shortest relations that lead to their
        items.
        """
        found: dict[int, tuple[str, RelationTarget]] = {}
        for relation, reached, _ in self._urls(FILE_LIST):
            if reached.item.allows(self.claim.user):
                found.setdefault(reached.item.key, (relation, reached))
        for item_id, path, url in find_files(self.connection, list(found), self._paths()):
            relation, reached = found[item_id]
            yield relation, reached, url or self.facts.addresses.file(reached.item, path)

    def _paths(self) -> list[str]:
        """Return what the path of a file may be, by the URL told."""
        paths = set()
        for url in (self.claim.url, decode_url(self.claim.url)):
            for text in (url, url.partition("?")[0], url.partition("#")[0]):
                words = text.split("/")[3:][-DEEPEST:]
                paths |= {"/".join(words[number:]) for number in range(len(words))}
        # with a surrogate, or a NUL, it is no text that a database keeps
        return [path for path in paths if not set(path) & {"", "\0"} and is_text(path)]


def is_text(text: str) -> bool:
    """Tell whether a text has no bytes in it that are no UTF-8."""
    return not any("\ud800" <= sign <= "\udfff" for sign in text)
