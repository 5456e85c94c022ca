"""The rate limit of wrong registration keys.

A registration key is a password. An Archive sends this password with inclusion requests and
exclusion requests. The number of wrong keys per minute is limited for each sender and for each
Archive (:mod:`.rate_limit`). There are two reasons for the rate limit. A key may have only ten
digits. And each comparison of a key takes 16 MiB of memory and some hundredths of a second. If an
Archive is not registered, its keys are refused without a comparison and are not counted.

The limit for the Archive does not apply to the IP address in the Archive's last inclusion request.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import (
    ColumnElement,
    Connection,
    ScalarSelect,
    String,
    and_,
    insert,
    literal,
    select,
)

from flask_ibi_archive.resolver.rate_limit import RateLimit
from flask_ibi_archive.resolver.tables import KeyAttempt, RegisteredArchive
from flask_ibi_archive.server.database.dialects import UTCDateTime


@dataclass(frozen=True)
class KeyRateLimit(RateLimit):
    """The rate limit that applies to one received key.

    :param archive_id: the id of the Archive that the key was sent for.
    """

    archive_id: int

    table = KeyAttempt
    lock = f"SELECT pg_advisory_xact_lock({int.from_bytes(b'ibi_keys', 'big')})"
    max_of_sender = 10
    max_of_target = 30

    @property
    def of_target(self) -> ColumnElement[bool]:
        """The condition for the wrong keys for this Archive."""
        return KeyAttempt.archive_id == self.archive_id

    @property
    def outdated(self) -> ColumnElement[bool]:
        """The condition for the wrong keys for this Archive that are no longer counted."""
        return and_(self.of_target, super().outdated)

    @property
    def own_ip(self) -> ScalarSelect[str | None]:
        """The IP address in the Archive's last inclusion request, or NULL without a request."""
        statement = select(RegisteredArchive.ip).where(RegisteredArchive.id == self.archive_id)
        return statement.scalar_subquery()

    def lock_target(self, connection: Connection) -> None:
        """Lock the row of the Archive until the end of the transaction."""
        statement = select(RegisteredArchive.id).where(RegisteredArchive.id == self.archive_id)
        connection.execute(statement.with_for_update())

    def store_attempt(self, connection: Connection) -> None:
        """Store the wrong key if the Archive is still registered."""
        row = select(
            RegisteredArchive.id,
            literal(self.sender, String()),
            literal(self.now, UTCDateTime()),
        ).where(RegisteredArchive.id == self.archive_id)
        connection.execute(
            insert(KeyAttempt).from_select(["archive_id", "sender", "attempted_at"], row)
        )
