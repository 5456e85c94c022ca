"""A parser of pages, and checks of the properties that every page has."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from flask import Flask

from support.web import ask

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """A parsed page; tags without a matching tag are an error."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = text
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), (tag, attrs)
        # the title of a chart is not the title of the page
        drawn = "svg:" if "svg" in self.open else ""
        self.tags.append((drawn + tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, tag
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            drawn = "svg:" if "svg" in self.open[:-1] else ""
            self.words.setdefault(drawn + self.open[-1], []).append(data)
        else:
            assert not data.strip()

    def text(self, tag: str) -> str:
        """Return the text of all elements with a tag."""
        return " ".join(self.words.get(tag, [])).strip()

    @property
    def links(self) -> list[str]:
        """The targets of all links."""
        return [attrs["href"] or "" for tag, attrs in self.tags if tag == "a"]

    @property
    def html(self) -> dict[str, str | None]:
        """The attributes of the html element."""
        assert self.tags[0][0] == "html"
        return self.tags[0][1]


def see(app: Flask, target: str, status: int = 200, language: str = "", **options: str) -> Page:
    """Return a parsed page, and check the properties that every page has."""
    headers = {"Accept-Language": language} if language else {}
    answer = ask(app, target, headers=headers, **options)
    assert answer.status == status
    assert answer.headers.getlist("Content-Type") == ["text/html; charset=utf-8"]
    assert answer.headers["Vary"] == "Accept-Language"
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
    # no scripts, no external resources
    assert {"script", "link", "img", "iframe", "object", "embed", "form", "base"}.isdisjoint(kinds)
    assert "url(" not in answer.text
    assert "@import" not in answer.text
    for tag, attrs in page.tags:
        assert not [name for name in attrs if name.startswith("on") or name in ("src", "style")]
        assert "href" not in attrs or tag == "a"
    assert all(link.startswith(("http://", "https://")) for link in page.links)
    assert not re.search("{{|{%|None|Undefined", page.text("dd") + page.text("p") + page.text("h1"))
    return page
