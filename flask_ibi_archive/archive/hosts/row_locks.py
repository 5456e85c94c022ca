"""Reads rows of the host, locks them, and reads their present values again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, inspect, select, tuple_
from sqlalchemy.orm import Mapper, Session, aliased
from sqlalchemy.orm.attributes import set_committed_value

from flask_ibi_archive.archive.hosts.identified_item import IdentifiedItem, inspect_row
from flask_ibi_archive.archive.hosts.row_keys import connect_to_rows
from flask_ibi_archive.archive.items.operations.sessions import begin_transaction
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
    statement = _select_locked(mapper, (), key_share=False)
    begin_locking(session, mapper).execute(statement, {"keys": keys}).all()


def read_locked(
    session: Session,
    mapper: Mapper[Any],
    rows: Sequence[IdentifiedItem],
    names: Sequence[str],
    *,
    key_share: bool,
) -> Iterator[tuple[IdentifiedItem, dict[str, Any]]]:
    """Lock rows until the end of the transaction, and yield them with their values in the database.

    The session is not changed. A row that is not in the database any more is not yielded.

    :param rows: persistent rows of one class.
    :param names: the names of the attributes to read. They must be columns.
    :param key_share: True: other transactions may insert rows that refer to these rows. It must be
        False if the identifiers are updated, because their columns are unique.
    """
    connection = begin_locking(session, mapper)
    statement = _select_locked(mapper, tuple(names), key_share)
    width = len(mapper.primary_key)
    by_key = {inspect_row(row).identity: row for row in rows}
    for keys in batched(by_key, BATCH):
        found = connection.execute(statement, {"keys": keys}).all()
        for values in found:
            row = by_key.get(tuple(values[:width]))
            if row is not None:
                yield row, dict(zip(names, values[width:], strict=True))


def lock_rows(session: Session, rows: Sequence[IdentifiedItem]) -> list[IdentifiedItem]:
    """Lock rows, and read the identifiers of rows without identifiers from the database.

    Another transaction may have assigned identifiers, or deleted a row, in the meantime. Pass all
    rows of a flush, also those with identifiers: they are locked in the order of the flush, which
    prevents deadlocks.

    :returns: the rows that are still in the database and still have no identifiers.
    """
    names = ("ibi_rep", "ibi_ibip")
    without = []
    for mapper, of_mapper in group_rows(rows):
        for row, values in read_locked(session, mapper, of_mapper, names, key_share=False):
            if row.ibi is None:
                for name, value in values.items():
                    set_committed_value(row, name, value)
            if row.ibi is None:
                without.append(row)
    return without


@contextmanager
def read_again(
    session: Session, rows: Sequence[IdentifiedItem], written: Mapping[int, Set[str]]
) -> Iterator[None]:
    """Replace the values of rows by those of the database during the ``with`` block.

    Other transactions may have changed the rows since the session has read them. Only loaded
    attributes whose values differ are read again. After the block, the rows have their old values
    again, because a value may also differ for other reasons: the host has changed a mutable object,
    or the database stores the value in another form.

    :param written: the names of the columns that the session has just written, by the ``id()`` of
        the row. These columns are not read again.
    """
    kept: list[tuple[IdentifiedItem, str, Any]] = []
    for mapper, of_mapper in group_rows(rows):
        stale = _find_stale(session, mapper, of_mapper, written)
        for row in of_mapper:
            if names := stale[id(row)]:
                kept += [(row, name, row.__dict__[name]) for name in names]
                session.refresh(row, names)
    try:
        yield
    finally:
        for row, name, value in kept:
            set_committed_value(row, name, value)


def _find_stale(
    session: Session,
    mapper: Mapper[Any],
    rows: Sequence[IdentifiedItem],
    written: Mapping[int, Set[str]],
) -> dict[int, list[str]]:
    """Return the names of the loaded attributes that differ from the database; lock the rows.

    :param rows: rows of one class.
    :param written: as for :func:`read_again`.
    :returns: the names by the ``id()`` of each row.
    """
    loaded = {id(row): inspect_row(row).unmodified & row.__dict__.keys() for row in rows}
    names: set[str] = set().union(*loaded.values())
    stale: dict[int, list[str]] = {id(row): [] for row in rows}
    columns = sorted(names.intersection(mapper.column_attrs.keys()))
    for row, values in read_locked(session, mapper, rows, columns, key_share=True):
        for name in loaded[id(row)].intersection(values) - written.get(id(row), set()):
            column_type = mapper.column_attrs[name].columns[0].type
            if not column_type.compare_values(row.__dict__[name], values[name]):
                stale[id(row)].append(name)
    for name in names.intersection(mapper.relationships.keys()):
        of_name = [row for row in rows if name in loaded[id(row)]]
        present = _read_related(session, mapper, of_name, name)
        for row in of_name:
            members = inspect_row(row).attrs[name].history.non_deleted()
            known = {inspect(member).identity for member in members if member is not None}
            if known != present.get(inspect_row(row).identity, set()):
                stale[id(row)].append(name)
    return stale


def _read_related(
    session: Session, mapper: Mapper[Any], rows: Sequence[IdentifiedItem], name: str
) -> dict[Any, set[Any]]:
    """Return the primary keys of the rows to which a relationship of some rows leads.

    :param name: the name of the relationship.
    :returns: a set of primary keys for the primary key of each row.
    """
    statement, width = _select_related(mapper, name), len(mapper.primary_key)
    connection = connect_to_rows(session, mapper)
    related: dict[Any, set[Any]] = {}
    for keys in batched([inspect_row(row).identity for row in rows], BATCH):
        for values in connection.execute(statement, {"keys": keys}):
            related.setdefault(tuple(values[:width]), set()).add(tuple(values[width:]))
    return related


# The statements are cached: SQLAlchemy needs more time to build them than to run them.


@lru_cache
def _select_locked(mapper: Mapper[Any], names: tuple[str, ...], key_share: bool) -> Select[Any]:
    return (
        select(*mapper.primary_key, *(getattr(mapper.class_, name) for name in names))
        .select_from(mapper)
        .where(is_key_in(mapper, bindparam("keys", expanding=True)))
        .order_by(*mapper.primary_key)
        .with_for_update(of=mapper.columns["ibi_rep"], key_share=key_share)
    )


@lru_cache
def _select_related(mapper: Mapper[Any], name: str) -> Select[Any]:
    related = mapper.relationships[name].mapper
    other = aliased(related)
    key = [getattr(other, related.get_property_by_column(c).key) for c in related.primary_key]
    return (
        select(*mapper.primary_key, *key)
        .select_from(mapper)
        .join(getattr(mapper.class_, name).of_type(other))
        .where(is_key_in(mapper, bindparam("keys", expanding=True)))
    )
