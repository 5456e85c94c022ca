"""Finds items and reservations by the keys of the host, which say where an item comes from.

A key is a text such as ``package:1a68``. At most one item of an Archive has a key. The key of a
row of the host's own model is the name of its table and its primary key; it also belongs to the
reservation of a row that is not public yet. If another row gets this key, the item or reservation
keeps ``<key>,<identifier>``, which is the key of no row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, func, select, update

from flask_ibi_archive.archive.items.tables import Item, Reservation
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.server.database.dialects import batched, is_one_of

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
        for table in (Reservation, Item):
            chosen = is_one_of(connection, table.host_key, part)
            yield from _read(connection, table, archive_id, chosen)


def read_holders(
    connect: Callable[[], Connection], archive_id: int, prefix: str
) -> Iterator[list[KeyHolder]]:
    """Yield the items and the reservations whose keys begin with a prefix, in batches.

    :param connect: returns the connection. The caller may commit after each batch.
    :param prefix: a text that ends with ``:``.
    """
    for table in (Item, Reservation):
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
        for table in (Item, Reservation)
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
    keys: dict[Any, list[str]] = {Item: [], Reservation: []}
    for holder in holders:
        keys[Reservation if holder.item_id is None else Item].append(holder.key)
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
