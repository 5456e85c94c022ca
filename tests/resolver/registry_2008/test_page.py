"""The pages of the document registry: its form, the records of documents, and their formats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import quote

import pytest
from flask import Flask
from support.browser import CONSOLE, render, serving
from support.cases import for_each
from support.pages import MARKED, NAMES, Page, list_unmarked_words, list_words, marked_language
from support.registry_calls import (
    COPY_URL,
    DATE,
    DOCUMENT,
    HERMES,
    ICONET,
    PATH,
    URL,
    actor_call,
    call,
    document_call,
    error_of,
    read_xml,
    registry_app,
    registry_of,
)
from support.web import Answer, ask

from flask_ibi_archive.core.protocol.registry_2008.model import (
    DocumentLocation,
    DocumentRecord,
    DocumentRegistration,
    MetadataLocation,
)
from flask_ibi_archive.core.protocol.registry_2008.registry_messages import (
    VERBS,
    format_registry_answer,
    list_arguments,
)
from flask_ibi_archive.server.pages.responses import find_static_url

UNKNOWN = "dpi.inpe.br/banon/2008/07.17.17.23"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
HTML, XML, TEXT = "text/html; charset=utf-8", "text/xml; charset=utf-8", "text/plain"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """An app with a document registry, in which two actors have registered a document."""
    metadata = [("metadataURL", f"{URL}.xml"), ("metadataLastUpdate", DATE)]
    more = [*metadata, ("metadataFormat", "oai_dc"), ("metadataLanguage", "pt-BR"), *metadata]
    editions = [("previousEditionURL", "http://a.br/1"), ("nextEditionURL", "http://a.br/3")]
    own = document_call(HERMES, DOCUMENT, originalDocument="yes")
    with registry_app(tmp_path_factory.mktemp("registry")) as found:
        assert call(found, actor_call(HERMES)).status == 200
        assert call(found, actor_call(ICONET)).status == 200
        assert call(found, [*own, *more, *editions]).status == 200
        assert call(found, document_call(ICONET, DOCUMENT, COPY_URL)).status == 200
        yield found


def style_sheet() -> str:
    """Return the path and the query of the style sheet of the package."""
    with Flask("reader").test_request_context():
        return find_static_url("ibi.css")


def open_page(app: Flask, target: str, status: int = 200, language: str = "en") -> Page:
    """Return the page that a browser gets, after checks that apply to every page."""
    headers = {"Accept": BROWSER, "Accept-Language": language}
    answer = ask(app, f"{PATH}{target}", headers=headers)
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"] == HTML
    assert answer.headers["Vary"] == "Accept, Accept-Language, Cookie"
    assert answer.headers["Cache-Control"] == "private, no-cache"
    assert "script" not in answer.headers["Content-Security-Policy"]
    page = Page(answer.text)
    kinds = [tag for tag, _ in page.tags]
    assert page.html == {"lang": language[:2]}
    assert kinds.count("h1") == kinds.count("title") == kinds.count("main") == 1
    assert {"script", "img", "iframe", "base"}.isdisjoint(kinds)
    # the style sheet of the package is the only other resource
    linked = [attrs for tag, attrs in page.tags if tag == "link"]
    assert linked == [{"rel": "stylesheet", "href": style_sheet()}]
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert not any("password" in str(attrs.get("name")) for _, attrs in page.tags)
    return page


def attributes(page: Page, tag: str) -> dict[str, str | None]:
    """Return the attributes of the first element with a tag."""
    return next(attrs for name, attrs in page.tags if name == tag)


# --- records -------------------------------------------------------------------------------------


@for_each(
    ("language", "words"),
    [
        ("en", ["Record of the document", "Original document: the actor holds", "Copy"]),
        ("pt-BR", ["Registro do documento", "Documento original: o ator é o titular", "Cópia"]),
    ],
)
def test_a_record_is_a_page_in_the_language_of_the_reader(
    app: Flask, language: str, words: list[str]
) -> None:
    page = open_page(app, f"/{DOCUMENT}", language=language)
    for word, tag in zip(words, ("h1", "h2", "h2"), strict=True):
        assert word in page.text(tag)
    assert DOCUMENT in page.text("title")
    assert {HERMES, ICONET} <= set(page.text("code").split())
    assert page.links == [
        # the path to the page
        "/",
        PATH,
        f"/{DOCUMENT}",
        URL,
        f"{URL}.xml",
        f"{URL}.xml",
        "http://a.br/1",
        "http://a.br/3",
        COPY_URL,
        f"{PATH}/{DOCUMENT}?format=xml",
        f"{PATH}/{DOCUMENT}?format=text",
        PATH,
    ]
    moments = [attrs["datetime"] for tag, attrs in page.tags if tag == "time"]
    assert moments == ["2008-07-17T20:22:06Z"] * 4
    assert "oai_dc" in page.text("dd")
    # each section has its heading as name
    named = [attrs["aria-labelledby"] for tag, attrs in page.tags if tag == "section"]
    assert named == [attrs["id"] for tag, attrs in page.tags if tag == "h2" and "id" in attrs]


@for_each(
    ("accept", "query", "kind"),
    [
        (BROWSER, "", HTML),
        ("text/html, */*", "", HTML),
        ("text/html;q=0.5, text/plain;q=0.4", "", HTML),
        ("text/html;q=0.5, text/plain", "", TEXT),
        ("text/html;q=0.5, application/xml", "", XML),
        ("text/*", "", XML),
        ("*/*", "", XML),
        ("", "", XML),
        (BROWSER, "?format=xml", XML),
        (BROWSER, "?format=text", TEXT),
        ("text/plain", "?format=html", HTML),
        ("text/plain", "?x=y&format=xml", XML),
    ],
)
def test_the_format_is_in_the_url_or_in_the_accept_header(
    app: Flask, accept: str, query: str, kind: str
) -> None:
    record = registry_of(app).find_record(DOCUMENT)
    for ibi, status in ((DOCUMENT, 200), (DOCUMENT.upper(), 200), (UNKNOWN, 404), ("x", 404)):
        answer = ask(app, f"{PATH}/{ibi}{query}", headers={"Accept": accept})
        assert (answer.status, answer.headers["Content-Type"]) == (status, kind)
        assert "Accept" in answer.headers["Vary"]
        if kind == XML:
            assert len(read_xml(answer).findall("registration")) == (2 if status == 200 else 0)
        elif kind == TEXT and status == 200:
            assert answer.text == format_registry_answer(record)


def test_an_unknown_format_is_refused(app: Flask) -> None:
    answer = ask(app, f"{PATH}/{DOCUMENT}?format=pdf")
    assert answer.status == 400
    assert error_of(answer)[1] == "format is 'pdf'; it must be one of html, text, xml"


@for_each(
    ("ibi", "text"),
    [
        (UNKNOWN, f"no actor has registered the document {UNKNOWN}"),
        ("x", "'x' is not an IBI: the text has no '/'"),
        ("%ff%00", "is not an IBI"),
        ("../../etc/passwd", "is not an IBI"),
    ],
)
def test_an_unknown_document_is_an_error_for_programs(app: Flask, ibi: str, text: str) -> None:
    for accept in (XML, TEXT):
        answer = ask(app, f"{PATH}/{ibi}", headers={"Accept": accept})
        assert answer.status == 404
        code, message = error_of(answer)
        assert code == "unknown"
        assert text in message


def test_an_unknown_document_is_a_page_that_says_what_to_do(app: Flask) -> None:
    page = open_page(app, f"/{UNKNOWN}", 404)
    assert "No actor has registered this document" in page.text("title")
    field = attributes(page, "input")
    assert (field["value"], field["aria-invalid"]) == (UNKNOWN, "true")
    assert f"/{UNKNOWN}" in page.links
    page = open_page(app, "/x", 404, "pt")
    assert "O texto tem um erro" in page.text("div")
    page = open_page(app, f"/{DOCUMENT.replace('/07', '/O7')}", 404)
    # the path to the page, and the suggestion before any other link
    assert page.links[:2] == ["/", f"{PATH}/{DOCUMENT}"]


def test_any_text_of_a_record_is_shown_as_text(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = "http://a.br/<script>alert('x')</script>\"&quot;"
    date = datetime(2026, 1, 1, tzinfo=timezone.utc)
    location = DocumentLocation(hostile, date, (MetadataLocation(hostile, date, hostile, "zz"),))
    location = replace(location, previous_edition_url=hostile, next_edition_url=hostile)
    record = DocumentRecord(DOCUMENT, (DocumentRegistration(HERMES, False, False, location),))
    monkeypatch.setattr(registry_of(app), "find_record", lambda ibi: record)
    assert open_page(app, f"/{DOCUMENT}").links.count(hostile) == 4


# --- the page of the registry --------------------------------------------------------------------


def test_the_page_explains_the_verbs(app: Flask) -> None:
    for language in ("en", "pt"):
        page = open_page(app, "", language=language)
        words = page.text("code").split()
        for verb in VERBS:
            assert {verb, *(name for name, _ in list_arguments(verb))} <= set(words)
        assert f"{PATH}/schema.xsd" in page.links
        # screen readers need a label, and the form has no script
        assert attributes(page, "label")["for"] == attributes(page, "input")["id"]
        form = attributes(page, "form")
        assert (form["action"], form["method"]) == (PATH, "get")
    assert open_page(app, "/").text("h1") == "Document registry"


@for_each(
    "text",
    [
        DOCUMENT,
        f" {DOCUMENT.upper()}\t",
        f"http://urlib.net/{DOCUMENT}:(oai_dc)",
        f"https://urlib.net/ibi/{DOCUMENT}?x=y",
    ],
)
def test_the_form_leads_to_the_record(app: Flask, text: str) -> None:
    answer = ask(app, f"{PATH}?ibi={quote(text, safe='')}")
    assert (answer.status, answer.headers["Location"]) == (302, f"{PATH}/{DOCUMENT}")


@for_each(
    ("text", "fault"),
    [
        ("", "Enter the IBI of a document"),
        ("%20", "Enter the IBI of a document"),
        ("x", "The text has an error"),
        ("%3Cscript%3E", "The text has an error"),
        ("x" * 5000, "The text has an error"),
    ],
)
def test_the_form_shows_what_is_wrong(app: Flask, text: str, fault: str) -> None:
    page = open_page(app, f"?ibi={text}", 400)
    assert fault in page.text("title")
    assert fault in page.text("div")
    field = attributes(page, "input")
    assert (field["aria-invalid"], field["aria-describedby"]) == ("true", "fault")


def test_the_front_page_of_the_resolver_links_to_the_registry(app: Flask) -> None:
    def front(language: str) -> Answer:
        return ask(app, "/", headers={"Accept-Language": language})

    assert Page(front("en").text).links[-1] == PATH
    assert "Registro de documentos" in front("pt").text


def test_the_pages_have_no_text_without_a_translation(app: Flask) -> None:
    with marked_language():
        for target in ("", "?ibi=", "?ibi=x", f"/{DOCUMENT}", f"/{UNKNOWN}", "/a/b"):
            page = ask(app, f"{PATH}{target}", headers={"Accept": BROWSER, **MARKED}).text
            data = list_words(f"{DOCUMENT} {UNKNOWN} oai_dc")
            assert list_unmarked_words(page) - data <= NAMES, target


def test_the_host_can_replace_and_extend_the_templates(tmp_path: Path) -> None:
    templates = tmp_path / "templates" / "ibi_archive"
    templates.mkdir(parents=True)
    (templates / "registry_record.html").write_text("own {{ record.document_id }}")
    (templates / "registry.html").write_text(
        '{% extends "ibi_archive/default/registry.html" %}{% block ibi_verbs %}own{% endblock %}'
    )
    host = Flask("host", instance_path=str(tmp_path), root_path=str(tmp_path))
    with registry_app(tmp_path, host) as app:
        assert call(app, actor_call(HERMES)).status == 200
        assert call(app, document_call(HERMES, DOCUMENT)).status == 200
        answer = ask(app, f"{PATH}/{DOCUMENT}?format=html")
        assert answer.text == f"own {DOCUMENT}"
        answer = ask(app, PATH, headers={"Accept": BROWSER})
        assert "own" in answer.text
        assert "RegisterActor" not in answer.text


@pytest.mark.slow
@pytest.mark.parametrize("target", ["", f"/{DOCUMENT}", f"/{UNKNOWN}"])
def test_the_browser_renders_the_pages_and_requests_only_their_style(
    app: Flask, tmp_path: Path, target: str
) -> None:
    with serving(app) as (port, asked):
        dom, log = render(f"http://127.0.0.1:{port}{PATH}{target}", tmp_path, "--accept-lang=pt-BR")
    page = Page(dom)
    assert page.html["lang"] == "pt"
    # the browser logs the status 404 of the page itself
    assert not [line for line in CONSOLE.findall(log) if "404" not in line]
    ours = [line for line in asked if line != f"127.0.0.1:{port} /favicon.ico"]
    assert ours == [f"127.0.0.1:{port} {PATH}{target}", f"127.0.0.1:{port} {style_sheet()}"]
