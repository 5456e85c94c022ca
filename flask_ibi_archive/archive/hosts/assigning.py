"""Reads rows again and locks them, mints identifiers for rows, and writes them into rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias
from weakref import ref

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Update,
    bindparam,
    inspect,
    select,
    tuple_,
    update,
)
from sqlalchemy.orm import Mapper, Session, SessionTransaction, aliased
from sqlalchemy.orm.attributes import set_committed_value

from flask_ibi_archive.archive.hosts.identified_item import (
    DescribedRow,
    IdentifiedItem,
    get_archive_with_session,
    inspect_row,
    name_row,
)
from flask_ibi_archive.archive.hosts.row_keys import (
    ForeignIdentifier,
    build_key,
    find_carried,
    find_row_key,
    get_key_attributes,
    get_table,
    select_carriers,
)
from flask_ibi_archive.archive.items.keys import KeyHolder, find_holders
from flask_ibi_archive.archive.items.minting import Minted
from flask_ibi_archive.archive.items.operations.context import OperationContext
from flask_ibi_archive.archive.items.operations.sessions import (
    begin_transaction,
    find_part,
    get_part,
)
from flask_ibi_archive.archive.items.prefixes import find_issued_prefixes
from flask_ibi_archive.core.identifiers import decode_identifier, parse_identifier
from flask_ibi_archive.errors import RowError, StorageError
from flask_ibi_archive.server.database.dialects import batched

#: The number of rows that one statement reads.
BATCH = 1000
#: Returns a number of new identifiers.
Mint: TypeAlias = Callable[[OperationContext, int], list[Minted]]


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


@contextmanager
def read_again(
    session: Session, rows: Sequence[IdentifiedItem], written: Mapping[int, Set[str]]
) -> Iterator[None]:
    """Give rows the values of the database during the ``with`` block.

    Other transactions may have changed the rows since the session has read them. Only loaded
    attributes whose values differ are read again. After the block, the rows have their old values
    again, because a value may also differ for other reasons: the host has changed a mutable object,
    or the database stores the value in another form.

    :param written: the names of the columns that the session has just written, by the ``id()`` of
        the row. These columns are not read again.
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
                known = {inspect(member).identity for member in members if member is not None}
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
    """Return the primary keys of the rows to which a relationship of some rows leads.

    :param name: the name of the relationship.
    :returns: a set of primary keys for the primary key of each row.
    """
    statement, width = _select_related(mapper, name), len(mapper.primary_key)
    connection = session.connection(bind_arguments={"mapper": mapper})
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


def bind(context: OperationContext, session: Session) -> OperationContext:
    """Return a context whose operations use the connection of a session, also during its flush.

    :param session: a session of the host, which need not be its current session.
    :raises StorageError: if the session uses another database than the items.
    """
    assert context.session is not None
    return replace(context, session=context.session.bind_flush(session))


def get_session(context: OperationContext) -> Session:
    """Return the session of a context that :func:`bind` has returned."""
    assert context.session is not None
    return context.session.current()


def bind_current(session: Session) -> OperationContext:
    """Return the context of the Archive of the current app for a session; see :func:`bind`."""
    return bind(get_archive_with_session().context, session)


def mint(context: OperationContext, count: int) -> list[Minted]:
    """Return new identifiers for rows of a session. The session may be in a flush.

    :param context: the result of :func:`bind`.
    :raises MintingError: if no identifiers can be minted now without a longer wait.
    """
    return context.mint_many(count, context.get_minter().for_flush(count))


@dataclass
class AssignedRows:
    """The rows that got identifiers in the present transaction of a session, by their ``id()``."""

    rows: dict[int, ref[IdentifiedItem]] = field(default_factory=dict)

    def end(self, session: Session, transaction: SessionTransaction, is_committed: bool) -> None:
        """Remove the identifiers of rows that the host has rolled back.

        After a rollback to a savepoint, the identifiers of the other rows are read again.
        """
        is_over = transaction.parent is None
        if is_committed and not is_over:
            return
        for row in filter(None, (reference() for reference in self.rows.values())):
            if inspect_row(row).transient:
                set_committed_value(row, "ibi_rep", None)
                set_committed_value(row, "ibi_ibip", None)
            # SQLAlchemy may have replaced a row whose savepoint was rolled back
            elif not is_over and inspect_row(row).persistent and row in session:
                session.expire(row, ("ibi_rep", "ibi_ibip"))


