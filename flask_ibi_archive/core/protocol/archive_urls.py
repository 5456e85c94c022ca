"""The addresses of an Archive, and the settings that its answers depend on.

A host application that needs other URLs provides a function of the type :data:`FindAddress`, or
replaces the class :class:`ArchiveUrls`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol
from urllib.parse import quote

from flask_ibi_archive.core.protocol.catalogue import DUBLIN_CORE, CatalogueItem, Scope
from flask_ibi_archive.core.protocol.relation_targets import add_prefixes
from flask_ibi_archive.core.protocol.relations import (
    SHAPES,
    Relation,
    RelationPattern,
    parse_relation,
)


class Named(Protocol):
    """An object that has a repository name or an IBIp."""

    @property
    def rep(self) -> str | None:
        """The repository name of the object, or None."""

    @property
    def ibip(self) -> str | None:
        """The IBIp of the object, or None."""


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
    :ivar find_address: the function of the host that changes addresses, or None.
    """

    find_root: Callable[[], str] | None = None
    find_address: FindAddress | None = None

    def __init__(self, origin: str) -> None:
        self.origin = origin

    @property
    def base(self) -> str:
        """The beginning of all URLs of the app: the origin and the path of the app."""
        return self.origin if self.find_root is None else self.origin + self.find_root()

    def service(self, item: Named) -> str:
        """Return the URL of the Archive service itself ([R] 4.1).

        The path of this URL is only the IBI, even if the app is mounted under a path.
        """
        return f"{self.origin}/{item.rep or item.ibip}"

    def item(self, item: Named) -> str:
        """Return the URL of the landing page of an item."""
        return self._find("item", item) or f"{self.base}/col/{item.rep or item.ibip}/"

    def file(self, item: Named, path: str) -> str:
        """Return the URL of a file of an item."""
        usual = f"/col/{item.rep or item.ibip}/doc/{quote(path, safe='/')}"
        return self._find("file", item, path) or self.base + usual

    def file_list(self, item: Named) -> str:
        """Return the URL of the page that lists the files of an item."""
        return self._find("file_list", item) or f"{self.base}/col/{item.rep or item.ibip}/files"

    def statistics(self, item: Named) -> str:
        """Return the URL of the access statistics of an item."""
        usual = f"/col/{item.rep or item.ibip}/statistics"
        return self._find("statistics", item) or self.base + usual

    def zip_file(self, item: Named) -> str:
        """Return the URL of all files of an item as one ZIP file."""
        return f"{self.base}/col/{item.rep or item.ibip}/files.zip"

    def archive_statistics(self) -> str:
        """Return the URL of the access statistics of the Archive."""
        return f"{self.base}/ibi/statistics"

    def metadata(self, item: Named, format: str | None = None) -> str:
        """Return the URL of the metadata of an item.

        :param format: the format of the metadata; None for metadata in free form.
        """
        choice = f"?choice={format}" if format else ""
        usual = f"/col/{item.rep or item.ibip}/metadata{choice}"
        return self._find("metadata", item, format) or self.base + usual

    def _find(self, page: PageKind, item: Named, path: str | None = None) -> str | None:
        """Return the URL that the function of the host chooses, or None.

        If the path does not begin with the path of the app, the path of the app is added.

        :raises ValueError: if the function returns something else than a path, a URL or None.
        """
        found = None if self.find_address is None else self.find_address(page, item, path)
        if found is None:
            return None
        if isinstance(found, str) and found.startswith(("http://", "https://")):
            return found
        if not isinstance(found, str) or not found.startswith("/") or found.startswith("//"):
            raise ValueError(
                f"the address function returned {found!r} for the page {page!r} of the item "
                f"{item.rep or item.ibip}; it should return a path that begins with '/', a URL "
                "that begins with http:// or https://, or None"
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
    :param own_formats: the formats in which the Archive itself writes Dublin Core, and that URL
        lists contain.
    :param written_formats: further formats that the Archive writes. URL lists contain such a format
        only if the request names it, because all of them would make each list longer.
    :param checks_access: False if the URL list is for a user who may read all files of all items.
    """

    address: str
    service: tuple[str, ...]
    addresses: ArchiveUrls
    platform_software: tuple[str, ...] = ()
    relations: tuple[RelationPattern, ...] | None = None
    filter_url_list: bool = True
    follow_editions: bool = True
    own_formats: Mapping[str, None] = field(default_factory=lambda: DUBLIN_CORE)
    written_formats: frozenset[str] = frozenset()
    checks_access: bool = True

    @cached_property
    def shapes(self) -> frozenset[str]:
        """The shapes of the relations that the Archive answers, and all their beginnings."""
        if self.relations is None:
            return SHAPES
        return add_prefixes({pattern.shape for pattern in self.relations})

    def scope(self, relation: Relation, paths: tuple[str, ...]) -> Scope:
        """Return the scope for the relations of a relation's shape, and of all its beginnings.

        :param paths: the possible paths of the requested file.
        """
        shape, formats = relation.shape, {step.parameter for step in relation.steps}
        scope = self._scopes.get(shape)
        if scope is None:
            scope = self._scopes[shape] = Scope(
                add_prefixes({shape}) & self.shapes,
                next_edition="u" in shape,
                follow_editions=self.follow_editions,
                own_formats=self.own_formats,
            )
        named = formats & self.written_formats
        if not paths and not named:
            return scope
        own_formats = {**scope.own_formats, **dict.fromkeys(filter(None, named))}
        return Scope(scope.shapes, scope.next_edition, paths, scope.follow_editions, own_formats)

    @cached_property
    def _scopes(self) -> dict[str, Scope]:
        return {}

    def answers(self, name: str) -> bool:
        """Return True if the Archive answers the relation with a text."""
        if self.relations is None:
            return True
        relation = parse_relation(name)
        return any(pattern.matches(relation) for pattern in self.relations)

    def may_read(self, item: CatalogueItem, user: str) -> bool:
        """Return True if a user may read the files of an item, or if access is not checked.

        :param user: the IP address of the user.
        """
        return not self.checks_access or item.allows(user)
