"""What the answers of an Archive depend on besides its items: its addresses and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from flask_ibi_archive.core.protocol.archive_urls import ArchiveUrls
from flask_ibi_archive.core.protocol.catalogue import DUBLIN_CORE, CatalogueItem, Scope
from flask_ibi_archive.core.protocol.relation_targets import add_prefixes
from flask_ibi_archive.core.protocol.relations import SHAPES, RelationPattern, parse_relation


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
    checks_access: bool = True

    @cached_property
    def shapes(self) -> frozenset[str]:
        """The shapes of the relations that the Archive answers, and all their beginnings."""
        if self.relations is None:
            return SHAPES
        return add_prefixes({pattern.shape for pattern in self.relations})

    def scope(self, shape: str, paths: tuple[str, ...]) -> Scope:
        """Return the scope for the relations of a shape, and of all beginnings of the shape.

        :param paths: the possible paths of the requested file.
        """
        scope = self._scopes.get(shape)
        if scope is None:
            scope = self._scopes[shape] = Scope(
                add_prefixes({shape}) & self.shapes,
                next_edition="u" in shape,
                follow_editions=self.follow_editions,
                own_formats=self.own_formats,
            )
        if not paths:
            return scope
        return Scope(
            scope.shapes, scope.next_edition, paths, scope.follow_editions, scope.own_formats
        )

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
        """Return True if the list is for a user who may read the files of an item.

        :param user: the IP address of the user.
        """
        return not self.checks_access or item.allows(user)
