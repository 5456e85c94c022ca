"""Stores the last date that the temporal distributor issued under each prefix ([G] 5 and 6).

An identifier has two parts: a prefix and a suffix. The prefix names the Archive, and the suffix
encodes a date. The temporal distributor issues each date only once under each prefix. Therefore the
table ``ibi_prefix`` contains the last date of each prefix.

A transaction stores the date of each new identifier. On PostgreSQL, a transaction of one statement
stores the date of a single identifier (:func:`store_next_date`). On SQLite, a deposit stores the
date in the transaction that stores the item.

SQLite allows only one write transaction at a time. While a transaction of the host is open, no
other transaction can store the last date. If the host rolls back its transaction, the last date in
the table is lost. Therefore a date that is issued in a transaction of the host is also stored in a
file next to the database (:mod:`.last_date_file`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from sqlalchemy import Connection, bindparam, select, text

from flask_ibi_archive.identifiers import format_decimal, parse_decimal
from flask_ibi_archive.storage.bulk import renew_plans
from flask_ibi_archive.storage.dialects import insert_or_update
from flask_ibi_archive.storage.models import Prefix

#: The row with this prefix applies to all prefixes. After a restore, the row is necessary because
#: the database may not contain all prefixes that were used.
EVERY_PREFIX = ""

#: The largest number of identifiers that one statement looks for. SQLite before version 3.32
#: accepts at most 999 parameters.
LOOKUP = 200

#: The prefix and the label of the rep form, then of the ibip form.
Labels = tuple[tuple[str, str], tuple[str, str]]

# --- statements ----------------------------------------------------------------------------------


def lock_last_date(connection: Connection, prefixes: Sequence[str]) -> Fraction | None:
    """Lock some prefixes and return the latest date that was issued under one of the prefixes.

    The date of :data:`EVERY_PREFIX` counts for all prefixes. The lock ends with the transaction. On
    SQLite, the transaction must already hold the write lock.

    :returns: POSIX seconds; None if no date was issued yet.
    """
    parameters = {"prefixes": (EVERY_PREFIX, *prefixes)}
    rows = connection.execute(_LOCK, parameters).all()
    if not {row[0] for row in rows}.issuperset(prefixes):
        insert_prefixes(connection, prefixes)
        rows = connection.execute(_LOCK, parameters).all()
    return max(map(parse_decimal, {row[1] for row in rows if row[1]}), default=None)


def insert_prefixes(connection: Connection, prefixes: Sequence[str]) -> None:
    """Insert a row for each prefix that has no row.

    A prefix without a row could not be locked. On SQLite, this function acquires the write lock,
    even if no row is missing.
    """
    statement = insert_or_update(connection, Prefix.__table__).on_conflict_do_nothing()
    connection.execute(statement, _build_rows(prefixes, ""))


def store_last_date(connection: Connection, prefixes: Sequence[str], date: Fraction) -> None:
    """Store a date as the last date that was issued under each of the prefixes."""
    statement = insert_or_update(connection, Prefix.__table__)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["prefix"], set_={"last_date": statement.excluded.last_date}
        ),
        _build_rows(prefixes, format_decimal(date)),
    )


def _build_rows(prefixes: Sequence[str], date: str) -> list[dict[str, str]]:
    return [{"prefix": prefix, "last_date": date} for prefix in sorted(prefixes)]


def store_free_date(connection: Connection, labels: Labels, date: Fraction) -> bool:
    """Store the date of one identifier as the last date of its prefixes, if the date can be used.

    :param connection: a connection that has locked the prefixes (:func:`lock_last_date`).
    :param labels: the prefixes and the labels of the identifier.
    :returns: False if a label is used (:func:`find_used_identifiers`), or if a prefix has no row.
        Then the caller must store a date with :func:`store_last_date`.
    """
    values = {**_build_values(labels), "date": format_decimal(date)}
    return connection.execute(_STORE_IF_FREE, values).rowcount == len(labels)


def store_next_date(
    connection: Connection,
    labels: Labels,
    dates: Sequence[Fraction],
    lock_timeout: int,
) -> Fraction | None:
    """Store and commit the date of one identifier: the first that is later than all last dates.

    Other transactions may change the dates at the same time. Only for PostgreSQL: the statement
    waits for such a transaction, and then compares the new last dates. The lock is held by this
    statement alone.

    :param connection: a connection in autocommit mode.
    :param labels: the prefixes, and the labels of the identifier with the first date.
    :param dates: the dates to choose from, in increasing order.
    :param lock_timeout: the number of milliseconds to wait for locks; 0 means no limit.
    :returns: the date. If it is not the first date, the caller must check whether its labels are
        used. None if no date is later, if a label of the first date is used, or if a prefix has no
        row. Then nothing is stored.
    """
    values = {
        **_build_values(labels),
        "first": format_decimal(dates[0]),
        "dates": " ".join(map(format_decimal, dates)),
        "limit": str(lock_timeout),
    }
    row = connection.execute(_STORE_NEXT, values).first()
    return None if row is None else parse_decimal(row[0])


def _build_values(labels: Labels) -> dict[str, str]:
    (rep_prefix, rep), (ibip_prefix, ibip) = labels
    return {"rep_prefix": rep_prefix, "rep": rep, "ibip_prefix": ibip_prefix, "ibip": ibip}


def find_used_identifiers(
    connection: Connection, reps: Sequence[str], ibips: Sequence[str]
) -> set[str]:
    """Return the identifiers that an item of any Archive has, or that were reserved at any time."""
    if len(reps) > 1:
        renew_plans(connection)
    labels: set[str] = set()
    for start in range(0, len(reps), LOOKUP):
        part = {"reps": reps[start : start + LOOKUP], "ibips": ibips[start : start + LOOKUP]}
        labels.update(connection.scalars(_SELECT_USED, part))
    return labels


# The prefixes are sorted: if two processes lock the same prefixes in different orders, a deadlock
# is possible.
_LOCK = (
    select(Prefix.prefix, Prefix.last_date)
    .where(Prefix.prefix.in_(bindparam("prefixes", expanding=True)))
    .order_by(Prefix.prefix)
    .with_for_update()
)

#: The condition that no item has the labels, and that no label was ever reserved.
_FREE = """
           NOT EXISTS (SELECT 1 FROM ibi_identifier WHERE text IN (:rep, :ibip))
       AND NOT EXISTS (SELECT 1 FROM ibi_reservation WHERE rep = :rep)
       AND NOT EXISTS (SELECT 1 FROM ibi_reservation WHERE ibip = :ibip)
