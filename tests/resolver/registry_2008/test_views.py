"""The document registry over HTTP: verbs, refusals, passwords, the page and precedence ([P] 4)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from flask import Flask
from flask_wtf import CSRFProtect
from support.archives import SERVICE, archive_of
from support.cases import for_each
from support.loopback import PATIENCE
from support.pages import Page
from support.registry_calls import (
    COPY_URL,
    DATE,
    DOCUMENT,
    HERMES,
    ICONET,
    MINT_HOST,
    PATH,
    URL,
    Pairs,
    actor_call,
    call,
    document_call,
    read_xml,
    registry_app,
    registry_of,
    verb_call,
)
from support.resolving import app_over, resolver_of, statements_of
from support.web import Answer, ask
from werkzeug.serving import make_server

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.core.registry_2008 import VERBS
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.resolver.registry_2008.views import MAX_BODY

DISPLAY = verb_call("DisplayIDRegistration", HERMES, documentID=DOCUMENT)
METADATA = [("metadataURL", f"{URL}.xml"), ("metadataLastUpdate", DATE)]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """An app with a document registry, in which two actors have registered a document."""
    with registry_app(tmp_path_factory.mktemp("registry")) as found:
        for actor, url in ((HERMES, URL), (ICONET, COPY_URL)):
            assert call(found, actor_call(actor)).status == 200
            assert call(found, document_call(actor, DOCUMENT, url)).status == 200
        yield found


@pytest.fixture(params=["POST", "GET", "POST with arguments in the URL"])
def send(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Answer]]:
    """A function that sends a call to an empty registry, in each possible way."""
    how: str = request.param
    with registry_app(tmp_path) as app:

        def one(pairs: Pairs) -> Answer:
            if how == "POST":
                return call(app, pairs)
            # the arguments in the URL come first, and those in the body follow
            split = len(pairs) if how == "GET" else 3
            return call(app, pairs[split:], pairs[:split], method=how[:4].strip())

        yield one


@pytest.mark.rule("P4-01", "P4-02", "P4-09", "P4-17")
def test_every_verb_is_answered(send: Callable[..., Answer]) -> None:
    def confirm(answer: Answer, text: str) -> None:
        assert answer.status == 200, answer.body
        assert read_xml(answer).findtext("confirmation") == text

    assert read_xml(send(actor_call(HERMES.upper()))).findtext("actorID") == HERMES
    minted = read_xml(send(actor_call())).findtext("actorID")
    assert minted.startswith("example.org/registry.2008/")
    confirm(
        send(verb_call("ChangePassword", minted, newPassword="new")), "the password was changed"
    )
    assert send(document_call(minted, DOCUMENT)).status == 403
    confirm(
        send(verb_call("ChangeEMailAddress", minted, "new", newEmailAddress="banon@inpe.br")),
        "the e-mail address was changed",
    )
    own = [*document_call(HERMES, DOCUMENT, originalDocument="yes"), *METADATA, *METADATA]
    assert read_xml(send(own)).findtext("documentID") == DOCUMENT
    copy = document_call(minted, DOCUMENT, COPY_URL, password="new")
    assert read_xml(send(copy)).findtext("documentID") == DOCUMENT
    record = read_xml(send(DISPLAY))
    assert record.findtext("documentID") == DOCUMENT
    assert [one.text for one in record.iterfind(".//actorID")] == [HERMES, minted]
    assert [one.text for one in record.iterfind(".//originalDocument")] == ["yes"]
    assert [one.text for one in record.iterfind(".//metadataURL")] == [f"{URL}.xml"] * 2
    confirm(
        send(verb_call("ChangeActor", HERMES, documentID=DOCUMENT, newActorID=minted)),
        f"the document {DOCUMENT} is now registered by {minted}",
    )
    delete = verb_call("DeleteDocumentRegistration", minted, "new", documentID=DOCUMENT)
    refused = send(delete)
    assert refused.status == 409
    assert HERMES in read_xml(refused).findtext("error")
    former = verb_call("DeleteDocumentRegistration", HERMES, documentID=DOCUMENT)
    for deleted in (send(former), send(delete)):
        confirm(deleted, f"the registration of {DOCUMENT} was deleted")
    assert send(delete).status == 403


@pytest.mark.rule("P4-01")
@for_each(
    ("options", "status", "text"),
    [
        ({"body": b"verb=%ff"}, 400, "verb must be one of RegisterActor"),
        ({"body": [*DISPLAY[:2], ("password", "\udcff")]}, 400, "is not UTF-8"),
        ({"body": b"verb=" + b"x" * MAX_BODY}, 413, f"the body {MAX_BODY} bytes"),
        ({"body": actor_call(HERMES)}, 409, f"{HERMES} is already in use"),
        ({"body": [*DISPLAY[:2], ("password", "x"), *DISPLAY[3:]]}, 403, "the password is wrong"),
    ],
)
def test_a_refusal_is_an_error_message_in_xml(
    app: Flask, options: dict[str, Any], status: int, text: str
) -> None:
    answer = call(app, **options)
    assert answer.status == status
    assert text in read_xml(answer).findtext("error")
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_head_request_changes_nothing_and_other_methods_are_refused(app: Flask) -> None:
    with statements_of(resolver_of(app).database) as statements:
        answer = call(app, query=actor_call(), method="HEAD")
        assert (answer.status, answer.body) == (200, b"")
        assert call(app, query=actor_call(), method="PUT").status == 405
    assert statements == []


def test_an_unavailable_database_is_reported_without_details(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = Flask("resolver", instance_path=str(tmp_path))
    app.config.from_mapping(
        IBI_RESOLVER_DATABASE_URI=f"sqlite:///{tmp_path / 'empty.sqlite'}",
        IBI_RESOLVER_REGISTRY=True,
        SERVER_NAME=MINT_HOST,
    )
    IBIResolver(app)
    answer = call(app, DISPLAY)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "10")
    assert "sqlite" not in read_xml(answer).findtext("error")
    assert "ibi-resolver init" in caplog.text
    resolver_of(app).close()


def test_passwords_are_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    sent = dict(verb_call("ChangePassword", HERMES, "Secret-1", newPassword="Secret-2"))
    with registry_app(tmp_path) as app:
        # unlike the server in support, this server writes a request log
        server = make_server("127.0.0.1", 0, app, threaded=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.port}{PATH}"
            assert requests.get(url, params=sent, timeout=PATIENCE).status_code == 403
            assert requests.post(url, data=sent, timeout=PATIENCE).status_code == 403
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
    # urllib3 is the client here
    logged = [one.getMessage() for one in caplog.records if not one.name.startswith("urllib3")]
    assert [text for text in logged if "verb=ChangePassword" in text]
    assert not [text for text in logged if "Secret" in text]


# --- the page ------------------------------------------------------------------------------------


@for_each(
    ("language", "words"),
    [
        ("en", "Registers a document and returns its IBI"),
        ("pt-BR", "Registra um documento e retorna o seu IBI"),
        ("es", "Registra un documento y devuelve su IBI"),
    ],
)
def test_the_page_has_a_form_for_each_verb(app: Flask, language: str, words: str) -> None:
    answer = call(app, method="GET", headers={"Accept-Language": language})
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    page = Page(answer.text)
    assert words in page.text("h2")
    inputs = [attrs for tag, attrs in page.tags if tag == "input"]
    for verb, arguments in VERBS.items():
        place = inputs.index({"type": "hidden", "name": "verb", "value": verb})
        fields = inputs[place + 1 :][: len(arguments.split())]
        assert [
            f"{field['name']}{'' if 'required' in field else '?'}" for field in fields
        ] == arguments.split()
        hidden = [field["name"] for field in fields if field["type"] == "password"]
        assert hidden == [name for name in arguments.split() if name.lower().endswith("password")]
    forms = [attrs for tag, attrs in page.tags if tag == "form"]
    assert {(form["action"], form["method"]) for form in forms} == {(PATH, "post")}
    assert len(forms) == len(VERBS)


def test_a_form_is_sent_with_empty_fields(app: Flask) -> None:
    sent = dict(actor_call("a.br/form/2001/01.01.00.00"))
    assert call(app, list({**sent, "actorID": ""}.items())).status == 200


# --- other routes of the app ---------------------------------------------------------------------


def test_without_the_setting_there_is_no_registry(tmp_path: Path) -> None:
    with app_over([], tmp_path) as app:
        assert resolver_of(app).document_registry is None
        assert call(app, DISPLAY, method="POST").status == 405
        assert call(app, method="GET").status == 400


@pytest.mark.parametrize("resolver_first", [True, False])
def test_an_archive_in_the_same_app_does_not_hide_the_registry(
    tmp_path: Path, resolver_first: bool
) -> None:
    app = Flask("both", instance_path=str(tmp_path))
    app.config.from_mapping(
        SECRET_KEY="a secret for tests",
        IBI_DATABASE_URI=f"sqlite:///{tmp_path / 'ibi.sqlite'}",
        IBI_ARCHIVE_ADDRESS="mtc-m16c.sid.inpe.br",
        IBI_ARCHIVE_SERVICE_IBI=SERVICE,
        IBI_ARCHIVE_IP="150.163.34.243",
    )
    if not resolver_first:
        IBIArchive(app)
    with registry_app(tmp_path, app):
        if resolver_first:
            IBIArchive(app)
        archive_of(app).init()
        assert call(app, actor_call(HERMES)).status == 200
        assert call(app, document_call(HERMES, DOCUMENT)).status == 200
        assert "<h1>Document registry</h1>" in call(app, method="GET").text
        assert ask(app, "/ibi/health").status == 200
        archive_of(app).database.close()


def test_a_route_of_the_host_has_precedence(tmp_path: Path) -> None:
    host = Flask("host", instance_path=str(tmp_path))
    host.add_url_rule(PATH, "own", lambda: "host", methods=["GET", "POST"])
    with registry_app(tmp_path, host) as app:
        for method in ("GET", "POST"):
            assert call(app, DISPLAY, method=method).body == b"host"


def test_the_registry_can_be_mounted_under_a_path(tmp_path: Path) -> None:
    with registry_app(tmp_path, APPLICATION_ROOT="/resolver") as app:
        assert 'action="/resolver/ibi/registry"' in call(app, method="GET").text


def test_a_host_with_protected_forms_exempts_the_blueprint(tmp_path: Path) -> None:
    host = Flask("host", instance_path=str(tmp_path))
    host.secret_key = "a secret for tests"
    protection = CSRFProtect(host)
    with registry_app(tmp_path, host) as app:
        assert call(app, actor_call(HERMES)).status == 400
        protection.exempt(app.blueprints["ibi_resolver"])
        assert call(app, actor_call(HERMES)).status == 200
        assert registry_of(app).config.registry
