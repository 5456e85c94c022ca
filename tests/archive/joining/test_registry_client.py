"""The client of the document registry: answers, errors and passwords."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.loopback import drips, nobody, raw, says, sends, serving
from support.registry_calls import registry_server

from flask_ibi_archive.archive.joining import registry_client
from flask_ibi_archive.archive.joining.registry_client import RegistryClient
from flask_ibi_archive.core.protocol.registry_2008.model import (
    ChangePassword,
    Credentials,
    DisplayIDRegistration,
    DocumentRecord,
    RegisterActor,
)
from flask_ibi_archive.core.protocol.registry_2008.registry_messages import (
    Confirmation,
    RegisteredActor,
)
from flask_ibi_archive.errors import ConfigError, DocumentRegistryError, IBIError, ResolverError
from flask_ibi_archive.server.config import ArchiveConfig
from flask_ibi_archive.server.http.transport import HttpResponse

ACTOR = "dpi.inpe.br/banon/2001/01.11.16.21"
DOCUMENT = "dpi.inpe.br/banon/2002/10.10.08.39"
PASSWORD, NEW_PASSWORD = "12xY3z", "a2xY3z"
CREDENTIALS = Credentials(ACTOR, PASSWORD)
DISPLAY = DisplayIDRegistration(CREDENTIALS, DOCUMENT)
HERMES = RegisterActor("hermes", "150.163.2.14", "dpi.inpe.br", 80, "a@b.br", PASSWORD, ACTOR)


#: Words of answers, right and wrong.
WORDS = (
    "documentID", "actorID", ACTOR, DOCUMENT, "originalDocument", "yes", "documentURL", "http://x/",
    "documentLastUpdate", "2008-07-17T20:22:06Z", "metadataURL", "error", "{denied", "no}",
    "retryAfter", "7", "confirmation", "{", "}", PASSWORD,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the registry of a real resolver."""
    with registry_server(tmp_path_factory.mktemp("registry")) as url:
        yield url


def client_of(url: str | None, actor_id: str | None = ACTOR) -> RegistryClient:
    settings = {"SECRET_KEY": "x", "IBI_REGISTRY_URL": url, "IBI_REGISTRY_ACTOR_ID": actor_id}
    return RegistryClient(ArchiveConfig.from_mapping(settings, "/nowhere"))


def refusal(url: str, request: Any = DISPLAY, expected: Any = DocumentRecord) -> IBIError:
    with pytest.raises((DocumentRegistryError, ResolverError)) as caught:
        client_of(url).send(request, expected)
    assert "\n" not in str(caught.value)
    return caught.value


def test_the_client_and_the_server_understand_each_other(registry: str) -> None:
    client = client_of(registry)
    assert client.send(HERMES, RegisteredActor) == RegisteredActor(ACTOR)
    changed = client.send(ChangePassword(CREDENTIALS, NEW_PASSWORD), Confirmation)
    assert changed == Confirmation("the password was changed")
    error = refusal(registry)
    assert isinstance(error, DocumentRegistryError)
    assert error.code == "denied"
    assert str(error) == (
        f"the resolver {registry} refuses the request: "
        "the actorID, the password or the documentID is not right"
    )


def test_the_setting_must_name_the_registry_and_the_actor() -> None:
    with pytest.raises(ConfigError, match=r"^IBI_REGISTRY_URL is not set; it should be the addr"):
        client_of(None)
    with pytest.raises(ConfigError, match=r"^IBI_REGISTRY_ACTOR_ID is not set; .* register-actor"):
        _ = client_of("http://x", None).actor_id
    assert client_of("http://x", "DPI.inpe.br/banon/2001/01.11.16.21").actor_id == ACTOR


