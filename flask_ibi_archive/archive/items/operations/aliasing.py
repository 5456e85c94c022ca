"""Add and remove single entries of the field ``same_as``: for one item, or for many from a file.

Only Originals and removed items change: a Copy has the aliases of its Original. A change of an
Original sets its timestamp, so that harvesters read it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import case, delete, func, select, update

from flask_ibi_archive.archive.items.bulk import prepare_for_many_rows
from flask_ibi_archive.archive.items.items import ItemStore
from flask_ibi_archive.archive.items.locks import lock_items
from flask_ibi_archive.archive.items.operations.context import (
    HasContext,
    canonicalize,
    find_item,
    note,
)
from flask_ibi_archive.archive.items.rules import RULES
from flask_ibi_archive.archive.items.same_as import (
    add_same_as,
    explain_taken,
    find_holders,
)
from flask_ibi_archive.archive.items.tables import Item, SameAs
from flask_ibi_archive.core.identifiers.foreign import ForeignIdentifier, parse_foreign
from flask_ibi_archive.core.protocol.states import ELSEWHERE, State
from flask_ibi_archive.errors import IBIError, StorageError, UnknownItem
from flask_ibi_archive.server.database.dialects import batched, is_one_of
from flask_ibi_archive.signals import item_changed

#: The number of aliases that are stored together.
BATCH = 2000


@dataclass(frozen=True, slots=True)
class NewAlias:
    """An alias for an item.

    :param line: the line that states the alias. The first line is 1.
    :param ibi: an identifier of the item, in canonical case.
    """

    line: int
    ibi: str
    alias: ForeignIdentifier


@dataclass(frozen=True, slots=True)
class WrongAlias:
    """A line with an alias that cannot be stored.

    :param field: the wrong column, ``identifier`` or ``alias``; None if the line is wrong.
    :param reason: what is wrong and what would be right.
    """

    line: int
    field: str | None
    reason: str


class _Rollback(Exception):
    """Raised to roll back the transaction: of a dry run, or after errors."""


@dataclass
class AliasResult:
    """The numbers of added aliases, of aliases that the items had already, and of wrong lines."""

    added: int = 0
    unchanged: int = 0
    errors: int = 0


def add_aliases(
    archive: HasContext,
    lines: Iterable[NewAlias | WrongAlias],
    on_error: Callable[[WrongAlias], None],
    *,
    dry_run: bool = False,
) -> AliasResult:
    """Add aliases to items in one transaction. If a line is wrong, no alias is added.

    :param lines: the aliases. They are read in batches.
    :param on_error: called with each wrong line, in any order.
    :param dry_run: True to change nothing.
    :raises StorageError: if another process stores one of the aliases at the same time.
    """
    result = AliasResult()

    def report(error: WrongAlias) -> None:
        result.errors += 1
        on_error(error)

    def select_parsed() -> Iterator[NewAlias]:
        for line in lines:
            if isinstance(line, WrongAlias):
                report(line)
            else:
                yield line

    try:
        with archive.context.transaction() as store:
            now = archive.context.now()
            for part in batched(select_parsed(), BATCH):
                _AliasBatch(store, part, report).write(result, now)
            if dry_run or result.errors:
                raise _Rollback
    except _Rollback:
        pass
    return result


@dataclass
class _AliasBatch:
    """Lines whose aliases are stored together.

    :ivar owners: the row ID and the state of the item with each identifier.
    :ivar services: those of the row IDs that are the service of the Archive.
    """

    store: ItemStore
    lines: Sequence[NewAlias]
    report: Callable[[WrongAlias], None]
    owners: Mapping[str, tuple[int, str]] = field(init=False)
    services: set[int] = field(init=False)

    def write(self, result: AliasResult, now: datetime) -> None:
        """Store the aliases, except those that are wrong."""
        store, connection = self.store, self.store.connection
        prepare_for_many_rows(connection)
        texts = {line.ibi for line in self.lines}
        lock_items(connection, [item_id for item_id, _ in store.find_owners([*texts]).values()])
        self.owners = store.find_owners([*texts])
        ids = [item_id for item_id, _ in self.owners.values()]
        self.services = set(
            connection.scalars(
                select(Item.id).where(is_one_of(connection, Item.id, ids), Item.is_service)
            )
        )
        digests = [line.alias.digest for line in self.lines]
        holders = find_holders(connection, store.archive_id, digests)
        last = connection.execute(
            select(SameAs.item_id, func.max(SameAs.position).label("position"))
            .where(is_one_of(connection, SameAs.item_id, ids))
            .group_by(SameAs.item_id)
        ).all()
        positions: dict[int, int] = {row.item_id: row.position for row in last}
        new: list[tuple[int, int, str]] = []
        for line in self.lines:
            wrong = self._find_error(line, holders)
            if wrong is not None:
                self.report(wrong)
                continue
            item_id, _ = self.owners[line.ibi]
            if line.alias.digest in holders:
                result.unchanged += 1
                continue
            holders[line.alias.digest] = item_id, line.ibi
            position = positions[item_id] = positions.get(item_id, -1) + 1
            new.append((item_id, position, line.alias.text))
        add_same_as(connection, store.archive_id, new)
        result.added += len(new)
        note_changed_aliases(store, [item_id for item_id, _, _ in new], now)

    def _find_error(
        self, line: NewAlias, holders: Mapping[str, tuple[int, str]]
    ) -> WrongAlias | None:
        item_id, state = self.owners.get(line.ibi, (0, ELSEWHERE))
        if state == ELSEWHERE:
            return WrongAlias(line.line, "identifier", str(UnknownItem(line.ibi)))
        if item_id in self.services:
            return WrongAlias(line.line, "identifier", f"{line.ibi}: {RULES[6]}")
        if state == State.COPY.value:
            return WrongAlias(line.line, "identifier", explain_copy(line.ibi))
        owner, name = holders.get(line.alias.digest, (item_id, ""))
        if owner != item_id:
            return WrongAlias(line.line, "alias", explain_taken(line.alias.text, name))
        return None


def remove_aliases(archive: HasContext, ibi: str, aliases: Sequence[ForeignIdentifier]) -> None:
    """Remove aliases of an item. Another item may get them.

    :raises StorageError: if the item does not have one of the aliases, or if it is a Copy.
    :raises UnknownItem: if there is no such item.
    """
    context = archive.context
    with context.transaction(canonicalize(ibi)) as store:
        item_id, _ = find_item(store, ibi)
        lock_items(store.connection, [item_id])
        record = store.reader.read_record(item_id)
        if record.state == State.COPY.value:
            raise StorageError(explain_copy(canonicalize(ibi)))
        present = {parse_foreign(text).digest for text in record.same_as}
        for alias in aliases:
            if alias.digest not in present:
                known = ", ".join(record.same_as) or "none"
                raise StorageError(
                    f"{alias.text} is not an alias of {canonicalize(ibi)}; the aliases are: {known}"
                )
        digests = [alias.digest for alias in aliases]
        store.connection.execute(
            delete(SameAs).where(SameAs.archive_id == store.archive_id, SameAs.digest.in_(digests))
        )
        note_changed_aliases(store, [item_id], context.now())


def list_aliases(archive: HasContext, ibi: str | None = None) -> Iterator[tuple[str, str]]:
    """Yield identifiers and aliases, in the order of the items.

    :param ibi: an identifier of the item; None: of all items.
    """
    context = archive.context
    with context.database.snapshot() as connection:
        store = ItemStore(connection, context.archive.id)
        statement = (
            select(func.coalesce(Item.ibip, Item.rep), SameAs.text)
            .join(Item, Item.id == SameAs.item_id)
            .where(SameAs.archive_id == store.archive_id)
            .order_by(SameAs.item_id, SameAs.position)
        )
        if ibi is not None:
            statement = statement.where(SameAs.item_id == find_item(store, ibi)[0])
        rows = store.connection.execute(statement.execution_options(yield_per=BATCH))
        for name, text in rows:
            yield str(name), text


def note_changed_aliases(store: ItemStore, items: Sequence[int], now: datetime) -> None:
    """Set the timestamps of changed Originals, and note the signals of their changes.

    Removed items keep their timestamps, which are the times of their removal.

    :param items: the row IDs of the items.
    """
    ids = sorted(set(items))
    is_original = Item.state == State.ORIGINAL.value
    changed: dict[str, Any] = {"timestamp": case((is_original, now), else_=Item.timestamp)}
    store.connection.execute(
        update(Item).where(is_one_of(store.connection, Item.id, ids)).values(changed)
    )
    if item_changed.receivers:
        for item in store.reader.read_items(ids).values():
            if item.record.state == State.ORIGINAL.value:
                record = item.record
                note(store, item_changed, record, state=record.state, fields=("same_as",))


def explain_copy(ibi: str) -> str:
    """Return the message that the aliases of a Copy cannot be changed."""
    return (
        f"{ibi} is a Copy, which has the aliases of its Original; change those of the Original, "
        "and update the Copy with flask ibi copy"
    )


def parse_alias_line(line: int, ibi: str, alias: str) -> NewAlias | WrongAlias:
    """Return the alias that a line states, or what is wrong with the line."""
    name = "identifier"
    try:
        text = canonicalize(ibi)
        name = "alias"
        return NewAlias(line, text, parse_foreign(alias))
    except IBIError as error:
        return WrongAlias(line, name, str(error))
