"""Finds items by identifiers, Copies of the same item, and identifiers reserved for drafts.

The status of a new reservation is "held". Later the status becomes "used" or "released". A reserved
identifier is never issued for another item.

The module :mod:`.rules` lists the rules of the storage model. This module checks rules 3 and 4.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, insert, or_, select, update
from sqlalchemy.orm import aliased

from flask_ibi_archive.archive.items import tables as models
from flask_ibi_archive.archive.items.tables import ArchiveRow, Item, ItemIdentifier
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.errors import RuleBroken, StorageError
from flask_ibi_archive.server.database.dialects import batched, is_one_of

HELD, USED, RELEASED = "held", "used", "released"


def find_owners(
    connection: Connection, archive_id: int, identifiers: Iterable[str]
) -> dict[str, tuple[int, str]]:
    """Return the id and the state of the item that has each identifier.

    :param identifiers: the identifiers as canonical texts.
    :returns: a dictionary with identifiers as keys. If the Archive does not know an identifier, the
        dictionary does not contain this identifier.
    """
    row = models.ItemIdentifier
    # all() needs less time than a loop over the result, which fetches the rows one by one
    found = connection.execute(
        select(row.text, row.item_id, row.state).where(
            is_one_of(connection, row.text, identifiers), row.archive_id == archive_id
        )
    ).all()
    return {text: (item_id, state) for text, item_id, state in found}


def find_owners_and_originals(
    connection: Connection, archive_id: int, identifiers: Iterable[str]
) -> tuple[dict[str, tuple[int, str]], set[str]]:
    """Find the items and the Originals in other Archives that have identifiers.

    :returns: the result of :func:`find_owners`, and those of the identifiers whose Original is in
        another Archive of the database (rule 3).
    """
    row = models.ItemIdentifier
    found = connection.execute(
        select(row.text, row.item_id, row.state, row.archive_id).where(
            is_one_of(connection, row.text, identifiers)
        )
    ).all()
    owners, elsewhere = {}, set()
    for text, item_id, state, owner_archive_id in found:
        if owner_archive_id == archive_id:
            owners[text] = item_id, state
        elif state == State.ORIGINAL.value:
            elsewhere.add(text)
    return owners, elsewhere


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
    connection: Connection,
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
        insert(models.Reservation).values(archive_id=archive_id, status=HELD, **values)
    )


def renew_reservation(
    connection: Connection, archive_id: int, ibip: str, note: str, now: datetime, key: str | None
) -> bool:
    """Reserve a released identifier again, because a backup has restored the row of the draft.

    :param key: the key of the row.
    :returns: whether the Archive has released the identifier.
    """
    row = models.Reservation
    released = update(row).where(
        row.archive_id == archive_id, row.ibip == ibip, row.status == RELEASED
    )
    values = {"note": note, "reserved_at": now, "settled_at": None, "host_key": key}
    return connection.execute(released.values(status=HELD, **values)).rowcount > 0


def set_reservation_key(connection: Connection, archive_id: int, ibi: str, key: str) -> None:
    """Store the key of the row that is the draft of a held reservation.

    :param ibi: one of the two forms of the identifier, as canonical text.
    :param key: the key of the row. No other item or reservation may have it.
    """
    row = models.Reservation
    connection.execute(
        update(row)
        .where(_has_identifier(connection, [ibi]), row.archive_id == archive_id, row.status == HELD)
        .values(host_key=key)
    )


def settle_reservation(
    connection: Connection, archive_id: int, ibi: str, status: str, now: datetime
) -> tuple[str, str]:
    """Store that a reserved identifier was used or released.

    If two processes call this function at the same time, one process gets an error.

    :param ibi: one of the two forms of the identifier, as canonical text.
    :param status: the new status: used or released.
    :returns: both forms of the identifier: rep and IBIp.
    :raises StorageError: if the Archive has not reserved the identifier, or if the identifier was
        already used or released.
    """
    row = models.Reservation
    settled = connection.execute(
        update(row)
        .where(_has_identifier(connection, [ibi]), row.archive_id == archive_id, row.status == HELD)
        .values(status=status, settled_at=now, host_key=None)
        .returning(row.rep, row.ibip)
    ).first()
    if settled is not None:
        return settled.rep, settled.ibip
    found = connection.execute(
        select(row.archive_id, row.status).where(_has_identifier(connection, [ibi]))
    ).first()
    if found is None:
        raise StorageError(
            f"{ibi} is not reserved; to reserve an identifier, run: flask ibi reserve"
        )
    if found.status != HELD:
        raise StorageError(f"the reservation of {ibi} was already {found.status}")
    raise StorageError(f"{ibi} is reserved for a draft of another Archive of the database")


def find_status(connection: Connection, rep: str) -> str | None:
    """Return the status of the reservation of an identifier; None if it was never reserved.

    :param rep: the repository name, as canonical text.
    """
    row = models.Reservation
    return connection.scalar(select(row.status).where(row.rep == rep))


def find_held(
    connection: Connection, archive_id: int, identifiers: Iterable[str]
) -> dict[str, str | None]:
    """Return the given identifiers that are reserved for drafts of an Archive.

    :returns: the key of the row that is the draft, or None, for both forms of each identifier.
    """
    row = models.Reservation
    found: dict[str, str | None] = {}
    for part in batched(identifiers):
        held = select(row.rep, row.ibip, row.host_key).where(
            _has_identifier(connection, part), row.archive_id == archive_id, row.status == HELD
        )
        for rep, ibip, key in connection.execute(held):
            found[rep] = found[ibip] = key
    return found


def check_not_reserved(connection: Connection, identifiers: Sequence[str]) -> None:
    """Check that none of the identifiers is reserved for a draft.

    :raises RuleBroken: rule 1, with the first reserved identifier.
    """
    if not identifiers:
        return
    reserved = connection.scalars(
        select(models.Reservation.rep)
        .where(_has_identifier(connection, identifiers), models.Reservation.status == HELD)
        .order_by(models.Reservation.reserved_at)
        .limit(1)
    ).first()
    if reserved is not None:
        raise RuleBroken(
            1,
            reserved,
            "the identifier is reserved for a draft; "
            "deposit the draft with this identifier, or release the identifier first",
        )


def read_reservations(connection: Connection, archive_id: int) -> list[Reservation]:
    """Return the reservations of an Archive, sorted by age; the oldest comes first."""
    row = models.Reservation
    rows = connection.execute(
        select(row.rep, row.ibip, row.status, row.note, row.reserved_at, row.settled_at)
        .where(row.archive_id == archive_id)
        .order_by(row.reserved_at, row.rep)
    )
    return [Reservation(*found) for found in rows]


def _has_identifier(connection: Connection, identifiers: Sequence[str]) -> ColumnElement[bool]:
    row = models.Reservation
    return or_(
        is_one_of(connection, row.rep, identifiers), is_one_of(connection, row.ibip, identifiers)
    )


class Copies:
    """Finds Originals and Copies of an Archive's items in other Archives of the same database."""

    def __init__(self, connection: Connection, archive_id: int) -> None:
        self.connection = connection
        self.archive_id = archive_id

    def find_originals_elsewhere(self, identifiers: Sequence[str]) -> set[str]:
        """Return the given identifiers whose Original is in another Archive (rule 3)."""
        return find_owners_and_originals(self.connection, self.archive_id, identifiers)[1]

    def check_original_of(self, record: Record) -> None:
        """Check that the Original of a Copy exists, if its Archive is in this database.

        The record of a Copy names the Archive of the Original. Other records are not checked.

        :raises RuleBroken: rule 4, if the Archive is in this database and does not have the
            Original, or if the Copy and the Original are in the same Archive.
        """
        if record.original_archive is None:
            return
        service = aliased(ItemIdentifier)
        archive_id = self.connection.execute(
            select(ArchiveRow.id)
            .join(service, service.item_id == ArchiveRow.service_item_id)
            .where(service.text == record.original_archive)
        ).scalar()
        if archive_id is None:
            return
        ibi = record.identifiers[0]
        if archive_id == self.archive_id:
            raise RuleBroken(4, ibi, "a Copy and its Original can't be in the same Archive")
        forms = [text for text in (record.rep, record.ibip) if text is not None]
        found = self.connection.execute(
            select(ItemIdentifier.item_id).where(
                ItemIdentifier.archive_id == archive_id,
                ItemIdentifier.text.in_(forms),
                ItemIdentifier.state == State.ORIGINAL.value,
            )
        ).first()
        if found is None:
            raise RuleBroken(
                4,
                ibi,
                f"the Archive {record.original_archive} does not have the Original of this Copy",
            )

    def find_archive_of_original(self, ibi: str) -> int | None:
        """Return the id of the Archive that has the Original of an IBI.

        :returns: None if no Archive in this database has the Original.
        """
        return self.connection.execute(
            select(ItemIdentifier.archive_id).where(
                ItemIdentifier.text == ibi, ItemIdentifier.state == State.ORIGINAL.value
            )
        ).scalar()

    def find_copied(self, items: Collection[int]) -> set[int]:
        """Return the given items of this Archive that have Copies; see :meth:`find_copies`."""
        rows = self.connection.execute(self._select_copies(items))
        return {row.original_id for row in rows}

    def find_copies(self, item_id: int) -> list[tuple[int, int]]:
        """Return the Copies of an item of this Archive.

        A Copy is only counted if it names this Archive as the Archive of its Original.

        :returns: the id of each Copy, with the id of the Archive that has the Copy.
        """
        return list(self.find_copies_of([item_id]).get(item_id, {}).items())

    def find_copies_of(self, items: Collection[int]) -> dict[int, dict[int, int]]:
        """Return the Copies of items of this Archive; see :meth:`find_copies`.

        :returns: for each item with Copies, the Archives of the Copies by the ids of the Copies.
        """
        copies: dict[int, dict[int, int]] = {}
        for row in self.connection.execute(self._select_copies(items)):
            copies.setdefault(row.original_id, {})[row.id] = row.archive_id
        return copies

    def _select_copies(self, items: Collection[int]) -> Any:
        """Select the Copies of items, with the ids of their Archives and of their Originals."""
        mine, theirs, service = (aliased(ItemIdentifier) for _ in range(3))
        return (
            select(Item.id, Item.archive_id, mine.item_id.label("original_id"))
            .join(theirs, theirs.item_id == Item.id)
            .join(mine, mine.text == theirs.text)
            .join(service, service.text == Item.original_archive)
            .join(
                ArchiveRow,
                and_(
                    ArchiveRow.service_item_id == service.item_id, ArchiveRow.id == self.archive_id
                ),
            )
            .where(
                is_one_of(self.connection, mine.item_id, items), theirs.state == State.COPY.value
            )
            .distinct()
            .order_by(Item.id)
        )

    def check_no_copies(self, item_id: int, record: Record) -> None:
        """Check that an item has no Copies in this database if the item is no longer an Original.

        :param record: the new values of the item.
        :raises RuleBroken: rule 4. The error names the Archives that have the Copies.
        """
        if record.state == State.ORIGINAL.value:
            return
        archives = {archive_id for _, archive_id in self.find_copies(item_id)}
        if not archives:
            return
        holders = self.connection.scalars(
            select(func.coalesce(Item.rep, Item.ibip)).where(
                Item.archive_id.in_(archives), Item.is_service
            )
        ).all()
        raise RuleBroken(
            4,
            record.identifiers[0],
            f"this item is the Original of Copies in {', '.join(sorted(map(str, holders)))}; "
            "delete these Copies first",
        )
