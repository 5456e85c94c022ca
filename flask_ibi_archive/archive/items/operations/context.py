"""What all operations on items use: transactions, minting, validation, and notices for signals.

Signals are sent after the commit. The notices of a transaction are in ``ItemStore.notices``.
:meth:`.OperationContext.transaction` and :class:`.Importer` send them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from datetime import datetime, timezone
from typing import Any, Protocol, TypeAlias

from blinker import NamedSignal
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError

from flask_ibi_archive.archive.items.archives import ServedArchive, find_archives
from flask_ibi_archive.archive.items.claim_changes import begin_change
from flask_ibi_archive.archive.items.file_store import FileStore
from flask_ibi_archive.archive.items.items import ItemStore
from flask_ibi_archive.archive.items.minting import Minted, Minter
from flask_ibi_archive.archive.items.operations.description import name_field
from flask_ibi_archive.archive.items.operations.sessions import HostSession, in_transaction
from flask_ibi_archive.archive.items.operations.staged_files import stage_for_session
from flask_ibi_archive.archive.items.rules import RULES, explain_refusal
from flask_ibi_archive.archive.items.staging import Staging
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.states import ELSEWHERE, State
from flask_ibi_archive.core.records.fields import FieldError, format_record, parse_text, quoted
from flask_ibi_archive.core.records.parse import parse_record
from flask_ibi_archive.core.records.record import MetadataItem, Record
from flask_ibi_archive.errors import IdentifierError, RuleBroken, StorageError, UnknownItem
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.database_errors import can_be_repeated
from flask_ibi_archive.signals import (
    NOBODY,
    Notice,
    Notifier,
    item_changed,
    item_deposited,
    item_state_changed,
)


class Labelled(Protocol):
    """A record or new identifiers."""

    @property
    def rep(self) -> str | None:
        """The rep form."""

    @property
    def ibip(self) -> str | None:
        """The ibip form."""


#: The fields of a record that the signal of a changed item does not name.
UNSIGNALLED = ("timestamp", "key")


def note(store: ItemStore, signal: NamedSignal, item: Labelled, **values: Any) -> None:
    """Add a signal about an item to ``store.notices``, if the signal has receivers.

    :param values: further values of the signal.
    """
    if signal.receivers:
        names = {"ibi": item.ibip or item.rep, "rep": item.rep, "ibip": item.ibip}
        store.notices.append(Notice(signal, {**names, "archive": store.archive_id, **values}))


def note_change(store: ItemStore, before: Record | None, after: Record) -> None:
    """Note the signal of a changed item: its state or fields of its record have changed.

    If only the timestamp has changed, no signal is noted.

    :param before: the record before the change; None if the Archive did not have the item.
    """
    if before is None or before.state != after.state:
        old_state = None if before is None else before.state
        note(store, item_state_changed, after, old_state=old_state, new_state=after.state)
    elif item_changed.receivers and before.state != State.DELETED.value:
        names = [name for name in find_changed_fields(before, after) if name not in UNSIGNALLED]
        if names:
            note(store, item_changed, after, state=after.state, fields=tuple(names))


def find_changed_fields(before: Record, after: Record) -> list[str]:
    """Return the names of the fields in which two records differ."""
    names = [field.name for field in fields(Record)]
    return [name for name in names if getattr(before, name) != getattr(after, name)]


def note_import(store: ItemStore, item_id: int, before: Record | None, record: Record) -> None:
    """Note the signal of an imported item, whose relations are not stored yet.

    A change of the translations is not noted, because the import of another item of the same group
    may have caused the change.

    :param before: the record before the import; None if the Archive did not have the item.
    """
    if before is None:
        if record.state == State.ORIGINAL.value:
            note(store, item_deposited, record)
        else:
            note_change(store, None, record)
    elif item_changed.receivers or item_state_changed.receivers:
        # The stored record also has the fields that the import has completed, such as checksums.
        stored = store.reader.read_record(item_id)
        is_item = isinstance(record.metadata, MetadataItem)
        after = replace(
            stored,
            next_edition=record.next_edition,
            translations=before.translations,
            metadata=record.metadata if is_item else stored.metadata,
        )
        note_change(store, before, after)


def note_changed_item(store: ItemStore, item_id: int, changed: Sequence[str]) -> None:
    """Note the signal that fields of a stored item have changed.

    :param item_id: the row ID of the item.
    :param changed: the names of the fields.
    """
    if item_changed.receivers:
        record = store.reader.read_record(item_id)
        note(store, item_changed, record, state=record.state, fields=tuple(changed))


def name_archives(store: ItemStore, known: Mapping[int, str]) -> list[Notice]:
    """Return the noted signals of a transaction, with service IBIs instead of row IDs.

    :param known: the service IBIs of some Archives by their row IDs. If other Archives are noted,
        the database is asked.
    """
    names = known
    if any(notice.values["archive"] not in names for notice in store.notices):
        names = {archive.id: archive.service_ibi for archive in find_archives(store.connection)}
    return [
        replace(notice, values={**notice.values, "archive": names[notice.values["archive"]]})
        for notice in store.notices
    ]


#: Clock returns the current time with a time zone. Tests can replace the clock of an Archive.
Clock: TypeAlias = "Callable[[], datetime]"


def read_utc_clock() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(timezone.utc)


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
    before_commit: Callable[[ItemStore], None] | None = None

    def now(self) -> datetime:
        """Return the current time in UTC, in whole seconds."""
        return self.clock().astimezone(timezone.utc).replace(microsecond=0)

    @contextmanager
    def transaction(self, ibi: str | None = None) -> Iterator[ItemStore]:
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
        store: ItemStore | None = None
        try:
            with writing as connection:
                begin_change(connection)
                store = ItemStore(connection, self.archive.id, ibi=ibi)
                yield store
                if self.before_commit is not None:
                    self.before_commit(store)
                notices = name_archives(store, {self.archive.id: self.archive.service_ibi})
        except IntegrityError as error:
            raise explain_refusal(error, ibi if store is None else store.ibi) from error
        except DBAPIError as error:
            if self.session is not None and can_be_repeated(error):
                raise
            raise self.database.explain(error) from error
        if notices and self.session is not None:
            self.session.send_after_commit(notices, self.notifier)
        else:
            self.notifier.send(notices)

    @contextmanager
    def new_item(self, minter: Minter) -> Iterator[tuple[ItemStore, Minted]]:
        """Yield the items of the Archive in a transaction, and a new identifier.

        The date of the identifier is committed first, so that other processes can mint before the
        item is stored. Therefore the identifier is used up even if the block raises an exception.

        :raises MintingError: if no identifier can be minted now.
        :raises RuleBroken: as in :meth:`transaction`.
        :raises StorageError: as in :meth:`transaction`.
        """
        minted = self.mint(minter)
        with self.transaction(minted.rep) as store:
            yield store, minted

    def staging(self) -> AbstractContextManager[Staging]:
        """Return a staging folder for the files of an operation.

        If the host has a session and rolls back, the files are deleted.
        """
        if self.session is None:
            return self.folder.staging()
        return stage_for_session(self.session.current(), self.database, self.folder)

    @contextmanager
    def reading(self) -> Iterator[ItemStore]:
        """Yield the items of the Archive for reading.

        If the host has a session, uncommitted changes in the transaction of the host are visible.
        """
        if self.session is not None:
            yield ItemStore(self.session.connection(), self.archive.id)
        else:
            with self.database.reading() as connection:
                yield ItemStore(connection, self.archive.id)

    def mint(self, minter: Minter | None = None) -> Minted:
        """Return a new identifier; see :meth:`mint_many`."""
        return self.mint_many(1, minter)[0]

    def mint_many(self, count: int, minter: Minter | None = None) -> list[Minted]:
        """Return new identifiers.

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
    """What the operations need of an Archive. The operations are its methods."""

    @property
    def context(self) -> OperationContext:
        """The objects that operations on items use.

        :raises StorageError: if the items are in the catalogue of the host.
        """

    @property
    def own_context(self) -> OperationContext:
        """The same objects, also if the items are in the catalogue of the host."""


