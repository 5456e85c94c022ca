"""The service of a resolver: includes Archives and excludes them ([R] 5.2)."""

from __future__ import annotations

from flask import Response, current_app, request

from flask_ibi_archive.errors import (
    NotReady,
    PeerProtocolError,
    RegistrationRefused,
    TooManyWrongKeys,
)
from flask_ibi_archive.protocol.messages import MAX_QUERY
from flask_ibi_archive.protocol.query import decode_query_string
from flask_ibi_archive.protocol.registration import (
    format_registration_status,
    parse_registration_request,
)
from flask_ibi_archive.resolver.web_context import current_resolver
from flask_ibi_archive.web.requests import user_address
from flask_ibi_archive.web.responses import RETRY_AFTER, error_response, pairs_response


def service() -> Response:
    """Answer an inclusionRequest or exclusionRequest; what is in it stands in no log.

    HEAD tells whether it would be taken, and nothing comes of it (RFC 9110, 9.3.2).
    """
    if request.method not in ("GET", "HEAD"):
        return error_response(
            405, f"{request.method} is not answered here, only GET and HEAD", Allow="GET, HEAD"
        )
    query = request.query_string
    if len(query) > MAX_QUERY:
        return error_response(414, f"the query has {len(query)} bytes, more than {MAX_QUERY}")
    try:
        asked = parse_registration_request(decode_query_string(query))
        registry = current_resolver().registry
        if request.method == "HEAD":
            registry.check(asked, user_address())
            return pairs_response("")
        status = registry.take(asked, user_address())
    except PeerProtocolError as error:
        return error_response(400, str(error))
    except TooManyWrongKeys as error:
        return error_response(error.status, str(error), Retry_After=str(error.retry_after))
    except RegistrationRefused as error:
        return error_response(error.status, str(error))
    except NotReady as error:
        current_app.logger.error("the resolver can't answer: %s", error)
        return error_response(503, error.summary, Retry_After=RETRY_AFTER)
    return pairs_response(format_registration_status(status))
