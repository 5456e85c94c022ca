"""What the resolver knows of the logs of Archives, for its administrator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, select

from flask_ibi_archive.resolver.old_claims.tables import FollowedLog, PinnedKey, RejectedEntry
from flask_ibi_archive.resolver.tables import RegisteredArchive


@dataclass(frozen=True, slots=True)
class ListedLog:
    """The log of an Archive. The fields are those of :class:`.tables.FollowedLog`.

    :param service_ibi: the IBI of the service of the Archive.
    :param address: the host and port of the Archive.
    :param is_included: whether the Archive is included. Only the logs of such Archives are read.
    """

    service_ibi: str
    address: str | None
    is_included: bool
    origin: str
    key: str
    state: str
    reason: str | None
    size: int
    signed_at: datetime | None
    read_at: datetime | None
    contradictions: int


def list_logs(connection: Connection) -> list[ListedLog]:
    """Return all logs in the order of the registration of their Archives."""
    rows = connection.execute(
        select(
            RegisteredArchive.service_ibi,
            RegisteredArchive.address,
            RegisteredArchive.included_at.is_not(None),
            FollowedLog.origin,
            FollowedLog.key,
            FollowedLog.state,
            FollowedLog.reason,
            FollowedLog.size,
            FollowedLog.signed_at,
            FollowedLog.read_at,
            FollowedLog.contradictions,
        )
        .join(RegisteredArchive, RegisteredArchive.id == FollowedLog.archive_id)
        .order_by(FollowedLog.archive_id)
    )
    return [ListedLog(*row) for row in rows]


def list_keys(connection: Connection) -> Sequence[Row[Any]]:
    """Return the service IBI, the time and the text of each key that was pinned, in order."""
    return _list(connection, PinnedKey, PinnedKey.pinned_at, PinnedKey.key)


def list_rejected(connection: Connection) -> Sequence[Row[Any]]:
    """Return the service IBI, position, reason and time of each entry that was kept out."""
    return _list(
        connection,
        RejectedEntry,
        RejectedEntry.position,
        RejectedEntry.reason,
        RejectedEntry.rejected_at,
    )


def _list(connection: Connection, table: Any, *columns: Any) -> Sequence[Row[Any]]:
    """Return the service IBIs and columns of a table, sorted by Archive and the first column."""
    return connection.execute(
        select(RegisteredArchive.service_ibi, *columns)
        .join(RegisteredArchive, RegisteredArchive.id == table.archive_id)
        .order_by(table.archive_id, columns[0])
    ).all()