def canonicalize(ibi: str) -> str:
    """Return an identifier in canonical case.

    :raises UnknownItem: if the text is not a valid identifier.
    """
    try:
        return parse_identifier(ibi).text
    except IdentifierError as error:
        raise UnknownItem(quoted(ibi)) from error


def find_item(store: ItemStore, ibi: str) -> tuple[int, State]:
    """Return the row ID and the state of the item that has an identifier.

    :raises UnknownItem: if there is no such item.
    :raises RuleBroken: rule 6, if the item is the service.
    """
    text = canonicalize(ibi)
    item_id, state = store.find_owners([text]).get(text, (0, ELSEWHERE))
    if state == ELSEWHERE:
        raise UnknownItem(ibi)
    if store.is_service(item_id):
        raise RuleBroken(6, text, RULES[6])
    return item_id, State(state)


def validate_record(record: Record, name: str | None) -> Record:
    """Check every field of a record and return the record in canonical form.

    :param name: the identifier of the item, for messages. None if the item has no identifier yet.
    :raises RuleBroken: rule 8, if the record lists a translation that has the language of the item.
    :raises StorageError: if a field is wrong. The message names the field.
    """
    try:
        data = format_record(record)
        if "translations" in data:
            _check_own_language(data, name)
        return parse_record(data, has_identifier=name is not None)
    except FieldError as error:
        field = f"{name_field(error.field)}: " if error.field else ""
        raise StorageError(f"{name or 'the new item'}: {field}{error.reason}") from error


def validate_note(note: str | None) -> str | None:
    """Check the note of a reservation, and return the note.

    :raises StorageError: if the note is not a text.
    """
    try:
        return None if note is None else parse_text("note", note)
    except FieldError as error:
        raise StorageError(str(error)) from error


def _check_own_language(data: dict[str, Any], name: str | None) -> None:
    """Check that a record lists no translation that has the language of the item itself.

    Values of a wrong type are ignored here, because :func:`parse_record` reports them.

    :param data: the record as :func:`format_record` returns it.
    :raises RuleBroken: rule 8, if there is such a translation.
    """
    translations, language = data["translations"], data.get("language")
    if not isinstance(translations, dict) or not isinstance(language, str):
        return
    listed = translations.get(language)
    with suppress(IdentifierError):
        if isinstance(listed, str):
            text, own = parse_identifier(listed).text, (data.get("rep"), data.get("ibip"))
            if text not in own:
                raise RuleBroken(
                    8,
                    name,
                    f"{text} can't be a translation of this item: both have the same language",
                )