def _remember(session: Session, rows: Sequence[IdentifiedItem]) -> None:
    assigned = get_part(session, AssignedRows, AssignedRows).rows
    assigned.update((id(row), ref(row)) for row in rows)


def was_assigned(context: OperationContext, row: IdentifiedItem) -> bool:
    """Return whether a row got its identifier in the present transaction."""
    assigned: AssignedRows | None = find_part(get_session(context), AssignedRows)
    reference = None if assigned is None else assigned.rows.get(id(row))
    return reference is not None and reference() is row


def check_issued(context: OperationContext, connection: Connection, row: DescribedRow) -> None:
    """Check that the Archive may have issued the identifiers of a row that has no item.

    The host may have taken them from elsewhere, or a user may have typed them into a form.

    :raises RowError: if an identifier names another server, or a date in the future.
    """
    minter = context.get_minter()
    identifiers = [parse_identifier(text) for text in row.identifiers]
    known = find_issued_prefixes(connection, [one.prefix for one in identifiers])
    for identifier in identifiers:
        if identifier.prefix not in {*minter.prefixes, *known}:
            reason = "names another server"
        elif (decode_identifier(identifier).date or 0) > minter.clock():
            reason = "names a date in the future"
        else:
            continue
        raise RowError(
            row.name,
            "ibi_rep" if identifier.text == row.row.ibi_rep else "ibi_ibip",
            f"this Archive has not issued {identifier}, which {reason}; set ibi_rep and ibi_ibip "
            "to None, or import the item with its identifiers first: flask ibi import",
        )


def assign(session: Session, rows: Sequence[IdentifiedItem]) -> None:
    """Assign identifiers to rows that the flush will write."""
    context = bind_current(session)
    assert context.session is not None
    for model in {type(row) for row in rows}:
        context.session.check_model(session, model)
    for row, forms in zip(rows, _find_or_mint(context, rows, mint), strict=True):
        row.ibi_rep, row.ibi_ibip = forms.rep, forms.ibip
    _remember(session, rows)


def find_lost(context: OperationContext, rows: Iterable[IdentifiedItem]) -> dict[int, KeyHolder]:
    """Return the items and reservations of rows that have lost their identifiers.

    They have the keys of the rows, and no other row has their identifiers. A new row is not the row
    of a deleted item: the database may give the primary key of a deleted row to a new one.

    :param context: the result of :func:`bind`.
    :returns: the items by the ``id()`` of the rows.
    """
    assert context.session is not None
    session = get_session(context)
    lost: dict[int, KeyHolder] = {}
    for mapper, of_mapper in group_rows(rows):
        by_key = {key: row for row in of_mapper if (key := find_row_key(row)) is not None}
        if not by_key:
            continue
        holders = find_holders(context.session.connection(), context.archive.id, by_key)
        carried = find_carried(session, mapper, holders.values()) if holders else set()
        for key, holder in holders.items():
            row = by_key[key]
            is_gone = holder.is_deleted and not inspect_row(row).persistent
            if key not in carried and not is_gone:
                lost[id(row)] = holder
    return lost


def _find_or_mint(
    context: OperationContext, rows: Sequence[IdentifiedItem], mint: Mint
) -> list[Minted | KeyHolder]:
    """Return the identifiers of the items of rows, or new ones for rows that have no item."""
    lost = find_lost(context, rows)
    count = sum(id(row) not in lost for row in rows)
    minted = iter(mint(context, count) if count else ())
    return [lost.get(id(row)) or next(minted) for row in rows]


def assign_stored(
    context: OperationContext, rows: Sequence[IdentifiedItem], mint: Mint = mint
) -> int:
    """Assign identifiers to rows that are in the database already, without a flush.

    If another transaction has assigned an identifier in the meantime, the row gets that identifier.

    :param context: the result of :func:`bind`.
    :returns: the number of rows that had lost their identifiers.
    :raises RowError: if another transaction has deleted a row.
    """
    session = get_session(context)
    without = lock_rows(session, rows)
    unassigned = {id(row) for row in without}
    for row in rows:
        if row.ibi is None and id(row) not in unassigned:
            raise RowError(name_row(row), None, "another transaction has deleted the row")
    if without:
        _remember(session, without)
        forms = _find_or_mint(context, without, mint)
        write_identifiers(session, without, forms)
        return sum(isinstance(one, KeyHolder) for one in forms)
    return 0


