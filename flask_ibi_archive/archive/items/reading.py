"""Reads items from the database: the only place where rows become records.

Two statements read any number of items with all that belongs to them. The first selects the items
themselves. The second selects the parts of these items: aliases, files and related items. A
urlRequest reads less, with one statement (``archive/service/catalogue_sql.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    case,
    func,
    select,
)
from sqlalchemy.orm import aliased

from flask_ibi_archive.archive.items.conditions import LISTED, describes
from flask_ibi_archive.archive.items.item_parts import ItemParts, parse_elements
from flask_ibi_archive.archive.items.tables import (
    Item,
    ItemIdentifier,
    TombstoneRow,
    TranslationGroup,
)
from flask_ibi_archive.core.protocol.states import ELSEWHERE
from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.core.records.parse_description import parse_description
from flask_ibi_archive.core.records.record import (
    AccessRule,
    DublinCoreMetadata,
    FileRecord,
    MetadataAddress,
    MetadataItem,
    Record,
    RelatedItem,
    Tombstone,
)
from flask_ibi_archive.server.database.dialects import is_one_of


class ItemReader:
    """Reads the items of one Archive.

    :param get_source: a function that returns the path of the stored file with a checksum. The path
        becomes the field ``source`` of the file. None: the field is empty.
    :param today: the current day (UTC), on which embargoes depend. By default, no embargo has
        ended.
    :param with_descriptions: True: also read descriptions from other items: that of the metadata
        item, and the titles of the related items. Exports do not need them.
    """

    def __init__(
        self,
        connection: Connection,
        archive_id: int,
        get_source: Callable[[str], str] | None = None,
        today: date = date.min,
        with_descriptions: bool = False,
    ) -> None:
        self.connection = connection
        self.archive_id = archive_id
        self.get_source = get_source
        self.today = today
        self.with_descriptions = with_descriptions

    def count_records(self) -> int:
        """Return the number of items that can be listed: all except stubs and the service."""
        return self.connection.scalars(
            select(func.count()).where(Item.archive_id == self.archive_id, *LISTED)
        ).one()

    def find_item(self, ibi: str) -> ItemView | None:
        """Return the item that has an identifier; None if this Archive has no such item.

        :param ibi: the identifier in canonical case.
        """
        owner = select(ItemIdentifier.item_id).where(
            ItemIdentifier.text == ibi, ItemIdentifier.archive_id == self.archive_id
        )
        where = (Item.id == owner.scalar_subquery(), Item.state != ELSEWHERE)
        return next(self._read(where, 1), None)

    def read_record(self, item_id: int) -> Record:
        """Return the record of one item. The item may be the service of the Archive."""
        [item] = self._read((Item.id == item_id,), 1)
        return item.record

    def read_items(
        self, item_ids: Sequence[int], *where: ColumnElement[bool]
    ) -> dict[int, ItemView]:
        """Return the items with some ids, in the order of the ids.

        :param where: more conditions; see :func:`.select_items`.
        """
        where = (is_one_of(self.connection, Item.id, item_ids), *where)
        return self._read_all(where, len(item_ids))

    def read_listed(
        self, after: int, limit: int, where: Iterable[ColumnElement[bool]] = ()
    ) -> dict[int, ItemView]:
        """Return items except the service by their ids, in the order of the ids.

        :param after: the method reads only items whose id is higher than this number.
        :param limit: the largest number of items.
        :param where: more conditions; see :func:`.select_items`.
        """
        return self._read_all((Item.id > after, *LISTED, *where), limit)

    def _read_all(self, where: Iterable[ColumnElement[bool]], limit: int) -> dict[int, ItemView]:
        return {int(item.id or 0): item for item in self._read(where, limit)}

    def _read(self, where: Iterable[ColumnElement[bool]], limit: int) -> Iterator[ItemView]:
        """Yield items in the order of their ids."""
        rows = self.connection.execute(
            _select_items(self.with_descriptions)
            .where(Item.archive_id == self.archive_id, *where)
            .order_by(Item.id)
            .limit(limit)
        ).all()
        if rows:
            parts = ItemParts(self.connection, self.archive_id, rows, self.with_descriptions)
            yield from [self._make_item(row, parts) for row in rows]

    def _make_item(self, row: Row[Any], parts: ItemParts) -> ItemView:
        related = tuple(parts.list_related(row))
        files = parts.list_parts("file", row.id)
        record = _make_record(
            row,
            tuple(part.text for part in parts.list_parts("alias", row.id)),
            tuple(part.text for part in parts.list_parts("same_as", row.id)),
            tuple(map(self._make_file, files)),
            related,
        )
        described = row.described if self.with_descriptions else None
        return ItemView(
            record,
            row.is_service,
            self.today,
            None if described is None else _read_stored(described, row.described_work),
            row.described_language if self.with_descriptions else None,
            related,
            {part.text: part.size for part in files if part.size is not None},
            row.id,
            parts.find_head(row),
        )

    def _make_file(self, part: Row[Any]) -> FileRecord:
        source = None
        if part.size is not None and self.get_source is not None:
            source = self.get_source(part.sha256)
        return FileRecord(part.text, part.url, source, part.sha256)


# cached: SQLAlchemy needs more time to build the statement than to run it
@cache
def _select_items(with_descriptions: bool) -> Select[Any]:
    """Select items, each with its tombstone and the name of its metadata item."""
    metadata = aliased(Item)
    described = [
        case((describes(metadata), metadata.dublin_core)).label("described"),
        case((describes(metadata), metadata.work)).label("described_work"),
        case((describes(metadata), metadata.language)).label("described_language"),
    ]
    return (
        select(
            Item.__table__,
            func.coalesce(metadata.rep, metadata.ibip).label("metadata_name"),
            TranslationGroup.head_item_id,
            TombstoneRow.reason,
            TombstoneRow.citation,
            TombstoneRow.successor,
            TombstoneRow.original_archive.label("removed_to"),
            *(described if with_descriptions else ()),
        )
        .outerjoin(metadata, metadata.id == Item.metadata_item_id)
        .outerjoin(TranslationGroup, TranslationGroup.id == Item.translation_group_id)
        .outerjoin(TombstoneRow, TombstoneRow.item_id == Item.id)
    )


def _make_record(
    row: Any,
    aliases: tuple[str, ...],
    same_as: tuple[str, ...],
    files: tuple[FileRecord, ...],
    related: Sequence[RelatedItem],
) -> Record:
    """Return the record of an item.

    :param row: the columns of the item.
    :param related: the related items, from :meth:`ItemParts.list_related`.
    """
    access = tombstone = None
    if row.access_networks is not None:
        access = AccessRule(tuple(row.access_networks.split()), row.access_others)
    if row.reason is not None:
        tombstone = Tombstone(row.reason, row.citation, row.successor, row.removed_to)
    # only the record of the head of a group lists the translations; an item without a language
    # cannot be listed in the records of other items
    lists_translations = row.id == row.head_item_id or row.language is None
    first = files[0].path if files else None
    return Record(
        rep=row.rep,
        ibip=row.ibip,
        aliases=aliases,
        same_as=same_as,
        state=row.state,
        original_archive=row.original_archive,
        timestamp=row.timestamp,
        content_type=row.content_type,
        language=row.language,
        transferable=row.transferable,
        next_edition=next((other.ibi for other in related if other.kind == "later_edition"), None),
        translations={
            str(other.language): other.ibi
            for other in related
            if lists_translations and other.kind == "translation"
        },
        metadata=_find_metadata(row),
        formats=dict(row.formats or {}),
        files=files,
        target_file=None if row.target_path == first else row.target_path,
        list_files=row.list_files,
        access=access,
        embargo=row.embargo,
        tombstone=tombstone,
        key=row.host_key,
    )


def _find_metadata(row: Any) -> MetadataItem | DublinCoreMetadata | MetadataAddress | None:
    if row.metadata_name is not None:
        return MetadataItem(row.metadata_name)
    if row.dublin_core is not None:
        return _read_stored(row.dublin_core, row.work)
    if row.metadata_url is not None:
        return MetadataAddress(row.metadata_url, row.metadata_formats or {}, row.metadata_timestamp)
    return None


def _read_stored(dublin_core: Any, work: Any) -> DublinCoreMetadata:
    """Return the metadata in two columns; ``work`` is None if there is Dublin Core only."""
    description = None if work is None else parse_description("work", work)
    return DublinCoreMetadata(parse_elements(dublin_core), description)
