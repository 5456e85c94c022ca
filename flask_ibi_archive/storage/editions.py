"""Chains of editions, many links at a time: read together, checked one by one, written together."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update
from sqlalchemy.orm import aliased

from flask_ibi_archive.errors import RuleBroken
from flask_ibi_archive.storage.batches import batched
from flask_ibi_archive.storage.models import EditionSeries, Item

#: What stands for a series that is not written yet is below zero.
Place = tuple[int, int]


class EditionChains:
    """The chains that some items of an Archive stand in, inside the caller's transaction.

    :param items: the rows of all items that links will be made of.
    """

    def __init__(self, connection: Connection, archive_id: int, items: Iterable[int]) -> None:
        self._connection = connection
        self._archive_id = archive_id
        self._places: dict[int, Place] = {}
        self._next: dict[int, int] = {}
        self._previous: dict[int, int] = {}
        #: Series that became part of another one, and by how much their numbers are shifted there.
        self._moved: dict[int, Place] = {}
        self._placed: set[int] = set()
        self._new = 0
        self._read(items)

    def _read(self, items: Iterable[int]) -> None:
        chosen = select(
            Item.id, Item.edition_series_id, Item.edition_no, _neighbour(True), _neighbour(False)
        ).where(Item.edition_series_id.is_not(None))
        for piece in batched(list(items)):
            for item_id, series, number, following, previous in self._connection.execute(
                chosen.where(Item.id.in_(piece))
            ):
                self._places[item_id] = series, number
                if following is not None:
                    self._next[item_id] = following
                if previous is not None:
                    self._previous[item_id] = previous

    def link(self, item_id: int, next_id: int, ibi: str) -> None:
        """Make one item the next edition of another.

        :param ibi: the earlier one's, for the message.
        :raises RuleBroken: rule 7, where the one has another next edition, the other is that of
            another item, or the chain would go round in a circle.
        """
        following = self._next.get(item_id)
        if following == next_id:
            return
        if following is not None:
            raise RuleBroken(7, ibi, "it has another next edition already")
        if next_id in self._previous:
            raise RuleBroken(7, ibi, "its next edition is that of another item already")
        place, next_place = self._place(item_id), self._place(next_id)
        if item_id == next_id or (place and next_place and place[0] == next_place[0]):
            raise RuleBroken(7, ibi, "the chain of editions would go round in a circle")
        self._next[item_id], self._previous[next_id] = next_id, item_id
        if place is None and next_place is None:
            self._new -= 1
            place = self._put(item_id, self._new, 1)
        if place is None:
            assert next_place is not None
            self._put(item_id, next_place[0], next_place[1] - 1)
        elif next_place is None:
            self._put(next_id, place[0], place[1] + 1)
        else:
            self._join(place, next_place)

    def _place(self, item_id: int) -> Place | None:
        found = self._places.get(item_id)
        if found is None:
            return None
        series, shift = self._resolve(found[0])
        return series, found[1] + shift

    def _resolve(self, series: int) -> Place:
        """Return the series that one is part of now, and by how much its numbers are shifted there."""
        shift, passed = 0, []
        while series in self._moved:
            passed.append(series)
            series, more = self._moved[series]
            shift += more
        total = shift
        for one in passed:
            more = self._moved[one][1]
            self._moved[one] = series, total
            total -= more
        return series, shift

    def _put(self, item_id: int, series: int, number: int) -> Place:
        self._placed.add(item_id)
        self._places[item_id] = series, number
        return series, number

    def _join(self, place: Place, next_place: Place) -> None:
        shift = place[1] + 1 - next_place[1]
        if place[0] < 0:  # one that is written keeps its numbers
            self._moved[place[0]] = next_place[0], -shift
        else:
            self._moved[next_place[0]] = place[0], shift

    def write(self) -> None:
        """Write the links that were made."""
        moves = [(series, *self._resolve(series)) for series in self._moved if series > 0]
        places = {item_id: self._place(item_id) for item_id in self._placed}
        new = sorted({place[0] for place in places.values() if place and place[0] < 0})
        rows = dict(zip(new, self._new_series(len(new)), strict=True))
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
        if places:
            self._connection.execute(
                update(table)
                .where(table.c.id == bindparam("item"))
                .values(edition_series_id=bindparam("series"), edition_no=bindparam("number")),
                [
                    {"item": item_id, "series": rows.get(place[0], place[0]), "number": place[1]}
                    for item_id, place in sorted(places.items())
                    if place is not None
                ],
            )

    def _new_series(self, count: int) -> list[int]:
        if not count:
            return []
        return list(
            self._connection.scalars(
                insert(EditionSeries).returning(EditionSeries.id),
                [{"archive_id": self._archive_id}] * count,
            )
        )


@cache
def _neighbour(after: bool) -> Any:
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
