"""Operations on the items of an Archive: deposit, edit, delete, reserve.

The module :mod:`.transfers` has the operations on items of two Archives. Source: [R] 3.2.
"""

from __future__ import annotations

import dataclasses
import math
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from blinker import NamedSignal
from msgspec.structs import replace
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session, SessionTransaction

from flask_ibi_archive import signals
from flask_ibi_archive.archive.items import item_record, ownership, read, write
from flask_ibi_archive.archive.items.files import FileStore, Staging
from flask_ibi_archive.archive.items.item_record import (
    EDITABLE,
    Files,
    Identified,
    ItemRecord,
    canonicalize,
    get_ibi,
    require_ibi,
)
from flask_ibi_archive.archive.items.minting import Minted, Minter
from flask_ibi_archive.archive.items.rules import RULES, explain_refusal
from flask_ibi_archive.archive.items.served_archives import ServedArchive, find_archives
from flask_ibi_archive.archive.items.sessions import HostSession, get_part, in_transaction
from flask_ibi_archive.archive.items.stored_relations import lock_items
from flask_ibi_archive.core.identifiers.foreign import parse_foreign
from flask_ibi_archive.core.identifiers.grammar import Form, match_identifier
from flask_ibi_archive.core.protocol.states import Event, State, next_state
from flask_ibi_archive.core.records.record import ItemView, Record, Tombstone
from flask_ibi_archive.core.records.values import parse_key, parse_text, quoted
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl, parse_persistent_url
from flask_ibi_archive.errors import MalformedPersistentUrl, RuleBroken, StorageError, UnknownItem
from flask_ibi_archive.server.database.database import Database, can_be_repeated
from flask_ibi_archive.server.database.dialects import batched
from flask_ibi_archive.signals import NOBODY, Notice, Notifier

if TYPE_CHECKING:
    from typing_extensions import Unpack


#: The maximum number of seconds to wait for locks. If a lock is not free, the files are deleted
#: after the next rollback, or with ``flask ibi verify --prune``.
LOCK_TIMEOUT = 0.1


@dataclass
class NewFiles:
    """The files that the present transaction of a session has added to the store.

    :ivar checksums: the checksums of the files.
    :ivar operations: the number of operations that added files. A later operation may replace a
        file of an earlier operation, which is then unneeded.
    :ivar rolled_back: whether the host has rolled back, also to a savepoint.
    """

    database: Database
    store: FileStore
    checksums: set[str] = field(default_factory=set)
    operations: int = 0
    rolled_back: bool = False

    def end(self, session: Session, transaction: SessionTransaction, is_committed: bool) -> None:
        """When the transaction of the host ends, delete the new files that no item needs."""
        self.rolled_back = self.rolled_back or not is_committed
        if transaction.parent is not None or not (self.checksums or self.store.unneeded):
            return
        if not self.rolled_back and self.operations == 1:
            return
        # the files stay in the list if a lock is not free
        self.checksums |= self.store.unneeded
        self.store.unneeded = self.checksums
        with suppress(StorageError):
            # If committed items need all the files, no lock is necessary.
            for part in batched(self.checksums):
                needed = self.database.read(partial(read.find_needed_checksums, checksums=part))
                if len(needed) < len(part):
                    with self.database.writing(LOCK_TIMEOUT) as connection:
                        read.remove_unneeded(
                            connection, self.store, sorted(self.checksums), math.inf
                        )
                    break
            self.store.unneeded = set()


#: The fields of a record that the signal of a changed item does not name.
UNSIGNALLED = ("timestamp", "key")


def note_signal(
    store: write.ItemStore, signal: NamedSignal, item: Record | Minted, **values: Any
) -> None:
    """Add a signal about an item to ``store.notices``, if the signal has receivers.

    :param values: further values of the signal.
    """
    if signal.receivers:
        names = {"ibi": item.ibip or item.rep, "rep": item.rep, "ibip": item.ibip}
        store.notices.append(Notice(signal, {**names, "archive": store.archive_id, **values}))


def note_change(store: write.ItemStore, before: Record | None, after: Record) -> None:
    """Note the signal that the state of an item, or fields of its record, have changed.

    If only the timestamp has changed, no signal is noted.

    :param before: the record before the change; None if the Archive did not have the item.
    """
    if before is None or before.state != after.state:
        old_state = None if before is None else before.state
        note_signal(
            store, signals.item_state_changed, after, old_state=old_state, new_state=after.state
        )
    elif signals.item_changed.receivers and before.state != State.DELETED.value:
        names = [
            name for name in write.find_changed_fields(before, after) if name not in UNSIGNALLED
        ]
        if names:
            note_signal(store, signals.item_changed, after, state=after.state, fields=tuple(names))


def note_changed_item(store: write.ItemStore, item_id: int, changed: Sequence[str]) -> None:
    """Note the signal that some fields of a stored item have changed.

    :param item_id: the row ID of the item.
    :param changed: the names of the fields.
    """
    if signals.item_changed.receivers:
        record = store.reader.read_record(item_id)
        note_signal(store, signals.item_changed, record, state=record.state, fields=tuple(changed))


