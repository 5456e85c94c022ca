"""The URL list: the names and values of the pairs in the answer to a urlRequest.

The whole list contains the URLs of the requested item and of all related items. A filtered list
contains only the pairs that the resolver needs for the verbs of the request.

A host application that needs other URLs provides a function of the type :data:`FindAddress`, or
replaces the class :class:`ArchiveUrls`.

Source: [R] 7.2, Algorithm 2 and FILTRARLISTADEURL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Literal, NamedTuple, Protocol
from urllib.parse import quote

from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.identifiers.grammar import Identifier
from flask_ibi_archive.core.protocol import catalogue_items, relations
from flask_ibi_archive.core.protocol.catalogue_items import Catalogue, CatalogueItem, OwnMetadata
from flask_ibi_archive.core.protocol.messages import UrlRequest, list_ibi_words
from flask_ibi_archive.core.protocol.pairs import list_candidate_paths
from flask_ibi_archive.core.protocol.relations import (
    NO_VERBS,
    Relation,
    RelationTarget,
    Step,
    VerbList,
    parse_relation,
)
from flask_ibi_archive.core.protocol.states import State


class Named(Protocol):
    """An object with the identifiers of an item: the repository name, the IBIp, or both."""

    @property
    def rep(self) -> str | None:
        """The repository name; None if the item has only an IBIp."""

    @property
    def ibip(self) -> str | None:
        """The IBIp; None if the item has only a repository name."""


#: The kind of a page of an item.
PageKind = Literal["item", "file", "file_list", "metadata", "statistics"]
#: A function that returns the address of a page of an item. The parameters are the kind of the
#: page, the item, and a text: the path of the file for ``file``, the format or None for
#: ``metadata``, otherwise None. The result is a path of the app that begins with ``/``, or a
#: complete URL. None means the usual address.
FindAddress = Callable[[PageKind, Named, "str | None"], "str | None"]


class ArchiveUrls:
    """Builds the absolute URLs of a running Archive.

    A URL contains the repository name of the item, or the IBIp if the item has no repository name.
    A URL contains the path of a file in UTF-8. All characters of the path are percent-encoded,
    except letters, digits, ``-._~`` and ``/``.

    :param origin: the scheme and the archiveaddress of the Archive, such as
        ``http://mtc-m16c.sid.inpe.br``.
    :ivar find_root: returns the path under which the app is mounted, such as ``/repository``; "" if
        the app is at the root of the host.
    :ivar get_host_function: returns the function of the host that changes addresses, or None.
    """

    find_root: Callable[[], str] | None = None
    get_host_function: Callable[[], FindAddress | None] = staticmethod(lambda: None)

    def __init__(self, origin: str) -> None:
        self.origin = origin

    @property
    def base(self) -> str:
        """The beginning of all URLs of the app: the origin and the path of the app."""
        return self.origin if self.find_root is None else self.origin + self.find_root()

    @property
    def relative(self) -> ArchiveUrls:
        """An object that builds the same URLs without scheme and host, for links in pages."""
        paths = copy(self)
        paths.origin = ""
        return paths

    def service(self, item: Named) -> str:
        """Return the URL of the Archive service itself ([R] 4.1).

        The path of this URL is only the IBI, even if the app is mounted under a path.
        """
        return f"{self.origin}/{item.rep or item.ibip}"

    def item(self, item: Named) -> str:
        """Return the URL of the landing page of an item."""
        return self._find("item", item, "/")

    def file(self, item: Named, path: str) -> str:
        """Return the URL of a file of an item."""
        return self._find("file", item, f"/doc/{quote(path, safe='/')}", path)

    def file_list(self, item: Named) -> str:
        """Return the URL of the page that lists the files of an item."""
        return self._find("file_list", item, "/files")

    def statistics(self, item: Named) -> str:
        """Return the URL of the access statistics of an item."""
        return self._find("statistics", item, "/statistics")

    def metadata(self, item: Named, format: str | None = None) -> str:
        """Return the URL of the metadata of an item.

        :param format: the format of the metadata; None for metadata in free form.
        """
        end = f"/metadata?choice={format}" if format else "/metadata"
        return self._find("metadata", item, end, format)

    def zip_file(self, item: Named) -> str:
        """Return the URL of all files of an item as one ZIP file."""
        return f"{self.base}/col/{item.rep or item.ibip}/files.zip"

    def archive_statistics(self) -> str:
        """Return the URL of the access statistics of the Archive."""
        return f"{self.base}/ibi/statistics"

    def _find(self, page: PageKind, item: Named, end: str, text: str | None = None) -> str:
        """Return the URL of a page that the function of the host chooses, or the usual URL.

        If the path does not begin with the path of the app, the path of the app is added.

        :param end: the end of the usual URL, after the identifier of the item.
        :param text: the third argument of the host's function (see :data:`FindAddress`).
        :raises ValueError: if the function returns something else than a path, a URL or None.
        """
        ibi = item.rep or item.ibip
        find_address = self.get_host_function()
        found = None if find_address is None else find_address(page, item, text)
        if found is None:
            return f"{self.base}/col/{ibi}{end}"
        if isinstance(found, str) and found.startswith(("http://", "https://")):
            return found
        if not isinstance(found, str) or not found.startswith("/") or found.startswith("//"):
            raise ValueError(
                f"the address function returned {found!r} for the page {page!r} of the item {ibi}; "
                "it should return a path that begins with '/', a URL that begins with http:// or "
                "https://, or None"
            )
        # the base without the origin is the path of the app
        is_complete = found.startswith(f"{self.base}/"[len(self.origin) :])
        return (self.origin if is_complete else self.base) + found


@dataclass(frozen=True)
class ArchiveFacts:
    """The settings and other data of an Archive that are necessary for URL lists.

    :param address: the archiveaddress of the Archive.
    :param service: the words of ibi.archiveservice, the IBI of the Archive service.
    :param addresses: builds the URLs of items and files.
    :param platform_software: the words of ibi.platformsoftware; () if the platform has no IBI.
    :param relations: the relations that the Archive answers; None for all relations.
    :param filter_url_list: True if the Archive sends filtered lists.
    :param follow_editions: True if the Archive finds the last edition by following the next
        editions in this Archive.
    :param own_formats: the formats in which the Archive itself writes Dublin Core. Every URL list
        contains these formats.
    :param written_formats: further formats that the Archive writes. A URL list contains such a
        format only if the request names the format. Otherwise each list would be longer.
    :param lands_on_page: True if a persistent URL without verbs and path leads to the landing page.
    :param checks_access: False if the URL list is for a user who may read all files of all items.
    """

    address: str
    service: tuple[str, ...]
    addresses: ArchiveUrls
    platform_software: tuple[str, ...] = ()
    relations: tuple[relations.RelationPattern, ...] | None = None
    filter_url_list: bool = True
    follow_editions: bool = True
    own_formats: Mapping[str, None] = field(default_factory=lambda: catalogue_items.DUBLIN_CORE)
    written_formats: frozenset[str] = frozenset()
    lands_on_page: bool = False
    checks_access: bool = True

    @cached_property
    def shapes(self) -> frozenset[str]:
        """The shapes of the relations that the Archive answers, and all their beginnings."""
        if self.relations is None:
            return relations.SHAPES
        return relations.add_prefixes({pattern.shape for pattern in self.relations})

    def scope(self, relation: Relation, paths: tuple[str, ...]) -> catalogue_items.Scope:
        """Return the scope for a relation and all its beginnings.

        :param paths: the possible paths of the requested file.
        """
        named = self.written_formats.intersection([step.parameter for step in relation.steps])
        return catalogue_items.Scope(
            relations.add_prefixes({relation.shape}) & self.shapes,
            next_edition="u" in relation.shape,
            paths=paths,
            follow_editions=self.follow_editions,
            own_formats={**self.own_formats, **dict.fromkeys(named)},
        )

    def answers(self, name: str) -> bool:
        """Return True if the Archive answers a relation such as ``.lastedition``."""
        return self.relations is None or any(
            pattern.matches(parse_relation(name)) for pattern in self.relations
        )


#: The name and the value of a pair. The value is one word or several words.
UrlPair = tuple[str, "str | tuple[str, ...]"]

#: The beginnings of the names of the pairs that describe a URL. The name of a relation follows, as
#: in ``url.lastedition``.
URL_PAIR_NAMES = ("contenttype", "state", "timestamp", "url")
NEXT_EDITION = "ibi.nextedition"


class Description(NamedTuple):
    """What a URL list contains about the target of a relation.

    :param words: the words of the pair ``ibi`` of the target; None for metadata without an
        identifier.
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
    """Return the pairs of the URL list for a request, in no particular order.

    The settings decide if the list is filtered. For a filtered list, the function computes only the
    pairs of the filtered list.

    :param issue_key: returns a new URL key for an item.
    :param requested_only: if True, an unfiltered list contains only the relations that the verbs
        request.
    Source: [R] 7.2, Algorithm 1, lines 16 and 17; Algorithm 2 (MONTARLISTADEURL).
    """
    relation = request.verbs.relation
    paths = () if request.verbs.file_list else list_candidate_paths(request.filepath)
    if facts.filter_url_list or requested_only:
        scope = facts.scope(relation, paths)
    else:
        scope = catalogue_items.Scope(
            facts.shapes, True, paths, facts.follow_editions, facts.own_formats
        )
    item = catalogue.find(request.ibi.text, scope)
    if item is None or item.state is None:
        return []
    pairs: list[UrlPair] = [
        ("archiveaddress", facts.address),
        ("ibi", list_ibi_words(item.rep, item.ibip)),
        ("ibi.archiveservice", facts.service),
        ("ibi.platformsoftware", facts.platform_software),
    ]
    if item.state == State.DELETED:
        removed_at = format_timestamp(item.timestamp) or ""
        return [*pairs, ("state", State.DELETED.value), ("timestamp", removed_at)]
    view = _View(request, facts, bool(paths))
    if not facts.filter_url_list:
        levels = [relations.list_relations(item, scope.shapes)]
        if requested_only:
            levels = relations.follow_path(item, relation.steps, scope.shapes)
        found = list(view.describe(chain.from_iterable(levels)))
        pairs += [("urlkey", issue_key(item)), *list_ibi_pairs(found), *list_url_pairs(found)]
    else:
        *intermediate, final = relations.follow_path(item, relation.steps, scope.shapes)
        found = list(view.describe(final))
        pairs += list_ibi_pairs(found)
        if url_pairs := list_url_pairs(found):
            return [*pairs, *url_pairs, ("urlkey", issue_key(item))]
        pairs += list_ibi_pairs(view.describe(chain.from_iterable(intermediate)))
    if scope.next_edition and (following := item.next_edition()) is not None:
        pairs.append((NEXT_EDITION, list_ibi_words(following.rep, following.ibip)))
    return pairs


