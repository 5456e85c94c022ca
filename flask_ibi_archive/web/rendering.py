"""Pages from templates, in the reader's language."""

from __future__ import annotations

from flask import Response, make_response, render_template

from flask_ibi_archive.web.headers import set_headers
from flask_ibi_archive.web.texts import page_language, texts


def render_page(template: str, status: int = 200, **values: object) -> Response:
    """Return a page in the reader's language, in an app with an Archive or a resolver alike.

    :param template: its name, without folder and ending.
    :param values: what it shows besides the texts.
    """
    language = page_language()
    response = make_response(
        render_template(f"ibi_archive/{template}.html", lang=language, t=texts(language), **values),
        status,
    )
    response.headers["Vary"] = "Accept-Language"
    return set_headers(response)