def name_archives(store: write.ItemStore) -> list[Notice]:
    """Return the signals that a transaction has noted, ready to send.

    Archives are named by their service IBIs instead of their row IDs.
    """
    names = {archive.id: archive.service_ibi for archive in find_archives(store.connection)}
    return [
        dataclasses.replace(
            notice, values={**notice.values, "archive": names[notice.values["archive"]]}
        )
        for notice in store.notices
    ]


#: Clock returns the current time with a time zone. Tests can replace the clock of an Archive.
Clock: TypeAlias = "Callable[[], datetime]"


#: Returns the current time in UTC.
read_utc_clock: Clock = partial(datetime.now, timezone.utc)


@dataclass(frozen=True)
class OperationContext:
    """The Archive on which the operations work, and the objects that they use.

    :param folder: the store that contains the files of the items.
    :param get_minter: returns the minter. Raises ConfigError if the settings do not allow minting.
    :param session: the session of the host, or None. With a session, operations are part of the
        transaction of the host.
    :param notifier: sends the signals after the commit.
    :param clock: returns the current time.
    :param before_commit: called at the end of the transaction of an operation, before the commit.
        What it stores is part of the operation.
    """

    database: Database
    archive: ServedArchive
    folder: FileStore
    get_minter: Callable[[], Minter]
    session: HostSession | None = None
    notifier: Notifier = NOBODY
    clock: Clock = read_utc_clock
    before_commit: Callable[[write.ItemStore], None] | None = None

    def now(self) -> datetime:
        """Return the current time in UTC, in whole seconds."""
        return self.clock().astimezone(timezone.utc).replace(microsecond=0)

    @contextmanager
    def transaction(self, ibi: str | None = None) -> Iterator[write.ItemStore]:
        """Yield the items of the Archive in a transaction.

        An exception in the ``with`` block rolls back the transaction. If the host has a session,
        the block is a savepoint in the transaction of the host, and the host commits. The signals
        that the block has noted are sent after the commit.

        :param ibi: an identifier of the item that is changed, for messages.
        :raises RuleBroken: if the block violates a constraint of the database that enforces a rule.
        :raises StorageError: if the block violates another constraint.
        :raises DBAPIError: if the host has a session, and PostgreSQL reports a serialization
            failure or a deadlock. Hosts that repeat transactions expect the error of the driver.
        """
        if self.session is not None:
            # This writes the pending changes of the host. The host handles errors of these changes.
            self.session.connection()
        writing = self.session.savepoint() if self.session else self.database.writing()
        store: write.ItemStore | None = None
        try:
            with writing as connection:
                store = write.ItemStore(connection, self.archive.id, ibi=ibi)
                yield store
                if self.before_commit is not None:
                    self.before_commit(store)
                notices = name_archives(store) if store.notices else []
        except IntegrityError as error:
            raise explain_refusal(error, ibi if store is None else store.ibi) from error
        except DBAPIError as error:
            if self.session is not None and can_be_repeated(error):
                raise
            raise self.database.explain(error) from error
        if notices and self.session is not None:
            self.session.send_after_commit(notices, self.notifier)
        elif notices:
            self.notifier.send(notices)

    def staging(self) -> AbstractContextManager[Staging]:
        """Return a staging folder for the new files of an operation.

        If the host has a session and rolls back, the files are deleted.
        """
        if self.session is None:
            return self.folder.staging()
        create = partial(NewFiles, self.database, self.folder)
        files = get_part(self.session.current(), self.folder, create)
        files.operations += 1
        return self.folder.staging(files.checksums.add)

    @contextmanager
    def reading(self) -> Iterator[write.ItemStore]:
        """Yield the items of the Archive for reading.

        If the host has a session, uncommitted changes in the transaction of the host are visible.
        """
        session = self.session
        with nullcontext(session.connection()) if session else self.database.reading() as found:
            yield write.ItemStore(found, self.archive.id)

    def mint_many(self, count: int, minter: Minter | None = None) -> list[Minted]:
        """Issue new identifiers, and return them.

        If the host has begun a transaction on SQLite, no other connection can write. Then the
        identifiers are minted in the transaction of the host.

        :param minter: the minter; None: the result of ``get_minter``.
        :raises MintingError: if no identifiers can be minted now.
        """
        minter = minter or self.get_minter()
        if self.session is not None and self.database.engine.dialect.name == "sqlite":
            connection = self.session.connection()
            if in_transaction(connection):
                try:
                    return minter.mint_within(connection, count)
                except DBAPIError as error:
                    raise self.database.explain(error) from error
        return minter.mint(count)

    def get_archive(self, connection: Connection, ibi: str) -> ServedArchive:
        """Return the Archive whose service has an IBI.

        :param ibi: the IBI of the service.
        :raises StorageError: if the database has no such Archive. The message names the services of
            the existing Archives.
        """
        found = find_archives(connection, canonicalize(ibi))
        if not found:
            names = ", ".join(archive.service_ibi for archive in find_archives(connection)[:10])
            raise StorageError(
                f"no Archive of this database has the service {ibi}; "
                f"the services of the database are {names}"
            )
        return found[0]