def check_new_identifiers(session: Session, rows: Iterable[IdentifiedItem]) -> None:
    """Check that new rows do not have the identifiers of other rows, as copies of rows have.

    :param rows: new rows with identifiers.
    :raises ForeignIdentifier: if another row of the table has an identifier of a row.
    """
    for mapper, of_mapper in group_rows(rows):
        columns = get_key_attributes(mapper)
        connection = session.connection(bind_arguments={"mapper": mapper})
        for row in of_mapper:
            forms = [text for text in (row.ibi_rep, row.ibi_ibip) if text is not None]
            carriers = select_carriers(connection, get_table(mapper), forms, *columns.values())
            for carrier in carriers:
                key = build_key(mapper, carrier)
                if key != find_row_key(row):
                    raise ForeignIdentifier(name_row(row), row.ibi, key)


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


def write_identifiers(
    session: Session, rows: Sequence[IdentifiedItem], minted: Sequence[Minted | KeyHolder]
) -> None:
    """Write identifiers into rows that are in the database already, without a flush.

    :param rows: rows that :func:`lock_rows` has returned.
    :raises StorageError: if a row is not in the database, or has an identifier.
    """
    new = {id(row): identifiers for row, identifiers in zip(rows, minted, strict=True)}
    for mapper, of_mapper in group_rows(rows):
        parameters = []
        for row in of_mapper:
            values: dict[str, Any] = {"new_rep": new[id(row)].rep, "new_ibip": new[id(row)].ibip}
            for name, column in get_key_attributes(mapper).items():
                values[f"key_{column.name}"] = getattr(row, name)
            parameters.append(values)
        connection = session.connection(bind_arguments={"mapper": mapper})
        count = connection.execute(_build_update(mapper), parameters).rowcount
        if connection.dialect.supports_sane_multi_rowcount and count != len(of_mapper):
            raise StorageError(
                f"{len(of_mapper) - count} rows of {mapper.class_.__name__} have got identifiers "
                "or were deleted in the meantime; nothing was changed; try again"
            )
    for row in rows:
        set_committed_value(row, "ibi_rep", new[id(row)].rep)
        set_committed_value(row, "ibi_ibip", new[id(row)].ibip)


def clear_identifiers(session: Session, rows: Iterable[IdentifiedItem]) -> None:
    """Remove the identifiers of other rows from stored rows, without a flush."""
    for mapper, of_mapper in group_rows(rows):
        connection = session.connection(bind_arguments={"mapper": mapper})
        columns = get_key_attributes(mapper)
        for row in of_mapper:
            statement = _update_identifiers(mapper, None, None)
            for name, column in columns.items():
                statement = statement.where(column == getattr(row, name))
            connection.execute(statement)
            set_committed_value(row, "ibi_rep", None)
            set_committed_value(row, "ibi_ibip", None)


def _update_identifiers(mapper: Mapper[Any], rep: Any, ibip: Any) -> Update:
    """Return a statement that sets the identifiers of rows.

    Columns that an UPDATE would set automatically, such as the time of the last change, keep their
    values, because the content of the row does not change.
    """
    table = get_table(mapper)
    values: dict[Any, Any] = {
        column.name: column for column in table.columns if column.onupdate is not None
    }
    values[mapper.columns["ibi_rep"].name] = rep
    values[mapper.columns["ibi_ibip"].name] = ibip
    return update(table).values(values)


def _build_update(mapper: Mapper[Any]) -> Update:
    """Return the statement that writes the identifiers of one row that has none."""
    statement = _update_identifiers(mapper, bindparam("new_rep"), bindparam("new_ibip"))
    for name in ("ibi_rep", "ibi_ibip"):  # identifiers are permanent
        statement = statement.where(mapper.columns[name].is_(None))
    for column in get_key_attributes(mapper).values():
        statement = statement.where(column == bindparam(f"key_{column.name}"))
    return statement
