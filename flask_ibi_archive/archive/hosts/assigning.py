"""Assigns identifiers to rows.

A flush assigns new identifiers only. ``adopt`` and ``compare`` give rows that have lost their
identifiers those of the items that have the keys of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from weakref import ref

from sqlalchemy import Connection, Update, bindparam, update
from sqlalchemy.orm import Mapper, Session, SessionTransaction
from sqlalchemy.orm.attributes import set_committed_value

from flask_ibi_archive.archive.hosts.current_archive import (
    bind_current,
    check_model,
    connect_to_items,
    get_session,
)
from flask_ibi_archive.archive.hosts.identified_item import (
    DescribedRow,
    IdentifiedItem,
    inspect_row,
    list_identifiers,
    name_row,
)
from flask_ibi_archive.archive.hosts.row_keys import (
    ForeignIdentifier,
    build_key,
    connect_to_rows,
    find_row_key,
    find_uncarried,
    get_key_attributes,
    get_table,
    name_model,
    select_carriers,
)
from flask_ibi_archive.archive.hosts.row_locks import group_rows, lock_rows
from flask_ibi_archive.archive.items.minting import Minted, find_issued_prefixes
from flask_ibi_archive.archive.items.operations import OperationContext
from flask_ibi_archive.archive.items.sessions import find_part, get_part
from flask_ibi_archive.archive.items.write import KeyHolder, find_holders
from flask_ibi_archive.core.identifiers.parse import decode_identifier, parse_identifier
from flask_ibi_archive.errors import RowError, StorageError

#: Returns a number of new identifiers.
Mint: TypeAlias = Callable[[OperationContext, int], list[Minted]]


def mint(context: OperationContext, count: int) -> list[Minted]:
    """Return new identifiers for rows of a session. The session may be in a flush.

    :param context: the result of :func:`.current_archive.bind`.
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
                _set_identifiers(row, None, None)
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
    """Assign new identifiers to rows that the flush will write.

    Stored rows that have lost their identifiers get none, because another work may be in the row.
    """
    context = bind_current(session)
    for model in {type(row) for row in rows}:
        check_model(context, model)
    lost = find_lost(context, [row for row in rows if inspect_row(row).persistent])
    rows = [row for row in rows if id(row) not in lost]
    for row, forms in zip(rows, mint(context, len(rows)) if rows else (), strict=True):
        row.ibi_rep, row.ibi_ibip = forms.rep, forms.ibip
    _remember(session, rows)


def find_lost(context: OperationContext, rows: Iterable[IdentifiedItem]) -> dict[int, KeyHolder]:
    """Return the items and reservations of stored rows that have lost their identifiers.

    They have the keys of the rows, and no other row has their identifiers.

    :param context: the result of :func:`.current_archive.bind`.
    :returns: the items by the ``id()`` of the rows.
    """
    session = get_session(context)
    lost: dict[int, KeyHolder] = {}
    for mapper, of_mapper in group_rows(rows):
        by_key = {key: row for row in of_mapper if (key := find_row_key(row)) is not None}
        holders = find_holders(connect_to_items(context), context.archive.id, by_key)
        for holder in find_uncarried(session, mapper, holders.values()):
            lost[id(by_key[holder.key])] = holder
    return lost


def assign_stored(
    context: OperationContext,
    rows: Sequence[IdentifiedItem],
    mint: Mint = mint,
    *,
    reconnect: bool = False,
) -> int:
    """Assign identifiers to rows that are in the database already, without a flush.

    If another transaction has assigned an identifier in the meantime, the row gets that identifier.

    :param context: the result of :func:`.current_archive.bind`.
    :param reconnect: whether rows that have lost their identifiers get them back.
    :returns: the number of these rows.
    :raises RowError: if another transaction has deleted a row; without ``reconnect``, also if a row
        has lost its identifier.
    """
    session = get_session(context)
    without = lock_rows(session, rows)
    unassigned = {id(row) for row in without}
    for row in rows:
        if row.ibi is None and id(row) not in unassigned:
            raise RowError(name_row(row), None, "another transaction has deleted the row")
    if not without:
        return 0
    lost = find_lost(context, without)
    for row in without:
        if id(row) in lost and not reconnect:
            reason = f"the row has lost its identifier {lost[id(row)].ibi}; to give it back, run: "
            model = name_model(inspect_row(row).mapper)
            raise RowError(name_row(row), None, f"{reason}flask ibi adopt {model}")
    _remember(session, without)
    count = len(without) - len(lost)
    minted = iter(mint(context, count) if count else ())
    write_identifiers(session, without, [lost.get(id(row)) or next(minted) for row in without])
    return len(lost)


