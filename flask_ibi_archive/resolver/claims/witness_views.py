"""The web addresses of the resolver as a witness, below ``/ibi/claims/witness/``.

Source: C2SP tlog-witness. The submission prefix and the monitoring prefix are the same.
"""

from __future__ import annotations

import re
import time

from flask import Blueprint, Response, current_app, request
from werkzeug.exceptions import HTTPException

from flask_ibi_archive import errors
from flask_ibi_archive.core.claims.keys import TIMESTAMPED
from flask_ibi_archive.resolver.claims.resolver_key import read_key
from flask_ibi_archive.resolver.claims.witness import (
    MAX_BODY,
    WitnessRefusal,
    add_checkpoint,
    find_cosigned,
)
from flask_ibi_archive.resolver.current import current_resolver
from flask_ibi_archive.server.pages.app_hooks import add_server_page
from flask_ibi_archive.server.pages.responses import (
    RETRY_AFTER,
    error_response,
    make_conditional,
    summarise_error,
)

PATH = "/ibi/claims/witness"
#: The media type of the size of the latest cosigned tree.
SIZE_TYPE = "text/x.tlog.size"
_is_hash = re.compile(r"[0-9a-f]{64}").fullmatch


def add_witness(blueprint: Blueprint) -> None:
    """Add the routes of the witness to a blueprint."""
    add_server_page(blueprint, "witness_key", f"{PATH}/key", send_key)
    add_server_page(
        blueprint, "add_checkpoint", f"{PATH}/add-checkpoint", answer_add_checkpoint, ("POST",)
    )
    add_server_page(blueprint, "cosigned", f"{PATH}/<origin_hash>/checkpoint", send_checkpoint)


def send_key() -> Response:
    """Send the public key of the resolver in one line; 404 if the resolver has no key."""
    try:
        key = read_key(current_resolver().config)
    except errors.StorageError as error:
        return _unavailable_response(error)
    if key is None:
        return error_response(404, "this resolver has no key")
    return _text_response(f"{key.verifier.format(TIMESTAMPED)}\n")


def answer_add_checkpoint() -> Response:
    """Cosign a checkpoint, and send the line of the signature."""
    resolver = current_resolver()
    request.max_content_length = MAX_BODY
    try:
        key = read_key(resolver.config)
        if key is None:
            return error_response(404, "this resolver is no witness, because it has no key")
        line = add_checkpoint(resolver.database, key, request.get_data(), int(time.time()))
    except HTTPException as error:  # the body is too long or incomplete
        return error_response(error.code or 400, f"the body cannot be read: {error.name}")
    except WitnessRefusal as refusal:
        if refusal.size is None:
            return error_response(refusal.status, str(refusal))
        return _text_response(f"{refusal.size}\n", refusal.status, SIZE_TYPE)
    except errors.StorageError as error:
        return _unavailable_response(error)
    return _text_response(line)


def send_checkpoint(origin_hash: str) -> Response:
    """Send the latest cosigned checkpoint of a log; 404 if there is none.

    :param origin_hash: SHA-256 of the origin of the log in hexadecimal digits, in lower case.
    """
    try:
        checkpoint = None
        if _is_hash(origin_hash):
            checkpoint = current_resolver().database.read(
                lambda connection: find_cosigned(connection, origin_hash)
            )
    except errors.StorageError as error:
        return _unavailable_response(error)
    if checkpoint is None:
        return error_response(404, "this witness has cosigned no checkpoint of the log")
    return make_conditional(_text_response(checkpoint))


def _text_response(text: str, status: int = 200, kind: str = "text/plain") -> Response:
    response = Response(text, status, content_type=kind)
    response.headers["Cache-Control"] = "no-cache"
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


def _unavailable_response(error: errors.StorageError) -> Response:
    current_app.logger.error("the witness can't answer: %s", error)
    text = summarise_error(error) if isinstance(error, errors.NotReady) else "not available"
    return error_response(503, text, Retry_After=RETRY_AFTER)
