"""Serves the log of claims at ``/ibi/claims/``: the checkpoint, the tiles, the entries and the key.

Resolvers read these addresses. The tiles of a log never change, so that caches may keep them. A log
that had to begin anew has the same addresses. A resolver adds the number of the key as a query,
which is ignored, so that no cache returns a tile of the earlier log. Source: federation CL-3; C2SP
tlog-tiles.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable

from flask import Response, current_app, request

from flask_ibi_archive.core.claims.tiles import encode_entries, parse_tile_path
from flask_ibi_archive.errors import ConfigError, NotReady
from flask_ibi_archive.server.pages.requests import current_archive
from flask_ibi_archive.server.pages.responses import RETRY_AFTER, allow_origins, summarise_error

PATH = "/ibi/claims"
#: The header of a checkpoint. Caches in between keep it for a second, because a new one is made at
#: most once a second.
SHORT = "public, max-age=1"
#: The header of tiles and entries, which never change.
LONG = "public, max-age=31536000, immutable"
NO_CLAIMS = "This Archive publishes no claims.\n"


def send_checkpoint() -> Response:
    """Answer a request for ``/ibi/claims/checkpoint``."""

    def send() -> Response | None:
        archive = current_archive()
        checkpoint = archive.claims.checkpoint(archive.clock())
        if checkpoint is None:
            return None
        response = _text(checkpoint.text)
        response.headers["Cache-Control"] = SHORT
        response.set_etag(checkpoint.etag)
        response.make_conditional(request)
        return response

    return _answer(send, NO_CLAIMS)


def send_key() -> Response:
    """Answer a request for ``/ibi/claims/key``: the public key in one line."""

    def send() -> Response | None:
        key = current_archive().claims.verifier()
        if key is None:
            return None
        response = _text(f"{key.format()}\n")
        response.headers["Cache-Control"] = "no-cache"
        return response

    return _answer(send, NO_CLAIMS)


def send_tile(path: str) -> Response:
    """Answer a request for ``/ibi/claims/tile/<path>``: a tile, or a bundle of entries."""

    def send() -> Response | None:
        tile = parse_tile_path(f"tile/{path}")
        if tile is None:
            return None
        log = current_archive().claims
        if tile.level is not None:
            content = log.read_tile(tile.level, tile.number, tile.width)
            return None if content is None else _immutable(content)
        entries = log.read_entries(tile.number, tile.width)
        if entries is None:
            return None
        is_compressed = request.accept_encodings["gzip"] > 0
        content = encode_entries(entries)
        response = _immutable(gzip.compress(content, 6, mtime=0) if is_compressed else content)
        response.headers["Vary"] = "Accept-Encoding"
        if is_compressed:
            response.headers["Content-Encoding"] = "gzip"
        return response

    return _answer(send, "The log has no such tile.\n")


def _answer(send: Callable[[], Response | None], missing: str) -> Response:
    """Return a response, or one that says why there is none.

    :param send: returns the response; None if there is no such resource.
    :param missing: the text of the response if there is no such resource.
    """
    try:
        response = send()
    except (NotReady, ConfigError) as error:
        current_app.logger.error("the claims can't be read: %s", error)
        response = _text(f"{summarise_error(error)}\n", 503)
        response.headers["Retry-After"] = RETRY_AFTER
    if response is None:
        response = _text(missing, 404)
    if response.status_code >= 400:
        response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    allow_origins(response)
    return response


def _text(text: str, status: int = 200) -> Response:
    return Response(text, status, content_type="text/plain; charset=utf-8")


def _immutable(content: bytes) -> Response:
    response = Response(content, content_type="application/octet-stream")
    response.headers["Cache-Control"] = LONG
    return response
