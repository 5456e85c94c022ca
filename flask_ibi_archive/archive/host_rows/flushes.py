"""Changes items when a session of the host writes rows of identified models.

A flush of a session calls the functions of this module. Before the flush, new rows get their
identifiers. After the flush, in the same transaction, the items of the rows are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, ref

from sqlalchemy import event, inspect
from sqlalchemy.orm import Mapper, Session, SessionTransaction, object_session
from sqlalchemy.orm.attributes import set_committed_value

from flask_ibi_archive.archive.host_rows.assigning import (
    Mint,
    bind,
    check_model,
    lock_rows,
    mint,
    write_identifiers,
)
from flask_ibi_archive.archive.host_rows.current import get_archive_with_session
from flask_ibi_archive.archive.host_rows.describing import (
    DEFAULT_REASON,
    inspect_row,
    name_row,
)
from flask_ibi_archive.archive.host_rows.editing import Removal
from flask_ibi_archive.archive.host_rows.identified_item import IdentifiedItem
from flask_ibi_archive.archive.host_rows.reading import read_again
from flask_ibi_archive.archive.host_rows.writing import RowWriter
from flask_ibi_archive.archive.operations.context import OperationContext
from flask_ibi_archive.archive.operations.description import Identified
from flask_ibi_archive.errors import RowError, StorageError
from flask_ibi_archive.records.fields import parse_text
from flask_ibi_archive.records.record import Tombstone


@dataclass
class Changes:
    """The rows that the current flush of a session writes.

    :ivar assigned: references to the rows that got an identifier in the present transaction, by
        the ``id()`` of the row.
    :ivar changed: the names of the columns that changed in each row that is not new, by the
        ``id()`` of the row.
    :ivar announced: the rows that the host will delete in the present transaction, with their
        tombstones, by the ``id()`` of the row.
    """

    written: list[IdentifiedItem] = field(default_factory=list)
    removed: list[Removal] = field(default_factory=list)
    assigned: dict[int, ref[IdentifiedItem]] = field(default_factory=dict)
    changed: dict[int, set[str]] = field(default_factory=dict)
    announced: dict[int, tuple[IdentifiedItem, Any]] = field(default_factory=dict)


_changes: WeakKeyDictionary[Session, Changes] = WeakKeyDictionary()


def _get_changes(session: Session) -> Changes:
    return _changes.setdefault(session, Changes())


def announce_removal(
    row: IdentifiedItem,
    reason: str,
    citation: str | None = None,
    successor: str | Identified | None = None,
    discard_description: bool = False,
) -> None:
    """Store the tombstone for a row that the host will delete; see :meth:`IBIArchive.removing`."""
    _check_row(row)
    try:
        tombstone = {
            "reason": parse_text("reason", reason),
            "citation": None if citation is None else parse_text("citation", citation),
            "successor": successor,
            "discard_description": discard_description,
        }
    except ValueError as error:
        raise RowError(name_row(row), None, str(error)) from error
    _get_changes(_find_session(row)).announced[id(row)] = (row, tombstone)


def refresh(row: IdentifiedItem) -> None:
    """Write the item of a row again; see :meth:`IBIArchive.refresh`."""
    _check_row(row)
    session = _find_session(row)
    session.flush()
    context = bind(get_archive_with_session().context, session)
    if row.ibi is None:
        assign_stored(context, session, [row])
    with read_again(session, [row], {}):
        _write(context, session, [row], [])


def _find_session(row: IdentifiedItem) -> Session:
    session = object_session(row)
    if session is None:
        raise StorageError(f"{name_row(row)} is not in a session; add the row to the session first")
    return session


def _check_row(row: object) -> None:
    if not isinstance(row, IdentifiedItem):
        raise StorageError(f"{row!r} is not a row of a model with IdentifiedItem")


# --- events --------------------------------------------------------------------------------------

_listeners: dict[str, Callable[..., None]] = {}


def _for_sessions(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator for a listener of sessions, once a host has an identified model."""

    def decorate(listener: Callable[..., None]) -> Callable[..., None]:
        _listeners[name] = listener
        return listener

    return decorate


@event.listens_for(IdentifiedItem, "instrument_class", propagate=True)
def _listen_to_sessions(mapper: Any, model: type[IdentifiedItem]) -> None:
    for name, listener in _listeners.items():
        if not event.contains(Session, name, listener):
            event.listen(Session, name, listener)


@_for_sessions("before_flush")
def _prepare_flush(session: Session, context: Any, instances: Any) -> None:
    """Mint the identifiers of all new rows together, and read those of deleted rows."""
    for row in session.deleted:
        if isinstance(row, IdentifiedItem):
            row.ibi  # noqa: B018 - after the flush, the row can't be read any more
    changed = [row for row in session.dirty if isinstance(row, IdentifiedItem)]
    if any(row.ibi is None for row in changed):
        lock_rows(session, changed)
    written = session.new.union(changed)
    rows = [row for row in written if isinstance(row, IdentifiedItem) and row.ibi is None]
    if rows:
        _assign(session, rows)


@event.listens_for(IdentifiedItem, "before_insert", propagate=True)
@event.listens_for(IdentifiedItem, "before_update", propagate=True)
def _mint_for_row(mapper: Any, connection: Any, row: IdentifiedItem) -> None:
    """Mint an identifier for a row that was added during the flush, or that has none yet."""
    session = object_session(row)
    if session is None or row.ibi is not None:
        return
    if inspect_row(row).persistent:
        lock_rows(session, [row])
    if row.ibi is None:
        _assign(session, [row])


