"""The resolver's front page: a form that redirects to an item."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from flask import Flask, Response
from support.pages import Page
from support.web import ask, resolver_app

from flask_ibi_archive.resolver.pages import show_at_root

IBI = "8JMKD3MGP8W/34PGRBS"
REP = "sid.inpe.br/mtc-m18/2009/02.16.17.46"


@pytest.fixture(scope="module")
def app() -> Flask:
    """An app that has only the front page."""
    return resolver_app(lambda *asked: Response("led"))


def see(app: Flask, query: str = "", status: int = 200, language: str = "en") -> Page:
    """Return the page after checks that apply to every page."""
    answer = ask(app, f"/{query}", headers={"Accept-Language": language})
    assert answer.status == status
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Vary"] == "Accept-Language, Cookie"
    assert "script" not in answer.headers["Content-Security-Policy"]
    page = Page(answer.text)
    kinds = [tag for tag, _ in page.tags]
    assert {kinds.count(kind) for kind in ("h1", "form", "input", "button")} == {1}
    assert "script" not in kinds
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    # screen readers need a label
    [label] = [attrs for tag, attrs in page.tags if tag == "label"]
    assert label["for"] == field(page)["id"]
    assert page.html == {"lang": language[:2]}
    return page


def field(page: Page) -> dict[str, str | None]:
    """Return the attributes of the input field."""
    return next(attrs for tag, attrs in page.tags if tag == "input")


def submit(text: str) -> str:
    """Return the query that a browser sends for the form."""
    return f"?ibi={quote(text, safe='')}"


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (f"  {IBI.lower()}\t", f"/{IBI}"),
        (
            f"http://urlib.net/{IBI}+(pt-BR)/a b.pdf?x=1&y=%2F",
            f"/{IBI}+(pt-BR)/a%20b.pdf?x=1&y=%2F",
        ),
        (f"HTTPS://example.org:8080/ibi/{REP.upper()}", f"/{REP}"),
        (f"upn:EEAFFE:{REP}", f"/{REP}"),
        (f"{IBI}?ibiurl.requireditemstatus=Original", f"/{IBI}?ibiurl.requireditemstatus=Original"),
    ],
)
def test_a_persistent_url_is_redirected_to(app: Flask, text: str, target: str) -> None:
    answer = ask(app, f"/{submit(text)}")
    assert (answer.status, answer.headers["Location"]) == (302, target)
    assert ask(app, target).body == b"led"


@pytest.mark.parametrize(
    ("text", "said", "meant"),
    [
        ("", "Enter an IBI", None),
        ("sid.inpe.br/mtc-m18/2OO9/02.16.17.46", "is not an IBI", REP),
        (f"{IBI}:!", "may not follow", None),
        ("<script>alert('x')</script>\" onfocus=\"x", "is not an IBI", None),
        ("{{ 7 * 7 }}", "is not an IBI", None),
    ],
)
def test_an_error_is_shown_next_to_the_field(
    app: Flask, text: str, said: str, meant: str | None
) -> None:
    page = see(app, submit(text), 400)
    shown = field(page)
    assert shown["value"] == text.strip()
    assert (shown["aria-invalid"], shown["aria-describedby"]) == ("true", "fault")
    [fault] = [attrs for tag, attrs in page.tags if attrs.get("id") == "fault"]
    assert fault["role"] == "alert"
    assert said in page.text("div") + page.text("span")
    assert (f"/{meant}" in page.links) == (meant is not None)
    assert "49" not in str(shown["value"])


@pytest.mark.parametrize("query", ["?ibi=%ff%00%0d%0aX:%20y", "?ibi=" + "9" * 9000, "?%"])
def test_odd_queries_are_answered(app: Flask, query: str) -> None:
    answer = ask(app, f"/{query}")
    assert answer.status in (200, 400)
    assert len(answer.body) < 20_000


def test_the_apps_own_front_page_has_precedence(app: Flask) -> None:
    host = Flask("host")
    host.before_request(show_at_root)
    host.add_url_rule("/", "index", lambda: "ours")
    assert ask(host, "/").body == b"ours"
    assert ask(host, "/" + submit(IBI)).body == b"ours"
    assert ask(app, "/", "POST").status == 405
