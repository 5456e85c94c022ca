"""Lets the dates of prefixes move on when tables are replaced, so that no identifier is given
twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from sqlalchemy import Connection, select, text

from flask_ibi_archive.identifiers import format_decimal, parse_decimal
from flask_ibi_archive.storage.last_date_file import LastDateFile
from flask_ibi_archive.storage.models import Prefix
from flask_ibi_archive.storage.prefixes import EVERY_PREFIX, store_last_date
from flask_ibi_archive.storage.table_rows import Row

#: Seconds that whoever uses the tables is waited for.
LONGEST = 60


def stop_minting(connection: Connection) -> None:
    """Wait for those who take dates, and keep others from it till the end of the transaction.

    SQLite's write transactions are alone anyway.
    """
    if connection.dialect.name == "postgresql":
        # a host that waits for a date while it holds our tables itself would wait for ever
        connection.execute(text(f"SET LOCAL lock_timeout = '{LONGEST}s'"))
        connection.execute(text(f"LOCK TABLE {Prefix.__tablename__} IN ACCESS EXCLUSIVE MODE"))


def read_last_dates(connection: Connection) -> dict[str, Fraction]:
    """Return the last date of each prefix under which one was given, in POSIX seconds."""
    rows = connection.execute(select(Prefix.prefix, Prefix.last_date))
    return {prefix: parse_decimal(date) for prefix, date in rows if date}


def with_recorded_date(rows: Iterator[Row], recorded: LastDateFile | None) -> Iterator[Row]:
    """Return the rows of prefixes for a backup, with the date that was recorded outside the tables.

    :raises MintingError: if it cannot be read.
    """
    date = recorded.read() if recorded else None
    if date is not None:
        others = []
        for row in rows:
            if row["prefix"] == EVERY_PREFIX and row["last_date"]:
                date = max(date, parse_decimal(row["last_date"]))
            else:
                others.append(row)
        rows = iter([{"prefix": EVERY_PREFIX, "last_date": format_decimal(date)}, *others])
    return rows


def move_last_dates(connection: Connection, before: Mapping[str, Fraction], now: Fraction) -> None:
    """Let every prefix, the unknown ones too, give dates alone that are later than all given
    before.

    :param before: the last dates of the tables that were replaced.
    :param now: the time, in POSIX seconds.

    What was given after the backup was made is in no table, but its dates have passed: an
    identifier is handed out when its date has come (:class:`..service.minting.Minter`). So no
    margin is needed, and what a process that was killed had still to wait for was not handed out.
    """
    loaded = read_last_dates(connection)
    for prefix in {EVERY_PREFIX, *before, *loaded}:
        known = [dates[prefix] for dates in (before, loaded) if prefix in dates]
        store_last_date(connection, [prefix], max([now, *known]))
