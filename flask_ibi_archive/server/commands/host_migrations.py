"""Hides our tables from the commands of Flask-Migrate and Flask-Alembic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Flask, appcontext_pushed, request_started

from flask_ibi_archive.server.database.migrate import include_name, include_object

#: The keys of Flask-Migrate and Flask-Alembic in ``app.extensions``, and the setting with the
#: arguments of Flask-Alembic.
FLASK_MIGRATE, FLASK_ALEMBIC, ARGUMENTS = "migrate", "alembic", "ALEMBIC_CONTEXT"
#: The key of the object that looks for them.
SEARCH = "ibi_host_migrations"


def hide_tables_from_host(app: Flask) -> None:
    """Make the migrations of an app ignore our tables, in addition to the app's own filters.

    The app may initialise Flask-Migrate or Flask-Alembic before or after this call, or not at all.
    The function therefore looks for it each time an application context begins, as each command
    does. It stops at the first request.
    """
    if SEARCH not in app.extensions:
        search = app.extensions[SEARCH] = _Search()
        appcontext_pushed.connect(search.add_filter, app)
        request_started.connect(search.stop, app)
        search.add_filter(app)


class _Search:
    """Looks for the extension. After :meth:`stop`, the signals of Flask cost nothing more."""

    def add_filter(self, app: Flask, **details: object) -> None:
        """Add the filter if the app has Flask-Migrate or Flask-Alembic."""
        arguments: dict[str, Any]
        ours: Callable[..., bool]
        if FLASK_MIGRATE in app.extensions:
            # env.py may pass its own include_object
            name, ours = "include_name", include_name
            arguments = app.extensions[FLASK_MIGRATE].configure_args
        elif FLASK_ALEMBIC in app.extensions:
            # there is no env.py
            name, ours = "include_object", include_object
            arguments = app.config[ARGUMENTS]
        else:
            return
        self.stop(app)
        theirs = arguments.get(name)

        def include(*described: Any) -> bool:
            return ours(*described) and (theirs is None or bool(theirs(*described)))

        arguments[name] = include

    def stop(self, app: Flask, **details: object) -> None:
        """Disconnect from the signals."""
        # Without a sender, because a receiver that only leaves a sender remains in the signal.
        appcontext_pushed.disconnect(self.add_filter)
        request_started.disconnect(self.stop)
