"""The Archive service: answers what a resolver asks ([R] 4, 7)."""

from __future__ import annotations

from flask import Response, abort, current_app, request
from werkzeug.datastructures import Headers

from flask_ibi_archive.archive.accesses.acknowledgments import Agents
from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.errors import ConfigError, IdentifierError, NotReady, PeerProtocolError
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.protocol.messages import (
    MAX_QUERY,
    Acknowledgment,
    build_response,
    parse_request,
)
from flask_ibi_archive.protocol.pairs import format_alert
from flask_ibi_archive.protocol.query import decode_query_string
from flask_ibi_archive.web.context import current_archive

#: Seconds after which a resolver may ask again.
RETRY_AFTER = "10"
#: What stands in the query of every message to a service, and of nothing else.
MESSAGE = b"servicesubject="
HEADERS = [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")]


def answer(text: str, status: int = 200, **headers: str) -> Response:
    """Return a list of pairs as the answer to a request."""
    more = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return Response(text, status, Headers(HEADERS + more), content_type="text/plain")


def alert(status: int, text: str, **headers: str) -> Response:
    """Return an alert as the answer to a request."""
    return answer(format_alert(text), status, **headers)


def is_service(archive: ArchiveService, ibi: str) -> bool:
    """Tell whether a path is the IBI of the Archive's service, in either form and any case."""
    if archive.serves(ibi):
        return True
    try:
        return archive.serves(parse_identifier(ibi).text)
    except IdentifierError:
        return False


def brings_our_key(archive: ArchiveService) -> bool:
    """Tell whether a request is an acknowledgment with a good key of ours; the database is not
    asked.
    """
    query = request.query_string
    if request.method not in ("GET", "HEAD") or len(query) > MAX_QUERY:
        return False
    try:
        asked = parse_request(decode_query_string(query))
    except PeerProtocolError:
        return False
    return isinstance(asked, Acknowledgment) and archive.accesses.has_valid_key(asked)


def take_acknowledgment(acknowledgment: Acknowledgment) -> None:
    """Count an access; what comes of it is told to the log alone.

    X-Forwarded-User-Agent tells the reader's program, where the resolver passes it on.
    """
    headers = request.headers
    agents = Agents(headers.get("User-Agent"), headers.get("X-Forwarded-User-Agent"))
    current_archive().take_acknowledgment(acknowledgment, agents)


def ignore_acknowledgment(acknowledgment: Acknowledgment) -> None:
    """Count nothing."""


def service(ibi: str) -> Response:
    """Answer a request that came to the address of an IBI: the service's, or nobody's here."""
    archive = current_archive()
    try:
        try:
            if not is_service(archive, ibi):
                abort(404)
        except NotReady:
            # whose address it is can't be told now; the key of an acknowledgment can tell as well
            if not brings_our_key(archive):
                raise
        if request.method not in ("GET", "HEAD"):
            return alert(
                405, f"{request.method} is not answered here, only GET and HEAD", Allow="GET, HEAD"
            )
        query = request.query_string
        if len(query) > MAX_QUERY:
            return alert(414, f"the query has {len(query)} bytes, more than {MAX_QUERY}")
        asked = parse_request(decode_query_string(query))
        # HEAD asks what GET would answer; nothing comes of it (RFC 9110, 9.3.2)
        take = take_acknowledgment if request.method == "GET" else ignore_acknowledgment
        return answer(build_response(asked, archive.list_urls, take))
    except PeerProtocolError as error:
        return alert(400, str(error))
    except NotReady as error:
        current_app.logger.error("the Archive can't answer: %s", error)
        return alert(503, error.summary, Retry_After=RETRY_AFTER)
    except ConfigError as error:
        current_app.logger.error("the Archive can't answer: %s", error)
        return alert(503, str(error), Retry_After=RETRY_AFTER)
