"""Stores claims in the database of a resolver, as if a follower had read them just now."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone

from sqlalchemy import delete, insert, update

from flask_ibi_archive.core.claim import fold_name
from flask_ibi_archive.core.identifiers.grammar import Form, match_identifier
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.resolver.archives import bump_version
from flask_ibi_archive.resolver.tables import (
    STATE_NUMBERS,
    ClaimedName,
    FollowedArchive,
    PrefixHolder,
    RefusedClaim,
)
from flask_ibi_archive.server.database.database import Database

#: The claims of some Archives: the state for each name, by the id of the Archive. Each name is an
#: item of its own. Claims that are stored earlier were read first.
Stored = Mapping[int, Mapping[str, State]]
#: When the first claims were read.
FIRST = datetime(2026, 1, 1, tzinfo=timezone.utc)


def store_claims(
    database: Database,
    claims: Stored,
    hidden: Mapping[str, int] | None = None,
    original_archive: str | None = None,
    since: datetime = FIRST,
) -> None:
    """Store claims of Archives that were read to the end, and who has hidden items with prefixes.

    :param original_archive: the service IBI of the Archive that claims of Copies and of removals
        name.
    """
    now = datetime.now(timezone.utc)
    with database.writing() as connection:
        for archive_id, names in claims.items():
            is_its = FollowedArchive.archive_id == archive_id
            connection.execute(delete(FollowedArchive).where(is_its))
            connection.execute(
                insert(FollowedArchive).values(
                    archive_id=archive_id, key="key", pinned_at=now, epoch="e", read_at=now
                )
            )
            for name, state in names.items():
                folded = fold_name(name)
                identifier = match_identifier(name)
                kind = 3 if identifier is None else 1 + (identifier.form is not Form.REP)
                connection.execute(
                    insert(ClaimedName).values(
                        name=folded,
                        archive_id=archive_id,
                        reading=1,
                        item=folded[:255],
                        kind=kind,
                        state=STATE_NUMBERS[state],
                        timestamp="2026-01-01T00:00:00Z",
                        original_archive=None if state is State.ORIGINAL else original_archive,
                        since=since,
                    )
                )
        for prefix, archive_id in (hidden or {}).items():
            row = {"prefix": prefix, "archive_id": archive_id, "is_hidden": True}
            connection.execute(insert(PrefixHolder), row)
        bump_version(connection, claims)


def refuse_claim(database: Database, archive_id: int) -> None:
    """Store that a line of an Archive is refused, so that its claims don't count."""
    row = {"archive_id": archive_id, "item": "1", "reason": "state: ''", "refused_at": FIRST}
    with database.writing() as connection:
        connection.execute(insert(RefusedClaim).values(**row))
        bump_version(connection, [archive_id])


def set_read(database: Database, archive_id: int, seconds: float | None) -> None:
    """Set how many seconds ago an Archive was read to the end; None: never."""
    moment = datetime.now(timezone.utc) - timedelta(seconds=seconds or 0)
    with database.writing() as connection:
        row = update(FollowedArchive).where(FollowedArchive.archive_id == archive_id)
        connection.execute(row.values(read_at=None if seconds is None else moment))
        bump_version(connection, [archive_id])
