"""What every view needs of the app it runs in."""

from __future__ import annotations

from typing import cast

from flask import current_app, request

from flask_ibi_archive.service.archive import ArchiveService
from flask_ibi_archive.web.client import client_addresses

EXTENSION = "ibi_archive"


def current_archive() -> ArchiveService:
    """Give the Archive that the current app serves."""
    return cast(ArchiveService, current_app.extensions[EXTENSION].archive)


def current_user() -> str:
    """Give the address of the user who asks; the unspecified address where there is none."""
    addresses = client_addresses(
        request.remote_addr,
        request.headers.getlist("X-Forwarded-For"),
        current_archive().config.trusted_proxies,
    )
    return addresses[0] if addresses else "0.0.0.0"
