"""What ties items together: mentions of items elsewhere, chains of editions, groups of translations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from sqlalchemy import Connection, delete, exists, insert, or_, select, update
from sqlalchemy.orm import aliased

from flask_ibi_archive.errors import RuleBroken
from flask_ibi_archive.identifiers import Form, parse_identifier
from flask_ibi_archive.storage.models import (
    Archive,
    EditionSeries,
    Item,
    ItemIdentifier,
    TranslationGroup,
)
from flask_ibi_archive.storage.states import ELSEWHERE


@dataclass(frozen=True, slots=True)
class ToldLanguage:
    """The language of an item as the record of another one tells it, with their group's row."""

    group: int
    language: str


class Links:
    """The ties between the items of one Archive, inside the caller's transaction."""

    def __init__(self, connection: Connection, archive_id: int) -> None:
        self.connection = connection
        self.archive_id = archive_id

    def lock_ties(self) -> None:
        """Keep others from tying items of this Archive till the end of the transaction.

        Who reads where an item stands must find it there when it writes. SQLite's write transactions are
        alone anyway.
        """
        self.connection.execute(
            select(Archive.id).where(Archive.id == self.archive_id).with_for_update(key_share=True)
        )

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
        """Give the row of an item that another refers to; one that is unknown here is noted down."""
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

    # --- editions ---------------------------------------------------------------------------------

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
        :raises RuleBroken: rule 7, where the one has another next edition, the other is that of another
            item, or the chain would go round in a circle.
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

    # --- translations -----------------------------------------------------------------------------

    def join_translations(self, head_id: int, members: Mapping[str, int], ibi: str) -> None:
        """Put an item and its translations into one group.

        A member that states no language takes the one it is given.

        :param head_id: the item whose record lists the others.
        :param ibi: its identifier, for the message.
        :raises RuleBroken: rule 8, where a member states another language, or one occurs twice.
        """
        if len(set(members.values())) < len(members):
            raise RuleBroken(8, ibi, "one item stands there for two languages")
        ids = {head_id, *members.values()}
        rows = {
            row.id: row
            for row in self.connection.execute(
                select(Item.id, Item.language, Item.translation_group_id).where(Item.id.in_(ids))
            )
        }
        for language, member_id in members.items():
            stated = rows[member_id].language
            if stated not in (None, language):
                raise RuleBroken(
                    8, ibi, f"its translation into {language} states the language {stated}"
                )
        groups = {row.translation_group_id for row in rows.values()} - {None}
        languages = {row.id: row.language for row in rows.values()}
        languages.update({member_id: language for language, member_id in members.items()})
        if groups:
            for member in self.connection.execute(
                select(Item.id, Item.language).where(Item.translation_group_id.in_(groups))
            ):
                languages.setdefault(member.id, member.language)
        stated_languages = [language for language in languages.values() if language is not None]
        for language in set(stated_languages):
            if stated_languages.count(language) > 1:
                raise RuleBroken(
                    8, ibi, f"two items of its group of translations are in {language}"
                )
        group = rows[head_id].translation_group_id or (min(groups) if groups else None)
        if group is None:
            group = self.connection.execute(
                insert(TranslationGroup)
                .values(archive_id=self.archive_id, head_item_id=head_id)
                .returning(TranslationGroup.id)
            ).scalar_one()
        for language, member_id in members.items():
            if rows[member_id].language is None:
                self.connection.execute(
                    update(Item).where(Item.id == member_id).values(language=language)
                )
        self.connection.execute(
            update(Item)
            .where(or_(Item.id.in_(ids), Item.translation_group_id.in_(groups)))
            .values(translation_group_id=group)
        )
        merged = groups - {group}
        if merged:
            self.connection.execute(delete(TranslationGroup).where(TranslationGroup.id.in_(merged)))

    def dissolve_translations(self, head_id: int) -> None:
        """Take the group apart whose members an item's record listed, if there is one."""
        groups = self.connection.scalars(
            select(TranslationGroup.id).where(
                TranslationGroup.archive_id == self.archive_id,
                TranslationGroup.head_item_id == head_id,
            )
        ).all()
        if groups:
            members = update(Item).where(Item.translation_group_id.in_(groups))
            # what lives elsewhere has a language only as far as a group tells it
            self.connection.execute(members.where(Item.state == ELSEWHERE).values(language=None))
            self.connection.execute(members.values(translation_group_id=None))
            self.connection.execute(delete(TranslationGroup).where(TranslationGroup.id.in_(groups)))

    def leave_translations(self, item_id: int) -> ToldLanguage | None:
        """Take an item out of its group of translations, before another record is written over it.

        :returns: what the group's record tells of its language, None where it tells nothing.
        """
        group, language = self.connection.execute(
            select(Item.translation_group_id, Item.language).where(Item.id == item_id)
        ).one()
        if group is None:
            return None
        self.connection.execute(
            update(Item).where(Item.id == item_id).values(translation_group_id=None, language=None)
        )
        return None if language is None else ToldLanguage(group, language)

    def rejoin_translations(self, item_id: int, told: ToldLanguage, ibi: str) -> None:
        """Put an item back into the group that it had left, if there still is one.

        :param ibi: the item's, for the message.
        :raises RuleBroken: rule 8, where the item states another language now.
        """
        head_id = self.connection.execute(
            select(TranslationGroup.head_item_id).where(TranslationGroup.id == told.group)
        ).scalar()
        if head_id is None:
            return
        stated = self.connection.execute(select(Item.language).where(Item.id == item_id)).scalar()
        if stated not in (None, told.language):
            raise RuleBroken(
                8, ibi, f"it states the language {stated}, another record tells {told.language}"
            )
        self.join_translations(head_id, {told.language: item_id}, ibi)

    # --- mentions ---------------------------------------------------------------------------------

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

    def forget_mentions(self) -> None:
        """Take out the mentions of items elsewhere that nothing refers to any longer."""
        referring = aliased(Item)
        self.connection.execute(
            delete(Item).where(
                Item.archive_id == self.archive_id,
                Item.state == ELSEWHERE,
                Item.edition_series_id.is_(None),
                Item.translation_group_id.is_(None),
                ~exists().where(referring.metadata_item_id == Item.id),
            )
        )
