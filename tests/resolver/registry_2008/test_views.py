"""The document registry over HTTP: verbs, formats, refusals, passwords and precedence ([P] 4)."""

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
from support.registry_calls import (
    COPY_URL,
    DOCUMENT,
    HERMES,
    ICONET,
    MINT_HOST,
    PASSWORD,
    PATH,
    URL,
    Pairs,
    actor_call,
    call,
    document_call,
    error_of,
    read_text,
    read_xml,
    registry_app,
    registry_of,
    verb_call,
)
from support.resolving import app_over, resolver_of, statements_of
from support.web import Answer, ask
from werkzeug.serving import make_server

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.core.protocol.registry_2008.registry_messages import (
    MAX_BODY,
)
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.resolver.registry_2008.views import SCHEMA

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
XML, TEXT = "text/xml; charset=utf-8", "text/plain"


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
    settings = {"IBI_RESOLVER_REGISTRY_PASSWORDS_IN_URLS": how != "POST"}
    with registry_app(tmp_path, **settings) as app:

        def one(pairs: Pairs, **options: Any) -> Answer:
            if how == "POST":
                return call(app, pairs, **options)
            # the arguments in the URL come first, and those in the body follow
            split = len(pairs) if how == "GET" else 3
            return call(app, pairs[split:], pairs[:split], method=how[:4].strip(), **options)

        yield one


# --- verbs ---------------------------------------------------------------------------------------


@pytest.mark.rule("P4-01", "P4-17")
def test_every_verb_is_answered(send: Callable[..., Answer]) -> None:
    def confirm(answer: Answer, text: str) -> None:
        assert answer.status == 200, answer.body
        assert read_xml(answer).findtext("confirmation") == text

    root = read_xml(send(actor_call(HERMES.upper())))
    assert (root.get("verb"), root.findtext("actorID")) == ("RegisterActor", HERMES)
    minted = read_xml(send(actor_call())).findtext("actorID")
    assert minted.startswith("example.org/registry.2008/")

    new = {"newPassword": "new password"}
    confirm(send(verb_call("ChangePassword", minted, **new)), "the password was changed")
    assert send(document_call(minted, DOCUMENT)).status == 403
    confirm(
        send(
            verb_call("ChangeEMailAddress", minted, "new password", newEmailAddress="banon@inpe.br")
        ),
        "the e-mail address was changed",
    )

    metadata = {"metadataURL": f"{URL}.xml", "metadataLastUpdate": "2008-07-17T17:44:57-03:00"}
    more = {**metadata, "metadataFormat": "mtd2-br", "originalDocument": "yes"}
    root = read_xml(send(document_call(HERMES, DOCUMENT, **more)))
    assert (root.get("verb"), root.findtext("documentID")) == ("RegisterDocument", DOCUMENT)
    copy = document_call(minted, DOCUMENT, COPY_URL, password="new password")
    assert read_text(send(copy, accept=TEXT)) == [("documentID", (DOCUMENT,))]

    shown = send(verb_call("DisplayIDRegistration", HERMES, documentID=DOCUMENT))
    found = [
        [(element.tag, element.text.strip()) for element in registration.iter()][1:]
        for registration in read_xml(shown).findall("registration")
    ]
    assert found == [
        [
            ("actorID", HERMES),
            ("originalDocument", "yes"),
            ("documentURL", URL),
            ("documentLastUpdate", "2008-07-17T20:22:06Z"),
            ("metadata", ""),
            ("metadataURL", f"{URL}.xml"),
            ("metadataLastUpdate", "2008-07-17T20:44:57Z"),
            ("metadataFormat", "mtd2-br"),
        ],
        [
            ("actorID", minted),
            ("documentURL", COPY_URL),
            ("documentLastUpdate", "2008-07-17T20:22:06Z"),
        ],
    ]

    confirm(
        send(verb_call("ChangeActor", HERMES, documentID=DOCUMENT, newActorID=minted)),
        f"the document {DOCUMENT} is now registered by {minted}",
    )
    delete = verb_call("DeleteDocumentRegistration", minted, "new password", documentID=DOCUMENT)
    refused = send(delete)
    assert refused.status == 409
    assert HERMES in error_of(refused)[1]
    own = verb_call("DeleteDocumentRegistration", HERMES, documentID=DOCUMENT)
    for deleted in (send(own), send(delete)):
        confirm(deleted, f"the registration of {DOCUMENT} was deleted")
    assert send(delete).status == 403


