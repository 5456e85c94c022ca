"""Provides the Archive that the rows of the host's models use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flask_ibi_archive.errors import ConfigError

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

_find: Callable[[], Archive] | None = None


def set_finder(find: Callable[[], Archive]) -> None:
    """Set the function that returns the Archive of the current app. The extension calls this."""
    global _find
    _find = find


def get_archive() -> Archive:
    """Return the Archive of the current app.

    :raises RuntimeError: if there is no current app, or if the app has no Archive.
    """
    if _find is None:
        raise RuntimeError("no app has an IBIArchive; create one with IBIArchive(session=...)")
    return _find()


def get_archive_with_session() -> Archive:
    """Return the Archive of the current app.

    :raises ConfigError: if the Archive does not use the session of the host.
    :raises RuntimeError: as for :func:`get_archive`.
    """
    archive = get_archive()
    if archive.session is None:
        raise ConfigError(
            "session",
            None,
            "the session of the models with IdentifiedItem, such as "
            "IBIArchive(session=db.session), so that a row and its item are saved together",
        )
    return archive
