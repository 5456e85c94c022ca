"""The last dates issued under prefixes, behind a lock: the state of the temporal distributor.

Every identifier costs one transaction, so its statements go to the driver as text that is made
once: compiling them anew took longer than running them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

from sqlalchemy import Connection, select, text

from flask_ibi_archive.identifiers import format_decimal, parse_decimal
from flask_ibi_archive.storage.driver import run_driver
from flask_ibi_archive.storage.models import Prefix

#: The row that stands for every prefix: after a restore, none is known to be new.
EVERY_PREFIX = ""

#: Identifiers that one statement looks up: SQLite before 3.32 accepts 999 parameters.
LOOKUP = 200


def lock_last_date(connection: Connection, prefixes: Sequence[str]) -> Fraction | None:
    """Return the latest date issued under any of some prefixes, and lock them for this transaction.

    The date under :data:`EVERY_PREFIX` counts for each of them. On SQLite the transaction must hold
    the write lock already.

    :returns: POSIX seconds, None if none was issued yet.
    """
    dialect = connection.dialect.name
    wanted = (EVERY_PREFIX, *sorted(prefixes))
    statement = _select_dates(dialect, len(wanted))
    rows = run_driver(connection, statement, wanted).fetchall()
    if dialect == "postgresql" and not {row[0] for row in rows}.issuperset(prefixes):
        claim_prefixes(connection, prefixes)
        rows = run_driver(connection, statement, wanted).fetchall()
    return max((parse_decimal(date) for date in {row[1] for row in rows} if date), default=None)


def claim_prefixes(connection: Connection, prefixes: Sequence[str]) -> None:
    """Insert the missing rows of some prefixes, so that there is something to lock.

    On SQLite this takes the write lock, even if no row is missing.
    """
    values = tuple(value for prefix in sorted(prefixes) for value in (prefix, ""))
    run_driver(connection, _insert_prefixes(connection.dialect.name, len(prefixes)), values)


def store_last_date(connection: Connection, prefixes: Sequence[str], date: Fraction) -> None:
    """Store the last date issued, for each prefix that it was issued under."""
    text = format_decimal(date)
    values = tuple(value for prefix in sorted(prefixes) for value in (prefix, text))
    run_driver(connection, _upsert_dates(connection.dialect.name, len(prefixes)), values)


def taken_labels(connection: Connection, reps: Sequence[str], ibips: Sequence[str]) -> set[str]:
    """Return those labels that an item of any Archive bears, or that were reserved for a draft."""
    found: set[str] = set()
    for start in range(0, len(reps), LOOKUP):
        part = (*reps[start : start + LOOKUP], *ibips[start : start + LOOKUP])
        statement = _select_taken(connection.dialect.name, len(part) // 2)
        found.update(row[0] for row in run_driver(connection, statement, part + part).fetchall())
    return found


def _places(dialect: str, count: int) -> str:
    return ", ".join(["?" if dialect == "sqlite" else "%s"] * count)


@lru_cache
def _select_dates(dialect: str, count: int) -> str:
    # always in the same order, so that two processes that share one prefix cannot deadlock
    lock = " FOR UPDATE" if dialect == "postgresql" else ""
    return (
        f"SELECT prefix, last_date FROM ibi_prefix WHERE prefix IN ({_places(dialect, count)})"
        f" ORDER BY prefix{lock}"
    )


@lru_cache
def _insert_prefixes(dialect: str, count: int) -> str:
    rows = ", ".join([f"({_places(dialect, 2)})"] * count)
    return f"INSERT INTO ibi_prefix (prefix, last_date) VALUES {rows} ON CONFLICT DO NOTHING"


@lru_cache
def _upsert_dates(dialect: str, count: int) -> str:
    return _insert_prefixes(dialect, count).replace(
        "DO NOTHING", "(prefix) DO UPDATE SET last_date = excluded.last_date"
    )


@lru_cache
def _select_taken(dialect: str, count: int) -> str:
    forms = _places(dialect, count)
    return (
        f"SELECT text FROM ibi_identifier WHERE text IN ({forms}, {forms})"
        f" UNION ALL SELECT rep FROM ibi_reservation WHERE rep IN ({forms})"
        f" UNION ALL SELECT ibip FROM ibi_reservation WHERE ibip IN ({forms})"
    )


# --- when a restore replaces the tables ----------------------------------------------------------

#: Seconds to wait for transactions that mint identifiers.
LOCK_TIMEOUT = 60


def lock_minting(connection: Connection) -> None:
    """Keep other transactions from minting until the end of this one.

    SQLite has one write transaction at a time anyway.
    """
    if connection.dialect.name == "postgresql":
        # a host that mints while it holds a lock on our tables itself would wait for ever
        connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}s'"))
        connection.execute(text(f"LOCK TABLE {Prefix.__tablename__} IN ACCESS EXCLUSIVE MODE"))


def read_last_dates(connection: Connection) -> dict[str, Fraction]:
    """Return the last date issued under each prefix, in POSIX seconds."""
    rows = connection.execute(select(Prefix.prefix, Prefix.last_date))
    return {prefix: parse_decimal(date) for prefix, date in rows if date}


def raise_last_dates(
    connection: Connection, replaced: Mapping[str, Fraction], now: Fraction
) -> None:
    """Set the last dates of all prefixes so that no identifier is minted twice after a restore.

    Identifiers that were minted after the backup are in no table, but their dates are in the past:
    an identifier is returned only once its date has come (:class:`..archive.minting.Minter`). So
    the current time is late enough for every prefix, also for unknown ones.

    :param replaced: the last dates in the tables that were replaced.
    :param now: the current time, in POSIX seconds.
    """
    restored = read_last_dates(connection)
    for prefix in {EVERY_PREFIX, *replaced, *restored}:
        known = [dates[prefix] for dates in (replaced, restored) if prefix in dates]
        store_last_date(connection, [prefix], max([now, *known]))