class HasContext(Protocol):
    """An Archive, as far as operations need it. The operations become its methods."""

    @property
    def context(self) -> OperationContext:
        """The objects that operations on items use.

        :raises StorageError: if the items are in the catalogue of the host.
        """

    @property
    def own_context(self) -> OperationContext:
        """The objects of ``context``, without an error if the items are in a host's catalogue."""


def find_item(store: write.ItemStore, ibi: str) -> ownership.Owner:
    """Return the item that has an identifier.

    :param ibi: the identifier in canonical case.
    :raises UnknownItem: if there is no such item.
    :raises RuleBroken: rule 6, if the item is the service.
    """
    owner = ownership.find_owners(store.connection, store.archive_id, [ibi]).get(ibi)
    if owner is None:
        raise UnknownItem(ibi)
    if owner.is_service:
        raise RuleBroken(6, ibi, RULES[6])
    return owner


def find_key(archive: HasContext, key: str) -> ItemView | None:
    """Return the item that was deposited with a key, or None if no item has the key.

    ::

        item = ibi.archive.find_key("package:1a68")

    With the session of the host, the item need not be committed yet. An item that was deleted with
    :meth:`delete` keeps its key until another item is deposited with the key.

    :param key: the key of the deposit; or the table and the primary key of a row of the host's own
        model, such as ``thesis:7``.
    :raises StorageError: if the text is not a key.
    """
    context = archive.context
    with context.reading() as store:
        holder = _find_key_holder(store, key)
        if holder is None:
            return None
        today = context.now().date()
        return read.view_item(store.connection, store.archive_id, context.folder, holder.ibi, today)


def _find_deposited(context: OperationContext, key: Any, reserved: str | None) -> Minted | None:
    """Return the identifiers of the item that was deposited with a key and is not deleted.

    If the item has only one form of the identifier, this form takes the place of both.

    :param reserved: the identifier that the caller has reserved for the item, or None.
    :returns: None if there is no such item.
    :raises StorageError: if the value is not a key, or if the item has another identifier than the
        reserved one.
    """
    with context.reading() as store:
        holder = _find_key_holder(store, key)
    if holder is None or holder.is_deleted:
        return None
    if reserved is not None and canonicalize(reserved) not in holder.identifiers:
        raise StorageError(
            f"key: the item {holder.ibi} already has the key {key}; its identifier can't become "
            f"{reserved}"
        )
    return Minted(holder.rep or holder.ibi, holder.ibip or holder.ibi)


def _find_key_holder(store: write.ItemStore, key: Any) -> ownership.KeyHolder | None:
    """Return the item that has a key; None if only a reservation has it, or nothing."""
    text = item_record.check_value(parse_key, "key", key)
    holder = ownership.find_holders(store.connection, store.archive_id, [text]).get(text)
    return None if holder is None or holder.item_id is None else holder


#: The number of items that are read or written with the same statements.
BATCH = 500


def with_all_identifiers(record: Record, before: Record) -> Record:
    """Add to a record the identifiers that its item had before, because they are permanent.

    :param before: the present record of the item.
    :raises RuleBroken: rule 1, if the record and the item have different reps or different ibips.
    Source: [G] 4 and 5 (an item keeps its label).
    """
    ibi = before.identifiers[0]
    for form, now in (("rep", record.rep), ("ibip", record.ibip)):
        old = getattr(before, form)
        if None not in (old, now) and old != now:
            raise RuleBroken(
                1, ibi, f"the {form} of the item is {old}, and identifiers are permanent", form
            )
    rep, ibip = record.rep or before.rep, record.ibip or before.ibip
    old_aliases = [text for text in before.aliases if text not in (rep, ibip, *record.aliases)]
    aliases = [text for text in record.aliases if text not in (rep, ibip)]
    return replace(record, rep=rep, ibip=ibip, aliases=(*aliases, *old_aliases))


#: Returns the new record of an item, and the contents of its new files, from its present record.
#: None: the item does not change. If another transaction changes the item in the meantime, the
#: function is called again.
Edit: TypeAlias = "Callable[[Record], tuple[Record, write.Contents] | None]"


