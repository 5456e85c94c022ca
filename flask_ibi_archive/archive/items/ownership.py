"""Finds the items and the reservations that have identifiers, keys and former addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf
from time import monotonic
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import sqlalchemy as sa

from flask_ibi_archive.archive.items.tables import (
    ARCHIVE,
    Item,
    ItemIdentifier,
    ReservationRow,
    SameAs,
    primary_form,
)
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import RuleBroken, StorageError
from flask_ibi_archive.server.database import dialects
from flask_ibi_archive.server.database.database import Database

# --- identifiers ----------------------------------------------------------------------------------


HELD, USED, RELEASED = "held", "used", "released"


class Owner(NamedTuple):
    """The item that has an identifier.

    :param id: the row ID.
    :param ibi: the primary form: the rep, or the ibip of an item without a rep.
    """

    id: int
    state: str
    ibi: str
    language: str | None
    is_service: bool


_OWNERS = (
    sa.select(
        ItemIdentifier.text,
        ItemIdentifier.archive_id,
        Item.id,
        Item.state,
        primary_form(),
        Item.language,
        Item.is_service,
    )
    .join(Item, Item.id == ItemIdentifier.item_id)
    .where(dialects.is_listed(ItemIdentifier.text, "texts"))
)


_OWN_ITEMS = _OWNERS.where(ItemIdentifier.archive_id == ARCHIVE)


def find_owners(
    connection: sa.Connection, archive_id: int, identifiers: Iterable[str]
) -> dict[str, Owner]:
    """Return the items that have identifiers, by identifier.

    :param identifiers: the identifiers as canonical texts. Those that no item has are missing in
        the result.
    """
    return find_owners_and_originals(connection, archive_id, identifiers, everywhere=False)[0]


def find_owners_and_originals(
    connection: sa.Connection, archive_id: int, identifiers: Iterable[str], everywhere: bool = True
) -> tuple[dict[str, Owner], set[str]]:
    """Find the items that have identifiers, here and in other Archives of the database.

    :param everywhere: whether other Archives of the database are searched, too.
    :returns: first, the result of :func:`find_owners`. Second, those identifiers whose Original is
        in another Archive of the database (rule 3).
    """
    owners, elsewhere = {}, set()
    for part in dialects.batched(identifiers):
        values = {"archive_id": archive_id, "texts": part}
        # all() needs less time than a loop over the result, which fetches the rows one by one
        rows: Sequence[Any] = connection.execute(
            _OWNERS if everywhere else _OWN_ITEMS, values
        ).all()
        for text, owner_archive_id, *columns in rows:
            owner = Owner(*columns)
            if owner_archive_id == archive_id:
                owners[text] = owner
            elif owner.state == State.ORIGINAL.value:
                elsewhere.add(text)
    return owners, elsewhere


# --- reservations ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation of an identifier for a draft.

    :param rep: the identifier in the form "rep".
    :param ibip: the same identifier in the form "ibip".
    :param status: "held", "used" or "released".
    :param settled_at: the time when the identifier was used or released; None if neither has
        happened.
    """

    rep: str
    ibip: str
    status: str
    note: str | None
    reserved_at: datetime
    settled_at: datetime | None


def add_reservation(
    connection: sa.Connection,
    archive_id: int,
    rep: str,
    ibip: str,
    note: str | None,
    now: datetime,
    key: str | None = None,
) -> None:
    """Store the reservation of an identifier for a draft.

    :param key: the key of the row that is the draft. No other item or reservation may have it.
    """
    values = {"rep": rep, "ibip": ibip, "note": note, "reserved_at": now, "host_key": key}
    connection.execute(
        sa.insert(ReservationRow).values(archive_id=archive_id, status=HELD, **values)
    )


