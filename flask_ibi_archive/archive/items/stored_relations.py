"""Stores the relations between items: next editions, metadata items and groups of translations.

A reference to an item is the identifier of this item, as text. The item may be in this Archive or
in another one, or may be imported later: the reference is stored in the same way. The primary form
of an item is its rep, or the ibip of an item without a rep. Three rules keep references simple:

- A reference to an item of this Archive is the primary form of the item. Therefore two references
  to the same item have equal texts, and unique constraints enforce rule 7 (an item is the next
  edition of at most one item) and rule 8 (an item is in at most one group of translations).
- When an item is stored, or gets another identifier, references to any of its identifiers are
  replaced by its primary form (:meth:`Relations.rewrite`). If two items then have the same next
  edition, the item is refused; groups that contain the same item are merged.
- The language of a member of a group is the language of the item. An item without a language gets
  the one that the group states for it. Only the head of a group, which is the item whose record
  lists the others, may have none.

The next edition and the metadata item are columns of the item. The members of a group are rows that
name the head. Triggers refuse circles of editions, references to items of the Archive that do not
have the primary form, and members with another language than the item has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from flask_ibi_archive.archive.items.ownership import find_owners
from flask_ibi_archive.archive.items.tables import (
    ARCHIVE,
    ArchiveRow,
    Item,
    ItemIdentifier,
    Translation,
    primary_form,
)
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import RuleBroken
from flask_ibi_archive.server.database.dialects import is_listed

#: The maximum number of seconds that a transaction waits for the lock on relations. The limit is
#: necessary, because the transaction of a host may hold the lock for a long time.
LOCK_WAIT = 5.0

#: The lock of a transaction that changes counts of accesses in any order, on PostgreSQL. A
#: transaction that stores one access has the same lock, shared. SQLite needs no lock.
STORING_KEY = int.from_bytes(b"ibi_accs", "big")
STORING = f"SELECT pg_advisory_xact_lock({STORING_KEY})"
#: Locks the counts of accesses together with other accesses, but not with :data:`STORING`.
COUNTING = f"SELECT pg_advisory_xact_lock_shared({STORING_KEY})"

#: Sets the limit in milliseconds, unless the present limit is lower. Returns the present limit.
_LIMIT_WAIT = sa.text(
    "SELECT setting, set_config('lock_timeout',"
    " least(nullif(CAST(setting AS bigint), 0), CAST(:limit AS bigint))::text, true)"
    " FROM pg_settings WHERE name = 'lock_timeout'"
)
_RESTORE_WAIT = sa.text("SELECT set_config('lock_timeout', :setting, true)")


def lock_relations(
    connection: sa.Connection,
    archives: Collection[int],
    items: Collection[int] = (),
    limited: bool = True,
) -> None:
    """Lock the relations of Archives, and items, until the end of the transaction.

    Without locks, another transaction could change a relation or a record between reading and
    writing. Each operation and each flush locks in the same order: first the rows of the Archives,
    then those of the items, in the order of their ids. Therefore two of them cannot wait for each
    other. A transaction of a host with several flushes may lock in another order. If PostgreSQL
    then ends the transaction because of a deadlock, the host gets the error of the driver, and may
    repeat the transaction. SQLite needs no locks, because it has only one write transaction at a
    time.

    :param archives: the row IDs of the Archives.
    :param items: the row IDs of the items whose relations or records change.
    :param limited: whether to wait at most :data:`LOCK_WAIT` seconds for each lock.
    :raises DBAPIError: if a lock is not free in time.
    """
    if connection.dialect.name == "sqlite":
        return
    if limited:
        limit = {"limit": int(LOCK_WAIT * 1000)}
        before = connection.execute(_LIMIT_WAIT, limit).scalar_one()
    connection.execute(_LOCKS[ArchiveRow], {"ids": archives})
    lock_items(connection, items)
    if limited:  # after an error, the rollback restores the setting
        connection.execute(_RESTORE_WAIT, {"setting": before})


def lock_items(connection: sa.Connection, items: Collection[int]) -> None:
    """Lock items whose records change, but not their relations.

    :param items: the row IDs of the items.
    """
    if items and connection.dialect.name != "sqlite":
        connection.execute(_LOCKS[Item], {"ids": items})


class Member(NamedTuple):
    """A member of a group of translations.

    :param ibi: the primary form of the item.
    :param head: the primary form of the head: the member whose record lists the others.
    :param item_id: the row ID; None if the member is not in this Archive. Also ``state``.
    """

    ibi: str
    head: str
    language: str | None
    item_id: int | None = None
    state: str | None = None


# The statements are constant, because SQLAlchemy needs more time to make them than to run them.
# They search for the items or the texts of the list "texts".
_LOCKS = {
    model: sa.select(model.id)
    .where(is_listed(model.id, "ids"))
    .order_by(model.id)
    .with_for_update(key_share=True)
    for model in (ArchiveRow, Item)
}
#: The references to identifiers: the column, the text, the head of the group, and the language in
#: the group. A metadata item has one row only.
_REFERENCES = sa.union_all(
    *(
        sa.select(
            sa.literal(column.key).label("column"),
            column.label("text"),
            head.label("head"),
            language.label("language"),
        )
        .where(column.class_.archive_id == ARCHIVE, is_listed(column, "texts"))
        .distinct()
        for column, head, language in (
            (Item.next_edition, sa.null(), sa.null()),
            (Item.metadata_ibi, sa.null(), sa.null()),
            (Translation.ibi, Translation.head, Translation.language),
        )
    )
)
_IS_MEMBER = sa.and_(Translation.archive_id == ARCHIVE, is_listed(Translation.ibi, "texts"))
_HEADS = sa.select(Translation.ibi, Translation.head).where(_IS_MEMBER)
_GROUPS = (
    sa.select(
        Translation.ibi,
        Translation.head,
        Translation.language,
        ItemIdentifier.item_id,
        ItemIdentifier.state,
    )
    .outerjoin(
        ItemIdentifier,
        sa.and_(ItemIdentifier.text == Translation.ibi, ItemIdentifier.archive_id == ARCHIVE),
    )
    .where(Translation.archive_id == ARCHIVE, is_listed(Translation.head, "texts"))
    .order_by(ItemIdentifier.item_id, Translation.ibi)
)
_PREVIOUS = sa.select(Item.next_edition, primary_form()).where(
    Item.archive_id == ARCHIVE, is_listed(Item.next_edition, "texts")
)
_NEXT = (
    sa.select(Item.next_edition)
    .join(ItemIdentifier, ItemIdentifier.item_id == Item.id)
    .where(ItemIdentifier.text == sa.bindparam("ibi"), ItemIdentifier.archive_id == ARCHIVE)
)
_REMOVE, _INSERT = sa.delete(Translation).where(_IS_MEMBER), sa.insert(Translation)


@dataclass(frozen=True, slots=True)
class Relations:
    """The relations between the items of one Archive.

    The methods use the transaction of the caller. Arguments and results name items by their primary
    forms.
    """

    connection: sa.Connection
    archive_id: int

    def _execute(self, statement: Any, texts: Collection[str]) -> Any:
        return self.connection.execute(statement, {"archive_id": self.archive_id, "texts": texts})

    # --- references ------------------------------------------------------------------------------

    def rewrite(self, names: Mapping[str, Iterable[str]]) -> dict[str, str | None]:
        """Replace each identifier of new or changed items, in all relations, by the primary form.

        Call this method before the new identifiers are stored.

        :param names: all identifiers of each item, by its primary form.
        :returns: the primary form of each of these items that is in a group of translations, with
            the language that the group states for the item.
        :raises RuleBroken: rule 8, if two groups contain an item in different languages.
        """
        primary = {text: ibi for ibi, texts in names.items() for text in texts}
        members: dict[str, list[sa.Row[Any]]] = {}
        for row in self._execute(_REFERENCES, primary).all():
            ibi = primary[row.text]
            if row.column == Translation.ibi.key:
                members.setdefault(ibi, []).append(row)
            elif row.text != ibi:
                column = getattr(Item, row.column)
                self.connection.execute(
                    sa.update(Item)
                    .where(Item.archive_id == self.archive_id, column == row.text)
                    .values({column: ibi})
                )
        for ibi, rows in members.items():
            self._rewrite_member(ibi, rows)
        return {ibi: rows[0].language for ibi, rows in members.items()}

    def _rewrite_member(self, ibi: str, rows: list[sa.Row[Any]]) -> None:
        """Replace the identifiers of an item in groups by its primary form, and merge the groups.

        :param rows: the rows of the groups that contain an identifier of the item.
        """
        if len({row.language for row in rows}) > 1:
            languages = " and ".join(sorted(str(row.language) for row in rows))
            raise RuleBroken(
                8,
                ibi,
                f"the records of other items list this item as translations into {languages}",
            )
        texts = [row.text for row in rows]
        if texts == [ibi]:
            return
        heads = sorted({ibi if row.head in texts else row.head for row in rows})
        is_group = Translation.archive_id == self.archive_id
        self.connection.execute(sa.delete(Translation).where(is_group, Translation.ibi.in_(texts)))
        self.connection.execute(
            sa.update(Translation)
            .where(is_group, Translation.head.in_([row.head for row in rows]))
            .values(head=heads[0])
        )
        self.insert([Member(ibi, heads[0], rows[0].language)])

    # --- editions --------------------------------------------------------------------------------

    def set_next_edition(self, item_id: int, next_edition: str | None) -> None:
        """Store the next edition of an item.

        :param next_edition: a primary form, or an identifier that is not in this Archive.
        """
        self.connection.execute(
            sa.update(Item).where(Item.id == item_id).values(next_edition=next_edition)
        )

    def find_last_edition(self, ibi: str) -> tuple[str, bool]:
        """Return the last edition of an item, and whether this edition is in this Archive."""
        while True:
            values = {"archive_id": self.archive_id, "ibi": ibi}
            found = self.connection.execute(_NEXT, values).first()
            if found is None or found.next_edition is None:
                return ibi, found is not None
            ibi = found.next_edition

    def find_previous(self, items: Collection[str]) -> dict[str, str]:
        """Return the previous editions, by item. An item without a previous edition is missing."""
        rows = self._execute(_PREVIOUS, items)
        return {str(following): ibi for following, ibi in rows}

    # --- translations ----------------------------------------------------------------------------

    def _read_groups(self, heads: Collection[str]) -> list[Member]:
        """Return all members of the groups whose heads are given."""
        return [Member(*row) for row in self._execute(_GROUPS, heads)]

    def find_members(self, ibi: str) -> list[Member]:
        """Return the members of the group of an item, including the item.

        The list is empty if the item is in no group.
        """
        return self._read_groups(self.find_heads([ibi]).values())

    def find_others(self, ibi: str) -> dict[str, str]:
        """Return the other members of the group of an item, by language."""
        return {
            member.language: member.ibi
            for member in self.find_members(ibi)
            if member.ibi != ibi and member.language is not None
        }

    def find_heads(self, items: Collection[str]) -> dict[str, str]:
        """Return the head of the group of each item, by item. Items in no group are missing."""
        return {row.ibi: row.head for row in self._execute(_HEADS, items)}

    def join(self, lists: Mapping[str, Mapping[str, str]]) -> None:
        """Put items into one group with the translations that their records list.

        Groups that contain one of them are merged. A member without a language gets that of the
        list. All items of this Archive must be stored.

        :param lists: for each item, the translations that its record lists, by language.
        :raises RuleBroken: rule 8, if a member states another language than the list.
        """
        named = {text for head, members in lists.items() for text in (head, *members.values())}
        items = find_owners(self.connection, self.archive_id, named)
        before = {
            member.ibi: member for member in self._read_groups(set(self.find_heads(named).values()))
        }
        groups = {ibi: member.head for ibi, member in before.items()}
        languages = {
            **{text: items[text].language if text in items else None for text in named},
            **{ibi: member.language for ibi, member in before.items()},
        }
        members_of: dict[str, set[str]] = {}
        for ibi, head in groups.items():
            members_of.setdefault(head, set()).add(ibi)
        for head, listed in lists.items():
            for language, ibi in listed.items():
                stated = languages[ibi]
                if stated not in (None, language):
                    raise RuleBroken(
                        8,
                        head,
                        f"the item lists a translation into {language}, but this translation "
                        f"states the language {stated}",
                    )
                languages[ibi] = language
            present = {groups[ibi] for ibi in (head, *listed.values()) if ibi in groups}
            everybody = {head, *listed.values()}.union(*(members_of[group] for group in present))
            if len(everybody) < 2:  # the item lists itself
                continue
            group = groups.get(head) or min(present, default=head)
            groups.update(dict.fromkeys(everybody, group))
            members_of[group] = everybody
        changed = [
            Member(ibi, group, languages[ibi])
            for ibi, group in sorted(groups.items())
            if ibi not in before or before[ibi][:3] != (ibi, group, languages[ibi])
        ]
        self.remove([member.ibi for member in changed if member.ibi in before])
        new = [
            {"item": items[ibi].id, "new": languages[ibi]}
            for ibi in sorted(named & items.keys())
            if items[ibi].language != languages[ibi]
        ]
        if new:
            table: Any = Item.__table__
            self.connection.execute(
                sa.update(table)
                .where(table.c.id == sa.bindparam("item"))
                .values(language=sa.bindparam("new")),
                new,
            )
        self.insert(changed)

    def add_translation(self, ibi: str, other: str, language: str) -> None:
        """Put a new item into the group of another item.

        :param language: the language of the new item.
        """
        self.join({self.find_heads([other]).get(other, other): {language: ibi}})

    def leave(self, ibi: str) -> None:
        """Remove an item from its group permanently.

        The other members stay in the group. If the item was the head, another member becomes the
        head. The group is deleted if only one member remains, or if no member is in this Archive.
        """
        members = self.find_members(ibi)
        if not members:
            return
        others = [member for member in members if member.ibi != ibi]
        here = [member for member in others if member.item_id is not None]
        if len(others) < 2 or not here:
            self.remove([member.ibi for member in members])
            return
        self.remove([ibi])
        if members[0].head == ibi:
            new = min(
                here, key=lambda member: (member.state == State.DELETED.value, member.item_id)
            )
            self.connection.execute(
                sa.update(Translation)
                .where(Translation.archive_id == self.archive_id, Translation.head == ibi)
                .values(head=new.ibi)
            )

    def dissolve(self, head: str) -> None:
        """Delete the group with a certain head; do nothing if there is no such group."""
        self.connection.execute(
            sa.delete(Translation).where(
                Translation.archive_id == self.archive_id, Translation.head == head
            )
        )

    def remove(self, members: Collection[str]) -> None:
        """Delete the rows of members of groups."""
        if members:
            self._execute(_REMOVE, members)

    def insert(self, members: Iterable[Member]) -> None:
        """Insert rows of members of groups."""
        rows = [
            {"archive_id": self.archive_id, "ibi": ibi, "head": head, "language": language}
            for ibi, head, language, *_ in members
        ]
        if rows:
            self.connection.execute(_INSERT, rows)
