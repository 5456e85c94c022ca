"""The Archive of the current app, and how its operations use a session of the host.

The extension provides the function that finds the Archive, because ``archive`` knows no Flask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from flask_ibi_archive.errors import ConfigError

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive
    from flask_ibi_archive.archive.items.operations import OperationContext
    from flask_ibi_archive.archive.items.sessions import HostSession

#: Returns the Archive of the current app; see :func:`set_finder`.
_find_archive: Callable[[], Archive] | None = None


def set_finder(find: Callable[[], Archive]) -> None:
    """Set the function that returns the Archive of the current app. The extension calls this."""
    global _find_archive
    _find_archive = find


def get_archive() -> Archive:
    """Return the Archive of the current app.

    :raises RuntimeError: if there is no current app, or if the app has no Archive.
    """
    if _find_archive is None:
        raise RuntimeError("no app has an IBIArchive; create one with IBIArchive(session=...)")
    return _find_archive()


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


def bind(context: OperationContext, session: Session) -> OperationContext:
    """Return a context whose operations use the connection of a session, also during its flush.

    :param session: a session of the host, which need not be its current session.
    :raises StorageError: if the session uses another database than the items.
    """
    return replace(context, session=_get_host(context).bind_flush(session))


def bind_current(session: Session) -> OperationContext:
    """Return the context of the Archive of the current app for a session; see :func:`bind`."""
    return bind(get_archive_with_session().context, session)


def get_session(context: OperationContext) -> Session:
    """Return the session of a context that :func:`bind` has returned."""
    return _get_host(context).current()


def connect_to_items(context: OperationContext) -> Connection:
    """Return the connection of the session to the items, for a result of :func:`bind`."""
    return _get_host(context).connection()


def check_model(context: OperationContext, model: type[Any]) -> None:
    """Check that the rows of a model are in the database of the items.

    :param context: the result of :func:`bind`.
    :raises StorageError: if the databases differ.
    """
    _get_host(context).check_model(get_session(context), model)


def _get_host(context: OperationContext) -> HostSession:
    assert context.session is not None  # models with IdentifiedItem need the session of the host
    return context.session