def renew_reservation(
    connection: sa.Connection, archive_id: int, ibip: str, note: str, now: datetime, key: str | None
) -> bool:
    """Reserve a released identifier again, because a backup has restored the row of the draft.

    :param key: the key of the row.
    :returns: True if the identifier was released, and is now reserved; otherwise False.
    """
    values = {"note": note, "reserved_at": now, "settled_at": None, "host_key": key}
    held = _update_reservation(connection, archive_id, ibip, RELEASED, {**values, "status": HELD})
    return held is not None


def set_reservation_key(connection: sa.Connection, archive_id: int, ibi: str, key: str) -> None:
    """Store the key of the row that is the draft of a held reservation.

    :param ibi: one of the two forms of the identifier, as canonical text.
    :param key: the key of the row. No other item or reservation may have it.
    """
    _update_reservation(connection, archive_id, ibi, HELD, {"host_key": key})


def settle_reservation(
    connection: sa.Connection, archive_id: int, ibi: str, status: str, now: datetime
) -> tuple[str, str]:
    """End a reservation: store that the identifier was used or released.

    If two processes call this function at the same time, one process gets an error.

    :param ibi: one of the two forms of the identifier, as canonical text.
    :param status: the new status: used or released.
    :returns: both forms of the identifier: first the rep, then the ibip.
    :raises StorageError: if the Archive has not reserved the identifier, or if the identifier was
        already used or released.
    """
    values = {"status": status, "settled_at": now, "host_key": None}
    settled = _update_reservation(connection, archive_id, ibi, HELD, values)
    if settled is not None:
        return settled.rep, settled.ibip
    row = ReservationRow
    found = connection.execute(
        sa.select(row.archive_id, row.status).where(_has_identifier([ibi]))
    ).first()
    if found is None:
        raise StorageError(
            f"{ibi} is not reserved; to reserve an identifier, run: flask ibi reserve"
        )
    if found.status != HELD:
        raise StorageError(f"the reservation of {ibi} was already {found.status}")
    raise StorageError(f"{ibi} is reserved for a draft of another Archive of the database")


def _update_reservation(
    connection: sa.Connection, archive_id: int, ibi: str, status: str, values: Mapping[str, Any]
) -> Any:
    """Change the reservation of an identifier, if the reservation has a certain status.

    :param values: the new values of columns.
    :returns: the rep and the ibip of the reservation; None if there is no such reservation.
    """
    row = ReservationRow
    return connection.execute(
        sa.update(row)
        .where(_has_identifier([ibi]), row.archive_id == archive_id, row.status == status)
        .values(values)
        .returning(row.rep, row.ibip)
    ).first()


def find_status(connection: sa.Connection, rep: str) -> str | None:
    """Return the status of the reservation of an identifier; None if it was never reserved.

    :param rep: the repository name, as canonical text.
    """
    row = ReservationRow
    return connection.scalar(sa.select(row.status).where(row.rep == rep))


def find_held(
    connection: sa.Connection, archive_id: int, identifiers: Iterable[str]
) -> dict[str, str | None]:
    """Return those identifiers that are reserved for drafts of an Archive.

    :returns: a dictionary with both forms of each identifier; the value is the key of the row that
        is the draft, or None if the draft is not a row.
    """
    row = ReservationRow
    found: dict[str, str | None] = {}
    for part in dialects.batched(identifiers):
        held = sa.select(row.rep, row.ibip, row.host_key).where(
            _has_identifier(part), row.archive_id == archive_id, row.status == HELD
        )
        for rep, ibip, key in connection.execute(held):
            found[rep] = found[ibip] = key
    return found


def check_not_reserved(connection: sa.Connection, identifiers: Sequence[str]) -> None:
    """Check that none of the identifiers is reserved for a draft.

    :raises RuleBroken: rule 1, with the first reserved identifier.
    """
    if not identifiers:
        return
    reserved = connection.scalars(
        sa.select(ReservationRow.rep)
        .where(_has_identifier(identifiers), ReservationRow.status == HELD)
        .order_by(ReservationRow.reserved_at)
        .limit(1)
    ).first()
    if reserved is not None:
        raise RuleBroken(
            1,
            reserved,
            "the identifier is reserved for a draft; "
            "deposit the draft with this identifier, or release the identifier first",
        )


