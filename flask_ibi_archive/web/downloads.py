"""Sends the content of a file: ranges, conditional requests, its right name and type."""

from __future__ import annotations

import codecs
from mimetypes import MimeTypes
from pathlib import Path

from flask import Response, current_app, make_response, request
from werkzeug.utils import send_file

from flask_ibi_archive.web.headers import SANDBOX, set_headers

#: What is known of file names, whatever the machine says.
TYPES = MimeTypes()
COMPRESSED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}
#: Types that a browser runs.
ACTIVE = {"text/html", "application/xhtml+xml", "image/svg+xml", "text/xml", "application/xml"}
SAMPLE = 1 << 16


def content_type_of(name: str, content: Path) -> str:
    """Give the Content-Type of a file, by its name; of a text also by what it is encoded in."""
    guessed, encoding = TYPES.guess_type(name)
    if encoding is not None:
        return COMPRESSED.get(encoding, "application/octet-stream")
    if guessed is None:
        return "application/octet-stream"
    if guessed.startswith("text/") and is_utf8(content):
        return f"{guessed}; charset=utf-8"
    return guessed


def is_utf8(content: Path) -> bool:
    """Tell whether a file begins as UTF-8 text does."""
    with content.open("rb") as stream:
        sample = stream.read(SAMPLE)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return False
    return True


def send_content(content: Path, name: str, sha256: str, restricted: bool) -> Response:
    """Give a response that sends a file.

    :param content: where it lies.
    :param name: what it is called.
    :param sha256: its checksum, which is its entity tag.
    :param restricted: whether it must not be kept where others could get it.
    :raises OSError: if it can't be read.
    """
    content_type = content_type_of(name, content)
    environ = request.environ
    # RFC 9110, 14.2: what is no range of bytes is passed over, and several may be
    wanted = request.range
    if wanted is None or wanted.units != "bytes" or len(wanted.ranges) > 1:
        environ = {name: value for name, value in environ.items() if name != "HTTP_RANGE"}
    response = make_response(
        send_file(
            content,
            environ,
            mimetype=content_type.partition(";")[0],
            download_name=name,
            conditional=True,
            etag=sha256,
            response_class=Response,
            use_x_sendfile=current_app.config["USE_X_SENDFILE"],
        )
    )
    response.headers["Content-Type"] = content_type
    active = content_type.partition(";")[0] in ACTIVE
    return set_headers(response, SANDBOX if active else None, private=restricted)