@pytest.mark.rule("P4-09")
def test_metadata_arguments_belong_to_the_url_before_them(app: Flask) -> None:
    pairs = [*document_call(HERMES, "a.br/x/2001/01.01.00.00")]
    for name in "abc":
        pairs += [
            ("metadataURL", f"http://{name}.br/"),
            ("metadataLastUpdate", "2008-07-17T17:22:06Z"),
        ]
        pairs += [("metadataLanguage", "pt-BR")] * (name == "b")
    assert call(app, pairs).status == 200
    record = registry_of(app).find_record("a.br/x/2001/01.01.00.00")
    assert record is not None
    found = [(one.url, one.language) for one in record.registrations[0].location.metadata]
    assert found == [("http://a.br/", None), ("http://b.br/", "pt-BR"), ("http://c.br/", None)]


def test_a_head_request_changes_nothing(tmp_path: Path) -> None:
    with (
        registry_app(tmp_path, IBI_RESOLVER_REGISTRY_PASSWORDS_IN_URLS=True) as app,
        statements_of(resolver_of(app).database) as statements,
    ):
        answer = call(app, query=actor_call(), method="HEAD")
        assert (answer.status, answer.body) == (200, b"")
        assert call(app, query=b"verb=RegisterActor", method="HEAD").status == 400
        assert statements == []


# --- formats -------------------------------------------------------------------------------------


@for_each(
    ("accept", "kind"),
    [
        ("", XML),
        ("*/*", XML),
        (BROWSER, XML),
        ("application/xml", XML),
        ("text/plain", TEXT),
        ("text/*;q=0.5, text/plain", TEXT),
        ("text/plain, */*", TEXT),
        ("text/plain, text/xml", XML),
        ("text/plain;q=0.5, application/xml;q=0.6", XML),
        ("text/plain;q=0.7, application/xml;q=0.6", TEXT),
        ("image/png", XML),
        (",;q=x", XML),
    ],
)
def test_the_accept_header_selects_xml_or_a_list_of_pairs(
    app: Flask, accept: str, kind: str
) -> None:
    display = verb_call("DisplayIDRegistration", HERMES, documentID=DOCUMENT)
    for pairs, status in ((display, 200), (display[:-1], 400), ([("verb", "x")], 400)):
        answer = call(app, pairs, accept=accept)
        assert answer.status == status
        assert answer.headers.getlist("Content-Type") == [kind]
        assert answer.headers["Vary"] == "Accept"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        found = read_xml(answer) if kind == XML else read_text(answer)
        if kind == TEXT:
            assert found[0].name == ("documentID" if status == 200 else "error")


def test_the_schema_is_sent(app: Flask) -> None:
    answer = call(app, method="GET", rest="/schema.xsd")
    assert (answer.status, answer.body) == (200, SCHEMA.read_bytes())
    assert answer.headers["Content-Type"] == XML


# --- refusals ------------------------------------------------------------------------------------

DISPLAY = verb_call("DisplayIDRegistration", HERMES, documentID=DOCUMENT)