def read_reservations(connection: sa.Connection, archive_id: int) -> list[Reservation]:
    """Return the reservations of an Archive, sorted by age; the oldest comes first."""
    row = ReservationRow
    rows = connection.execute(
        sa.select(row.rep, row.ibip, row.status, row.note, row.reserved_at, row.settled_at)
        .where(row.archive_id == archive_id)
        .order_by(row.reserved_at, row.rep)
    )
    return [Reservation(*found) for found in rows]


def _has_identifier(identifiers: Sequence[str]) -> sa.ColumnElement[bool]:
    row = ReservationRow
    return sa.or_(
        dialects.is_one_of(row.rep, identifiers), dialects.is_one_of(row.ibip, identifiers)
    )


# --- keys of hosts --------------------------------------------------------------------------------


#: The character after ``:``, which is the end of the keys that begin with a name and ``:``.
AFTER_COLON = ";"


#: The number of keys that one statement reads.
BATCH = 1000


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """The item or the reservation that has a key of the host, such as ``thesis:7``.

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
        """The identifier: the ibip if there is one, otherwise the rep."""
        return str(self.ibip or self.rep)

    @property
    def identifiers(self) -> list[str]:
        """The identifiers, in up to two forms."""
        return [text for text in (self.rep, self.ibip) if text is not None]


def _is_between(table: Any) -> sa.ColumnElement[bool]:
    """Return the SQL condition that a key lies between the parameters "last" and "end"."""
    return sa.and_(table.host_key > sa.bindparam("last"), table.host_key < sa.bindparam("end"))


# The statements are constant, because SQLAlchemy needs more time to make them than to run them.
_KEYS: dict[Any, Any] = {
    table: sa.select(table.host_key, table.rep, table.ibip, *columns)
    .where(table.archive_id == ARCHIVE, table.host_key.is_not(None))
    .order_by(table.host_key)
    .limit(BATCH)
    for table, columns in ((ReservationRow, [sa.null(), sa.null()]), (Item, [Item.id, Item.state]))
}


_LISTED_KEYS = {
    table: keys.where(dialects.is_listed(table.host_key, "keys")) for table, keys in _KEYS.items()
}


_KEYS_BETWEEN = {table: keys.where(_is_between(table)) for table, keys in _KEYS.items()}


def find_holders(
    connection: sa.Connection, archive_id: int, keys: Iterable[str]
) -> dict[str, KeyHolder]:
    """Return the items and the reservations that have keys, by their keys.

    If an item and a reservation have the same key, the item counts.
    """
    return {holder.key: holder for holder in list_holders(connection, archive_id, keys)}


def list_holders(
    connection: sa.Connection, archive_id: int, keys: Iterable[str]
) -> Iterator[KeyHolder]:
    """Yield each item and each reservation that has one of the keys, in batches of keys.

    In a batch, the reservations come before the items.
    """
    for part in dialects.batched(keys, BATCH):
        for statement in _LISTED_KEYS.values():
            yield from _read(connection, statement, archive_id=archive_id, keys=part)


def read_holders(
    connect: Callable[[], sa.Connection], archive_id: int, prefix: str
) -> Iterator[list[KeyHolder]]:
    """Yield batches of the items and reservations whose keys begin with a prefix.

    :param connect: returns the connection. The caller may commit after each batch.
    :param prefix: a text that ends with ``:``.
    """
    for table in (Item, ReservationRow):
        last, end = prefix, prefix[:-1] + AFTER_COLON
        while holders := [
            *_read(connect(), _KEYS_BETWEEN[table], archive_id=archive_id, last=last, end=end)
        ]:
            yield holders
            last = holders[-1].key


def count_holders(connection: sa.Connection, archive_id: int, prefix: str) -> int:
    """Return the number of items and reservations whose keys begin with a prefix."""
    values = {"archive_id": archive_id, "last": prefix, "end": prefix[:-1] + AFTER_COLON}
    return sum(
        connection.scalars(
            sa.select(sa.func.count()).where(table.archive_id == ARCHIVE, _is_between(table)),
            values,
        ).one()
        for table in (Item, ReservationRow)
    )


def free_keys(connection: sa.Connection, archive_id: int, holders: Iterable[KeyHolder]) -> None:
    """Remove the keys from items and reservations, so that others can have the keys.

    A deleted item has no key afterwards. The key of another item, or of a reservation, is made
    unique by an appended identifier. So it still begins with the name of the table, by which
    ``flask ibi compare`` finds it.
    """
    keys: dict[Any, list[str]] = {Item: [], ReservationRow: []}
    for holder in holders:
        keys[ReservationRow if holder.item_id is None else Item].append(holder.key)
    for table, present in keys.items():
        new: Any = table.host_key + "," + sa.func.coalesce(table.ibip, table.rep)
        if table is Item:
            new = sa.case((Item.state != State.DELETED.value, new))
        for part in dialects.batched(present, BATCH):
            are_chosen = dialects.is_one_of(table.host_key, part)
            statement = sa.update(table).where(table.archive_id == archive_id, are_chosen)
            connection.execute(statement.values(host_key=new))


def _read(connection: sa.Connection, statement: Any, **values: Any) -> Iterator[KeyHolder]:
    for key, rep, ibip, item_id, state in connection.execute(statement, values).all():
        yield KeyHolder(key, item_id, rep, ibip, state == State.DELETED.value)


# --- identifiers of other systems -----------------------------------------------------------------


#: A process remembers for this number of seconds that a database contains no former addresses.
MEMORY = 60


#: Whether each database contains former addresses, and when this process asks again.
_addresses: WeakKeyDictionary[Database, tuple[bool, float]] = WeakKeyDictionary()


_HAS_ADDRESSES = sa.select(sa.exists().where(SameAs.text.like("http%")))


def has_addresses(database: Database) -> bool:
    """Return whether any item has a former address.

    The answer is remembered, because a page of the app that does not exist must not wait for the
    database if no item has a former address. Therefore the first address that another process
    stores may be unknown for a minute. While one request asks the database again, other requests
    use the remembered answer.

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


