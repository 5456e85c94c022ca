"""Builds responses: pages for people, and lists of pairs for programs.

Archives and resolvers exchange messages as lists of pairs. Each pair is a line "name value".
"""

from __future__ import annotations

from flask import Response, make_response, render_template
from werkzeug.datastructures import Headers

from flask_ibi_archive.errors import IBIError, NotReady
from flask_ibi_archive.protocol.pairs import format_alert
from flask_ibi_archive.web.language_names import get_language_name
from flask_ibi_archive.web.texts import page_language, texts

#: The value of Retry-After in a 503 response. A client may try again after this number of seconds.
RETRY_AFTER = "10"
#: The Content-Security-Policy of pages. A page must not contain inline scripts, and must not load
#: anything from other hosts.
PAGE_POLICY = "default-src 'self'; style-src 'unsafe-inline'"
#: The Content-Security-Policy of files that can contain scripts. These scripts must not have the
#: rights of scripts of the host.
SANDBOX_POLICY = "sandbox allow-scripts allow-forms allow-popups allow-downloads"
#: The headers of a response with a list of pairs.
PAIRS_HEADERS = [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")]


def render_page(template: str, status: int = 200, **values: object) -> Response:
    """Return a page of an Archive or a resolver in the reader's language.

    :param template: the file name of the template, without the folder and without ``.html``.
    :param values: variables of the template. The template also gets the texts and the language.
    """
    language = page_language()
    html = render_template(
        f"ibi_archive/{template}.html",
        lang=language,
        t=texts(language),
        language_name=get_language_name,
        **values,
    )
    response = make_response(html, status)
    response.headers["Vary"] = "Accept-Language"
    return set_headers(response)


def set_headers(
    response: Response, policy: str | None = PAGE_POLICY, *, private: bool = True
) -> Response:
    """Set the caching headers and the security headers of a response, and return the response.

    :param policy: the value of the Content-Security-Policy header; None to omit this header.
    :param private: True if shared caches must not store the response, because the response may
        depend on the user.
    """
    response.headers["Cache-Control"] = "private, no-cache" if private else "no-cache"
    response.headers["X-Content-Type-Options"] = "nosniff"
    if policy is not None:
        response.headers["Content-Security-Policy"] = policy
    return response


def pairs_response(text: str, status: int = 200, **headers: str) -> Response:
    """Return a response whose body is a list of pairs.

    :param headers: additional headers by name. Each "-" in a name is written as "_".
    """
    more = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return Response(text, status, Headers(PAIRS_HEADERS + more), content_type="text/plain")


def error_response(status: int, text: str, **headers: str) -> Response:
    """Return a response whose body is a list with one ``alert`` pair.

    :param text: the value of the pair, which describes the error.
    :param headers: additional headers by name. Each "-" in a name is written as "_".
    """
    return pairs_response(format_alert(text), status, **headers)


def summarise_error(error: IBIError) -> str:
    """Return the message of an error without the details that only the administrator may see."""
    return error.summary if isinstance(error, NotReady) else str(error)
