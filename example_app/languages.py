"""The texts of the pages in English, Spanish and Portuguese.

The functions have the names of those of Flask-Babel, which reads the same catalogues: with it, this
module is not needed. The language is chosen as on the pages of the Archive, so that all pages are
in the same language, and the links to the other languages work on all of them.

The commands of ``CONTRIBUTING.rst`` update the catalogues, here with the domain ``messages``.
"""

from __future__ import annotations

from datetime import date
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs

from babel import Locale, dates, negotiate_locale
from babel.messages import Catalog
from babel.messages.pofile import read_po
from flask import Flask, Response, request
from markupsafe import Markup, escape

FOLDER = Path(__file__).parent / "translations"
#: The languages, with the rules for dates and names.
LOCALES = {"en": Locale("en", "001"), "es": Locale("es"), "pt": Locale("pt")}
#: The cookie of the Archive (docs/security.rst).
COOKIE = "ibi_language"


def init_app(app: Flask) -> None:
    """Add the functions of this module to the templates and the responses of the app."""
    app.jinja_env.globals.update(
        _=gettext, page_language=get_language, format_date=format_date, language_name=name_language
    )
    app.after_request(note_language)


def get_language() -> str:
    """Return the language of the page: that of the URL, of the cookie, or of the browser."""
    wanted = [_language_in_url(), request.cookies.get(COOKIE, "")]
    wanted += [tag for tag, quality in request.accept_languages if quality > 0]
    return (negotiate_locale(wanted, LOCALES, "-") or "en").lower()


def _language_in_url() -> str:
    query = request.query_string.decode("ascii", "replace")
    return parse_qs(query).get("lang", [""])[-1]


def note_language(response: Response) -> Response:
    """Name the language of a page in its headers, and remember the choice of the reader.

    The pages of the Archive have done this already.
    """
    if response.mimetype == "text/html" and "Content-Language" not in response.headers:
        language = response.headers["Content-Language"] = get_language()
        response.vary.update(["Accept-Language", "Cookie"])
        if _language_in_url() == language:
            response.set_cookie(COOKIE, language, httponly=True, samesite="Lax")
    return response


@cache
def read_catalogue(language: str) -> Catalog:
    """Return the translations into a language."""
    with (FOLDER / language / "LC_MESSAGES" / "messages.po").open("rb") as file:
        return read_po(file, language)


def gettext(message: str, **values: object) -> Markup:
    """Return the text of a page in its language.

    :param values: the values of the placeholders.
    """
    language = get_language()
    found = None if language == "en" else read_catalogue(language).get(message)
    return escape(str(found.string) if found else message).format(**values)


class LazyText:
    """A text whose language is known later, when a page shows it."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __html__(self) -> Markup:
        return gettext(self.message)

    __str__ = __html__


lazy_gettext = LazyText


def format_date(day: date) -> str:
    """Return a date as readers write it, such as ``1 March 2027``."""
    return str(dates.format_date(day, "long", LOCALES[get_language()]))


def name_language(code: str) -> str:
    """Return the name of a language."""
    return str(LOCALES[get_language()].languages[code])
