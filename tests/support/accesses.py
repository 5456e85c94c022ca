"""Acknowledgments as a resolver sends them, and the accesses in the database."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from sqlalchemy import delete, func, insert, select

from flask_ibi_archive.archive.accesses.rows import Access, insert_access
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.stored_relations import STORING
from flask_ibi_archive.archive.items.tables import AccessCount, ArchiveAccessCount
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.messages import Acknowledgment, UrlRequest, parse_ibi_forms
from flask_ibi_archive.core.protocol.pairs import decode_url
from flask_ibi_archive.core.protocol.relations import parse_verb_list

USER = "150.163.2.175"
PERSISTENT = "http://urlib.net/8JMKD3MGP8W/35MME4E"


def acknowledge(
    archive: Archive,
    asked: str,
    verbs: str = "",
    user: str = USER,
    path: str = "",
    **changes: Any,
) -> Acknowledgment:
    """Request an item as a resolver does, and return the acknowledgment of the result.

    :param changes: other values for fields of the acknowledgment.
    """
    list_of_verbs = parse_verb_list(verbs)
    request = UrlRequest(parse_identifier(asked), (user,), path, list_of_verbs)
    pairs = dict(archive.list_urls(request))
    relation = list_of_verbs.relation.name
    forms = pairs.get(f"ibi{relation}")
    found = Acknowledgment(
        client_addresses=(user, "150.163.68.1"),
        content_type=str(pairs[f"contenttype{relation}"]),
        state=str(pairs[f"state{relation}"]),
        url=decode_url(str(pairs[f"url{relation}"])),
        persistent_url=PERSISTENT,
        url_key=str(pairs["urlkey"]),
        ibi=parse_ibi_forms(forms) if isinstance(forms, tuple) else None,
    )
    return replace(found, **changes)


def set_time(archive: Archive, second: float) -> None:
    """Set the clocks of an Archive.

    :param second: the time in POSIX seconds.
    """
    archive.clock = lambda: datetime.fromtimestamp(second, timezone.utc)
    archive.url_keys.clock = lambda: second


def stored(archive: Archive) -> list[dict[str, Any]]:
    """Return the accesses in the database."""
    with archive.database.reading() as connection:
        rows = connection.execute(select(Access.__table__).order_by(Access.id)).mappings().all()
    return [dict(row) for row in rows]


def insert_accesses(archive: Archive, rows: list[dict[str, Any]]) -> None:
    """Store and count accesses; other columns have default values."""
    served = archive.served().id
    with archive.database.writing(table_lock=STORING) as connection:
        start = connection.execute(select(func.coalesce(func.max(Access.id), 0))).scalar_one()
        for number, row in enumerate(rows):
            values = {
                "archive_id": served,
                "url_key": f"made-up-{start + number}",
                "visitor": "somebody",
                "address": "150.163.2.0",
                "robot": False,
                "content_type": "Data",
                "url": "http://mtc-m16c.sid.inpe.br/",
            }
            assert insert_access(connection, {**values, **row})


def insert_counts(archive: Archive, rows: list[dict[str, Any]]) -> None:
    """Insert daily counts of items into the database, with the sums of the Archive."""
    served, numbers = archive.served().id, ("accesses", "double_clicks", "robots")
    key = (AccessCount.archive_id, AccessCount.day, AccessCount.content_type)
    sums = select(*key, *(func.sum(getattr(AccessCount, name)) for name in numbers))
    names = [*(column.key for column in key), *numbers]
    with archive.database.writing() as connection:
        connection.execute(insert(AccessCount), [{"archive_id": served, **row} for row in rows])
        sums = sums.where(AccessCount.archive_id == served).group_by(*key)
        connection.execute(insert(ArchiveAccessCount).from_select(names, sums))


def forget_accesses(archive: Archive) -> None:
    """Delete all accesses and their counts."""
    with archive.database.writing() as connection:
        for table in (Access, AccessCount, ArchiveAccessCount):
            connection.execute(delete(table))