class UpdateBatch:
    """New records for several items of the Archive, which are stored together.

    The constructor reads the items without locks. Then the caller calls :meth:`lock`, and
    :meth:`write`. The lock on relations is only taken if relations change.

    :param edits: for each item, by its row ID, the function that returns its new record.
    :ivar updates: the items whose records change, by their row IDs.
    """

    def __init__(self, store: write.ItemStore, edits: Mapping[int, Edit]) -> None:
        self._store = store
        self._edits = edits
        self.updates: dict[int, write.Update] = {}
        self._read(edits)

    def _read(self, items: Collection[int]) -> None:
        """Read items, and call the edit of each item that has changed since it was last read."""
        for part in batched(items, BATCH):
            for item_id, item in self._store.reader.read_items(part).items():
                before, known = item.record, self.updates.get(item_id)
                if known is None or known.before != before:
                    edited = self._edits[item_id](before)
                    self.updates.pop(item_id, None)
                    if edited is not None:
                        self.updates[item_id] = write.Update(item_id, before, *edited)
        self._related = self._find_related()

    def _find_related(self) -> set[int]:
        """Return the row IDs of those items whose changes also affect other items.

        These are items whose references, identifiers or languages change, and removed items that
        are in a group of translations or have Copies.
        """
        related: set[int] = set()
        removed: dict[str, int] = {}
        for item_id, new in self.updates.items():
            if new.relates:
                related.add(item_id)
            if "state" in new.changed:
                removed[new.before.identifiers[0]] = item_id
        if removed:
            related |= {removed[ibi] for ibi in self._store.relations.find_heads(removed)}
            related |= self._store.find_copies(removed.values()).keys()
        return related

    def lock(self, others: Collection[int] = (), relations: bool = False) -> None:
        """Lock the items that change until the end of the transaction, and read them again.

        :param others: the row IDs of further items to lock.
        :param relations: whether the caller changes relations. In this case, and if the new records
            change relations, the relations of the Archive are locked, too.
        """
        if self._store.connection.dialect.name == "sqlite":
            return  # the transaction was the only writer when the items were read
        items = {*self.updates, *others}
        if relations or self._related:
            self._store.lock_relations(items)
        else:
            lock_items(self._store.connection, items)
        was_related = bool(self._related)
        self._read(list(self.updates))
        if self._related and not (relations or was_related):
            # another transaction has related one of the items before it was locked
            self._store.lock_relations()

    def write(self, now: datetime) -> None:
        """Store the new records, and note the signals of the changes."""
        simple = [new for item_id, new in self.updates.items() if item_id not in self._related]
        for part in batched(simple, BATCH):
            self._store.replace(part, now)
        for new in self.updates.values():
            if new.item_id in self._related:
                update_item(self._store, new, now)
            note_change(self._store, new.before, new.record)


def change_item(
    store: write.ItemStore, ibi: str, edit: Edit, now: datetime, relates: bool = True
) -> None:
    """Replace the record of the item that has an identifier.

    :param relates: whether the change may affect other items. If so, the relations are locked
        before the items. If not, only the item is locked, before it is read.
    :raises UnknownItem: if there is no such item.
    :raises RuleBroken: rule 6, if the item is the service.
    """
    item_id = find_item(store, ibi).id
    if not relates:
        lock_items(store.connection, [item_id])
    batch = UpdateBatch(store, {item_id: edit})
    if relates:
        batch.lock()
    batch.write(now)


def update_item(store: write.ItemStore, new: write.Update, now: datetime) -> None:
    """Replace the record of an item of the Archive, and change its group of translations.

    If the translations in the new record differ from those in the old record, the new translations
    define the whole group. A removed item leaves its group, unless its Original is in another
    Archive: then the group leads a resolver to the Original.

    :raises RuleBroken: if a rule does not allow the change.
    """
    relations, before, record = store.relations, new.before, new.record
    ibi = before.identifiers[0]
    store.check_no_copies(new.item_id, record)
    is_removed = record.tombstone is not None and record.tombstone.original_archive is None
    is_listed = not is_removed and record.translations != before.translations
    if is_removed or is_listed:
        if is_listed:
            relations.dissolve(ibi)
        relations.leave(ibi)
    elif record.language is None and not before.translations and relations.find_members(ibi):
        raise RuleBroken(
            8,
            record.identifiers[0],
            f"the item is in a group of translations with the language {before.language}; "
            "the record must state a language",
        )
    store.replace([new], now)
    if is_listed and record.translations:
        store.join(record)


def upsert_item(
    store: write.ItemStore, record: Record, contents: write.Contents, now: datetime, event: Event
) -> int:
    """Insert an item, or replace the item that already has these identifiers.

    :param record: the record. It lists the whole group of translations.
    :param event: the operation. The state of an existing item must allow the operation.
    :returns: the row ID of the item.
    :raises StorageError: if the state of the item does not allow the operation.
    :raises RuleBroken: if a rule does not allow the operation.
    """
    ibi = record.identifiers[0]
    owners = {owner.id: owner for owner in store.find_owners(record.identifiers).values()}
    if not owners:
        next_state(None, event, ibi)
        [item_id] = store.insert([record], [contents], now)
        if event is Event.COPY:  # a transfer notes its changes itself
            note_change(store, None, record)
        return item_id
    if len(owners) > 1:
        raise RuleBroken(
            1, ibi, "the identifiers in the record belong to several items of the Archive"
        )
    [(item_id, owner)] = owners.items()
    lock_items(store.connection, [item_id])
    next_state(State(owner.state), event, ibi)
    if owner.is_service:
        raise RuleBroken(6, ibi, RULES[6])
    before = store.reader.read_record(item_id)
    record = with_all_identifiers(record, before)
    record = replace(record, key=record.key or before.key)
    record = _leave_translations(store, owner.ibi, record)
    store.replace([write.Update(item_id, before, record, contents)], now)
    if record.translations:
        store.join(record)
    if event is Event.COPY:
        note_change(store, before, record)
    return item_id


