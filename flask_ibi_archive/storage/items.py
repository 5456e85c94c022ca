"""Writes items to the database, from records, and checks what the database alone could not explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, select, update

from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.records.format import format_dublin_core
from flask_ibi_archive.records.record import (
    DublinCoreMetadata,
    ItemRecord,
    MetadataAddress,
    MetadataItem,
)
from flask_ibi_archive.storage.copies import Copies
from flask_ibi_archive.storage.links import check_service_apart
from flask_ibi_archive.storage.models import File, Item, ItemIdentifier
from flask_ibi_archive.storage.reservations import check_held
from flask_ibi_archive.storage.states import ELSEWHERE, State
from flask_ibi_archive.storage.tombstones import take_tombstone_away, write_tombstones


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a file as it is kept: its checksum (SHA-256, hexadecimal) and its bytes."""

    sha256: str
    size: int


#: What was taken in of the files of a record, by their paths.
Contents = Mapping[str, Content]


class ItemStore(Copies):
    """The items of one Archive, inside the caller's transaction: nothing here commits."""

    # --- checks, so that an error can name the item ----------------------------------------------

    def newest_item(self) -> int:
        """Return the row of the item that came last, of whatever Archive."""
        return self.connection.execute(select(func.max(Item.id))).scalar() or 0

    def is_service(self, item_id: int) -> bool:
        """Tell whether an item is the service of the Archive."""
        return bool(
            self.connection.execute(select(Item.is_service).where(Item.id == item_id)).scalar()
        )

    # --- writing ---------------------------------------------------------------------------------

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
        :raises RuleBroken: rule 1, if an identifier is held for a draft.
        """
        if not records:
            return []
        check_held(self.connection, [text for record in records for text in record.identifiers])
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
        write_tombstones(self.connection, self.archive_id, zip(ids, records, strict=True))
        return ids

    def replace_item(
        self, item_id: int, record: ItemRecord, contents: Contents, now: datetime
    ) -> None:
        """Write a record over an item, or over the mention of one, without what ties it to others.

        Other mentions of it are merged into it. All of them have left their groups of translations
        before (:meth:`leave_translations`).

        :raises RuleBroken: rule 1, if an identifier that is new to it is held for a draft; rule 7,
            see
            :meth:`merge_mention`.
        """
        ibi = record.identifiers[0]
        known = self.owners(record.identifiers)
        # a mention bears its identifier without being the item it was held for
        check_held(
            self.connection,
            [
                text
                for text in record.identifiers
                if known.get(text, (0, ELSEWHERE))[1] == ELSEWHERE
            ],
        )
        contents = {**self._kept_contents(item_id, record), **contents}
        take_tombstone_away(self.connection, item_id)
        self.connection.execute(delete(File).where(File.item_id == item_id))
        self.connection.execute(
            update(Item).where(Item.id == item_id).values(**self._columns(record, now))
        )
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
        write_tombstones(self.connection, self.archive_id, [(item_id, record)])

    def contents_of(self, item_id: int) -> dict[str, Content]:
        """Return the contents that are kept of an item's files, by their paths."""
        rows = self.connection.execute(
            select(File.path, File.sha256, File.size).where(
                File.item_id == item_id, File.size.is_not(None)
            )
        )
        return {row.path: Content(str(row.sha256), int(row.size or 0)) for row in rows}

    def _kept_contents(self, item_id: int, record: ItemRecord) -> dict[str, Content]:
        """Return the contents that an item has of files which its new record only names."""
        kept = self.contents_of(item_id)
        return {
            file.path: kept[file.path]
            for file in record.files
            if file.path in kept
            and file.url is None
            and file.sha256 in (None, kept[file.path].sha256)
        }

    def tie(self, item_id: int, record: ItemRecord) -> None:
        """Tie an item to those that its record speaks of: next edition, translations, metadata.

        :raises RuleBroken: rule 6, 7 or 8.
        """
        ibi = record.identifiers[0]
        if isinstance(record.metadata, MetadataItem):
            self.point_to_metadata(item_id, self.mention(record.metadata.ibi))
        if record.next_edition is not None:
            self.link_editions(item_id, self.mention_apart(record.next_edition, ibi), ibi)
        if record.translations:
            members = {
                language: self.mention_apart(other, ibi)
                for language, other in record.translations.items()
            }
            self.join_translations(item_id, members, ibi)

    def mention_apart(self, other: str, ibi: str) -> int:
        """Return the row of an edition or a translation of an item (:meth:`mention`).

        :raises RuleBroken: rule 6, if it is the service of the Archive.
        """
        other_id = self.mention(other)
        check_service_apart(self.service_row(), [other_id], ibi)
        return other_id

    def following(self, record: ItemRecord) -> int | None:
        """Return the row of the next edition that a record names, if it does; see
        :meth:`mention_apart`.
        """
        if record.next_edition is None:
            return None
        return self.mention_apart(record.next_edition, record.identifiers[0])

    def set_state(self, item_id: int, state: State, original_archive: str | None = None) -> None:
        """Change nothing of an item but its state.

        :param original_archive: of a Copy, the service IBI of the Archive that holds its Original.
        """
        self.connection.execute(
            update(Item)
            .where(Item.id == item_id)
            .values(state=state.value, original_archive=original_archive)
        )

    def touch(self, item_id: int, moment: datetime) -> None:
        """Say that an item was updated; one that was removed keeps the moment of that."""
        self.connection.execute(
            update(Item)
            .where(Item.id == item_id, Item.state == State.ORIGINAL.value)
            .values(timestamp=moment)
        )

    def name_of(self, item_id: int) -> tuple[str, str]:
        """Return an item's identifier and its state."""
        row = self.connection.execute(
            select(func.coalesce(Item.rep, Item.ibip), Item.state).where(Item.id == item_id)
        ).one()
        return str(row[0]), row.state

    def point_to_metadata(self, item_id: int, metadata_id: int | None) -> None:
        """Say which item, if any, is the metadata of an item."""
        self.connection.execute(
            update(Item).where(Item.id == item_id).values(metadata_item_id=metadata_id)
        )

    def untie(self, item_id: int) -> None:
        """Take back what an item's record said of others, before another record is written over it."""
        self.point_to_metadata(item_id, None)
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
