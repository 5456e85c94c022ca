"""Rows in every table of a database that two Archives share."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from sqlalchemy import func, insert, inspect, select

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive.accesses.rows import Access, VisitorSalt
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.care import FileCheck
from flask_ibi_archive.archive.identification.keys import ApiKey
from flask_ibi_archive.archive.identification.server import IssuedIdentifier
from flask_ibi_archive.archive.items.changes import Change, ChangeBatch, ChangeEnd
from flask_ibi_archive.archive.items.tables import (
    AccessCount,
    ArchiveAccessCount,
    ArchiveElsewhere,
    Registration,
    metadata,
)
from flask_ibi_archive.archive.moving.offers import Offer, OfferedItem, ReceivedItem
from flask_ibi_archive.server.database.database import Database
from support.archives import FAR_SERVICE, import_records
from support.web import REPORT, shelf

#: The service IBI of the second Archive.
SECOND = "dpi.inpe.br/banon/1999/01.09.22.14"
MOMENT = datetime(2024, 2, 29, 23, 59, 59, 123456, timezone.utc)
PROGRAM = {"name": "ojs", "key_hash": "0" * 64, "scopes": "mint"}
OFFER = {
    "public_id": "0" * 16,
    "secret_hash": "0" * 64,
    "taker": SECOND,
    "leaves": "Copy",
    "expires_at": MOMENT,
}
ISSUED = {"repeat_key": "lost", "content_hash": "0" * 64, "number": 0, "rep": "r", "ibip": "i"}
FAULT = {"kind": "missing", "ibi": "a/b", "path": "é.pdf"}
MORE: dict[str, dict[str, Any]] = {
    "Access": {"content_type": "Data"},
    "AccessCount": {"content_type": "Data"},
    "Registration": {"error_at": MOMENT},
}


def count_rows(database: Database) -> dict[str, int]:
    """Return the number of rows of each of our tables that exists."""
    with database.reading() as connection:
        names = set(inspect(connection).get_table_names())
        return {
            table.name: connection.scalars(select(func.count()).select_from(table)).one()
            for table in metadata.sorted_tables
            if table.name in names
        }


def fill(archive: Archive, second: Archive, folder: Path) -> None:
    """Add rows to every table of a database that two Archives share."""
    archive.init()
    second.init()
    import_records(archive, shelf(folder))
    archive.make_copy(REPORT, SECOND)
    archive.delete(second_edition(archive, folder), "withdrawn", citation="Banon, G.: A report")
    archive.deposit(title="Chuva", degree={"level": "doctoral"}, issued="2009")
    archive.deposit(embargo="2001-01-01", same_as=["hdl:20.500/1", "http://a.example/é"])
    archive.reserve("a draft — für später")
    archive.release(archive.reserve().rep)
    with archive.database.writing() as connection:
        [row] = connection.exec_driver_sql("SELECT max(id) FROM ibi_item WHERE archive_id = 1")
        item = {"item_id": row[0], "archive_id": 1}
        access = {"second": 1 << 33, "visitor": "v", "address": "192.0.2.0", "url": "u"}
        for table, values in (
            (Access, {"ibi": "i", "archive_id": 1, **access, "url_key": "k", "robot": True}),
            (AccessCount, {"ibi": "i", "archive_id": 1, "day": MOMENT.date(), "accesses": 3}),
            (
                ArchiveAccessCount,
                {"archive_id": 1, "day": MOMENT.date(), "content_type": "Data", "accesses": 3},
            ),
            (VisitorSalt, {"day": MOMENT.date(), "salt": "5a17" * 16}),
            (FileCheck, {"archive_id": 1, "checked_at": MOMENT, "faults": [FAULT]}),
            (ArchiveElsewhere, {"archive_id": 1, "service_ibi": FAR_SERVICE, "address": "a.br"}),
            (Registration, {"archive_id": 2, "resolver_url": "http://r", "error": "no"}),
            (Change, {**item, "number": 1, "sets": " a:b ", "digest": "", "claim": "item 1"}),
            (ChangeBatch, {"archive_id": 1, "number": 1, "word": "w", "datestamp": MOMENT}),
            (ChangeEnd, {"archive_id": 1, "number": 1, "datestamp": MOMENT}),
            (ApiKey, {"id": 9, "archive_id": 1, "created_at": MOMENT, **PROGRAM}),
            (IssuedIdentifier, {"key_id": 9, "issued_at": MOMENT, **ISSUED}),
            (Offer, {"id": 6, "archive_id": 1, "created_at": MOMENT, **OFFER}),
            (OfferedItem, {"offer_id": 6, "number": 1, "item_id": row[0], "counts": [["d", 3]]}),
            (ReceivedItem, {"item_id": row[0], "giver": SECOND}),
        ):
            connection.execute(insert(table).values(**{**MORE.get(table.__name__, {}), **values}))


def second_edition(archive: Archive, folder: Path) -> str:
    path = folder / "second.txt"
    path.write_text("second edition")
    return archive.new_edition(REPORT, ItemRecord(), [path]).rep
