"""Holds identifiers for drafts."""

from __future__ import annotations

from flask_ibi_archive.archive.minting import Minted
from flask_ibi_archive.archive.operations.context import OperationContext, canonical, now
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.records import fields
from flask_ibi_archive.storage.reservations import (
    RELEASED,
    Reservation,
    hold,
    read_reservations,
    settle,
)


def reserve(place: OperationContext, note: str | None = None) -> Minted:
    """Return an identifier that is held for a draft: nobody else gets it, then or later.

    :param note: what it is for.
    :raises MintingError: if there is none now.
    """
    try:
        checked = None if note is None else fields.parse_text("note", note)
    except fields.FieldError as error:
        raise StorageError(str(error)) from error
    minted = place.mint()
    with place.transaction(minted.rep) as store:
        hold(store.connection, place.archive.id, minted.rep, minted.ibip, checked, now())
    return minted


def release(place: OperationContext, ibi: str) -> None:
    """Hold an identifier no longer; it is never given again.

    :raises StorageError: if no draft of this Archive holds it.
    """
    with place.transaction(canonical(ibi)) as store:
        settle(store.connection, place.archive.id, canonical(ibi), RELEASED, now())


def reservations(place: OperationContext) -> list[Reservation]:
    """Return the reservations of the Archive, the oldest first."""
    with place.reading() as store:
        return read_reservations(store.connection, place.archive.id)