@for_each(
    ("options", "status", "text"),
    [
        ({}, 400, "verb is missing; it must be one of RegisterActor"),
        ({"body": b"verb=Register"}, 400, "verb 'Register' is unknown"),
        ({"body": b"verb=%ff"}, 400, "is not UTF-8"),
        ({"body": DISPLAY[:2]}, 400, "password is missing"),
        ({"body": DISPLAY, "query": DISPLAY[:1]}, 400, "verb appears more than once"),
        ({"body": b"verb=" + b"x" * MAX_BODY}, 413, f"more than {MAX_BODY} bytes"),
        ({"body": b"x", "CONTENT_LENGTH": "9"}, 400, "the body cannot be read: Bad Request"),
        ({"body": DISPLAY, "kind": "text/plain"}, 415, "the Content-Type is 'text/plain'"),
        ({"body": DISPLAY, "kind": "multipart/form-data; boundary=x"}, 415, "it must be applic"),
        ({"body": DISPLAY, "kind": None}, 415, "the Content-Type is ''"),
        ({"query": b"verb=" + b"x" * 8192, "method": "GET"}, 414, "at most 8192 are allowed"),
        ({"query": b"verb=%ff", "method": "GET"}, 400, "is not UTF-8"),
        ({"query": DISPLAY[:2], "method": "GET"}, 400, "password is missing"),
        # a GET request has no body ([P] 4.1; RFC 9110, 9.3.1)
        ({"body": DISPLAY, "method": "GET"}, 400, "verb is missing"),
    ],
)
def test_a_malformed_request_is_refused(
    app: Flask, options: dict[str, Any], status: int, text: str
) -> None:
    for accept in (XML, TEXT):
        answer = call(app, **options, accept=accept)
        assert answer.status == status, answer.body
        code, message = error_of(answer)
        assert code == "malformed"
        assert text in message


@for_each(
    ("rest", "allowed", "right"),
    [
        ("", "GET, HEAD, POST", "use GET, HEAD or POST"),
        ("/", "GET, HEAD, POST", "use GET, HEAD or POST"),
        ("/schema.xsd", "GET, HEAD", "use GET or HEAD"),
        (f"/{DOCUMENT}", "GET, HEAD", "use GET or HEAD"),
    ],
)
def test_other_methods_are_refused(app: Flask, rest: str, allowed: str, right: str) -> None:
    others = {"PUT", "DELETE", "OPTIONS", "BREW", "POST"} - set(allowed.split(", "))
    for method in others:
        answer = call(app, DISPLAY, method=method, rest=rest)
        assert (answer.status, answer.headers["Allow"]) == (405, allowed)
        assert error_of(answer)[1] == f"the method '{method}' is not allowed; {right}"


def test_charsets_and_chunks_are_accepted(app: Flask) -> None:
    assert call(app, DISPLAY, kind="Application/X-WWW-form-urlencoded; charset=x").status == 200
    chunked = {"CONTENT_LENGTH": "", "wsgi.input_terminated": True}
    assert call(app, DISPLAY, **chunked).status == 200
    answer = call(app, b"x" * (MAX_BODY + 1), **chunked)
    assert answer.status == 413


def test_a_smaller_limit_of_the_app_is_respected(tmp_path: Path) -> None:
    with registry_app(tmp_path, MAX_CONTENT_LENGTH=10) as app:
        answer = call(app, DISPLAY)
        assert answer.status == 413
        assert error_of(answer)[0] == "malformed"


def test_each_error_has_its_status(tmp_path: Path) -> None:
    with registry_app(tmp_path) as app:

        def refuse(
            pairs: Pairs, status: int, code: str, wait: bool = False, **options: Any
        ) -> None:
            texts = set()
            for accept in (XML, TEXT):
                answer = call(app, pairs, accept=accept, **options)
                assert answer.status == status, answer.body
                assert ("Retry-After" in answer.headers) is wait
                found, text = error_of(answer)
                assert found == code
                texts.add(text)
            assert len(texts) == 1

        assert call(app, actor_call(HERMES)).status == 200
        refuse(actor_call(HERMES), 409, "conflict")
        refuse(actor_call(ip="8.8.8.8"), 403, "wrong-address")
        refuse(DISPLAY, 403, "denied")
        registry_of(app).look_up = lambda host: None
        refuse(actor_call(), 503, "unavailable", True, remote="150.163.2.1")
        for _ in range(10):
            call(app, verb_call("DisplayIDRegistration", ICONET, documentID=DOCUMENT), remote="::1")
        refuse(DISPLAY, 429, "too-many-attempts", True, remote="::1")