def find_metadata_url(
    catalogue: Catalogue,
    facts: ArchiveFacts,
    ibi: Identifier,
    user: str,
    step: Step,
    is_open: bool = False,
) -> str | None:
    """Return the URL of the metadata of an item for a user.

    A urlRequest gets the same URL, if the Archive answers all relations.

    :param facts: the published facts of the Archive.
    :param user: the IP address of the user.
    :param step: the step of a relation that selects the metadata, with or without a format.
    :param is_open: True if the user may read the metadata in spite of networks and embargoes.
    :returns: None if the item has no such URL for this user.
    """
    relation = Relation((step,))
    whole = replace(facts, relations=None, filter_url_list=True, checks_access=not is_open)
    request = UrlRequest(ibi, (user,), verbs=VerbList(relation))
    pairs = answer_url_request(catalogue, request, whole, lambda item: "")
    url = dict(pairs).get("url" + relation.name)
    return url if isinstance(url, str) else None


def list_target_urls(
    item: CatalogueItem, request: UrlRequest, facts: ArchiveFacts
) -> list[DescribedTarget]:
    """Return each relation that the Archive answers, with the description of its target."""
    view = _View(request, facts, has_path=False)
    return list(view.describe(relations.list_relations(item, facts.shapes)))


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
    return [
        (kind + name, value)
        for name, description in found
        for kind, value in zip(URL_PAIR_NAMES, description.values or (), strict=False)
    ]


