"""Stores groups of translations (rule 8).

The members of a group are items with the same content in different languages. The head of a group
is the item whose record lists the other members. A stub represents an item of another Archive. A
stub has a language only while the stub is a member of a group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, update

from flask_ibi_archive.archive.items.bulk import insert_with_ids, update_rows
from flask_ibi_archive.archive.items.tables import Item, TranslationGroup
from flask_ibi_archive.core.protocol.states import ELSEWHERE, State
from flask_ibi_archive.errors import RuleBroken
from flask_ibi_archive.server.database.dialects import batched, is_one_of

#: The first temporary id of groups that are not stored yet. This id is higher than all stored ids.
FIRST_TEMPORARY_ID = 1 << 62


@dataclass(frozen=True, slots=True)
class AssignedLanguage:
    """The language that an item got from the record of another item, and the id of the group."""

    group: int
    language: str


class Translations:
    """Reads and changes the groups of translations of one Archive.

    All changes are made in the transaction of the caller.
    """

    def __init__(self, connection: Connection, archive_id: int) -> None:
        self.connection = connection
        self.archive_id = archive_id

    def join(self, head_id: int, members: Mapping[str, int], ibi: str) -> None:
        """Put an item and its translations into one group, and store the group.

        :meth:`TranslationJoins.add` describes the parameters and the errors.
        """
        joins = TranslationJoins(self.connection, self.archive_id, [head_id, *members.values()])
        joins.add(head_id, members, ibi)
        joins.write()

    def dissolve(self, head_id: int) -> None:
        """Delete the group whose head is an item; do nothing if there is no such group."""
        groups = self.connection.scalars(
            select(TranslationGroup.id).where(
                TranslationGroup.archive_id == self.archive_id,
                TranslationGroup.head_item_id == head_id,
            )
        ).all()
        if groups:
            self._remove_members(Item.translation_group_id.in_(groups))
            self.connection.execute(delete(TranslationGroup).where(TranslationGroup.id.in_(groups)))

    def leave_for_update(self, item_id: int) -> AssignedLanguage | None:
        """Remove an item from its group, before its record is replaced.

        :returns: the value to pass to :meth:`rejoin` after the update; None if the item is not in a
            group or has no language.
        """
        group, language = self.connection.execute(
            select(Item.translation_group_id, Item.language).where(Item.id == item_id)
        ).one()
        if group is None:
            return None
        self.connection.execute(
            update(Item).where(Item.id == item_id).values(translation_group_id=None, language=None)
        )
        return None if language is None else AssignedLanguage(group, language)

    def rejoin(self, item_id: int, assigned: AssignedLanguage, ibi: str) -> None:
        """Put an item back into its former group, if the group still exists.

        :param item_id: the id of the item.
        :param assigned: the value that :meth:`leave_for_update` returned.
        :param ibi: the identifier of the item, for the message.
        :raises RuleBroken: rule 8, if the new record of the item states another language.
        """
        head_id = self.connection.execute(
            select(TranslationGroup.head_item_id).where(TranslationGroup.id == assigned.group)
        ).scalar()
        if head_id is None:
            return
        stated = self.connection.execute(select(Item.language).where(Item.id == item_id)).scalar()
        if stated not in (None, assigned.language):
            raise RuleBroken(
                8,
                ibi,
                f"the item states the language {stated}, but the record of another item lists the "
                f"item as the translation into {assigned.language}",
            )
        self.join(head_id, {assigned.language: item_id}, ibi)

    def leave(self, item_id: int) -> None:
        """Remove an item from its group permanently.

        The other members stay in the group. If the item was the head, another member becomes the
        head. The group is deleted if only one member remains or if all remaining members are stubs.
        """
        members = self.find_members(item_id)
        if not members:
            return
        self._remove_members(Item.id == item_id)
        group = members[0].translation_group_id
        others = [member for member in members if member.id != item_id]
        here = [member for member in others if member.state != ELSEWHERE]
        if len(others) < 2 or not here:
            self._remove_members(Item.translation_group_id == group)
            self.connection.execute(delete(TranslationGroup).where(TranslationGroup.id == group))
            return
        head = min(here, key=lambda member: (member.state == State.DELETED.value, member.id))
        self.connection.execute(
            update(TranslationGroup)
            .where(TranslationGroup.id == group, TranslationGroup.head_item_id == item_id)
            .values(head_item_id=head.id)
        )

    def _remove_members(self, condition: Any) -> None:
        """Remove the items with a condition from their groups. Stubs lose their language."""
        members = update(Item).where(condition)
        self.connection.execute(members.where(Item.state == ELSEWHERE).values(language=None))
        self.connection.execute(members.values(translation_group_id=None))

    def find_groups(self, items: Iterable[int]) -> dict[int, int]:
        """Return the ids of the groups of items. Items that are in no group are missing."""
        rows = self.connection.execute(
            select(Item.id, Item.translation_group_id).where(
                is_one_of(self.connection, Item.id, items), Item.translation_group_id.is_not(None)
            )
        )
        return {row.id: row.translation_group_id for row in rows}

    def find_members(self, item_id: int) -> list[Row[tuple[int, str, str | None, str, int]]]:
        """Return the members of the group of an item, including the item.

        :returns: rows with the columns id, state, language, ibi and translation_group_id. The list
            is empty if the item is not in a group.
        """
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

    def find_others(self, item_id: int) -> dict[str, str]:
        """Return the identifiers of the other members of the group of an item, by language."""
        return {
            member.language: member.ibi
            for member in self.find_members(item_id)
            if member.id != item_id and member.language is not None
        }

    def add_member(self, item_id: int, other_id: int, language: str, ibi: str) -> None:
        """Put an item into the group of another item.

        :param item_id: the id of the item.
        :param other_id: the id of the other item.
        :param language: the language that the item states.
        :param ibi: the identifier of the item, for the message.
        :raises RuleBroken: rule 8, if the group already has an item in this language.
        """
        for member in self.find_members(other_id):
            if member.language == language:
                raise RuleBroken(
                    8,
                    ibi,
                    f"the group of translations already has an item in the language {language}: "
                    f"{member.ibi}",
                )
        self.join(self._find_head(other_id), {language: item_id}, ibi)

    def _find_head(self, item_id: int) -> int:
        """Return the id of the head of an item's group; without a group, the id of the item."""
        group = select(Item.translation_group_id).where(Item.id == item_id).scalar_subquery()
        found = self.connection.execute(
            select(TranslationGroup.head_item_id).where(TranslationGroup.id == group)
        ).scalar()
        return item_id if found is None else found