@event.listens_for(IdentifiedItem, "after_insert", propagate=True)
def _remember_written(mapper: Any, connection: Any, row: IdentifiedItem) -> None:
    session = object_session(row)
    if session is not None:
        _check_identifiers(row)
        _get_changes(session).written.append(row)


@event.listens_for(IdentifiedItem, "after_update", propagate=True)
def _remember_changed(mapper: Mapper[Any], connection: Any, row: IdentifiedItem) -> None:
    session = object_session(row)
    if session is not None:
        columns = set(mapper.column_attrs.keys()) - inspect_row(row).unmodified
        _get_changes(session).changed[id(row)] = columns
        _remember_written(mapper, connection, row)


@event.listens_for(IdentifiedItem, "before_delete", propagate=True)
def _remember_deleted(mapper: Any, connection: Any, row: IdentifiedItem) -> None:
    session = object_session(row)
    if session is None:
        return
    if row.ibi is None:
        lock_rows(session, [row])
    if row.ibi is not None:
        _get_changes(session).removed.append(_build_removal(session, row))


@_for_sessions("after_flush")
def _remember_replaced(session: Session, context: Any) -> None:
    """Remember deleted rows whose primary key a new row has; SQLAlchemy updates such rows."""
    removed = {id(one.row) for one in _get_changes(session).removed}
    for row in session.deleted:
        if isinstance(row, IdentifiedItem) and row.ibi is not None and id(row) not in removed:
            _get_changes(session).removed.append(_build_removal(session, row))


@_for_sessions("after_flush_postexec")
def _write_items(session: Session, context: Any) -> None:
    """Write the items of the rows that the flush has written."""
    changes = _changes.get(session)
    if changes is None or not (changes.written or changes.removed):
        return
    rows, removals, changed = changes.written, changes.removed, changes.changed
    changes.written, changes.removed, changes.changed = [], [], {}
    context = bind(get_archive_with_session().context, session)
    with read_again(session, [row for row in rows if id(row) in changed], changed):
        _write(context, session, rows, removals)


@_for_sessions("after_soft_rollback")
def _forget(session: Session, previous: SessionTransaction) -> None:
    """Read the identifiers of rows again, because the host may have rolled back to a savepoint."""
    changes = _changes.get(session)
    if changes is None:
        return
    changes.written, changes.removed, changes.changed, changes.announced = [], [], {}, {}
    for row in _take_back(changes):
        # SQLAlchemy may have replaced a row whose savepoint was rolled back
        if inspect_row(row).persistent and row in session:
            session.expire(row, ("ibi_rep", "ibi_ibip"))


@_for_sessions("after_transaction_end")
def _end(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is None and session in _changes:
        list(_take_back(_changes.pop(session)))


def _take_back(changes: Changes) -> Iterator[IdentifiedItem]:
    """Remove the identifiers of rows that are no longer in the database; yield the other rows."""
    for row in filter(None, (reference() for reference in changes.assigned.values())):
        if not inspect_row(row).transient:
            yield row
            continue
        set_committed_value(row, "ibi_rep", None)
        set_committed_value(row, "ibi_ibip", None)


# --- the work ------------------------------------------------------------------------------------


def _assign(session: Session, rows: Sequence[IdentifiedItem]) -> None:
    """Assign identifiers to rows that the flush will write."""
    context = bind(get_archive_with_session().context, session)
    for row_class in {type(row) for row in rows}:
        check_model(context, session, row_class)
    minted = mint(context, len(rows))
    for row, one in zip(rows, minted, strict=True):
        row.ibi_rep, row.ibi_ibip = one.rep, one.ibip
    _get_changes(session).assigned.update((id(row), ref(row)) for row in rows)


def assign_stored(
    context: OperationContext,
    session: Session,
    rows: Sequence[IdentifiedItem],
    mint: Mint = mint,
) -> list[IdentifiedItem]:
    """Assign identifiers to rows that are in the database already, without a flush.

    :returns: the rows that got identifiers now. Another transaction has assigned the others.
    """
    without = lock_rows(session, rows)
    found = {id(row) for row in without}
    for row in rows:
        if row.ibi is None and id(row) not in found:
            raise RowError(name_row(row), None, "another transaction has deleted the row")
    if without:
        _get_changes(session).assigned.update((id(row), ref(row)) for row in without)
        write_identifiers(session, without, mint(context, len(without)))
    return without


def was_assigned(session: Session, row: IdentifiedItem) -> bool:
    """Return whether a row got its identifier in the present transaction."""
    reference = _get_changes(session).assigned.get(id(row))
    return reference is not None and reference() is row


def _write(
    context: OperationContext,
    session: Session,
    rows: Sequence[IdentifiedItem],
    removals: Sequence[Removal],
) -> None:
    with context.staging() as staging:
        assign = partial(assign_stored, context, session)
        was_minted = partial(was_assigned, session)
        RowWriter(context, staging, assign, was_minted).write(rows, removals)


def _build_removal(session: Session, row: IdentifiedItem) -> Removal:
    nothing = (row, Tombstone(DEFAULT_REASON))
    _, tombstone = _get_changes(session).announced.pop(id(row), nothing)
    return Removal(row, name_row(row), str(row.ibi_rep or row.ibi_ibip), tombstone)


def _check_identifiers(row: IdentifiedItem) -> None:
    """Check that the host has not changed the identifiers of a row."""
    for name in ("ibi_rep", "ibi_ibip"):
        old = inspect(row).attrs[name].history.deleted
        with suppress(IndexError, TypeError):
            if old[0] is not None:
                raise RowError(
                    name_row(row),
                    name,
                    f"the identifier is {old[0]}, and identifiers are permanent",
                )
