"""Whether the process runs and the database answers, for those who watch over servers."""

from __future__ import annotations

from flask import Response, current_app, jsonify

from flask_ibi_archive.errors import ConfigError, NotReady
from flask_ibi_archive.web.context import current_archive


def live() -> Response:
    """Say that the process runs."""
    return _say({"status": "ok"})


def ready() -> Response:
    """Say whether the database answers, with the tables of this version and the Archive in them."""
    archive = current_archive()
    try:
        archive.database.check()
        archive.served()
    except (NotReady, ConfigError) as error:
        current_app.logger.error("the Archive is not ready: %s", error)
        reason = error.summary if isinstance(error, NotReady) else str(error)
        response = _say({"status": "unavailable", "reason": reason})
        response.status_code = 503
        response.headers["Retry-After"] = "10"
        return response
    return _say({"status": "ok"})


def _say(state: dict[str, str]) -> Response:
    response = jsonify(state)
    response.headers["Cache-Control"] = "no-store"
    return response
