"""The registration keys that were sent of late and were wrong: what the rate limit counts."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, String, delete, insert, literal, or_, select

from flask_ibi_archive.resolver.tables import KeyAttempt, RegisteredArchive
from flask_ibi_archive.storage.types import UTCDateTime

#: Locks out other attempts, whatever Archive they are for: one sender may send many at once. For
#: PostgreSQL; SQLite has one writer at a time.
COUNTING = f"SELECT pg_advisory_xact_lock({int.from_bytes(b'ibi_keys', 'big')})"


def find_nth_attempt(
    connection: Connection,
    number: int,
    since: datetime,
    until: datetime,
    *,
    archive_id: int | None = None,
    sender: str | None = None,
) -> datetime | None:
    """Return when an attempt was made, counted from the last one, which is number 1.

    :param since: no attempt up to this moment counts.
    :param until: nor does one after this moment, which a clock that was ahead left.
    :param archive_id: count the attempts for this Archive alone.
    :param sender: count the attempts of this sender alone.
    :returns: None if there are not so many.
    """
    statement = select(KeyAttempt.attempted_at).where(
        KeyAttempt.attempted_at > since, KeyAttempt.attempted_at <= until
    )
    if archive_id is not None:
        statement = statement.where(KeyAttempt.archive_id == archive_id)
    if sender is not None:
        statement = statement.where(KeyAttempt.sender == sender)
    newest_first = statement.order_by(KeyAttempt.attempted_at.desc())
    return connection.scalar(newest_first.offset(number - 1).limit(1))


def store_attempt(
    connection: Connection, archive_id: int, sender: str, since: datetime, now: datetime
) -> None:
    """Store an attempt, and delete those for the Archive up to a moment. One that was removed gets
    none.
    """
    connection.execute(
        delete(KeyAttempt).where(
            KeyAttempt.archive_id == archive_id, KeyAttempt.attempted_at <= since
        )
    )
    row = select(
        RegisteredArchive.id, literal(sender, String()), literal(now, UTCDateTime())
    ).where(RegisteredArchive.id == archive_id)
    connection.execute(
        insert(KeyAttempt).from_select(["archive_id", "sender", "attempted_at"], row)
    )


def forget_attempts(connection: Connection, archive_id: int, sender: str, since: datetime) -> None:
    """Delete the attempts for an Archive that a sender made, and all up to a moment."""
    connection.execute(
        delete(KeyAttempt).where(
            KeyAttempt.archive_id == archive_id,
            or_(KeyAttempt.sender == sender, KeyAttempt.attempted_at <= since),
        )
    )


def find_last_ip(connection: Connection, archive_id: int, *, locked: bool = False) -> str | None:
    """Return the IP address that an Archive stated when it was included last; None: it never was.

    :param locked: whether to lock its row: attempts for one Archive are counted one after the
        other.
    """
    statement = select(RegisteredArchive.ip).where(RegisteredArchive.id == archive_id)
    return connection.scalar(statement.with_for_update() if locked else statement)
