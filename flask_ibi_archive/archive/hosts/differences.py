"""Finds the rows that differ from their items, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from flask_ibi_archive.archive.hosts.assigning import find_lost
from flask_ibi_archive.archive.hosts.identified_item import (
    DescribedRow,
    IdentifiedItem,
    describe,
    describe_error,
    name_row,
)
from flask_ibi_archive.archive.hosts.measuring_staging import MeasuringStaging
from flask_ibi_archive.archive.hosts.row_edits import RowEdits, check_owner, select_items
from flask_ibi_archive.archive.hosts.row_keys import ForeignIdentifier
from flask_ibi_archive.archive.hosts.row_links import find_changed_links
from flask_ibi_archive.archive.items.operations import (
    OperationContext,
    UpdateBatch,
)
from flask_ibi_archive.archive.items.read import find_held
from flask_ibi_archive.archive.items.write import ItemStore, find_changed_fields
from flask_ibi_archive.errors import RowError, StorageError

# The kinds of differences.
LOST = "lost identifier"
NO_ITEM = "no item"
NO_ROW = "no row"
RECORD = "record"
FOREIGN = "identifier of another row"
WRONG = "wrong row"

#: The fields of a description whose comparison may take long.
FILES = ("files", "target_file")


@dataclass(frozen=True, slots=True)
class Difference:
    """A row and an item that differ, or one of them without the other.

    :param kind: one of the kinds above.
    :param row: the class and the primary key of the row, or the key of a missing row.
    :param ibi: the identifier of the item; None if the row has no item.
    :param text: the difference in words.
    :param repaired: whether the difference was repaired.
    """

    kind: str
    row: str
    ibi: str | None
    text: str
    repaired: bool = False


def find_differences(
    context: OperationContext, rows: Sequence[IdentifiedItem], with_files: bool = True
) -> list[tuple[IdentifiedItem, Difference]]:
    """Return the rows that differ from their items.

    :param context: the result of :func:`.current_archive.bind` for the session of the rows.
    :param with_files: whether the files are compared.
    """
    found: list[tuple[IdentifiedItem, Difference]] = []
    described: list[DescribedRow] = []
    lost = find_lost(context, [row for row in rows if row.ibi is None])
    for row in rows:
        holder = lost.get(id(row))
        if holder is not None:
            text = f"the row has lost its identifier {holder.ibi}"
            found.append((row, Difference(LOST, name_row(row), holder.ibi, text)))
        elif row.ibi is None:
            text = "the row has no identifier and no item"
            found.append((row, Difference(NO_ITEM, name_row(row), None, text)))
        else:
            try:
                described.append(_describe(row, with_files))
            except RowError as error:
                found.append((row, _make_wrong(row, error)))
    with context.reading() as store:
        found += _find_described(context, store, described)
    return found


def _find_described(
    context: OperationContext, store: ItemStore, described: Sequence[DescribedRow]
) -> Iterator[tuple[IdentifiedItem, Difference]]:
    """Yield the rows that have identifiers, but differ from their items."""
    texts = [text for one in described for text in one.identifiers]
    items = select_items(store.find_owners(texts))
    unknown = [text for text in texts if text not in items]
    held = find_held(store.connection, store.archive_id, unknown)
    for one in described:
        if one.ibi in items:
            continue
        key = held.get(one.ibi)
        try:
            check_owner(context, one, key)
        except ForeignIdentifier as error:
            yield one.row, _make_wrong(one.row, error)
            continue
        if one.state != "Reserved" or one.ibi not in held:
            text = f"the identifier {one.row.ibi} of the row has no item"
            yield one.row, Difference(NO_ITEM, one.name, one.row.ibi, text)
        elif one.key not in (None, key):
            # with the old key, the row would not get its identifier back if the columns were lost
            text = f"the reserved identifier {one.row.ibi} differs in: key"
            yield one.row, Difference(RECORD, one.name, one.row.ibi, text)
    existing = [one for one in described if one.ibi in items]
    yield from _find_changed(context, store, existing, items)


def _find_changed(
    context: OperationContext,
    store: ItemStore,
    existing: Sequence[DescribedRow],
    items: Mapping[str, int],
) -> Iterator[tuple[IdentifiedItem, Difference]]:
    """Yield the rows whose items would change if the rows were written."""
    edits = RowEdits(context, store, MeasuringStaging(context.folder))
    try:
        updates = UpdateBatch(store, edits.find(existing, (), items)).updates
        links, _ = find_changed_links(store, list(edits.links.values()))
    except StorageError as error:
        if len(existing) == 1:
            yield existing[0].row, _make_wrong(existing[0].row, error)
        else:
            for one in existing:
                yield from _find_changed(context, store, [one], items)
        return
    linked = {link.item_id for link in links}
    for one in existing:
        item_id = items[one.ibi]
        names = ["relations"] if item_id in linked else []
        if item_id in updates:
            update = updates[item_id]
            names += find_changed_fields(update.before, update.record)
        names = [name for name in names if name != "timestamp"]
        if names:
            text = f"the item {one.row.ibi} differs in: {', '.join(names)}"
            yield one.row, Difference(RECORD, one.name, one.row.ibi, text)


def _describe(row: IdentifiedItem, with_files: bool) -> DescribedRow:
    """Return the description of a row, with or without the fields of its files.

    :raises RowError: also if the method of the host raises another exception.
    """
    try:
        described = describe(row)
    except RowError:
        raise
    except Exception as error:
        raise RowError(name_row(row), None, describe_error(error)) from error
    if with_files:
        return described
    given = {name: value for name, value in described.given.items() if name not in FILES}
    return replace(described, given=given)


def _make_wrong(row: IdentifiedItem, error: StorageError) -> Difference:
    """Return the difference of a row that cannot be compared with its item."""
    kind = FOREIGN if isinstance(error, ForeignIdentifier) else WRONG
    name = name_row(row)
    return Difference(kind, name, row.ibi, str(error).removeprefix(f"{name}: "))
