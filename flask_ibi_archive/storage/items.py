"""Writes items to the database, from records, and checks what the database alone could not explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, func, insert, select, update
from sqlalchemy.orm import aliased

from flask_ibi_archive.errors import RuleBroken
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.records.format import format_dublin_core
from flask_ibi_archive.records.record import (
    DublinCoreMetadata,
    ItemRecord,
    MetadataAddress,
    MetadataItem,
)
from flask_ibi_archive.storage.models import Archive, File, Item, ItemIdentifier
from flask_ibi_archive.storage.reading import ItemReader
from flask_ibi_archive.storage.states import State


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file as it is kept: its checksum (SHA-256, hexadecimal) and its bytes."""

    sha256: str
    size: int


#: What was taken in of the files of a record, by their paths.
Contents = Mapping[str, Content]


class ItemStore(ItemReader):
    """The items of one Archive, inside the caller's transaction: nothing here commits."""

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