def check_new_identifiers(session: Session, rows: Iterable[IdentifiedItem]) -> None:
    """Check that new rows do not have the identifiers of other rows, as copies of rows have.

    :param rows: new rows with identifiers.
    :raises ForeignIdentifier: if another row of the table has an identifier of a row.
    """
    for mapper, of_mapper in group_rows(rows):
        columns = get_key_attributes(mapper)
        connection = connect_to_rows(session, mapper)
        for row in of_mapper:
            forms = list_identifiers(row)
            carriers = select_carriers(connection, get_table(mapper), forms, *columns.values())
            for carrier in carriers:
                key = build_key(mapper, carrier)
                if key != find_row_key(row):
                    raise ForeignIdentifier(name_row(row), row.ibi, key)


def write_identifiers(
    session: Session, rows: Sequence[IdentifiedItem], forms: Sequence[Minted | KeyHolder]
) -> None:
    """Write identifiers into rows that are in the database already, without a flush.

    :param rows: rows that :func:`.row_locks.lock_rows` has returned.
    :raises StorageError: if a row is not in the database, or has an identifier.
    """
    new = {id(row): (one.rep, one.ibip) for row, one in zip(rows, forms, strict=True)}
    for mapper, of_mapper in group_rows(rows):
        statement = _build_update(mapper)
        for name in ("ibi_rep", "ibi_ibip"):  # identifiers are permanent
            statement = statement.where(mapper.columns[name].is_(None))
        parameters = [_fill_in(mapper, row, *new[id(row)]) for row in of_mapper]
        connection = connect_to_rows(session, mapper)
        count = connection.execute(statement, parameters).rowcount
        if connection.dialect.supports_sane_multi_rowcount and count != len(of_mapper):
            raise StorageError(
                f"{len(of_mapper) - count} rows of {mapper.class_.__name__} have got identifiers "
                "or were deleted in the meantime; nothing was changed; try again"
            )
    for row in rows:
        _set_identifiers(row, *new[id(row)])


def clear_identifiers(session: Session, rows: Iterable[IdentifiedItem]) -> None:
    """Remove the identifiers of other rows from stored rows, without a flush."""
    for mapper, of_mapper in group_rows(rows):
        parameters = [_fill_in(mapper, row, None, None) for row in of_mapper]
        connect_to_rows(session, mapper).execute(_build_update(mapper), parameters)
        for row in of_mapper:
            _set_identifiers(row, None, None)


def _set_identifiers(row: IdentifiedItem, rep: str | None, ibip: str | None) -> None:
    """Set the identifiers of a row to the values that the database has."""
    set_committed_value(row, "ibi_rep", rep)
    set_committed_value(row, "ibi_ibip", ibip)


def _build_update(mapper: Mapper[Any]) -> Update:
    """Return the statement that writes the identifiers of one row.

    Columns that an UPDATE would set automatically, such as the time of the last change, keep their
    values, because the content of the row does not change.
    """
    table = get_table(mapper)
    values: dict[Any, Any] = {
        column.name: column for column in table.columns if column.onupdate is not None
    }
    values[mapper.columns["ibi_rep"].name] = bindparam("new_rep")
    values[mapper.columns["ibi_ibip"].name] = bindparam("new_ibip")
    statement = update(table).values(values)
    for column in get_key_attributes(mapper).values():
        statement = statement.where(column == bindparam(f"key_{column.name}"))
    return statement


def _fill_in(
    mapper: Mapper[Any], row: IdentifiedItem, rep: str | None, ibip: str | None
) -> dict[str, Any]:
    """Return the parameters of the statement of :func:`_build_update` for a row."""
    key = get_key_attributes(mapper).items()
    values = {f"key_{column.name}": getattr(row, name) for name, column in key}
    return {**values, "new_rep": rep, "new_ibip": ibip}