def _leave_translations(store: write.ItemStore, ibi: str, record: Record) -> Record:
    """Remove an item from its group of translations, with all members that are not Originals.

    :returns: the record with the Originals of the group as translations. Therefore translations
        that were added in this Archive remain.
    """
    added = {}
    for member in store.relations.find_members(ibi):
        if member.ibi == ibi:
            continue
        if member.state != State.ORIGINAL.value:
            store.relations.leave(member.ibi)
        elif member.language is not None and member.ibi not in record.translations.values():
            added[member.language] = member.ibi
    store.relations.leave(ibi)
    added.pop(str(record.language), None)
    return replace(record, translations={**added, **record.translations})


def deposit(
    archive: HasContext,
    record: ItemRecord | None = None,
    files: Files | None = None,
    /,
    *,
    reserved: str | Identified | None = None,
    **fields: Unpack[ItemRecord],
) -> Minted:
    """Store a new item with its files and give the item an IBI in both forms.

    ::

        minted = ibi.archive.deposit(
            title="Annual report",
            creators=["Silva, Ana", "Souza, Davi"],
            language="en",
            files=["report.pdf", request.files["data"]],
            metadata={"dc": {"date": "2026", "subject": ["hydrology"]}},
        )
        minted.ibi                            # 8JMKD3MGP8W/4GR7C9G
        ibi.archive.persistent_url(minted)    # http://urlib.net/8JMKD3MGP8W/4GR7C9G

    A host that may deposit the same thing twice, for example after an error, gives a key. If an
    item already has the key, nothing is stored, and the identifiers of that item are returned; call
    :meth:`edit` to change it. If that item is deleted, a new item is deposited, and gets the key::

        minted = ibi.archive.deposit(key="package:1a68", title="Rain gauges", files=["rain.csv"])
        ibi.archive.find_key("package:1a68").ibi == minted.ibi

    :param record: the description of the item. None: only ``fields`` describe the item.
    :param files: the files of the item. The same as the field ``files``.
    :param reserved: an identifier that was reserved for the item (:meth:`reserve`). None: a new
        identifier is minted.
    :param fields: further fields of the description. They are listed in the documentation of
        :class:`ItemRecord` (``help(flask_ibi_archive.ItemRecord)``). The most important fields
        are ``title``, ``creators``, ``language``, ``files``, ``metadata`` and ``access``.
    :returns: the identifiers of the item: ``rep``, ``ibip``, and ``ibi``, which is the short
        form. A new identifier is used up even if the item cannot be stored.
    :raises StorageError: if a field is wrong, if a file cannot be read, or if a rule does not
        allow the item. The message names the field and the expected value.
    :raises MintingError: if no identifier can be minted now.
    :raises NotReady: if the Archive is not set up. The message names the command to run.
    """
    if not isinstance(record, Mapping | None):
        raise StorageError(
            f"record: {quoted(record)} is not an ItemRecord, such as ItemRecord(language='en')"
        )
    listed = {} if files is None else {"files": files}
    given = {**(record or {}), **listed, **fields}
    values = item_record.read_description(given)
    item_record.check_new(given)
    context, draft = archive.context, get_ibi("reserved", reserved)
    if values.get("key") is None:
        return _store(context, given, values, draft)
    known = _find_deposited(context, values["key"], draft)
    if known is not None:
        return known
    try:
        return _store(context, given, values, draft)
    except StorageError:
        # another process may have deposited the same key in the meantime
        known = _find_deposited(context, values["key"], None)
        if known is None:
            raise
        return known


def new_edition(
    archive: HasContext,
    ibi: str | Identified,
    record: ItemRecord | None = None,
    files: Files | None = None,
    /,
    *,
    reserved: str | Identified | None = None,
    **fields: Unpack[ItemRecord],
) -> Minted:
    """Deposit an item as the next edition of another item; see :meth:`deposit`.

    ::

        ibi.archive.new_edition(first.ibi, title="Annual report, corrected", files=["b.pdf"])

    :param ibi: an identifier of the earlier edition.
    :raises RuleBroken: rule 7, if the earlier edition already has a next edition. The message
        names the last edition.
    """
    fields["previous_edition"] = require_ibi(ibi)
    return deposit(archive, record, files, reserved=reserved, **fields)


