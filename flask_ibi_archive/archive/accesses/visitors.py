"""Visitors: daily pseudonyms of users, and anonymised IP addresses.

A pseudonym is a hash of the user's IP address, the User-Agent and a random salt. Each day (UTC) has
a new salt. The salt is deleted at the end of the next day. Then nobody can find out the IP address
for a pseudonym. Nobody can find out which pseudonyms of different days belong to one user.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from datetime import date, timedelta

from sqlalchemy import Connection

from flask_ibi_archive.archive.accesses.access_rows import (
    DAY,
    LOCK_TIMEOUT,
    add_salt,
    get_utc_day,
    has_recent_access,
    read_salts,
)
from flask_ibi_archive.core.protocol.hosts import anonymise
from flask_ibi_archive.server.database.database import Database

#: The number of seconds after midnight in which the pseudonym of the day before may be used.
CONTINUED = 3600
#: The number of characters of a pseudonym.
LENGTH = 16


class Visitors:
    """Builds the pseudonyms of users from the salts of today and yesterday."""

    def __init__(self) -> None:
        self._salts: dict[date, bytes] = {}

    def load_salts(
        self, database: Database, second: int, lock_timeout: float = LOCK_TIMEOUT
    ) -> None:
        """Load the salt of a day; the salt is created if it does not exist.

        :param second: a time of the day, in POSIX seconds.
        :param lock_timeout: the maximum number of seconds to wait for a lock of the database.

        :raises NotReady: if the database is locked or does not answer.
        """
        day = get_utc_day(second)
        if day in self._salts:
            return
        days = [day, day - timedelta(days=1)]
        found = database.read(lambda connection: read_salts(connection, days))
        if day not in found:
            with database.writing(lock_timeout) as connection:
                add_salt(connection, day, os.urandom(32))
            found = database.read(lambda connection: read_salts(connection, days))
        self._salts = found

    def build_pseudonyms(self, second: int, address: str, agent: str = "") -> tuple[str, ...]:
        """Return a user's pseudonyms: the pseudonym of the day, and sometimes a second one.

        In the first hour after midnight, the second one is the pseudonym of the day before. If the
        salt is unknown because the database does not answer, the pseudonym is built from the
        anonymised IP address.

        :param second: the time of the access in POSIX seconds.
        :param address: the IP address of the user.

        :param agent: the User-Agent of the user's browser, if it is known.
        """
        day = get_utc_day(second)
        salts = self._salts
        if day not in salts:
            return (_build_pseudonym(b"", anonymise(address), agent),)
        days = [day]
        if second % DAY < CONTINUED and day - timedelta(days=1) in salts:
            days.append(day - timedelta(days=1))
        return tuple([_build_pseudonym(salts[one], address, agent) for one in days])


def choose_pseudonym(
    connection: Connection, archive_id: int, pseudonyms: tuple[str, ...], second: int
) -> str:
    """Return the pseudonym under which an access is stored.

    If the user made an access just before midnight, this is the pseudonym of the day before.
    Otherwise it is the pseudonym of the day.

    :param pseudonyms: the result of :meth:`Visitors.build_pseudonyms`.
    :param second: the time of the access in POSIX seconds.
    """
    today, *before = pseudonyms
    for one in before:
        if has_recent_access(connection, archive_id, one, second):
            return one
    return today


def _build_pseudonym(salt: bytes, address: str, agent: str) -> str:
    user = f"{address}\n{agent}".encode("utf-8", "surrogateescape")
    return hmac.new(salt, user, hashlib.sha256).hexdigest()[:LENGTH]
