"""The dates given under prefixes, behind a lock: the state of the temporal distributor."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from flask_ibi_archive.identifiers import format_decimal, parse_decimal
from flask_ibi_archive.storage.models import ItemIdentifier, Prefix
from flask_ibi_archive.storage.reservations import reserved_labels

#: The row that stands for every prefix: after a restore, none is known to be new.
EVERY_PREFIX = ""


def lock_last_date(connection: Connection, prefixes: Sequence[str]) -> Fraction | None:
    """Give the latest date given under any of some prefixes, and keep others from it till the end.

    The date under :data:`EVERY_PREFIX` counts for each of them.

    :returns: POSIX seconds, None where none was given yet.
    """
    # always in the same order, so that two who share one prefix can't wait for each other
    statement = select(Prefix.last_date).where(Prefix.prefix.in_([EVERY_PREFIX, *sorted(prefixes)]))
    locked = statement.order_by(Prefix.prefix).with_for_update()
    dates = [parse_decimal(text) for text in connection.scalars(locked) if text]
    return max(dates, default=None)


def claim_prefixes(connection: Connection, prefixes: Sequence[str]) -> None:
    """See that there is a row to lock for each prefix."""
    insert: Any = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    rows = [{"prefix": prefix, "last_date": ""} for prefix in sorted(prefixes)]
    connection.execute(insert(Prefix).on_conflict_do_nothing(), rows)


def store_last_date(connection: Connection, prefixes: Sequence[str], date: Fraction) -> None:
    """Remember the last date given, for each prefix that it was given under."""
    insert: Any = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = insert(Prefix)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[Prefix.prefix], set_={"last_date": statement.excluded.last_date}
        ),
        [{"prefix": prefix, "last_date": format_decimal(date)} for prefix in sorted(prefixes)],
    )


def taken_labels(connection: Connection, labels: Sequence[str]) -> set[str]:
    """Give those of some labels that an item bears, or a draft was given, in whatever Archive."""
    found: set[str] = set()
    for start in range(0, len(labels), 500):
        part = labels[start : start + 500]
        found.update(
            connection.scalars(select(ItemIdentifier.text).where(ItemIdentifier.text.in_(part)))
        )
        found.update(reserved_labels(connection, part))
    return found
