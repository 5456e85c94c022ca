"""Find the item that a host has deposited with a key."""

from __future__ import annotations

from typing import Any

from flask_ibi_archive.archive.items.items import ItemStore
from flask_ibi_archive.archive.items.keys import KeyHolder, find_holders, free_keys
from flask_ibi_archive.archive.items.minting import Minted
from flask_ibi_archive.archive.items.operations.context import (
    HasContext,
    OperationContext,
    canonicalize,
)
from flask_ibi_archive.archive.items.reading import ItemReader
from flask_ibi_archive.core.records.fields import FieldError, parse_key
from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.errors import StorageError


def find_key(archive: HasContext, key: str) -> ItemView | None:
    """Return the item that was deposited with a key, or None if no item has the key.

    ::

        item = ibi.archive.find_key("package:1a68")

    With the session of the host, the item need not be committed yet. An item that was deleted with
    :meth:`delete` keeps its key until another item is deposited with the key.

    :param key: the key of the deposit; or the table and the primary key of a row of the host's own
        model, such as ``thesis:7``.
    :raises StorageError: if the text is not a key.
    """
    context = archive.context
    with context.reading() as store:
        holder = _find_holder(store, key)
        if holder is None:
            return None
        reader = ItemReader(
            store.connection,
            store.archive_id,
            lambda sha256: str(context.folder.path(sha256)),
            today=context.now().date(),
            with_descriptions=True,
        )
        return reader.find_item(holder.ibi)


def find_deposited(context: OperationContext, key: Any, reserved: str | None) -> Minted | None:
    """Return the identifiers of the item that was deposited with a key and is not deleted.

    If the item has only one form of the identifier, both forms of the result are this form.

    :param reserved: the identifier that the caller has reserved for the item, or None.
    :raises StorageError: if the value is not a key, or if the item has another identifier than the
        reserved one.
    """
    with context.reading() as store:
        holder = _find_holder(store, key)
    if holder is None or holder.is_deleted:
        return None
    if reserved is not None and canonicalize(reserved) not in holder.identifiers:
        raise StorageError(
            f"key: the item {holder.ibi} already has the key {key}; its identifier can't become "
            f"{reserved}"
        )
    return Minted(holder.rep or holder.ibi, holder.ibip or holder.ibi)


def release_key(store: ItemStore, key: str) -> None:
    """Remove a key from the deleted item that has it, because a new item gets the key."""
    holder = _find_holder(store, key)
    if holder is not None and holder.is_deleted:
        free_keys(store.connection, store.archive_id, [holder])


def _find_holder(store: ItemStore, key: Any) -> KeyHolder | None:
    """Return the item that has a key; reservations do not count."""
    try:
        text = parse_key("key", key)
    except FieldError as error:
        raise StorageError(str(error)) from error
    holder = find_holders(store.connection, store.archive_id, [text]).get(text)
    return None if holder is None or holder.item_id is None else holder