def forget_addresses() -> None:
    """Forget the answers of :func:`has_addresses`, so that the databases are asked again."""
    _addresses.clear()


# SQLAlchemy executes statements faster with tables than with ORM classes
_SAME_AS: Any = SameAs.__table__.c
_ITEM: Any = Item.__table__.c


_HOLDERS = (
    sa.select(_SAME_AS.digest, _SAME_AS.item_id, sa.func.coalesce(_ITEM.ibip, _ITEM.rep))
    .join(Item.__table__, _ITEM.id == _SAME_AS.item_id)
    .where(dialects.is_listed(_SAME_AS.digest, "digests"), _SAME_AS.archive_id == ARCHIVE)
)


def find_same_as_holders(
    connection: sa.Connection, archive_id: int, digests: Iterable[str]
) -> dict[str, tuple[int, str]]:
    """Return the items to which aliases belong. Aliases that no item has are missing.

    :param digests: the digests of the aliases (:attr:`.ForeignIdentifier.digest`).
    :returns: for each digest, the row ID and an identifier of the item: the ibip if there is one,
        otherwise the rep.
    """
    holders: dict[str, tuple[int, str]] = {}
    for part in dialects.batched(digests):
        values = {"archive_id": archive_id, "digests": part}
        for digest, item_id, ibi in connection.execute(_HOLDERS, values).all():
            holders[digest] = item_id, str(ibi)
    return holders
