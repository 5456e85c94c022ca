"""Whether the process runs and the database answers, for those who watch over servers."""

from __future__ import annotations

from flask import Response, current_app, jsonify

from flask_ibi_archive.archive.readiness import check_ready
from flask_ibi_archive.errors import ConfigError, NotReady
from flask_ibi_archive.web.context import current_archive
from flask_ibi_archive.web.responses import RETRY_AFTER


def live() -> Response:
    """Say that the process runs."""
    return say_ready()


def ready() -> Response:
    """Return whether the Archive can do its work: 200, or 503 with the reason."""
    try:
        check_ready(current_archive())
    except (NotReady, ConfigError) as error:
        return say_unready("the Archive", error)
    return say_ready()


def say_ready() -> Response:
    """Say that all is well."""
    return _say({"status": "ok"})


def say_unready(who: str, error: NotReady | ConfigError) -> Response:
    """Say that it is not, and why; the log hears more of it.

    :param who: what is not ready.
    """
    current_app.logger.error("%s is not ready: %s", who, error)
    reason = error.summary if isinstance(error, NotReady) else str(error)
    response = _say({"status": "unavailable", "reason": reason})
    response.status_code = 503
    response.headers["Retry-After"] = RETRY_AFTER
    return response


def _say(state: dict[str, str]) -> Response:
    response = jsonify(state)
    response.headers["Cache-Control"] = "no-store"
    return response
