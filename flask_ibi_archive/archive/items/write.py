"""Inserts, replaces and updates items in the database."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from math import inf
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

from msgspec.structs import replace
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Text,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)

from flask_ibi_archive.archive.items.files import Content, Source
from flask_ibi_archive.archive.items.read import Copies, ItemReader, check_not_reserved, find_owners
from flask_ibi_archive.archive.items.relations import (
    Relations,
    insert_rows,
    insert_with_ids,
    lock_relations,
    update_rows,
)
from flask_ibi_archive.archive.items.tables import (
    File,
    Item,
    ItemIdentifier,
    ReservationRow,
    SameAs,
    TombstoneRow,
)
from flask_ibi_archive.core.identifiers import Form, parse_identifier
from flask_ibi_archive.core.identifiers.foreign import parse_foreign
from flask_ibi_archive.core.protocol.states import ELSEWHERE, State
from flask_ibi_archive.core.records.lines import format_description, format_dublin_core
from flask_ibi_archive.core.records.record import (
    DublinCoreMetadata,
    FileRecord,
    MetadataAddress,
    Record,
)
from flask_ibi_archive.core.records.work import find_year
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import batched, is_listed, is_one_of
from flask_ibi_archive.signals import Notice

# --- keys --------------------------------------------------------------------------------------


#: The number of keys that one statement reads.
BATCH = 1000


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """The item or the reservation that has a key.

    :param item_id: the row ID of the item; None for a reservation.
    :param is_deleted: whether the item is deleted.
    """

    key: str
    item_id: int | None
    rep: str | None
    ibip: str | None
    is_deleted: bool = False

    @property
    def ibi(self) -> str:
        """The identifier, in the short form if the item has this form."""
        return str(self.ibip or self.rep)

    @property
    def identifiers(self) -> list[str]:
        """Both forms of the identifier."""
        return [text for text in (self.rep, self.ibip) if text is not None]


def find_holders(
    connection: Connection, archive_id: int, keys: Iterable[str]
) -> dict[str, KeyHolder]:
    """Return the items and the reservations that have keys, by their keys.

    If an item and a reservation have the same key, the item counts.
    """
    return {holder.key: holder for holder in list_holders(connection, archive_id, keys)}


def list_holders(
    connection: Connection, archive_id: int, keys: Iterable[str]
) -> Iterator[KeyHolder]:
    """Yield all reservations and items that have keys; of each batch, the reservations first."""
    for part in batched(keys, BATCH):
        for table in (ReservationRow, Item):
            chosen = is_one_of(connection, table.host_key, part)
            yield from _read(connection, table, archive_id, chosen)


def read_holders(
    connect: Callable[[], Connection], archive_id: int, prefix: str
) -> Iterator[list[KeyHolder]]:
    """Yield the items and the reservations whose keys begin with a prefix, in batches.

    :param connect: returns the connection. The caller may commit after each batch.
    :param prefix: a text that ends with ``:``.
    """
    for table in (Item, ReservationRow):
        last = prefix
        while holders := list(
            _read(connect(), table, archive_id, _is_between(table, last, prefix))
        ):
            yield holders
            last = holders[-1].key


def count_holders(connection: Connection, archive_id: int, prefix: str) -> int:
    """Return the number of items and reservations whose keys begin with a prefix."""
    return sum(
        connection.scalars(
            select(func.count()).where(
                table.archive_id == archive_id, _is_between(table, prefix, prefix)
            )
        ).one()
        for table in (Item, ReservationRow)
    )


def _is_between(table: Any, last: str, prefix: str) -> ColumnElement[bool]:
    """Return the condition that a key begins with a prefix and comes after another key."""
    end = prefix[:-1] + chr(ord(":") + 1)
    return and_(table.host_key > last, table.host_key < end)


def free_keys(connection: Connection, archive_id: int, holders: Iterable[KeyHolder]) -> None:
    """Free the keys of items and reservations, so that others can have them.

    A deleted item has no key afterwards. The others get the key with their identifier, so that
    ``flask ibi compare`` still finds them by the name of the table.
    """
    keys: dict[Any, list[str]] = {Item: [], ReservationRow: []}
    for holder in holders:
        keys[ReservationRow if holder.item_id is None else Item].append(holder.key)
    for table in keys:
        new: Any = table.host_key + "," + func.coalesce(table.ibip, table.rep)
        if table is Item:
            new = case((Item.state != State.DELETED.value, new))
        for part in batched(keys[table], BATCH):
            connection.execute(
                update(table)
                .where(table.archive_id == archive_id, is_one_of(connection, table.host_key, part))
                .values(host_key=new)
            )


def _read(
    connection: Connection, table: Any, archive_id: int, condition: ColumnElement[bool]
) -> Iterator[KeyHolder]:
    is_item = table is Item
    statement: Select[Any] = (
        select(table.host_key, table.rep, table.ibip, *((Item.id, Item.state) if is_item else ()))
        .where(table.archive_id == archive_id, table.host_key.is_not(None), condition)
        .order_by(table.host_key)
        .limit(BATCH)
    )
    for row in connection.execute(statement).all():
        if is_item:
            yield KeyHolder(
                row.host_key, row.id, row.rep, row.ibip, row.state == State.DELETED.value
            )
        else:
            yield KeyHolder(row.host_key, None, row.rep, row.ibip)


# --- same as -----------------------------------------------------------------------------------


#: A process remembers for this number of seconds that a database contains no former addresses.
MEMORY = 60

#: Whether each database contains former addresses, and when this process asks again.
_addresses: WeakKeyDictionary[Database, tuple[bool, float]] = WeakKeyDictionary()
_HAS_ADDRESSES = select(exists().where(SameAs.text.like("http%")))


def has_addresses(database: Database) -> bool:
    """Return whether an item has a former address.

    The answer is remembered, because a page of the app that does not exist must not wait for the
    database if no item has a former address. Therefore the first address that another process
    stores may be unknown for a minute. While one request asks again, others do not wait for it.

    :raises NotReady: if the database does not answer.
    """
    found, until = _addresses.get(database, (None, -inf))
    now = monotonic()
    if found is None or now >= until:
        if found is not None:
            _addresses[database] = found, now + MEMORY
        found = bool(database.read(lambda connection: connection.scalar(_HAS_ADDRESSES)))
        _addresses[database] = found, inf if found else now + MEMORY
    return found


def find_same_as_holders(
    connection: Connection, archive_id: int, digests: Iterable[str]
) -> dict[str, tuple[int, str]]:
    """Return the row ID and an identifier of the item that has each alias.

    :param digests: the digests of the aliases (:attr:`.ForeignIdentifier.digest`).
    :returns: a dictionary with digests as keys, without those that no item has. The identifier is
        in the short form if the item has this form.
    """
    given = {"archive_id": archive_id, "digests": json.dumps([*digests])}
    rows = connection.execute(_select_holders(connection.dialect.name), given).all()
    return {digest: (item_id, str(ibi)) for digest, item_id, ibi in rows}


@lru_cache
def _select_holders(dialect: str) -> Select[Any]:
    """Return the statement of :func:`find_same_as_holders`.

    Each request for an old link, and for a page that does not exist, runs this statement. To build
    it takes several times as long as to run it.
    """
    # SQLAlchemy executes statements faster with tables than with ORM classes
    aliases: Any = SameAs.__table__
    items: Any = Item.__table__
    named, item = aliases.c, items.c
    return (
        select(named.digest, named.item_id, func.coalesce(item.ibip, item.rep))
        .join(items, item.id == named.item_id)
        .where(
            is_listed(dialect, named.digest, bindparam("digests", type_=Text)),
            named.archive_id == bindparam("archive_id"),
        )
    )


def find_all_holders(
    connection: Connection, archive_id: int, digests: Iterable[str]
) -> dict[str, tuple[int, str]]:
    """Return the same as :func:`find_same_as_holders`, for any number of aliases."""
    holders: dict[str, tuple[int, str]] = {}
    for part in batched(digests):
        holders.update(find_same_as_holders(connection, archive_id, part))
    return holders


def add_same_as(
    connection: Connection, archive_id: int, aliases: Sequence[tuple[int, int, str]]
) -> None:
    """Store aliases of items.

    :param aliases: the row ID of the item, the position in its list, and the canonical text.
    :raises StorageError: if another item has one of the aliases.
    """
    for part in batched(aliases):
        rows: list[dict[str, Any]] = [
            {
                "digest": parse_foreign(text).digest,
                "archive_id": archive_id,
                "item_id": item_id,
                "position": position,
                "text": text,
            }
            for item_id, position, text in part
        ]
        taken = find_same_as_holders(connection, archive_id, [row["digest"] for row in rows])
        for row in rows:
            if row["digest"] in taken:
                _, holder = taken[row["digest"]]
                raise StorageError(f"same_as: {explain_taken(row['text'], holder)}")
            taken[row["digest"]] = row["item_id"], "another item that is stored with this one"
        insert_rows(connection, SameAs, rows)
        _addresses.clear()


def explain_taken(alias: str, holder: str) -> str:
    """Return the message that an alias belongs to another item.

    :param holder: an identifier of the other item.
    """
    return f"{alias} already belongs to {holder}; an alias belongs to one item of the Archive"


def keep_same_as(record: Record, before: Record) -> Record:
    """Return a record that also has the aliases that the item had.

    :param before: the present record of the item.
    """
    new = {parse_foreign(text).digest for text in record.same_as}
    old = [text for text in before.same_as if parse_foreign(text).digest not in new]
    return replace(record, same_as=(*record.same_as, *old))


# --- items -------------------------------------------------------------------------------------


REP, IBIP = Form.REP.value, Form.IBIP.value
#: The stored contents of the files of a record. The keys are the paths of the files.
Contents = Mapping[str, Content]


class ItemStore:
    """The items of one Archive. The methods use the transaction of the caller.

    :param notices: the list of signals to send after the commit. If several Archives change in one
        transaction, their stores share one list, because signals are sent in the order of the
        changes.
    :param ibi: an identifier of the item that is changed, for messages.
    """

    def __init__(
        self,
        connection: Connection,
        archive_id: int,
        notices: list[Notice] | None = None,
        ibi: str | None = None,
    ) -> None:
        self.ibi = ibi
        self.connection = connection
        self.archive_id = archive_id
        self.notices: list[Notice] = [] if notices is None else notices

    @cached_property
    def reader(self) -> ItemReader:
        """The object that reads items as records."""
        return ItemReader(self.connection, self.archive_id)

    @cached_property
    def relations(self) -> Relations:
        """The object that stores relations between items: editions, translations and stubs."""
        return Relations(self.connection, self.archive_id)

    @cached_property
    def copies(self) -> Copies:
        """The object that handles Originals and Copies in other Archives of the database."""
        return Copies(self.connection, self.archive_id)

    def lock_relations(self, items: Collection[int] = (), limited: bool = True) -> None:
        """Lock the relations of the Archive, and items; see :func:`.locks.lock_relations`."""
        lock_relations(self.connection, [self.archive_id], items, limited)

    def find_owners(self, identifiers: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Return the id and the state of the item that has each identifier.

        The result does not contain identifiers that the Archive does not know.
        """
        return find_owners(self.connection, self.archive_id, identifiers)

    def find_all_owners(self, identifiers: Iterable[str]) -> dict[str, tuple[int, str]]:
        """Return the same as :meth:`find_owners`, for any number of identifiers."""
        owners: dict[str, tuple[int, str]] = {}
        for part in batched(identifiers):
            owners.update(self.find_owners(part))
        return owners

    def is_service(self, item_id: int) -> bool:
        """Return whether an item is the service of the Archive."""
        return bool(
            self.connection.execute(select(Item.is_service).where(Item.id == item_id)).scalar()
        )

    def get_name_and_state(self, item_id: int) -> tuple[str, str]:
        """Return the identifier and the state of an item."""
        row = self.connection.execute(
            select(func.coalesce(Item.rep, Item.ibip), Item.state).where(Item.id == item_id)
        ).one()
        return str(row[0]), row.state

    def get_contents(self, item_id: int) -> dict[str, Content]:
        """Return the contents of the stored files of an item; the keys are the paths."""
        return self.get_contents_of([item_id]).get(item_id, {})

    def get_contents_of(self, items: Collection[int]) -> dict[int, dict[str, Content]]:
        """Return the contents of the stored files of items, by the ids of the items."""
        found: dict[int, dict[str, Content]] = {}
        rows = self.connection.execute(
            select(
                File.item_id,
                File.path,
                File.sha256,
                File.size,
                File.source,
                File.source_modified,
            ).where(is_one_of(self.connection, File.item_id, items), File.size.is_not(None))
        )
        for row in rows:
            source = None if row.source is None else Source(row.source, row.source_modified)
            content = Content(str(row.sha256), int(row.size or 0), source)
            found.setdefault(row.item_id, {})[row.path] = content
        return found

    def insert_items(
        self,
        records: Sequence[Record],
        contents: Sequence[Contents],
        now: datetime,
        is_service: bool = False,
        is_minted: bool = False,
    ) -> list[int]:
        """Insert new items and return the ids of the items.

        The method :meth:`Relations.add` stores the relations of the items.

        :param contents: the stored contents of the files, for each record in the same order.
        :param is_service: True if the item is the service of the Archive.
        :param is_minted: True if the identifiers were just minted and therefore are not reserved.
        :returns: the ids of the items, in the order of the records.
        :raises RuleBroken: rule 1, if an identifier is reserved for a draft.
        :raises StorageError: if another item has an alias in ``same_as``.
        """
        if not records:
            return []
        check_not_reserved(
            self.connection,
            [
                text
                for record in records
                for text in (record.aliases if is_minted else record.identifiers)
            ],
        )
        shared = {"archive_id": self.archive_id, "is_service": is_service}
        rows = [{**shared, **_columns(record, now)} for record in records]
        ids = insert_with_ids(self.connection, Item, rows)
        insert_rows(
            self.connection,
            ItemIdentifier,
            [
                self._identifier_row(record, item_id, text)
                for item_id, record in zip(ids, records, strict=True)
                for text in record.identifiers
            ],
        )
        self._insert_parts(zip(ids, records, contents, strict=True))
        return ids

    def replace_item(self, item_id: int, record: Record, contents: Contents, now: datetime) -> None:
        """Replace an item or a stub by the item of a record, without the relations of the record.

        Other stubs with an identifier of the record are merged into the item. The caller must first
        remove the item and the stubs from their groups of translations
        (:meth:`Translations.leave_for_update`).

        :raises RuleBroken: rule 1, if a new identifier is reserved for a draft. For rule 7, see
            :meth:`Relations.merge_stub`.
        """
        owners = self.find_owners(record.identifiers)
        # the identifiers of stubs are also checked, because a stub may have a reserved identifier
        check_not_reserved(
            self.connection,
            [
                text
                for text in record.identifiers
                if owners.get(text, (0, ELSEWHERE))[1] == ELSEWHERE
            ],
        )
        self.replace_records([(item_id, record, contents)], now)
        for stub_id in {owner for owner, _ in owners.values()} - {item_id}:
            self.relations.merge_stub(stub_id, item_id, record.identifiers[0])
        self._replace_identifiers(item_id, record, known=owners)

    def replace_records(self, items: Sequence[tuple[int, Record, Contents]], now: datetime) -> None:
        """Replace the records of items whose identifiers and relations do not change.

        :param items: the row IDs, the new records and the contents of new files.
        :raises StorageError: if another item has an alias in ``same_as``.
        """
        if not items:
            return
        ids = [item_id for item_id, _, _ in items]
        stored = self.get_contents_of(ids)
        # The tombstones are deleted before the states of the items change, because the foreign key
        # of a tombstone includes the state.
        for part in (TombstoneRow, File, SameAs):
            self.connection.execute(
                delete(part).where(is_one_of(self.connection, part.item_id, ids))
            )
        rows = [{"id": item_id, **_columns(record, now)} for item_id, record, _ in items]
        update_rows(self.connection, Item, rows)
        self._insert_parts(
            (item_id, record, {**find_unchanged(stored.get(item_id, {}), record.files), **contents})
            for item_id, record, contents in items
        )

    def _replace_identifiers(
        self, item_id: int, record: Record, known: Mapping[str, object]
    ) -> None:
        """Replace the rows of the identifiers of an item.

        :param known: the keys are the identifiers of the record that have a row.
        """
        self.connection.execute(
            delete(ItemIdentifier).where(
                ItemIdentifier.item_id == item_id,
                ItemIdentifier.text.not_in(record.identifiers),
            )
        )
        for text in record.identifiers:
            row = self._identifier_row(record, item_id, text)
            if text in known:
                self.connection.execute(
                    update(ItemIdentifier)
                    .where(ItemIdentifier.item_id == item_id, ItemIdentifier.text == text)
                    .values(alias_no=row["alias_no"])
                )
            else:
                self.connection.execute(insert(ItemIdentifier).values(**row))

    def _identifier_row(self, record: Record, item_id: int, text: str) -> dict[str, Any]:
        """Return the row of one identifier of an item."""
        if text == record.rep:
            form = REP
        elif text == record.ibip:
            form = IBIP
        else:
            form = parse_identifier(text).form.value
        return {
            "text": text,
            "archive_id": self.archive_id,
            "item_id": item_id,
            "state": record.state,
            "form": form,
            "alias_no": record.aliases.index(text) + 1 if text in record.aliases else 0,
        }

    def _insert_parts(self, items: Iterable[tuple[int, Record, Contents]]) -> None:
        """Insert the rows for the files, the tombstones and the field ``same_as`` of items."""
        files: list[dict[str, Any]] = []
        same_as: list[tuple[int, int, str]] = []
        tombstones: list[dict[str, Any]] = []
        for item_id, record, contents in items:
            for position, file in enumerate(record.files):
                content = contents.get(file.path)
                files.append(
                    {
                        "item_id": item_id,
                        "path": file.path,
                        "position": position,
                        "url": file.url,
                        "sha256": content.sha256 if content else file.sha256,
                        "size": content.size if content else None,
                        "source": content.source.path if content and content.source else None,
                        "source_modified": (
                            content.source.modified if content and content.source else None
                        ),
                    }
                )
            same_as += [(item_id, number, text) for number, text in enumerate(record.same_as)]
            if record.tombstone is not None:
                tombstones.append(
                    {
                        "item_id": item_id,
                        "archive_id": self.archive_id,
                        "state": State.DELETED.value,
                        "reason": record.tombstone.reason,
                        "citation": record.tombstone.citation,
                        "successor": record.tombstone.successor,
                        "original_archive": record.tombstone.original_archive,
                    }
                )
        insert_rows(self.connection, File, files)
        insert_rows(self.connection, TombstoneRow, tombstones)
        add_same_as(self.connection, self.archive_id, same_as)

    def set_sources(self, contents: Mapping[int, Contents]) -> None:
        """Store from where files were copied. Their contents have not changed.

        :param contents: the contents by the row IDs of the items and the paths of the files.
        """
        columns = File.__table__.c
        statement = (
            update(File)
            .where(columns.item_id == bindparam("item"), columns.path == bindparam("name"))
            .values(source=bindparam("new_path"), source_modified=bindparam("new_modified"))
        )
        rows = [
            {
                "item": item_id,
                "name": path,
                "new_path": source.path,
                "new_modified": source.modified,
            }
            for item_id, of_item in contents.items()
            for path, content in of_item.items()
            if (source := content.source) is not None
        ]
        if rows:
            self.connection.execute(statement, rows)

    def set_state(self, item_id: int, state: State, original_archive: str | None = None) -> None:
        """Change the state of an item.

        :param original_archive: for a Copy: the service IBI of the Archive that has the Original.
        """
        self.connection.execute(
            update(Item)
            .where(Item.id == item_id)
            .values(state=state.value, original_archive=original_archive)
        )

    def set_states(self, items: Collection[int], state: State, original_archive: str) -> None:
        """Change the state of items; see :meth:`set_state`."""
        self.connection.execute(
            update(Item)
            .where(is_one_of(self.connection, Item.id, items))
            .values(state=state.value, original_archive=original_archive)
        )

    def set_timestamp(self, item_id: int, moment: datetime) -> None:
        """Set the timestamp of an item if the item is an Original.

        Other items keep their timestamps: that of a Deleted item is the time of its deletion.
        """
        self.connection.execute(
            update(Item)
            .where(Item.id == item_id, Item.state == State.ORIGINAL.value)
            .values(timestamp=moment)
        )


