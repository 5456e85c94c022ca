"""The catalogue of an Archive. One SQL statement reads all data that a urlRequest needs.

The statement (:mod:`.statements`) returns the requested item and related items, such as editions
and translations. This module finds the relations between these items in the columns of the items.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from itertools import starmap
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection

from flask_ibi_archive.archive.service.statements import Fetched, compile_statement, format_time
from flask_ibi_archive.core.protocol.access import HIDDEN
from flask_ibi_archive.core.protocol.catalogue import CatalogueItem, OwnMetadata, Scope
from flask_ibi_archive.core.protocol.states import ELSEWHERE


class StoredForms(NamedTuple):
    """The two forms of the identifier of an item."""

    rep: str | None
    ibip: str | None


def make_items(
    rows: Iterable[Fetched], scope: Scope, today: date
) -> tuple[CatalogueItem | None, list[CatalogueItem]]:
    """Return the requested item, and all items of a result with the relations between them.

    :param scope: the part of the catalogue that the request needs.
    :param today: the current day (UTC), on which embargoes depend.
    """
    requested = None
    chosen: dict[int, Fetched] = {}
    files: dict[int, dict[str, str | None]] = {}
    for row in rows:
        if row.id == row.base_id:
            requested = row.id
        # in other rows, the next edition is missing, and a transferred item is Elsewhere
        if row.id == row.base_id or row.id not in chosen:
            chosen[row.id] = row
        if row.file_path is not None:
            files.setdefault(row.id, {})[row.file_path] = row.file_url
    items = {
        row.id: _make_item(row, files.get(row.id, {}), scope, today) for row in chosen.values()
    }
    _relate(items, chosen.values(), scope)
    return None if requested is None else items[requested], [*items.values()]


def _make_item(
    row: Fetched, files: Mapping[str, str | None], scope: Scope, today: date
) -> CatalogueItem:
    return CatalogueItem(
        row.id,
        None if row.state == ELSEWHERE else row.state,
        row.rep,
        row.ibip,
        row.content_type,
        format_time(row.timestamp),
        row.language,
        row.formats or {},
        bool(row.is_service),
        None if row.access_networks is None else row.access_networks.split(),
        None if row.embargo is None else date.fromisoformat(row.embargo),
        row.access_others != HIDDEN,
        files,
        row.target_path,
        scope,
        today,
    )


def _relate(items: Mapping[int, CatalogueItem], rows: Iterable[Fetched], scope: Scope) -> None:
    """Set the relations between items."""
    groups: dict[int, dict[str, CatalogueItem]] = {}
    series: dict[int, dict[int, CatalogueItem]] = {}
    for row in rows:
        item = items[row.id]
        item.described_by = _find_metadata(row, items, scope)
        if row.next_rep is not None or row.next_ibip is not None:
            item.following = StoredForms(row.next_rep, row.next_ibip)
        if row.edition_series_id is not None:
            series.setdefault(row.edition_series_id, {})[row.edition_no or 0] = item
        if row.translation_group_id is not None:
            item.members = members = groups.setdefault(row.translation_group_id, {})
            if item.language is not None:
                members[item.language] = item
    for editions in series.values():
        chain = [edition for _, edition in sorted(editions.items(), key=itemgetter(0))]
        for place, item in enumerate(chain, 1):
            item.later = chain[place:]


def _find_metadata(
    row: Fetched, items: Mapping[int, CatalogueItem], scope: Scope
) -> CatalogueItem | OwnMetadata | None:
    if row.metadata_item_id is not None:
        return items.get(row.metadata_item_id)
    if row.metadata_url is not None:
        changed_at = row.metadata_timestamp and format_time(row.metadata_timestamp)
        return OwnMetadata(row.metadata_url, row.metadata_formats or {}, changed_at)
    return OwnMetadata(None, scope.own_formats, None) if row.has_dublin_core else None


class StoredCatalogue:
    """The items of one Archive in the database.

    :param connection: the connection for reading. Each call of :meth:`find` runs one statement.
    :param archive_id: the id of the Archive.
    :param today: the current day (UTC), on which embargoes depend.
    """

    def __init__(self, connection: Connection, archive_id: int, today: date) -> None:
        self.connection = connection
        self.archive_id = archive_id
        self.today = today

    def find(self, ibi: str, scope: Scope) -> CatalogueItem | None:
        """Return the item with an identifier, or None if no such item exists.

        The item may be in any state.

        :param ibi: the identifier in canonical case.
        """
        statement = compile_statement(
            self.connection.dialect,
            scope.shapes,
            scope.next_edition,
            len(scope.paths),
            scope.follow_editions,
        )
        parameters: dict[str, Any] = {"archive_id": self.archive_id, "ibi": ibi}
        for number, path in enumerate(scope.paths):
            parameters[f"path_{number}"] = path
        rows = starmap(Fetched, statement.run(self.connection, parameters))
        return make_items(rows, scope, self.today)[0]
