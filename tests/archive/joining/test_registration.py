"""Inclusion and exclusion: the requests, the answers of the resolver, and the stored state."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of
from support.loopback import (
    EXCLUDED,
    SUCCESSFUL,
    UNSUCCESSFUL,
    drips,
    nobody,
    raw,
    sends,
    serving,
)
from support.vectors import load
from werkzeug import Response

from flask_ibi_archive.archive.joining import registration
from flask_ibi_archive.core.protocol.inclusion import (
    EXCLUSION_REQUEST,
    INCLUSION_REQUEST,
    format_registration_status,
)
from flask_ibi_archive.errors import (
    ConfigError,
    RegistrationError,
    ResolverError,
    TransportError,
)
from flask_ibi_archive.server.http.transport import HttpResponse

from .conftest import KEY, NOON, RESOLVER, FakeResolver, NewApp


def send(app: Flask, subject: str, moved: bool = False) -> str:
    """Send a request, and return the status in the answer."""
    status = registration.send_request(archive_of(app), subject, moved=moved)
    return format_registration_status(status)


include = partial(send, subject=INCLUSION_REQUEST)
exclude = partial(send, subject=EXCLUSION_REQUEST)


def stored(app: Flask) -> dict[str, Any] | None:
    """Return the values of the registration of an Archive that are not null."""
    row = registration.read_registration(archive_of(app))
    values = {} if row is None else row._asdict()
    values.pop("archive_id", None)
    return {name: value for name, value in values.items() if value is not None} or None


def describe(app: Flask) -> tuple[bool, str]:
    """Return whether nothing must be done, and the state in words."""
    archive = archive_of(app)
    return registration.describe(registration.read_registration(archive), archive.config)


def set_clock(app: Flask, resolver: FakeResolver) -> Flask:
    """Let the Archive of an app have the clock of a resolver, and return the app."""
    archive_of(app).clock = lambda: resolver.time
    return app


# --- the requests --------------------------------------------------------------------------------


@pytest.mark.rule("R5-08")
def test_the_requests_are_those_of_the_examples(
    new_archive: NewApp, resolver: FakeResolver
) -> None:
    app = new_archive(
        IBI_REGISTRATION_KEY="1234567890",
        IBI_ARCHIVE_ADDRESS="mtc-m21.sid.inpe.br",
        IBI_ARCHIVE_SERVICE_IBI="sid.inpe.br/mtc-m21/2012/06.05.15.34.39",
        IBI_ARCHIVE_IP="150.163.34.239",
        IBI_ARCHIVE_PLATFORM_VERSION="2014:11.09.02.16.15",
    )
    include(app)
    resolver.answer = EXCLUDED
    exclude(app)
    requests = load("messages.json")["requests"]
    printed = [
        next(case["url"] for case in requests if example in case["source"]).partition("?")[2]
        for example in ("5.2", "5.3")
    ]
    # an inclusionRequest has two further pairs
    further = (
        f"&mints=sid.inpe.br/mtc-m21%208JMKD3MGP3W&database={archive_of(app).served().database}"
    )
    assert resolver.queries == [printed[0] + further, printed[1]]


def test_the_service_is_named_by_its_repository_name_if_it_has_one(
    new_archive: NewApp, resolver: FakeResolver
) -> None:
    app = new_archive(IBI_ARCHIVE_SERVICE_IBI=None, IBI_MINT_HOST="mtc-m18.sid.inpe.br")
    include(app)
    rep = archive_of(app).served().rep
    assert rep is not None
    assert f"&archiveserviceibi={rep.replace('+', '%2B')}&" in resolver.queries[0]


@pytest.mark.rule("R5-06")
@pytest.mark.parametrize("request_", [include, exclude])
def test_a_missing_setting_is_an_error_and_nothing_is_sent(
    new_archive: NewApp, resolver: FakeResolver, request_: Callable[..., Any]
) -> None:
    for key in ("IBI_REGISTRATION_KEY", "IBI_ARCHIVE_IP", "IBI_ARCHIVE_ADMIN_EMAIL"):
        app = new_archive(**{key: None})
        with pytest.raises(ConfigError) as caught:
            request_(app)
        assert caught.value.key == key
        assert (resolver.queries, stored(app)) == ([], None), key


# --- the stored state ----------------------------------------------------------------------------


@pytest.mark.rule("R5-13", "R5-14")
def test_the_answer_of_the_resolver_is_stored_and_described(
    new_archive: NewApp, resolver: FakeResolver
) -> None:
    app = set_clock(new_archive(), resolver)
    assert stored(app) is None
    assert describe(app)[0]
    assert "flask ibi registration-email" in describe(app)[1]
    assert "flask ibi generate-key" in describe(new_archive(IBI_REGISTRATION_KEY=None))[1]
    assert include(app) == SUCCESSFUL
    included = {
        "resolver_url": RESOLVER,
        "address": "mtc-m16c.sid.inpe.br",
        "ip": "150.163.34.243",
        "registered_at": NOON,
        "included_at": NOON,
    }
    assert stored(app) == {**included, "confirmed_at": NOON}
    assert describe(app) == (True, "included since 2026-03-01T12:00:00Z, and confirmed")
    resolver.wait()
    resolver.answer = UNSUCCESSFUL
    assert include(app) == UNSUCCESSFUL
    assert stored(app) == included
    ok, line = describe(app)
    assert not ok
    assert line.startswith("included, not confirmed since 2026-03-01T12:00:00Z; the resolver got")
    later = resolver.wait()
    resolver.answer = EXCLUDED
    assert exclude(app) == EXCLUDED
    del included["included_at"]
    assert stored(app) == {**included, "excluded_at": later}
    ok, line = describe(app)
    assert ok
    assert line.startswith("excluded since 2026-03-01T12:02:00Z; to include the Archive again")
    later = resolver.wait()
    resolver.answer = SUCCESSFUL
    include(app)
    assert stored(app) == {**included, "included_at": later, "confirmed_at": later}


def test_an_error_is_stored_until_the_next_success(
    new_archive: NewApp, resolver: FakeResolver
) -> None:
    app = set_clock(new_archive(), resolver)
    resolver.answer = HttpResponse(403, {}, b"alert {unknown key}")
    with pytest.raises(ResolverError) as caught:
        include(app)
    error = str(caught.value)
    assert error.startswith(f"the resolver {RESOLVER} refuses the request: unknown key; check whe")
    assert stored(app) == {"resolver_url": RESOLVER, "error": error, "error_at": NOON}
    resolver.answer = SUCCESSFUL
    include(app)
    included = stored(app)
    assert included is not None
    assert "error" not in included
    resolver.wait()
    resolver.answer = "<html>"
    with pytest.raises(ResolverError) as caught:
        exclude(app)
    assert stored(app) == {**included, "error": str(caught.value), "error_at": resolver.time}
    ok, line = describe(app)
    assert not ok
    assert "; the last request failed at 2026-03-01T12:01:00Z: the resolver" in line


def test_another_resolver_means_a_new_registration(
    new_archive: NewApp, resolver: FakeResolver
) -> None:
    include(set_clock(new_archive(), resolver))
    other = set_clock(new_archive(IBI_RESOLVER_URL="http://resolver.example.org"), resolver)
    ok, line = describe(other)
    assert not ok
    assert "by http://urlib.net/" in line
    assert "but IBI_RESOLVER_URL is http://resolver.example.org" in line
    later = resolver.wait()
    include(other)
    record = stored(other)
    assert record is not None
    assert record["resolver_url"] == "http://resolver.example.org"
    assert record["registered_at"] == record["included_at"] == later


# --- answers that are not a status ---------------------------------------------------------------


def test_the_error_for_each_other_answer_contains_advice(
    new_archive: NewApp, resolver: FakeResolver
) -> None:
    app = new_archive()
    for answer, part in load("registration_answers.json"):
        body = answer["body"]
        if "error" in answer:
            resolver.answer = TransportError(RESOLVER, answer["error"], body, True)
        else:
            headers = {"location": answer.get("location", "")}
            complete = answer.get("complete", True)
            body = body.encode("latin-1")
            resolver.answer = HttpResponse(answer.get("status", 200), headers, body, complete)
        with pytest.raises(ResolverError) as caught:
            include(app)
        assert caught.value.is_refusal == part.startswith("refuses"), part
        line = str(caught.value)
        assert line.startswith(f"the resolver {RESOLVER} "), line
        assert part in line
        assert "; " in line
        assert line.isprintable(), line
        record = stored(app)
        assert record is not None
        assert record["error"] == line


# --- copies of the database ----------------------------------------------------------------------


@pytest.mark.rule("R5-14")
@pytest.mark.parametrize(("request_", "answer"), [(include, SUCCESSFUL), (exclude, EXCLUDED)])
def test_a_copy_of_the_database_sends_nothing_without_the_option_moved(
    new_archive: NewApp, resolver: FakeResolver, request_: Callable[..., Any], answer: str
) -> None:
    first = new_archive()
    include(first)
    include(new_archive(IBI_ARCHIVE_ADDRESS="MTC-M16C.sid.inpe.br"))  # the case does not matter
    resolver.answer = answer
    request_(first)
    before = stored(first)
    resolver.queries.clear()
    for key, value, registered in (
        ("IBI_ARCHIVE_ADDRESS", "staging.sid.inpe.br", "mtc-m16c.sid.inpe.br"),
        ("IBI_ARCHIVE_ADDRESS", "mtc-m16c.sid.inpe.br:8080", "mtc-m16c.sid.inpe.br"),
        ("IBI_ARCHIVE_IP", "10.0.0.7", "150.163.34.243"),
    ):
        copy = new_archive(**{key: value})
        with pytest.raises(RegistrationError) as caught:
            request_(copy)
        line = str(caught.value)
        assert line.startswith(f"{key} is {value}, but the Archive is registered at {registered}")
        assert "--moved" in line
        assert "database is a copy" in line
        assert resolver.queries == []
        assert stored(copy) == before
        assert describe(copy)[0] is False
    for moved in (True, False):
        assert request_(copy, moved=moved) == answer
    assert describe(copy)[0]


# --- over the network ----------------------------------------------------------------------------


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
done = Event()
ECHO = f"{KEY} you sent {KEY}"
LEAKS: dict[str, Callable[[], Any]] = {
    "nobody": nobody,
    "alert": lambda: serving(Response(f"alert {{{'x' * 190} {ECHO}}}", 403)),
    "redirect": lambda: serving(
        Response("", 302, {"Location": f"http://x/{KEY}?registrationkey={KEY}"})
    ),
    "page": lambda: serving(Response(f"<html>{KEY}")),
    "success": lambda: serving(Response(f"notice {{{KEY}}} {SUCCESSFUL}")),
    "cut off": lambda: raw(sends(HEAD + b"Content-Length: 90\r\n\r\n" + KEY.encode())),
    "header": lambda: raw(sends(HEAD + b"Content-Encoding: " + KEY.encode() + b"\r\n\r\n")),
    "slow": lambda: raw(drips(b"", done)),
}


@pytest.fixture
def _debug(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("NO_PROXY", "*")
    logger = logging.getLogger("urllib3")
    logger.setLevel(logging.DEBUG)
    yield
    logger.setLevel(logging.NOTSET)


@pytest.mark.usefixtures("_debug")
def test_neither_a_log_nor_the_database_contains_the_key(
    new_archive: NewApp,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    app = new_archive()
    archive = archive_of(app)
    caplog.set_level(1)
    for name, serve in LEAKS.items():
        caplog.clear()
        done.clear()
        with serve() as address:
            monkeypatch.setattr(registration, "ANSWER_TIMEOUT", 0.2 if name == "slow" else 20)
            archive.config = replace(archive.config, resolver_url=f"http://{address}")
            output = ""
            try:
                output += include(app)
            except ResolverError as error:
                output += "".join(traceback.format_exception(error))
                output += f"{error} {error!r} {error.args} {vars(error)}"
                output += f"{error.__cause__!r} {error.__context__!r}"
            finally:
                done.set()
        output += caplog.text + "".join(capfd.readouterr()) + repr(stored(app))
        output += "".join(f"{record.msg}{record.args}" for record in caplog.records)
        assert "Starting new HTTP connection" in output, name
        for part in (KEY, KEY[:12], KEY.partition("-")[2]):
            assert part not in output, name
