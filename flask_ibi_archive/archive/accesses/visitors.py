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

from sqlalchemy import Connection, exists, select

from flask_ibi_archive.archive.accesses.rows import (
    DAY,
    DOUBLE_CLICK,
    Access,
    VisitorSalt,
    delete_old_salts,
    get_utc_day,
)
from flask_ibi_archive.server.database.dialects import insert_or_update

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
    day = get_utc_day(second)
    days = [day, day - timedelta(days=1)] if second % DAY < CONTINUED else [day]
    salt = insert_or_update(connection, VisitorSalt).values(day=day, salt=os.urandom(32).hex())
    if connection.execute(salt.on_conflict_do_nothing()).rowcount:
        delete_old_salts(connection, day)
    user = f"{address}\n{agent}".encode("utf-8", "surrogateescape")
    stored = select(VisitorSalt.salt).where(VisitorSalt.day.in_(days))
    return tuple(
        hmac.new(bytes.fromhex(salt), user, hashlib.sha256).hexdigest()[:LENGTH]
        for salt in connection.scalars(stored.order_by(VisitorSalt.day.desc()))
    )


def choose_pseudonym(
    connection: Connection, archive_id: int, pseudonyms: tuple[str, ...], second: int
) -> str:
    """Return the pseudonym under which an access is stored.

    If the user made an access just before midnight, the pseudonym of the day before is used again.
    Then a double click around midnight is recognised.

    :param pseudonyms: the result of :func:`build_pseudonyms`.
    :param second: the time of the access in POSIX seconds.
    """
    for pseudonym in pseudonyms[1:]:
        accesses = exists().where(
            Access.archive_id == archive_id,
            Access.second.between(second - DOUBLE_CLICK, second),
            Access.visitor == pseudonym,
        )
        if connection.scalar(select(accesses)):
            return pseudonym
    return pseudonyms[0]


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
