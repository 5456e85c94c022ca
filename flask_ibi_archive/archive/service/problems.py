"""Problem details (RFC 9457): the answers to requests of programs that cannot be carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import Response, current_app, jsonify, request
from werkzeug.exceptions import HTTPException
from werkzeug.http import HTTP_STATUS_CODES

from flask_ibi_archive.core.records.record import read_json
from flask_ibi_archive.core.records.values import FieldError
from flask_ibi_archive.errors import (
    ConfigError,
    IBIError,
    MintingError,
    NotReady,
    StorageError,
    UnknownItem,
)
from flask_ibi_archive.server.web.responses import RETRY_AFTER, summarise_error


class Problem(Exception):
    """An error that is sent to a program instead of an answer.

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
        """Return the problem as an HTTP response."""
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


def answer_program(methods: Mapping[str, Callable[[], Response]], unknown: str) -> Response:
    """Answer a request of a program with the function for its HTTP method, or with a problem.

    :param methods: the functions, by HTTP method.
    :param unknown: the text for an item that the Archive does not have.
    """
    method = "GET" if request.method == "HEAD" else request.method
    try:
        if method not in methods:
            allowed = ", ".join(methods)
            text = f"the method {method} is not allowed; use {allowed}"
            raise Problem(405, text, Allow=allowed)
        return finish(methods[method]())
    except Problem as problem:
        return problem.answer()
    except FieldError as error:
        return Problem(422, error.reason, error.field or None).answer()
    except IBIError as error:
        return _explain(error, unknown).answer()


def read_bearer() -> str:
    """Return the key or secret in the header Authorization; "" if there is none."""
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def _explain(error: IBIError, unknown: str) -> Problem:
    """Convert an error of an operation to a problem."""
    if isinstance(error, NotReady | ConfigError | MintingError):
        current_app.logger.error("a program can't be answered: %s", error)
        detail = (
            "the settings of the Archive are wrong; ask its administrator"
            if isinstance(error, ConfigError)
            else f"{summarise_error(error)}; try again later"
        )
        return Problem(503, detail, Retry_After=RETRY_AFTER)
    if isinstance(error, UnknownItem):
        return Problem(404, unknown)
    if isinstance(error, StorageError):
        return Problem(409, str(error))
    raise error


def finish(response: Response) -> Response:
    """Set the headers that each answer to a program has, and return the answer."""
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def read_json_body(limit: int, empty: Any = None) -> Any:
    """Return the JSON value in the body of the request.

    :param limit: the largest number of bytes.
    :param empty: the value for an empty body.
    :raises Problem: if the body is too long, or is not JSON.
    """
    try:
        body = request.stream.read(limit + 1)
    except HTTPException as error:
        raise Problem(error.code or 400, "the body can't be read") from error
    if len(body) > limit:
        raise Problem(413, f"the body is longer than {limit} bytes")
    if not body:
        return empty
    if request.mimetype != "application/json":
        raise Problem(415, "the Content-Type of the body must be application/json")
    try:
        return read_json(body)
    except FieldError as error:
        raise Problem(400, error.reason, error.field or None) from error
