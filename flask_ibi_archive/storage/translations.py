"""Groups of translations, many at a time: read together, checked one by one, written together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from flask_ibi_archive.errors import RuleBroken
from flask_ibi_archive.storage.batches import batched
from flask_ibi_archive.storage.models import Item, TranslationGroup

#: Groups that are not written yet are numbered from here: they come after all that are.
NEW = 1 << 62


class TranslationGroups:
    """The groups that some items of an Archive stand in, inside the caller's transaction.

    :param items: the rows of all items that will be joined.
    """

    def __init__(self, connection: Connection, archive_id: int, items: Iterable[int]) -> None:
        self._connection = connection
        self._archive_id = archive_id
        self._languages: dict[int, str | None] = {}
        self._groups: dict[int, int] = {}
        self._members: dict[int, set[int]] = {}
        self._heads: dict[int, int] = {}
        self._changed: set[int] = set()
        self._read(Item.id, items)
        # there may be others in their groups
        self._read(Item.translation_group_id, self._members)

    def _read(self, column: Any, values: Iterable[int]) -> None:
        chosen = select(Item.id, Item.language, Item.translation_group_id)
        for piece in batched(list(values)):
            for item_id, language, group in self._connection.execute(
                chosen.where(column.in_(piece))
            ):
                self._languages[item_id] = language
                if group is not None:
                    self._groups[item_id] = group
                    self._members.setdefault(group, set()).add(item_id)

    def join(self, head_id: int, members: Mapping[str, int], ibi: str) -> None:
        """Put an item and its translations into one group.

        A member that states no language takes the one it is given.

        :param head_id: the item whose record lists the others.
        :param ibi: its identifier, for the message.
        :raises RuleBroken: rule 8, where a member states another language, or one occurs twice.
        """
        if len(set(members.values())) < len(members):
            raise RuleBroken(8, ibi, "one item stands there for two languages")
        for language, member_id in members.items():
            stated = self._languages[member_id]
            if stated not in (None, language):
                raise RuleBroken(
                    8, ibi, f"its translation into {language} states the language {stated}"
                )
        ids = {head_id, *members.values()}
        groups = {self._groups[item_id] for item_id in ids if item_id in self._groups}
        everybody = ids.union(*(self._members[group] for group in groups))
        told = {member_id: language for language, member_id in members.items()}
        languages = [told.get(item_id, self._languages[item_id]) for item_id in everybody]
        for stated in set(languages) - {None}:
            if languages.count(stated) > 1:
                raise RuleBroken(8, ibi, f"two items of its group of translations are in {stated}")
        group = self._groups.get(head_id) or min(groups, default=0) or self._new_group(head_id)
        for item_id in everybody:
            language_now = told.get(item_id, self._languages[item_id])
            if (self._groups.get(item_id), self._languages[item_id]) != (group, language_now):
                self._groups[item_id], self._languages[item_id] = group, language_now
                self._changed.add(item_id)
        for merged in groups - {group}:
            self._members[merged] = set()
        self._members[group] = everybody

    def _new_group(self, head_id: int) -> int:
        group = NEW + len(self._heads)
        self._heads[group] = head_id
        return group

    def write(self) -> None:
        """Write the groups as they are now."""
        rows = self._write_new()
        table: Any = Item.__table__
        if self._changed:
            self._connection.execute(
                update(table)
                .where(table.c.id == bindparam("item"))
                .values(translation_group_id=bindparam("group"), language=bindparam("told")),
                [
                    {
                        "item": item_id,
                        "group": rows.get(self._groups[item_id], self._groups[item_id]),
                        "told": self._languages[item_id],
                    }
                    for item_id in sorted(self._changed)
                ],
            )
        empty = [group for group, members in self._members.items() if not members and group < NEW]
        for piece in batched(empty):
            self._connection.execute(delete(TranslationGroup).where(TranslationGroup.id.in_(piece)))

    def _write_new(self) -> dict[int, int]:
        """Write the new groups down and give their rows."""
        new = [group for group in sorted(self._heads) if self._members[group]]
        if not new:
            return {}
        rows = self._connection.scalars(
            insert(TranslationGroup).returning(TranslationGroup.id, sort_by_parameter_order=True),
            [{"archive_id": self._archive_id, "head_item_id": self._heads[group]} for group in new],
        )
        return dict(zip(new, rows, strict=True))
