"""Registration keys: the hashes of the keys, and the rate limit of wrong keys.

A registration key is a password. An Archive sends this password with inclusion requests and
exclusion requests. The number of wrong keys per minute is limited for each sender and for each
Archive. There are two reasons for the rate limit. A key may have only ten digits. And each
comparison of a key takes 16 MiB of memory and some hundredths of a second. Wrong keys are counted
in the database, because all processes share the database. If an Archive is not registered, its keys
are refused without a comparison and are not counted.

An attacker who sends many wrong keys for an Archive cannot lock out the Archive's administrator.
The limit for the Archive does not apply to the IP address in the Archive's last inclusion request.
For all other senders, the limit ends at most one minute after the last wrong key.
"""

from __future__ import annotations

import hmac
from base64 import b64decode
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import scrypt
from ipaddress import IPv6Network, ip_address
from math import ceil

from sqlalchemy import ColumnElement, Connection, String, delete, insert, literal, or_, select
from werkzeug.security import check_password_hash, generate_password_hash

from flask_ibi_archive.resolver.tables import KeyAttempt, RegisteredArchive
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.dialects import UTCDateTime

#: The cost of a hash (N of scrypt). A hash takes 16 MiB and some hundredths of a second.
COST = 2**14
#: The first characters of the hashes that version 0.1.0 stored. These hashes have the form
#: ``scrypt$COST$SALT$HASH``. SALT and HASH are in base64.
OLD_FORMAT = "scrypt$"

#: The maximum number of wrong keys in a minute, from one sender and for one Archive.
MAX_OF_SENDER, MAX_OF_ARCHIVE = 10, 30
WINDOW = timedelta(minutes=1)

#: The statement that makes processes count keys one after another on PostgreSQL. Without this lock,
#: a sender could exceed the limit with many simultaneous requests. SQLite needs no such lock,
#: because SQLite has only one writer at a time.
LOCK_ATTEMPTS = f"SELECT pg_advisory_xact_lock({int.from_bytes(b'ibi_keys', 'big')})"


def hash_key(key: str, cost: int = COST) -> str:
    """Return a salted hash of a registration key in the format of werkzeug.security.

    :param cost: the parameter N of scrypt (RFC 7914), a power of 2.
    """
    return generate_password_hash(key, f"scrypt:{cost}:8:1")


def matches_hash(key: str, key_hash: str) -> bool:
    """Return True if a hash was made from this key. The duration does not depend on the key."""
    if not key_hash.startswith(OLD_FORMAT):
        return check_password_hash(key_hash, key)
    _, cost, salt, expected = key_hash.split("$")
    found = scrypt(
        key.encode(), salt=b64decode(salt), n=int(cost), r=8, p=1, dklen=32, maxmem=2**28
    )
    return hmac.compare_digest(found, b64decode(expected))


@dataclass(frozen=True, slots=True)
class KeyRateLimit:
    """The rate limit that applies to one received key.

    :param archive_id: the id of the Archive that the key was sent for.
    :param sender: the address or network that :func:`group_sender` returned for the sender.
    :param now: the time when the key was received.
    """

    database: Database
    archive_id: int
    sender: str
    now: datetime

    @property
    def period_start(self) -> datetime:
        """The start of the period in which wrong keys are counted."""
        return self.now - WINDOW

    @property
    def period_end(self) -> datetime:
        """The end of the period in which wrong keys are counted.

        The period ends one minute after the present, because the clocks of several servers may
        differ. Keys with a later date are ignored. Such keys were stored before the clock was set
        back.
        """
        return self.now + WINDOW

    def count_attempt(self) -> int | None:
        """Count the key as a wrong key, unless the rate limit is reached.

        If the key is right, the caller must then call :meth:`clear_attempts`.

        :returns: None if the key was counted and may be compared. If the limit is reached, the
            number of seconds to wait.
        """
        wait = self.database.read(self._find_wait_seconds)
        if wait is None:
            with self.database.writing(table_lock=LOCK_ATTEMPTS) as connection:
                wait = self._find_wait_seconds(connection, locked=True)
                if wait is None:
                    self._store_attempt(connection)
        return wait

    def clear_attempts(self) -> None:
        """Delete the wrong keys of this sender for this Archive, because the key was right."""
        with self.database.writing() as connection:
            _find_last_ip(connection, self.archive_id, locked=True)
            of_sender = KeyAttempt.sender == self.sender
            self._delete_attempts(
                connection, or_(of_sender, KeyAttempt.attempted_at <= self.period_start)
            )

    def _find_wait_seconds(self, connection: Connection, locked: bool = False) -> int | None:
        """Return the seconds until a key may be compared, or None if no limit is reached."""
        last_ip = _find_last_ip(connection, self.archive_id, locked=locked)
        first = self._find_nth_attempt(connection, MAX_OF_SENDER, KeyAttempt.sender == self.sender)
        if first is None and (last_ip is None or group_sender(last_ip) != self.sender):
            first = self._find_nth_attempt(
                connection, MAX_OF_ARCHIVE, KeyAttempt.archive_id == self.archive_id
            )
        return None if first is None else max(ceil((first - self.period_start).total_seconds()), 1)

    def _find_nth_attempt(
        self, connection: Connection, number: int, condition: ColumnElement[bool]
    ) -> datetime | None:
        """Return the date of the n-th latest wrong key, or None if there are fewer wrong keys."""
        date = KeyAttempt.attempted_at
        statement = select(date).where(date > self.period_start, date <= self.period_end, condition)
        newest_first = statement.order_by(date.desc())
        return connection.scalar(newest_first.offset(number - 1).limit(1))

    def _store_attempt(self, connection: Connection) -> None:
        """Store the wrong key if the Archive is still registered, and delete old wrong keys."""
        self._delete_attempts(connection, KeyAttempt.attempted_at <= self.period_start)
        row = select(
            RegisteredArchive.id,
            literal(self.sender, String()),
            literal(self.now, UTCDateTime()),
        ).where(RegisteredArchive.id == self.archive_id)
        connection.execute(
            insert(KeyAttempt).from_select(["archive_id", "sender", "attempted_at"], row)
        )

    def _delete_attempts(self, connection: Connection, condition: ColumnElement[bool]) -> None:
        connection.execute(
            delete(KeyAttempt).where(KeyAttempt.archive_id == self.archive_id, condition)
        )


def _find_last_ip(connection: Connection, archive_id: int, *, locked: bool) -> str | None:
    """Return the IP address in an Archive's last inclusion request, or None without a request.

    :param locked: True locks the row of the Archive until the end of the transaction.
    """
    statement = select(RegisteredArchive.ip).where(RegisteredArchive.id == archive_id)
    return connection.scalar(statement.with_for_update() if locked else statement)


def group_sender(ip: str) -> str:
    """Return the sender of an IP address: an IPv4 address or an IPv6 network.

    One customer usually has a whole /64 network of IPv6. Therefore all addresses of such a network
    count as one sender.
    """
    parsed = ip_address(ip)
    return str(parsed) if parsed.version == 4 else str(IPv6Network((int(parsed), 64), strict=False))
