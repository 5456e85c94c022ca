"""Groups of translations: items that say the same, each in a language of its own (rule 8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, Row, delete, func, insert, or_, select, update

from flask_ibi_archive.errors import RuleBroken
from flask_ibi_archive.storage.models import Item, TranslationGroup
from flask_ibi_archive.storage.states import ELSEWHERE, State


@dataclass(frozen=True, slots=True)
class ToldLanguage:
    """The language of an item as the record of another one tells it, with their group's row."""

    group: int
    language: str


class Groups:
    """The groups of translations of one Archive, inside the caller's transaction."""

    def __init__(self, connection: Connection, archive_id: int) -> None:
        self.connection = connection
        self.archive_id = archive_id

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

    def leave_group(self, item_id: int) -> None:
        """Take an item out of its group for good; who stays in it stays together.

        Where it was the one whose record lists the others, that becomes another's. A group of one,
        and one that no item of this Archive is in, are no groups.
        """
        members = self.members(item_id)
        if not members:
            return
        self._part(item_id)
        group = members[0].translation_group_id
        rest = [member for member in members if member.id != item_id]
        here = [member for member in rest if member.state != ELSEWHERE]
        if len(rest) < 2 or not here:
            for member in rest:
                self._part(member.id)
            self.connection.execute(delete(TranslationGroup).where(TranslationGroup.id == group))
            return
        head = min(here, key=lambda member: (member.state == State.DELETED.value, member.id))
        self.connection.execute(
            update(TranslationGroup)
            .where(TranslationGroup.id == group, TranslationGroup.head_item_id == item_id)
            .values(head_item_id=head.id)
        )

    def _part(self, item_id: int) -> None:
        """Take a row out of its group; what lives elsewhere has a language only as a group tells
        it.
        """
        left = update(Item).where(Item.id == item_id)
        self.connection.execute(left.where(Item.state == ELSEWHERE).values(language=None))
        self.connection.execute(left.values(translation_group_id=None))

    def members(self, item_id: int) -> list[Row[tuple[int, str, str | None, str, int]]]:
        """Return the members of an item's group, itself too: id, state, language, ibi, group's row."""
        group = select(Item.translation_group_id).where(Item.id == item_id).scalar_subquery()
        return list(
            self.connection.execute(
                select(
                    Item.id,
                    Item.state,
                    Item.language,
                    func.coalesce(Item.rep, Item.ibip).label("ibi"),
                    Item.translation_group_id,
                )
                .where(Item.translation_group_id == group)
                .order_by(Item.id)
            )
        )

    def translations_of(self, item_id: int) -> dict[str, str]:
        """Return the others of an item's group by their languages, whoever's record lists them."""
        return {
            member.language: member.ibi
            for member in self.members(item_id)
            if member.id != item_id and member.language is not None
        }

    def head_of(self, item_id: int) -> int:
        """Return the member whose record lists the others of an item's group; itself where it has
        none.
        """
        group = select(Item.translation_group_id).where(Item.id == item_id).scalar_subquery()
        found = self.connection.execute(
            select(TranslationGroup.head_item_id).where(TranslationGroup.id == group)
        ).scalar()
        return item_id if found is None else found
