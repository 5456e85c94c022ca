"""Reads the parts of items: aliases, files and related items."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from sqlalchemy import (
    Connection,
    Row,
    Select,
    Text,
    bindparam,
    case,
    cast,
    func,
    literal,
    null,
    or_,
    select,
    union_all,
)
from sqlalchemy.orm import aliased

from flask_ibi_archive.archive.items.conditions import describes, shows_description
from flask_ibi_archive.archive.items.file_store import FileStore
from flask_ibi_archive.archive.items.tables import File, Item, ItemIdentifier, SameAs
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.description import Text as LanguageText
from flask_ibi_archive.core.records.record import DublinCore, RelatedItem, RelationKind
from flask_ibi_archive.server.database.dialects import Key, batched, run_on_postgresql


class ItemParts:
    """The aliases, the files and the related items of some items.

    :param rows: the rows of the items.
    :param with_titles: whether the titles of the related items are read.
    """

    def __init__(
        self, connection: Connection, archive_id: int, rows: Sequence[Row[Any]], with_titles: bool
    ) -> None:
        self._parts: dict[tuple[str, int | str], list[Row[Any]]] = defaultdict(list)
        parameters = {
            "archive_id": archive_id,
            "ids": [row.id for row in rows],
            "series": [*{row.edition_series_id for row in rows} - {None}],
            "groups": [*{row.translation_group_id for row in rows} - {None}],
            "successors": [*{row.successor for row in rows} - {None}],
        }
        for part in connection.execute(_select_parts(with_titles), parameters):
            self._parts[part.kind, part.text if part.owner is None else part.owner].append(part)

    def list_parts(self, kind: str, owner: int | str | None) -> Sequence[Row[Any]]:
        """Return the parts of one kind, in their order.

        :param kind: "alias", "same_as" or "file" of an item; "edition" of a series; "translation"
            of a group; "successor" with an identifier.
        :param owner: the id of the item, of the series or of the group; or the identifier.
        """
        return () if owner is None else self._parts.get((kind, owner), ())

    def list_related(self, row: Row[Any]) -> Iterator[RelatedItem]:
        """Yield the editions, the translations and the successor of an item."""
        for edition in self.list_parts("edition", row.edition_series_id):
            is_later = edition.position > row.edition_no
            if edition.id != row.id:
                yield _relate("later_edition" if is_later else "earlier_edition", edition)
        members = self.list_parts("translation", row.translation_group_id)
        for member in sorted(members, key=lambda member: str(member.language)):
            if member.id != row.id and member.language is not None:
                # the other items are translations of the head of their group
                is_original = member.id == row.head_item_id
                yield replace(_relate("translation", member), is_original=is_original)
        if row.successor is not None:
            for successor in self.list_parts("successor", row.successor):
                if successor.id != row.id:
                    yield _relate("successor", successor)
                    return
            yield RelatedItem("successor", row.successor)

    def find_head(self, row: Row[Any]) -> str | None:
        """Return an identifier of the head of the item's group; None if the item is the head."""
        members = self.list_parts("translation", row.translation_group_id)
        heads = [member for member in members if row.id != member.id == row.head_item_id]
        return (heads[0].rep or heads[0].ibip) if heads else None


def _relate(kind: RelationKind, part: Row[Any]) -> RelatedItem:
    """Return a related item from its row in the result of :func:`_select_parts`."""
    titles = parse_elements(json.loads(part.description or "{}")).get("title")
    return RelatedItem(
        kind,
        part.rep or part.ibip,
        part.rep,
        part.ibip,
        titles[0] if titles else None,
        part.language,
        is_here=part.state in (State.ORIGINAL.value, State.COPY.value),
        is_removed=part.state == State.DELETED.value,
    )


