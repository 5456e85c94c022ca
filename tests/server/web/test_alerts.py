"""Alerts as pages and as lists of pairs, and the persistent URL in a request."""

from __future__ import annotations

from dataclasses import replace

import pytest
from flask import Flask, Response
from support.alerts import (
    ALERTS,
    IBI,
    LOOP,
    MISSING,
    REMOVED,
    REMOVED_IN_PART,
    SILENT,
    SOURCES,
    SUSPECTS,
    TOO_LONG,
    UNKNOWN,
)
from support.pages import (
    MARKED,
    NAMES,
    Page,
    list_unmarked_words,
    list_words,
    marked_language,
    reading,
    see,
)
from support.web import Answer, ask, resolver_app

from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, MissingPart
from flask_ibi_archive.core.resolution.persistent_url import ResolutionRequest
from flask_ibi_archive.server.web.alerts import alert_response
from flask_ibi_archive.server.web.texts import get_language_name

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def alerting(alert: Alert) -> Flask:
    """Return an app that answers every persistent URL with an alert."""
    return resolver_app(lambda *asked: alert_response(alert))


def pairs_of(answer: Answer, status: int) -> dict[str, tuple[str, ...]]:
    """Check the properties of all lists of pairs, and return the pairs of an alert."""
    assert answer.status == status
    assert answer.headers["Content-Type"] == "text/plain"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Vary"] == "Accept, Accept-Language, Cookie"
    assert answer.body.isascii()
    pairs = answer.pairs
    assert pairs["alert"]
    return pairs


# --- the kinds of alerts


@pytest.mark.rule("R62-10", "R62-17")
def test_an_alert_is_explained_in_both_languages() -> None:
    for alert, status, english, portuguese in [
        (UNKNOWN, 404, "No Archive has", "Nenhum acervo tem"),
        (REMOVED, 410, "This item was removed", "Este item foi removido"),
        (SUSPECTS, 409, "More than one source", "Mais de uma fonte"),
        (SILENT, 504, "Not all Archives answered", "Nem todos os acervos responderam"),
        (LOOP, 508, "form a circle", "formam um círculo"),
        (TOO_LONG, 508, "is too long", "longa demais"),
        (MISSING, 404, "does not have what was requested", "não tem o que foi pedido"),
    ]:
        app = alerting(alert)
        for language, words, next_words in (
            ("en", english, "What to do next"),
            ("pt-BR", portuguese, "O que fazer"),
        ):
            page = see(app, f"/{IBI}!:?x=1", status, language)
            assert page.html == {"lang": language[:2]}
            assert words in page.text("h1")
            assert page.text("h2") == next_words
            # the requested URL is shown unchanged
            assert f"http://mtc-m16c.sid.inpe.br:80/{IBI}!:?x=1" in page.text("code")
            assert page.links[-1] == "/"
        pairs = pairs_of(ask(app, f"/{IBI}!:?x=1"), status)
        assert pairs["ibi"] == ("ibip", IBI)
        assert IBI in " ".join(pairs["alert"])


@pytest.mark.rule("R62-17")
def test_the_alert_about_a_removed_item_has_the_date_and_a_link_to_its_page() -> None:
    page = see(alerting(REMOVED), f"/{IBI}", 410)
    assert f"http://mtc-m16c.sid.inpe.br/{IBI}" in page.links
    assert page.text("time") == "2 January 2010"
    pairs = pairs_of(ask(alerting(REMOVED), f"/{IBI}"), 410)
    assert pairs["state"] == ("Deleted",)
    assert pairs["timestamp"] == ("2010-01-02T03:04:05Z",)
    assert pairs["archiveaddress"] == ("mtc-m16c.sid.inpe.br",)
    # it is mentioned if other Archives do not answer
    page = see(alerting(REMOVED_IN_PART), f"/{IBI}", 504)
    assert "1 of 7 Archives" in page.text("p")
    assert "has removed the item" in page.text("p")
    assert "2010" in page.text("time")
    assert "removed" not in see(alerting(SILENT), f"/{IBI}", 504).text("p")
    pairs = pairs_of(ask(alerting(REMOVED_IN_PART), f"/{IBI}"), 504)
    assert (pairs["state"], pairs["archives.silent"]) == (("Deleted",), ("1",))
    assert "state" not in pairs_of(ask(alerting(SILENT), f"/{IBI}"), 504)


