"""Serves the style sheet and the script of the pages.

An Archive and a resolver serve the same files under ``/ibi/static/``. The URLs in pages contain a
version, so that browsers keep the files until they change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from flask import Blueprint, Response, request

from flask_ibi_archive.server.pages.requests import request_root

FOLDER = Path(__file__).parent / "static"
#: The files and their content types.
TYPES = {"ibi.css": "text/css; charset=utf-8", "ibi.js": "text/javascript; charset=utf-8"}
_CONTENTS = {name: (FOLDER / name).read_bytes() for name in TYPES}
_VERSIONS = {name: hashlib.sha256(data).hexdigest()[:12] for name, data in _CONTENTS.items()}

AddPage = Callable[[Blueprint, str, str, Callable[[], Response]], None]


def add_static_files(blueprint: Blueprint, add_page: AddPage) -> None:
    """Add the routes of the files to a blueprint."""
    for name in TYPES:
        endpoint = f"static_{name.partition('.')[2]}"
        add_page(blueprint, endpoint, f"/ibi/static/{name}", partial(_send_file, name))


def find_static_url(name: str) -> str:
    """Return the URL of a file for a page, with the version of the file."""
    return f"{request_root()}/ibi/static/{name}?v={_VERSIONS[name]}"


def _send_file(name: str) -> Response:
    response = Response(_CONTENTS[name], content_type=TYPES[name])
    response.headers["X-Content-Type-Options"] = "nosniff"
    # a page of another version, from before or after an upgrade, must not fix the wrong content
    is_current = request.args.get("v") == _VERSIONS[name]
    response.headers["Cache-Control"] = (
        "public, max-age=31536000, immutable" if is_current else "no-cache"
    )
    response.set_etag(_VERSIONS[name])
    response.make_conditional(request)
    return response