@dataclass(frozen=True)
class _View:
    """Finds the URLs that one user gets for one request.

    :param has_path: True if the request is for a file.
    """

    request: UrlRequest
    facts: ArchiveFacts
    has_path: bool
    known: dict[object, Description] = field(default_factory=dict)

    def describe(self, targets: Iterable[tuple[str, RelationTarget]]) -> Iterator[DescribedTarget]:
        """Yield the relation and the description of each target that the Archive answers."""
        for name, target in targets:
            if self.facts.answers(name):
                # the description keeps the objects of the target, so that the key remains valid
                key = target.key
                if key not in self.known:
                    self.known[key] = self._describe(target, lands=not name)
                yield name, self.known[key]

    def _describe(self, target: RelationTarget, lands: bool) -> Description:
        """Describe a target for the URL list. There is no URL if the user may not see the target.

        :param lands: True if the target is the requested item itself.
        """
        item, own = target.item, target.own
        words = None if own is not None else list_ibi_words(item.rep, item.ibip)
        content_type, timestamp = item.content_type, item.timestamp
        url = None if own is not None else self._find_item_url(target, lands)
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
        return not self.facts.checks_access or item.allows(self.request.client_addresses[0])

    def _find_written_url(self, target: RelationTarget) -> str | None:
        """Return the URL of metadata without an identifier, or None.

        The metadata are on another server, or the Archive writes the format from Dublin Core.
        """
        own, format = target.own, target.format
        if self.has_path or self.request.verbs.file_list:
            return None
        stated = own and (own.url if format is None else own.formats[format])
        described = target.described or target.item
        # the rule of the item applies to the description that the Archive itself shows
        if stated is None and not described.shows_metadata and not self._may_read(described):
            return None
        return stated or self.facts.addresses.metadata(described, format)

    def _find_item_url(self, target: RelationTarget, lands: bool) -> str | None:
        """Return the URL of what was requested: the item, a file or the list of files; or None."""
        item, addresses = target.item, self.facts.addresses
        if item.state is None:
            return None
        if target.format is not None:
            has_url = not self.has_path and not self.request.verbs.file_list
            return item.formats.get(target.format) if has_url else None
        if self.request.verbs.file_list:
            return addresses.file_list(item)
        # a list for verbs names the same item by fallbacks, such as .lastedition
        asks_for_item = self.request.verbs == NO_VERBS and not self.has_path
        lands = lands and asks_for_item and self.facts.lands_on_page
        file = None if lands else item.file()
        if file is not None:
            return file.url or addresses.file(item, file.path)
        if self.has_path:
            return None
        return addresses.service(item) if item.is_service else addresses.item(item)

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
            return found.url or self.facts.addresses.metadata(item)
        if found.state in (None, State.DELETED) or not self._may_read(found):
            return None
        target = found.target()
        if target is None:
            return self.facts.addresses.item(found)
        return target.url or self.facts.addresses.file(found, target.path)