def test_the_alert_about_a_known_item_links_to_its_other_parts() -> None:
    app = alerting(MISSING)
    page = see(app, f"/{IBI}+(fr)", 404, "pt")
    assert "não tem a tradução" in page.text("p")
    assert "O que o item tem" in page.text("dt")
    assert "A versão em inglês" in page.text("a")
    assert page.links[:5] == ["/", f"/{IBI}", f"/{IBI}+(en)", f"/{IBI}:", f"/{IBI}:(oai_dc)"]
    # there is no link to the requested URL itself
    bare = replace(MISSING, missing_part=MissingPart.ACCESS, alternatives=())
    assert f"/{IBI}" not in see(alerting(bare), f"/{IBI}", 404).links
    pairs = pairs_of(ask(app, f"/{IBI}+(fr)"), 404)
    assert pairs["alternatives"] == (f"/{IBI}+(en)", f"/{IBI}:", f"/{IBI}:(oai_dc)")


def test_languages_are_shown_by_name() -> None:
    for code, page_language, name in (
        ("pt-BR", "pt", "português (Brasil)"),
        ("en-XY", "es", "inglés (XY)"),
        ("qq", "en", "qq"),
    ):
        with reading(page_language):
            assert get_language_name(code) == name


def test_archives_under_suspicion_are_named() -> None:
    app = alerting(SUSPECTS)
    target = f"/{IBI}:?ibiurl.requireditemstatus=Original&x=1"
    page = see(app, target, 409)
    for source in SOURCES:
        assert f"http://{source.address}/{IBI}" in page.links
        assert source.service in page.text("code")
        assert source.address in page.text("a")
    # the link does not require the original
    assert f"/{IBI}:?x=1" in page.links
    pairs = pairs_of(ask(app, target), 409)
    assert pairs["archiveaddress"] == tuple(source.address for source in SOURCES)
    assert pairs["archiveserviceibi"] == tuple(source.service for source in SOURCES)


def test_the_number_of_silent_archives_is_shown_with_a_link_to_retry() -> None:
    app = alerting(SILENT)
    page = see(app, f"/{IBI}?x=1", 504)
    assert "2 of 7 Archives" in page.text("p")
    assert f"/{IBI}?x=1" in page.links
    assert f"/{IBI}" in see(app, f"//{IBI}", 504).links
    for answer in (ask(app, f"/{IBI}"), ask(app, f"/{IBI}", headers={"Accept": BROWSER})):
        assert answer.headers["Retry-After"] == "10"
    pairs = pairs_of(ask(app, f"/{IBI}"), 504)
    assert (pairs["archives.silent"], pairs["archives.asked"]) == (("2",), ("7",))


def test_a_malformed_url_is_explained_with_a_suggestion() -> None:
    app = alerting(UNKNOWN)
    target = "/sid.inpe.br/mtc-m18/2OO9/02.16.17.46:"
    page = see(app, target, 400)
    meant = "sid.inpe.br/mtc-m18/2009/02.16.17.46"
    assert page.links == ["/", f"/{meant}", "/"]
    assert page.text("h1") == "This is not a persistent URL"
    assert "http://urlib.net/8JMKD3MGP8W/35MMLL8!:(oai_dc)" in page.text("code")
    pairs = pairs_of(ask(app, target), 400)
    assert pairs["suggestion"] == (meant,)
    assert "did you mean" in " ".join(pairs["alert"])
    assert see(app, target, 400, "pt").text("h1") == "Esta não é uma URL persistente"
    # the requested URL is shown escaped
    hostile = (
        "/8JMKD3MGP8W/35MMLL8;%3Cscript%3Ealert('x')%3C/script%3E&%22%E2%80%A8%7B%FF?%22%3E<b>"
    )
    page = see(app, hostile, 400)
    assert "script" not in [tag for tag, _ in page.tags]
    assert "%3Cscript%3E" in page.text("code")
    pairs_of(ask(app, hostile), 400)


