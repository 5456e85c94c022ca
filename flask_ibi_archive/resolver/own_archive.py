"""The Archive in the app of a resolver.

The resolver asks this Archive without HTTP.
"""

from __future__ import annotations

from functools import partial

from flask import current_app

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.local_resolution import answer_question
from flask_ibi_archive.errors import ConfigError, NotReady
from flask_ibi_archive.resolver.resolution_context import OwnArchive
from flask_ibi_archive.web.requests import EXTENSION, current_archive


def find_own_archive() -> Archive | None:
    """Return the Archive of the current app, or None if the app has no Archive that is ready."""
    if EXTENSION not in current_app.extensions:
        return None
    archive = current_archive()
    try:
        archive.served()
    except (NotReady, ConfigError):
        return None
    return archive


def open_own_archive() -> OwnArchive | None:
    """Return the Archive of the current app for questions of the resolver, or None."""
    archive = find_own_archive()
    if archive is None:
        return None
    return OwnArchive(archive.served().service_ibi, partial(answer_question, archive))
