"""Persistent URLs on an Archive's own host: redirects to its items or to the resolver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask, Response
from hypothesis import given
from hypothesis import strategies as st
from support.accesses import stored
from support.archives import FAR_SERVICE, archive_of, import_records
from support.moves import confirm
from support.pages import Page
from support.stores import USERS, rep_of
from support.web import (
    CLOSED,
    CLOSED_URL,
    FAR_METADATA,
    GONE,
    HIDDEN_BARE,
    INSIDE,
    LATIN_1_URL,
    METADATA,
    NEW,
    NOBODY,
    OLD,
    ONLY_IBIP,
    OUTSIDE,
    PORTUGUESE,
    REPORT,
    REPORT_ALIAS,
    REPORT_IBIP,
    SERVED_ELSEWHERE,
    SERVICE_PATH,
    URL_METADATA,
    WITH_METADATA,
    Answer,
    add_resolver,
    ask,
    ask_urls,
    rep,
)

from flask_ibi_archive.archive.service import local_resolution
from flask_ibi_archive.archive.service.local_resolution import create_local_acknowledgment
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.messages import format_request, parse_request
from flask_ibi_archive.core.protocol.pairs import decode_query_string, encode_word
from flask_ibi_archive.core.protocol.relations import NO_VERBS
from flask_ibi_archive.core.resolution.answer import ArchiveSource, Question
from flask_ibi_archive.core.resolution.outcome import Redirect
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl, ResolutionRequest

NewApp = Callable[..., Flask]
HOST = "http://mtc-m16c.sid.inpe.br"
BASE = "http://urlib.net"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.fixture(autouse=True)
def _without_counting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch off the counting of accesses in tests with the shared store, which must not change."""
    if {"web", "web_with"} & set(request.fixturenames):
        monkeypatch.setattr(local_resolution, "count_after_response", lambda *parts: None)


FILES = "?ibiurl.verblist=GetFileList"
#: The parts that the report has.
PARTS = [":", ":(oai_dc)", "+(en)", "+(pt)", FILES]


def col(ibi: str, rest: str) -> str:
    """Return the URL of a page or file of an item."""
    return f"{HOST}/col/{ibi}/{rest}"


def redirect_of(answer: Answer) -> str:
    """Check that a response is a redirect and return its URL."""
    assert answer.status == 302, (answer.status, answer.body)
    assert answer.headers["Cache-Control"].startswith("private")
    return answer.headers["Location"]


def ask_with(app: Flask, target: str, language: str = "", accept: str = "", **more: Any) -> Answer:
    """Request a target with the preferences of a reader."""
    headers = {"Accept-Language": language, "Accept": accept}
    return ask(app, target, headers={name: text for name, text in headers.items() if text}, **more)


@pytest.mark.rule("R61-15", "R61-16", "R62-16")
def test_a_persistent_url_of_an_item_of_this_archive_redirects_to_it(web: Flask) -> None:
    for target, url in [
        (REPORT, col(REPORT, "doc/report.pdf")),
        (REPORT_IBIP.lower(), col(REPORT, "doc/report.pdf")),
        (REPORT_ALIAS, col(REPORT, "doc/report.pdf")),
        (ONLY_IBIP, col(ONLY_IBIP, "doc/new.txt")),
        (f"upn:EEAFFE:{REPORT_IBIP}", col(REPORT, "doc/report.pdf")),
        (f"{REPORT}:", col(REPORT, "metadata")),
        (f"{REPORT}:(oai_dc)?x=1&y=%2F", col(REPORT, "metadata?choice=oai_dc&x=1&y=%2F")),
        (f"{REPORT}?x=1&ibiurl.language=pt&y", col(REPORT, "doc/report.pdf?x=1&y")),
        (f"{REPORT}?ibiurl.verblist=GetFileList", col(REPORT, "files")),
        (f"{REPORT}/Relat%C3%B3rio%20Final.txt", col(REPORT, "doc/Relat%C3%B3rio%20Final.txt")),
        (f"{REPORT}/doc/a+b=c%20@100%25.txt", col(REPORT, "doc/doc/a%2Bb%3Dc%20%40100%25.txt")),
        (f"{REPORT}+(pt)", col(PORTUGUESE, "doc/new.txt")),
        (f"{OLD}!", col(NEW, "doc/page.html")),
        (f"{WITH_METADATA}:", col(METADATA, "doc/page.html")),
        (f"{URL_METADATA}:?x=2", "https://example.org/m?x=1&x=2"),
        (SERVED_ELSEWHERE, LATIN_1_URL),
    ]:
        for method in ("GET", "HEAD"):
            assert redirect_of(ask(web, f"/{target}", method)) == url, target
        assert ask(web, f"/{target}", "POST").status == 405, target
    # a plus sign redirects to the translation that the reader prefers
    for language, found in [
        ("pt-BR", PORTUGUESE),
        ("de, pt;q=0.5, en;q=0.4", PORTUGUESE),
        ("en", REPORT),
        ("", REPORT),
    ]:
        answer = ask_with(web, f"/{REPORT}+", language)
        assert redirect_of(answer).startswith(col(found, "doc/"))
        assert "Accept-Language" in answer.headers["Vary"]
        assert ask_with(web, f"/{REPORT}+(pt)", language).headers["Vary"] == "Accept"


