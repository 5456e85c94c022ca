"""What ties items together: mentions of items elsewhere, chains of editions; groups of
translations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timezone

from sqlalchemy import Connection, delete, exists, insert, or_, select, update
from sqlalchemy.orm import aliased

from flask_ibi_archive.errors import RuleBroken
from flask_ibi_archive.identifiers import Form, parse_identifier
from flask_ibi_archive.storage.groups import Groups, ToldLanguage
from flask_ibi_archive.storage.models import Archive, EditionSeries, Item, ItemIdentifier
from flask_ibi_archive.storage.states import ELSEWHERE

__all__ = ["Links", "ToldLanguage", "check_service_apart", "lock_archives"]


def check_service_apart(service_id: int | None, others: Collection[int], ibi: str) -> None:
    """Check that an item is tied to nothing that would change the service of its Archive.

    :param others: the rows of its next edition and its translations.
    :param ibi: the item's, for the message.
    :raises RuleBroken: rule 6.
    """
    if service_id in others:
        raise RuleBroken(
            6, ibi, "the service of its Archive is no edition and no translation of an item"
        )


def lock_archives(connection: Connection, archives: Collection[int]) -> None:
    """Keep others from tying items of some Archives till the end of the transaction.

    The rows are taken in order, so that two who need the same Archives can't wait for each other.
    """
    connection.execute(
        select(Archive.id)
        .where(Archive.id.in_(archives))
        .order_by(Archive.id)
        .with_for_update(key_share=True)
    )


class Links(Groups):
    """The ties between the items of one Archive, inside the caller's transaction."""

    def lock_ties(self) -> None:
        """Keep others from tying items of this Archive till the end of the transaction.

        Who reads where an item stands must find it there when it writes. SQLite's write
        transactions are alone anyway.
        """
        lock_archives(self.connection, [self.archive_id])

    def owners(self, identifiers: Iterable[str]) -> dict[str, tuple[int, str]]:
        """Give, for each identifier that is known here, its item's row and state."""
        rows = self.connection.execute(
            select(ItemIdentifier.text, ItemIdentifier.item_id, ItemIdentifier.state).where(
                ItemIdentifier.text.in_(list(identifiers)),
                ItemIdentifier.archive_id == self.archive_id,
            )
        )
        return {text: (item_id, state) for text, item_id, state in rows}

    def mention(self, ibi: str) -> int:
        """Return the row of an item that another refers to; one that is unknown here is noted down."""
        known = self.owners([ibi]).get(ibi)
        if known is not None:
            return known[0]
        form = parse_identifier(ibi).form
        item_id = self.connection.execute(
            insert(Item)
            .values(
                archive_id=self.archive_id,
                state=ELSEWHERE,
                rep=ibi if form is Form.REP else None,
                # an answer names a remote item by a legacy identifier behind ibip
                ibip=None if form is Form.REP else ibi,
                timestamp=datetime.now(timezone.utc),
            )
            .returning(Item.id)
        ).scalar_one()
        self.connection.execute(
            insert(ItemIdentifier).values(
                text=ibi,
                archive_id=self.archive_id,
                item_id=item_id,
                state=ELSEWHERE,
                form=form.value,
            )
        )
        return item_id

    def service_row(self) -> int | None:
        """Return the row of the service of the Archive."""
        return self.connection.execute(
            select(Archive.service_item_id).where(Archive.id == self.archive_id)
        ).scalar()

    # --- editions --------------------------------------------------------------------------------

    def _place(self, item_id: int) -> tuple[int, int] | None:
        series, number = self.connection.execute(
            select(Item.edition_series_id, Item.edition_no).where(Item.id == item_id)
        ).one()
        return None if series is None or number is None else (series, number)

    def _neighbour(self, place: tuple[int, int], after: bool) -> int | None:
        series, number = place
        return self.connection.execute(
            select(Item.id)
            .where(
                Item.edition_series_id == series,
                Item.edition_no > number if after else Item.edition_no < number,
            )
            .order_by(Item.edition_no if after else Item.edition_no.desc())
            .limit(1)
        ).scalar()

    def _put(self, item_id: int, series: int | None, number: int | None) -> None:
        self.connection.execute(
            update(Item)
            .where(Item.id == item_id)
            .values(edition_series_id=series, edition_no=number)
        )

    def link_editions(self, item_id: int, next_id: int, ibi: str) -> None:
        """Make one item the next edition of another.

        :param ibi: the earlier one's, for the message.
        :raises RuleBroken: rule 7, where the one has another next edition, the other is that of
            another item, or the chain would go round in a circle.
        """
        place, next_place = self._place(item_id), self._place(next_id)
        if place is not None:
            following = self._neighbour(place, after=True)
            if following == next_id:
                return
            if following is not None:
                raise RuleBroken(7, ibi, "it has another next edition already")
        if next_place is not None and self._neighbour(next_place, after=False) is not None:
            raise RuleBroken(7, ibi, "its next edition is that of another item already")
        if item_id == next_id or (place and next_place and place[0] == next_place[0]):
            raise RuleBroken(7, ibi, "the chain of editions would go round in a circle")
        if place is None and next_place is None:
            place = (self._new_series(), 1)
            self._put(item_id, *place)
        if place is None:
            assert next_place is not None
            self._put(item_id, next_place[0], next_place[1] - 1)
        elif next_place is None:
            self._put(next_id, place[0], place[1] + 1)
        else:
            self._move_series(next_place[0], place[0], place[1] + 1 - next_place[1])

    def _new_series(self) -> int:
        return self.connection.execute(
            insert(EditionSeries).values(archive_id=self.archive_id).returning(EditionSeries.id)
        ).scalar_one()

    def _move_series(self, series: int, target: int, shift: int, above: int | None = None) -> None:
        """Move the members of a series (those above a number) to another, their numbers shifted."""
        moved = update(Item).where(Item.edition_series_id == series)
        if above is not None:
            moved = moved.where(Item.edition_no > above)
        self.connection.execute(
            moved.values(edition_series_id=target, edition_no=Item.edition_no + shift)
        )
        self._forget_small_series(series)

    def _forget_small_series(self, series: int) -> None:
        """Take out a series that has one member left, or none."""
        members = self.connection.scalars(
            select(Item.id).where(Item.edition_series_id == series).limit(2)
        ).all()
        if len(members) < 2:
            for item_id in members:
                self._put(item_id, None, None)
            self.connection.execute(delete(EditionSeries).where(EditionSeries.id == series))

    def unlink_next_edition(self, item_id: int) -> None:
        """Part an item from its next edition: what follows becomes a chain of its own."""
        place = self._place(item_id)
        if place is None or self._neighbour(place, after=True) is None:
            return
        following = self._new_series()
        self._move_series(place[0], following, 0, above=place[1])
        self._forget_small_series(following)

    def relink_next_edition(self, item_id: int, next_id: int | None, ibi: str) -> None:
        """See that an item has a certain next edition, or none.

        :raises RuleBroken: rule 7, see :meth:`link_editions`.
        """
        place = self._place(item_id)
        if place is None or self._neighbour(place, after=True) != next_id:
            self.unlink_next_edition(item_id)
            if next_id is not None:
                self.link_editions(item_id, next_id, ibi)

    def last_edition(self, item_id: int) -> int:
        """Return the row at the end of an item's chain of editions, its own where it has no next
        one.
        """
        place = self._place(item_id)
        if place is None:
            return item_id
        return self.connection.scalars(
            select(Item.id)
            .where(Item.edition_series_id == place[0])
            .order_by(Item.edition_no.desc())
            .limit(1)
        ).one()

    # --- mentions --------------------------------------------------------------------------------

    def merge_mention(self, mention_id: int, item_id: int, ibi: str) -> None:
        """Let an item take the place of a mention that turns out to be the same item.

        :param ibi: the item's, for the message.
        :raises RuleBroken: rule 7, where what was said of the two can't be true of one.
        """
        place = self._place(mention_id)
        previous = None if place is None else self._neighbour(place, after=False)
        if place is not None:
            self._put(mention_id, None, None)
            self._forget_small_series(place[0])
        self.connection.execute(
            update(Item).where(Item.metadata_item_id == mention_id).values(metadata_item_id=item_id)
        )
        state = self.connection.execute(select(Item.state).where(Item.id == item_id)).scalar_one()
        moved = self.connection.execute(
            update(ItemIdentifier)
            .where(ItemIdentifier.item_id == mention_id)
            .values(item_id=item_id, state=state)
        )
        assert moved.rowcount
        self.connection.execute(delete(Item).where(Item.id == mention_id))
        if previous is not None:
            self.link_editions(previous, item_id, ibi)

    def mentions_near(self, item_id: int) -> list[int]:
        """Return the rows of the mentions that an item is tied to."""
        series, group, metadata = self.connection.execute(
            select(Item.edition_series_id, Item.translation_group_id, Item.metadata_item_id).where(
                Item.id == item_id
            )
        ).one()
        ties = {
            Item.edition_series_id: series,
            Item.translation_group_id: group,
            Item.id: metadata,
        }
        near = [column == value for column, value in ties.items() if value is not None]
        if not near:
            return []
        return list(
            self.connection.scalars(select(Item.id).where(Item.state == ELSEWHERE, or_(*near)))
        )

    def forget_mentions(self, among: Collection[int] | None = None) -> None:
        """Take out the mentions of items elsewhere that nothing refers to any longer.

        :param among: the rows that are looked at; None: all of the Archive.
        """
        if among is not None and not among:
            return
        referring = aliased(Item)
        forgotten = delete(Item).where(
            Item.archive_id == self.archive_id,
            Item.state == ELSEWHERE,
            Item.edition_series_id.is_(None),
            Item.translation_group_id.is_(None),
            ~exists().where(referring.metadata_item_id == Item.id),
        )
        if among is not None:
            forgotten = forgotten.where(Item.id.in_(among))
        self.connection.execute(forgotten)
