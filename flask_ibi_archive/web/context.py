"""The Archive of the current app, and how long the current request may wait for its database."""

from __future__ import annotations

from typing import cast

from flask import current_app, has_request_context, request

from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.storage.request_budget import Budget

#: The names of the two extensions in ``app.extensions``.
EXTENSION = "ibi_archive"
RESOLVER_EXTENSION = "ibi_resolver"
#: The key in a request's environment that stores its time budget for databases.
BUDGET = "ibi.database_budget"


def current_archive() -> ArchiveService:
    """Return the Archive that the current app serves."""
    return cast(ArchiveService, current_app.extensions[EXTENSION].archive)


def find_budget(timeout: float) -> Budget | None:
    """Return how long the current request may still wait for databases; None outside a request.

    :param timeout: seconds that a request may wait in all.
    """
    if not has_request_context():
        return None
    # not flask.g: it belongs to the app context, which may outlive the request
    environ = request.environ
    budget: Budget | None = environ.get(BUDGET)
    if budget is None:
        budget = environ[BUDGET] = Budget(timeout)
    return budget