def test_an_unavailable_database_is_reported_without_details(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = Flask("resolver", instance_path=str(tmp_path))
    uri = f"sqlite:///{tmp_path / 'empty.sqlite'}"
    app.config.from_mapping(
        IBI_RESOLVER_DATABASE_URI=uri,
        IBI_RESOLVER_REGISTRY=True,
        IBI_RESOLVER_REGISTRY_MINT_HOST=MINT_HOST,
    )
    IBIResolver(app)
    record = {"method": "GET", "rest": f"/{DOCUMENT}"}
    for options in ({"body": DISPLAY}, {"body": DISPLAY, "accept": TEXT}, record):
        answer = call(app, **options)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "10")
        code, text = error_of(answer)
        assert code == "unavailable"
        assert "sqlite" not in text
    answer = call(app, **record, accept=BROWSER)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "10")
    assert "<h1>No answer is possible at the moment</h1>" in answer.text
    assert all("ibi-resolver init" in line for line in caplog.messages)
    assert len(caplog.messages) == 4
    resolver_of(app).close()


# --- passwords -----------------------------------------------------------------------------------


@pytest.mark.rule("P4-01")
@for_each(
    ("query", "options"),
    [
        (DISPLAY, {"method": "GET"}),
        (DISPLAY, {"method": "HEAD"}),
        (DISPLAY, {}),
        (DISPLAY[2:3], {"body": [*DISPLAY[:2], *DISPLAY[3:]]}),
        (b"newPassword=x", {"body": DISPLAY}),
        (b"pass%77ord=", {"body": DISPLAY}),
        (b"ibi=x&password=x", {"method": "GET"}),
    ],
)
def test_a_password_in_the_url_is_refused_without_evaluation(
    app: Flask, query: Pairs | bytes, options: dict[str, Any]
) -> None:
    with statements_of(resolver_of(app).database) as statements:
        answer = call(app, query=query, **options)
    assert answer.status == 400
    assert statements == []
    if answer.body:
        assert "send the password in the body of a POST request" in error_of(answer)[1]
        assert PASSWORD not in answer.text


