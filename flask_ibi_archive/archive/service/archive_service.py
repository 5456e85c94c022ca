"""The Archive service: the view that answers the messages of resolvers ([R] 4, 6.2, 7).

The service has an IBI. The address of the service is the host of the Archive with this IBI as path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from flask import Response, current_app, request
from werkzeug.exceptions import BadHost

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol import messages
from flask_ibi_archive.core.protocol.hosts import find_client
from flask_ibi_archive.core.protocol.pairs import decode_query_string
from flask_ibi_archive.core.protocol.url_list import UrlPair
from flask_ibi_archive.errors import ConfigError, IdentifierError, NotReady, PeerProtocolError
from flask_ibi_archive.server.config import RESOLVER_EXTENSION
from flask_ibi_archive.server.web import request_log, responses
from flask_ibi_archive.server.web.requests import current_archive, is_message
from flask_ibi_archive.signals import Notice, url_requested

# The path of a service is a repository name or an IBIp, in upper or lower case.
_IBIP_CHARACTER = "[2-9A-HJ-NP-Ua-hj-np-u]"
_SERVICE_PATH = re.compile(
    r"/[A-Za-z0-9.-]+/[A-Za-z0-9@.-]+/[0-9]{4}/[0-9.]+"
    rf"|/{_IBIP_CHARACTER}+[WXwx]{_IBIP_CHARACTER}*/{_IBIP_CHARACTER}+(?:[Ww]{_IBIP_CHARACTER}+)?"
)


def find_service_view() -> Callable[[], Response] | None:
    """Return the view that answers messages, if the requested URL is the address of the service.

    Flask cannot find this view, because the IBI of the service is in the database. A route for all
    paths with the form of an IBI would hide routes of the app.

    :returns: None for other requests. If the app has a route for exactly the address of the
        service, the app answers the request.
    """
    path = request.path
    if _SERVICE_PATH.fullmatch(path) is None or isinstance(request.routing_exception, BadHost):
        return None
    if request.url_rule is not None and not request.url_rule.arguments:
        return None
    archive = current_archive()
    try:
        # most requests have the canonical case
        if not archive.serves(path[1:]) and not archive.serves(parse_identifier(path[1:]).text):
            return None
    except IdentifierError:
        return None
    except NotReady as error:  # the IBI of the service is unknown
        resolves = archive.config.local_resolution or RESOLVER_EXTENSION in current_app.extensions
        if resolves and not is_message():  # it may be a persistent URL
            return None
        return partial(_unavailable, error)
    except ConfigError as error:
        return partial(_unavailable, error)
    return answer_service_request


@request_log.logged(request_log.MESSAGE)
def answer_service_request() -> Response:
    """Answer a message, or return an alert that says why the message is refused."""
    if (refusal := responses.refuse_request()) is not None:
        return refusal
    archive = current_archive()
    # a request with HEAD must not change anything (RFC 9110, 9.3.2)
    is_get = request.method == "GET"

    def list_urls(message: messages.UrlRequest) -> Sequence[UrlPair]:
        pairs = archive.list_urls(message)
        if is_get and url_requested.receivers:
            values = {
                "ibi": message.ibi.text,
                "client_address": find_client(
                    message.client_addresses, archive.config.anonymise_ips
                ),
                "filepath": message.filepath,
                "urls": len(pairs),
            }
            archive.notifier.send([Notice(url_requested, values)])
        return pairs

    def count(acknowledgment: messages.Acknowledgment) -> None:
        if is_get:
            sender, reader = map(request.headers.get, ("User-Agent", "X-Forwarded-User-Agent"))
            archive.take_acknowledgment(acknowledgment, messages.Agents(sender, reader))

    try:
        message = messages.parse_request(decode_query_string(request.query_string))
        return responses.pairs_response(messages.build_response(message, list_urls, count))
    except PeerProtocolError as error:
        return responses.error_response(400, str(error))
    except (NotReady, ConfigError) as error:
        return _unavailable(error)


@request_log.logged(request_log.MESSAGE)
def _unavailable(error: NotReady | ConfigError) -> Response:
    current_app.logger.error("the Archive can't answer: %s", error)
    return responses.error_response(
        503, responses.summarise_error(error), Retry_After=responses.RETRY_AFTER
    )
