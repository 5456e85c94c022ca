"""The web address at which an Archive says that it has new claims: ``POST /ibi/claims/ping``."""

from __future__ import annotations

from datetime import datetime, timezone

from flask import Response, current_app, request
from werkzeug.exceptions import HTTPException

from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.query_strings import decode_query_string
from flask_ibi_archive.errors import IdentifierError, NotReady, PeerProtocolError
from flask_ibi_archive.resolver.claims.followed_logs import request_reading
from flask_ibi_archive.resolver.current import current_resolver

PING = "/ibi/claims/ping"
#: The maximum length of the body in bytes.
MAX_BODY = 1000


def receive_ping() -> Response:
    """Make the log of an Archive due at once.

    The body is encoded as a query string, and contains the IBI of the Archive's service as
    ``service``. The answer is always the same, because anybody may send a ping: it says nothing
    about the Archives of this resolver. A log is read at most every two seconds.
    Source: federation CL-7.
    """
    request.max_content_length = MAX_BODY  # a body without Content-Length is limited, too
    try:
        pairs = dict(decode_query_string(request.get_data()))
        service_ibi = parse_identifier(pairs.get("service", "")).text
        request_reading(current_resolver().database, service_ibi, datetime.now(timezone.utc))
    except (HTTPException, IdentifierError, PeerProtocolError):
        pass
    except NotReady as error:
        current_app.logger.error("the resolver can't store a ping: %s", error)
    return Response(status=204)


def start_following() -> None:
    """Start to follow logs at the first request, if the settings want it.

    This function is a ``before_app_request`` hook. A process that serves no requests, such as the
    parent of the processes of a web server, does not follow.
    """
    resolver = current_resolver()
    if resolver.config.follow:
        resolver.follower_thread.start()
