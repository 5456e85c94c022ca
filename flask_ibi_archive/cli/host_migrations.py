"""Hides our tables from the commands of Flask-Migrate, such as ``flask db migrate``."""

from __future__ import annotations

from typing import Any

from flask import Flask, appcontext_pushed, request_started

from flask_ibi_archive.storage.migrate import include_name

#: The key of Flask-Migrate in ``app.extensions``.
FLASK_MIGRATE = "migrate"


def hide_tables_from_flask_migrate(app: Flask) -> None:
    """Make the migrations of an app ignore our tables, in addition to the app's own filters.

    The app may initialise Flask-Migrate before or after this call, or not at all. The function
    therefore looks for it each time an application context begins, as each command does. It stops
    at the first request.
    """
    appcontext_pushed.connect(_add_filter, app)
    request_started.connect(_stop, app)
    _add_filter(app)


def _add_filter(app: Flask, **details: object) -> None:
    arguments = getattr(app.extensions.get(FLASK_MIGRATE), "configure_args", None)
    if arguments is None:
        return
    _stop(app)
    theirs = arguments.get("include_name")

    def include(name: str | None, type_: str, parent_names: Any) -> bool:
        if not include_name(name, type_, parent_names):
            return False
        return theirs is None or bool(theirs(name, type_, parent_names))

    arguments["include_name"] = include


def _stop(app: Flask, **details: object) -> None:
    appcontext_pushed.disconnect(_add_filter, app)
    request_started.disconnect(_stop, app)
