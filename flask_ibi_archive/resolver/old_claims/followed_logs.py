"""SQL statements for the logs that a resolver follows, and for the lease of the follower."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from sqlalchemy import Connection, Row, bindparam, func, literal, or_, select, update

from flask_ibi_archive.core.claims.keys import parse_key
from flask_ibi_archive.core.claims.merkle import Frontier
from flask_ibi_archive.resolver.old_claims.log_reader import KnownLog, Reading
from flask_ibi_archive.resolver.old_claims.tables import (
    CONTRADICTED,
    CURRENT,
    FORKED,
    SILENT,
    STALE,
    FollowedLog,
    PrefixHolder,
    RejectedEntry,
    ResolverState,
)
from flask_ibi_archive.resolver.old_claims.versions import bump_version
from flask_ibi_archive.resolver.tables import RegisteredArchive
from flask_ibi_archive.server.database.dialects import (
    UTCDateTime,
    insert_or_update,
    is_one_of,
)

#: The time after which a log is read again.
INTERVAL = timedelta(seconds=60)
#: The time for which a follower is the only one.
LEASE = timedelta(seconds=30)
#: The maximum number of rejected entries of an Archive that are stored.
MAX_REJECTED = 1000
#: The states in which the claims of an Archive count.
TRUSTED = (CURRENT, SILENT)


@dataclass(frozen=True, slots=True)
class DueLog:
    """A log of an included Archive that is read now.

    :param number: the number of the log among those of the Archive.
    :param key: the pinned key as text.
    """

    archive_id: int
    service_ibi: str
    address: str
    number: int
    key: str
    origin: str
    known: KnownLog
    started_at: datetime

    @property
    def base(self) -> str:
        """The URL of the folder of the log."""
        return f"http://{self.address}/ibi/claims/"

    @property
    def is_slow(self) -> bool:
        """Whether reading will probably take long: the last reading has failed, or was a part."""
        return self.known.state != CURRENT and self.known.reason is not None

    def is_at(self, row: Row[Any] | None) -> bool:
        """Return whether a row has the key and the position from which the log was read.

        :param row: a row that :func:`lock_logs` returned. None if there is none.
        """
        read = self.number, self.key, self.known.frontier.size
        return row is not None and (row.number, row.key, row.size) == read


_LOG, _ARCHIVE = FollowedLog, RegisteredArchive
_COLUMNS = (
    _LOG.archive_id, _ARCHIVE.service_ibi, _ARCHIVE.address, _LOG.number, _LOG.key, _LOG.origin,
    _LOG.state, _LOG.reason, _LOG.size, _LOG.frontier, _LOG.checkpoint, _LOG.etag, _LOG.signed_at,
    _LOG.length,
)  # fmt: skip
_INCLUDED = (
    select(*_COLUMNS)
    .join(_ARCHIVE, _ARCHIVE.id == _LOG.archive_id)
    .where(_ARCHIVE.included_at.is_not(None), _LOG.state != FORKED)
)
_TABLE: Any = FollowedLog.__table__
#: Stores the new values of many logs.
_STORE = update(_TABLE).where(_TABLE.c.archive_id == bindparam("log_id"))


def list_due(
    connection: Connection, now: datetime, limit: int, omitted: Iterable[int] = ()
) -> list[DueLog]:
    """Return the logs of included Archives that must be read now, the longest unread ones first.

    :param omitted: the ids of the Archives whose logs are left out, because they are being read.
    """
    is_due = or_(_LOG.read_at.is_(None), _LOG.read_at <= now - INTERVAL, _LOG.due_at <= now)
    is_omitted = is_one_of(_LOG.archive_id, omitted)
    rows: Sequence[Any] = connection.execute(
        _INCLUDED.where(is_due, ~is_omitted).order_by(_LOG.read_at.nulls_first()).limit(limit)
    ).all()
    return [
        DueLog(
            row.archive_id,
            row.service_ibi,
            row.address,
            row.number,
            row.key,
            row.origin,
            KnownLog(
                parse_key(row.key),
                row.state,
                row.reason,
                Frontier.from_bytes(row.size, row.frontier),
                row.checkpoint,
                row.etag,
                None if row.signed_at is None else int(row.signed_at.timestamp()),
                row.length,
            ),
            now,
        )
        for row in rows
    ]


def list_registered(connection: Connection, archive_ids: Iterable[int]) -> set[int]:
    """Return the ids of those Archives that are registered: the index contains others, too."""
    is_listed = is_one_of(_ARCHIVE.id, archive_ids)
    return set(connection.scalars(select(_ARCHIVE.id).where(is_listed)))


def lock_archives(connection: Connection, archive_ids: Iterable[int]) -> set[int]:
    """Lock the rows of Archives, and return the ids of those that are included.

    A transaction that stores what was read begins with this. Those that change an Archive lock the
    rows in the same order.
    """
    statement = (
        select(_ARCHIVE.id)
        .where(is_one_of(_ARCHIVE.id, archive_ids), _ARCHIVE.included_at.is_not(None))
        .order_by(_ARCHIVE.id)
        .with_for_update(key_share=True)
    )
    return set(connection.scalars(statement))


def lock_logs(connection: Connection, archive_ids: Iterable[int]) -> dict[int, Row[Any]]:
    """Lock the rows of logs, and return them by the id of the Archive."""
    statement = (
        select(
            _LOG.archive_id, _LOG.number, _LOG.key, _LOG.size, _LOG.state, _LOG.reason, _LOG.due_at
        )
        .where(is_one_of(_LOG.archive_id, archive_ids))
        .order_by(_LOG.archive_id)
        .with_for_update()
    )
    rows: Sequence[Any] = connection.execute(statement).all()
    return {row.archive_id: row for row in rows}


def store_readings(
    connection: Connection,
    readings: Iterable[tuple[DueLog, Reading]],
    rows: Mapping[int, Row[Any]],
    now: datetime,
) -> list[int]:
    """Store the new states and positions of logs.

    The log of an Archive whose answers contradicted its claims keeps this state.

    :param rows: what :func:`lock_logs` returned.
    :returns: the ids of the Archives whose claims count from now on, or no longer count.
    """
    new, changed = [], []
    for log, reading in readings:
        row = rows[log.archive_id]
        state, reason = reading.state, reading.reason
        if row.state == CONTRADICTED and state != FORKED:
            state, reason = row.state, row.reason
        if (row.state in TRUSTED) != (state in TRUSTED):
            changed.append(log.archive_id)
        # after a registration during the reading, and after a part of a tree, the log is due again
        due_at = row.due_at if row.due_at is not None and row.due_at > log.started_at else None
        seconds = reading.signed_at
        new.append(
            {
                "log_id": log.archive_id,
                "state": state,
                "reason": reason,
                "size": reading.frontier.size,
                "length": reading.length,
                "frontier": reading.frontier.to_bytes(),
                "checkpoint": reading.checkpoint,
                "etag": reading.etag,
                "signed_at": (
                    None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)
                ),
                "read_at": log.started_at,
                "due_at": due_at if reading.is_complete else now,
            }
        )
    if new:
        connection.execute(_STORE, new)
    return changed


def distrust(connection: Connection, log: DueLog, reason: str) -> None:
    """Let an Archive always be asked, because what was read of its log can't be stored.

    :param reason: why, in one line that follows the address of the Archive.
    """
    lock_archives(connection, [log.archive_id])
    is_trusted = (_LOG.archive_id == log.archive_id) & _LOG.state.in_(TRUSTED)
    statement = update(_LOG).where(is_trusted).values(state=STALE, reason=reason)
    if connection.execute(statement).rowcount:
        bump_version(connection, [log.archive_id])


def store_rejected(
    connection: Connection, archive_id: int, rejected: dict[int, str], now: datetime
) -> None:
    """Store why entries were kept out, up to :data:`MAX_REJECTED` entries of an Archive."""
    count = connection.scalar(select(func.count()).where(RejectedEntry.archive_id == archive_id))
    rows = [
        {"archive_id": archive_id, "position": position, "reason": reason, "rejected_at": now}
        for position, reason in sorted(rejected.items())[: max(MAX_REJECTED - (count or 0), 0)]
    ]
    if rows:
        statement = insert_or_update(connection, RejectedEntry).on_conflict_do_nothing()
        connection.execute(statement, rows)


def store_prefixes(
    connection: Connection, prefixes: Iterable[tuple[str, int]], now: datetime
) -> None:
    """Store that Archives have Originals with some prefixes.

    :param prefixes: prefixes, each with the id of an Archive.
    """
    rows = [
        {"prefix": prefix, "archive_id": archive_id, "seen_at": now}
        for prefix, archive_id in sorted(prefixes)
    ]
    if rows:
        statement = insert_or_update(connection, PrefixHolder)
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=[PrefixHolder.prefix, PrefixHolder.archive_id],
                set_={"seen_at": statement.excluded.seen_at},
            ),
            rows,
        )


def set_followed_at(connection: Connection, now: datetime) -> None:
    """Store the time since when all logs whose claims count were read."""
    oldest = (
        select(func.min(_LOG.read_at))
        .join(_ARCHIVE, _ARCHIVE.id == _LOG.archive_id)
        .where(_ARCHIVE.included_at.is_not(None), _LOG.state.in_(TRUSTED))
        .scalar_subquery()
    )
    connection.execute(
        update(ResolverState).values(followed_at=func.coalesce(oldest, literal(now, UTCDateTime())))
    )


def take_lease(connection: Connection, follower: str, now: datetime) -> bool:
    """Become or remain the only follower for :data:`LEASE`; return False if another one is.

    :param follower: a random text that stands for the process.
    """
    statement = update(ResolverState).where(
        or_(
            ResolverState.follower.is_(None),
            ResolverState.follower == follower,
            ResolverState.follows_until < now,
        )
    )
    done = connection.execute(statement.values(follower=follower, follows_until=now + LEASE))
    return bool(done.rowcount)


def release_lease(connection: Connection, follower: str) -> None:
    """Let another process follow at once."""
    connection.execute(
        update(ResolverState)
        .where(ResolverState.follower == follower)
        .values(follower=None, follows_until=None)
    )
