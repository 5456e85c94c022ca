"""Stores claims in the database of a resolver, as if a follower had read them just now."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone

from sqlalchemy import delete, insert, select, update

from flask_ibi_archive.core.claims.claim import STATE_NUMBERS, name_key
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.resolver.old_claims.tables import (
    CURRENT,
    Binding,
    FollowedLog,
    PrefixHolder,
    ResolverState,
)
from flask_ibi_archive.resolver.old_claims.versions import bump_version
from flask_ibi_archive.server.database.database import Database

#: The claims of some Archives: the state for each name, by the id of the Archive.
Stored = Mapping[int, Mapping[str, State]]


def store_claims(
    database: Database, claims: Stored, prefixes: Mapping[str, int] | None = None
) -> None:
    """Store claims of Archives whose logs are up to date, and who holds items with prefixes."""
    now = datetime.now(timezone.utc)
    with database.writing() as connection:
        for archive_id, names in claims.items():
            connection.execute(delete(FollowedLog).where(FollowedLog.archive_id == archive_id))
            connection.execute(
                insert(FollowedLog).values(
                    archive_id=archive_id,
                    origin=f"a.br/{archive_id}",
                    key="key",
                    pinned_at=now,
                    state=CURRENT,
                    frontier=b"",
                    read_at=now,
                )
            )
            for name, state in names.items():
                connection.execute(
                    insert(Binding).values(
                        key=name_key(name), archive_id=archive_id, state=STATE_NUMBERS[state]
                    )
                )
        for prefix, archive_id in (prefixes or {}).items():
            row = {"prefix": prefix, "archive_id": archive_id, "seen_at": now}
            connection.execute(insert(PrefixHolder), row)
        connection.execute(update(ResolverState).values(followed_at=now))
        bump_version(connection, claims)


def set_log(database: Database, archive_id: int, state: str) -> None:
    """Set the state of a log, as the follower does."""
    with database.writing() as connection:
        row = update(FollowedLog).where(FollowedLog.archive_id == archive_id)
        connection.execute(row.values(state=state))
        bump_version(connection, [archive_id])


def set_followed(database: Database, moment: datetime | None) -> None:
    """Set when all logs were read for the last time."""
    with database.writing() as connection:
        connection.execute(update(ResolverState).values(followed_at=moment))


def log_of(database: Database, archive_id: int) -> tuple[str, int]:
    """Return the state of a log, and the number of its contradictions."""
    columns = select(FollowedLog.state, FollowedLog.contradictions)
    [row] = database.read_rows(columns.where(FollowedLog.archive_id == archive_id))
    return row.state, row.contradictions
