"""The counts of persistent URLs that failed, by day, identifier and reason.

Nothing about the readers is stored. Anyone can request any identifiers. Therefore the number of
rows of a day is limited: what comes after them is counted without its identifier.
"""

from __future__ import annotations

from calendar import monthrange
from collections import Counter
from collections.abc import Mapping
from datetime import date, timedelta
from itertools import groupby
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, select

from flask_ibi_archive.core.identifiers.grammar import MAX_LENGTH
from flask_ibi_archive.resolver.tables import FailedUrl
from flask_ibi_archive.server.database.dialects import insert_or_update

#: The maximum number of different rows of a day. All days together then take at most about 600 MB
#: (with the longest identifiers).
MAX_ROWS = 2000
#: The identifier in the rows that count what exceeds the maximum.
OTHERS = ""
#: The counts of the current month, and of the twelve months before it, are kept.
MONTHS_KEPT = 13


class FailedName(NamedTuple):
    """What failed on a day.

    :param ibi: the identifier, of this system or of others, or the former address, in canonical
        spelling, or the text in its place.
    :param reason: the kind of the alert, such as "unknown".
    """

    day: date
    ibi: str
    reason: str


def clean_name(text: str) -> str:
    """Return a text that a reader requested as an identifier, in a form that can be stored."""
    # a database refuses null characters and lone surrogates
    cleaned = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
    return cleaned[:MAX_LENGTH]


def store_counts(connection: Connection, counts: Mapping[FailedName, int]) -> None:
    """Add new counts to the stored ones."""
    for day, names in groupby(sorted(counts), key=lambda name: name.day):
        of_day = Counter({name: counts[name] for name in names})
        _store_day(connection, day, of_day)


def _store_day(connection: Connection, day: date, counts: Counter[FailedName]) -> None:
    is_of_day = FailedUrl.day == day
    stored = connection.scalar(select(func.count()).select_from(FailedUrl).where(is_of_day)) or 0
    if stored + len(counts) > MAX_ROWS:
        rows = connection.execute(select(FailedUrl.ibi, FailedUrl.reason).where(is_of_day))
        known = {FailedName(day, *row) for row in rows}
        room = max(MAX_ROWS - stored, 0)
        for name in [name for name in sorted(counts) if name not in known][room:]:
            counts[name._replace(ibi=OTHERS)] += counts.pop(name)
    statement = insert_or_update(connection, FailedUrl)
    added = statement.on_conflict_do_update(
        index_elements=[FailedUrl.day, FailedUrl.ibi, FailedUrl.reason],
        set_={"count": FailedUrl.count + statement.excluded.count},
    )
    # all writers lock the rows in the same order, which prevents deadlocks
    new = [{**name._asdict(), "count": counts[name]} for name in sorted(counts)]
    connection.execute(added, new)


def list_counts(connection: Connection, day: date) -> list[tuple[int, str, str]]:
    """Return the counts of the month of a day, with the reasons and the identifiers.

    The most frequent come first.
    """
    first = day.replace(day=1)
    last = day.replace(day=monthrange(day.year, day.month)[1])
    count = func.sum(FailedUrl.count)
    rows = connection.execute(
        select(count, FailedUrl.reason, FailedUrl.ibi)
        .where(FailedUrl.day.between(first, last))
        .group_by(FailedUrl.ibi, FailedUrl.reason)
        .order_by(count.desc(), FailedUrl.ibi, FailedUrl.reason)
    )
    return [(int(total), reason, ibi) for total, reason, ibi in rows]  # PostgreSQL sums to decimals


def delete_old_counts(connection: Connection, today: date) -> int:
    """Delete the counts that are older than thirteen months, and return the number of rows."""
    first = today.replace(day=1)
    for _ in range(MONTHS_KEPT):
        first = (first - timedelta(days=1)).replace(day=1)
    return connection.execute(delete(FailedUrl).where(FailedUrl.day < first)).rowcount
