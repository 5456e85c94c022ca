"""Registration keys and passwords: their hashes, and the rate limit of wrong ones.

The number of wrong secrets per minute is limited for each sender and for each *target*: the Archive
or actor that the secrets were sent for. Attempts are counted in the database, because all processes
share the database. An attempt is counted before the secret is compared, and its row is deleted if
the secret was right. Therefore simultaneous requests cannot exceed the limit.

An attacker who sends many wrong secrets for a target cannot lock out the target itself. The limit
of the target does not apply to the IP address that the target registered. For all other senders,
the limit ends at most one minute after the last wrong secret.

There are two reasons for the rate limit. A registration key may have only ten digits. And each
comparison of a secret takes 16 MiB of memory and some hundredths of a second. If an Archive is not
registered,
its keys are refused without a comparison and are not counted. The limit for an Archive does not
apply to the IP address in its last inclusion request.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv6Network, ip_address
from math import ceil
from typing import Any, ClassVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    ScalarSelect,
    String,
    and_,
    delete,
    insert,
    literal,
    null,
    or_,
    select,
)
from werkzeug.security import check_password_hash, generate_password_hash

from flask_ibi_archive.resolver.tables import KeyAttempt, RegisteredArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import UTCDateTime

#: The cost of a hash (N of scrypt). A hash takes 16 MiB and some hundredths of a second.
COST = 2**14


def hash_secret(secret: str, cost: int = COST) -> str:
    """Return a salted hash of a secret in the format of werkzeug.security.

    :param cost: the parameter N of scrypt (RFC 7914), a power of 2.
    """
    return generate_password_hash(secret, f"scrypt:{cost}:8:1")


def matches_hash(secret: str, secret_hash: str) -> bool:
    """Return True if a hash was made from a secret. The duration does not depend on the secret."""
    return check_password_hash(secret_hash, secret)


WINDOW = timedelta(minutes=1)


@dataclass(frozen=True)
class RateLimit(ABC):
    """The rate limit that applies to one received secret.

    A subclass defines what is counted and where the attempts are stored.

    :param sender: the address or network that :func:`group_sender` returned for the sender.
    :param now: the time when the secret was received.
    :cvar table: the model of the attempts, with the columns ``sender`` and ``attempted_at``.
    :cvar lock: the statement that makes processes count attempts one after another on PostgreSQL.
        Without this lock, a sender could exceed the limit with many simultaneous requests. SQLite
        needs no such lock, because SQLite has only one writer at a time.
    :cvar max_of_sender: the maximum number of attempts in a minute from one sender.
    :cvar max_of_target: the maximum number of attempts in a minute for one target.
    """

    database: Database
    sender: str
    now: datetime

    table: ClassVar[Any]
    lock: ClassVar[str]
    max_of_sender: ClassVar[int]
    max_of_target: ClassVar[int]

    @property
    def period_start(self) -> datetime:
        """The start of the period in which attempts are counted."""
        return self.now - WINDOW

    @property
    def period_end(self) -> datetime:
        """The end of the period in which attempts are counted.

        The period ends one minute after the present, because the clocks of several servers may
        differ. Attempts with a later date are ignored. Such attempts were stored before the clock
        was set back.
        """
        return self.now + WINDOW

    @property
    def of_sender(self) -> ColumnElement[bool]:
        """The condition for the attempts of this sender."""
        condition: ColumnElement[bool] = self.table.sender == self.sender
        return condition

    @property
    @abstractmethod
    def of_target(self) -> ColumnElement[bool]:
        """The condition for the attempts for this target."""

    @property
    def outdated(self) -> ColumnElement[bool]:
        """The condition for the attempts that are no longer needed."""
        condition: ColumnElement[bool] = self.table.attempted_at <= self.period_start
        return condition

    @property
    def own_ip(self) -> ScalarSelect[Any]:
        """The SELECT statement of the IP address that the target registered, or NULL."""
        return select(null()).scalar_subquery()

    def count_attempt(self) -> int | None:
        """Count the attempt as a wrong secret, unless the rate limit is reached.

        If the secret is right, the caller must then call :meth:`clear_attempts`. A refused attempt
        only needs one SELECT statement.

        :returns: None if the attempt was counted and the secret may be compared. If the limit is
            reached, the number of seconds to wait.
        """
        wait = self.database.read(self._find_wait_seconds)
        if wait is None:
            with self.database.writing(table_lock=self.lock) as connection:
                self.lock_target(connection)
                wait = self._find_wait_seconds(connection)
                if wait is None:
                    connection.execute(delete(self.table).where(self.outdated))
                    self.store_attempt(connection)
        return wait

    def clear_attempts(self) -> None:
        """Delete the attempts of this sender for this target, because the secret was right."""
        with self.database.writing(table_lock=self.lock) as connection:
            self.lock_target(connection)
            of_both = and_(self.of_target, self.of_sender)
            connection.execute(delete(self.table).where(or_(of_both, self.outdated)))

    def lock_target(self, connection: Connection) -> None:  # noqa: B027 - optional
        """Lock the row that the attempts refer to until the end of the transaction."""

    @abstractmethod
    def store_attempt(self, connection: Connection) -> None:
        """Store the attempt."""

    def _find_wait_seconds(self, connection: Connection) -> int | None:
        """Return the seconds until a secret may be compared, or None if no limit is reached."""
        first, first_of_target, own_ip = connection.execute(
            select(
                self._find_nth_latest(self.max_of_sender, self.of_sender),
                self._find_nth_latest(self.max_of_target, self.of_target),
                self.own_ip,
            )
        ).one()
        if first is None and (own_ip is None or group_sender(own_ip) != self.sender):
            first = first_of_target
        return None if first is None else max(ceil((first - self.period_start).total_seconds()), 1)

    def _find_nth_latest(
        self, number: int, condition: ColumnElement[bool]
    ) -> ScalarSelect[datetime | None]:
        """Return the SELECT of the date of the n-th latest attempt; NULL if there are fewer."""
        date = self.table.attempted_at
        statement = select(date).where(date > self.period_start, date <= self.period_end, condition)
        return statement.order_by(date.desc()).offset(number - 1).limit(1).scalar_subquery()


def group_sender(ip: str) -> str:
    """Return the sender of an IP address: an IPv4 address or an IPv6 network.

    One customer usually has a whole /64 network of IPv6. Therefore all addresses of such a network
    count as one sender.
    """
    parsed = ip_address(ip)
    return str(parsed) if parsed.version == 4 else str(IPv6Network((int(parsed), 64), strict=False))


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
