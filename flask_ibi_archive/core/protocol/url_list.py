"""The URL list: the pairs in the answer of an Archive to a urlRequest.

The whole list contains the URLs of the requested item and of all related items. A filtered list
contains only the pairs that the resolver needs for the verbs of the request.

Source: [R] 7.2, Algorithm 2 and FILTRARLISTADEURL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.archive_urls import ArchiveFacts
from flask_ibi_archive.core.protocol.catalogue import Catalogue, CatalogueItem, OwnMetadata, Scope
from flask_ibi_archive.core.protocol.messages import UrlRequest, list_ibi_words
from flask_ibi_archive.core.protocol.query_strings import list_candidate_paths
from flask_ibi_archive.core.protocol.relation_targets import (
    RelationTarget,
    follow_path,
    list_relations,
)
from flask_ibi_archive.core.protocol.states import State

#: The name and the value of a pair. The value is one word or several words.
UrlPair = tuple[str, "str | tuple[str, ...]"]

#: The beginnings of the names of the pairs that describe a URL. The name of a relation follows, as
#: in ``url.lastedition``.
URL_PAIR_NAMES = ("contenttype", "state", "timestamp", "url")
NEXT_EDITION = "ibi.nextedition"


class Description(NamedTuple):
    """What a URL list contains about the target of a relation.

    :param words: the words of its ``ibi`` pair; None for metadata without an identifier.
    :param values: the values of the pairs of :data:`URL_PAIR_NAMES`; None if the user gets no URL.
    """

    target: RelationTarget
    words: tuple[str, ...] | None
    values: tuple[str, str, str, str] | None


#: The text of a relation, and what the URL list contains about its target.
DescribedTarget = tuple[str, Description]


def answer_url_request(
    catalogue: Catalogue,
    request: UrlRequest,
    facts: ArchiveFacts,
    issue_key: Callable[[CatalogueItem], str],
    requested_only: bool = False,
) -> Sequence[UrlPair]:
    """Return the URL list for a request. The settings decide if the list is filtered.

    For a filtered list, the function computes only the pairs of the filtered list.

    :param issue_key: returns a new URL key for an item.
    :param requested_only: if True, an unfiltered list contains only the relations that the verbs
        request.
    Source: [R] 7.2, Algorithm 1, lines 16 and 17.
    """
    if not facts.filter_url_list:
        return build_url_list(catalogue, request, facts, issue_key, requested_only)
    verbs = request.verbs
    shape = verbs.relation.shape
    paths = (
        list_candidate_paths(request.filepath) if request.filepath and not verbs.file_list else ()
    )
    scope = facts.scope(verbs.relation, paths)
    item, pairs = _find_item(catalogue, request, facts, scope)
    if item is None:
        return pairs
    view = _View(request, facts, bool(paths))
    *intermediate, final = follow_path(item, verbs.relation.steps, scope.shapes)
    found = list(view.describe(final))
    pairs += list_ibi_pairs(found)
    url_pairs = list_url_pairs(found)
    if url_pairs:
        return [*pairs, *url_pairs, ("urlkey", issue_key(item))]
    for targets in intermediate:
        pairs += list_ibi_pairs(view.describe(targets))
    if "u" in shape:
        pairs += create_next_edition_pair(item)
    return pairs


def build_url_list(
    catalogue: Catalogue,
    request: UrlRequest,
    facts: ArchiveFacts,
    issue_key: Callable[[CatalogueItem], str],
    requested_only: bool = False,
) -> Sequence[UrlPair]:
    """Return the whole URL list of an item, in no particular order.

    :param issue_key: returns a new URL key for an item.
    :param requested_only: if True, the list contains only the relations that the verbs request.
    Source: [R] 7.2, Algorithm 2 (MONTARLISTADEURL).
    """
    paths = () if request.verbs.file_list else list_candidate_paths(request.filepath)
    relation = request.verbs.relation
    if requested_only:
        scope = facts.scope(relation, paths)
    else:
        scope = Scope(
            facts.shapes,
            next_edition=True,
            paths=paths,
            follow_editions=facts.follow_editions,
            own_formats=facts.own_formats,
        )
    item, pairs = _find_item(catalogue, request, facts, scope)
    if item is None:
        return pairs
    if scope.next_edition:
        pairs += create_next_edition_pair(item)
    pairs.append(("urlkey", issue_key(item)))
    view = _View(request, facts, bool(paths))
    if requested_only:
        targets = list(chain.from_iterable(follow_path(item, relation.steps, scope.shapes)))
    else:
        targets = list_relations(item, scope.shapes)
    described = list(view.describe(targets))
    return [*pairs, *list_ibi_pairs(described), *list_url_pairs(described)]


def list_target_urls(
    item: CatalogueItem, request: UrlRequest, facts: ArchiveFacts
) -> list[DescribedTarget]:
    """Return the targets of all relations that the Archive answers, and what users get there."""
    view = _View(request, facts, has_path=False)
    return list(view.describe(list_relations(item, facts.shapes)))


def list_ibi_pairs(found: Iterable[DescribedTarget]) -> list[UrlPair]:
    """Return the ``ibi`` pairs of the targets of relations ([R] 7.2, CRIARPARIBI)."""
    return [
        ("ibi" + name, description.words)
        for name, description in found
        if name and description.words is not None
    ]


def list_url_pairs(found: Iterable[DescribedTarget]) -> list[UrlPair]:
    """Return the pairs url, contenttype, state and timestamp of all targets that have a URL.

    Source: [R] 7.2, CRIARPARURL, and Algorithm 2, lines 24 to 32.
    """
    shown = [(name, target.values) for name, target in found if target.values is not None]
    return [
        (kind + name, values[position])
        for position, kind in enumerate(URL_PAIR_NAMES)
        for name, values in shown
    ]


def create_next_edition_pair(item: CatalogueItem) -> list[UrlPair]:
    """Return the ``ibi.nextedition`` pair of an item ([R] 7.2, CRIARPARNEXTEDITION).

    :returns: a list of one pair; [] if the item has no next edition.
    """
    following = item.next_edition()
    if following is None:
        return []
    return [(NEXT_EDITION, list_ibi_words(following.rep, following.ibip))]


def _find_item(
    catalogue: Catalogue, request: UrlRequest, facts: ArchiveFacts, scope: Scope
) -> tuple[CatalogueItem | None, list[UrlPair]]:
    """Return the requested item, and the pairs that describe the item and the Archive.

    If the item is unknown or deleted, the function returns None instead of the item. In this case,
    the pairs are the whole URL list.
    """
    item = catalogue.find(request.ibi.text, scope)
    if item is None or item.state is None:
        return None, []
    pairs: list[UrlPair] = [
        ("archiveaddress", facts.address),
        ("ibi", list_ibi_words(item.rep, item.ibip)),
        ("ibi.archiveservice", facts.service),
        ("ibi.platformsoftware", facts.platform_software),
    ]
    if item.state == State.DELETED:
        removed_at = format_timestamp(item.timestamp) or ""
        return None, [*pairs, ("state", State.DELETED.value), ("timestamp", removed_at)]
    return item, pairs


class _View:
    """Finds the URLs that one user gets for one request."""

    def __init__(self, request: UrlRequest, facts: ArchiveFacts, has_path: bool) -> None:
        self._facts = facts
        self.user = request.client_addresses[0]
        self.addresses = facts.addresses
        self.has_path = has_path
        self.wants_file_list = request.verbs.file_list
        self._known: dict[int, Description] = {}  # by the id of the target

    def describe(self, targets: Iterable[tuple[str, RelationTarget]]) -> Iterator[DescribedTarget]:
        """Yield the relation and the description of each target that the Archive answers."""
        for name, target in targets:
            if self._facts.answers(name):
                found = self._known.get(id(target))
                if found is None:  # the description keeps the target, so that the id remains valid
                    found = self._known[id(target)] = self._describe(target)
                yield name, found

    def _describe(self, target: RelationTarget) -> Description:
        """Return what the URL list contains about a target, if the user may see it."""
        item, own = target.item, target.own
        words = None if own is not None else list_ibi_words(item.rep, item.ibip)
        content_type, timestamp = item.content_type, item.timestamp
        url = None if own is not None else self._find_item_url(target)
        if own is not None or (url is None and target.is_written):
            url = self._find_written_url(target)
            content_type = "Metadata"
            timestamp = (own and own.timestamp) or timestamp
        elif url is not None and not self._may_read(item):
            url = self._find_metadata_url(item)
            content_type = "Metadata"
        if url is None or item.state is None:
            return Description(target, words, None)
        values = content_type, item.state, format_timestamp(timestamp) or "", url
        return Description(target, words, values)

    def _may_read(self, item: CatalogueItem) -> bool:
        return self._facts.may_read(item, self.user)

    def _find_written_url(self, target: RelationTarget) -> str | None:
        """Return the URL of metadata without an identifier, or None.

        The metadata are on another server, or the Archive writes the format from Dublin Core.
        """
        own, format = target.own, target.format
        if self.has_path or self.wants_file_list:
            return None
        stated = own and (own.url if format is None else own.formats[format])
        described = target.described or target.item
        # the rule of the item applies to the description that the Archive itself shows
        if stated is None and not described.shows_metadata and not self._may_read(described):
            return None
        return stated or self.addresses.metadata(described, format)

    def _find_item_url(self, target: RelationTarget) -> str | None:
        """Return the URL of an item, one of its files or its list of files; None if unknown."""
        item = target.item
        if item.state is None:
            return None
        if target.format is not None:
            has_url = not self.has_path and not self.wants_file_list
            return item.formats.get(target.format) if has_url else None
        if self.wants_file_list:
            return self.addresses.file_list(item)
        file = item.file()
        if file is not None:
            return file.url or self.addresses.file(item, file.path)
        if self.has_path:
            return None
        return self.addresses.service(item) if item.is_service else self.addresses.item(item)

    def _find_metadata_url(self, item: CatalogueItem) -> str | None:
        """Return the URL for a user who may not read the files of an item.

        :returns: the URL of the metadata in free form; None if the user may not read the metadata.
        """
        if not item.shows_metadata:
            return None
        found = item.metadata()
        if found is None:
            return None
        if isinstance(found, OwnMetadata):
            return found.url or self.addresses.metadata(item)
        if found.state in (None, State.DELETED) or not self._may_read(found):
            return None
        target = found.target()
        if target is None:
            return self.addresses.item(found)
        return target.url or self.addresses.file(found, target.path)
