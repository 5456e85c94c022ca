"""Orphans: items and reservations whose rows are missing, because bulk statements deleted them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Mapper

from flask_ibi_archive.archive.hosts.current_archive import connect_to_items, get_session
from flask_ibi_archive.archive.hosts.row_edits import Removal, RowEdits
from flask_ibi_archive.archive.hosts.row_keys import (
    build_key,
    build_prefix,
    connect_to_rows,
    find_uncarried,
    get_key_attributes,
    get_table,
    has_no_identifiers,
)
from flask_ibi_archive.archive.hosts.row_locks import BATCH, read_batches
from flask_ibi_archive.archive.items.files import Staging
from flask_ibi_archive.archive.items.operations import OperationContext, UpdateBatch
from flask_ibi_archive.archive.items.read import RELEASED, settle_reservation
from flask_ibi_archive.archive.items.write import (
    ItemStore,
    KeyHolder,
    find_holders,
    list_holders,
    read_holders,
)
from flask_ibi_archive.core.records.record import Tombstone


def read_orphans(context: OperationContext, mapper: Mapper[Any]) -> Iterator[list[KeyHolder]]:
    """Yield the items and reservations of a table whose rows are missing, in batches.

    No row has their identifiers, and no row that has lost its identifiers would get them back.

    :param context: the result of :func:`.current_archive.bind`.
    """
    connect, archive_id = partial(connect_to_items, context), context.archive.id
    lost: set[KeyHolder] | None = None
    for holders in read_holders(connect, archive_id, build_prefix(mapper)):
        orphans = find_uncarried(get_session(context), mapper, holders)
        if orphans:
            lost = set(_read_lost(context, mapper)) if lost is None else lost
            orphans = [one for one in orphans if one not in lost]
        # another transaction may have deleted a row and its item in the meantime
        present = set(list_holders(connect(), archive_id, [one.key for one in orphans]))
        yield [one for one in orphans if one in present]


def _read_lost(context: OperationContext, mapper: Mapper[Any]) -> Iterator[KeyHolder]:
    """Yield the items and reservations of rows that have lost their identifiers, by their keys."""
    key = list(get_key_attributes(mapper).values())
    statement = select(*key).where(has_no_identifiers(get_table(mapper)))
    connection = connect_to_rows(get_session(context), mapper)
    for rows in read_batches(lambda batch: connection.execute(batch).all(), statement, key, BATCH):
        keys = [build_key(mapper, row) for row in rows]
        yield from find_holders(connect_to_items(context), context.archive.id, keys).values()


def remove_orphans(
    context: OperationContext,
    store: ItemStore,
    staging: Staging,
    orphans: Sequence[KeyHolder],
    reason: str,
) -> None:
    """Delete the items, and release the reservations, whose rows a bulk statement has deleted."""
    edits = RowEdits(context, store, staging)
    items = {one.ibi: one.item_id for one in orphans if one.item_id is not None}
    removals = [Removal(None, one.key, one.ibi, Tombstone(reason)) for one in orphans]
    batch = UpdateBatch(store, edits.find((), removals, items))
    batch.lock()
    batch.write(edits.now)
    for one in orphans:
        if one.item_id is None:
            settle_reservation(store.connection, store.archive_id, one.ibi, RELEASED, edits.now)
