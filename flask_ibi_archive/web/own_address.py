"""What comes before a persistent URL: malformed Host headers are refused, redirects lead to our
address.
"""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from flask import Response, current_app, request
from werkzeug.exceptions import HTTPException
from werkzeug.routing import RequestRedirect

from flask_ibi_archive.protocol.hosts import is_host_and_port
from flask_ibi_archive.web.context import EXTENSION, RESOLVER_EXTENSION, current_archive
from flask_ibi_archive.web.requests import request_root, request_target
from flask_ibi_archive.web.responses import error_response, set_headers


def refuse_malformed_host() -> Response | None:
    """Return 400 for a malformed Host header; None: it is not malformed, or there is none.

    Source: RFC 9112, 3.2.
    """
    host = request.headers.get("Host", "")
    if not host or is_host_and_port(host):
        return None
    return error_response(
        400,
        f"the Host header is {host[:80]!a}, which is not a host with an optional port, "
        "such as urlib.net:80",
    )


def redirect_to_own_address(redirect: RequestRedirect) -> Response | None:
    """Return a redirect to the right spelling of one of our paths, at the configured address.

    :param redirect: werkzeug's, which adds a missing last slash or merges repeated ones. It repeats
        the Host header, and a cache may store it.
    :returns: None if the path is not ours.
    """
    adapter = current_app.create_url_adapter(request)
    if adapter is None:  # there always is one for a request
        return None
    path = urlsplit(redirect.new_url).path.removeprefix(request.root_path.rstrip("/"))
    try:
        endpoint, _ = adapter.match(unquote(path), "GET")
    except HTTPException:
        return None
    blueprint = str(endpoint).partition(".")[0]
    if blueprint == EXTENSION:
        base = current_archive().config.base_url
    elif blueprint == RESOLVER_EXTENSION:
        # without a configured address the path alone: no host can be put into it
        base = current_app.extensions[RESOLVER_EXTENSION].resolver.config.base_url or ""
    else:
        return None
    query = request_target().partition("?")[2]
    location = f"{base}{request_root()}{path}" + (f"?{query}" if query else "")
    return set_headers(Response(status=redirect.code, headers={"Location": location}))
