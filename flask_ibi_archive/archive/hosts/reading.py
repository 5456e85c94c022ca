"""Reads rows again that other transactions may have changed since the session has read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, inspect, select, tuple_
from sqlalchemy.orm import Mapper, Session, aliased
from sqlalchemy.orm.attributes import set_committed_value

from flask_ibi_archive.archive.hosts.describing import inspect_row
from flask_ibi_archive.archive.hosts.identified_item import IdentifiedItem
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


def begin_locking(session: Session, mapper: Mapper[Any]) -> Connection:
    """Return the connection for the rows of a class. SQLite locks the database from now on."""
    connection = session.connection(bind_arguments={"mapper": mapper})
    begin_transaction(connection)
    return connection


def read_locked(
    session: Session,
    mapper: Mapper[Any],
    rows: Sequence[IdentifiedItem],
    names: Sequence[str],
    *,
    key_share: bool,
) -> Iterator[tuple[IdentifiedItem, dict[str, Any]]]:
    """Lock rows until the end of the transaction, and yield them with their present values.

    The session is not changed. A row that is not in the database any more is not yielded.

    :param rows: persistent rows of one class.
    :param names: the names of attributes that are columns.
    :param key_share: the lock of an UPDATE, which allows others to insert rows that refer to these
        rows. An UPDATE of the identifiers needs False, because they are unique.
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


@contextmanager
def read_again(
    session: Session, rows: Sequence[IdentifiedItem], written: Mapping[int, Set[str]]
) -> Iterator[None]:
    """Show what other transactions have changed in rows since the session has read the rows.

    Only attributes that are loaded and whose values differ are loaded again, and only for the
    ``with`` block. Afterwards, the host has its own values again: a value may also differ because
    the host has changed a mutable object, or because the database stores values in another form.

    :param written: the names of the columns that the session has just written, by the ``id()`` of
        the row. They are not read again.
    """
    kept: list[tuple[IdentifiedItem, str, Any]] = []
    for mapper, of_mapper in group_rows(rows):
        loaded = {id(row): inspect_row(row).unmodified & row.__dict__.keys() for row in of_mapper}
        names: set[str] = set().union(*loaded.values())
        stale: dict[int, list[str]] = {id(row): [] for row in of_mapper}
        columns = sorted(names.intersection(mapper.column_attrs.keys()))
        for row, values in read_locked(session, mapper, of_mapper, columns, key_share=True):
            for name in loaded[id(row)].intersection(values) - written.get(id(row), set()):
                column_type = mapper.column_attrs[name].columns[0].type
                if not column_type.compare_values(row.__dict__[name], values[name]):
                    stale[id(row)].append(name)
        for name in names.intersection(mapper.relationships.keys()):
            of_name = [row for row in of_mapper if name in loaded[id(row)]]
            present = _read_related(session, mapper, of_name, name)
            for row in of_name:
                members = inspect_row(row).attrs[name].history.non_deleted()
                known = {inspect(one).identity for one in members if one is not None}
                if known != present.get(inspect_row(row).identity, set()):
                    stale[id(row)].append(name)
        for row in of_mapper:
            if stale[id(row)]:
                kept += [(row, name, row.__dict__[name]) for name in stale[id(row)]]
                session.refresh(row, stale[id(row)])
    try:
        yield
    finally:
        for row, name, value in kept:
            set_committed_value(row, name, value)


def _read_related(
    session: Session, mapper: Mapper[Any], rows: Sequence[IdentifiedItem], name: str
) -> dict[Any, set[Any]]:
    """Return the primary keys of the rows to which a relationship leads, by those of the rows."""
    statement, width = _select_related(mapper, name), len(mapper.primary_key)
    connection = session.connection(bind_arguments={"mapper": mapper})
    found: dict[Any, set[Any]] = {}
    for keys in batched([inspect_row(row).identity for row in rows], BATCH):
        for values in connection.execute(statement, {"keys": keys}):
            found.setdefault(tuple(values[:width]), set()).add(tuple(values[width:]))
    return found


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
