"""Sends the content of a file of an item, with support for ranges and conditional requests.

This module evaluates first the conditions and then the range of a request (RFC 9110, 13.2.2).
The function ``send_file`` of werkzeug does not do this correctly. If ``send_file`` can satisfy the
range, it ignores the conditions. It does not implement If-Unmodified-Since. It reads the value
``If-Match: *`` as an entity tag.
"""

from __future__ import annotations

import codecs
from datetime import datetime, timezone
from pathlib import Path

from flask import Response, current_app, make_response, request
from werkzeug.exceptions import PreconditionFailed
from werkzeug.utils import send_file

from flask_ibi_archive.archive.items.item_pages import find_media_type
from flask_ibi_archive.server.web.responses import SANDBOX_POLICY, set_headers

#: The content types of files in which a browser executes scripts.
ACTIVE = {"text/html", "application/xhtml+xml", "image/svg+xml", "text/xml", "application/xml"}
#: The number of bytes that are read to find out the encoding of a text.
SAMPLE = 1 << 16
#: The conditions of a request, as keys of the WSGI environment.
CONDITIONS: tuple[str, ...] = (
    "HTTP_IF_MATCH",
    "HTTP_IF_UNMODIFIED_SINCE",
    "HTTP_IF_NONE_MATCH",
    "HTTP_IF_MODIFIED_SINCE",
    "HTTP_IF_RANGE",
)


def find_content_type(name: str, content: Path) -> str:
    """Return the value of the Content-Type header for a file.

    :param name: the name of the file, from which the type is guessed.
    :param content: the path of the content. If the content is UTF-8 text, the value contains this
        charset.
    """
    guessed = find_media_type(name)
    if not guessed.startswith("text/"):
        return guessed
    with content.open("rb") as stream:
        sample = stream.read(SAMPLE)
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return guessed
    return f"{guessed}; charset=utf-8"


def describe_version(content: Path) -> str:
    """Return an entity tag for a file whose checksum is unknown.

    :raises OSError: if the file can't be read.
    """
    status = content.stat()
    return f"{status.st_mtime_ns:x}-{status.st_size:x}"


def send_content(
    content: Path, name: str, etag: str, changed: datetime | None, restricted: bool
) -> Response:
    """Return a response with a file, according to the conditions and the range of the request.

    :param content: the path of the content.
    :param name: the file name for the reader.
    :param etag: the entity tag of the response, such as the checksum of the content.
    :param changed: the time of the last change of the item. This change may have replaced the file.
    :param restricted: True if shared caches must not store the response.
    :raises OSError: if the content can't be read.
    :raises PreconditionFailed: if If-Match or If-Unmodified-Since excludes the current version.
    """
    content_type = find_content_type(name, content)
    stored = datetime.fromtimestamp(content.stat().st_mtime, timezone.utc)
    modified = max(stored, changed or stored).replace(microsecond=0)
    if not client_accepts_version(etag, modified):
        raise PreconditionFailed
    not_modified = client_has_version(etag, modified)
    has_range = client_wants_range(etag) and not not_modified
    ignored = CONDITIONS if has_range else (*CONDITIONS, "HTTP_RANGE")
    environ = {name: value for name, value in request.environ.items() if name not in ignored}
    mimetype = content_type.partition(";")[0]
    response = make_response(
        send_file(
            content,
            environ,
            mimetype=mimetype,
            download_name=name,
            conditional=True,
            etag=etag,
            last_modified=modified,
            response_class=Response,
            use_x_sendfile=current_app.config["USE_X_SENDFILE"],
        )
    )
    if not_modified:
        response.status_code = 304
        # with this header, some servers would send the file
        response.headers.pop("X-Sendfile", None)
    response.headers["Content-Type"] = content_type
    policy = SANDBOX_POLICY if mimetype in ACTIVE else ""
    return set_headers(response, policy, private=restricted)


def client_accepts_version(etag: str, modified: datetime) -> bool:
    """Return whether If-Match and If-Unmodified-Since allow sending this version of the file.

    Source: RFC 9110, 13.1.1 and 13.1.4.
    """
    if "If-Match" in request.headers:
        return request.if_match.contains(etag)
    since = request.if_unmodified_since
    return since is None or modified <= since


def client_has_version(etag: str, modified: datetime) -> bool:
    """Return whether the client already has this version of the file.

    The header If-None-Match is checked. If the request has no If-None-Match header, the header
    If-Modified-Since is checked.

    Source: RFC 9110, 13.1.2 and 13.1.3.
    """
    if "If-None-Match" in request.headers:
        return request.if_none_match.contains_weak(etag)
    since = request.if_modified_since
    return since is not None and modified <= since


def client_wants_range(etag: str) -> bool:
    """Return whether the client requests exactly one range of bytes of this version.

    If the If-Range header contains a date, the function returns False, because two versions may
    have the same date.

    Source: RFC 9110, 13.1.5 and 14.2.
    """
    requested = request.range
    return (
        request.method == "GET"
        and requested is not None
        and requested.units == "bytes"
        and len(requested.ranges) == 1
        and request.headers.get("If-Range", f'"{etag}"').strip() == f'"{etag}"'
    )
