"""A language of the pages that marks each translated text, to find texts without a translation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from functools import cache
from gettext import NullTranslations
from html.parser import HTMLParser
from typing import Any
from unittest.mock import patch

from babel import Locale

from flask_ibi_archive.server.pages import texts as translations
from flask_ibi_archive.server.pages.catalogues import Catalogue, read_catalogues
from support.pages import VOID

#: The characters around each translated text, and around each date.
BEGIN, END = "\u27e6", "\u27e7"
#: The tag of the language: Esperanto.
TAG = "eo"
#: The headers of a request for a page in the language.
MARKED = {"Accept-Language": TAG}
#: The words that are the same in all languages: names of languages in the languages themselves,
#: names of formats, units, and names of the standards.
NAMES = {
    *("English", "español", "português", "Esperanto"),
    *("ABNT", "NBR", "BibTeX", "CSL", "CSV", "Core", "DOI", "DataCite", "Dublin", "IBI", "JSON"),
    *("LD", "RIS", "XML", "kB"),
    # the names of languages and countries in Esperanto
    *Locale.parse(TAG).languages.values(),
    *Locale.parse(TAG).territories.values(),
}
#: The attributes that readers see or hear.
ATTRIBUTES = ("alt", "aria-label", "data-copied", "placeholder", "title")

#: URLs and media types.
_ADDRESS = re.compile(r"https?://\S+|\b[a-z]+/[a-z0-9.+-]+")
_MARKED = re.compile(f"{BEGIN}[^{BEGIN}{END}]*{END}")


class _MarkedTexts(NullTranslations):
    def gettext(self, message: str) -> str:
        return f"{BEGIN}{message}{END}"

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return self.gettext(msgid1 if n == 1 else msgid2)


@cache
def _make_catalogues() -> dict[str, Catalogue]:
    marked = Catalogue(TAG, "Esperanto", Locale.parse(TAG), _MarkedTexts())
    return {**read_catalogues()[0], TAG: marked}


@contextmanager
def marked_language() -> Iterator[None]:
    """Add the language that marks each translated text."""
    catalogues = _make_catalogues()

    def mark_date(value: date, *rest: Any, **options: Any) -> str:
        return f"{BEGIN}{value}{END}"

    def mark_skeleton(skeleton: str, value: date, **options: Any) -> str:
        return mark_date(value)

    with (
        patch.object(translations.dates, "format_datetime", mark_date),
        patch.object(translations, "_catalogues", lambda: catalogues),
        patch.object(translations.dates, "format_date", mark_date),
        patch.object(translations.dates, "format_skeleton", mark_skeleton),
    ):
        yield


class _Texts(HTMLParser):
    """The texts and attributes of a page that readers see or hear."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.attributes: list[str] = []
        self.open: list[tuple[str, bool]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [value or "" for name, value in attrs if name in ATTRIBUTES]
        # identifiers are data; a citation has the words of its standard
        is_data = tag in ("code", "script", "textarea") or "ibi-citation" in (
            dict(attrs).get("class") or ""
        )
        if tag not in VOID:
            self.open.append((tag, is_data))

    def handle_endtag(self, tag: str) -> None:
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.texts += [] if any(is_data for _, is_data in self.open) else [data]


def list_unmarked_words(page: str) -> set[str]:
    """Return the words of a page that are not part of a translated text.

    :param page: a page in the language that marks each translated text.
    """
    found = _Texts(page)
    # a translated text may contain elements and other translated texts
    text, count = " ".join([*found.texts, *found.attributes]), 1
    while count:
        text, count = _MARKED.subn(" ", text)
    return list_words(_ADDRESS.sub(" ", text))


def list_words(text: str) -> set[str]:
    """Return the words of a text that have at least two letters."""
    return set(re.findall(r"[^\W\d_]{2,}", text))
