"""Describes the contents of the tables of an Archive without ids, to compare two Archives."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.tables import (
    File,
    Import,
    ImportLine,
    Item,
    ItemIdentifier,
    TombstoneRow,
    TranslationGroup,
)

#: The columns with ids, and with numbers of which only the order matters.
NUMBERS = {
    "id",
    "edition_series_id",
    "edition_no",
    "translation_group_id",
    "metadata_item_id",
    "item_id",
}


def describe_tables(archive: Archive) -> dict[str, Any]:
    """Return the tables of items and imports, with identifiers instead of ids."""
    with archive.database.reading() as connection:
        names = {
            row.id: row.rep or row.ibip
            for row in connection.execute(select(Item.id, Item.rep, Item.ibip))
        }
        described: dict[str, Any] = {
            table.__tablename__: sorted(
                repr((names.get(row.item_id), _plain(row)))
                for row in connection.execute(select(table.__table__))
            )
            for table in (ItemIdentifier, File, TombstoneRow)
        }
        described["ibi_item"] = sorted(
            repr((names[row.id], names.get(row.metadata_item_id), _plain(row)))
            # without the service, because its timestamp differs between Archives
            for row in connection.execute(select(Item.__table__).where(~Item.is_service))
        )
        described["editions"] = _chains(connection, names)
        described["translations"] = _groups(connection, names)
        described["imports"] = [
            list(connection.execute(select(ImportLine.__table__))),
            list(connection.execute(select(Import.source).where(Import.phase != "done"))),
        ]
    return described


def _plain(row: Any) -> dict[str, Any]:
    return {name: value for name, value in row._mapping.items() if name not in NUMBERS}


def _chains(connection: Connection, names: dict[int, str]) -> list[list[str]]:
    chains: dict[int, list[str]] = {}
    for row in connection.execute(
        select(Item.id, Item.edition_series_id)
        .where(Item.edition_series_id.is_not(None))
        .order_by(Item.edition_no)
    ):
        chains.setdefault(row.edition_series_id, []).append(names[row.id])
    return sorted(chains.values())


def _groups(connection: Connection, names: dict[int, str]) -> list[tuple[str, list[str]]]:
    heads = {
        row.id: names.get(row.head_item_id)
        for row in connection.execute(select(TranslationGroup.__table__))
    }
    members: dict[int, list[str]] = {group: [] for group in heads}
    for row in connection.execute(
        select(Item.id, Item.translation_group_id).where(Item.translation_group_id.is_not(None))
    ):
        members[row.translation_group_id].append(names[row.id])
    return sorted((str(heads[group]), sorted(found)) for group, found in members.items())
