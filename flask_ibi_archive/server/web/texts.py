"""Translate the texts of the pages, and format dates, numbers and names of languages.

Python code calls the functions of this module. The templates of the package, and those of a host
that replace them, call the same functions (:data:`FUNCTIONS`).

The messages are English sentences, so English needs no catalogue. The catalogue of another language
is the file ``translations/<language>/LC_MESSAGES/ibi_archive.po``. A clone of the repository reads
this file. The build of the distribution compiles the file to ``ibi_archive.mo``.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from gettext import GNUTranslations, NullTranslations
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from babel import Locale, dates, numbers
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from flask import Response, current_app, has_request_context, request
from markupsafe import Markup, escape

from flask_ibi_archive.core.protocol.languages import find_language, parse_accept_language
from flask_ibi_archive.core.protocol.pairs import decode_query_string
from flask_ibi_archive.core.records.rich_text import to_html
from flask_ibi_archive.errors import Message, Reason
from flask_ibi_archive.server.config import EXTENSION
from flask_ibi_archive.server.web import requests

#: The folder with one folder for each language.
FOLDER = Path(__file__).parent / "translations"
#: The path of a catalogue in the folder of its language.
FILE = Path("LC_MESSAGES", "ibi_archive.po")
#: The language of the messages, and of readers who prefer no language of the pages.
ENGLISH = "en"


@dataclass(frozen=True, slots=True, eq=False)
class Catalogue:
    """The translations of the pages into one language.

    :param tag: the tag of the language (BCP 47), such as ``pt`` or ``zh-Hant``.
    :param name: the name of the language in the language itself.
    :param locale: the rules for dates, numbers and names of languages.
    :param messages: the translations of the messages.
    """

    tag: str
    name: str
    locale: Locale
    messages: NullTranslations


@cache
def read_catalogues(folder: Path = FOLDER) -> dict[str, Catalogue]:
    """Return all catalogues in a folder, by language tag in lower case."""
    # readers of English are in many countries: 1 March 2027, not March 1, 2027
    world = Locale("en", "001")
    found = {ENGLISH: Catalogue(ENGLISH, "English", world, NullTranslations())}
    for path in sorted(folder.glob(f"*/{FILE.with_suffix('.[mp]o')}")):
        language, compiled = path.parents[1].name, BytesIO(path.read_bytes())
        locale = Locale.parse(language)
        if path.suffix == ".po":
            texts, compiled = compiled, BytesIO()
            write_mo(compiled, read_po(texts, locale))
        compiled.seek(0)
        tag = language.replace("_", "-")
        name = locale.get_display_name() or tag
        found[tag.lower()] = Catalogue(tag, name, locale, GNUTranslations(compiled))
    return found


#: The parameter of the URL, and the cookie, that name the language of a page.
PARAMETER, COOKIE = "lang", "ibi_language"
#: The greatest length of a query that the links to the other languages repeat. Without a limit, a
#: page with these links would be several times as long as the request.
MAX_QUERY = 4096
#: The key of Flask-Babel in ``app.extensions``.
FLASK_BABEL = "babel"
#: The key of the catalogue of a page in the WSGI environment of a request.
CATALOGUE = "ibi.catalogue"
#: The folder of our templates.
OWN_TEMPLATES = Path(__file__).parent / "templates"
#: The units of sizes: the number of bytes, and the symbol, which all languages share.
SIZES = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (1, "B"))

#: A day or a month. A year is written as it is.
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}(?:-[0-9]{2})?")


# --- the language of the page ------------------------------------------------------------------


def page_language() -> str:
    """Return the tag of the language of the page, such as ``pt``.

    The language is the first of these languages that the pages have: the language in the URL
    (``?lang=``), the language that the host chose, the language in the cookie, the languages of
    the browser, English.
    """
    return _current_catalogue().tag


def _current_catalogue() -> Catalogue:
    if not has_request_context():
        return _choose_catalogue(_languages_of_terminal())
    environ = request.environ
    found: Catalogue | None = environ.get(CATALOGUE)
    if found is None:
        wanted = (
            _language_in_url(),
            _language_of_host(),
            request.cookies.get(COOKIE, ""),
            request.headers.get("Accept-Language", ""),
        )
        found = environ[CATALOGUE] = _choose_catalogue(",".join(wanted))
    return found


def _languages_of_terminal() -> str:
    """Return the languages of the user of a command, from variables such as LANG.

    The result has the syntax of Accept-Language; "" if no language is set.
    """
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    locale = next(filter(None, map(os.environ.get, names)), "C")
    if re.match("C|POSIX", locale):
        return ""
    tags = f"{os.environ.get('LANGUAGE', '')}:{locale}".split(":")
    return ",".join(re.split("[.@]", tag)[0].replace("_", "-") for tag in tags if tag)


def _choose_catalogue(languages: str) -> Catalogue:
    catalogues = read_catalogues()
    return catalogues[find_language(parse_accept_language(languages), catalogues) or ENGLISH]


def _language_in_url() -> str:
    # request.args would raise an exception for bytes that are not UTF-8
    query = request.query_string
    return dict(decode_query_string(query)).get(PARAMETER, "") if b"lang=" in query else ""


def _language_of_host() -> str:
    """Return the language that the host chose for the reader; "" if the host chooses none."""
    extensions = current_app.extensions
    choose = extensions[EXTENSION].functions.choose_language if EXTENSION in extensions else None
    if choose is None and FLASK_BABEL in extensions:
        # imported here, because most apps do without it; an older extension has the same key
        with suppress(ImportError):
            choose = import_module("flask_babel").get_locale
    return "" if choose is None else str(choose() or "").replace("_", "-")


def set_language(response: Response) -> None:
    """Set the headers that name the language of a page, and the language cookie.

    The cookie is set if the reader has just chosen the language with a link of this host. It is not
    set if the host chooses the language, if the browser prefers the same language anyway, or if the
    link is on another host.
    """
    language = page_language()
    response.headers["Content-Language"] = language
    response.headers["Vary"] = "Accept-Language, Cookie"
    if not _language_in_url() or _language_of_host() or not _is_own_link():
        return
    path = f"{requests.request_root()}/"
    if language != _choose_catalogue(request.headers.get("Accept-Language", "")).tag:
        response.set_cookie(
            COOKIE, language, path=path, secure=request.is_secure, httponly=True, samesite="Lax"
        )
    elif COOKIE in request.cookies:
        response.delete_cookie(COOKIE, path)


def _is_own_link() -> bool:
    """Return whether the reader followed a link of this host."""
    site = request.headers.get("Sec-Fetch-Site")
    # browsers send Sec-Fetch-Site only to hosts with HTTPS
    if site:
        return site == "same-origin"
    return urlsplit(request.referrer or "").netloc == request.host


@dataclass(frozen=True, slots=True)
class LanguageLink:
    """A language of the pages.

    :param tag: the tag of the language, such as ``pt``.
    :param name: the name of the language in the language itself.
    :param url: the URL of this page in the language.
    :param is_current: True if the page is in this language.
    """

    tag: str
    name: str
    url: str
    is_current: bool


def list_languages() -> list[LanguageLink]:
    """Return the languages of the pages, each with the URL of this page in the language.

    The URLs do not contain a query that is longer than :data:`MAX_QUERY`.
    """
    # browsers read the text after two slashes at the beginning as another host
    target = f"/{requests.request_target().lstrip('/')}"
    path, _, query = target.partition("?")
    if len(query) > MAX_QUERY:
        query = ""
    kept = [pair for pair in query.split("&") if pair and pair.partition("=")[0] != PARAMETER]
    current = page_language()
    return [
        LanguageLink(
            one.tag,
            one.name,
            f"{requests.request_root()}{path}?{'&'.join([*kept, f'{PARAMETER}={one.tag}'])}",
            one.tag == current,
        )
        for one in sorted(read_catalogues().values(), key=lambda one: one.name)
    ]


# --- texts, dates, numbers and names -----------------------------------------------------------


def gettext(message: str, /, **values: object) -> str:
    """Return the translation of a message.

    :param message: the English text. Placeholders are written as in :meth:`str.format`. A result of
        :func:`.translatable` already contains the values.
    :param values: the values of the placeholders. If a value is HTML, the result is HTML.
    """
    if isinstance(message, Message) and message.values:
        return message.render(gettext)
    text = _current_catalogue().messages.gettext(message)
    if not values:
        return text
    if any(isinstance(value, Markup) for value in values.values()):
        return escape(text).format(**values)
    return text.format(**values)


def ngettext(singular: str, plural: str, count: int, /, **values: object) -> str:
    """Return the translation of a message that contains a number.

    :param singular: the English text for the number one.
    :param plural: the English text for other numbers, with the placeholder ``{count}``.
    :param values: the values of the other placeholders.
    """
    text = _current_catalogue().messages.ngettext(singular, plural, count)
    return text.format(count=format_number(count), **values)


def translate_reason(reason: Reason | Exception | str | None) -> str:
    """Return a reason, or the message of an error, in the language of the reader; "" for None."""
    if isinstance(reason, Exception):
        [reason] = reason.args[:1] or [None]
    if isinstance(reason, Reason):
        reason = reason.message
    return gettext(reason) if isinstance(reason, Message) else str(reason or "")


def format_number(value: int) -> str:
    """Return a number with the thousands separator of the page's language."""
    return numbers.format_decimal(value, locale=_current_catalogue().locale)


