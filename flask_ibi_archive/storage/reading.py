"""Reads items from the database as records, and searches for items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from logging import getLogger
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
from sqlalchemy.exc import DataError
from sqlalchemy.orm import aliased

from flask_ibi_archive.protocol.states import ELSEWHERE, State
from flask_ibi_archive.records.record import (
    AccessRule,
    DublinCore,
    DublinCoreMetadata,
    FileRecord,
    MetadataAddress,
    MetadataItem,
    Record,
    Text,
    Tombstone,
)
from flask_ibi_archive.storage.dialects import is_one_of
from flask_ibi_archive.storage.models import (
    File,
    Item,
    ItemIdentifier,
    TombstoneRow,
    TranslationGroup,
)

#: The conditions for items that are listed and exported. Stubs and the service are not listed.
LISTED = (Item.state != ELSEWHERE, ~Item.is_service)
#: The exceptions that are raised if a value in a row is malformed.
MALFORMED = (ValueError, TypeError, AttributeError, LookupError, DataError)
#: A function that gets the identifier of an item with a malformed row, and the error.
OnMalformed = Callable[[str, Exception], None]
log = getLogger("flask_ibi_archive.storage")


def log_malformed(ibi: str, error: Exception) -> None:
    """Log that an item is left out, because its row is malformed."""
    log.error("the row of the item %s is malformed: %s", ibi, error)


class ItemReader:
    """Reads the items of one Archive as records.

    :param get_source: a function that returns the path of the stored file with a checksum. The path
        becomes the field ``source`` of the file. None: the field is empty.
    :param on_malformed: called with each of several items that cannot be read.
    """

    def __init__(
        self,
        connection: Connection,
        archive_id: int,
        get_source: Callable[[str], str] | None = None,
        on_malformed: OnMalformed = log_malformed,
    ) -> None:
        self.connection = connection
        self.archive_id = archive_id
        self.get_source = get_source
        self.on_malformed = on_malformed

    def read_records(
        self, after: int = 0, limit: int = 500, where: Sequence[ColumnElement[bool]] = ()
    ) -> list[tuple[int, Record | None]]:
        """Return the ids and the records of items, sorted by id.

        The service of the Archive is not returned. The record is None if its row is malformed.

        :param after: the method reads only items whose id is higher than this number.
        :param limit: the largest number of items.
        :param where: more conditions; see :func:`..item_search.select_items`.
        """
        return self._read(and_(Item.id > after, *LISTED, *where), limit=limit)

    def count_records(self) -> int:
        """Return the number of items that can be listed: all except stubs and the service."""
        return self.connection.scalars(
            select(func.count()).where(Item.archive_id == self.archive_id, *LISTED)
        ).one()

    def read_record(self, item_id: int) -> Record:
        """Return the record of one item. The item may be the service of the Archive."""
        return self._read_all(Item.id == item_id, limit=1)[0][1]

    def read_items(self, item_ids: Sequence[int]) -> dict[int, Record | None]:
        """Return the records of items by their ids, with a constant number of statements.

        The record is None if its row is malformed.
        """
        return dict(self._read(is_one_of(self.connection, Item.id, item_ids), limit=len(item_ids)))

    def read_metadata(
        self, item_ids: Sequence[int]
    ) -> dict[int, tuple[DublinCore, str | None] | None]:
        """Return Dublin Core and language of public metadata items, by the described ids.

        The value is None if the row of the metadata item is malformed.
        """
        try:
            return self._read_metadata(item_ids)
        except MALFORMED as error:
            if len(item_ids) == 1:
                self.on_malformed(self._names({*item_ids})[item_ids[0]], error)
                return {item_ids[0]: None}
        return {key: value for one in item_ids for key, value in self.read_metadata([one]).items()}

    def _read_metadata(
        self, item_ids: Sequence[int]
    ) -> dict[int, tuple[DublinCore, str | None] | None]:
        metadata = aliased(Item)
        rows = self.connection.execute(
            select(Item.id, metadata.dublin_core, metadata.language)
            .join(metadata, metadata.id == Item.metadata_item_id)
            .where(
                Item.id.in_(item_ids),
                metadata.dublin_core.is_not(None),
                metadata.state != State.DELETED.value,
                func.coalesce(metadata.access_others, "") != "none",
            )
        )
        return {row.id: (parse_elements(row.dublin_core), row.language) for row in rows}

    def _read(self, condition: Any, limit: int) -> list[tuple[int, Record | None]]:
        """Return the ids and the records of items; None instead of the record of a malformed row.

        If a row is malformed, the items are read one by one.
        """
        try:
            return [*self._read_all(condition, limit)]
        except MALFORMED:
            named = self.connection.execute(
                select(Item.id, func.coalesce(Item.rep, Item.ibip))
                .where(Item.archive_id == self.archive_id, condition)
                .order_by(Item.id)
                .limit(limit)
            ).all()
            return [(item_id, self._try_to_read(item_id, ibi)) for item_id, ibi in named]

    def _try_to_read(self, item_id: int, ibi: str) -> Record | None:
        try:
            return self.read_record(item_id)
        except MALFORMED as error:
            self.on_malformed(ibi, error)
            return None

    def _read_all(self, condition: Any, limit: int) -> list[tuple[int, Record]]:
        rows = self.connection.execute(
            select(Item.__table__)
            .where(Item.archive_id == self.archive_id, condition)
            .order_by(Item.id)
            .limit(limit)
        ).all()
        ids = [row.id for row in rows]
        aliases = self._lists(
            select(ItemIdentifier.item_id, ItemIdentifier.text)
            .where(
                is_one_of(self.connection, ItemIdentifier.item_id, ids), ItemIdentifier.alias_no > 0
            )
            .order_by(ItemIdentifier.item_id, ItemIdentifier.alias_no)
        )
        files = self._lists(
            select(File.item_id, File.path, File.url, File.sha256, File.size)
            .where(is_one_of(self.connection, File.item_id, ids))
            .order_by(File.item_id, File.position)
        )
        editions = self._next_editions([row.id for row in rows if row.edition_series_id])
        translations = self._translations([row.id for row in rows if row.translation_group_id])
        metadata = self._names({row.metadata_item_id for row in rows} - {None})
        tombstones = self._tombstones([row.id for row in rows if row.state == State.DELETED.value])
        return [
            (
                row.id,
                make_record(
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
        if row.size is not None and self.get_source is not None:
            source = self.get_source(row.sha256)
        return FileRecord(row.path, row.url, source, row.sha256)

    def _names(self, ids: set[int]) -> dict[int, str]:
        if not ids:
            return {}
        rows = self.connection.execute(
            select(Item.id, func.coalesce(Item.rep, Item.ibip)).where(Item.id.in_(ids))
        )
        return {row.id: row[1] for row in rows}

    def _next_editions(self, ids: list[int]) -> dict[int, str]:
        if not ids:
            return {}
        rows = self.connection.execute(_next_editions(), {"ids": ids})
        return {item_id: name for item_id, name in rows if name is not None}

    def _translations(self, ids: list[int]) -> dict[int, dict[str, str]]:
        found: dict[int, dict[str, str]] = {}
        if not ids:
            return found
        for row in self.connection.execute(_translations(), {"ids": ids}):
            found.setdefault(row.id, {})[str(row.language)] = row[2]
        return found

    def _tombstones(self, ids: Sequence[int]) -> dict[int, Tombstone]:
        if not ids:
            return {}
        rows = self.connection.execute(
            select(
                TombstoneRow.item_id,
                TombstoneRow.reason,
                TombstoneRow.citation,
                TombstoneRow.successor,
                TombstoneRow.original_archive,
            ).where(TombstoneRow.item_id.in_(ids))
        )
        return {
            row.item_id: Tombstone(row.reason, row.citation, row.successor, row.original_archive)
            for row in rows
        }


# The results are cached: SQLAlchemy needs more time to build these statements than to run them.


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
            # an item without a language cannot be listed in the records of other items
            or_(Item.id == TranslationGroup.head_item_id, Item.language.is_(None)),
            member.id != Item.id,
            member.language.is_not(None),
        )
        .order_by(member.language)
    )


def make_record(
    row: Any,
    aliases: tuple[str, ...],
    files: tuple[FileRecord, ...],
    next_edition: str | None,
    translations: Mapping[str, str],
    metadata_name: str | None,
    tombstone: Tombstone | None,
) -> Record:
    """Return the record of an item.

    :param row: the columns of the item.
    :param metadata_name: the identifier of the metadata item, or None.
    """
    access = None
    if row.access_networks is not None:
        access = AccessRule(tuple(row.access_networks.split()), row.access_others)
    first = files[0].path if files else None
    return Record(
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
        metadata=_metadata(row, metadata_name),
        formats=dict(row.formats or {}),
        files=files,
        target_file=None if row.target_path == first else row.target_path,
        list_files=row.list_files,
        access=access,
        embargo=row.embargo,
        tombstone=tombstone,
    )


def _metadata(
    row: Any, metadata_name: str | None
) -> MetadataItem | DublinCoreMetadata | MetadataAddress | None:
    if metadata_name is not None:
        return MetadataItem(metadata_name)
    if row.dublin_core is not None:
        return DublinCoreMetadata(parse_elements(row.dublin_core))
    if row.metadata_url is not None:
        return MetadataAddress(row.metadata_url, row.metadata_formats or {}, row.metadata_timestamp)
    return None


def parse_elements(stored: Mapping[str, list[Any]]) -> DublinCore:
    """Return the Dublin Core that a column contains.

    :raises ValueError: if the column is malformed.
    """
    return {element: tuple(map(_parse_value, values)) for element, values in stored.items()}


def _parse_value(value: Any) -> Text:
    text, language = (
        (value, None) if isinstance(value, str) else (value["value"], value.get("lang"))
    )
    if not isinstance(text, str) or not isinstance(language, str | None):
        raise ValueError(f"{text!r} is not a text")
    return text, language
