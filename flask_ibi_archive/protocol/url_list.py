"""The URL list: the answer to a urlRequest ([R] 7.2, Algorithm 2 and FILTRARLISTADEURL)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from flask_ibi_archive.protocol.archive_urls import ArchiveUrls
from flask_ibi_archive.protocol.catalogue import Catalogue, CatalogueItem, OwnMetadata, Scope
from flask_ibi_archive.protocol.messages import UrlRequest
from flask_ibi_archive.protocol.query import list_candidate_paths
from flask_ibi_archive.protocol.relation_targets import (
    RelationTarget,
    add_prefixes,
    covers,
    follow_relations,
)
from flask_ibi_archive.protocol.relations import (
    SHAPES,
    Relation,
    RelationPattern,
    Step,
    StepKind,
    parse_relation,
)
from flask_ibi_archive.protocol.verbs import VerbList

#: The name of a pair, and its word or words.
UrlPair = tuple[str, "str | tuple[str, ...]"]

#: Pairs that the filter always keeps ([R] Example 7.3).
ALWAYS_KEPT = ("archiveaddress", "ibi", "ibi.archiveservice", "ibi.platformsoftware")
OF_A_URL = ("url", "contenttype", "state", "timestamp")
NEXT_EDITION = "ibi.nextedition"


@dataclass(frozen=True)
class ArchiveFacts:
    """The facts and the settings of an Archive that a URL list depends on.

    :param address: archiveaddress.
    :param service: the words of ibi.archiveservice.
    :param addresses: builds the URLs of items and files.
    :param platform_software: the words of ibi.platformsoftware; none if the platform has no IBI.
    :param relations: the relations that the Archive answers; None for all.
    :param filter_url_list: whether to apply :func:`filter_url_list`.
    :param follow_editions: whether to follow next editions in this Archive.
    """

    address: str
    service: tuple[str, ...]
    addresses: ArchiveUrls
    platform_software: tuple[str, ...] = ()
    relations: tuple[RelationPattern, ...] | None = None
    filter_url_list: bool = True
    follow_editions: bool = True

    @cached_property
    def shapes(self) -> frozenset[str]:
        """The shapes of the relations that it answers, with all their prefixes."""
        if self.relations is None:
            return SHAPES
        return add_prefixes({pattern.shape for pattern in self.relations})

    def scope(self, shape: str, paths: tuple[str, ...]) -> Scope:
        """Return the scope for the relations of one shape and their prefixes."""
        scope = self._scopes.get(shape)
        if scope is None:
            scope = self._scopes[shape] = Scope(
                add_prefixes({shape}) & self.shapes,
                next_edition="u" in shape,
                follow_editions=self.follow_editions,
            )
        if not paths:
            return scope
        return Scope(scope.shapes, scope.next_edition, paths, scope.follow_editions)

    @cached_property
    def _scopes(self) -> dict[str, Scope]:
        return {}

    def answers(self, steps: tuple[Step, ...]) -> bool:
        """Return whether the Archive answers a relation."""
        if self.relations is None:
            return True
        relation = Relation(steps)
        return any(pattern.matches(relation) for pattern in self.relations)


def answer_url_request(
    catalogue: Catalogue,
    request: UrlRequest,
    facts: ArchiveFacts,
    issue_key: Callable[[CatalogueItem], str],
    requested_only: bool = False,
) -> list[UrlPair]:
    """Return the URL list of a request, filtered if the Archive filters its lists.

    :param requested_only: whether an unfiltered list may leave out the relations that the verbs do
        not ask for.

    Only what survives is computed; the result is that of :func:`filter_url_list` on
    :func:`build_url_list`. Source: [R] 7.2, Algorithm 1, lines 16 and 17.
    """
    if not facts.filter_url_list:
        return build_url_list(catalogue, request, facts, issue_key, requested_only)
    verbs = request.verbs
    path = verbs.relation.steps
    asks_last_edition = "u" in verbs.relation.shape
    candidates = (
        list_candidate_paths(request.filepath) if request.filepath and not verbs.file_list else ()
    )
    scope = facts.scope(verbs.relation.shape, candidates)
    item = catalogue.find(request.ibi.text, scope)
    if item is None or item.state is None:
        return []
    pairs = _heading(item, facts)
    if item.state == "Deleted":
        return pairs + _tombstone(item)
    view = _View(request, facts, bool(candidates))
    deepest = len(path)
    has_url = False
    on_the_way: list[UrlPair] = []
    # without verbs there is nothing to walk through
    found_on_path = (
        follow_relations(item, path, scope.shapes) if path else (((), RelationTarget(item)),)
    )
    for steps, reached in found_on_path:
        if not facts.answers(steps):
            continue
        name = relation_name(steps)
        if len(steps) < deepest:
            if name and reached.own is None:
                on_the_way.append(create_ibi_pair(reached, name))
            continue
        if name and reached.own is None:
            pairs.append(create_ibi_pair(reached, name))
        found = view.create_url_pairs(reached, name)
        has_url = has_url or bool(found)
        pairs += found
    if has_url:
        pairs.append(("urlkey", issue_key(item)))
        return pairs
    pairs += on_the_way
    if asks_last_edition:
        pairs += create_next_edition_pair(item)
    return pairs


def build_url_list(
    catalogue: Catalogue,
    request: UrlRequest,
    facts: ArchiveFacts,
    issue_key: Callable[[CatalogueItem], str],
    requested_only: bool = False,
) -> list[UrlPair]:
    """Return the complete URL list of an item, in no particular order.

    :param requested_only: whether to leave out the relations that the verbs do not ask for.

    Source: [R] 7.2, Algorithm 2 (MONTARLISTADEURL).
    """
    candidates = () if request.verbs.file_list else list_candidate_paths(request.filepath)
    relation = request.verbs.relation
    if requested_only:
        scope = facts.scope(relation.shape, candidates)
    else:
        scope = Scope(
            facts.shapes,
            next_edition=True,
            paths=candidates,
            follow_editions=facts.follow_editions,
        )
    item = catalogue.find(request.ibi.text, scope)
    if item is None or item.state is None:
        return []
    pairs = _heading(item, facts)
    if item.state == "Deleted":
        return pairs + _tombstone(item)
    if scope.next_edition:
        pairs += create_next_edition_pair(item)
    pairs.append(("urlkey", issue_key(item)))
    path = relation.steps if requested_only else None
    for name, reached, url_pairs in reach_urls(item, request, facts, bool(candidates), path):
        if name and reached.own is None:
            pairs.append(create_ibi_pair(reached, name))
        pairs += url_pairs
    return pairs


def reach_urls(
    item: CatalogueItem,
    request: UrlRequest,
    facts: ArchiveFacts,
    asks_path: bool = False,
    path: tuple[Step, ...] | None = None,
) -> Iterator[tuple[str, RelationTarget, list[UrlPair]]]:
    """Return each relation of an item that the Archive answers, what it reaches, and the pairs of
    its URL.

    :param asks_path: whether the item was found for a file path.
    :param path: the steps to follow, None: all relations.
    """
    view = _View(request, facts, asks_path)
    for steps, reached in follow_relations(item, path, facts.shapes):
        if facts.answers(steps):
            name = relation_name(steps)
            yield name, reached, view.create_url_pairs(reached, name)


def filter_url_list(pairs: list[UrlPair], verbs: VerbList) -> list[UrlPair]:
    """Return the pairs of a URL list that the resolver needs for its next step.

    Source: [R] 7.2, FILTRARLISTADEURL, and Example 7.3.
    """
    given = dict(pairs)
    if given.get("state") == "Deleted":
        return pairs
    path = verbs.relation.steps
    kept = [pair for pair in pairs if pair[0] in ALWAYS_KEPT]
    on_the_way: list[UrlPair] = []
    has_url = False
    for name, value in pairs:
        prefix, dot, rest = name.partition(".")
        if name in ALWAYS_KEPT or name == NEXT_EDITION or prefix not in (*OF_A_URL, "ibi"):
            continue
        steps = parse_relation(dot + rest).steps
        if not all(map(covers, path, steps)) or len(steps) > len(path):
            continue
        if len(steps) == len(path):
            kept.append((name, value))
            has_url = has_url or prefix == "url"
        elif prefix == "ibi":
            on_the_way.append((name, value))
    if has_url:
        return [*kept, ("urlkey", given["urlkey"])]
    kept += on_the_way
    asks_last_edition = any(step.kind is StepKind.LAST_EDITION for step in path)
    if asks_last_edition and NEXT_EDITION in given:
        kept.append((NEXT_EDITION, given[NEXT_EDITION]))
    return kept


def ibi_words(rep: str | None, ibip: str | None) -> tuple[str, ...]:
    """Return the words of an ``ibi`` value: ``rep R``, ``ibip I`` or both ([R] Table 7.4)."""
    if rep is None:
        return ("ibip", ibip) if ibip is not None else ()
    return ("rep", rep) if ibip is None else ("rep", rep, "ibip", ibip)


@lru_cache(maxsize=1024)
def relation_name(steps: tuple[Step, ...]) -> str:
    """Return the text of a relation, such as ``.lastedition.metadata(oai_dc)``."""
    return Relation(steps).name if steps else ""


def create_ibi_pair(reached: RelationTarget, relation: str) -> UrlPair:
    """Return the ``ibi`` pair of the target of a relation ([R] 7.2, CRIARPARIBI)."""
    return "ibi" + relation, ibi_words(reached.item.rep, reached.item.ibip)


def create_next_edition_pair(item: CatalogueItem) -> list[UrlPair]:
    """Return ``ibi.nextedition``, or no pair without one ([R] 7.2, CRIARPARNEXTEDITION)."""
    following = item.next_edition()
    if following is None:
        return []
    return [(NEXT_EDITION, ibi_words(following.rep, following.ibip))]


def _heading(item: CatalogueItem, facts: ArchiveFacts) -> list[UrlPair]:
    return [
        ("archiveaddress", facts.address),
        ("ibi", ibi_words(item.rep, item.ibip)),
        ("ibi.archiveservice", facts.service),
        ("ibi.platformsoftware", facts.platform_software),
    ]


def _tombstone(item: CatalogueItem) -> list[UrlPair]:
    return [("state", "Deleted"), ("timestamp", item.timestamp)]


class _View:
    """The URLs of items for one user and one request: a file, the list of files, or neither."""

    def __init__(self, request: UrlRequest, facts: ArchiveFacts, asks_path: bool) -> None:
        self.user = request.client_addresses[0]
        self.addresses = facts.addresses
        self.asks_path = asks_path
        self.asks_file_list = request.verbs.file_list

    def create_url_pairs(self, reached: RelationTarget, relation: str) -> list[UrlPair]:
        """Return url, contenttype, state and timestamp of a relation's target, if it has a URL.

        Source: [R] 7.2, CRIARPARURL, and Algorithm 2, lines 24 to 32.
        """
        item = reached.item
        if reached.own is not None:
            url = self._own_metadata_url(reached)
            content_type = "Metadata"
            timestamp = reached.own.timestamp or item.timestamp
        else:
            url = self._item_url(reached)
            content_type = item.content_type
            timestamp = item.timestamp
            if url is not None and not item.allows(self.user):
                url = self._url_without_access(item)
                content_type = "Metadata"
        if url is None or item.state is None:
            return []
        return [
            ("url" + relation, url),
            ("contenttype" + relation, content_type),
            ("state" + relation, item.state),
            ("timestamp" + relation, timestamp),
        ]

    def _own_metadata_url(self, reached: RelationTarget) -> str | None:
        own = reached.own
        if own is None or self.asks_path or self.asks_file_list:
            return None
        url = own.url if reached.format is None else own.formats[reached.format]
        return url or self.addresses.metadata(reached.item, reached.format)

    def _item_url(self, reached: RelationTarget) -> str | None:
        item = reached.item
        if item.state is None:
            return None
        if reached.format is not None:
            return None if self.asks_path or self.asks_file_list else item.formats[reached.format]
        if self.asks_file_list:
            return self.addresses.file_list(item)
        file = item.file()
        if file is not None:
            return file.url or self.addresses.file(item, file.path)
        if self.asks_path:
            return None
        return self.addresses.service(item) if item.is_service else self.addresses.item(item)

    def _url_without_access(self, item: CatalogueItem) -> str | None:
        """Return the URL for a user without access: the metadata in free form, or None."""
        if not item.shows_metadata:
            return None
        found = item.metadata()
        if found is None:
            return None
        if isinstance(found, OwnMetadata):
            return found.url or self.addresses.metadata(item)
        if found.state in (None, "Deleted") or not found.allows(self.user):
            return None
        target = found.target()
        if target is None:
            return self.addresses.item(found)
        return target.url or self.addresses.file(found, target.path)