def format_size(size: int) -> str:
    """Return the size of a file, such as ``1.2 MB``.

    :param size: the number of bytes.
    """
    unit, divisor = next(
        (unit, divisor) for divisor, unit in SIZES if size >= divisor or divisor == 1
    )
    pattern = "#,##0" if divisor == 1 else "#,##0.#"
    value = numbers.format_decimal(size / divisor, pattern, _current_catalogue().locale)
    return f"{value}\N{NO-BREAK SPACE}{unit}"


def format_date(value: date | str, width: Literal["long", "short"] = "long") -> str:
    """Return a date as readers write it, such as ``1 de março de 2027``.

    :param value: a date, a datetime, or a text: a day, a month such as ``2027-03``, or a year. Any
        other text is returned unchanged.
    :param width: "short" writes the month in digits.
    """
    locale = _current_catalogue().locale
    if isinstance(value, str):
        if not _DATE.fullmatch(value):
            return value
        try:
            first = date.fromisoformat(f"{value}-01"[:10])
        except ValueError:
            return value
        if len(value) == len("2027-03"):
            skeleton = "yMMMM" if width == "long" else "yM"
            return dates.format_skeleton(skeleton, first, locale=locale)
        value = first
    if width == "short":
        return dates.format_skeleton("yMd", value, locale=locale)
    return dates.format_date(value, "long", locale)


