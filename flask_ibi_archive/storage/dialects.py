"""Handles differences between SQLite and PostgreSQL: column types, upserts, statement sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Connection, DateTime, Dialect, Integer, TypeDecorator
from sqlalchemy.dialects import postgresql, sqlite

Value = TypeVar("Value")

#: The column type for the ids of rows: an integer of 64 bits. On SQLite the type is called Integer,
#: because SQLite assigns new ids only to columns of this type.
Key = BigInteger().with_variant(Integer(), "sqlite")

#: The largest number of values that one statement of this package contains. SQLite accepts at most
#: 32766 parameters, and PostgreSQL accepts at most 65535.
MAX_VALUES = 5000


class UTCDateTime(TypeDecorator[datetime]):
    """A column type for times in UTC: ``timestamptz`` on PostgreSQL, text on SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Convert a time to UTC for the database; for SQLite, also remove the time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; stored times need a time zone")
        value = value.astimezone(timezone.utc)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Convert a stored time to a time with the time zone UTC."""
        if value is None:
            return None
        if value.tzinfo is None:
            return value.replace(tzinfo=timezone.utc)
        return value.astimezone(timezone.utc)


def insert_or_update(connection: Connection, table: Any) -> Any:
    """Return an INSERT statement to which the caller adds an ON CONFLICT clause."""
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


def batched(values: Iterable[Value], size: int = MAX_VALUES) -> Iterator[list[Value]]:
    """Yield the values in lists with ``size`` values each; the last list may be shorter."""
    remaining = iter(values)
    while batch := list(islice(remaining, size)):
        yield batch