#: What a server does instead of an answer, with the error that the client raises.
FAILURES: dict[str, tuple[Callable[[], AbstractContextManager[str]], str]] = {
    "no server": (
        nobody,
        "can't be reached (Connection refused); check whether IBI_REGISTRY_URL is the address of "
        "the resolver's registry, such as http://urlib.net/ibi/registry; check whether this server "
        "can reach the Internet",
    ),
    "HTML": (
        lambda: serving(says("<!doctype html><p>Welcome")),
        "sends an HTML page instead of an answer of the registry; check whether IBI_REGISTRY_URL ",
    ),
    "XML": (
        lambda: serving(says("<?xml version='1.0'?><registry/>")),
        "sends an HTML page instead of an answer of the registry; check whether ",
    ),
    "no page": (
        lambda: serving(says("<h1>Not Found</h1>", 404)),
        "answers with status 404; check whether IBI_REGISTRY_URL is",
    ),
    "a broken server": (
        lambda: serving(says("oops", 500)),
        "answers with status 500; try again later",
    ),
    "a redirect": (
        lambda: serving(says("", 302, Location="https://x/ibi/registry")),
        "redirects to https://x/ibi/registry, but redirects are not followed; if this is the "
        "address of the resolver, set IBI_REGISTRY_URL to this address",
    ),
    "an endless answer": (
        lambda: serving(says("x" * 999)),
        "sends more than 100 bytes instead of an answer of the registry; check whether",
    ),
    "nothing": (
        lambda: serving(says("")),
        "answers '' instead of an answer of the registry: the text is not an answer of the ",
    ),
    "another text": (
        lambda: serving(says("status.archive included")),
        "answers 'status.archive included' instead of an answer of the registry: the text is not",
    ),
    "an unknown error": (
        lambda: serving(says("error {teapot no}", 418)),
        "answers with status 418; check whether IBI_REGISTRY_URL",
    ),
    "a result with the status of an error": (
        lambda: serving(says(f"documentID {DOCUMENT} actorID {ACTOR}", 502)),
        "answers with status 502; try again later",
    ),
    "the answer to another verb": (
        lambda: serving(says(f"actorID {ACTOR}")),
        "sends the answer to another request (RegisteredActor); tell the resolver's administrator",
    ),
    "half an answer": (
        lambda: raw(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\nactorID")),
        "closed the connection before the answer was complete; the resolver may have carried out "
        "the request",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_an_answer_that_is_not_valid_is_an_error_with_advice(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry_client, "MAX_ANSWER", 100)
    serve, message = FAILURES[name]
    with serve() as address:
        error = refusal(f"http://user:hush@{address}/r")
    assert str(error).startswith(f"the resolver http://{address}/r {message}")
    assert (error.__cause__, error.__context__) == (None, None)


def test_a_slow_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_client, "ANSWER_TIMEOUT", 0.1)
    done = Event()
    with raw(drips(b"HTTP/1.1 200 OK\r\n\r\n", done)) as address:
        error = refusal(f"http://{address}/r")
        done.set()
    assert str(error).endswith("took too long; the resolver may have carried out the request")


def test_a_refusal_is_shown_completely_in_one_line() -> None:
    names = " ".join(f"a.br/actor{number}/2001/01.11.16.21" for number in range(99))
    with serving(says(f"error {{conflict {names}}}\r\nretryAfter 7", 409)) as address:
        error = refusal(f"http://{address}")
    assert isinstance(error, DocumentRegistryError)
    assert (error.code, error.retry_after) == ("conflict", 7)
    assert str(error) == f"the resolver http://{address} refuses the request: {names}"


def test_each_error_code_of_the_server_arrives() -> None:
    for code, status in DocumentRegistryError.STATUSES.items():
        with serving(says(f"error {{{code} the reason}}", status)) as address:
            error = refusal(f"http://{address}")
        assert isinstance(error, DocumentRegistryError)
        assert error.code == code


@given(
    body=st.binary(max_size=200)
    | st.text(max_size=200).map(str.encode)
    | st.lists(st.sampled_from(WORDS), max_size=12).map(lambda words: " ".join(words).encode()),
    status=st.integers(100, 599),
    headers=st.dictionaries(st.sampled_from(["location", "retry-after"]), st.text(max_size=20)),
    complete=st.booleans(),
)
def test_every_answer_is_a_result_or_an_error_of_one_printable_line(
    body: bytes, status: int, headers: dict[str, str], complete: bool
) -> None:
    client = client_of("http://resolver.example.org/ibi/registry")
    client.fetch = lambda *words, **options: HttpResponse(status, headers, body, complete)
    try:
        shown = str(client.send(DISPLAY, DocumentRecord).document_id)
    except (DocumentRegistryError, ResolverError) as error:
        shown = str(error)
    assert shown.isprintable()
    assert PASSWORD not in shown


# --- passwords


def test_a_password_is_never_in_the_url() -> None:
    server = says(f"actorID {ACTOR}")
    with serving(server) as address:
        client_of(f"http://{address}/r").send(HERMES, RegisteredActor)
    assert server.asked.get() == ""


def echoes(text: str, status: int = 200, **headers: str) -> AbstractContextManager[str]:
    return serving(says(text, status, **headers))


ECHOES: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "an error": lambda: echoes(f"error {{denied {PASSWORD} is not {NEW_PASSWORD}}}", 403),
    "an alert": lambda: echoes(f"alert {{{NEW_PASSWORD}}}", 500),
    "a text": lambda: echoes(f"you sent {PASSWORD}"),
    "a redirect": lambda: echoes("", 302, Location=f"http://x/{PASSWORD}"),
    "an unknown error": lambda: echoes(f"error {{{NEW_PASSWORD} no}}", 400),
}


def test_no_error_and_no_log_contains_a_password(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    request = ChangePassword(CREDENTIALS, NEW_PASSWORD)
    servers = {**ECHOES, **{name: serve for name, (serve, _) in FAILURES.items()}}
    for name, serve in servers.items():
        with serve() as address:
            error = refusal(f"http://{address}/r", request, Confirmation)
        texts = f"{''.join(traceback.format_exception(error))}{error!r}{error.args}{request!r}"
        for password in (PASSWORD, NEW_PASSWORD):
            assert password not in texts, name
            assert password not in caplog.text, name
    assert "POST /r HTTP/1.1" in caplog.text
    printed = "".join(capfd.readouterr())
    assert PASSWORD not in printed
    assert NEW_PASSWORD not in printed


def test_a_confirmation_that_repeats_the_password_is_replaced() -> None:
    with echoes(f"confirmation {{the password is now {NEW_PASSWORD}}}") as address:
        client = client_of(f"http://{address}")
        answer = client.send(ChangePassword(CREDENTIALS, NEW_PASSWORD), Confirmation)
    assert answer == Confirmation("the resolver has carried out the request")


def test_an_error_that_repeats_the_password_keeps_its_code() -> None:
    with ECHOES["an error"]() as address:
        error = refusal(f"http://{address}")
    assert str(error) == (
        f"the resolver http://{address} refuses the request (denied); the message is not shown, "
        "because it contains a password of the request"
    )
