"""Stores chains of editions (rule 7): each item has at most one next edition.

A chain is not a circle. Each chain is stored as a series: the items of the chain are the rows of
``ibi_item`` with the same series. Later editions have higher numbers. Between two editions, numbers
may be missing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, delete, select, update
from sqlalchemy.orm import aliased

from flask_ibi_archive.archive.items.bulk import insert_with_ids, update_rows
from flask_ibi_archive.archive.items.tables import EditionSeries, Item
from flask_ibi_archive.errors import RuleBroken
from flask_ibi_archive.server.database.dialects import is_one_of


class Place(NamedTuple):
    """The place of an item: the id of its series, and its number in the series.

    The id is negative while the series is not stored in the database.
    """

    series: int
    number: int


class Editions:
    """The chains of editions of one Archive. The methods use the transaction of the caller."""

    def __init__(self, connection: Connection, archive_id: int) -> None:
        self.connection = connection
        self.archive_id = archive_id

    def link(self, item_id: int, next_id: int, ibi: str) -> None:
        """Store that the item ``next_id`` is the next edition of the item ``item_id``.

        The parameters and errors are those of :meth:`EditionLinks.add`.
        """
        links = EditionLinks(self.connection, self.archive_id, [item_id, next_id])
        links.add(item_id, next_id, ibi)
        links.write()

    def unlink_next(self, item_id: int) -> None:
        """Remove the link from an item to its next edition.

        The later editions become a separate chain.
        """
        row = self._find_place(item_id)
        if row is None or row.following is None:
            return
        series, number = row.edition_series_id, row.edition_no
        [later] = create_series(self.connection, self.archive_id, 1)
        self.connection.execute(
            update(Item)
            .where(Item.edition_series_id == series, Item.edition_no > number)
            .values(edition_series_id=later)
        )
        for series_id in (series, later):
            self._delete_if_small(series_id)

    def remove(self, item_id: int) -> int | None:
        """Remove an item from its chain.

        :returns: the id of the previous edition; None if the item had no previous edition.
        """
        row = self._find_place(item_id)
        if row is None:
            return None
        self._remove_from_series(item_id)
        self._delete_if_small(row.edition_series_id)
        previous: int | None = row.previous
        return previous

    def find_last_edition(self, item_id: int) -> int:
        """Return the id of the last edition in the chain of an item.

        If the item has no later edition, the method returns the id of the item.
        """
        row = self._find_place(item_id)
        if row is None:
            return item_id
        return self.connection.scalars(
            select(Item.id)
            .where(Item.edition_series_id == row.edition_series_id)
            .order_by(Item.edition_no.desc())
            .limit(1)
        ).one()

    def find_all_previous(self, items: Collection[int]) -> dict[int, int]:
        """Return the previous editions of items. Items without a previous edition are missing."""
        rows = self.connection.execute(
            _select_places().where(is_one_of(self.connection, Item.id, items))
        )
        return {row.id: row.previous for row in rows if row.previous is not None}

    def _find_place(self, item_id: int) -> Any:
        """Return the place of an item in its chain; None if the item is in no chain."""
        return self.connection.execute(_select_places().where(Item.id == item_id)).first()

    def _remove_from_series(self, item_id: int) -> None:
        self.connection.execute(
            update(Item).where(Item.id == item_id).values(edition_series_id=None, edition_no=None)
        )

    def _delete_if_small(self, series: int) -> None:
        """Delete a series that has fewer than two items: a single item is no chain."""
        members = self.connection.scalars(
            select(Item.id).where(Item.edition_series_id == series).limit(2)
        ).all()
        if len(members) < 2:
            for item_id in members:
                self._remove_from_series(item_id)
            self.connection.execute(delete(EditionSeries).where(EditionSeries.id == series))


class EditionLinks:
    """New links between editions, which are checked one by one and stored together.

    :param items: the ids of all items for which :meth:`add` will be called.
    """

    def __init__(self, connection: Connection, archive_id: int, items: Iterable[int]) -> None:
        self._connection = connection
        self._archive_id = archive_id
        self._places: dict[int, Place] = {}
        self._next: dict[int, int] = {}
        self._previous: dict[int, int] = {}
        #: For each merged series: the series that now contains its items, and the value that is
        #: added to their numbers.
        self._moved: dict[int, tuple[int, int]] = {}
        #: The items that get a new place.
        self._placed: set[int] = set()
        #: The id of the newest series that is not stored yet (negative).
        self._new = 0
        self._read(items)

    def _read(self, items: Iterable[int]) -> None:
        for item_id, series, number, following, previous in self._connection.execute(
            _select_places().where(is_one_of(self._connection, Item.id, items))
        ).all():
            self._places[item_id] = Place(series, number)
            if following is not None:
                self._next[item_id] = following
            if previous is not None:
                self._previous[item_id] = previous

    def add(self, item_id: int, next_id: int, ibi: str) -> None:
        """Check that ``next_id`` can be the next edition of ``item_id``, and add this link.

        The method :meth:`write` stores the link.

        :param ibi: the identifier of the earlier item, for the error message.
        :raises RuleBroken: rule 7. Either the earlier item already has another next edition, or the
            later item is already the next edition of another item, or the chain would become a
            circle.
        """
        following = self._next.get(item_id)
        if following == next_id:
            return
        if following is not None:
            raise RuleBroken(7, ibi, "the item already has another next edition")
        if next_id in self._previous:
            raise RuleBroken(
                7, ibi, "the chosen next edition is already the next edition of another item"
            )
        place, next_place = self._find_position(item_id), self._find_position(next_id)
        if item_id == next_id or (place and next_place and place.series == next_place.series):
            raise RuleBroken(7, ibi, "the chain of editions would become a circle")
        self._next[item_id], self._previous[next_id] = next_id, item_id
        if place is None and next_place is None:
            self._new -= 1
            place = self._set_place(item_id, self._new, 1)
        if place is None:
            assert next_place is not None
            self._set_place(item_id, next_place.series, next_place.number - 1)
        elif next_place is None:
            self._set_place(next_id, place.series, place.number + 1)
        else:
            self._merge(place, next_place)

    def _find_position(self, item_id: int) -> Place | None:
        """Return the place of an item after all merges; None if the item is in no series."""
        place = self._places.get(item_id)
        if place is None:
            return None
        series, shift = self._resolve(place.series)
        return Place(series, place.number + shift)

    def _resolve(self, series: int) -> tuple[int, int]:
        """Return the series that now contains the items, and the value to add to their numbers.

        The result is stored for all series on the way, so that the next search is short.
        """
        shift, passed = 0, []
        while series in self._moved:
            passed.append(series)
            series, more = self._moved[series]
            shift += more
        total = shift
        for merged in passed:
            more = self._moved[merged][1]
            self._moved[merged] = series, total
            total -= more
        return series, shift

    def _set_place(self, item_id: int, series: int, number: int) -> Place:
        self._placed.add(item_id)
        self._places[item_id] = place = Place(series, number)
        return place

    def _merge(self, place: Place, next_place: Place) -> None:
        """Merge two series, so that the second one continues after the first one."""
        shift = place.number + 1 - next_place.number
        # If one series is not stored yet, its items move: then no stored row changes.
        if place.series < 0:
            self._moved[place.series] = next_place.series, -shift
        else:
            self._moved[next_place.series] = place.series, shift

    def write(self) -> None:
        """Store the links that :meth:`add` has checked."""
        moves = [(series, *self._resolve(series)) for series in self._moved if series > 0]
        places = {item_id: self._find_position(item_id) for item_id in self._placed}
        new = sorted({place.series for place in places.values() if place and place.series < 0})
        # the stored ids of the new series
        rows = dict(
            zip(new, create_series(self._connection, self._archive_id, len(new)), strict=True)
        )
        table: Any = Item.__table__
        if moves:
            self._connection.execute(
                update(table)
                .where(table.c.edition_series_id == bindparam("old"))
                .values(
                    edition_series_id=bindparam("new"),
                    edition_no=table.c.edition_no + bindparam("shift"),
                ),
                [
                    {"old": old, "new": rows.get(new, new), "shift": shift}
                    for old, new, shift in moves
                ],
            )
            self._connection.execute(
                delete(EditionSeries).where(EditionSeries.id.in_([old for old, _, _ in moves]))
            )
        update_rows(
            self._connection,
            Item,
            [
                {
                    "id": item_id,
                    "edition_series_id": rows.get(place.series, place.series),
                    "edition_no": place.number,
                }
                for item_id, place in sorted(places.items())
                if place is not None
            ],
        )


def create_series(connection: Connection, archive_id: int, count: int) -> list[int]:
    """Store new series without items and return the ids of the series."""
    return insert_with_ids(connection, EditionSeries, [{"archive_id": archive_id}] * count)


# The result is cached: SQLAlchemy needs more time to build this statement than to run it.
@cache
def _select_places() -> Any:
    return select(
        Item.id,
        Item.edition_series_id,
        Item.edition_no,
        _select_neighbour(after=True).label("following"),
        _select_neighbour(after=False).label("previous"),
    ).where(Item.edition_series_id.is_not(None))


def _select_neighbour(after: bool) -> Any:
    """Select the id of the edition just after or just before an item in its series."""
    other = aliased(Item)
    return (
        select(other.id)
        .where(
            other.edition_series_id == Item.edition_series_id,
            other.edition_no > Item.edition_no if after else other.edition_no < Item.edition_no,
        )
        .order_by(other.edition_no if after else other.edition_no.desc())
        .limit(1)
        .scalar_subquery()
    )
