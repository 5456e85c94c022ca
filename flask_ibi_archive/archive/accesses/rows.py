"""The statements that store accesses to items and count them; pseudonyms of users, and robots.

A pseudonym is a hash of the user's IP address, the User-Agent and a random salt. Each day (UTC) has
a new salt. The salt is deleted at the end of the next day. Then nobody can find out the IP address
for a pseudonym. Nobody can find out which pseudonyms of different days belong to one user.

The COUNTER Code of Practice publishes the lists of User-Agents that are used.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import os
from collections.abc import Collection, Iterable, Mapping
from datetime import date, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive.archive.items.tables import AccessCount, ArchiveAccessCount, Base
from flask_ibi_archive.core.records.offer_messages import DailyCount
from flask_ibi_archive.server.database.dialects import Key, insert_or_update, run_on_postgresql


class Access(Base):
    """An access that a resolver acknowledged ([R] Table 6.11), or a view of the page of an item."""

    __tablename__ = "ibi_access"
    __table_args__: Any = (
        # a URL key can be used only once, even by two requests at the same time
        sa.UniqueConstraint("url_key", name="uq_ibi_access_url_key"),
        sa.CheckConstraint(
            "content_type IN ('Data', 'Metadata')", name="ck_ibi_access_content_type"
        ),
        sa.Index("ix_ibi_access_archive", "archive_id", "second"),
        sa.Index("ix_ibi_access_visitor", "visitor", "second"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Key, primary_key=True, autoincrement=True)
    archive_id: Mapped[int] = mapped_column(
        Key, sa.ForeignKey("ibi_archive.id", name="fk_ibi_access_archive")
    )
    #: The time and the random part of the URL key. Because of this column, nobody can use the URL
    #: key again.
    url_key: Mapped[str] = mapped_column(sa.String(64))
    #: The requested item: its rep, or its ibip if it has no rep.
    ibi: Mapped[str] = mapped_column(sa.String(255))
    #: The time of the acknowledgment, in POSIX seconds.
    second: Mapped[int] = mapped_column(sa.BigInteger)
    #: A value that distinguishes the users of one day without identifying them.
    visitor: Mapped[str] = mapped_column(sa.String(16))
    #: The IP address of the user. The address is anonymised, unless a setting requires full
    #: addresses.
    address: Mapped[str] = mapped_column(sa.String(45))
    #: True: the user is a robot or another program.
    robot: Mapped[bool] = mapped_column(server_default=sa.false())
    content_type: Mapped[str] = mapped_column(sa.String(8))
    #: The delivered URL; empty if the Archive does not return this URL for the item.
    url: Mapped[str] = mapped_column(sa.Text)


class VisitorSalt(Base):
    """A random value, from which the pseudonyms of the users of one day are computed.

    The value is deleted at the end of the next day. Then nobody can compute the pseudonyms again.
    """

    __tablename__ = "ibi_visitor_salt"

    day: Mapped[datetime.date] = mapped_column(sa.Date, primary_key=True)
    #: 32 bytes, in hexadecimal.
    salt: Mapped[str] = mapped_column(sa.String(64))


# --- access rows -------------------------------------------------------------------------------


#: If a user accesses an item twice within this number of seconds, the earlier access is a double
#: click.
DOUBLE_CLICK = 30
#: The maximum number of seconds that an access waits for other writers. The Archive counts its own
#: redirects after the response, where no request limits the time.
LOCK_TIMEOUT = 5.0

#: The beginning of the column ``url_key`` of a view of a page, which has no URL key.
PAGE_KEY = "page-"

DAY = 86400
EPOCH = date(1970, 1, 1)

#: During purging, accesses can be stored, but no other purge can run.
PURGING = "LOCK TABLE ibi_access IN SHARE UPDATE EXCLUSIVE MODE"

NUMBERS = ("accesses", "double_clicks", "robots")
#: The number of characters of a pseudonym.
LENGTH = 16
#: The number of characters of a User-Agent that are examined.
#: Programs name themselves at the beginning of the User-Agent.
MAX_AGENT = 1024


def get_utc_day(second: int) -> date:
    """Return the UTC day that contains a POSIX timestamp in seconds."""
    return EPOCH + timedelta(days=second // DAY)


def start_of_day(day: date) -> int:
    """Return the POSIX timestamp, in seconds, of the start of a UTC day."""
    return (day - EPOCH).days * DAY


# --- writing -------------------------------------------------------------------------------------


def insert_access(connection: sa.Connection, values: Mapping[str, Any]) -> bool:
    """Store an access and count it.

    :param connection: a connection that has locked the visitor (:func:`lock_visitors`).
    :param values: the values of the columns.
    :returns: False if an access with the same URL key already exists. Then nothing is changed.
    """
    statement = insert_or_update(connection, Access).values(**values).returning(Access.id)
    access_id = connection.scalar(statement.on_conflict_do_nothing(index_elements=["url_key"]))
    if access_id is None:
        return False
    second = values["second"]
    day = get_utc_day(second)
    same = {name: values[name] for name in ("archive_id", "ibi", "visitor", "content_type")}
    others = sa.select(Access.second, Access.id).filter_by(**same, robot=False)
    # the user has another pseudonym on the next day
    first, last = start_of_day(day), start_of_day(day) + DAY - 1
    near = max(first, second - DOUBLE_CLICK), min(last, second + DOUBLE_CLICK)
    is_near = Access.second.between(*near)
    rows = connection.execute(others.where(is_near, Access.id != access_id))
    clicks, own = [tuple(row) for row in rows], (second, access_id)
    previous = max((click[0] for click in clicks if click < own), default=None)
    following = min((click[0] for click in clicks if click > own), default=None)
    numbers = _find_changes(values["robot"], previous, following)
    counts = dict(zip(NUMBERS, numbers, strict=True))
    # The sums of the Archive come at the end, because all other accesses wait for these rows.
    tables: tuple[Any, ...] = (AccessCount.__table__, ArchiveAccessCount.__table__)
    for table in tables:
        key = {name: values[name] for name in values.keys() & table.primary_key.columns.keys()}
        statement = insert_or_update(connection, table).values(**key, day=day, **counts)
        sums = {name: table.c[name] + statement.excluded[name] for name in NUMBERS}
        connection.execute(
            statement.on_conflict_do_update(index_elements=[*table.primary_key.columns], set_=sums)
        )
    return True


def find_other_way(
    connection: sa.Connection, values: Mapping[str, Any], readers: Collection[str], by_page: bool
) -> bool:
    """Return whether the same view of a page was counted a moment ago in one of the two ways.

    A page itself counts a view, and so does the acknowledgment of a resolver.

    :param values: the values of the columns of the view.
    :param readers: the pseudonyms of the reader, with and without the User-Agent.
    :param by_page: True: look for a view that the page itself counted; False: for one that a
        resolver acknowledged.
    """
    near = values["second"] - DOUBLE_CLICK, values["second"] + DOUBLE_CLICK
    is_view = Access.ibi == values["ibi"], Access.content_type == "Metadata"
    is_page = Access.url_key.like(f"{PAGE_KEY}%")
    counted = sa.exists().where(
        Access.archive_id == values["archive_id"],
        Access.visitor.in_(readers),
        Access.second.between(*near),
        sa.or_(Access.url == values["url"], sa.and_(*is_view)),
        is_page if by_page else ~is_page,
    )
    return bool(connection.scalar(sa.select(counted)))


def lock_visitors(connection: sa.Connection, visitors: Iterable[str]) -> None:
    """Lock pseudonyms of a user until the end of the transaction that stores an access.

    Without the lock, two accesses of the user at the same time would not see each other, and
    neither would count as a double click.
    """
    keys = [int(visitor, 16) - (1 << 63) for visitor in sorted(visitors)]
    run_on_postgresql(connection, *[f"SELECT pg_advisory_xact_lock({key})" for key in keys])


def _find_changes(robot: bool, previous: int | None, following: int | None) -> tuple[int, int, int]:
    """Return by how much a new access changes the counts of its day.

    :param previous: the time of the last access before the new access, of the same user to the same
        item; None if there is no such access within 30 seconds.
    :param following: the time of the first such access after the new access, or None.
    :returns: the numbers to add to the accesses, the double clicks and the robots. The first may be
        negative or 0: an access that was counted before becomes a double click.
    """
    if robot:
        return 0, 0, 1
    accesses, double_clicks = (1, 0) if following is None else (0, 1)
    # the previous access was already a double click, if another access followed it within 30 s
    if previous is None or (following is not None and following <= previous + DOUBLE_CLICK):
        return accesses, double_clicks, 0
    return accesses - 1, double_clicks + 1, 0


def delete_old_salts(connection: sa.Connection, today: date) -> None:
    """Delete the salts of all days before yesterday."""
    connection.execute(sa.delete(VisitorSalt).where(VisitorSalt.day < today - timedelta(days=1)))


# --- visitors ------------------------------------------------------------------------------------


def build_pseudonym(connection: sa.Connection, second: int, address: str, agent: str = "") -> str:
    """Return a user's pseudonym of the day.

    The first access of a day creates the salt of the day.

    :param connection: a connection in a transaction for writing.
    :param second: the time of the access in POSIX seconds.
    :param address: the IP address of the user.
    :param agent: the User-Agent of the user's browser, if it is known.
    """
    day = get_utc_day(second)
    salt = insert_or_update(connection, VisitorSalt).values(day=day, salt=os.urandom(32).hex())
    if connection.execute(salt.on_conflict_do_nothing()).rowcount:
        delete_old_salts(connection, day)
    user = f"{address}\n{agent}".encode("utf-8", "surrogateescape")
    [stored] = connection.scalars(sa.select(VisitorSalt.salt).where(VisitorSalt.day == day))
    return hmac.new(bytes.fromhex(stored), user, hashlib.sha256).hexdigest()[:LENGTH]


def is_robot_access(agent: str | None, reader_agent: str | None) -> bool:
    """Return whether a robot or another program made an access (COUNTER Code of Practice 5.1, 7.8).

    :param agent: the User-Agent of the program that sent the acknowledgment, usually the resolver.
        It is examined only if ``reader_agent`` is unknown. Then only robots count, and no other
        programs, because the resolver is a program, too.
    :param reader_agent: the User-Agent of the reader's browser, if the resolver sends it.
    """
    # imported only here, because the import reads and compiles long lists
    from counter_robots import is_machine, is_robot, is_robot_or_machine

    if reader_agent:
        return bool(is_robot_or_machine(reader_agent[:MAX_AGENT]))
    agent = agent and agent[:MAX_AGENT]
    return bool(agent and is_robot(agent) and not is_machine(agent))


# --- counts --------------------------------------------------------------------------------------


def read_counts(
    connection: sa.Connection, archive_id: int, identifiers: Collection[str] | None = None
) -> list[DailyCount]:
    """Return the counts of an item or of a whole Archive.

    :param identifiers: the identifiers of the item. None returns the counts of the whole Archive.
    """
    table: Any = ArchiveAccessCount if identifiers is None else AccessCount
    statement = sa.select(*(getattr(table, name) for name in DailyCount._fields)).where(
        table.archive_id == archive_id
    )
    if identifiers is not None:
        statement = statement.where(AccessCount.ibi.in_(identifiers))
    return [DailyCount(*row) for row in connection.execute(statement)]


# --- purging -------------------------------------------------------------------------------------


def delete_day(connection: sa.Connection, archive_id: int, day: date) -> int:
    """Delete the accesses of a day, and return the number of deleted accesses.

    :param connection: a connection with the table lock :data:`PURGING`.
    """
    begin = start_of_day(day)
    of_day = Access.second >= begin, Access.second < begin + DAY
    old = sa.delete(Access).where(Access.archive_id == archive_id, *of_day)
    return connection.execute(old).rowcount
