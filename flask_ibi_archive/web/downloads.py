"""Sends the content of a file: ranges, conditional requests, its right name and type.

Conditions are evaluated here, before the range (RFC 9110, 13.2.2): werkzeug skips them for a
request with a range that it can satisfy, does not know If-Unmodified-Since, and takes ``If-Match:
*`` for a tag.
"""

from __future__ import annotations

import codecs
from datetime import datetime, timezone
from mimetypes import MimeTypes
from pathlib import Path

from flask import Response, current_app, make_response, request
from werkzeug.exceptions import PreconditionFailed
from werkzeug.utils import send_file

from flask_ibi_archive.web.responses import SANDBOX_POLICY, set_headers

#: What is known of file names, whatever the machine says.
TYPES = MimeTypes()
COMPRESSED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}
#: Types that a browser runs.
ACTIVE = {"text/html", "application/xhtml+xml", "image/svg+xml", "text/xml", "application/xml"}
SAMPLE = 1 << 16
CONDITIONS: tuple[str, ...] = (
    "HTTP_IF_MATCH",
    "HTTP_IF_UNMODIFIED_SINCE",
    "HTTP_IF_NONE_MATCH",
    "HTTP_IF_MODIFIED_SINCE",
    "HTTP_IF_RANGE",
)


def content_type_of(name: str, content: Path) -> str:
    """Return the Content-Type of a file, by its name; of a text also by what it is encoded in."""
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


def send_content(
    content: Path, name: str, sha256: str, changed: datetime | None, restricted: bool
) -> Response:
    """Return a response that sends a file, as the conditions and the range of the request want it.

    :param content: where it lies.
    :param name: what it is called.
    :param sha256: its checksum, which is its entity tag.
    :param changed: when the item last changed: its file may since be another, whose content is
        older.
    :param restricted: whether it must not be kept where others could get it.
    :raises OSError: if it can't be read.
    :raises PreconditionFailed: if the request wants another version only.
    """
    content_type = content_type_of(name, content)
    modified = last_modified(content, changed)
    if not is_wanted_version(sha256, modified):
        raise PreconditionFailed
    not_modified = is_known_version(sha256, modified)
    passed_over = CONDITIONS
    if not_modified or not is_range_wanted(sha256):
        passed_over = (*CONDITIONS, "HTTP_RANGE")
    response = make_response(
        send_file(
            content,
            {name: value for name, value in request.environ.items() if name not in passed_over},
            mimetype=content_type.partition(";")[0],
            download_name=name,
            conditional=True,
            etag=sha256,
            last_modified=modified,
            response_class=Response,
            use_x_sendfile=current_app.config["USE_X_SENDFILE"],
        )
    )
    if not_modified:
        response.status_code = 304
        # some servers would send the file in spite of the status
        response.headers.pop("X-Sendfile", None)
    response.headers["Content-Type"] = content_type
    policy = SANDBOX_POLICY if content_type.partition(";")[0] in ACTIVE else None
    return set_headers(response, policy, private=restricted)


def last_modified(content: Path, changed: datetime | None) -> datetime:
    """Return the date of a file, without the fraction that HTTP has no room for."""
    stored = datetime.fromtimestamp(content.stat().st_mtime, timezone.utc)
    return max(stored, changed or stored).replace(microsecond=0)


def is_wanted_version(etag: str, modified: datetime) -> bool:
    """Return whether If-Match, or else If-Unmodified-Since, holds (RFC 9110, 13.1.1 and 13.1.4)."""
    if "If-Match" in request.headers:
        return request.if_match.contains(etag)
    since = request.if_unmodified_since
    return since is None or modified <= since


def is_known_version(etag: str, modified: datetime) -> bool:
    """Return whether If-None-Match, or else If-Modified-Since, names this version (13.1.2 and
    13.1.3).
    """
    if "If-None-Match" in request.headers:
        return request.if_none_match.contains_weak(etag)
    since = request.if_modified_since
    return since is not None and modified <= since


def is_range_wanted(etag: str) -> bool:
    """Return whether one range of bytes of this version is wanted (13.1.5 and 14.2).

    A date never confirms the version: two versions may be of the same second.
    """
    wanted = request.range
    return (
        request.method == "GET"
        and wanted is not None
        and wanted.units == "bytes"
        and len(wanted.ranges) == 1
        and request.headers.get("If-Range", f'"{etag}"').strip() == f'"{etag}"'
    )
