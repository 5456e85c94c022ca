"""The rate limit of wrong registration keys, for each sender and for each Archive.

To compare a key costs 16 MiB and some hundredths of a second, and a key may have ten digits only.
Wrong keys are counted in the database, which all processes share, and only those for registered
Archives: the others are refused without a comparison.

A flood of wrong keys for an Archive does not lock its administrator out for long: the limit for the
Archive does not apply to the IP address that it stated when it was included last, and it is over a
minute after the flood.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv6Network, ip_address
from math import ceil

from sqlalchemy import Connection

from flask_ibi_archive.resolver.key_attempts import (
    COUNTING,
    find_last_ip,
    find_nth_attempt,
    forget_attempts,
    store_attempt,
)
from flask_ibi_archive.storage.database import Database

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
            with self.database.writing(table_lock=COUNTING) as connection:
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