# cached: SQLAlchemy needs more time to build the statement than to run it
@cache
def _select_parts(with_titles: bool) -> Any:
    """Select the aliases, the files and the related items of some items."""
    ids: Any = bindparam("ids", expanding=True)
    metadata, titles = aliased(Item), {}
    if with_titles:
        own = func.coalesce(Item.dublin_core, case((describes(metadata), metadata.dublin_core)))
        # a hidden description is for its own page to show, after a check of the access
        titles = {"description": cast(case((shows_description(), own)), Text)}
    other = {
        "id": Item.id,
        "state": Item.state,
        "rep": Item.rep,
        "ibip": Item.ibip,
        "language": Item.language,
        **titles,
    }
    by_metadata = (metadata, metadata.id == Item.metadata_item_id)
    return union_all(
        _part(
            "alias",
            owner=ItemIdentifier.item_id,
            position=ItemIdentifier.alias_no,
            text=ItemIdentifier.text,
        ).where(ItemIdentifier.item_id.in_(ids), ItemIdentifier.alias_no > 0),
        _part("same_as", owner=SameAs.item_id, position=SameAs.position, text=SameAs.text).where(
            SameAs.item_id.in_(ids)
        ),
        _part(
            "file",
            owner=File.item_id,
            position=File.position,
            text=File.path,
            url=File.url,
            sha256=File.sha256,
            size=File.size,
        ).where(File.item_id.in_(ids)),
        _part("edition", owner=Item.edition_series_id, position=Item.edition_no, **other)
        .outerjoin(*by_metadata)
        .where(Item.edition_series_id.in_(bindparam("series", expanding=True))),
        _part("translation", owner=Item.translation_group_id, **other)
        .outerjoin(*by_metadata)
        .where(Item.translation_group_id.in_(bindparam("groups", expanding=True))),
        _part("successor", text=ItemIdentifier.text, **other)
        .join(ItemIdentifier, ItemIdentifier.item_id == Item.id)
        .outerjoin(*by_metadata)
        .where(
            ItemIdentifier.text.in_(bindparam("successors", expanding=True)),
            ItemIdentifier.archive_id == bindparam("archive_id"),
        ),
    ).order_by("kind", "owner", "position")


def _part(kind: str, **columns: Any) -> Select[Any]:
    """Select one kind of parts. All kinds have the same columns, which may be NULL.

    The owner of a part is described in :meth:`ItemParts.list_parts`.
    """
    types: dict[str, Any] = {
        **dict.fromkeys(("id", "owner", "position", "size"), Key),
        **dict.fromkeys(("text", "url", "sha256", "state", "rep", "ibip"), Text),
        **dict.fromkeys(("language", "description"), Text),
    }
    return select(
        literal(kind).label("kind"),
        *(columns.get(name, cast(null(), type)).label(name) for name, type in types.items()),
    )


def parse_elements(stored: Mapping[str, list[Any]]) -> DublinCore:
    """Return the Dublin Core that a column contains.

    :raises ValueError: if the column is malformed.
    """
    return {element: tuple(map(_parse_value, values)) for element, values in stored.items()}


def _parse_value(value: Any) -> LanguageText:
    return (value, None) if isinstance(value, str) else (value["value"], value.get("lang"))


def find_needed_checksums(connection: Connection, checksums: Sequence[str]) -> set[str]:
    """Return the given checksums that an item of any Archive needs.

    :param checksums: at most some thousand checksums.
    """
    statement = select(File.sha256).where(File.sha256.in_(checksums), File.size.is_not(None))
    return {str(sha256) for sha256 in connection.scalars(statement.distinct())}


def count_newer_files(connection: Connection, files: FileStore) -> int:
    """Return the number of stored files that were added after the last change in the database.

    There are such files if an older database was restored beside the present files.
    """
    changed = connection.scalars(select(func.max(Item.timestamp))).one()
    last = changed.timestamp() + 60  # timestamps are whole seconds, and clocks differ a little
    newer = {file.sha256: file.modified for file in files.walk() if file.modified > last}
    for part in batched(newer):
        # an imported item may have an older timestamp than its files
        needed = find_needed_checksums(connection, part)
        last = max([last, *(newer[sha256] for sha256 in needed)])
    return sum(modified > last for modified in newer.values())


def remove_unneeded(
    connection: Connection, files: FileStore, checksums: Sequence[str], before: float
) -> None:
    """Delete the stored files that no item of any Archive needs.

    A lock prevents new rows for the files until the end of the transaction.

    :param checksums: the checksums of the files that may be deleted.
    :param before: only files that were last modified before this time are deleted. The time is in
        POSIX seconds.
    """
    run_on_postgresql(connection, f"LOCK TABLE {File.__tablename__} IN SHARE MODE")
    needed = find_needed_checksums(connection, checksums)
    for sha256 in checksums:
        if sha256 not in needed:
            files.remove(sha256, before)


def find_files(
    connection: Connection, item_ids: list[int], paths: list[str]
) -> list[tuple[int, str, str | None]]:
    """Return the item id, path and URL of files that have one of the paths or have a URL.

    Files with a URL are on another server.
    """
    rows = connection.execute(
        select(File.item_id, File.path, File.url).where(
            File.item_id.in_(item_ids), or_(File.path.in_(paths), File.url.is_not(None))
        )
    )
    return [(row[0], row[1], row[2]) for row in rows]