def find_unchanged(stored: Contents, files: Iterable[FileRecord]) -> dict[str, Content]:
    """Return the stored contents that the files of a new record keep.

    :param stored: the stored contents of the item, by path.
    :param files: the files of the new record.
    """
    return {
        file.path: stored[file.path]
        for file in files
        if file.path in stored
        and file.url is None
        and file.sha256 in (None, stored[file.path].sha256)
    }


def _columns(record: Record, now: datetime) -> dict[str, Any]:
    """Return the values of the columns of an item, except the columns of relations."""
    metadata = record.metadata
    at_address = metadata if isinstance(metadata, MetadataAddress) else None
    stored = metadata if isinstance(metadata, DublinCoreMetadata) else None
    return {
        "state": record.state,
        "rep": record.rep,
        "ibip": record.ibip,
        "timestamp": record.timestamp or now,
        "content_type": record.content_type,
        "language": record.language,
        "transferable": record.transferable,
        "original_archive": record.original_archive,
        "metadata_url": at_address and at_address.url,
        "metadata_formats": at_address and (dict(at_address.formats) or None),
        "metadata_timestamp": at_address and at_address.timestamp,
        "dublin_core": stored and format_dublin_core(stored.elements),
        "work": format_description(stored.work) if stored and stored.work else None,
        "formats": dict(record.formats) or None,
        "target_path": record.target_path,
        "list_files": record.list_files,
        "access_networks": record.access and " ".join(record.access.networks),
        "access_others": record.access and record.access.others,
        "embargo": record.embargo,
        "host_key": record.key,
        "issued_year": find_year(metadata) if isinstance(metadata, DublinCoreMetadata) else None,
    }
