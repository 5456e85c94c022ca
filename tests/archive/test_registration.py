"""Inclusion and exclusion: what is sent, what comes of each answer, what is written down."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import count
from threading import Event
from typing import Any

import pytest
import responses
from flask import Flask
from sqlalchemy import text
from support.archives import archive_of, close, make_app
from support.loopback import (
    EXCLUDED,
    SUCCESSFUL,
    UNSUCCESSFUL,
    Resolver,
    drips,
    includes,
    nobody,
    raw,
    says,
    sends,
    serving,
)
from support.vectors import load

from flask_ibi_archive.archive.registration.answers import read_retry_after
from flask_ibi_archive.archive.registration.registrar import (
    Registrar,
    generate_key,
    registration_email,
)
from flask_ibi_archive.archive.registration.standing import find_standing
from flask_ibi_archive.archive.transport import HttpResponse
from flask_ibi_archive.errors import (
    ArchiveMoved,
    ConfigError,
    NotReady,
    ResolverError,
    ResolverFailed,
    ResolverRefused,
    TransportError,
)
from flask_ibi_archive.protocol.inclusion import format_registration_status
from flask_ibi_archive.protocol.registration import is_key
from flask_ibi_archive.storage.registration import RegistrationRecord, find_registration

NewApp = Callable[..., Flask]

KEY = "1234567890-9876543210"
RESOLVER = "http://urlib.net/J8LNKB5R7W/3FUQHC5"
SETTINGS = {
    "IBI_REGISTRATION_KEY": KEY,
    "IBI_ARCHIVE_ADMIN_EMAIL": "banon@dpi.inpe.br",
    "IBI_ARCHIVE_PLATFORM_VERSION": "2014:11.09.02.16.15",
}
NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
memory = pytest.mark.parametrize("uri", ["sqlite://"])


class Desk:
    """A registrar whose clock stands still but for its waits, and whose resolver answers as told."""

    def __init__(self, app: Flask, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, float]] = []
        self.waits: list[float] = []
        self.time = 0.0
        self.registrar = Registrar(
            archive_of(app),
            fetch=self.fetch,
            clock=lambda: self.time,
            wait=self.wait,
            now=lambda: NOON + timedelta(seconds=self.time),
            chance=lambda: 1.0,
        )

    def fetch(
        self, url: str, query: str, *, seconds: float, limit: int, inner_hosts: object
    ) -> HttpResponse:
        self.asked.append((url, query, seconds))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, HttpResponse) else an_answer(answer)

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds


def an_answer(
    body: str | bytes, status: int = 200, complete: bool = True, **headers: str
) -> HttpResponse:
    named = {name.replace("_", "-").lower(): value for name, value in headers.items()}
    return HttpResponse(status, named, body.encode() if isinstance(body, str) else body, complete)


def initialised(new_app: NewApp, **config: Any) -> Flask:
    app = new_app(**{**SETTINGS, **config})
    archive_of(app).init()
    return app


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """An Archive that is set up once, where the database is not what it is about."""
    app = make_app("sqlite://", tmp_path_factory.mktemp("kept"), **SETTINGS)
    archive_of(app).init()
    yield app
    close(app)


@pytest.fixture
def ready(kept: Flask) -> Iterator[Flask]:
    """That Archive, as if it had never asked a resolver."""
    archive = archive_of(kept)
    config = archive.config
    with archive.database.writing() as connection:
        connection.execute(text("DELETE FROM ibi_registration"))
    yield kept
    archive.config = config


def configure(app: Flask, **values: Any) -> None:
    """Return an Archive other settings."""
    archive = archive_of(app)
    archive.config = replace(archive.config, **values)


def stored(app: Flask) -> RegistrationRecord | None:
    archive = archive_of(app)
    return archive.database.read(
        lambda connection: find_registration(connection, archive.served().id)
    )


# --- what is sent --------------------------------------------------------------------------------


@memory
@pytest.mark.parametrize(
    ("example", "ask", "body"),
    [("5.2", Registrar.include, SUCCESSFUL), ("5.3", Registrar.exclude, EXCLUDED)],
)
def test_the_requests_on_the_wire_are_those_of_the_examples(
    new_app: NewApp, example: str, ask: Callable[..., Any], body: str
) -> None:
    [url] = [case["url"] for case in load("messages.json")["requests"] if example in case["source"]]
    base, _, query = url.partition("?")
    app = initialised(
        new_app,
        IBI_RESOLVER_URL=base,
        IBI_REGISTRATION_KEY="1234567890",
        IBI_ARCHIVE_ADDRESS="mtc-m21.sid.inpe.br",
        IBI_ARCHIVE_SERVICE_IBI="sid.inpe.br/mtc-m21/2012/06.05.15.34.39",
        IBI_ARCHIVE_IP="150.163.34.239",
    )
    with responses.RequestsMock() as mock:
        mock.get(base, body=body)
        ask(Registrar(archive_of(app)))
        assert mock.calls[0].request.url == url
    resolver = says(body)
    with serving(resolver) as address:
        archive = archive_of(app)
        archive.config = replace(
            archive.config, resolver_url=f"http://{address}/J8LNKB5R7W/3FUQHC5"
        )
        ask(Registrar(archive))
    assert resolver.asked.get() == query


@memory
def test_the_service_is_named_as_rep_where_there_is_one(new_app: NewApp) -> None:
    app = initialised(new_app, IBI_ARCHIVE_SERVICE_IBI=None, IBI_MINT_HOST="mtc-m18.sid.inpe.br")
    desk = Desk(app, SUCCESSFUL)
    desk.registrar.include()
    served = archive_of(app).served()
    assert served.rep is not None
    assert f"&archiveserviceibi={served.rep.replace('+', '%2B')}&" in desk.asked[0][1]


@pytest.mark.parametrize(
    "key", ["IBI_REGISTRATION_KEY", "IBI_ARCHIVE_IP", "IBI_ARCHIVE_ADMIN_EMAIL"]
)
@pytest.mark.parametrize("ask", [Registrar.include, Registrar.exclude])
def test_a_missing_setting_is_named_before_anything_is_sent(
    ready: Flask, key: str, ask: Callable[..., Any]
) -> None:
    configure(ready, **{key.removeprefix("IBI_").lower(): None})
    desk = Desk(ready, SUCCESSFUL)
    with pytest.raises(ConfigError) as caught:
        ask(desk.registrar)
    assert caught.value.key == key
    assert desk.asked == []
    assert stored(ready) is None


@pytest.mark.no_tables
def test_before_init_nothing_is_sent(new_app: NewApp) -> None:
    desk = Desk(new_app(**SETTINGS), SUCCESSFUL)
    with pytest.raises(NotReady):
        desk.registrar.include()
    assert desk.asked == []


# --- what comes of it ----------------------------------------------------------------------------


def test_what_the_resolver_says_is_written_down(new_app: NewApp) -> None:
    app = initialised(new_app)
    desk = Desk(app, SUCCESSFUL)
    assert stored(app) is None
    assert format_registration_status(desk.registrar.include().status) == SUCCESSFUL
    first = RegistrationRecord(
        RESOLVER, "mtc-m16c.sid.inpe.br", "150.163.34.243", NOON, NOON, NOON, None, None, None
    )
    assert stored(app) == first
    desk.time, desk.answers = 60, [UNSUCCESSFUL]
    desk.registrar.include()
    assert stored(app) == replace(first, confirmed_at=None)
    desk.time, desk.answers = 120, [SUCCESSFUL]
    desk.registrar.include()
    later = NOON + timedelta(seconds=120)
    assert stored(app) == replace(first, confirmed_at=later)
    desk.time, desk.answers = 180, [EXCLUDED]
    assert format_registration_status(desk.registrar.exclude().status) == EXCLUDED
    later = NOON + timedelta(seconds=180)
    assert stored(app) == replace(first, included_at=None, confirmed_at=None, excluded_at=later)
    desk.time, desk.answers = 240, [SUCCESSFUL]
    desk.registrar.include()
    later = NOON + timedelta(seconds=240)
    assert stored(app) == replace(first, included_at=later, confirmed_at=later)


def test_a_failure_is_written_beside_what_was_known_and_goes_with_the_next_success(
    new_app: NewApp,
) -> None:
    app = initialised(new_app)
    desk = Desk(app, an_answer("alert {unknown key}", 403))
    with pytest.raises(ResolverRefused):
        desk.registrar.include()
    refused = stored(app)
    assert refused is not None
    assert refused.error is not None
    assert refused.error.startswith(f"the resolver {RESOLVER} refuses: unknown key; see that ")
    assert refused == RegistrationRecord(RESOLVER, error=refused.error, error_at=NOON)
    desk.answers = [SUCCESSFUL]
    desk.registrar.include()
    included = stored(app)
    assert included is not None
    assert (included.error, included.error_at) == (None, None)
    desk.answers = ["<html>"]
    with pytest.raises(ResolverFailed):
        desk.registrar.exclude()
    failed = stored(app)
    assert failed == replace(included, error=failed and failed.error, error_at=NOON)


def test_another_resolver_begins_anew(new_app: NewApp) -> None:
    first = initialised(new_app)
    Desk(first, SUCCESSFUL).registrar.include()
    other = new_app(**SETTINGS, IBI_RESOLVER_URL="http://resolver.example.org")
    standing = find_standing(archive_of(other))
    assert not standing.ok
    assert "by http://urlib.net/" in standing.text
    assert "but IBI_RESOLVER_URL is http://resolver.example.org" in standing.text
    desk = Desk(other, SUCCESSFUL)
    desk.time = 60
    desk.registrar.include()
    record = stored(other)
    assert record is not None
    assert record.resolver_url == "http://resolver.example.org"
    assert record.registered_at == record.included_at == NOON + timedelta(seconds=60)


def test_each_archive_of_a_database_has_its_own_state(new_app: NewApp) -> None:
    one = initialised(new_app)
    two = initialised(new_app, IBI_ARCHIVE_SERVICE_IBI="sid.inpe.br/mtc-m99/2008/03.17.15.17")
    Desk(one, SUCCESSFUL).registrar.include()
    assert stored(two) is None
    Desk(two, EXCLUDED).registrar.exclude()
    assert stored(one) != stored(two)


def test_what_can_not_be_written_down_is_told_with_what_came(new_app: NewApp) -> None:
    app = initialised(new_app)

    def answer_and_break() -> HttpResponse:
        with archive_of(app).database.writing() as connection:
            connection.execute(text("ALTER TABLE ibi_registration RENAME TO gone"))
        return an_answer(SUCCESSFUL)

    desk = Desk(app, SUCCESSFUL)
    desk.registrar.fetch = lambda *words, **options: answer_and_break()
    result = desk.registrar.include()
    assert result.status.confirmed
    assert result.not_stored is not None
    assert "flask ibi init" in result.not_stored


# --- odd answers ---------------------------------------------------------------------------------

ODD: list[tuple[Any, type[ResolverError], str]] = [
    (
        "",
        ResolverFailed,
        "answers nothing; it may not know the Archive or the key; see that IBI_REG",
    ),
    (an_answer(b"\r\n \r\n"), ResolverFailed, "answers nothing"),
    (an_answer("", 204), ResolverFailed, "answers nothing"),
    (
        "<!DOCTYPE html><p>Hi",
        ResolverFailed,
        "answers an HTML page instead of a status; see that IBI",
    ),
    (
        an_answer("It works!", content_type="text/html; charset=UTF-8"),
        ResolverFailed,
        "answers an HTML page",
    ),
    (
        an_answer("", 301, location="https://www.urlib.net/x?key=1"),
        ResolverFailed,
        "redirects to https://www.urlib.net/x, which is not followed; if the resolver is there, set",
    ),
    (an_answer("", 302), ResolverFailed, "answers with status 302, a redirect to nowhere"),
    (
        an_answer("alert {this Archive is\r\n not registered}", 403),
        ResolverRefused,
        "refuses: this Archive is not registered; see that IBI_REGISTRATION_KEY",
    ),
    (an_answer("", 403), ResolverRefused, "refuses (status 403) and does not say why; see that"),
    (
        an_answer("<html>Forbidden", 403),
        ResolverRefused,
        "refuses (status 403) with an HTML page; perhaps it was a firewall",
    ),
    ("alert {unknown key}", ResolverRefused, "refuses: unknown key; "),
    (an_answer("", 404), ResolverFailed, "answers with status 404; see that IBI_RESOLVER_URL"),
    (
        an_answer("alert {archiveip is missing}", 400),
        ResolverFailed,
        "answers with status 400 (archiveip is missing); tell the resolver's administrator",
    ),
    (an_answer("", 429), ResolverFailed, "answers with status 429; try again later"),
    (an_answer("<h1>Oops", 500), ResolverFailed, "answers with status 500; try again later"),
    (
        an_answer("alert {no database}", 503),
        ResolverFailed,
        "answers with status 503 (no database); try again later",
    ),
    (
        an_answer("x" * 65536, complete=False),
        ResolverFailed,
        "answers more than 65536 bytes instead of a status; see that IBI_RESOLVER_URL",
    ),
    ("{ola", ResolverFailed, "answers '{ola' instead of a status: an opening brace"),
    ("confirmation yes", ResolverFailed, "instead of a status: status.archive is missing"),
    ("status.archive included", ResolverFailed, "status.confirmation is missing"),
    (EXCLUDED, ResolverFailed, "after an inclusionRequest it should be included"),
    (SUCCESSFUL.encode("utf-16"), ResolverFailed, "no text of ASCII (UTF-16, perhaps)"),
    (an_answer(b"\x1f\x8b\x08 \xff"), ResolverFailed, "instead of a status"),
    (an_answer(b"alert {n\xe3o \x1b[2J}", 403), ResolverRefused, "refuses: n\ufffdo [2J; "),
    (
        TransportError(RESOLVER, "unreachable", "can't be reached (no route)", True),
        ResolverFailed,
        "can't be reached (no route); see that IBI_RESOLVER_URL",
    ),
    (
        TransportError(RESOLVER, "name", "can't be reached: its name is not known", False),
        ResolverFailed,
        "its name is not known; see that IBI_RESOLVER_URL",
    ),
    (
        TransportError(RESOLVER, "tls", "can't be reached over TLS (expired)", False),
        ResolverFailed,
        "over TLS (expired); see that its certificate is right",
    ),
    (
        TransportError(RESOLVER, "timeout", "took too long", True),
        ResolverFailed,
        "took too long; try again later",
    ),
    (
        TransportError(RESOLVER, "cut off", "broke off", True),
        ResolverFailed,
        "broke off; it may have been done all the same; try again later: to ask twice does no harm",
    ),
    (
        TransportError(RESOLVER, "no http", "does not speak HTTP", False),
        ResolverFailed,
        "does not speak HTTP; see that IBI_RESOLVER_URL",
    ),
    (
        TransportError(RESOLVER, "encoding", "answers in gzip", False),
        ResolverFailed,
        "answers in gzip; tell the resolver's administrator",
    ),
]


@pytest.mark.parametrize(("answer", "kind", "said"), ODD)
def test_each_odd_answer_has_its_own_line_which_says_what_to_do(
    ready: Flask, answer: Any, kind: type[ResolverError], said: str
) -> None:
    given = answer if isinstance(answer, HttpResponse | Exception) else an_answer(answer)
    with pytest.raises(kind) as caught:
        Desk(ready, given).registrar.include()
    line = str(caught.value)
    assert line.startswith(f"the resolver {RESOLVER} ")
    assert said in line
    assert "; " in line
    assert line.isprintable()
    record = stored(ready)
    assert record is not None
    assert record.error == line


# --- trying again --------------------------------------------------------------------------------

PASSING = [
    an_answer("", 500),
    an_answer("", 503),
    an_answer("", 429),
    TransportError(RESOLVER, "unreachable", "can't be reached", True),
    TransportError(RESOLVER, "timeout", "took too long", True),
    TransportError(RESOLVER, "cut off", "broke off", True),
]


@pytest.mark.parametrize("answer", PASSING)
def test_what_may_pass_is_tried_again_till_the_deadline(ready: Flask, answer: Any) -> None:
    desk = Desk(ready, answer)
    told: list[float] = []
    desk.registrar.on_retry = lambda error, delay: told.append(delay)
    with pytest.raises(ResolverFailed):
        desk.registrar.include()
    assert desk.waits == told == [1, 2, 4, 8, 16, 16]
    assert desk.time < 60
    assert [seconds for _, _, seconds in desk.asked] == [20, 20, 20, 20, 20, 20, 13]


@pytest.mark.parametrize("answer", PASSING)
def test_what_has_passed_is_a_success(ready: Flask, answer: Any) -> None:
    desk = Desk(ready, answer, answer, SUCCESSFUL)
    result = desk.registrar.include()
    assert (result.status.confirmed, result.tries) == (True, 3)
    assert desk.waits == [1, 2]


@pytest.mark.parametrize(
    "answer", [one for one, kind, _ in ODD if kind is ResolverRefused or isinstance(one, str)]
)
def test_a_refusal_and_an_answer_that_makes_no_sense_are_not_tried_again(
    ready: Flask, answer: Any
) -> None:
    desk = Desk(ready, answer)
    with pytest.raises(ResolverError):
        desk.registrar.include()
    assert (len(desk.asked), desk.waits) == (1, [])


def test_the_waits_differ_from_archive_to_archive(ready: Flask) -> None:
    desk = Desk(ready, an_answer("", 500))
    chances = count()
    desk.registrar.chance = lambda: (next(chances) % 2) / 2
    with pytest.raises(ResolverFailed):
        desk.registrar.include()
    assert desk.waits[:4] == [0.5, 1.5, 2, 6]


@pytest.mark.parametrize(
    ("told", "waits"),
    [
        ("7", [7]),
        ("0", [1]),
        ("Sun, 01 Mar 2026 12:00:30 GMT", [30]),
        ("Sun, 01 Mar 2026 11:00:00 GMT", [1]),
        ("soon", [1]),
        ("-5", [1]),
    ],
)
def test_the_resolver_is_left_alone_as_long_as_it_asks(
    ready: Flask, told: str, waits: list[float]
) -> None:
    desk = Desk(ready, an_answer("", 429, retry_after=told), SUCCESSFUL)
    desk.registrar.include()
    assert desk.waits == waits


def test_it_is_not_waited_longer_than_the_deadline(ready: Flask) -> None:
    desk = Desk(ready, an_answer("", 429, retry_after="3600"), SUCCESSFUL)
    with pytest.raises(ResolverFailed) as caught:
        desk.registrar.include()
    assert caught.value.retry_after == 3600
    assert desk.waits == []


def test_a_date_without_a_zone_is_one_of_utc() -> None:
    assert read_retry_after("Sun, 01 Mar 2026 12:00:30 -0000", NOON) == 30


# --- clones --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"IBI_ARCHIVE_ADDRESS": "staging.sid.inpe.br"}, "IBI_ARCHIVE_ADDRESS"),
        ({"IBI_ARCHIVE_ADDRESS": "mtc-m16c.sid.inpe.br:8080"}, "IBI_ARCHIVE_ADDRESS"),
        ({"IBI_ARCHIVE_IP": "10.0.0.7"}, "IBI_ARCHIVE_IP"),
    ],
)
@pytest.mark.parametrize(
    ("ask", "answer"), [(Registrar.include, SUCCESSFUL), (Registrar.exclude, EXCLUDED)]
)
def test_a_copy_of_the_database_asks_nothing_unless_it_has_really_moved(
    new_app: NewApp, config: dict[str, str], key: str, ask: Callable[..., Any], answer: str
) -> None:
    first = initialised(new_app)
    Desk(first, SUCCESSFUL).registrar.include()
    before = stored(first)
    clone = new_app(**{**SETTINGS, **config})
    desk = Desk(clone, answer)
    with pytest.raises(ArchiveMoved) as caught:
        ask(desk.registrar)
    line = str(caught.value)
    [new] = config.values()
    assert line.startswith(f"{key} is {new}, but the Archive is registered at ")
    assert caught.value.registered in ("mtc-m16c.sid.inpe.br", "150.163.34.243")
    assert caught.value.registered in line
    assert "--moved" in line
    assert "copy of its database" in line
    assert desk.asked == []
    assert stored(clone) == before
    assert not find_standing(archive_of(clone)).ok
    ask(desk.registrar, moved=True)
    assert len(desk.asked) == 1
    ask(desk.registrar)
    assert find_standing(archive_of(clone)).ok


def test_an_address_is_the_same_in_any_case(new_app: NewApp) -> None:
    Desk(initialised(new_app), SUCCESSFUL).registrar.include()
    other = new_app(**SETTINGS, IBI_ARCHIVE_ADDRESS="MTC-M16C.sid.inpe.br")
    Desk(other, SUCCESSFUL).registrar.include()


def test_an_excluded_archive_is_guarded_as_well(new_app: NewApp) -> None:
    first = initialised(new_app)
    Desk(first, SUCCESSFUL).registrar.include()
    Desk(first, EXCLUDED).registrar.exclude()
    with pytest.raises(ArchiveMoved):
        Desk(new_app(**SETTINGS, IBI_ARCHIVE_IP="10.0.0.7"), SUCCESSFUL).registrar.include()


# --- how it stands, in words ---------------------------------------------------------------------


def test_the_standing_says_what_comes_next(new_app: NewApp) -> None:
    archive = archive_of(initialised(new_app))
    desk = Desk(new_app(**SETTINGS), SUCCESSFUL)

    def standing() -> tuple[bool, str]:
        found = find_standing(archive)
        return found.ok, found.text

    assert standing()[0]
    assert "flask ibi registration-email" in standing()[1]
    desk.registrar.include()
    assert standing() == (True, "included since 2026-03-01T12:00:00Z, and confirmed")
    desk.answers = [UNSUCCESSFUL]
    desk.registrar.include()
    assert not standing()[0]
    assert standing()[1].startswith(
        "included, not confirmed since 2026-03-01T12:00:00Z; the resolver"
    )
    desk.answers = [an_answer("", 404)]
    with pytest.raises(ResolverFailed):
        desk.registrar.include()
    assert not standing()[0]
    assert "; the last request failed at 2026-03-01T12:00:00Z: the resolver" in standing()[1]
    desk.answers = [EXCLUDED]
    desk.registrar.exclude()
    assert standing()[0]
    assert standing()[1].startswith("excluded since 2026-03-01T12:00:00Z; to include it again")
    bare = archive_of(new_app())
    with bare.database.writing() as connection:
        connection.execute(text("DELETE FROM ibi_registration"))
    assert find_standing(bare).ok
    assert "flask ibi generate-key" in find_standing(bare).text


# --- key and e-mail ------------------------------------------------------------------------------


def test_generated_keys_have_the_form_of_the_document_and_differ() -> None:
    keys = {generate_key() for _ in range(1000)}
    assert len(keys) == 1000
    assert all(is_key(key) and re.fullmatch("[0-9]{10,}-[0-9]{10,}", key) for key in keys)


@memory
def test_the_email_names_service_and_key(new_app: NewApp) -> None:
    example = load("messages.json")["email"]
    app = initialised(
        new_app,
        IBI_ARCHIVE_SERVICE_IBI=example["archiveserviceibi"],
        IBI_REGISTRATION_KEY=example["registrationkey"],
    )
    assert registration_email(archive_of(app)) == (example["subject"], example["body"])
    with pytest.raises(ConfigError, match="IBI_REGISTRATION_KEY is not set"):
        registration_email(archive_of(initialised(new_app, IBI_REGISTRATION_KEY=None)))


# --- over the network ----------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


class Later:
    """A WSGI app that is there once it is told to be."""

    app: Any = None

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        return self.app(environ, start_response)


def test_the_resolver_calls_back_and_confirms_a_running_archive(new_app: NewApp) -> None:
    place, resolver = Later(), Resolver(includes)
    with serving(place) as address, serving(resolver) as far:
        settings = {
            "IBI_ARCHIVE_ADDRESS": address,
            "IBI_MINT_HOST": "mtc-m18.sid.inpe.br",
            "IBI_RESOLVER_URL": f"http://{far}/J8LNKB5R7W/3FUQHC5",
        }
        app = initialised(new_app, **settings)
        place.app = app
        registrar = Registrar(archive_of(app))
        assert format_registration_status(registrar.include().status) == SUCCESSFUL
        assert find_standing(archive_of(app)).ok
        # another program at the address confirms nothing
        place.app = Flask("another")
        assert format_registration_status(registrar.include().status) == UNSUCCESSFUL
        assert not find_standing(archive_of(app)).ok
        assert format_registration_status(registrar.exclude().status) == EXCLUDED
        record = stored(app)
    assert record is not None
    assert record.registered_at is not None
    assert record.included_at is None


def test_an_archive_that_does_not_run_is_included_and_not_confirmed(new_app: NewApp) -> None:
    with nobody() as address, serving(Resolver(includes)) as far:
        app = initialised(
            new_app,
            IBI_ARCHIVE_ADDRESS=address,
            IBI_MINT_HOST="mtc-m18.sid.inpe.br",
            IBI_RESOLVER_URL=f"http://{far}",
        )
        result = Registrar(archive_of(app)).include()
    assert format_registration_status(result.status) == UNSUCCESSFUL


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
done = Event()
ECHO = f"{KEY} you sent {KEY}"
LEAKS: dict[str, Callable[[], Any]] = {
    "nobody": nobody,
    "status": lambda: serving(says(ECHO, 500)),
    "alert": lambda: serving(says(f"alert {{{'x' * 190} {ECHO}}}", 403)),
    "alert with 400": lambda: serving(says(f"alert {{{ECHO}}}", 400)),
    "redirect": lambda: serving(says("", 302, Location=f"http://x/{KEY}?registrationkey={KEY}")),
    "no status": lambda: serving(says(f"{'x' * 50} {KEY}")),
    "wrong status": lambda: serving(says(f"status.archive {KEY}")),
    "no pairs": lambda: serving(says(f"{{{KEY}")),
    "page": lambda: serving(says(f"<html>{KEY}")),
    "success": lambda: serving(says(f"notice {{{KEY}}} {SUCCESSFUL}")),
    "cut off": lambda: raw(sends(HEAD + b"Content-Length: 90\r\n\r\n" + KEY.encode())),
    "no http": lambda: raw(sends(KEY.encode() + b"\r\n\r\n")),
    "header": lambda: raw(sends(HEAD + b"Content-Encoding: " + KEY.encode() + b"\r\n\r\n")),
    "slow": lambda: raw(drips(b"", done)),
}


@pytest.fixture
def _debug() -> Iterator[None]:
    logger = logging.getLogger("urllib3")
    logger.setLevel(logging.DEBUG)
    yield
    logger.setLevel(logging.NOTSET)


@pytest.mark.usefixtures("_debug")
@pytest.mark.parametrize("name", LEAKS)
def test_the_key_stands_in_no_log_message_traceback_or_row(
    ready: Flask,
    name: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(1)
    done.clear()
    with LEAKS[name]() as address:
        configure(ready, resolver_url=f"http://{address}", registration_deadline=0.3)
        said = ""
        try:
            said += repr(Registrar(archive_of(ready)).include())
        except ResolverError as error:
            said += "".join(traceback.format_exception(error))
            said += f"{error} {error!r} {error.args} {vars(error)}"
            said += f"{error.__cause__!r} {error.__context__!r}"
        finally:
            done.set()
    said += caplog.text + "".join(capfd.readouterr()) + repr(stored(ready))
    said += "".join(f"{record.msg}{record.args}" for record in caplog.records)
    assert "Starting new HTTP connection" in said
    for part in (KEY, KEY[:12], KEY.partition("-")[2]):
        assert part not in said
