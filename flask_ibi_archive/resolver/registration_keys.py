"""Registration keys: how they are hashed, and the rate limit of wrong keys.

A registration key is the password that an Archive sends with its inclusion and exclusion requests.
A key may have only ten digits, and comparing a key takes 16 MiB of memory and some hundredths of a
second. Therefore the number of wrong keys per minute is limited for each sender and for each
Archive. Wrong keys are counted in the database, which all processes share. Keys for Archives that
are not registered are refused without a comparison and are not counted.

Many wrong keys for an Archive do not lock out its administrator. The limit for the Archive does not
apply to the IP address that the Archive sent with its last inclusion request, and ends one minute
after the last wrong key.
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

#: The cost of a hash (N of scrypt): 16 MiB and some hundredths of a second.
COST = 2**14
#: The first characters of hashes written by version 0.1.0: ``scrypt$COST$SALT$HASH`` in base64.
OLD_FORMAT = "scrypt$"

#: Wrong keys that are allowed in a minute: from one sender, and for one Archive.
MAX_OF_SENDER, MAX_OF_ARCHIVE = 10, 30
WINDOW = timedelta(minutes=1)

#: Locks the counting of keys for all Archives on PostgreSQL, because one sender may send many keys
#: at once. SQLite has only one writer at a time anyway.
LOCK_ATTEMPTS = f"SELECT pg_advisory_xact_lock({int.from_bytes(b'ibi_keys', 'big')})"


def hash_key(key: str, cost: int = COST) -> str:
    """Return a salted hash of a registration key, as werkzeug.security formats it.

    :param cost: N of scrypt (RFC 7914), a power of 2.
    """
    return generate_password_hash(key, f"scrypt:{cost}:8:1")


def matches_hash(key: str, key_hash: str) -> bool:
    """Return whether a hash was made from this key; the time does not depend on the key."""
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

    :param archive_id: the Archive that the key was sent for.
    :param sender: the sender, as :func:`group_sender` returns it.
    :param now: when the key was received.
    """

    database: Database
    archive_id: int
    sender: str
    now: datetime

    @property
    def since(self) -> datetime:
        """The start of the minute in which wrong keys are counted."""
        return self.now - WINDOW

    @property
    def until(self) -> datetime:
        """The end of the period in which wrong keys are counted.

        Keys with a later date are ignored: they were stored before the clock was set back. The
        clocks of several processes differ by less than a minute.
        """
        return self.now + WINDOW

    def count_attempt(self) -> int | None:
        """Count the key as wrong until :meth:`clear_attempts` is called.

        :returns: None if the key may be compared. If the limit is reached, the number of seconds
            to wait; then nothing is written.
        """
        wait = self.database.read(self._find_wait)
        if wait is None:
            with self.database.writing(table_lock=LOCK_ATTEMPTS) as connection:
                wait = self._find_wait(connection, locked=True)
                if wait is None:
                    self._store_attempt(connection)
        return wait

    def clear_attempts(self) -> None:
        """Delete the attempts of this sender for this Archive, because the key was right."""
        with self.database.writing() as connection:
            _find_last_ip(connection, self.archive_id, locked=True)
            of_sender = KeyAttempt.sender == self.sender
            self._delete_attempts(connection, or_(of_sender, KeyAttempt.attempted_at <= self.since))

    def _find_wait(self, connection: Connection, locked: bool = False) -> int | None:
        """Return the seconds until a key may be compared, None if it may be compared now."""
        last_ip = _find_last_ip(connection, self.archive_id, locked=locked)
        first = self._find_nth_attempt(connection, MAX_OF_SENDER, KeyAttempt.sender == self.sender)
        if first is None and (last_ip is None or group_sender(last_ip) != self.sender):
            first = self._find_nth_attempt(
                connection, MAX_OF_ARCHIVE, KeyAttempt.archive_id == self.archive_id
            )
        return None if first is None else max(ceil((first - self.since).total_seconds()), 1)

    def _find_nth_attempt(
        self, connection: Connection, number: int, condition: ColumnElement[bool]
    ) -> datetime | None:
        """Return the date of the n-th latest attempt, None if there are fewer attempts."""
        date = KeyAttempt.attempted_at
        statement = select(date).where(date > self.since, date <= self.until, condition)
        newest_first = statement.order_by(date.desc())
        return connection.scalar(newest_first.offset(number - 1).limit(1))

    def _store_attempt(self, connection: Connection) -> None:
        """Store the attempt if the Archive is still registered, and delete old ones."""
        self._delete_attempts(connection, KeyAttempt.attempted_at <= self.since)
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
    """Return the IP address in an Archive's last inclusion request, None if there was none.

    :param locked: whether to lock the Archive's row, so that its attempts are counted one by one.
    """
    statement = select(RegisteredArchive.ip).where(RegisteredArchive.id == archive_id)
    return connection.scalar(statement.with_for_update() if locked else statement)


def group_sender(ip: str) -> str:
    """Return the IPv4 address, or the IPv6 network (/64) that one customer usually has."""
    parsed = ip_address(ip)
    return str(parsed) if parsed.version == 4 else str(IPv6Network((int(parsed), 64), strict=False))
