"""Answers the paths that browsers and crawlers ask for, if the app has no answer of its own.

These are ``/robots.txt``, ``/favicon.ico`` and, for an Archive, ``/``. Whether the app has a route
is known when the request comes, so that the order in which routes are registered does not matter.
"""

from __future__ import annotations

from flask import Response
from werkzeug.exceptions import NotFound

from flask_ibi_archive.server.pages.requests import (
    EXTENSION,
    RESOLVER_EXTENSION,
    current_archive,
    current_flask,
    current_request,
)
from flask_ibi_archive.server.pages.responses import find_list_path, send_icon, set_headers

#: What crawlers need not read: numbers, and content that other addresses have, too.
_DISALLOWED = ("/ibi/oai", "/ibi/statistics", "/col/*/statistics", "/col/*/files.zip")


def answer_usual_path() -> Response | None:
    """Return the answer for one of the paths; None for others, or if the app has a route.

    ``/`` redirects to the list of items, unless a resolver has its front page there.
    """
    request = current_request()
    is_read = request.method in ("GET", "HEAD")
    if not is_read or type(request.routing_exception) is not NotFound:
        return None
    if request.path == "/favicon.ico":
        return send_icon()
    if request.path == "/robots.txt":
        return _write_robots()
    has_resolver = RESOLVER_EXTENSION in current_flask().extensions
    path = None if request.path != "/" or has_resolver else find_list_path()
    if path is None:
        return None
    return set_headers(Response(status=302, headers={"Location": path}))


def _write_robots() -> Response:
    lines = ["User-agent: *"]
    if EXTENSION in current_flask().extensions:
        lines += [f"Disallow: {path}" for path in _DISALLOWED]
        lines += ["", f"Sitemap: {current_archive().addresses.base}/ibi/sitemap.xml"]
    else:
        lines += ["Disallow: /ibi/"]
    response = Response("\n".join([*lines, ""]), content_type="text/plain; charset=utf-8")
    return set_headers(response, "", private=False)