@pytest.mark.parametrize("path", ["//ibi/registry", "/ibi/registry//schema.xsd"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_no_redirect_contains_a_password(app: Flask, path: str, method: str) -> None:
    """Werkzeug would redirect to the path without the repeated slashes, with the same query."""
    target = f"{path}?verb=DisplayIDRegistration&password=Secret-1".encode()
    for accept in (TEXT, BROWSER):
        answer = ask(app, target, method, {"Accept": accept})
        assert answer.status in (400, 405)
        assert "Secret-1" not in str(answer.headers)


def test_passwords_are_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = ["Secret-1", "Secret-2"]
    call_sent = {
        "verb": "ChangePassword",
        "actorID": HERMES,
        "password": secrets[0],
        "newPassword": secrets[1],
    }
    with registry_app(tmp_path, IBI_RESOLVER_REGISTRY_PASSWORDS_IN_URLS=True) as app:
        # unlike the server in support, this server writes a request log
        server = make_server("127.0.0.1", 0, app, threaded=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.port}{PATH}"
            assert requests.get(url, params=call_sent, timeout=PATIENCE).status_code == 403
            assert requests.post(url, data=call_sent, timeout=PATIENCE).status_code == 403
            assert (
                requests.get(url, params={**call_sent, "x": "y"}, timeout=PATIENCE).status_code
                == 400
            )
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
    query = "?verb=ChangePassword&password=Secret-1&newpassword=Secret-2 HTTP/1.1"
    logging.getLogger("gunicorn.access").info('"GET %s"', f"{PATH}{query}")
    # urllib3 is the client here
    logged = [one.getMessage() for one in caplog.records if not one.name.startswith("urllib3")]
    requested = [text for text in logged if "verb=ChangePassword" in text]
    assert len(requested) == 3
    assert not [text for text in logged if "Secret" in text]


# --- other routes of the app ---------------------------------------------------------------------


def test_without_the_setting_there_is_no_registry(tmp_path: Path) -> None:
    with app_over([], tmp_path) as app:
        assert resolver_of(app).document_registry is None
        for rest in ("", "/schema.xsd", f"/{DOCUMENT}"):
            for method, status in (("GET", 400), ("POST", 405)):
                answer = call(app, DISPLAY, method=method, rest=rest, accept=TEXT)
                assert answer.status == status
                assert "alert" in answer.pairs


@pytest.mark.parametrize("resolver_first", [True, False])
def test_an_archive_in_the_same_app_does_not_hide_the_registry(
    tmp_path: Path, resolver_first: bool
) -> None:
    archive_settings = {
        "SECRET_KEY": "a secret for tests",
        "IBI_DATABASE_URI": f"sqlite:///{tmp_path / 'ibi.sqlite'}",
        "IBI_ARCHIVE_ADDRESS": "mtc-m16c.sid.inpe.br",
        "IBI_ARCHIVE_SERVICE_IBI": SERVICE,
        "IBI_ARCHIVE_IP": "150.163.34.243",
    }
    app = Flask("both", instance_path=str(tmp_path))
    app.config.from_mapping(archive_settings)
    if not resolver_first:
        IBIArchive(app)
    with registry_app(tmp_path, app):
        if resolver_first:
            IBIArchive(app)
        archive_of(app).init()
        assert call(app, actor_call(HERMES)).status == 200
        assert call(app, document_call(HERMES, DOCUMENT)).status == 200
        answer = call(app, method="GET", rest=f"/{DOCUMENT}")
        assert read_xml(answer).findtext("documentID") == DOCUMENT
        assert "<h1>Document registry</h1>" in call(app, method="GET", accept=BROWSER).text
        assert call(app, method="GET", rest="/schema.xsd").status == 200
        # the routes of the Archive are not hidden either
        for path in ("/ibi/health", "/ibi/statistics"):
            assert ask(app, path).status == 200
        archive_of(app).database.close()


def test_a_route_of_the_host_has_precedence(tmp_path: Path) -> None:
    host = Flask("host", instance_path=str(tmp_path))
    for path in ("/ibi/registry", "/<path:any>", "/ibi/<name>", f"/ibi/registry/{DOCUMENT}"):
        host.add_url_rule(path, path, lambda **parts: "host", methods=["GET", "POST"])
    with registry_app(tmp_path, host) as app:
        for rest in ("", f"/{DOCUMENT}"):
            for method in ("GET", "POST"):
                assert call(app, DISPLAY, method=method, rest=rest).body == b"host"
        # rules with a variable match many paths, so they do not hide the registry
        assert call(app, method="GET", rest="/schema.xsd").body == SCHEMA.read_bytes()


def test_the_registry_can_be_mounted_under_a_path(tmp_path: Path) -> None:
    with registry_app(tmp_path, APPLICATION_ROOT="/resolver") as app:
        page = call(app, method="GET", accept=BROWSER).text
        assert 'action="/resolver/ibi/registry"' in page
        answer = call(app, method="GET", query=[("ibi", DOCUMENT)])
        assert answer.headers["Location"] == f"/resolver/ibi/registry/{DOCUMENT}"


def test_a_host_with_protected_forms_exempts_the_blueprint(tmp_path: Path) -> None:
    host = Flask("host", instance_path=str(tmp_path))
    host.secret_key = "a secret for tests"
    protection = CSRFProtect(host)
    with registry_app(tmp_path, host) as app:
        assert call(app, actor_call(HERMES)).status == 400
        protection.exempt(app.blueprints["ibi_resolver"])
        assert call(app, actor_call(HERMES)).status == 200
