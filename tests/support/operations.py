"""Several Archives in one database, and the contents of their tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Flask
from sqlalchemy import text

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.core.records.record import DublinCoreMetadata, ItemView, Record
from flask_ibi_archive.server.database.database import Database
from support.archives import SERVICE, archive_of

SECOND = "sid.inpe.br/mtc-m19@80/2009/08.21.17.02"
THIRD = "dpi.inpe.br/banon/1999/01.09.22.14"
SERVICES = (SERVICE, SECOND, THIRD)

#: The tables that a refused operation must not change; it may change the table of prefixes.
TABLES = (
    "ibi_archive",
    "ibi_item",
    "ibi_identifier",
    "ibi_file",
    "ibi_translation",
    "ibi_tombstone",
    "ibi_reservation",
)

DUBLIN_CORE = DublinCoreMetadata(
    {
        "title": (("A title", None),),
        "creator": (("Banon, G.", None), ("Ribeiro, L.", None)),
        "publisher": (("INPE", None),),
        "date": (("2009-07-21", None),),
    }
)


def make_archives(new_app: Callable[..., Flask], count: int, **config: Any) -> list[Archive]:
    """Create Archives in one database, with one folder of files."""
    archives = []
    for number, service in enumerate(SERVICES[:count]):
        app = new_app(
            IBI_ARCHIVE_SERVICE_IBI=service,
            IBI_MINT_HOST=f"m{number}.sid.inpe.br",
            IBI_ARCHIVE_IP=f"150.163.34.{240 + number}",
            IBI_GRANULARITY="0.000001",
            **config,
        )
        archives.append(archive_of(app))
        archives[-1].init()
    return archives


def dump(database: Database, tables: tuple[str, ...] = TABLES) -> dict[str, list[Any]]:
    """Return all rows of our tables."""
    with database.snapshot() as connection:
        return {
            table: sorted(
                repr(tuple(row)) for row in connection.execute(text(f"SELECT * FROM {table}"))
            )
            for table in tables
        }


def view_of(archive: Archive, ibi: str) -> ItemView:
    """Return an item of an Archive."""
    item = archive.get(ibi)
    assert item is not None, ibi
    return item


def record_of(archive: Archive, ibi: str) -> Record:
    """Return the record of an item of an Archive."""
    return view_of(archive, ibi).record


def group_of(archive: Archive, ibi: str) -> set[tuple[str | None, str]]:
    """Return the languages and identifiers of an item's group of translations."""
    with archive.database.reading() as connection:
        rows = connection.execute(
            text(
                "SELECT member.language, member.ibi FROM ibi_translation member"
                " JOIN ibi_translation own"
                " ON own.archive_id = member.archive_id AND own.head = member.head"
                " JOIN ibi_item item ON own.ibi = coalesce(item.rep, item.ibip)"
                " AND item.archive_id = own.archive_id"
                " JOIN ibi_identifier name ON name.item_id = item.id"
                " WHERE name.text = :ibi AND name.archive_id = :archive"
            ),
            {"ibi": ibi, "archive": archive.served().id},
        )
        return {(row[0], row[1]) for row in rows}
