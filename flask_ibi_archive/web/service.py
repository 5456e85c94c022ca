"""The Archive service: answers the messages of resolvers at the address of its IBI ([R] 4, 7)."""

from __future__ import annotations

import re

from flask import Response, current_app, request
from werkzeug.exceptions import BadHost

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
from flask_ibi_archive.protocol.query import decode_query_string
from flask_ibi_archive.web.context import RESOLVER_EXTENSION, current_archive
from flask_ibi_archive.web.requests import is_message
from flask_ibi_archive.web.responses import (
    RETRY_AFTER,
    error_response,
    pairs_response,
    summarise_error,
)

# The shape of a service's IBI, as a repository name or as an IBIp, in any case.
_IBIP_CHARACTER = "[2-9A-HJ-NP-Ua-hj-np-u]"
_SERVICE_PATH = re.compile(
    r"/[A-Za-z0-9.-]+/[A-Za-z0-9@.-]+/[0-9]{4}/[0-9.]+"
    rf"|/{_IBIP_CHARACTER}+[WXwx]{_IBIP_CHARACTER}*/{_IBIP_CHARACTER}+(?:[Ww]{_IBIP_CHARACTER}+)?"
)


def answer_service_request() -> Response | None:
    """Answer a request to the address of the service; return None for other addresses.

    This is not a route: only the database tells the IBI of the service, and a route for every path
    with the shape of an IBI would hide routes of the host. A host can replace the service by a
    route for exactly its address.
    """
    if _SERVICE_PATH.fullmatch(request.path) is None:
        return None
    if isinstance(request.routing_exception, BadHost):
        return None
    if request.url_rule is not None and not request.url_rule.arguments:
        return None
    archive = current_archive()
    try:
        if not _is_service(archive, request.path[1:]):
            return None
    except NotReady as error:
        # the IBI of the service is unknown now; but the URL key of an acknowledgment proves
        # that it is meant for this Archive
        if not _has_valid_key(archive):
            return _unavailable(error) if _must_be_for_service(archive) else None
    except ConfigError as error:
        return _unavailable(error)
    return _answer(archive)


def _is_service(archive: ArchiveService, ibi: str) -> bool:
    """Return whether a path is the IBI of the service, in either form and any case."""
    if archive.serves(ibi):
        return True
    try:
        return archive.serves(parse_identifier(ibi).text)
    except IdentifierError:
        return False


def _has_valid_key(archive: ArchiveService) -> bool:
    """Return whether the request is an acknowledgment with a valid URL key of this Archive.

    This does not need the database.
    """
    query = request.query_string
    if request.method not in ("GET", "HEAD") or len(query) > MAX_QUERY:
        return False
    try:
        message = parse_request(decode_query_string(query))
    except PeerProtocolError:
        return False
    return isinstance(message, Acknowledgment) and archive.accesses.has_valid_key(message)


def _must_be_for_service(archive: ArchiveService) -> bool:
    """Return whether the request can't be a persistent URL."""
    resolves = archive.config.local_resolution or RESOLVER_EXTENSION in current_app.extensions
    return not resolves or is_message()


def _answer(archive: ArchiveService) -> Response:
    """Answer a message, or refuse it with an alert."""
    if request.method not in ("GET", "HEAD"):
        text = f"{request.method} is not answered here, only GET and HEAD"
        return error_response(405, text, Allow="GET, HEAD")
    query = request.query_string
    if len(query) > MAX_QUERY:
        return error_response(414, f"the query has {len(query)} bytes, more than {MAX_QUERY}")
    # HEAD changes nothing (RFC 9110, 9.3.2)
    take = _count_access if request.method == "GET" else _ignore
    try:
        message = parse_request(decode_query_string(query))
        return pairs_response(build_response(message, archive.list_urls, take))
    except PeerProtocolError as error:
        return error_response(400, str(error))
    except (NotReady, ConfigError) as error:
        return _unavailable(error)


def _count_access(acknowledgment: Acknowledgment) -> None:
    """Count the access that a resolver acknowledges; only the log shows whether it counts.

    The resolver sends the user agent of the reader in X-Forwarded-User-Agent.
    """
    headers = request.headers
    agents = Agents(headers.get("User-Agent"), headers.get("X-Forwarded-User-Agent"))
    current_archive().take_acknowledgment(acknowledgment, agents)


def _ignore(acknowledgment: Acknowledgment) -> None:
    """Count nothing."""


def _unavailable(error: NotReady | ConfigError) -> Response:
    current_app.logger.error("the Archive can't answer: %s", error)
    return error_response(503, summarise_error(error), Retry_After=RETRY_AFTER)