def test_access_rules_apply_to_the_address_of_the_reader(web: Flask, web_with: NewApp) -> None:
    assert redirect_of(ask(web, f"/{CLOSED}", remote=INSIDE)) == col(CLOSED, "doc/report.pdf")
    assert redirect_of(ask(web, f"/{CLOSED}", remote=OUTSIDE)) == col(CLOSED, "metadata")
    assert redirect_of(ask(web, f"/{CLOSED}", remote=None)) == col(CLOSED, "metadata")
    assert ask(web, f"/{CLOSED_URL}", remote=OUTSIDE).status == 404
    assert ask(web, f"/{HIDDEN_BARE}", remote=OUTSIDE).status == 404
    proxied = web_with(IBI_TRUSTED_PROXIES=f"{OUTSIDE}/32")
    forwarded = {"X-Forwarded-For": INSIDE}
    assert redirect_of(ask(proxied, f"/{CLOSED}", headers=forwarded, remote=OUTSIDE)).endswith(
        ".pdf"
    )
    assert redirect_of(ask(web, f"/{CLOSED}", headers=forwarded, remote=OUTSIDE)).endswith(
        "metadata"
    )


def test_loops_are_alerts_and_what_a_copy_lacks_is_left_to_the_resolver(app: Flask) -> None:
    # a redirect to the requested url is a loop
    here = {"path": "a.txt", "url": f"{HOST}/{rep(1)}"}
    import_records(archive_of(app), [{"rep": rep(1), "files": [here]}])
    assert ask(app, f"/{rep(1)}").status == 508
    # the same item with another path is not a loop
    assert redirect_of(ask(app, f"/{rep(1)}/a.txt")) == f"{HOST}/{rep(1)}"
    # the missing parts of a copy and a removed copy are left to the resolver
    confirm(archive_of(app))
    copy = {"state": "Copy", "original_archive": FAR_SERVICE}
    import_records(
        archive_of(app), [{"rep": rep(11), "next_edition": rep(12), **copy}, {"rep": rep(12)}]
    )
    for target in (f"{rep(11)}/new.txt", f"{rep(11)}+(pt)", f"{rep(11)}!:"):
        assert redirect_of(ask(app, f"/{target}")) == f"{BASE}/{target}"
    assert ask(app, f"/{rep(12)}/new.txt").status == 404
    assert redirect_of(ask(app, f"/{rep(11)}")) == col(rep(11), "")
    archive_of(app).delete(rep(11), "no room")
    assert redirect_of(ask(app, f"/{rep(11)}")) == f"{BASE}/{rep(11)}"
    page = ask(app, f"/col/{rep(11)}/", headers={"Accept": BROWSER})
    assert page.status == 410
    assert f"<dt>Archive that contains the original</dt><dd><code>{FAR_SERVICE}</code>" in page.text