def test_alerts_have_no_text_without_a_translation() -> None:
    parts = [replace(MISSING, missing_part=part) for part in MissingPart]
    malformed = Alert(AlertKind.MALFORMED, None, suggestion=IBI)
    with marked_language():
        for alert in (*ALERTS, *parts, malformed):
            page = ask(alerting(alert), f"/{IBI}+(fr)", headers={"Accept": BROWSER, **MARKED})
            assert list_unmarked_words(page.text) - list_words(str(SOURCES)) <= NAMES, alert
        for method, target in (("POST", f"/{IBI}"), ("GET", "/a.br/x/2001/01.01.00.00:+!")):
            page = ask(alerting(UNKNOWN), target, method, headers={"Accept": BROWSER, **MARKED})
            assert list_unmarked_words(page.text) <= NAMES


# --- pages or pairs


def test_a_page_is_returned_to_clients_that_prefer_html() -> None:
    app = alerting(UNKNOWN)
    for accept, is_page in [
        ("", False),
        ("*/*", False),
        ("text/*", False),
        ("text/html", True),
        ("Text/HTML, application/xhtml+xml, */*", True),
        ("text/html, text/plain", False),
        ("text/html, text/plain;q=0.9", True),
        ("text/html;q=0.5, text/plain;q=0.9", False),
        ("text/html;q=0.5, */*;q=0.9", False),
        ("application/json", False),
        (";;,,q=,\xff", False),
    ]:
        answer = ask(app, f"/{IBI}", headers={"Accept": accept} if accept else {})
        assert answer.status == 404, accept
        assert answer.headers["Content-Type"].startswith("text/html") == is_page, accept


# --- the persistent URL in a request


def echo(asked: ResolutionRequest) -> Response:
    """Return the values that were read from a request, one a line."""
    wanted, tags = asked.wanted, [language.tag for language in asked.ranges]
    lines = [wanted.ibi.text, wanted.path, wanted.passed_query, asked.persistent_url]
    lines += [*asked.client_addresses, *tags]
    return Response("\n".join(lines))


@pytest.mark.rule("R61-16", "R62-01")
@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (f"/{IBI}/a%2520b%3Fc%23", "/a%2520b%3Fc%23", ""),
        (f"/{IBI}/Relat%F3rio", "/Relat%F3rio", ""),
        (f"/{IBI}/a+b=c@d,e;f~(g)!*'$&", "/a+b=c@d,e;f~(g)!*'$&", ""),
        (f"/{IBI}/%C3%B3?x=%F3+1&y=%2526", "/%C3%B3", "x=%F3+1&y=%2526"),
        (f"/{IBI}?x=a?b&z", "", "x=a?b&z"),
    ],
)
def test_a_persistent_url_is_parsed_as_it_was_requested(target: str, path: str, query: str) -> None:
    lines = ask(resolver_app(echo), target).text.split("\n")
    assert lines[:3] == [IBI, path, query]
    assert lines[3] == f"http://mtc-m16c.sid.inpe.br:80{target}"


def test_a_host_with_only_a_resolver_explains_every_malformed_path() -> None:
    app = resolver_app(echo)
    for target in ("/8JMKD3MGP8W/35MMLL8::", "/favicon.ico", "/static/style.css", "/%00"):
        answer = ask(app, target)
        assert (answer.status, answer.headers["Content-Type"]) == (400, "text/plain"), target
        page = Page(ask(app, target, headers={"Accept": BROWSER}).text)
        assert page.text("h1") == "This is not a persistent URL", target
    for target in (f"/{IBI}", "/favicon.ico"):
        for method in ("POST", "OPTIONS", "BREW"):
            refused = ask(app, target, method)
            assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD"), target
    page = Page(ask(app, f"/{IBI}", "POST", headers={"Accept": BROWSER}).text)
    assert page.text("h1") == "This address can only be opened, not changed"
    # a host with other pages explains only paths that are similar to an IBI
    app = resolver_app(echo)
    app.add_url_rule("/own", "own", lambda: "own")
    for target, status in [
        ("/8JMKD3MGP8W", 400),
        ("/ibi:x/y1", 400),
        ("/http://urlib.net/x", 400),
        ("/favicon.ico", 404),
        ("/about/us", 404),
    ]:
        answer = ask(app, target, headers={"Accept": BROWSER})
        assert (answer.status, "persistent URL" in answer.text) == (status, status == 400), target
