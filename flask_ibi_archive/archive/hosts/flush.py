"""Changes items when a session of the host writes rows of identified models.

All sessions share three listeners for the events of a flush:

- Before the flush, new rows get their identifiers. The changed rows are noted, with the columns
  that change, and the rows that depend on related rows.
- When a row is deleted, its identifier and its tombstone are noted.
- After the flush, in the same transaction, the items of the noted rows are written. The item of a
  row is not written if ``ibi_record()`` does not use the columns that have changed.

Rows are not read again, and not locked. If two sessions change one row at the same time, its item
may lack one of the changes until the next change of the row, or until ``flask ibi compare``. If a
session loads a row, another process then adopts the row, and the session deletes the row, the new
item remains without a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

from sqlalchemy import event, select, tuple_
from sqlalchemy.orm import Mapper, Session, SessionTransaction, aliased, object_session
from sqlalchemy.orm.attributes import set_committed_value

from flask_ibi_archive.archive.hosts import models
from flask_ibi_archive.archive.hosts.models import IdentifiedItem, inspect_row, name_row
from flask_ibi_archive.archive.hosts.row_writer import Removal, RowWriter
from flask_ibi_archive.archive.items.item_record import Identified
from flask_ibi_archive.archive.items.minting import Minted
from flask_ibi_archive.archive.items.operations import OperationContext
from flask_ibi_archive.archive.items.sessions import find_part, get_part
from flask_ibi_archive.core.records.record import Tombstone
from flask_ibi_archive.core.records.values import parse_text
from flask_ibi_archive.errors import RowError, StorageError
from flask_ibi_archive.server.database.dialects import batched

#: The number of related rows that one statement reads.
BATCH = 1000


@dataclass
class Changes:
    """What the present transaction of a session has done with rows of identified models.

    :ivar minted: the rows that got identifiers, by their repository names.
    :ivar announced: the rows that the host will delete, by their ``id()``; each value is the row
        and its tombstone.
    :ivar written: the rows that the present flush writes, by their ``id()``, with the columns that
        change; None instead of the columns if the item must be compared in any case.
    :ivar dependent: the rows whose items use data of other rows, found before the present flush
        writes or deletes the other rows.
    :ivar related: the written rows on which items depend.
    :ivar removals: the rows that the present flush has deleted.
    """

    minted: dict[str, ref[IdentifiedItem]] = field(default_factory=dict)
    announced: dict[int, tuple[IdentifiedItem, Any]] = field(default_factory=dict)
    written: dict[int, tuple[IdentifiedItem, set[str] | None]] = field(default_factory=dict)
    dependent: list[IdentifiedItem] = field(default_factory=list)
    related: list[object] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)

    def clear(self) -> None:
        """Forget what was noted for the present flush."""
        self.written, self.dependent, self.related, self.removals = {}, [], [], []

    def end(self, session: Session, transaction: SessionTransaction, is_committed: bool) -> None:
        """After a rollback, also to a savepoint, forget everything. After a commit, do nothing.

        If the rollback has removed a row, its identifiers are taken from the object. They are never
        issued again.
        """
        if is_committed:
            return
        self.clear()
        self.announced = {}
        for row in filter(None, (reference() for reference in self.minted.values())):
            if inspect_row(row).transient:
                set_identifiers(row, None, None)
            elif inspect_row(row).persistent and row in session:  # sync has written them
                session.expire(row, models.FORMS)


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
    session = find_session(row)
    try:
        tombstone = Tombstone(
            parse_text("reason", reason),
            None if citation is None else parse_text("citation", citation),
            successor,  # type: ignore[arg-type]  # the row may have no identifier yet
            discard_description=discard_description,
        )
    except ValueError as error:
        raise RowError(name_row(row), None, str(error)) from error
    _get_changes(session).announced[id(row)] = (row, tombstone)


def find_session(row: object) -> Session:
    """Return the session of a row.

    :raises StorageError: if the object is not a row of an identified model, or in no session.
    """
    if not isinstance(row, IdentifiedItem):
        raise StorageError(f"{row!r} is not a row of a model with IdentifiedItem")
    session = object_session(row)
    if session is None:
        raise StorageError(f"{name_row(row)} is not in a session; add the row to the session first")
    return session


def set_identifiers(row: IdentifiedItem, *forms: str | None) -> None:
    """Set the identifiers of a row to values that are already in the database."""
    for name, form in zip(models.FORMS, forms, strict=True):
        set_committed_value(row, name, form)


def remember(session: Session, row: IdentifiedItem) -> None:
    """Remember that a row has got a new identifier in the present transaction of a session."""
    _get_changes(session).minted[str(row.ibi_rep)] = ref(row)


def mint(context: OperationContext, count: int) -> list[Minted]:
    """Issue identifiers for the new rows of a flush.

    :raises MintingError: if no identifiers can be issued now without a longer wait.
    """
    return context.mint_many(count, context.get_minter().for_flush(count))


def write_rows(
    session: Session, rows: Sequence[IdentifiedItem], removals: Sequence[Removal] = ()
) -> None:
    """Write the items of rows, and of deleted rows, in the transaction of the session."""
    context, minted = models.bind(session), _get_changes(session).minted
    with context.staging() as staging, context.transaction() as store:
        writer = RowWriter(context, store, staging, minted)
        writer.plan(rows, removals)
        writer.write()
        writer.move_files()


# --- listeners -----------------------------------------------------------------------------------


@event.listens_for(IdentifiedItem, "after_mapper_constructed", propagate=True)
def _listen_to_sessions(mapper: Any, model: type[IdentifiedItem]) -> None:
    """Add the listeners to all sessions, as soon as the host has a model with IdentifiedItem."""
    models.identified_models.add(mapper)
    if not event.contains(Session, "before_flush", _prepare_flush):
        event.listen(Session, "before_flush", _prepare_flush)
        event.listen(Session, "persistent_to_deleted", _note_deleted)
        event.listen(Session, "after_flush_postexec", _write_items)


def _prepare_flush(session: Session, context: Any, instances: Any) -> None:
    """Mint identifiers for all new rows of a flush; note the rows whose items may change."""
    written: dict[int, tuple[IdentifiedItem, set[str] | None]] = {}
    new = [row for row in session.new if isinstance(row, IdentifiedItem)]
    without = [row for row in new if row.ibi is None]
    if without:
        context = models.bind(session)
        for model in {type(row) for row in without}:
            context.session.check_model(session, model)
        for row, forms in zip(without, mint(context, len(without)), strict=True):
            row.ibi_rep, row.ibi_ibip = forms.rep, forms.ibip
            remember(session, row)
    dirty = [
        row
        for row in session.dirty
        if (isinstance(row, IdentifiedItem) or _find_relationships(row))
        and session.is_modified(row)
    ]
    for row in dirty:
        if isinstance(row, IdentifiedItem):
            _check_identifiers(row)
            written[id(row)] = row, _find_changed_columns(row)
    written.update((id(row), (row, None)) for row in new)
    deleted = [row for row in session.deleted if isinstance(row, IdentifiedItem)]
    for row in deleted:
        _ = row.ibi  # after the flush, a deleted row cannot be read any more
    dependent = _find_dependent(session, [*dirty, *session.deleted])
    related = [row for row in (*session.new, *dirty) if _find_relationships(row)]
    if written or related or dependent:
        changes = _get_changes(session)
        changes.written, changes.related, changes.dependent = written, related, dependent


def _note_deleted(session: Session, row: object) -> None:
    """Note the tombstone for the item of a row that the flush has deleted."""
    if isinstance(row, IdentifiedItem):
        values = inspect_row(row).dict
        ibi = values.get("ibi_rep") or values.get("ibi_ibip")
        if ibi is not None:
            changes = _get_changes(session)
            _, tombstone = changes.announced.pop(id(row), (row, Tombstone(models.DEFAULT_REASON)))
            changes.removals.append(Removal(name_row(row), ibi, tombstone))


def _write_items(session: Session, context: Any) -> None:
    """Write the items of the rows that the flush has written."""
    changes: Changes | None = find_part(session, Changes)
    if changes is None:
        return
    written, removals = changes.written, changes.removals
    dependent = [*changes.dependent, *_find_dependent(session, changes.related)]
    changes.clear()
    for row in dependent:
        if inspect_row(row).persistent:
            session.expire(row, row.ibi_depends_on)
            written[id(row)] = row, None
    rows = [
        row
        for row, columns in written.values()
        if inspect_row(row).persistent
        and row.ibi is not None
        and (columns is None or _uses_columns(row, columns))
    ]
    if rows or removals:
        write_rows(session, rows, removals)


def _check_identifiers(row: IdentifiedItem) -> None:
    """Refuse a flush in which the host changes the identifiers of a row."""
    for name in models.FORMS:
        for old in inspect_row(row).attrs[name].history.deleted or ():
            if isinstance(old, str):
                reason = f"the identifier is {old}, and identifiers are permanent"
                raise RowError(name_row(row), name, reason)


# --- what a change concerns ----------------------------------------------------------------------


class _Unusable(BaseException):
    """Raised if a method of the host uses a value that has changed; see :class:`_Changed`."""


class _Changed:
    """Replaces the value of a changed column. Any use of the object raises an exception."""

    def _refuse(self, *arguments: object) -> Any:
        raise _Unusable

    __getattr__ = __eq__ = __bool__ = __str__ = __repr__ = __format__ = __fspath__ = _refuse
    __hash__ = _refuse


def _find_changed_columns(row: IdentifiedItem) -> set[str] | None:
    """Return the attributes of the columns that a flush changes in a row.

    Columns that an UPDATE sets by itself, such as the time of the last change, count too.

    :returns: None if a relationship changes, so that the columns do not tell what changes.
    """
    state = inspect_row(row)
    changed = {attribute.key for attribute in state.attrs if attribute.history.has_changes()}
    columns = state.mapper.column_attrs
    if not changed <= {*columns.keys()}:
        return None
    automatic = {
        attribute.key
        for attribute in columns
        for column in attribute.columns
        if getattr(column, "onupdate", None) or getattr(column, "server_onupdate", None)
    }
    return changed | automatic


def _uses_columns(row: IdentifiedItem, names: set[str]) -> bool:
    """Return whether the description of a row depends on some of its columns.

    ``ibi_record()`` is called for copies of the row that have other values in these columns: a
    value that cannot be used, and None. If it returns the same description, it does not use them.
    """
    if names & {*models.FORMS, *models.get_key_attributes(inspect_row(row).mapper)}:
        return True
    record = row.ibi_record()
    with suppress(_Unusable, Exception):
        for value in (_Changed(), None):
            copy = object.__new__(type(row))
            copy.__dict__.update(row.__dict__ | dict.fromkeys(names, value))
            if copy.ibi_record() != record:
                return True
        return False
    return True


def _find_relationships(row: object) -> list[tuple[Mapper[Any], str, Mapper[Any]]]:
    """Return the relationships by which items depend on rows like this one.

    :returns: for each relationship, the model that names it in ``ibi_depends_on``, its name, and
        the model to which it leads.
    """
    found = []
    for mapper in models.identified_models:
        for name in mapper.class_.ibi_depends_on:
            if name not in mapper.relationships:
                model = mapper.class_.__name__
                raise TypeError(f"{model}.ibi_depends_on: {name} is not a relationship of {model}")
            target = mapper.relationships[name].mapper
            if isinstance(row, target.class_):
                found.append((mapper, name, target))
    return found


def _find_dependent(session: Session, rows: Iterable[object]) -> list[IdentifiedItem]:
    """Return the rows whose items depend on given rows, as the database has them now."""
    keys: dict[tuple[Mapper[Any], str, Mapper[Any]], list[Any]] = {}
    for row in rows:
        if inspect_row(row).identity is not None:
            for relationship in _find_relationships(row):
                keys.setdefault(relationship, []).append(inspect_row(row).identity)
    dependent: list[IdentifiedItem] = []
    for (mapper, name, target), identities in keys.items():
        related = aliased(target.class_)
        key = [
            getattr(related, target.get_property_by_column(one).key) for one in target.primary_key
        ]
        of_related = getattr(mapper.class_, name).of_type(related)
        for part in batched(identities, BATCH):
            statement = select(mapper.class_).join(of_related).where(tuple_(*key).in_(part))
            dependent += session.scalars(statement).unique()
    return dependent