def add_translation(
    archive: HasContext,
    ibi: str | Identified,
    record: ItemRecord | None = None,
    files: Files | None = None,
    /,
    *,
    reserved: str | Identified | None = None,
    **fields: Unpack[ItemRecord],
) -> Minted:
    """Deposit an item as a translation of another item; see :meth:`deposit`.

    ::

        ibi.archive.add_translation(english.ibi, language="pt", files=["relatorio.pdf"])

    :param ibi: an identifier of the other item, or of any translation of that item.
    :param fields: the description of the new item. The field ``language`` is required.
    :raises RuleBroken: rule 8, if there is already an item or translation in that language.
    """
    fields["translation_of"] = require_ibi(ibi)
    return deposit(archive, record, files, reserved=reserved, **fields)


def _store(
    context: OperationContext,
    given: Mapping[str, Any],
    values: Mapping[str, Any],
    reserved: str | None,
) -> Minted:
    """Store a new item, and return its identifiers.

    :param given: the fields of the ItemRecord.
    :param values: the result of :func:`read_description` for these fields.
    :param reserved: the reserved identifier of the item; None: mint a new identifier.
    """
    related = item_record.find_relations(given)
    edition_of, translation_of = map(related.get, item_record.RELATED)
    # Wrong settings are reported here, before anything is written.
    minter = context.get_minter() if reserved is None else None
    with context.staging() as staging:
        files, contents = item_record.stage_files(staging, given.get("files", ()))
        record = item_record.validate_record(values, None, Record(files=files))
        if related:
            # Errors are reported here, before an identifier is used up.
            with context.reading() as store:
                other = find_related(store, edition_of, translation_of)

        minted = None if minter is None else context.mint_many(1, minter)[0]
        with context.transaction(reserved if minted is None else minted.rep) as store:
            # The related item is read again after the lock, because another transaction may have
            # changed the item before.
            if related:
                store.lock_relations([other.id])
                other = find_related(store, edition_of, translation_of)
            elif record.has_references or minted is None:
                store.lock_relations()
            now = context.now()
            if minted is None:
                ibi = canonicalize(str(reserved))
                forms = ownership.settle_reservation(
                    store.connection, store.archive_id, ibi, ownership.USED, now
                )
                minted = Minted(*forms)
            else:
                note_signal(store, signals.item_minted, minted)
            named = replace(record, rep=minted.rep, ibip=minted.ibip)
            if record.key is not None:
                holder = _find_key_holder(store, record.key)
                if holder is not None and holder.is_deleted:
                    ownership.free_keys(store.connection, store.archive_id, [holder])
            store.insert([named], [contents], now, is_minted=reserved is None)
            note_signal(store, signals.item_deposited, named)
            if edition_of is not None:
                store.relations.set_next_edition(other.id, minted.rep)
                store.set_timestamp(other.id, now)
                note_changed_item(store, other.id, ["next_edition"])
            elif translation_of is not None:
                store.relations.add_translation(minted.rep, other.ibi, str(named.language))
            for content in contents.values():
                staging.move_to_store(content)
            return minted


def find_related(
    store: write.ItemStore, edition_of: str | None, translation_of: str | None
) -> ownership.Owner:
    """Return the item to which a new item is added: the earlier edition or the translated item.

    :param edition_of: an identifier of the earlier edition; only used without ``translation_of``.
    :param translation_of: an identifier of the translated item.
    :raises RuleBroken: rule 7, if the earlier edition already has a next edition. The message names
        the last edition.
    """
    ibi = canonicalize(str(translation_of or edition_of))
    other = find_item(store, ibi)
    next_state(State(other.state), Event.TRANSLATION if translation_of else Event.EDITION, ibi)
    if translation_of:
        return other
    last, is_here = store.relations.find_last_edition(other.ibi)
    if last != other.ibi:
        where = "" if is_here else " (not in this Archive)"
        raise RuleBroken(
            7,
            ibi,
            f"the item already has a next edition; the last edition is {last}{where}; add the new "
            "edition to the last edition",
        )
    return other


def reserve(archive: HasContext, note: str | None = None) -> Minted:
    """Mint an identifier, and reserve the identifier for a draft.

    ::

        draft = ibi.archive.reserve(note="thesis of Ana Silva")
        ibi.archive.deposit(title="...", files=["thesis.pdf"], reserved=draft.ibi)

    No other item can get a reserved identifier.

    :param note: the purpose of the reservation.
    :raises MintingError: if no identifier can be minted now.
    """
    text = None if note is None else item_record.check_value(parse_text, "note", note)
    context = archive.own_context
    # The date of the identifier is committed first, so that other processes can mint before the
    # transaction ends. Therefore the identifier is used up even if the transaction fails.
    [minted] = context.mint_many(1)
    with context.transaction(minted.rep) as store:
        ownership.add_reservation(
            store.connection, store.archive_id, minted.rep, minted.ibip, text, context.now()
        )
        note_signal(store, signals.item_minted, minted)
    return minted


