"""Users: told apart for a day, and never told who they are.

A user is told from the others by a pseudonym: a keyed hash of the address, under a random salt that
holds for one day (UTC) and is thrown away when the next one is over. Then nobody can work out any
more which address a pseudonym stood for, nor that two of different days are the same user.
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
    PATIENCE,
    add_salt,
    day_of,
    read_salts,
    was_here,
)
from flask_ibi_archive.storage.database import Database

#: The bits of an address that are kept: all but the last octet, all but the last 80 bits.
KEPT_BITS = {4: 24, 6: 48}
#: Seconds after midnight in which a chain of clicks that began before it may go on.
CHAIN = 3600
LENGTH = 16


def anonymise(address: str) -> str:
    """Return an address without what tells its user: the last octet, or the last 80 bits, are 0.

    :param address: IPv4 or IPv6; an IPv4 address that is mapped into IPv6 counts as IPv4.
    :raises ValueError: if it is none.
    """
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    network = ip_network((found, KEPT_BITS[found.version]), strict=False)
    return str(network.network_address)


class Visitors:
    """Gives users their pseudonyms."""

    def __init__(self) -> None:
        self._salts: dict[date, bytes] = {}

    def begin_day(self, database: Database, second: int, patience: float = PATIENCE) -> None:
        """See that the day has its salt; the first of all processes makes it.

        :raises NotReady: if the database is locked or away.
        """
        day = day_of(second)
        if day in self._salts:
            return
        days = [day, day - timedelta(days=1)]
        found = database.read(lambda connection: read_salts(connection, days))
        if day not in found:
            with database.writing(patience) as connection:
                add_salt(connection, day, os.urandom(32))
            found = database.read(lambda connection: read_salts(connection, days))
        self._salts = found

    def names(self, second: int, address: str, agent: str = "") -> tuple[str, ...]:
        """Return a user's pseudonym, and behind it that of the day before where it may still hold.

        Without a salt, as when the database is away, it is made from the anonymised address.

        :param agent: what the user's program says of itself, where that is known.
        """
        day = day_of(second)
        salts = self._salts
        if day not in salts:
            return (_pseudonym(b"", anonymise(address), agent),)
        days = [day]
        if second % DAY < CHAIN and day - timedelta(days=1) in salts:
            days.append(day - timedelta(days=1))
        return tuple(_pseudonym(salts[one], address, agent) for one in days)


def choose_name(
    connection: Connection, archive_id: int, names: tuple[str, ...], second: int
) -> str:
    """Return the pseudonym that an access is kept under: the day's, or that of a chain from before
    midnight.
    """
    today, *before = names
    return next((name for name in before if was_here(connection, archive_id, name, second)), today)


def _pseudonym(salt: bytes, address: str, agent: str) -> str:
    told = f"{address}\n{agent}".encode("utf-8", "surrogateescape")
    return hmac.new(salt, told, hashlib.sha256).hexdigest()[:LENGTH]
