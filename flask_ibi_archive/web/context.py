"""What every view needs of the app it runs in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from flask import current_app, has_request_context, request

from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.archive.viewing import ItemView
from flask_ibi_archive.config import Network
from flask_ibi_archive.storage.request_budget import Budget
from flask_ibi_archive.web.client import client_addresses

EXTENSION = "ibi_archive"
RESOLVER_EXTENSION = "ibi_resolver"
#: Where a request keeps how long it may still wait for databases.
BUDGET = "ibi.database_budget"
#: The address of a user whose own is not known: the unspecified one, which nobody has.
UNKNOWN = "0.0.0.0"


def current_archive() -> ArchiveService:
    """Return the Archive that the current app serves."""
    return cast(ArchiveService, current_app.extensions[EXTENSION].archive)


def current_addresses() -> tuple[str, ...]:
    """Return the addresses that the request came through: the user's, then the proxies'.

    :returns: at least one, the first :data:`UNKNOWN` where the user's is not known.
    """
    addresses = client_addresses(
        request.remote_addr, request.headers.getlist("X-Forwarded-For"), _trusted_proxies()
    )
    return addresses or (UNKNOWN,)


def current_user() -> str:
    """Return the address of the user who asks, :data:`UNKNOWN` where it is not known."""
    return current_addresses()[0]


def _trusted_proxies() -> Sequence[Network]:
    """Return the proxies that are believed: an Archive and a resolver of one app share the setting."""
    extensions: dict[str, Any] = current_app.extensions
    if EXTENSION in extensions:
        return current_archive().config.trusted_proxies
    return cast(Sequence[Network], extensions[RESOLVER_EXTENSION].resolver.config.trusted_proxies)


def find_budget(timeout: float) -> Budget | None:
    """Return how long the current request may still wait for databases; None outside of requests.

    :param timeout: the seconds that a request may wait in all.
    """
    if not has_request_context():
        return None
    # not flask.g, which belongs to the app's context and may outlive the request
    environ = request.environ
    budget: Budget | None = environ.get(BUDGET)
    if budget is None:
        budget = environ[BUDGET] = Budget(timeout)
    return budget


def view_item(ibi: str) -> ItemView | None:
    """Return an item as the user who asks may see it; see :meth:`ArchiveService.view`.

    An unknown user is outside every rule, even one that allows all networks.
    """
    item = current_archive().view(ibi)
    if item is None or item.record.access is None or current_user() != UNKNOWN:
        return item
    closed = replace(item.record.access, networks=())
    return replace(item, record=replace(item.record, access=closed))
