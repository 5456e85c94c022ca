"""Differences between SQLite and PostgreSQL: column types, upserts and sizes of statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import BigInteger, Connection, DateTime, Dialect, Integer, TypeDecorator
from sqlalchemy.dialects import postgresql, sqlite

Value = TypeVar("Value")

#: The type of the ids of rows: 64 bits; on SQLite, only the type Integer assigns ids itself.
Key = BigInteger().with_variant(Integer(), "sqlite")

#: The number of values in one statement: SQLite accepts 32766 parameters, PostgreSQL 65535.
MAX_VALUES = 5000


class UTCDateTime(TypeDecorator[datetime]):
    """A column type for times in UTC: ``timestamptz`` on PostgreSQL, text on SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Return a time in UTC as the database stores it: for SQLite, without a time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; stored times need a time zone")
        value = value.astimezone(timezone.utc)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return a stored time as a time in UTC with a time zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            return value.replace(tzinfo=timezone.utc)
        return value.astimezone(timezone.utc)


def insert_or_update(connection: Connection, table: Any) -> Any:
    """Return an INSERT statement to which the caller adds an ON CONFLICT clause."""
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


def batched(values: Iterable[Value], size: int = MAX_VALUES) -> Iterator[list[Value]]:
    """Yield the values in lists of a certain size; the last list may be shorter."""
    remaining = iter(values)
    while batch := list(islice(remaining, size)):
        yield batch