def test_other_persistent_urls_and_paths_are_not_resolved_here(web: Flask) -> None:
    # other items are left to the resolver with the same target
    for target in [
        NOBODY,
        f"{NOBODY}!+(pt-BR):(oai_dc)/a%20b.pdf?x=1&ibiurl.requireditemstatus=Original",
        "83LX3pFwXQZeBBx/BBsSs",
        "8jmkd3mgp8w/2222",
        f"{FAR_METADATA}:",
    ]:
        for method in ("GET", "HEAD"):
            assert redirect_of(ask(web, f"/{target}", method)) == f"{BASE}/{target}", target
    # a malformed target that begins with an ibi is explained
    for target, reason in [
        (f"{REPORT}::", '":" may not follow ":"'),
        (f"{REPORT}?ibiurl.requireditemstatus=Copy", "Original"),
        ("sid.inpe.br/mtc-m18@80/2009/O7.21.13.23", "did you mean"),
        ("rep/dpi.inpe.br/banon/1998/02.28.08.99?x", "minute"),
        ("8JMKD3MGP8W", "8JMKD3MGP8W"),
    ]:
        answer = ask(web, f"/{target}")
        assert answer.status == 400, target
        assert "persistent URL" in " ".join(answer.pairs["alert"]), target
        assert reason in " ".join(answer.pairs["alert"]), target
        assert ask_with(web, f"/{target}", accept=BROWSER).status == 400, target
    # other paths and messages are no persistent urls
    # other paths get the 404 of the host
    for target in ("new/gadgets", "%ff/%00", "AWS/S3", "software/linux/2023/12.04.01"):
        for method in ("GET", "POST"):
            answer = ask_with(web, f"/{target}", accept=BROWSER, method=method)
            assert answer.status == 404, target
            assert "<h1>Not Found</h1>" in answer.text, target
    # a message to another service is not a persistent url
    for target in (REPORT, NOBODY):
        message = f"/{target}?servicesubject=inclusionConfirmationRequest"
        assert ask(web, message).status == ask(web, message, "POST").status == 404
        for query in ("registrationkey=1234567890", "%73ervicesubject=x&Registration%4Bey=1"):
            answer = ask(web, f"/{target}?{query}")
            assert answer.status == 400
            assert "may only be sent to the resolver's service" in answer.alert


def test_a_host_that_is_its_own_resolver_answers_404_for_unknown_items(web_with: NewApp) -> None:
    for base, host in ((f"{HOST.upper()}:80/", {}), ("http://a.b:8000", {"Host": "a.b:8000"})):
        app = web_with(IBI_PERSISTENT_URL_BASE=base)
        answer = ask(app, f"/{NOBODY}", headers=host)
        assert (answer.status, answer.pairs["ibi"]) == (404, ("rep", NOBODY))
        page = Page(ask(app, f"/{NOBODY}", headers={"Accept": BROWSER, **host}).text)
        assert page.text("h1") == "This Archive does not have what was requested"


@pytest.mark.rule("R62-17")
def test_a_removed_item_has_a_tombstone_page_or_pairs(web: Flask) -> None:
    for target in (GONE, f"{GONE}:", f"{GONE}/new.txt"):
        answer = ask(web, f"/{target}")
        assert answer.status == 410
        assert answer.headers["Content-Type"] == "text/plain"
        assert answer.pairs["ibi"] == ("rep", GONE)
        assert answer.pairs["state"] == ("Deleted",)
        assert answer.pairs["url.persistent"] == (f"{BASE}/{target}",)
        assert answer.pairs["timestamp"] == ("2010-01-02T03:04:05Z",)
        shown = ask_with(web, f"/{target}", "pt", BROWSER)
        assert shown.status == 410
        assert shown.headers["Vary"] == "Accept, Accept-Language, Cookie"
        page = Page(shown.text)
        assert page.text("h1") == "Este item foi removido"
        # readers get the page in this Archive, and programs the persistent URL
        assert f"/col/{NEW}/" in page.links
        assert shown.headers["Link"] == f'<{BASE}/{NEW}>; rel="successor-version"'


def test_an_alert_links_to_the_parts_that_an_item_has(web: Flask) -> None:
    for ibi, rest, text, found in [
        (REPORT, "/a%20b.txt", "not have the file", PARTS),  # a file is called a%20b.txt
        (REPORT, "+(de)", "not have the translation", PARTS),
        (REPORT, ":(marc)", "no metadata in the format", PARTS),
        (ONLY_IBIP, ":", "no metadata", [FILES]),
    ]:
        target, alternatives = ibi + rest, [f"/{ibi}{one}" for one in found]
        answer = ask_with(web, f"/{target}", accept=BROWSER)
        assert answer.status == 404
        page = Page(answer.text)
        assert text in page.text("p")
        links = ["/ibi/items", f"/{ibi}", *alternatives, f"/{ibi}", f"{BASE}/{target}"]
        assert page.links == links
        pairs = ask(web, f"/{target}").pairs
        assert pairs["url.persistent"] == (f"{BASE}/{target}",)
        assert pairs["alternatives"] == tuple(alternatives)
        for one in alternatives:
            assert ask(web, one).status == 302


def test_settings_and_routes_of_the_host_have_precedence(web_with: NewApp) -> None:
    # local resolution can be switched off
    app = web_with(IBI_LOCAL_RESOLUTION=False)
    for target in (REPORT, NOBODY, GONE, f"{REPORT}::"):
        assert ask(app, f"/{target}").status == ask(app, f"/{target}", "POST").status == 404
    assert ask(app, SERVICE_PATH).status == 400
    # a redirect of the host has precedence
    app = web_with()
    app.add_url_rule("/<first>/<second>/", "two", lambda first, second: "two")
    answer = ask(app, f"/{REPORT_IBIP}")
    assert (answer.status, answer.headers["Location"]) == (308, f"{HOST}/{REPORT_IBIP}/")