"""
_STORE_IF_FREE = text(f"""
    UPDATE ibi_prefix SET last_date = :date
     WHERE prefix IN (:rep_prefix, :ibip_prefix) AND {_FREE}
""")

# FOR UPDATE locks the prefixes in a fixed order, and returns the new last dates after a wait.
_STORE_NEXT = text(f"""
    WITH locked AS MATERIALIZED (
        SELECT last_date FROM ibi_prefix
         WHERE prefix IN (:rep_prefix, :ibip_prefix)
           AND set_config('lock_timeout', :limit, true) IS NOT NULL
         ORDER BY prefix FOR UPDATE
    ), next AS MATERIALIZED (
        SELECT min(CAST(date AS numeric)) AS date
          FROM unnest(string_to_array(:dates, ' ')) AS date
         WHERE CAST(date AS numeric) > ALL (
               SELECT CAST(last_date AS numeric) FROM locked WHERE last_date <> ''
                UNION ALL
               SELECT CAST(last_date AS numeric) FROM ibi_prefix
                WHERE prefix = '{EVERY_PREFIX}' AND last_date <> '')
    )
    UPDATE ibi_prefix SET last_date = CAST((SELECT date FROM next) AS text)
     WHERE prefix IN (:rep_prefix, :ibip_prefix)
       AND ((SELECT date FROM next) > CAST(:first AS numeric) OR ({_FREE}))
       AND (SELECT count(*) FROM locked WHERE last_date <> '') = 2
       AND (SELECT date FROM next) IS NOT NULL
    RETURNING last_date
""")


_SELECT_USED = text("""
    SELECT text FROM ibi_identifier WHERE text IN :reps OR text IN :ibips
     UNION ALL SELECT rep FROM ibi_reservation WHERE rep IN :reps
     UNION ALL SELECT ibip FROM ibi_reservation WHERE ibip IN :ibips
""").bindparams(bindparam("reps", expanding=True), bindparam("ibips", expanding=True))

# --- restoring a backup --------------------------------------------------------------------------

#: A restore waits at most this number of seconds for transactions that mint identifiers.
LOCK_TIMEOUT = 60


def lock_minting(connection: Connection) -> None:
    """Prevent other transactions from minting identifiers until the end of this transaction.

    On SQLite the function does nothing, because SQLite has only one write transaction at a time.
    """
    if connection.dialect.name == "postgresql":
        # without this limit, a host that holds locks and mints identifiers could wait for ever
        connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}s'"))
        connection.execute(text(f"LOCK TABLE {Prefix.__tablename__} IN ACCESS EXCLUSIVE MODE"))


def read_last_dates(connection: Connection) -> dict[str, Fraction]:
    """Return the last date that was issued under each prefix, in POSIX seconds."""
    rows = connection.execute(select(Prefix.prefix, Prefix.last_date))
    return {prefix: parse_decimal(date) for prefix, date in rows if date}


def raise_last_dates(
    connection: Connection, replaced: Mapping[str, Fraction], now: Fraction
) -> None:
    """Increase the last dates of all prefixes after a restore.

    After this call, no identifier is minted a second time.

    The backup does not contain identifiers that were minted after the backup. The dates of these
    identifiers are in the past, because the minter never returns an identifier before its date.
    Therefore the current time is late enough for every prefix, even for unknown prefixes.

    :param replaced: the last dates in the database before the restore.
    :param now: the current time, in POSIX seconds.
    """
    restored = read_last_dates(connection)
    for prefix in {EVERY_PREFIX, *replaced, *restored}:
        known = [dates[prefix] for dates in (replaced, restored) if prefix in dates]
        store_last_date(connection, [prefix], max([now, *known]))
