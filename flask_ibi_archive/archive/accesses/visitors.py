"""Visitors: a pseudonym for each user and day, anonymised addresses, and robots.

A pseudonym is a keyed hash of the address under a random salt, which is valid for one day (UTC) and
is deleted when the next day is over. After that nobody can find out which address a pseudonym
belongs to, nor that pseudonyms of two days belong to the same user.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from datetime import date, timedelta
from ipaddress import IPv6Address, ip_address, ip_network

from sqlalchemy import Connection

from flask_ibi_archive.storage.accesses import (
    DAY,
    LOCK_TIMEOUT,
    add_salt,
    day_of,
    has_recent_access,
    read_salts,
)
from flask_ibi_archive.storage.database import Database

#: The bits of an address that are stored: all but the last octet, all but the last 80 bits.
STORED_BITS = {4: 24, 6: 48}
#: Seconds after midnight in which a series of clicks from the day before may continue.
CONTINUED = 3600
#: Characters of a pseudonym.
LENGTH = 16
#: Characters of a User-Agent that are examined: programs name themselves at its beginning.
MAX_AGENT = 1024


def anonymise(address: str) -> str:
    """Return an address without the part that identifies its user: its last octet, or 80 bits.

    :param address: IPv4 or IPv6; an IPv4 address that is mapped into IPv6 counts as IPv4.
    :raises ValueError: if it is not an address.
    """
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    network = ip_network((found, STORED_BITS[found.version]), strict=False)
    return str(network.network_address)


class Visitors:
    """Builds the pseudonyms of users, with the salts of today and yesterday."""

    def __init__(self) -> None:
        self._salts: dict[date, bytes] = {}

    def begin_day(
        self, database: Database, second: int, lock_timeout: float = LOCK_TIMEOUT
    ) -> None:
        """Read the salt of a day; the first process that needs it creates it.

        :raises NotReady: if the database is locked or does not answer.
        """
        day = day_of(second)
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
        """Return a user's pseudonym of the day, then that of the day before if it may continue.

        Without a salt, because the database does not answer, it is built from the anonymised
        address.

        :param agent: the User-Agent of the user's program, if it is known.
        """
        day = day_of(second)
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
    """Return the pseudonym to store: that of the day, or of a series of clicks over midnight."""
    today, *before = pseudonyms
    for one in before:
        if has_recent_access(connection, archive_id, one, second):
            return one
    return today


def _build_pseudonym(salt: bytes, address: str, agent: str) -> str:
    user = f"{address}\n{agent}".encode("utf-8", "surrogateescape")
    return hmac.new(salt, user, hashlib.sha256).hexdigest()[:LENGTH]


def is_robots_access(agent: str | None, reader_agent: str | None) -> bool:
    """Return whether a robot or another program made an access (COUNTER Code of Practice 5.1, 7.8).

    :param agent: the User-Agent of the acknowledgment, usually that of the resolver. That this is a
        program says nothing about the reader; it is a robot only if it says so.
    :param reader_agent: the reader's User-Agent, if the resolver passes it on.
    """
    # the lists are read and compiled when they are first needed
    from counter_robots import is_machine, is_robot, is_robot_or_machine

    if reader_agent:
        return bool(is_robot_or_machine(reader_agent[:MAX_AGENT]))
    agent = agent and agent[:MAX_AGENT]
    return bool(agent and is_robot(agent) and not is_machine(agent))