@pytest.mark.no_tables
def test_a_resolver_answers_while_the_archive_of_the_app_is_not_ready(new_app: NewApp) -> None:
    app = new_app(IBI_LOCAL_RESOLUTION=False)
    add_resolver(app, lambda asked: Response(f"resolved {asked.wanted.ibi}"))
    assert ask(app, f"/{REPORT}").text == f"resolved {REPORT}"
    assert ask(app, f"{SERVICE_PATH}?servicesubject=inclusionConfirmationRequest").status == 503


@pytest.fixture
def filled(app: Flask) -> Flask:
    """An app with one item, which has metadata and a file with a non-ASCII name."""
    described = {"metadata": {"dc": {"title": ["A report"]}}}
    record = {"rep": rep(1), "ibip": REPORT_IBIP, "files": [{"path": "Relatório 1.pdf"}]}
    import_records(archive_of(app), [{**record, **described}])
    return app


def test_an_access_is_counted_after_the_response(
    filled: Flask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Firefox/140.0"}
    assert redirect_of(ask(filled, f"/{REPORT_IBIP}?x=1", headers=headers)).endswith("1.pdf?x=1")
    [row] = stored(archive_of(filled))
    assert (row["ibi"], row["robot"]) == (rep(1), False)
    assert row["content_type"] == "Data"
    assert row["url"] == col(rep(1), "doc/Relat%C3%B3rio%201.pdf")
    ask(filled, f"/{rep(1)}:", headers=headers)
    found = archive_of(filled).statistics(rep(1))
    assert (found.downloads, found.views) == (1, 1)
    # an error in counting does not affect the response
    monkeypatch.setattr(archive_of(filled), "take_acknowledgment", None)
    assert ask(filled, f"/{rep(1)}").status == 302
    assert "could not be counted" in caplog.text


@pytest.mark.rule("R62-17")
def test_head_requests_and_alerts_are_not_counted(filled: Flask) -> None:
    assert ask(filled, f"/{rep(1)}", "HEAD").status == 302
    for target in (f"{rep(1)}/none.txt", NOBODY, f"{rep(1)}::"):
        ask(filled, f"/{target}")
    assert stored(archive_of(filled)) == []
    # an acknowledgment by head is not counted
    key = ask_urls(filled, rep(1))["urlkey"][0]
    raw = (
        f"{SERVICE_PATH}?servicesubject=acknowledgment&clientinformation.ipaddress={INSIDE}"
        f"&contenttype=Data&state=Original&url.persistent=http://urlib.net/{rep(1)}"
        f"&url={col(rep(1), 'doc/Relat%C3%B3rio%201.pdf')}&ibi=rep%20{rep(1)}&urlkey={key}"
    )
    assert ask(filled, raw, "HEAD").status == 200
    assert stored(archive_of(filled)) == []
    # the key can still be used
    assert ask(filled, raw).status == 200
    assert len(stored(archive_of(filled))) == 1


KEY = "1234567890-0123456789"
PERSISTENT_URL = "http://archive.example:80/x%20y?z=%C3%A9+%252B"


def check_acknowledgment(redirect: Redirect, asked: ResolutionRequest) -> None:
    """Check that the acknowledgment is the same as after an HTTP request."""
    sent = redirect.create_acknowledgment(asked.client_addresses, asked.persistent_url)
    received = sent and parse_request(decode_query_string(format_request(sent)))
    assert create_local_acknowledgment(redirect, asked) == received


@given(
    st.text(st.characters(blacklist_categories=["Cs"])),
    st.sampled_from(["", "%C3%A9", "%f3", "%", "%2525", "+", "a b", "?x=%26&y"]),
    st.sampled_from([None, KEY]),
)
def test_an_acknowledgment_is_the_same_as_a_parsed_one(
    path: str, end: str, key: str | None
) -> None:
    ibi = parse_identifier(rep_of(1))
    redirect = Redirect(
        f"http://a.br/{encode_word(path + end)}",
        ArchiveSource(rep_of(2), "a.br", is_own=True),
        "Data",
        None,
        key,
        (ibi,),
        depends_on_language=False,
        question=Question(ibi, NO_VERBS),
    )
    asked = ResolutionRequest(PersistentUrl(ibi), PERSISTENT_URL, (USERS[0],))
    check_acknowledgment(redirect, asked)