def release(archive: HasContext, ibi: str | Identified) -> None:
    """End the reservation of an identifier. The identifier is never issued again.

    ::

        ibi.archive.release(draft.ibi)

    :raises StorageError: if the identifier is not reserved for a draft of this Archive.
    """
    text = canonicalize(ibi)
    context = archive.own_context
    with context.transaction(text) as store:
        ownership.settle_reservation(
            store.connection, store.archive_id, text, ownership.RELEASED, context.now()
        )


def reservations(archive: HasContext) -> list[ownership.Reservation]:
    """Return the reservations of the Archive. The oldest reservation is the first."""
    with archive.own_context.reading() as store:
        return ownership.read_reservations(store.connection, store.archive_id)


def edit(
    archive: HasContext,
    ibi: str | Identified,
    *,
    files: Files | None = None,
    add_files: Files = (),
    remove_files: Sequence[str] = (),
    take_back: bool = False,
    **changes: Any,
) -> None:
    """Change fields of an Original, and set the timestamp of the item to the current time.

    ::

        ibi.archive.edit(item.ibi, title="Annual report 2026", add_files=["data.csv"])

    :param files: the new files, which replace all old files. None: the old files remain.
    :param add_files: files to add at the end of the list of files.
    :param remove_files: the paths of files to remove.
    :param take_back: True: if the Original is in another Archive, and a Copy or a tombstone here,
        make this item the Original again. The other Archive must give up its Original.
    :param changes: the new values of fields of :class:`ItemRecord`, by name.
    :raises TypeError: if a field cannot be edited.
    :raises StorageError: if a value is wrong, or if a file cannot be read.
    :raises RuleBroken: if a rule does not allow the change.
    :raises StorageError: if the item is not an Original.
    """
    context, text = archive.context, canonicalize(ibi)
    for name in changes:
        if name not in EDITABLE:
            raise TypeError(
                f"{name!r} can't be edited; the fields that can be edited are {', '.join(EDITABLE)}"
            )
    listed = [
        file for given in (files, add_files) if given for file in item_record.list_files(given)
    ]
    with context.staging() as staging:
        new_files, contents = item_record.stage_files(staging, listed)
        now = context.now()

        def change(before: Record) -> tuple[Record, write.Contents]:
            if not (take_back and before.original_elsewhere):
                next_state(State(before.state), Event.EDIT, text)
            old_files = before.files if files is None else ()
            paths = [file.path for file in old_files]
            removed = [unicodedata.normalize("NFC", path) for path in remove_files]
            for path in removed:
                if path not in paths:
                    known = ", ".join(paths) or "none"
                    raise StorageError(f"the item has no file {path}; the files are: {known}")
            remaining = [file for file in old_files if file.path not in removed]
            kept = [file.path for file in remaining]
            for file in new_files:
                if file.path in kept:
                    raise StorageError(
                        f"the item already has a file {file.path}; remove that file to replace it"
                    )
            # The edit may replace or remove the old target file.
            keeps_target = before.target_file in [file.path for file in remaining]
            original = replace(
                before,
                state=State.ORIGINAL.value,
                original_archive=None,
                tombstone=None,
                files=(*remaining, *new_files),
                target_file=before.target_file if keeps_target else None,
                timestamp=now,
            )
            values = item_record.read_description(changes, before.metadata)
            record = item_record.validate_record(values, text, original)
            lost = [text for text in before.aliases if text not in record.aliases]
            if lost:
                raise RuleBroken(
                    1,
                    before.identifiers[0],
                    f"the alias {lost[0]} is missing, but identifiers are permanent; remove a "
                    "wrong alias with: flask ibi alias remove",
                )
            return record, contents

        with context.transaction(text) as store:
            relates = take_back or not write.RELATING.isdisjoint(changes)
            change_item(store, text, change, now, relates)
            for content in contents.values():
                staging.move_to_store(content)


def parse_other_name(text: str) -> tuple[str, str, str]:
    """Find out what kind of name a text is, and return three values.

    A further IBI, or a persistent URL of a rep or an ibip, belongs to ``aliases``; identifiers of
    other systems and all other URLs belong to ``same_as``. A URL such as
    ``http://old.example.org/report/1`` is an address, although its path looks like a legacy IBI.

    :returns: the field, "aliases" or "same_as"; a text by which equal names are recognised; the
        name as it is stored.
    :raises IdentifierError: if the text is neither of them.
    """
    identifier = match_identifier(text)
    with suppress(MalformedPersistentUrl):
        url = parse_persistent_url(text)
        if url == PersistentUrl(url.ibi) and url.ibi.form is not Form.LEGACY:
            identifier = url.ibi
    if identifier is not None:
        return "aliases", identifier.text, identifier.text
    foreign = parse_foreign(text)
    return "same_as", foreign.digest, foreign.text


