"""Writes items to the database and reads them back, as records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Executable, Row, and_, delete, func, insert, or_, select, update
from sqlalchemy.orm import aliased

from flask_ibi_archive.errors import RuleBroken
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.records.format import format_dublin_core
from flask_ibi_archive.records.record import (
    AccessRule,
    DublinCoreMetadata,
    FileRecord,
    ItemRecord,
    MetadataAddress,
    MetadataItem,
)
from flask_ibi_archive.storage.links import Links
from flask_ibi_archive.storage.models import Archive, File, Item, ItemIdentifier, TranslationGroup
from flask_ibi_archive.storage.states import ELSEWHERE, State


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file as it is kept: its checksum (SHA-256, hexadecimal) and its bytes."""

    sha256: str
    size: int


#: What was taken in of the files of a record, by their paths.
Contents = Mapping[str, Content]


class ItemStore(Links):
    """The items of one Archive, inside the caller's transaction: nothing here commits.

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

    # --- checks, so that an error can name the item -------------------------------------------------

    def newest_item(self) -> int:
        """Give the row of the item that came last, of whatever Archive."""
        return self.connection.execute(select(func.max(Item.id))).scalar() or 0

    def is_service(self, item_id: int) -> bool:
        """Tell whether an item is the service of the Archive."""
        return bool(
            self.connection.execute(select(Item.is_service).where(Item.id == item_id)).scalar()
        )

    def originals_elsewhere(self, identifiers: Sequence[str]) -> set[str]:
        """Give those identifiers whose Original another Archive of the database holds (rule 3)."""
        return set(
            self.connection.scalars(
                select(ItemIdentifier.text).where(
                    ItemIdentifier.text.in_(identifiers),
                    ItemIdentifier.state == State.ORIGINAL.value,
                    ItemIdentifier.archive_id != self.archive_id,
                )
            )
        )

    def check_copy(self, record: ItemRecord) -> None:
        """Check that the Archive a Copy names holds its Original, if it lives in this database.

        :raises RuleBroken: rule 4.
        """
        if record.original_archive is None:
            return
        service = aliased(ItemIdentifier)
        archive_id = self.connection.execute(
            select(Archive.id)
            .join(service, service.item_id == Archive.service_item_id)
            .where(service.text == record.original_archive)
        ).scalar()
        if archive_id is None:
            return
        ibi = record.identifiers[0]
        if archive_id == self.archive_id:
            raise RuleBroken(4, ibi, "a Copy can't name its own Archive as that of its Original")
        forms = [text for text in (record.rep, record.ibip) if text is not None]
        found = self.connection.execute(
            select(ItemIdentifier.item_id).where(
                ItemIdentifier.archive_id == archive_id,
                ItemIdentifier.text.in_(forms),
                ItemIdentifier.state == State.ORIGINAL.value,
            )
        ).first()
        if found is None:
            raise RuleBroken(
                4, ibi, f"the Archive {record.original_archive} holds no Original of this Copy"
            )

    def check_copies(self, item_id: int, record: ItemRecord) -> None:
        """Check that an Original that Archives of this database hold Copies of stays one.

        :raises RuleBroken: rule 4, naming those Archives.
        """
        if record.state == State.ORIGINAL.value:
            return
        mine, theirs = aliased(ItemIdentifier), aliased(ItemIdentifier)
        own_service, their_service = aliased(ItemIdentifier), aliased(Item)
        holders = self.connection.scalars(
            select(func.coalesce(their_service.rep, their_service.ibip))
            .select_from(mine)
            .join(theirs, and_(theirs.text == mine.text, theirs.state == State.COPY.value))
            .join(Item, Item.id == theirs.item_id)
            .join(own_service, own_service.text == Item.original_archive)
            .join(
                Archive,
                and_(Archive.service_item_id == own_service.item_id, Archive.id == self.archive_id),
            )
            .join(
                their_service,
                and_(their_service.archive_id == theirs.archive_id, their_service.is_service),
            )
            .where(mine.item_id == item_id)
            .distinct()
        ).all()
        if holders:
            raise RuleBroken(
                4,
                record.identifiers[0],
                f"it is the Original of Copies in {', '.join(sorted(map(str, holders)))}; they go first",
            )

    # --- writing ------------------------------------------------------------------------------------

    def insert_items(
        self,
        records: Sequence[ItemRecord],
        contents: Sequence[Contents],
        now: datetime,
        is_service: bool = False,
    ) -> list[int]:
        """Write new items, without what ties them to others (:meth:`tie`).

        :param contents: for each record, what was taken in of its files.
        :returns: the row of each, in order.
        """
        if not records:
            return []
        values = [
            {**self._columns(record, now), "archive_id": self.archive_id, "is_service": is_service}
            for record in records
        ]
        ids = list(
            self.connection.scalars(
                insert(Item).returning(Item.id, sort_by_parameter_order=True), values
            )
        )
        identifiers = [
            self._identifier(record, item_id, text)
            for item_id, record in zip(ids, records, strict=True)
            for text in record.identifiers
        ]
        self.connection.execute(insert(ItemIdentifier), identifiers)
        files = [
            row
            for item_id, record, content in zip(ids, records, contents, strict=True)
            for row in _file_rows(item_id, record, content)
        ]
        if files:
            self.connection.execute(insert(File), files)
        return ids

    def replace_item(
        self, item_id: int, record: ItemRecord, contents: Contents, now: datetime
    ) -> None:
        """Write a record over an item, or over the mention of one, without what ties it to others.

        Other mentions of it are merged into it. All of them have left their groups of translations before
        (:meth:`leave_translations`).
        """
        ibi = record.identifiers[0]
        contents = {**self._kept_contents(item_id, record), **contents}
        self.connection.execute(delete(File).where(File.item_id == item_id))
        self.connection.execute(
            update(Item).where(Item.id == item_id).values(**self._columns(record, now))
        )
        known = self.owners(record.identifiers)
        for other in {owner for owner, _ in known.values()} - {item_id}:
            self.merge_mention(other, item_id, ibi)
        self.connection.execute(
            delete(ItemIdentifier).where(
                ItemIdentifier.item_id == item_id,
                ItemIdentifier.text.not_in(record.identifiers),
            )
        )
        for text in record.identifiers:
            values = self._identifier(record, item_id, text)
            if text in known:
                self.connection.execute(
                    update(ItemIdentifier)
                    .where(ItemIdentifier.item_id == item_id, ItemIdentifier.text == text)
                    .values(alias_no=values["alias_no"])
                )
            else:
                self.connection.execute(insert(ItemIdentifier).values(**values))
        files = _file_rows(item_id, record, contents)
        if files:
            self.connection.execute(insert(File), files)

    def _kept_contents(self, item_id: int, record: ItemRecord) -> dict[str, Content]:
        """Give the contents that an item has of files which its new record only names."""
        rows = self.connection.execute(
            select(File.path, File.sha256, File.size).where(
                File.item_id == item_id, File.size.is_not(None)
            )
        )
        kept = {row.path: Content(str(row.sha256), int(row.size or 0)) for row in rows}
        return {
            file.path: kept[file.path]
            for file in record.files
            if file.path in kept
            and file.url is None
            and file.sha256 in (None, kept[file.path].sha256)
        }

    def tie(self, item_id: int, record: ItemRecord) -> None:
        """Tie an item to those that its record speaks of: next edition, translations, metadata.

        :raises RuleBroken: rule 7 or 8.
        """
        ibi = record.identifiers[0]
        if isinstance(record.metadata, MetadataItem):
            self.connection.execute(
                update(Item)
                .where(Item.id == item_id)
                .values(metadata_item_id=self.mention(record.metadata.ibi))
            )
        if record.next_edition is not None:
            self.link_editions(item_id, self.mention(record.next_edition), ibi)
        if record.translations:
            members = {
                language: self.mention(other) for language, other in record.translations.items()
            }
            self.join_translations(item_id, members, ibi)

    def untie(self, item_id: int) -> None:
        """Take back what an item's record said of others, before another record is written over it."""
        self.connection.execute(
            update(Item).where(Item.id == item_id).values(metadata_item_id=None)
        )
        self.unlink_next_edition(item_id)
        self.dissolve_translations(item_id)

    def _columns(self, record: ItemRecord, now: datetime) -> dict[str, Any]:
        metadata = record.metadata
        at_address = metadata if isinstance(metadata, MetadataAddress) else None
        return {
            "state": record.state,
            "rep": record.rep,
            "ibip": record.ibip,
            "timestamp": record.timestamp or now,
            "content_type": record.content_type,
            "language": record.language,
            "transferable": record.transferable,
            "original_archive": record.original_archive,
            "metadata_url": at_address and at_address.url,
            "metadata_formats": at_address and (dict(at_address.formats) or None),
            "metadata_timestamp": at_address and at_address.timestamp,
            "dublin_core": (
                format_dublin_core(metadata.elements)
                if isinstance(metadata, DublinCoreMetadata)
                else None
            ),
            "formats": dict(record.formats) or None,
            "target_path": record.target_path,
            "list_files": record.list_files,
            "access_networks": record.access and " ".join(record.access.networks),
            "access_others": record.access and record.access.others,
        }

    def _identifier(self, record: ItemRecord, item_id: int, text: str) -> dict[str, Any]:
        return {
            "text": text,
            "archive_id": self.archive_id,
            "item_id": item_id,
            "state": record.state,
            "form": parse_identifier(text).form.value,
            "alias_no": record.aliases.index(text) + 1 if text in record.aliases else 0,
        }

    # --- reading ------------------------------------------------------------------------------------

    def read_records(self, after: int = 0, limit: int = 500) -> list[tuple[int, ItemRecord]]:
        """Give items in the order they came, with their rows: those after a row, the service left out."""
        return self._read(
            and_(Item.id > after, Item.state != ELSEWHERE, ~Item.is_service), limit=limit
        )

    def read_record(self, item_id: int) -> ItemRecord:
        """Give one item, the service too."""
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
        rows = self.connection.execute(
            select(Item.id, following).where(Item.id.in_(ids), Item.edition_series_id.is_not(None))
        )
        return {item_id: name for item_id, name in rows if name is not None}

    def _translations(self, ids: list[int]) -> dict[int, dict[str, str]]:
        member = aliased(Item)
        rows = self.connection.execute(
            select(Item.id, member.language, func.coalesce(member.rep, member.ibip))
            .join(TranslationGroup, TranslationGroup.id == Item.translation_group_id)
            .join(member, member.translation_group_id == TranslationGroup.id)
            .where(
                Item.id.in_(ids),
                # no other record can list a member that states no language
                or_(Item.id == TranslationGroup.head_item_id, Item.language.is_(None)),
                member.id != Item.id,
                member.language.is_not(None),
            )
            .order_by(member.language)
        )
        found: dict[int, dict[str, str]] = {}
        for row in rows:
            found.setdefault(row.id, {})[str(row.language)] = row[2]
        return found


def _file_rows(item_id: int, record: ItemRecord, contents: Contents) -> list[dict[str, Any]]:
    rows = []
    for position, file in enumerate(record.files):
        content = contents.get(file.path)
        rows.append(
            {
                "item_id": item_id,
                "path": file.path,
                "position": position,
                "url": file.url,
                "sha256": content.sha256 if content else file.sha256,
                "size": content.size if content else None,
            }
        )
    return rows


def _record(
    row: Any,
    aliases: tuple[str, ...],
    files: tuple[FileRecord, ...],
    next_edition: str | None,
    translations: Mapping[str, str],
    metadata_name: str | None,
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
    )


def read_dublin_core(stored: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    """Give Dublin Core as it is kept in the database: values with their languages."""
    return {
        element: tuple(
            (value["value"], value.get("lang")) if isinstance(value, dict) else (value, None)
            for value in values
        )
        for element, values in stored.items()
    }
