"""What every view needs of the app it runs in."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from flask import current_app, request

from flask_ibi_archive.service.archive import ArchiveService
from flask_ibi_archive.service.viewing import ItemView
from flask_ibi_archive.web.client import client_addresses

EXTENSION = "ibi_archive"
#: The address of a user whose own is not known: the unspecified one, which nobody has.
UNKNOWN = "0.0.0.0"


def current_archive() -> ArchiveService:
    """Give the Archive that the current app serves."""
    return cast(ArchiveService, current_app.extensions[EXTENSION].archive)


def current_user() -> str:
    """Give the address of the user who asks, :data:`UNKNOWN` where it is not known."""
    addresses = client_addresses(
        request.remote_addr,
        request.headers.getlist("X-Forwarded-For"),
        current_archive().config.trusted_proxies,
    )
    return addresses[0] if addresses else UNKNOWN


def view_item(ibi: str) -> ItemView | None:
    """Give an item as the user who asks may see it; see :meth:`ArchiveService.view`.

    An unknown user is outside every rule, even one that allows all networks.
    """
    item = current_archive().view(ibi)
    if item is None or item.record.access is None or current_user() != UNKNOWN:
        return item
    closed = replace(item.record.access, networks=())
    return replace(item, record=replace(item.record, access=closed))
