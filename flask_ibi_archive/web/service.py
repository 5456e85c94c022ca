"""The Archive service: answers what a resolver asks ([R] 4, 7)."""

from __future__ import annotations

from flask import Response, abort, current_app, request

from flask_ibi_archive.archive.accesses.acknowledgments import Agents
from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.errors import ConfigError, IdentifierError, NotReady, PeerProtocolError
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.protocol.messages import MAX_QUERY, Acknowledgment, parse_request
from flask_ibi_archive.protocol.query import decode_query_string
from flask_ibi_archive.protocol.response import build_response
from flask_ibi_archive.web.context import current_archive
from flask_ibi_archive.web.responses import RETRY_AFTER, error_response, pairs_response

#: What stands in the query of every message to a service, and of nothing else.
MESSAGE = b"servicesubject="


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
    return isinstance(asked, Acknowledgment) and archive.accesses.has_our_key(asked)


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
            return error_response(
                405, f"{request.method} is not answered here, only GET and HEAD", Allow="GET, HEAD"
            )
        query = request.query_string
        if len(query) > MAX_QUERY:
            return error_response(414, f"the query has {len(query)} bytes, more than {MAX_QUERY}")
        asked = parse_request(decode_query_string(query))
        # HEAD asks what GET would answer; nothing comes of it (RFC 9110, 9.3.2)
        take = take_acknowledgment if request.method == "GET" else ignore_acknowledgment
        return pairs_response(build_response(asked, archive.list_urls, take))
    except PeerProtocolError as error:
        return error_response(400, str(error))
    except NotReady as error:
        current_app.logger.error("the Archive can't answer: %s", error)
        return error_response(503, error.summary, Retry_After=RETRY_AFTER)
    except ConfigError as error:
        current_app.logger.error("the Archive can't answer: %s", error)
        return error_response(503, str(error), Retry_After=RETRY_AFTER)