def change_names(
    archive: HasContext,
    ibi: str | Identified,
    *,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
) -> int:
    """Add other names to an item or remove them, and return how many names have changed.

    Copies and tombstones have other names too. A change of names leaves their timestamps, which say
    when the Original was changed, or when the item was removed.

    :param add: names as in :func:`parse_other_name`. If the item already has a name, nothing
        happens.
    :raises StorageError: if the item does not have a name to remove, or if another item has a name
        to add.
    """
    context, text = archive.context, canonicalize(ibi)
    new, old = list(map(parse_other_name, add)), list(map(parse_other_name, remove))
    now, changed = context.now(), 0

    def change(before: Record) -> tuple[Record, write.Contents] | None:
        nonlocal changed
        changed = 0
        names = {
            "aliases": {alias: alias for alias in before.aliases},
            "same_as": {parse_foreign(alias).digest: alias for alias in before.same_as},
        }
        for kind, form, name in new:
            if form not in names[kind] and form not in before.identifiers:
                names[kind][form] = name
                changed += 1
        for kind, form, name in old:
            if names[kind].pop(form, None) is None:
                known = ", ".join([*before.aliases, *before.same_as]) or "none"
                raise StorageError(f"{name} is not an alias of {ibi}; the aliases are: {known}")
            changed += 1
        timestamp = now if before.state == State.ORIGINAL else before.timestamp
        record = replace(
            before,
            aliases=tuple(names["aliases"].values()),
            same_as=tuple(names["same_as"].values()),
            timestamp=timestamp,
        )
        return (record, {}) if changed else None

    with context.transaction(text) as store:
        change_item(store, text, change, now)
    return changed


def delete(
    archive: HasContext,
    ibi: str | Identified,
    reason: str,
    *,
    citation: str | None = None,
    successor: str | Identified | None = None,
    discard_description: bool = False,
) -> None:
    """Delete an item. A tombstone with the metadata, and the links between editions remain.

    ::

        ibi.archive.delete(item.ibi, "Retracted by the author.", successor=other.ibi)

    :param reason: the reason for the deletion, which the public can read.
    :param citation: a text that cites the item. None: pages make the citation from the
        metadata.
    :param successor: the item that replaces the deleted item.
    :param discard_description: True: also delete the metadata.
    :raises RuleBroken: rule 4, if the item is an Original that has Copies. The message names
        the Archives that have the Copies. Rule 6, if the item is the service.
    :raises StorageError: if the item was deleted already.
    """
    replaced_by = get_ibi("successor", successor)
    stated = Tombstone(reason, citation, replaced_by, discard_description=discard_description)
    context, text = archive.context, canonicalize(ibi)
    tombstone = item_record.validate_tombstone(stated, text)
    now = context.now()
    with context.transaction(text) as store:
        change_item(store, text, lambda before: remove(before, text, tombstone, now), now)


def remove(
    before: Record, ibi: str, tombstone: Tombstone, now: datetime
) -> tuple[Record, write.Contents]:
    """Return the record of an item that is being deleted, for :class:`UpdateBatch`.

    :param before: the present record of the item.
    :param ibi: an identifier of the item, for messages.
    :param tombstone: the result of :func:`validate_tombstone`.
    :returns: the record, and no contents of files.
    :raises StorageError: if the state of the item does not allow the deletion. If the item was
        removed before, only its description can be deleted.
    """
    if before.state == State.DELETED.value and tombstone.discard_description:
        # The timestamp does not change. The Archive of the Original is always that of the earlier
        # tombstone, and the earlier successor remains if the new tombstone names none.
        previous = before.tombstone or tombstone
        stated = replace(
            tombstone,
            successor=tombstone.successor or previous.successor,
            original_archive=previous.original_archive,
        )
        return replace(before, metadata=None, access=None, tombstone=stated), {}
    next_state(State(before.state), Event.DELETE, ibi)
    if tombstone.successor in before.identifiers:
        raise StorageError(f"{ibi} can't replace itself; name another item as the successor")
    return add_tombstone(before, tombstone, now), {}


def add_tombstone(before: Record, tombstone: Tombstone, now: datetime) -> Record:
    """Return the record that an item gets when it is removed.

    The record has no embargo and no files. The contents of the files remain in the store. The
    metadata remain, because pages make the citation from them, and so does the access rule, which
    may hide them. With ``tombstone.discard_description``, both are removed too. If the Original is
    in another Archive, the item remains in its group of translations, because the group leads a
    resolver to the Original. Otherwise the item is removed from the group.

    :param before: the present record of the item.
    """
    original_archive = tombstone.original_archive or before.original_archive
    return replace(
        before,
        state=State.DELETED.value,
        original_archive=None,
        timestamp=now,
        translations={} if original_archive is None else before.translations,
        metadata=None if tombstone.discard_description else before.metadata,
        formats={},
        files=(),
        target_file=None,
        list_files=True,
        access=None if tombstone.discard_description else before.access,
        embargo=None,
        tombstone=replace(tombstone, original_archive=original_archive),
    )