def format_moment(value: str) -> str:
    """Return a date and time as readers write it, such as ``1 March 2027 at 10:00:00 UTC``.

    :param value: the text of a time in UTC, such as ``2027-03-01T10:00:00Z``. A fraction of a
        second is not shown.
    """
    moment = datetime.fromisoformat(value[:19])
    return dates.format_datetime(moment, "long", locale=_current_catalogue().locale)


def get_language_name(code: str) -> str:
    """Return the name of a language, such as ``português (Brasil)``.

    :param code: the code of the language, in the form ``xx`` or ``xx-YY``.
    :returns: the code if the name of the language is unknown.
    """
    locale = _current_catalogue().locale
    language, _, country = code.partition("-")
    name = locale.languages.get(language)
    if name is None:
        return code
    return f"{name} ({locale.territories.get(country, country)})" if country else name


#: The functions by their names in templates. Their prefix distinguishes them from functions of the
#: host, such as those of Flask-Babel: a page can extend a layout of the host.
FUNCTIONS: dict[str, Any] = {
    "ibi_gettext": gettext,
    "ibi_ngettext": ngettext,
    "ibi_format_date": format_date,
    "ibi_format_moment": format_moment,
    "ibi_format_number": format_number,
    "ibi_format_size": format_size,
    "ibi_language_name": get_language_name,
    "ibi_list_languages": list_languages,
    "ibi_rich": lambda text: Markup(to_html(text)),
}
