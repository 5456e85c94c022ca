"""Problem details (RFC 9457): the answers to requests of programs that cannot be carried out."""

from __future__ import annotations

from typing import Any

from flask import Response, current_app, jsonify
from werkzeug.http import HTTP_STATUS_CODES

from flask_ibi_archive.errors import (
    ConfigError,
    ForbiddenMove,
    IBIError,
    MintingError,
    NotReady,
    RuleBroken,
    StorageError,
    UnknownItem,
)
from flask_ibi_archive.server.pages.responses import RETRY_AFTER, summarise_error


class Problem(Exception):
    """A request that cannot be answered.

    :param status: the HTTP status.
    :param detail: what is wrong, and what would be right.
    :param field: the field of the JSON object that is wrong, or None.
    :param headers: headers of the response.
    """

    def __init__(
        self, status: int, detail: str, field: str | None = None, **headers: str | int
    ) -> None:
        self.status = status
        self.detail = detail
        self.field = field
        self.headers = {name.replace("_", "-"): str(value) for name, value in headers.items()}

    def answer(self) -> Response:
        """Return the response."""
        members: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTP_STATUS_CODES[self.status],
            "status": self.status,
            "detail": self.detail,
        }
        if self.field is not None:
            members["field"] = self.field
        response = jsonify(members)
        response.status_code, response.mimetype = self.status, "application/problem+json"
        response.headers.update(self.headers)
        return finish(response)


def explain(error: IBIError) -> Problem:
    """Return the problem for an error of an operation."""
    if isinstance(error, NotReady | ConfigError | MintingError):
        current_app.logger.error("the identification server can't answer: %s", error)
        detail = (
            "the settings of the Archive are wrong; ask its administrator"
            if isinstance(error, ConfigError)
            else f"{summarise_error(error)}; try again later"
        )
        return Problem(503, detail, Retry_After=RETRY_AFTER)
    if isinstance(error, UnknownItem):
        return Problem(404, "this program has requested no such identifier")
    if isinstance(error, RuleBroken | ForbiddenMove | StorageError):
        return Problem(409, str(error))
    raise error


def finish(response: Response) -> Response:
    """Set the headers of an answer to a program, and return the answer."""
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response
