"""Hides our tables from the commands of Flask-Migrate, such as ``flask db migrate``."""

from __future__ import annotations

from typing import Any

from flask import Flask, appcontext_pushed, request_started

from flask_ibi_archive.storage.migrate import include_name

#: The key of Flask-Migrate in ``app.extensions``.
FLASK_MIGRATE = "migrate"
#: The key of the object that looks for Flask-Migrate.
SEARCH = "ibi_flask_migrate"


def hide_tables_from_flask_migrate(app: Flask) -> None:
    """Make the migrations of an app ignore our tables, in addition to the app's own filters.

    The app may initialise Flask-Migrate before or after this call, or not at all. The function
    therefore looks for it each time an application context begins, as each command does. It stops
    at the first request.
    """
    if SEARCH not in app.extensions:
        search = app.extensions[SEARCH] = _Search()
        appcontext_pushed.connect(search.add_filter, app)
        request_started.connect(search.stop, app)
        search.add_filter(app)


class _Search:
    """Looks for Flask-Migrate. After :meth:`stop`, the signals of Flask cost nothing more."""

    def add_filter(self, app: Flask, **details: object) -> None:
        """Add the filter if the app has Flask-Migrate."""
        arguments = getattr(app.extensions.get(FLASK_MIGRATE), "configure_args", None)
        if arguments is None:
            return
        self.stop(app)
        theirs = arguments.get("include_name")

        def include(name: str | None, type_: str, parent_names: Any) -> bool:
            if not include_name(name, type_, parent_names):
                return False
            return theirs is None or bool(theirs(name, type_, parent_names))

        arguments["include_name"] = include

    def stop(self, app: Flask, **details: object) -> None:
        """Disconnect from the signals."""
        # Without a sender, because a receiver that only leaves a sender remains in the signal.
        appcontext_pushed.disconnect(self.add_filter)
        request_started.disconnect(self.stop)
