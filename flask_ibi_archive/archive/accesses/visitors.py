"""Recognises who requests items: pseudonyms of users, and robots.

A pseudonym is a hash of the user's IP address, the User-Agent and a random salt. Each day (UTC) has
a new salt. The salt is deleted at the end of the next day. Then nobody can find out the IP address
for a pseudonym. Nobody can find out which pseudonyms of different days belong to one user.

The COUNTER Code of Practice publishes the lists of User-Agents that are used.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from datetime import timedelta

from sqlalchemy import Connection

from flask_ibi_archive.archive.accesses import rows as access_rows

#: The number of seconds after midnight in which the pseudonym of the day before may be used.
CONTINUED = 3600
#: The number of characters of a pseudonym.
LENGTH = 16
#: The number of characters of a User-Agent that are examined.
#: Programs name themselves at the beginning of the User-Agent.
MAX_AGENT = 1024


def build_pseudonyms(
    connection: Connection, second: int, address: str, agent: str = ""
) -> tuple[str, ...]:
    """Return a user's pseudonym of the day; in the first hour, also that of the day before.

    The first access of a day creates the salt of the day.

    :param connection: a connection in a transaction for writing.
    :param second: the time of the access in POSIX seconds.
    :param address: the IP address of the user.
    :param agent: the User-Agent of the user's browser, if it is known.
    """
    day = access_rows.get_utc_day(second)
    days = [day]
    if second % access_rows.DAY < CONTINUED:
        days.append(day - timedelta(days=1))
    salts = access_rows.read_salts(connection, days)
    if day not in salts:
        access_rows.add_salt(connection, day, os.urandom(32))
        salts = access_rows.read_salts(connection, days)
    user = f"{address}\n{agent}".encode("utf-8", "surrogateescape")
    digests = (hmac.new(salts[day], user, hashlib.sha256) for day in days if day in salts)
    return tuple(digest.hexdigest()[:LENGTH] for digest in digests)


def choose_pseudonym(
    connection: Connection, archive_id: int, pseudonyms: tuple[str, ...], second: int
) -> str:
    """Return the pseudonym under which an access is stored.

    If the user made an access just before midnight, the pseudonym of the day before is used again.
    Then a double click around midnight is recognised.

    :param pseudonyms: the result of :func:`build_pseudonyms`.
    :param second: the time of the access in POSIX seconds.
    """
    today, *before = pseudonyms
    for pseudonym in before:
        if access_rows.has_recent_access(connection, archive_id, pseudonym, second):
            return pseudonym
    return today


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
