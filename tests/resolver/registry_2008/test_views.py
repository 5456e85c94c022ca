"""The document registry over HTTP: verbs, refusals, passwords, the page and precedence ([P] 4)."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from lxml import etree
from support.registries import CHEAP
from support.resolving import app_over, resolver_of
from support.statements import statements_of
from support.web import Answer, environ_of, run

from flask_ibi_archive.core.protocol.pairs import format_query_string
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.resolver.registry_2008.operations import DocumentRegistry
from flask_ibi_archive.resolver.registry_2008.views import MAX_BODY

PATH = "/ibi/registry"
FORM = "application/x-www-form-urlencoded"
MINT_HOST = "registry.example.org"
PASSWORD = "geheim & 日本=?"
Pairs = Sequence[tuple[str, str]]

#: The actors and the document of [P] 4.
HERMES, ICONET = "dpi.inpe.br/banon/2001/01.11.16.21", "iconet.com.br/banon/2006/11.26.21.31"
DOCUMENT = "dpi.inpe.br/banon/2008/07.17.17.22"
URL = f"http://hermes.dpi.inpe.br:1905/col/{DOCUMENT}/doc/a.pdf"
COPY_URL = "http://www.iconet.com.br/banon/copy.pdf"
DATE = "2008-07-17T17:22:06-03:00"


@contextmanager
def registry_app(folder: Path, app: Flask | None = None, **config: Any) -> Iterator[Flask]:
    """Yield an app with a document registry, whose DNS knows each host as 127.0.0.1."""
    settings = {"IBI_RESOLVER_REGISTRY": True, "IBI_MINT_HOST": MINT_HOST, **config}
    with app_over([], folder, app, **settings) as found:
        registry = registry_of(found)
        registry.look_up = lambda host: ("127.0.0.1",)
        registry.cost = CHEAP
        yield found


def registry_of(app: Flask) -> DocumentRegistry:
    """Return the document registry of an app."""
    found = resolver_of(app).document_registry
    assert found is not None
    return found


def call(
    app: Flask,
    body: Pairs | bytes = b"",
    query: Pairs | bytes = b"",
    *,
    method: str = "POST",
    headers: Mapping[str, str] | None = None,
    remote: str | None = "150.163.2.175",
    **environ: Any,
) -> Answer:
    """Send a call to the registry.

    :param environ: other values of the WSGI environment.
    """
    sent, asked = (
        part if isinstance(part, bytes) else format_query_string(part).encode()
        for part in (body, query)
    )
    target = PATH.encode() + (b"?" + asked if asked else b"")
    found = environ_of(target, method, headers or {}, remote)
    found.update({"wsgi.input": io.BytesIO(sent), "CONTENT_LENGTH": str(len(sent))})
    found["CONTENT_TYPE"] = FORM
    return run(app, {**found, **environ})


def verb_call(name: str, actor: str = "", password: str = PASSWORD, **more: str) -> Pairs:
    """Return the arguments of a verb."""
    credentials = {"actorID": actor, "password": password} if actor else {}
    return list({"verb": name, **credentials, **more}.items())


def actor_call(actor_id: str = "", **more: str) -> Pairs:
    """Return the arguments of RegisterActor."""
    facts = {
        "computerName": "hermes",
        "ip": "127.0.0.1",
        "domainName": "dpi.inpe.br",
        "port": "1905",
        "eMailAddress": "banon@dpi.inpe.br",
        "password": PASSWORD,
        **({"actorID": actor_id} if actor_id else {}),
        **more,
    }
    return [("verb", "RegisterActor"), *facts.items()]


def document_call(actor: str, document_id: str = "", url: str = URL, **more: str) -> Pairs:
    """Return the arguments of RegisterDocument."""
    chosen = {"documentID": document_id} if document_id else {}
    location = {"documentURL": url, "documentLastUpdate": DATE}
    return verb_call("RegisterDocument", actor, **{**chosen, **location, **more})


def read_xml(answer: Answer) -> etree._Element:
    """Return the XML of an answer."""
    assert answer.headers["Content-Type"] == "text/xml; charset=utf-8"
    return etree.fromstring(answer.body)


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
@pytest.mark.parametrize(
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


# --- the page ------------------------------------------------------------------------------------


def test_a_form_is_sent_with_empty_fields(app: Flask) -> None:
    sent = dict(actor_call("a.br/form/2001/01.01.00.00"))
    assert call(app, list({**sent, "actorID": ""}.items())).status == 200


# --- other routes of the app ---------------------------------------------------------------------


def test_the_registry_can_be_mounted_under_a_path(tmp_path: Path) -> None:
    with registry_app(tmp_path, APPLICATION_ROOT="/resolver") as app:
        assert 'action="/resolver/ibi/registry"' in call(app, method="GET").text
