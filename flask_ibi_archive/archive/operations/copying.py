"""Makes and refreshes Copies in the Archives of one database."""

from __future__ import annotations

from dataclasses import replace

from flask_ibi_archive.archive.archives import ServedArchive, find_archives
from flask_ibi_archive.archive.operations.context import OperationContext, canonical, find_item, now
from flask_ibi_archive.archive.operations.updating import take_in
from flask_ibi_archive.errors import RuleBroken, UnknownItem
from flask_ibi_archive.storage.items import ItemStore
from flask_ibi_archive.storage.links import lock_archives
from flask_ibi_archive.storage.states import Event, State, next_state


def make_copy(place: OperationContext, ibi: str, to: str | None = None) -> None:
    """Make a Copy of an Original, or refresh the one that there is.

    It bears all identifiers of its Original and says all that is known of that, as of its
    timestamp. The contents of files are shared.

    :param to: the service IBI of the Archive that gets the Copy; None: this one, from the Archive
        of the database that holds the Original.
    :raises StorageError: if there is no such Archive.
    :raises RuleBroken: rule 4, if no other Archive of the database holds the Original, or it would
        be copied to where it is.
    :raises ForbiddenMove: if it is no Original, or what is there can't become its Copy.
    """
    with place.transaction(canonical(ibi)) as store:
        if to is None:
            source, target = _holder(place, store, ibi), place.archive
        else:
            source, target = place.archive, place.find_archive(store.connection, to)
        if source.id == target.id:
            raise RuleBroken(
                4, canonical(ibi), "an Archive holds no Copy of an Original of its own"
            )
        lock_archives(store.connection, [source.id, target.id])
        copy_over(ItemStore(store.connection, source.id), source, target, ibi)


def _holder(place: OperationContext, store: ItemStore, ibi: str) -> ServedArchive:
    """Return the Archive of the database that holds an Original."""
    found = store.archive_of_original(canonical(ibi))
    if found is None:
        if canonical(ibi) not in store.owners([canonical(ibi)]):
            raise UnknownItem(ibi)
        raise RuleBroken(4, canonical(ibi), "no Archive of this database holds its Original")
    return next(one for one in find_archives(store.connection) if one.id == found)


def copy_over(
    source_store: ItemStore, source: ServedArchive, target: ServedArchive, ibi: str
) -> None:
    """Write an Original of one Archive as a Copy into another; both are locked."""
    item_id, state = find_item(source_store, ibi)
    next_state(state, Event.BE_COPIED, canonical(ibi))
    record = replace(
        source_store.read_record(item_id),
        state=State.COPY.value,
        original_archive=source.service_ibi,
        translations=source_store.translations_of(item_id),
    )
    target_store = ItemStore(source_store.connection, target.id)
    take_in(target_store, record, source_store.contents_of(item_id), now(), Event.COPY)
