"""The rate limit of wrong registration keys, for each sender and for each Archive.

To compare a key costs 16 MiB and some hundredths of a second, and a key may have ten digits only.
Wrong keys are counted in the database, which all processes share, and only those for registered
Archives: the others are refused without a comparison.

A flood of wrong keys for an Archive does not lock its administrator out for long: the limit for the
Archive does not apply to the IP address that it stated when it was included last, and it is over a
minute after the flood.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import scrypt
from ipaddress import IPv6Network, ip_address
from math import ceil

from sqlalchemy import Connection, String, delete, insert, literal, or_, select

from flask_ibi_archive.resolver.tables import KeyAttempt, RegisteredArchive
from flask_ibi_archive.storage.database import Database
from flask_ibi_archive.storage.types import UTCDateTime

#: Wrong keys in a minute: from one sender, and for one Archive.
MAX_OF_SENDER, MAX_OF_ARCHIVE = 10, 30
WINDOW = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class KeyLimit:
    """The rate limit, as it is for one key.

    :param archive_id: the Archive that it was sent for.
    :param sender: who sent it (:func:`group_sender`).
    :param now: when it came.
    """

    database: Database
    archive_id: int
    sender: str
    now: datetime

    @property
    def since(self) -> datetime:
        """What was before does not count any more."""
        return self.now - WINDOW

    @property
    def until(self) -> datetime:
        """What is after this does not count: the clock was set back; those of processes differ by
        less.
        """
        return self.now + WINDOW

    def begin(self) -> int | None:
        """Count the key as wrong until :meth:`succeed`.

        :returns: None; if too many were wrong already, the seconds until another one is compared.
        """
        # while the limit is reached nothing is written
        wait = self.database.read(self._find_wait)
        if wait is None:
            with self.database.writing(lock=COUNTING) as connection:
                wait = self._find_wait(connection, locked=True)
                if wait is None:
                    store_attempt(connection, self.archive_id, self.sender, self.since, self.now)
        return wait

    def succeed(self) -> None:
        """Count neither the key nor those that the sender sent for this Archive before: it is
        right.
        """
        with self.database.writing() as connection:
            find_last_ip(connection, self.archive_id, locked=True)
            forget_attempts(connection, self.archive_id, self.sender, self.since)

    def _find_wait(self, connection: Connection, locked: bool = False) -> int | None:
        last_ip = find_last_ip(connection, self.archive_id, locked=locked)
        span = self.since, self.until
        first = find_nth_attempt(connection, MAX_OF_SENDER, *span, sender=self.sender)
        if first is None and (last_ip is None or group_sender(last_ip) != self.sender):
            first = find_nth_attempt(connection, MAX_OF_ARCHIVE, *span, archive_id=self.archive_id)
        return None if first is None else max(ceil((first - self.since).total_seconds()), 1)


def group_sender(ip: str) -> str:
    """Return what counts as one sender: an IPv4 address, or the network that a customer has in
    IPv6.
    """
    parsed = ip_address(ip)
    return str(parsed) if parsed.version == 4 else str(IPv6Network((int(parsed), 64), strict=False))


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


#: What a hash costs: 16 MiB and some hundredths of a second. A key may have no more than ten
#: digits.
COST = 2**14
_BLOCK, _PARALLEL = 8, 1
_SALT, _LENGTH = 16, 32
_MEMORY = 2**28


def hash_key(key: str, cost: int = COST) -> str:
    """Return what is kept of a key: a salted hash, with all that is needed to compute it again.

    :param key: the registration key.
    :param cost: a power of 2.
    :returns: ``scrypt$COST$SALT$HASH``.
    Source: RFC 7914.
    """
    return _format(key, cost, secrets.token_bytes(_SALT))


def is_key_of(key: str, kept: str) -> bool:
    """Tell whether a key is the one that a hash was made of; it takes as long whatever the key is.

    :param kept: as :func:`hash_key` gives it.
    """
    _, cost, salt, _ = kept.split("$")
    return hmac.compare_digest(_format(key, int(cost), b64decode(salt)), kept)


def _format(key: str, cost: int, salt: bytes) -> str:
    options = {"n": cost, "r": _BLOCK, "p": _PARALLEL, "dklen": _LENGTH, "maxmem": _MEMORY}
    return _join(cost, salt, scrypt(key.encode(), salt=salt, **options))


def _join(cost: int, salt: bytes, found: bytes) -> str:
    return f"scrypt${cost}${b64encode(salt).decode()}${b64encode(found).decode()}"
