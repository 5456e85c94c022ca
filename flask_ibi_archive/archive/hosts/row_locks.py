"""Reads rows of the host, and locks them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, select, tuple_
from sqlalchemy.orm import Mapper, Session
from sqlalchemy.orm.attributes import set_committed_value

from flask_ibi_archive.archive.hosts.identified_item import IdentifiedItem, inspect_row
from flask_ibi_archive.archive.hosts.row_keys import connect_to_rows
from flask_ibi_archive.archive.items.sessions import begin_transaction
from flask_ibi_archive.server.database.dialects import batched

#: The number of rows that one statement reads.
BATCH = 1000


def group_rows(
    rows: Iterable[IdentifiedItem],
) -> Iterator[tuple[Mapper[Any], list[IdentifiedItem]]]:
    """Yield the rows of each class with their mapper, in an order that is always the same."""
    groups: dict[Mapper[Any], list[IdentifiedItem]] = {}
    for row in rows:
        groups.setdefault(inspect_row(row).mapper, []).append(row)
    yield from sorted(groups.items(), key=lambda group: str(group[0]))


def is_key_in(mapper: Mapper[Any], keys: Any) -> ColumnElement[bool]:
    """Return the condition that the primary key of a row is one of some keys."""
    return tuple_(*mapper.primary_key).in_(keys)


def read_rows(session: Session, mapper: Mapper[Any], keys: Any) -> Sequence[IdentifiedItem]:
    """Return the rows that have some primary keys, in the order of their primary keys."""
    statement = select(mapper.class_).where(is_key_in(mapper, keys)).order_by(*mapper.primary_key)
    return session.scalars(statement).unique().all()


def read_batches(
    read: Callable[[Select[Any]], Sequence[Any]], statement: Select[Any], key: Any, size: int
) -> Iterator[Sequence[Any]]:
    """Yield the rows of a statement in batches, in the order of a key.

    Each batch begins after the last key of the batch before. Therefore the caller may commit after
    a batch, and change the rows that the statement selects.

    :param read: executes the statement of a batch, and returns its rows.
    :param statement: a SELECT without an order and a limit. Its first columns are the key.
    """
    batch = statement.order_by(*key).limit(size)
    while rows := read(batch):
        yield rows
        is_unread = tuple_(*key) > tuple(rows[-1][: len(key)])
        batch = statement.where(is_unread).order_by(*key).limit(size)


def begin_locking(session: Session, mapper: Mapper[Any]) -> Connection:
    """Return the connection for the rows of a class. SQLite locks the database from now on."""
    connection = connect_to_rows(session, mapper)
    begin_transaction(connection)
    return connection


def lock_keys(session: Session, mapper: Mapper[Any], keys: Any) -> None:
    """Lock the rows that have some primary keys until the end of the transaction."""
    begin_locking(session, mapper).execute(_select_locked(mapper), {"keys": keys}).all()


def lock_rows(session: Session, rows: Sequence[IdentifiedItem]) -> list[IdentifiedItem]:
    """Lock rows, and read the identifiers of rows without identifiers from the database.

    Another transaction may have assigned identifiers, or deleted a row, in the meantime. Pass all
    rows of a flush, also those with identifiers: they are locked in the order of the flush, which
    prevents deadlocks.

    :returns: the rows that are still in the database and still have no identifiers.
    """
    without = []
    for mapper, of_mapper in group_rows(rows):
        connection = begin_locking(session, mapper)
        by_key = {inspect_row(row).identity: row for row in of_mapper}
        for keys in batched(by_key, BATCH):
            for *key, rep, ibip in connection.execute(_select_locked(mapper), {"keys": keys}).all():
                row = by_key.get(tuple(key))
                if row is None or row.ibi is not None:
                    continue
                set_committed_value(row, "ibi_rep", rep)
                set_committed_value(row, "ibi_ibip", ibip)
                if row.ibi is None:
                    without.append(row)
    return without


# The statement is cached: SQLAlchemy needs more time to build it than to run it.


@lru_cache
def _select_locked(mapper: Mapper[Any]) -> Select[Any]:
    return (
        select(*mapper.primary_key, mapper.columns["ibi_rep"], mapper.columns["ibi_ibip"])
        .select_from(mapper)
        .where(is_key_in(mapper, bindparam("keys", expanding=True)))
        .order_by(*mapper.primary_key)
        .with_for_update(of=mapper.columns["ibi_rep"])
    )
