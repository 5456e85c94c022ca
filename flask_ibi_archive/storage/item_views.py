"""Reads an item for its pages: its record, and the titles of the items that are related to it.

Two statements are sufficient, however many relations the item has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    String,
    Text,
    and_,
    bindparam,
    cast,
    literal,
    null,
    select,
    union,
    union_all,
)
from sqlalchemy.orm import aliased

from flask_ibi_archive.protocol.states import ELSEWHERE, State
from flask_ibi_archive.records.record import (
    DublinCore,
    FileRecord,
    Record,
    RelatedItem,
    RelationKind,
    Tombstone,
)
from flask_ibi_archive.storage.dialects import Key
from flask_ibi_archive.storage.models import (
    File,
    Item,
    ItemIdentifier,
    TombstoneRow,
    TranslationGroup,
)
from flask_ibi_archive.storage.reading import make_record, parse_elements


@dataclass(frozen=True, slots=True)
class StoredView:
    """An item in the database, as its pages show it.

    :param id: the id of the item.
    :param dublin_core: the Dublin Core that describes the item, which may be that of the metadata
        item; None if the Archive has none, or if it is hidden.
    :param metadata_language: the language of the metadata item.
    :param sizes: the sizes of the stored files in bytes, by path.
    """

    id: int
    record: Record
    is_service: bool
    dublin_core: DublinCore | None
    metadata_language: str | None
    related: tuple[RelatedItem, ...]
    sizes: Mapping[str, int]


def read_item_view(
    connection: Connection, archive_id: int, ibi: str, get_source: Callable[[str], str]
) -> StoredView | None:
    """Return the item that has an identifier; None if this Archive has no such item.

    :param ibi: the identifier in canonical case.
    :param get_source: returns the path of the stored file with a checksum.
    """
    found = connection.execute(_items(), {"archive_id": archive_id, "ibi": ibi}).all()
    rows = {row.id: row for row in found}
    row = next((row for row in found if row.id == row.base_id), None)
    if row is None or row.state == ELSEWHERE:
        return None
    aliases, files, sizes = [], [], {}
    for part in connection.execute(_parts(), {"item_id": row.id}):
        if part.is_alias:
            aliases.append(part.text)
            continue
        source = None if part.size is None else get_source(part.sha256)
        files.append(FileRecord(part.text, part.url, source, part.sha256))
        if part.size is not None:
            sizes[part.text] = part.size
    related = tuple(_list_related(row, rows))
    # only the record of the head of a group lists the translations, see storage.reading
    lists_translations = row.id == row.head_item_id or row.language is None
    later = next((one.ibi for one in related if one.kind == "later_edition"), None)
    metadata = rows.get(row.metadata_item_id)
    tombstone = None
    if row.state == State.DELETED.value and row.reason is not None:
        tombstone = Tombstone(row.reason, row.citation, row.successor, row.removed_to)
    record = make_record(
        row,
        tuple(aliases),
        tuple(files),
        later,
        {
            str(one.language): one.ibi
            for one in related
            if lists_translations and one.kind == "translation"
        },
        None if metadata is None else _name(metadata),
        tombstone,
    )
    is_open = row.described_access != "none"
    return StoredView(
        row.id,
        record,
        row.is_service,
        _find_description(row),
        row.described_language if is_open else None,
        related,
        sizes,
    )


def _list_related(row: Row[Any], rows: Mapping[int, Row[Any]]) -> list[RelatedItem]:
    series, group = row.edition_series_id, row.translation_group_id
    others = [other for other in rows.values() if other.id != row.id]
    editions = [one for one in others if series is not None and one.edition_series_id == series]
    members = [one for one in others if group is not None and one.translation_group_id == group]
    found = [
        _relate("later_edition" if one.edition_no > row.edition_no else "earlier_edition", one)
        for one in sorted(editions, key=lambda one: one.edition_no)
    ]
    found += [
        # the other items are translations of the head of their group
        replace(_relate("translation", one), is_original=one.id == row.head_item_id)
        for one in sorted(members, key=lambda one: str(one.language))
        if one.language is not None
    ]
    if row.successor is not None:
        replacing = [_relate("successor", one) for one in others if one.id == row.successor_id]
        found += replacing or [RelatedItem("successor", row.successor)]
    return found


def _relate(kind: RelationKind, row: Row[Any]) -> RelatedItem:
    titles = (_find_description(row) or {}).get("title", ())
    # a hidden description is for its own page to show, after a check of the access
    title = next(iter(titles), None) if row.access_others != "none" else None
    is_here = row.state in (State.ORIGINAL.value, State.COPY.value)
    removed = row.state == State.DELETED.value
    return RelatedItem(kind, _name(row), row.rep, row.ibip, title, row.language, is_here, removed)


def _find_description(row: Row[Any]) -> DublinCore | None:
    own = row.dublin_core
    if own is None and row.described_access != "none":
        own = row.described
    return None if own is None else parse_elements(own)


def _name(row: Row[Any]) -> str:
    return str(row.rep or row.ibip)


# The statements are cached: SQLAlchemy needs more time to build them than to run them.


@cache
def _items() -> Any:
    """Select the item with an identifier, its editions, its translations, and its metadata."""
    base = (
        select(
            Item.id,
            Item.archive_id,
            Item.edition_series_id,
            Item.translation_group_id,
            Item.metadata_item_id,
        )
        .join(ItemIdentifier, ItemIdentifier.item_id == Item.id)
        .where(
            ItemIdentifier.text == bindparam("ibi"),
            ItemIdentifier.archive_id == bindparam("archive_id"),
        )
        .cte("base")
    )
    edition, member, name = aliased(Item), aliased(Item), aliased(ItemIdentifier)
    successor = (
        select(name.item_id)
        .join(TombstoneRow, TombstoneRow.successor == name.text)
        .join(base, base.c.id == TombstoneRow.item_id)
        .where(name.archive_id == base.c.archive_id)
    )
    ids = union(
        select(base.c.id),
        select(base.c.metadata_item_id),
        select(edition.id).join(base, base.c.edition_series_id == edition.edition_series_id),
        select(member.id).join(base, base.c.translation_group_id == member.translation_group_id),
        successor,
    ).cte("ids")
    metadata = aliased(Item)
    return (
        select(
            Item.__table__,
            select(base.c.id).scalar_subquery().label("base_id"),
            successor.limit(1).scalar_subquery().label("successor_id"),
            TranslationGroup.head_item_id,
            metadata.dublin_core.label("described"),
            metadata.language.label("described_language"),
            metadata.access_others.label("described_access"),
            TombstoneRow.reason,
            TombstoneRow.citation,
            TombstoneRow.successor,
            TombstoneRow.original_archive.label("removed_to"),
        )
        .join(ids, ids.c.id == Item.id)
        .outerjoin(
            metadata,
            # a removed metadata item describes only itself
            and_(metadata.id == Item.metadata_item_id, metadata.state != State.DELETED.value),
        )
        .outerjoin(TranslationGroup, TranslationGroup.id == Item.translation_group_id)
        .outerjoin(TombstoneRow, TombstoneRow.item_id == Item.id)
    )


@cache
def _parts() -> Any:
    """Select the aliases and the files of an item."""
    item_id: Any = bindparam("item_id")
    aliases = select(
        literal(1, Key).label("is_alias"),
        ItemIdentifier.alias_no.label("position"),
        cast(ItemIdentifier.text, Text).label("text"),
        _nothing(Text).label("url"),
        _nothing(String).label("sha256"),
        _nothing(Key).label("size"),
    ).where(ItemIdentifier.item_id == item_id, ItemIdentifier.alias_no > 0)
    files = select(
        literal(0, Key), File.position, File.path, File.url, File.sha256, File.size
    ).where(File.item_id == item_id)
    return union_all(aliases, files).order_by("is_alias", "position")


def _nothing(type: Any) -> ColumnElement[Any]:
    return cast(null(), type)
