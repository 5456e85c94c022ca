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
registered, its keys are refused without a comparison and are not counted. The limit for an Archive
does not apply to the IP address in its last inclusion request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    ScalarSelect,
    Select,
    and_,
    delete,
    insert,
    null,
    or_,
    select,
)
from werkzeug.security import check_password_hash, generate_password_hash

from flask_ibi_archive.core.protocol.hosts import group_sender
from flask_ibi_archive.resolver.tables import KeyAttempt, RegisteredArchive
from flask_ibi_archive.server.database.database import Database

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


#: The period in which attempts are counted.
WINDOW = timedelta(minutes=1)
#: The maximum number of attempts in this period from one sender, and for one target.
MAX_OF_SENDER, MAX_OF_TARGET = 10, 30


@dataclass(frozen=True)
class RateLimit:
    """The rate limit that applies to one received secret.

    :param sender: the address or network that :func:`group_sender` returned for the sender.
    :param now: the time when the secret was received.
    :param table: the model of the attempts, with the columns ``sender`` and ``attempted_at``.
    :param values: the values of the other columns of this attempt.
    :param lock: the statement that makes processes count attempts one after another on PostgreSQL.
        Without this lock, a sender could exceed the limit with many simultaneous requests. SQLite
        needs no such lock, because SQLite has only one writer at a time.
    :param of_sender: the condition for the attempts of this sender.
    :param of_target: the condition for the attempts for this target.
    :param deletable: the condition for the attempts that may be deleted when they are outdated.
    :param own_ip: the SELECT of the IP address that the target registered, or NULL.
    :param locked: the SELECT that locks the row to which the attempt refers. None if the attempt
        refers to no row.
    """

    database: Database
    sender: str
    now: datetime
    table: Any
    values: Mapping[str, Any]
    lock: str
    of_sender: ColumnElement[bool]
    of_target: ColumnElement[bool]
    deletable: ColumnElement[bool]
    own_ip: ScalarSelect[Any] | None = None
    locked: Select[Any] | None = None

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
                target_exists = self._lock_target(connection)
                wait = self._find_wait_seconds(connection)
                if wait is None:
                    connection.execute(delete(self.table).where(self._is_outdated()))
                    if target_exists:
                        self.store_attempt(connection)
        return wait

    def clear_attempts(self) -> None:
        """Delete the attempts of this sender for this target, because the secret was right."""
        with self.database.writing(table_lock=self.lock) as connection:
            self._lock_target(connection)
            of_both = and_(self.of_target, self.of_sender)
            connection.execute(delete(self.table).where(or_(of_both, self._is_outdated())))

    def store_attempt(self, connection: Connection) -> None:
        """Store the attempt."""
        row = {**self.values, "sender": self.sender, "attempted_at": self.now}
        connection.execute(insert(self.table).values(row))

    def _lock_target(self, connection: Connection) -> bool:
        """Lock the row to which the attempt refers; return False if it was deleted meanwhile."""
        return self.locked is None or connection.execute(self.locked).first() is not None

    def _is_outdated(self) -> ColumnElement[bool]:
        return and_(self.deletable, self.table.attempted_at <= self.now - WINDOW)

    def _find_wait_seconds(self, connection: Connection) -> int | None:
        """Return the seconds until a secret may be compared, or None if no limit is reached."""
        first, first_of_target, own_ip = connection.execute(
            select(
                self._find_nth_latest(MAX_OF_SENDER, self.of_sender),
                self._find_nth_latest(MAX_OF_TARGET, self.of_target),
                null() if self.own_ip is None else self.own_ip,
            )
        ).one()
        if first is None and (own_ip is None or group_sender(own_ip) != self.sender):
            first = first_of_target
        return None if first is None else max(ceil((first + WINDOW - self.now).total_seconds()), 1)

    def _find_nth_latest(
        self, number: int, condition: ColumnElement[bool]
    ) -> ScalarSelect[datetime | None]:
        """Return the SELECT of the date of the n-th latest attempt; NULL if there are fewer.

        Attempts with a date of more than one minute in the future were stored before the clock was
        set back, and are ignored. Other future dates count, because the clocks of several servers
        may differ.
        """
        date = self.table.attempted_at
        is_counted = and_(date > self.now - WINDOW, date <= self.now + WINDOW, condition)
        statement = select(date).where(is_counted).order_by(date.desc())
        return statement.offset(number - 1).limit(1).scalar_subquery()


def limit_keys(database: Database, ip: str, now: datetime, archive_id: int) -> RateLimit:
    """Return the rate limit that applies to one received registration key.

    :param ip: the IP address of the sender.
    :param archive_id: the id of the Archive that the key was sent for.
    """
    sender = group_sender(ip)
    of_target = KeyAttempt.archive_id == archive_id
    is_target = RegisteredArchive.id == archive_id
    return RateLimit(
        database,
        sender,
        now,
        KeyAttempt,
        {"archive_id": archive_id},
        lock=f"SELECT pg_advisory_xact_lock({int.from_bytes(b'ibi_keys', 'big')})",
        of_sender=KeyAttempt.sender == sender,
        of_target=of_target,
        deletable=of_target,
        own_ip=select(RegisteredArchive.ip).where(is_target).scalar_subquery(),
        locked=select(RegisteredArchive.id).where(is_target).with_for_update(),
    )
