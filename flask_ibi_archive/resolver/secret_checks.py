"""Secrets: their hashes, and the rate limit of wrong registration keys.

The number of wrong keys per minute is limited for each sender and for each Archive that the keys
were sent for. Attempts are counted in the database, because all processes share the database. An
attempt is counted before the key is compared, and its row is deleted if the key was right.
Therefore simultaneous requests cannot exceed the limit.

An attacker who sends many wrong keys for an Archive cannot lock out the Archive itself. The limit
of the Archive does not apply to the IP address in its last inclusion request. For all other
senders, the limit ends at most one minute after the last wrong key.

There are two reasons for the rate limit. A registration key may have only ten digits. And each
comparison of a key takes 16 MiB of memory and some hundredths of a second. If an Archive is not
registered, its keys are refused without a comparison and are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from sqlalchemy import ColumnElement, Connection, ScalarSelect, and_, delete, insert, or_, select
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
#: The maximum number of attempts in this period from one sender, and for one Archive.
MAX_OF_SENDER, MAX_OF_ARCHIVE = 10, 30
#: The lock with which processes count attempts one after another on PostgreSQL. Without this lock,
#: a sender could exceed the limit with many simultaneous requests. SQLite needs no such lock,
#: because SQLite has only one writer at a time.
LOCK = f"SELECT pg_advisory_xact_lock({int.from_bytes(b'ibi_keys', 'big')})"


@dataclass(frozen=True)
class KeyRateLimit:
    """The rate limit that applies to one received registration key.

    :param ip: the IP address of the sender.
    :param now: the time when the key was received.
    :param archive_id: the id of the Archive that the key was sent for.
    """

    database: Database
    ip: str
    now: datetime
    archive_id: int

    def count_attempt(self) -> int | None:
        """Count the attempt as a wrong key, unless the rate limit is reached.

        If the key is right, the caller must then call :meth:`clear_attempts`. A refused attempt
        only needs one SELECT statement.

        :returns: None if the attempt was counted and the key may be compared. If the limit is
            reached, the number of seconds to wait.
        """
        wait = self.database.read(self._find_wait_seconds)
        if wait is None:
            with self.database.writing(table_lock=LOCK) as connection:
                archive_exists = self._lock_archive(connection)
                wait = self._find_wait_seconds(connection)
                if wait is None:
                    connection.execute(delete(KeyAttempt).where(self._is_outdated()))
                    if archive_exists:
                        row = {"archive_id": self.archive_id, "sender": group_sender(self.ip)}
                        connection.execute(insert(KeyAttempt).values(**row, attempted_at=self.now))
        return wait

    def clear_attempts(self) -> None:
        """Delete the attempts of this sender for this Archive, because the key was right."""
        with self.database.writing(table_lock=LOCK) as connection:
            self._lock_archive(connection)
            of_both = and_(self._is_of_archive(), self._is_of_sender())
            connection.execute(delete(KeyAttempt).where(or_(of_both, self._is_outdated())))

    def _lock_archive(self, connection: Connection) -> bool:
        """Lock the row of the Archive; return False if it was deleted meanwhile."""
        row = select(RegisteredArchive.id).where(RegisteredArchive.id == self.archive_id)
        return connection.execute(row.with_for_update()).first() is not None

    def _is_of_archive(self) -> ColumnElement[bool]:
        return KeyAttempt.archive_id == self.archive_id

    def _is_of_sender(self) -> ColumnElement[bool]:
        return KeyAttempt.sender == group_sender(self.ip)

    def _is_outdated(self) -> ColumnElement[bool]:
        return and_(self._is_of_archive(), KeyAttempt.attempted_at <= self.now - WINDOW)

    def _find_wait_seconds(self, connection: Connection) -> int | None:
        """Return the seconds until a key may be compared, or None if no limit is reached."""
        own = select(RegisteredArchive.ip).where(RegisteredArchive.id == self.archive_id)
        first, first_of_archive, own_ip = connection.execute(
            select(
                self._find_nth_latest(MAX_OF_SENDER, self._is_of_sender()),
                self._find_nth_latest(MAX_OF_ARCHIVE, self._is_of_archive()),
                own.scalar_subquery(),
            )
        ).one()
        if first is None and (own_ip is None or group_sender(own_ip) != group_sender(self.ip)):
            first = first_of_archive
        return None if first is None else max(ceil((first + WINDOW - self.now).total_seconds()), 1)

    def _find_nth_latest(
        self, number: int, condition: ColumnElement[bool]
    ) -> ScalarSelect[datetime]:
        """Return the SELECT of the date of the n-th latest attempt; NULL if there are fewer.

        Attempts with a date of more than one minute in the future were stored before the clock was
        set back, and are ignored. Other future dates count, because the clocks of several servers
        may differ.
        """
        date = KeyAttempt.attempted_at
        is_counted = and_(date > self.now - WINDOW, date <= self.now + WINDOW, condition)
        statement = select(date).where(is_counted).order_by(date.desc())
        return statement.offset(number - 1).limit(1).scalar_subquery()