class TranslationJoins:
    """Collects changes of groups, and stores all changes together.

    :meth:`add` checks and adds one change. :meth:`write` stores all changes.

    :param items: the ids of all items that will be passed to :meth:`add`.
    """

    def __init__(self, connection: Connection, archive_id: int, items: Iterable[int]) -> None:
        self._connection = connection
        self._archive_id = archive_id
        self._languages: dict[int, str | None] = {}
        self._groups: dict[int, int] = {}
        self._members: dict[int, set[int]] = {}
        self._heads: dict[int, int] = {}
        self._changed: set[int] = set()
        self._read("id", items)
        # read the other members of these groups; reading them fills the same dict
        self._read("translation_group_id", list(self._members))

    def _read(self, column: str, values: Iterable[int]) -> None:
        """Read the languages and groups of the items that have a value in a column."""
        for item_id, language, group in self._connection.execute(
            select(Item.id, Item.language, Item.translation_group_id).where(
                is_one_of(self._connection, getattr(Item, column), values)
            )
        ).all():
            self._languages[item_id] = language
            if group is not None:
                self._groups[item_id] = group
                self._members.setdefault(group, set()).add(item_id)

    def add(self, head_id: int, members: Mapping[str, int], ibi: str) -> None:
        """Put an item and its translations into one group. Their present groups are merged.

        If a member states no language, the member gets the language in the list of the head.

        :param head_id: the id of the item whose record lists the translations.
        :param members: the ids of the translations, by language.
        :param ibi: the identifier of the head, for the message.
        :raises RuleBroken: rule 8, if a member states a different language than the list, or if the
            group has two items in the same language.
        """
        if len(set(members.values())) < len(members):
            raise RuleBroken(
                8, ibi, "the item lists one translation twice, with two different languages"
            )
        assigned = {member_id: language for language, member_id in members.items()}
        for member_id, language in assigned.items():
            stated = self._languages[member_id]
            if stated not in (None, language):
                raise RuleBroken(
                    8,
                    ibi,
                    f"the item lists a translation into {language}, but this translation states "
                    f"the language {stated}",
                )
        ids = {head_id, *assigned}
        groups = {self._groups[item_id] for item_id in ids if item_id in self._groups}
        everybody = ids.union(*(self._members[group] for group in groups))
        languages = {member: assigned.get(member, self._languages[member]) for member in everybody}
        listed = list(languages.values())
        for stated in set(listed) - {None}:
            if listed.count(stated) > 1:
                raise RuleBroken(
                    8, ibi, f"the group of translations has two items in the language {stated}"
                )
        group = self._groups.get(head_id) or min(groups, default=0) or self._add_group(head_id)
        for item_id, new_language in languages.items():
            if (self._groups.get(item_id), self._languages[item_id]) != (group, new_language):
                self._groups[item_id], self._languages[item_id] = group, new_language
                self._changed.add(item_id)
        for merged in groups - {group}:
            self._members[merged] = set()
        self._members[group] = everybody

    def _add_group(self, head_id: int) -> int:
        group = FIRST_TEMPORARY_ID + len(self._heads)
        self._heads[group] = head_id
        return group

    def write(self) -> None:
        """Store all changes that were added."""
        rows = self._store_new_groups()
        update_rows(
            self._connection,
            Item,
            [
                {
                    "id": item_id,
                    "translation_group_id": rows.get(self._groups[item_id], self._groups[item_id]),
                    "language": self._languages[item_id],
                }
                for item_id in sorted(self._changed)
            ],
        )
        empty = [
            group
            for group, members in self._members.items()
            if not members and group < FIRST_TEMPORARY_ID
        ]
        for piece in batched(empty):
            self._connection.execute(delete(TranslationGroup).where(TranslationGroup.id.in_(piece)))

    def _store_new_groups(self) -> dict[int, int]:
        """Store the new groups, and return the stored id for each temporary id."""
        new = [group for group in sorted(self._heads) if self._members[group]]
        if not new:
            return {}
        ids = insert_with_ids(
            self._connection,
            TranslationGroup,
            [{"archive_id": self._archive_id, "head_item_id": self._heads[group]} for group in new],
        )
        return dict(zip(new, ids, strict=True))
