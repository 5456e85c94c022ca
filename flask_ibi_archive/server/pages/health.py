"""Answers the health checks of monitoring programs.

One check tests that the process runs. The other check tests that the database is ready. The Archive
and the resolver use this module.
"""

from __future__ import annotations

from flask import Response, current_app, jsonify

from flask_ibi_archive.errors import ConfigError, NotReady
from flask_ibi_archive.server.pages.responses import RETRY_AFTER, summarise_error


def live() -> Response:
    """Return a 200 response; any response shows that the process runs."""
    return ready_response()


def ready_response() -> Response:
    """Return a 200 response with the status "ok"."""
    return _status_response({"status": "ok"})


def unready_response(name: str, error: NotReady | ConfigError) -> Response:
    """Return a 503 response with the reason, and log the details of the error.

    :param name: the name of the service that is not ready. The log message contains this name.
    """
    current_app.logger.error("%s is not ready: %s", name, error)
    response = _status_response({"status": "unavailable", "reason": summarise_error(error)})
    response.status_code = 503
    response.headers["Retry-After"] = RETRY_AFTER
    return response


def _status_response(values: dict[str, str]) -> Response:
    response = jsonify(values)
    response.headers["Cache-Control"] = "no-store"
    return response
