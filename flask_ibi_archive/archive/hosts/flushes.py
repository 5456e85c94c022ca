"""Changes items when a session of the host writes rows of identified models.

A flush of a session calls the functions of this module. Before the flush, new rows get their
identifiers. After the flush, in the same transaction, the items of the rows are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from logging import getLogger
from typing import Any

from sqlalchemy import event, inspect
from sqlalchemy.orm import Session, SessionTransaction, object_session

from flask_ibi_archive.archive.hosts.assigning import (
    assign,
    assign_stored,
    check_new_identifiers,
)
from flask_ibi_archive.archive.hosts.current_archive import bind_current
from flask_ibi_archive.archive.hosts.identified_item import (
    DEFAULT_REASON,
    IdentifiedItem,
    identified_models,
    inspect_row,
    name_row,
)
from flask_ibi_archive.archive.hosts.row_edits import Removal
from flask_ibi_archive.archive.hosts.row_keys import name_model
from flask_ibi_archive.archive.hosts.row_locks import lock_rows
from flask_ibi_archive.archive.hosts.row_writer import RowWriter
from flask_ibi_archive.archive.items.operations import Identified, OperationContext
from flask_ibi_archive.archive.items.sessions import find_part, get_part
from flask_ibi_archive.core.records.record import Tombstone
from flask_ibi_archive.core.records.values import parse_text
from flask_ibi_archive.errors import RowError, StorageError

log = getLogger("flask_ibi_archive.host")


@dataclass
class Changes:
    """The rows that the current flush of a session writes, and the announced removals.

    :ivar deleted: the rows that the host has deleted from the session.
    :ivar announced: the rows that the host will delete in the present transaction, with their
        tombstones, by the ``id()`` of the row.
    """

    written: list[IdentifiedItem] = field(default_factory=list)
    deleted: list[IdentifiedItem] = field(default_factory=list)
    removed: dict[int, Removal] = field(default_factory=dict)
    announced: dict[int, tuple[IdentifiedItem, Any]] = field(default_factory=dict)

    def clear(self) -> None:
        """Forget the rows of the flush."""
        self.written, self.deleted, self.removed = [], [], {}

    def end(self, session: Session, transaction: SessionTransaction, is_committed: bool) -> None:
        """Forget everything if the transaction was rolled back, also to a savepoint."""
        if not is_committed:
            self.clear()
            self.announced = {}

    def remove(self, row: IdentifiedItem) -> None:
        """Remember that the flush has deleted a row that has an identifier."""
        _, tombstone = self.announced.pop(id(row), (row, Tombstone(DEFAULT_REASON)))
        ibi = str(row.ibi_rep or row.ibi_ibip)
        self.removed[id(row)] = Removal(row, name_row(row), ibi, tombstone)


def _get_changes(session: Session) -> Changes:
    return get_part(session, Changes, Changes)


def announce_removal(
    row: IdentifiedItem,
    reason: str,
    citation: str | None = None,
    successor: str | Identified | None = None,
    discard_description: bool = False,
) -> None:
    """Store the tombstone for a row that the host will delete; see :meth:`IBIArchive.removing`."""
    session = _find_session(row)
    try:
        tombstone = {
            "reason": parse_text("reason", reason),
            "citation": None if citation is None else parse_text("citation", citation),
            "successor": successor,
            "discard_description": discard_description,
        }
    except ValueError as error:
        raise RowError(name_row(row), None, str(error)) from error
    _get_changes(session).announced[id(row)] = (row, tombstone)


def refresh(row: IdentifiedItem) -> None:
    """Write the item of a row again; see :meth:`IBIArchive.refresh`."""
    session = _find_session(row)
    session.flush()
    context = bind_current(session)
    if row.ibi is None:
        assign_stored(context, [row])
    session.refresh(row)
    _write(context, [row], [])


def _find_session(row: object) -> Session:
    if not isinstance(row, IdentifiedItem):
        raise StorageError(f"{row!r} is not a row of a model with IdentifiedItem")
    session = object_session(row)
    if session is None:
        raise StorageError(f"{name_row(row)} is not in a session; add the row to the session first")
    return session


# --- events --------------------------------------------------------------------------------------


@event.listens_for(IdentifiedItem, "after_mapper_constructed", propagate=True)
def _listen_to_sessions(mapper: Any, model: type[IdentifiedItem]) -> None:
    """Listen to sessions, because the host has a model with IdentifiedItem."""
    identified_models.add(mapper)
    if not event.contains(Session, "before_flush", _prepare_flush):
        event.listen(Session, "before_flush", _prepare_flush)
        event.listen(Session, "after_flush_postexec", _write_items)


def _prepare_flush(session: Session, context: Any, instances: Any) -> None:
    """Mint the identifiers of all new rows together, and read those of deleted rows."""
    # after the flush, a deleted row can't be read any more
    deleted = [row for row in session.deleted if isinstance(row, IdentifiedItem) and row.ibi]
    if deleted:
        _get_changes(session).deleted = deleted
    changed = [row for row in session.dirty if isinstance(row, IdentifiedItem)]
    if any(row.ibi is None for row in changed):
        lock_rows(session, changed)
    new = [row for row in session.new if isinstance(row, IdentifiedItem)]
    check_new_identifiers(session, [row for row in new if row.ibi is not None])
    rows = [row for row in (*new, *changed) if row.ibi is None]
    if rows:
        assign(session, rows)


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
        assign(session, [row])


@event.listens_for(IdentifiedItem, "after_insert", propagate=True)
@event.listens_for(IdentifiedItem, "after_update", propagate=True)
def _remember_written(mapper: Any, connection: Any, row: IdentifiedItem) -> None:
    session = object_session(row)
    if session is None:
        return
    if row.ibi is None:
        log.warning(
            "%s has lost its identifier, and its item stays as it is; to give it back, run: "
            "flask ibi compare %s --repair",
            name_row(row),
            name_model(mapper),
        )
        return
    _check_identifiers(row)
    _get_changes(session).written.append(row)


@event.listens_for(IdentifiedItem, "before_delete", propagate=True)
def _remember_deleted(mapper: Any, connection: Any, row: IdentifiedItem) -> None:
    session = object_session(row)
    if session is None:
        return
    if row.ibi is None:
        lock_rows(session, [row])
    if row.ibi is not None:
        _get_changes(session).remove(row)


def _write_items(session: Session, context: Any) -> None:
    """Write the items of the rows that the flush has written."""
    changes: Changes | None = find_part(session, Changes)
    if changes is None:
        return
    for row in changes.deleted:
        # if a new row has the primary key of a deleted row, SQLAlchemy updates that row
        if inspect_row(row).deleted and id(row) not in changes.removed:
            changes.remove(row)
    rows, removals = changes.written, [*changes.removed.values()]
    changes.clear()
    if rows or removals:
        _write(bind_current(session), rows, removals)


def _write(
    context: OperationContext, rows: Sequence[IdentifiedItem], removals: Sequence[Removal]
) -> None:
    with context.staging() as staging:
        RowWriter(context, staging).write(rows, removals)


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
