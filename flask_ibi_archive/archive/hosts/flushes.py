"""Changes items when a session of the host writes rows of identified models.

A flush of a session calls the functions of this module. Before the flush, new rows get their
identifiers. After the flush, in the same transaction, the items of the rows are written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from logging import getLogger
from typing import Any

from sqlalchemy import Table, event, inspect
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import (
    Mapper,
    RelationshipProperty,
    Session,
    SessionTransaction,
    object_session,
)

from flask_ibi_archive.archive.hosts.assigning import (
    Mint,
    assign,
    assign_stored,
    bind_current,
    check_issued,
    check_new_identifiers,
    get_session,
    lock_rows,
    mint,
    read_again,
    was_assigned,
)
from flask_ibi_archive.archive.hosts.bulk_statements import check_statement, identified_models
from flask_ibi_archive.archive.hosts.identified_item import (
    DEFAULT_REASON,
    DescribedRow,
    IdentifiedItem,
    describe,
    find_references,
    inspect_row,
    name_row,
    naming,
)
from flask_ibi_archive.archive.hosts.row_edits import (
    NO_ITEM,
    Owners,
    Removal,
    RowEdits,
    RowLink,
    RowLinks,
    check_owner,
    find_changed_links,
    remove_orphans,
)
from flask_ibi_archive.archive.hosts.row_keys import find_carried
from flask_ibi_archive.archive.items.file_io import Content
from flask_ibi_archive.archive.items.file_store import Staging
from flask_ibi_archive.archive.items.identifiers import (
    RELEASED,
    USED,
    add_reservation,
    find_held,
    settle_reservation,
)
from flask_ibi_archive.archive.items.items import ItemStore
from flask_ibi_archive.archive.items.keys import clear_keys, find_holders
from flask_ibi_archive.archive.items.minting import Minted
from flask_ibi_archive.archive.items.operations.context import (
    OperationContext,
    find_item,
    note,
    validate_record,
)
from flask_ibi_archive.archive.items.operations.depositing import check_new
from flask_ibi_archive.archive.items.operations.description import (
    Identified,
    ItemDescription,
    read_description,
)
from flask_ibi_archive.archive.items.operations.sessions import find_part, get_part
from flask_ibi_archive.archive.items.operations.staged_files import stage_files
from flask_ibi_archive.archive.items.operations.updating import UpdateBatch, upsert_item
from flask_ibi_archive.core.protocol.states import ELSEWHERE, Event, State
from flask_ibi_archive.core.records.fields import parse_text
from flask_ibi_archive.core.records.record import Record, Tombstone
from flask_ibi_archive.errors import RowError, StorageError
from flask_ibi_archive.signals import item_deposited, item_minted

log = getLogger("flask_ibi_archive.host")

FILE_FIELDS = ("files", "target_file", "list_files")


@dataclass(frozen=True, slots=True)
class NewItem:
    """A row whose item is stored for the first time.

    :param is_simple: whether no stub and no other item can have an identifier of the item.
    """

    described: DescribedRow
    description: ItemDescription
    record: Record
    contents: Mapping[str, Content]
    is_simple: bool


@dataclass
class RowWriter:
    """Writes the items of rows. If one row causes an error, no item is changed.

    :param context: the result of :func:`bind` for the session of the rows.
    :param mint: mints identifiers for stored rows that have none, but to which other rows refer.
    :ivar reconnected: the number of those rows that had lost their identifiers.
    """

    context: OperationContext
    staging: Staging
    mint: Mint = mint
    reconnected: int = 0
    _contents: list[Content] = field(default_factory=list)
    _mappers: set[Mapper[Any]] = field(default_factory=set)

    def write(self, rows: Sequence[IdentifiedItem], removals: Sequence[Removal] = ()) -> None:
        """Deposit, edit, withdraw and delete the items of rows.

        All items of new rows are stored before the relations between items. Therefore rows may
        refer to each other in any order.

        :raises RowError: if the item of a row cannot be stored.
        """
        with self.context.transaction() as store:
            now = self.context.now()
            described = self._describe(rows)
            self._mappers = {inspect_row(one.row).mapper for one in described}
            texts = [text for one in described for text in one.identifiers]
            owners = store.find_all_owners([*texts, *(one.ibi for one in removals)])
            new = self._prepare_all(store, described, removals, owners)
            edits = RowEdits(get_session(self.context), store, self.staging, now)
            batch = UpdateBatch(store, edits.find(described, removals, owners))
            new_links = [RowLink.read(one.described, one.description, 0) for one in new]
            links, linked = find_changed_links(store, [*new_links, *edits.links.values()])
            has_related = any(not one.is_simple or one.record.has_references for one in new)
            batch.lock(linked.union(edits.sources), relations=bool(links) or has_related)
            self._insert(store, new, now)
            if edits.new_keys:
                self._free_keys(store, edits.new_keys)
            batch.write(now)
            store.set_sources(edits.sources)
            RowLinks(store, links, now).write()
            withdrawn = [one.described for one in new if one.described.state == State.DELETED]
            if withdrawn:
                self._withdraw(store, withdrawn, edits)
            for content in (*self._contents, *edits.staged):
                self.staging.move_to_store(content)

    def _describe(self, rows: Sequence[IdentifiedItem]) -> list[DescribedRow]:
        """Return the descriptions of rows, and of rows without identifiers to which they refer.

        The latter rows are older than the identifiers. They get identifiers now.
        """
        found: dict[int, DescribedRow] = {}
        waiting = deque(rows)
        while waiting:
            row = waiting.popleft()
            if id(row) in found:
                continue
            found[id(row)] = one = describe(row)
            for name, other in find_references(one.given):
                if other.ibi is None:
                    if not inspect_row(other).persistent:
                        reason = "the row is not in the session; add it to the session first"
                        raise RowError(one.name, name, f"{name_row(other)}: {reason}")
                    self.reconnected += assign_stored(self.context, [other], self.mint)
                    waiting.append(other)
        return list(found.values())

    def _prepare_all(
        self,
        store: ItemStore,
        described: Iterable[DescribedRow],
        removals: Iterable[Removal],
        owners: Owners,
    ) -> list[NewItem]:
        """Return the items to insert. Reserve and release the identifiers of other rows."""
        without = [one for one in described if owners.get(one.ibi, NO_ITEM)[1] == ELSEWHERE]
        deleted = [one.ibi for one in removals if one.ibi not in owners]
        texts = [text for one in without for text in one.identifiers if text not in owners]
        held = find_held(store.connection, store.archive_id, [*texts, *deleted])
        for ibi in held.keys() & set(deleted):
            settle_reservation(
                store.connection, store.archive_id, ibi, RELEASED, self.context.now()
            )
        new = []
        for one in without:
            with naming(one.name, one.ibi):
                if one.ibi in held:
                    check_owner(get_session(self.context), one, held[one.ibi])
                if self._begin(store, one, one.ibi in held):
                    new.append(self._prepare(one, owners.keys().isdisjoint(one.identifiers)))
        return new

    def _begin(self, store: ItemStore, one: DescribedRow, is_held: bool) -> bool:
        """Use the identifier of a row that has no item yet.

        :param is_held: whether the identifier is reserved.
        :returns: whether the row is public. Otherwise the identifier is reserved now.
        """
        now = self.context.now()
        if was_assigned(self.context, one.row):
            if not is_held:
                note(store, item_minted, Minted(*one.identifiers))
        elif not is_held:
            check_issued(self.context, store.connection, one)
        if one.state != "Reserved":
            if is_held:
                settle_reservation(store.connection, store.archive_id, one.ibi, USED, now)
            return True
        if not is_held:
            rep, ibip = one.row.ibi_rep, one.row.ibi_ibip
            if rep is None or ibip is None:
                raise StorageError("a row that is not public needs both forms of its identifier")
            if one.key is not None:
                self._free_keys(store, {one.key: 0})
            add_reservation(store.connection, store.archive_id, rep, ibip, one.name, now, one.key)
        return False

    def _prepare(self, one: DescribedRow, is_unknown: bool) -> NewItem:
        given = dict(one.given)
        if one.state == State.DELETED:  # a tombstone has no files
            given = {key: value for key, value in given.items() if key not in FILE_FIELDS}
        description = read_description(given)
        check_new(description)
        files, contents = stage_files(self.staging, description.files)
        self._contents += contents.values()
        record = Record(
            **{
                **description.values,
                "rep": one.row.ibi_rep,
                "ibip": one.row.ibi_ibip,
                "files": files,
                "key": one.key,
            }
        )
        record = validate_record(record, one.name)
        return NewItem(one, description, record, contents, is_unknown and not record.aliases)

    def _insert(self, store: ItemStore, new: Sequence[NewItem], now: datetime) -> None:
        """Insert items. Items without relations to known identifiers are inserted together."""
        batch = [item for item in new if item.is_simple]
        if not new:
            return
        try:
            with store.connection.begin_nested():
                store.insert_items(
                    [item.record for item in batch], [item.contents for item in batch], now
                )
        except (IntegrityError, StorageError):
            self._free_keys(
                store, dict.fromkeys(filter(None, (one.record.key for one in batch)), 0)
            )
            # one by one, to find the row whose item is refused
            for item in batch:
                with naming(item.described.name, item.described.ibi):
                    store.insert_items([item.record], [item.contents], now)
        for item in batch:
            note(store, item_deposited, item.record)
        for item in new:
            if not item.is_simple or item.record.has_references:
                with naming(item.described.name, item.described.ibi):
                    if item.is_simple:
                        item_id, _ = find_item(store, item.described.ibi)
                        store.relations.add(item_id, item.record, now)
                    else:
                        if item.record.key is not None:
                            self._free_keys(store, {item.record.key: 0})
                        upsert_item(store, item.record, item.contents, now, Event.DEPOSIT)

    def _free_keys(self, store: ItemStore, keys: Mapping[str, int]) -> None:
        """Take keys from the items that had them, because rows have these keys now.

        A bulk statement has changed the primary keys of their rows, or has deleted the rows. In the
        second case, the item becomes a tombstone.

        :param keys: the new keys, with the row IDs of the items that get them.
        """
        session = get_session(self.context)
        holders = [
            holder
            for holder in find_holders(store.connection, store.archive_id, keys).values()
            if holder.item_id != keys[holder.key]
        ]
        if not holders:
            return
        orphans = [one for one in holders if not one.is_deleted]
        for mapper in self._mappers:
            carried = find_carried(session, mapper, orphans)
            orphans = [one for one in orphans if one.key not in carried]
        now = self.context.now()
        remove_orphans(session, store, self.staging, orphans, Tombstone(DEFAULT_REASON), now)
        for one in orphans:
            log.warning(
                "the row %s was deleted by a bulk statement, and a new row has its key; %s "
                "is removed",
                one.key,
                one.ibi,
            )
        clear_keys(store.connection, store.archive_id, [one.key for one in holders])

    def _withdraw(
        self, store: ItemStore, described: Iterable[DescribedRow], edits: RowEdits
    ) -> None:
        """Withdraw the items of new rows with the state Deleted."""
        batch = UpdateBatch(
            store,
            {find_item(store, one.ibi)[0]: partial(edits.withdraw, one) for one in described},
        )
        batch.lock()
        batch.write(edits.now)


@dataclass
class Changes:
    """The rows that the current flush of a session writes, and the announced removals.

    :ivar deleted: the rows that the host has deleted from the session.
    :ivar changed: the names of the columns that changed in each row that is not new, by the
        ``id()`` of the row.
    :ivar announced: the rows that the host will delete in the present transaction, with their
        tombstones, by the ``id()`` of the row.
    """

    written: list[IdentifiedItem] = field(default_factory=list)
    deleted: list[IdentifiedItem] = field(default_factory=list)
    removed: dict[int, Removal] = field(default_factory=dict)
    changed: dict[int, set[str]] = field(default_factory=dict)
    announced: dict[int, tuple[IdentifiedItem, Any]] = field(default_factory=dict)

    def clear(self) -> None:
        """Forget the rows of the flush."""
        self.written, self.deleted, self.removed, self.changed = [], [], {}, {}

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
    with read_again(session, [row], {}):
        _write(context, [row], [])


def _find_session(row: object) -> Session:
    if not isinstance(row, IdentifiedItem):
        raise StorageError(f"{row!r} is not a row of a model with IdentifiedItem")
    session = object_session(row)
    if session is None:
        raise StorageError(f"{name_row(row)} is not in a session; add the row to the session first")
    return session


# --- events --------------------------------------------------------------------------------------

#: The models with IdentifiedItem that were not checked yet.
_new_models: list[Mapper[Any]] = []


@event.listens_for(IdentifiedItem, "after_mapper_constructed", propagate=True)
def _listen_to_sessions(mapper: Any, model: type[IdentifiedItem]) -> None:
    """Listen to sessions, because the host has a model with IdentifiedItem."""
    _new_models.append(mapper)
    identified_models.add(mapper)
    if not event.contains(Session, "before_flush", _prepare_flush):
        event.listen(Session, "before_flush", _prepare_flush)
        event.listen(Session, "after_flush_postexec", _write_items)
        event.listen(Session, "do_orm_execute", check_statement)
        event.listen(Mapper, "after_configured", _warn_of_silent_deletions)


def _warn_of_silent_deletions() -> None:
    """Log the new models whose rows the database can delete without telling the session."""
    while _new_models:
        mapper = _new_models.pop()
        keys = (
            key
            for table in mapper.tables
            if isinstance(table, Table)
            for key in table.foreign_key_constraints
        )
        for key in keys:
            parent = key.referred_table
            if str(key.ondelete).upper() != "CASCADE" or parent in mapper.tables:
                continue
            relationships = (
                relationship
                for other in mapper.registry.mappers
                if parent in other.tables
                for relationship in other.relationships
            )
            if not any(_deletes_rows(relationship, mapper) for relationship in relationships):
                log.warning(
                    "if a row of %s is deleted, the database deletes rows of %s (ON DELETE "
                    "CASCADE), but their items stay public; add a relationship with "
                    "cascade='all, delete' and without passive_deletes",
                    parent.name,
                    mapper.class_.__name__,
                )


def _deletes_rows(relationship: RelationshipProperty[Any], mapper: Mapper[Any]) -> bool:
    """Return whether the session deletes the rows of a model through a relationship."""
    leads_to_model = mapper.isa(relationship.mapper)
    return leads_to_model and relationship.cascade.delete and not relationship.passive_deletes


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
    rows, removals, changed = changes.written, [*changes.removed.values()], changes.changed
    changes.clear()
    if rows or removals:
        with read_again(session, [row for row in rows if id(row) in changed], changed):
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
