"""Reads items back from the database, as records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Row,
    and_,
    bindparam,
    func,
    or_,
    select,
)
from sqlalchemy.orm import aliased

from flask_ibi_archive.records.record import (
    AccessRule,
    DublinCoreMetadata,
    FileRecord,
    ItemRecord,
    MetadataAddress,
    MetadataItem,
    Tombstone,
)
from flask_ibi_archive.storage.links import Links
from flask_ibi_archive.storage.models import File, Item, ItemIdentifier, TranslationGroup
from flask_ibi_archive.storage.states import ELSEWHERE, State
from flask_ibi_archive.storage.tombstones import read_tombstones

#: The items that are listed and exported: no stubs, and not the service.
LISTED = (Item.state != ELSEWHERE, ~Item.is_service)


class ItemReader(Links):
    """The items of one Archive, as records.

    :param source_of: tells where a file's content is kept, by its checksum, for the records read.
    """

    def __init__(
        self,
        connection: Connection,
        archive_id: int,
        source_of: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__(connection, archive_id)
        self.source_of = source_of

    def read_records(
        self, after: int = 0, limit: int = 500, where: Sequence[ColumnElement[bool]] = ()
    ) -> list[tuple[int, ItemRecord]]:
        """Return items in the order they came, with their rows: those after a row, the service left
        out.

        :param where: further conditions, as of :func:`..searching.select_items`.
        """
        return self._read(and_(Item.id > after, *LISTED, *where), limit=limit)

    def count_records(self) -> int:
        """Return how many items :meth:`read_records` reads in all."""
        return self.connection.scalars(
            select(func.count()).where(Item.archive_id == self.archive_id, *LISTED)
        ).one()

    def read_record(self, item_id: int) -> ItemRecord:
        """Return one item, the service too."""
        return self._read(Item.id == item_id, limit=1)[0][1]

    def _read(self, condition: Any, limit: int) -> list[tuple[int, ItemRecord]]:
        rows = self.connection.execute(
            select(Item.__table__)
            .where(Item.archive_id == self.archive_id, condition)
            .order_by(Item.id)
            .limit(limit)
        ).all()
        ids = [row.id for row in rows]
        aliases = self._lists(
            select(ItemIdentifier.item_id, ItemIdentifier.text)
            .where(ItemIdentifier.item_id.in_(ids), ItemIdentifier.alias_no > 0)
            .order_by(ItemIdentifier.item_id, ItemIdentifier.alias_no)
        )
        files = self._lists(
            select(File.item_id, File.path, File.url, File.sha256, File.size)
            .where(File.item_id.in_(ids))
            .order_by(File.item_id, File.position)
        )
        editions = self._next_editions(ids)
        translations = self._translations(ids)
        metadata = self._names({row.metadata_item_id for row in rows} - {None})
        tombstones = read_tombstones(
            self.connection, [row.id for row in rows if row.state == State.DELETED.value]
        )
        return [
            (
                row.id,
                _record(
                    row,
                    tuple(alias.text for alias in aliases.get(row.id, [])),
                    tuple(self._file(file) for file in files.get(row.id, [])),
                    editions.get(row.id),
                    translations.get(row.id, {}),
                    metadata.get(row.metadata_item_id),
                    tombstones.get(row.id),
                ),
            )
            for row in rows
        ]

    def _lists(self, statement: Executable) -> dict[int, list[Row[Any]]]:
        found: dict[int, list[Row[Any]]] = {}
        for row in self.connection.execute(statement):
            found.setdefault(row.item_id, []).append(row)
        return found

    def _file(self, row: Row[Any]) -> FileRecord:
        source = None
        if row.size is not None and self.source_of is not None:
            source = self.source_of(row.sha256)
        return FileRecord(row.path, row.url, source, row.sha256)

    def _names(self, ids: set[int]) -> dict[int, str]:
        rows = self.connection.execute(
            select(Item.id, func.coalesce(Item.rep, Item.ibip)).where(Item.id.in_(ids))
        )
        return {row.id: row[1] for row in rows}

    def _next_editions(self, ids: list[int]) -> dict[int, str]:
        rows = self.connection.execute(_next_editions(), {"ids": ids})
        return {item_id: name for item_id, name in rows if name is not None}

    def _translations(self, ids: list[int]) -> dict[int, dict[str, str]]:
        found: dict[int, dict[str, str]] = {}
        for row in self.connection.execute(_translations(), {"ids": ids}):
            found.setdefault(row.id, {})[str(row.language)] = row[2]
        return found


# made once: to make them takes longer than to run them


@cache
def _next_editions() -> Any:
    later = aliased(Item)
    following = (
        select(func.coalesce(later.rep, later.ibip))
        .where(
            later.edition_series_id == Item.edition_series_id,
            later.edition_no > Item.edition_no,
        )
        .order_by(later.edition_no)
        .limit(1)
        .scalar_subquery()
    )
    return select(Item.id, following).where(
        Item.id.in_(bindparam("ids", expanding=True)), Item.edition_series_id.is_not(None)
    )


@cache
def _translations() -> Any:
    member = aliased(Item)
    return (
        select(Item.id, member.language, func.coalesce(member.rep, member.ibip))
        .join(TranslationGroup, TranslationGroup.id == Item.translation_group_id)
        .join(member, member.translation_group_id == TranslationGroup.id)
        .where(
            Item.id.in_(bindparam("ids", expanding=True)),
            # no other record can list a member that states no language
            or_(Item.id == TranslationGroup.head_item_id, Item.language.is_(None)),
            member.id != Item.id,
            member.language.is_not(None),
        )
        .order_by(member.language)
    )


def _record(
    row: Any,
    aliases: tuple[str, ...],
    files: tuple[FileRecord, ...],
    next_edition: str | None,
    translations: Mapping[str, str],
    metadata_name: str | None,
    tombstone: Tombstone | None,
) -> ItemRecord:
    metadata: MetadataItem | DublinCoreMetadata | MetadataAddress | None = None
    if metadata_name is not None:
        metadata = MetadataItem(metadata_name)
    elif row.dublin_core is not None:
        metadata = DublinCoreMetadata(read_dublin_core(row.dublin_core))
    elif row.metadata_url is not None:
        metadata = MetadataAddress(
            row.metadata_url, row.metadata_formats or {}, row.metadata_timestamp
        )
    access = None
    if row.access_networks is not None:
        access = AccessRule(tuple(row.access_networks.split()), row.access_others)
    first = files[0].path if files else None
    return ItemRecord(
        rep=row.rep,
        ibip=row.ibip,
        aliases=aliases,
        state=row.state,
        original_archive=row.original_archive,
        timestamp=row.timestamp,
        content_type=row.content_type,
        language=row.language,
        transferable=row.transferable,
        next_edition=next_edition,
        translations=translations,
        metadata=metadata,
        formats=row.formats or {},
        files=files,
        target_file=None if row.target_path == first else row.target_path,
        list_files=row.list_files,
        access=access,
        tombstone=tombstone,
    )


def read_dublin_core(stored: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    """Return Dublin Core as it is kept in the database: values with their languages."""
    return {
        element: tuple(
            (value["value"], value.get("lang")) if isinstance(value, dict) else (value, None)
            for value in values
        )
        for element, values in stored.items()
    }
