"""A parser of pages, and checks of the properties that every page has."""

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
from flask import Flask
from lxml import html

from flask_ibi_archive.server.web import texts as translations
from flask_ibi_archive.server.web.texts import Catalogue, read_catalogues
from support.web import ask

#: The languages of the pages.
LANGUAGES = ("en", "es", "pt")
#: The relations of links that only name an address.
ADDRESSES = {
    *("canonical", "cite-as", "describedby", "license", "alternate"),
    *("schema.DC", "schema.DCTERMS"),
}
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """A parsed page; tags without a matching tag are an error."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = text
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.main_links: list[dict[str, str | None]] = []
        self.all_links: list[str] = []
        self.words: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), (tag, attrs)
        self.tags.append((tag, dict(attrs)))
        if tag == "a":
            self.all_links.append(dict(attrs)["href"] or "")
            if "main" in self.open:
                self.main_links.append(dict(attrs))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.words.setdefault(self.open[-1], []).append(data)
        else:
            assert not data.strip()

    def text(self, tag: str) -> str:
        """Return the text of all elements with a tag."""
        return " ".join(self.words.get(tag, [])).strip()

    @property
    def links(self) -> list[str]:
        """The targets of all links in the main part of the page, with those of the breadcrumb.

        Header and footer have the same links on all pages; ``all_links`` contains them too.
        """
        return [attrs["href"] or "" for attrs in self.main_links]

    @property
    def html(self) -> dict[str, str | None]:
        """The attributes of the html element, without its class."""
        assert self.tags[0][0] == "html"
        return {name: value for name, value in self.tags[0][1].items() if name != "class"}


@contextmanager
def reading(language: str) -> Iterator[None]:
    """Open the request of a reader who prefers a language."""
    with Flask("reader").test_request_context(headers={"Accept-Language": language}):
        yield


def see(app: Flask, target: str, status: int = 200, language: str = "", **options: str) -> Page:
    """Return a parsed page, and check the properties that every page has."""
    headers = {"Accept": "text/html", **({"Accept-Language": language} if language else {})}
    answer = ask(app, target, headers=headers, **options)
    assert answer.status == status
    assert answer.headers.getlist("Content-Type") == ["text/html; charset=utf-8"]
    vary = {name.strip() for name in answer.headers["Vary"].split(",")}
    assert vary - {"Accept"} == {"Accept-Language", "Cookie"}
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "private, no-cache"
    policy = answer.headers["Content-Security-Policy"]
    assert "script" not in policy
    assert policy.startswith("default-src 'self'")
    assert answer.text.startswith("<!doctype html>\n")
    page = Page(answer.text)
    kinds = [tag for tag, _ in page.tags]
    assert kinds.count("h1") == kinds.count("title") == kinds.count("main") == 1
    assert page.text("title")
    assert page.text("h1")
    # no other resources than those of the package
    assert {"style", "object", "embed", "base"}.isdisjoint(kinds)
    # browsers follow neither a data block nor the links that only name an address
    resources = [
        attrs
        for tag, attrs in page.tags
        if (tag == "script" and attrs.get("type") != "application/ld+json")
        or (tag == "link" and attrs["rel"] not in ADDRESSES)
    ]
    assert all(
        str(attrs.get("src") or attrs.get("href")).startswith("/ibi/static/ibi.")
        for attrs in resources
    )
    assert "url(" not in answer.text
    assert "@import" not in answer.text
    for tag, attrs in page.tags:
        assert not [name for name in attrs if name.startswith("on") or name == "style"]
        assert "src" not in attrs or tag == "script"
        assert "href" not in attrs or tag in ("a", "link")
    assert all(link.startswith(("http://", "https://", "/")) for link in page.links)
    assert not re.search("{{|{%|None|Undefined", page.text("dd") + page.text("p") + page.text("h1"))
    return page


#: The characters around each translated text, and around each date.
BEGIN, END = "\u27e6", "\u27e7"
#: The tag of the language: Esperanto.
TAG = "eo"
#: The headers of a request for a page in the language.
MARKED = {"Accept-Language": TAG}
#: The words that are the same in all languages: names of languages in the languages themselves,
#: names of formats, units, and names of the standards.
NAMES = {
    *("English", "español", "português", "Esperanto", "ISBN", "ISSN", "SHA", "LD", "RIS"),
    *("XML", "kB", "ABNT", "NBR", "BibTeX", "CSL", "CSV", "Core", "DOI"),
    *("MTD", "OpenAIRE", "DataCite", "Dublin", "IBI", "JSON"),
    # the names of languages and countries in Esperanto
    *Locale.parse(TAG).languages.values(),
    *Locale.parse(TAG).territories.values(),
}
#: The attributes that readers see or hear, and the citations of an item.
ATTRIBUTES = "//@alt | //@aria-label | //@data-copied | //@placeholder | //@title"
CITATIONS = "//*[contains(@class, 'ibi-citation')]"

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
    return {**read_catalogues(), TAG: marked}


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
        patch.object(translations, "read_catalogues", lambda: catalogues),
        patch.object(translations.dates, "format_date", mark_date),
        patch.object(translations.dates, "format_skeleton", mark_skeleton),
    ):
        yield


def list_unmarked_words(page: str) -> set[str]:
    """Return the words of a page that are not part of a translated text.

    :param page: a page in the language that marks each translated text.
    """
    root = html.document_fromstring(page)
    # identifiers are data; a citation has the words of its standard
    for element in root.xpath(f"//code | //script | //textarea | {CITATIONS}"):
        element.drop_tree()
    # a translated text may contain elements and other translated texts
    text, count = " ".join(root.xpath(f"//text() | {ATTRIBUTES}")), 1
    while count:
        text, count = _MARKED.subn(" ", text)
    return list_words(_ADDRESS.sub(" ", text))


def list_words(text: str) -> set[str]:
    """Return the words of a text that have at least two letters."""
    return set(re.findall(r"[^\W\d_]{2,}", text))
