"""Reads what the page of the librarian shows: stored results only, no requests to other servers.

The number of SQL statements does not depend on the number of items. Each list shows the first
:data:`SHOWN` entries and the number of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, case, func, select

from flask_ibi_archive.archive.care import FileCheck
from flask_ibi_archive.archive.items.read import ItemReader
from flask_ibi_archive.archive.items.tables import AccessCount, Item, ItemIdentifier
from flask_ibi_archive.archive.joining.registration_state import (
    RegistrationRecord,
    describe,
    find_registration,
    state_of,
)
from flask_ibi_archive.core.records.record import ItemView

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: The number of entries of a list, and of most read items.
SHOWN, MOST_READ = 20, 10
#: The number of days in which embargoes end, and in which accesses are counted.
EMBARGO_DAYS, ACCESS_DAYS = 90, 365


@dataclass(frozen=True, slots=True)
class RegistrationSummary:
    """The registration at the resolver.

    :param state: one of the states of :mod:`~flask_ibi_archive.archive.joining.registration_state`.
    :param since: the time when the state began, or None.
    :param record: the results of the last requests; None if there was no request.
    :param advice: the state and the next step for the administrator in English; None if nothing
        must be done.
    """

    state: str
    since: datetime | None
    record: RegistrationRecord | None
    advice: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """An item in a list, and the values that the list shows about it."""

    item: ItemView
    values: Row[Any]


@dataclass(frozen=True, slots=True)
class ItemList:
    """The first entries of a list, and the number of all entries."""

    entries: Sequence[Entry]
    total: int


@dataclass(frozen=True, slots=True)
class FaultyFile:
    """A file that the last check of all files found faulty."""

    kind: str
    path: str
    ibi: str
    item: ItemView | None


@dataclass(frozen=True, slots=True)
class ItemOverview:
    """What the page shows about the items.

    :param faulty_files: the first files that the last check of all files found faulty.
    :param file_check: the result of this check, or None.
    """

    embargoes: ItemList
    most_read: Sequence[Entry]
    faulty_files: Sequence[FaultyFile]
    file_check: Row[Any] | None


def read_registration(archive: Archive) -> RegistrationSummary:
    """Return the state of the registration, as the database states it."""
    archive_id = archive.served().id
    record = archive.database.read(lambda connection: find_registration(connection, archive_id))
    description = describe(record, archive.config)
    return RegistrationSummary(
        *state_of(record), record, None if description.ok else description.text
    )


def read_overview(archive: Archive) -> ItemOverview:
    """Return what the page shows about the items, at one moment."""
    with archive.database.snapshot() as connection:
        return _Reader(archive, connection).read()


class _Reader:
    """Reads the lists, and then all items that they name with two statements."""

    def __init__(self, archive: Archive, connection: Connection) -> None:
        self._archive = archive
        self._archive_id = archive.served().id
        self._connection = connection
        self._items: dict[int, ItemView] = {}

    def read(self) -> ItemOverview:
        embargoes = self._execute(_select_embargoes(self._archive_id, self._archive.today))
        most_read = self._execute(_select_most_read(self._archive_id, self._archive.today))
        checks = self._execute(_select_file_check(self._archive_id))
        file_check = checks[0] if checks else None
        faulty = [] if file_check is None else file_check.faults[:SHOWN]
        owner_rows = self._execute(_select_owners(self._archive_id, [one["ibi"] for one in faulty]))
        owners: dict[str, int] = {row.text: row.item_id for row in owner_rows}
        rows = (*embargoes, *most_read)
        ids = {*(row.id for row in rows), *owners.values()}
        reader = ItemReader(
            self._connection, self._archive_id, today=self._archive.today, with_descriptions=True
        )
        self._items = reader.read_items([*ids])
        return ItemOverview(
            self._list(embargoes),
            self._enter(most_read),
            [
                FaultyFile(
                    one["kind"], one["path"], one["ibi"], self._items.get(owners.get(one["ibi"], 0))
                )
                for one in faulty
            ],
            file_check,
        )

    def _execute(self, statement: Any) -> Sequence[Row[Any]]:
        return self._connection.execute(statement).all()

    def _enter(self, rows: Sequence[Row[Any]]) -> list[Entry]:
        return [Entry(self._items[row.id], row) for row in rows]

    def _list(self, rows: Sequence[Row[Any]]) -> ItemList:
        return ItemList(self._enter(rows), rows[0].total if rows else 0)


def _select_embargoes(archive_id: int, today: date) -> Any:
    """Return the statement for the embargoes that end soon, the next one first."""
    return (
        select(Item.id, Item.embargo, func.count().over().label("total"))
        .where(
            Item.archive_id == archive_id,
            Item.embargo > today,
            Item.embargo <= today + timedelta(days=EMBARGO_DAYS),
        )
        .order_by(Item.embargo, Item.id)
        .limit(SHOWN)
    )


def _select_most_read(archive_id: int, today: date) -> Any:
    """Return the statement for the items with the most accesses in the last year."""

    def count(content_type: str) -> Any:
        counted = case((AccessCount.content_type == content_type, AccessCount.accesses), else_=0)
        return func.sum(counted)

    return (
        select(
            ItemIdentifier.item_id.label("id"),
            count("Metadata").label("views"),
            count("Data").label("downloads"),
        )
        .join(
            ItemIdentifier,
            (ItemIdentifier.archive_id == AccessCount.archive_id)
            & (ItemIdentifier.text == AccessCount.ibi),
        )
        .where(
            AccessCount.archive_id == archive_id,
            AccessCount.day > today - timedelta(days=ACCESS_DAYS),
        )
        .group_by(ItemIdentifier.item_id)
        .having(func.sum(AccessCount.accesses) > 0)
        .order_by(func.sum(AccessCount.accesses).desc(), ItemIdentifier.item_id)
        .limit(MOST_READ)
    )


def _select_file_check(archive_id: int) -> Any:
    """Return the statement for the result of the last check of all files."""
    return select(FileCheck.checked_at, FileCheck.faults).where(FileCheck.archive_id == archive_id)


def _select_owners(archive_id: int, identifiers: Sequence[str]) -> Any:
    """Return the statement for the row IDs of the items with some identifiers."""
    return select(ItemIdentifier.text, ItemIdentifier.item_id).where(
        ItemIdentifier.archive_id == archive_id, ItemIdentifier.text.in_(identifiers)
    )
