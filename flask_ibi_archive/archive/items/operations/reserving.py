"""Reserve identifiers for drafts, and release them."""

from __future__ import annotations

from flask_ibi_archive.archive.items.identifiers import (
    RELEASED,
    Reservation,
    add_reservation,
    read_reservations,
    settle_reservation,
)
from flask_ibi_archive.archive.items.minting import Minted
from flask_ibi_archive.archive.items.operations.context import (
    HasContext,
    canonicalize,
    validate_note,
)
from flask_ibi_archive.archive.items.operations.description import Identified, require_ibi
from flask_ibi_archive.archive.items.operations.noting import note as note_signal
from flask_ibi_archive.signals import item_minted


def reserve(archive: HasContext, note: str | None = None) -> Minted:
    """Mint an identifier, and reserve the identifier for a draft.

    ::

        draft = ibi.archive.reserve(note="thesis of Ana Silva")
        ibi.archive.deposit(title="...", files=["thesis.pdf"], reserved=draft.ibi)

    No other item can get a reserved identifier.

    :param note: the purpose of the reservation.
    :raises MintingError: if no identifier can be minted now.
    """
    text = validate_note(note)
    context = archive.own_context
    with context.new_item(context.get_minter()) as (store, minted):
        add_reservation(
            store.connection, store.archive_id, minted.rep, minted.ibip, text, context.now()
        )
        note_signal(store, item_minted, minted)
    return minted


def release(archive: HasContext, ibi: str | Identified) -> None:
    """End the reservation of an identifier. The identifier is never issued again.

    ::

        ibi.archive.release(draft.ibi)

    :raises StorageError: if the identifier is not reserved for a draft of this Archive.
    """
    text = canonicalize(require_ibi(ibi))
    context = archive.own_context
    with context.transaction(text) as store:
        settle_reservation(store.connection, store.archive_id, text, RELEASED, context.now())


def reservations(archive: HasContext) -> list[Reservation]:
    """Return the reservations of the Archive. The oldest reservation is the first."""
    with archive.own_context.reading() as store:
        return read_reservations(store.connection, store.archive_id)
