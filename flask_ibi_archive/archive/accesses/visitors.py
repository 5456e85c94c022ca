"""Recognises who requests items: pseudonyms of users, robots, and the addresses of the resolver.

A pseudonym is a hash of the user's IP address, the User-Agent and a random salt. Each day (UTC) has
a new salt. The salt is deleted at the end of the next day. Then nobody can find out the IP address
for a pseudonym. Nobody can find out which pseudonyms of different days belong to one user.

The COUNTER Code of Practice publishes the lists of User-Agents that are used.

With ``IBI_COUNT_ONLY_RESOLVER``, only the resolver can acknowledge accesses. Its addresses are the
networks in the setting, or those of the host in ``IBI_RESOLVER_URL``. A host may send requests from
several addresses. Therefore an address of the DNS stands for its network: the first 24 bits of an
IPv4 address, or the first 64 bits of an IPv6 address.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import lru_cache
from ipaddress import ip_address, ip_network
from threading import Lock
from time import monotonic

from sqlalchemy import Connection

from flask_ibi_archive.archive.accesses import access_rows
from flask_ibi_archive.core.protocol.hosts import anonymise
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.http.guarded_http import look_up, run_within
from flask_ibi_archive.server.setting_values import Network

#: The number of seconds after midnight in which the pseudonym of the day before may be used.
CONTINUED = 3600
#: The number of characters of a pseudonym.
LENGTH = 16
#: The number of characters of a User-Agent that are examined.
#: Programs name themselves at the beginning of the User-Agent.
MAX_AGENT = 1024
#: The bits of the network of an IPv4 and of an IPv6 address.
NETWORK_BITS = {4: 24, 6: 64}
#: The maximum number of seconds to wait for the DNS.
LOOK_UP_TIMEOUT = 2.0
#: The number of seconds after which the host is looked up again, after a success and a failure.
MAX_AGE, RETRY_AFTER = 600.0, 30.0


class Visitors:
    """Builds the pseudonyms of users from the salts of today and yesterday."""

    def __init__(self) -> None:
        self._salts: dict[date, bytes] = {}

    def load_salts(
        self, database: Database, second: int, lock_timeout: float = access_rows.LOCK_TIMEOUT
    ) -> None:
        """Load the salt of a day; the salt is created if it does not exist.

        :param second: a time of the day, in POSIX seconds.
        :param lock_timeout: the maximum number of seconds to wait for a lock of the database.
        :raises NotReady: if the database is locked or does not answer.
        """
        day = access_rows.get_utc_day(second)
        if day in self._salts:
            return
        days = [day, day - timedelta(days=1)]
        found = database.read(lambda connection: access_rows.read_salts(connection, days))
        if day not in found:
            with database.writing(lock_timeout) as connection:
                access_rows.add_salt(connection, day, os.urandom(32))
            found = database.read(lambda connection: access_rows.read_salts(connection, days))
        self._salts = found

    def build_pseudonyms(self, second: int, address: str, agent: str = "") -> tuple[str, ...]:
        """Return a user's pseudonym of the day; in the first hour, also that of the day before.

        If the salt is unknown because the database does not answer, the pseudonym is built from the
        anonymised IP address.

        :param second: the time of the access in POSIX seconds.
        :param address: the IP address of the user.
        :param agent: the User-Agent of the user's browser, if it is known.
        """
        day = access_rows.get_utc_day(second)
        salts = self._salts
        if day not in salts:
            return (_build_pseudonym(b"", anonymise(address), agent),)
        days = [day]
        if second % access_rows.DAY < CONTINUED and day - timedelta(days=1) in salts:
            days.append(day - timedelta(days=1))
        return tuple([_build_pseudonym(salts[salt_day], address, agent) for salt_day in days])


def choose_pseudonym(
    connection: Connection, archive_id: int, pseudonyms: tuple[str, ...], second: int
) -> str:
    """Return the pseudonym under which an access is stored.

    If the user made an access just before midnight, the pseudonym of the day before is used again.
    Then a double click around midnight is recognised.

    :param pseudonyms: the result of :meth:`Visitors.build_pseudonyms`.
    :param second: the time of the access in POSIX seconds.
    """
    today, *before = pseudonyms
    for pseudonym in before:
        if access_rows.has_recent_access(connection, archive_id, pseudonym, second):
            return pseudonym
    return today


def _build_pseudonym(salt: bytes, address: str, agent: str) -> str:
    user = f"{address}\n{agent}".encode("utf-8", "surrogateescape")
    return hmac.new(salt, user, hashlib.sha256).hexdigest()[:LENGTH]


def is_robot_access(agent: str | None, reader_agent: str | None) -> bool:
    """Return whether a robot or another program made an access (COUNTER Code of Practice 5.1, 7.8).

    :param agent: the User-Agent of the program that sent the acknowledgment, usually the resolver.
        It is examined only if ``reader_agent`` is unknown. The resolver itself is a program.
        Therefore only robots are recognised in this case, and no other programs.
    :param reader_agent: the User-Agent of the reader's browser, if the resolver sends it.
    """
    # imported only here, because the import reads and compiles long lists
    from counter_robots import is_machine, is_robot, is_robot_or_machine

    if reader_agent:
        return bool(is_robot_or_machine(reader_agent[:MAX_AGENT]))
    agent = agent and agent[:MAX_AGENT]
    return bool(agent and is_robot(agent) and not is_machine(agent))


def find_network(address: str) -> Network:
    """Return the network of an IP address."""
    parsed = ip_address(address)
    return ip_network((parsed, NETWORK_BITS[parsed.version]), strict=False)


@lru_cache(maxsize=256)  # most requests come from the resolver
def name_network(address: str | None) -> str:
    """Return the name of the network of an IP address, such as 150.163.34.0/24; "" for None."""
    return "" if address is None else str(find_network(address))


def look_up_networks(host: str) -> frozenset[Network] | None:
    """Return the networks of the addresses of a host; None if the DNS does not know any."""

    def find() -> frozenset[Network] | None:
        try:
            return frozenset(map(find_network, look_up(host, None)))
        except (OSError, ValueError):
            return None

    return run_within(LOOK_UP_TIMEOUT, find)


class ResolverAddresses:
    """Decides whether an IP address belongs to the resolver. The class is thread-safe.

    If the DNS does not answer, the last known addresses are used.

    :param host: the host name of the resolver.
    :param networks: the networks of the resolver. If empty, the DNS is asked for the host name.
    :param look_up: looks up the networks of a host.
    :param clock: returns the time in seconds.
    """

    def __init__(
        self,
        host: str,
        networks: Sequence[Network] = (),
        look_up: Callable[[str], frozenset[Network] | None] = look_up_networks,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._host = host
        self._networks = frozenset(networks)
        self._look_up = look_up
        self._clock = clock
        self._lock = Lock()
        self._next = float("inf") if networks else clock()

    def contain(self, address: str) -> bool:
        """Return whether an IP address belongs to the resolver. The DNS may be queried."""
        with self._lock:
            if self._clock() >= self._next:
                found = self._look_up(self._host)
                self._networks = found or self._networks
                self._next = self._clock() + (MAX_AGE if found else RETRY_AFTER)
        parsed = ip_address(address)
        return any(parsed in network for network in self._networks)
