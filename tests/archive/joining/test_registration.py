"""Inclusion and exclusion: the requests, the answers of the resolver, and the stored state."""

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
    Later,
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

from flask_ibi_archive.archive import joining
from flask_ibi_archive.archive.joining.registrar import Registrar, generate_key, registration_email
from flask_ibi_archive.archive.joining.registration_state import (
    RegistrationRecord,
    describe_served,
    find_registration,
)
from flask_ibi_archive.archive.joining.resolver_answer import read_retry_after
from flask_ibi_archive.core.protocol.inclusion import format_registration_status, is_key
from flask_ibi_archive.errors import (
    ConfigError,
    NotReady,
    RegistrationError,
    ResolverError,
    TransportError,
)
from flask_ibi_archive.server.http.transport import HttpResponse

NewApp = Callable[..., Flask]

KEY = "1234567890-9876543210"
RESOLVER = "http://urlib.net/J8LNKB5R7W/3FUQHC5"
SETTINGS = {
    "IBI_REGISTRATION_KEY": KEY,
    "IBI_ARCHIVE_ADMIN_EMAIL": "banon@dpi.inpe.br",
    "IBI_ARCHIVE_PLATFORM_VERSION": "2014:11.09.02.16.15",
}
NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


class FakeResolver:
    """A registrar with prepared answers of a resolver and a clock that advances only in waits."""

    def __init__(self, app: Flask, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[str, str, float]] = []
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
        self.requests.append((url, query, seconds))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, HttpResponse) else answer_with(answer)

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds


def answer_with(
    body: str | bytes, status: int = 200, complete: bool = True, **headers: str
) -> HttpResponse:
    named = {name.replace("_", "-").lower(): value for name, value in headers.items()}
    return HttpResponse(status, named, body.encode() if isinstance(body, str) else body, complete)


def initialised(new_app: NewApp, **config: Any) -> Flask:
    app = new_app(**{**SETTINGS, **config})
    archive_of(app).init()
    return app


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """An Archive for all tests that do not depend on the database."""
    app = make_app("sqlite://", tmp_path_factory.mktemp("shared"), **SETTINGS)
    archive_of(app).init()
    yield app
    close(app)


@pytest.fixture
def ready(shared: Flask) -> Iterator[Flask]:
    """The shared Archive, without a registration."""
    archive = archive_of(shared)
    config = archive.config
    with archive.database.writing() as connection:
        connection.execute(text("DELETE FROM ibi_registration"))
    yield shared
    archive.config = config


def configure(app: Flask, **values: Any) -> None:
    """Change settings of an Archive."""
    archive = archive_of(app)
    archive.config = replace(archive.config, **values)


def stored(app: Flask) -> RegistrationRecord | None:
    archive = archive_of(app)
    return archive.database.read(
        lambda connection: find_registration(connection, archive.served().id)
    )


# --- the requests --------------------------------------------------------------------------------


@pytest.mark.rule("R5-08")
@pytest.mark.parametrize(
    ("example", "request_", "body"),
    [("5.2", Registrar.include, SUCCESSFUL), ("5.3", Registrar.exclude, EXCLUDED)],
)
def test_the_requests_are_those_of_the_examples(
    new_app: NewApp, example: str, request_: Callable[..., Any], body: str
) -> None:
    [url] = [case["url"] for case in load("messages.json")["requests"] if example in case["source"]]
    base = url.partition("?")[0]
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
        request_(Registrar(archive_of(app)))
        sent = str(mock.calls[0].request.url)
    # an inclusionRequest has two further pairs
    word = archive_of(app).served().database
    further = f"&mints=sid.inpe.br/mtc-m21%208JMKD3MGP3W&database={word}"
    assert sent == url + (further if example == "5.2" else "")
    resolver = says(body)
    with serving(resolver) as address:
        archive = archive_of(app)
        archive.config = replace(
            archive.config, resolver_url=f"http://{address}/J8LNKB5R7W/3FUQHC5"
        )
        request_(Registrar(archive))
    assert resolver.asked.get() == sent.partition("?")[2]


def test_the_service_is_named_by_its_repository_name_if_it_has_one(new_app: NewApp) -> None:
    app = initialised(new_app, IBI_ARCHIVE_SERVICE_IBI=None, IBI_MINT_HOST="mtc-m18.sid.inpe.br")
    resolver = FakeResolver(app, SUCCESSFUL)
    resolver.registrar.include()
    served = archive_of(app).served()
    assert served.rep is not None
    assert f"&archiveserviceibi={served.rep.replace('+', '%2B')}&" in resolver.requests[0][1]


@pytest.mark.rule("R5-06")
@pytest.mark.parametrize("request_", [Registrar.include, Registrar.exclude])
def test_a_missing_setting_is_an_error_and_nothing_is_sent(
    ready: Flask, request_: Callable[..., Any]
) -> None:
    config = archive_of(ready).config
    for key in ("IBI_REGISTRATION_KEY", "IBI_ARCHIVE_IP", "IBI_ARCHIVE_ADMIN_EMAIL"):
        archive_of(ready).config = config
        configure(ready, **{key.removeprefix("IBI_").lower(): None})
        resolver = FakeResolver(ready, SUCCESSFUL)
        with pytest.raises(ConfigError) as caught:
            request_(resolver.registrar)
        assert caught.value.key == key
        assert resolver.requests == [], key
        assert stored(ready) is None, key


@pytest.mark.no_tables
def test_before_init_nothing_is_sent(new_app: NewApp) -> None:
    resolver = FakeResolver(new_app(**SETTINGS), SUCCESSFUL)
    with pytest.raises(NotReady):
        resolver.registrar.include()
    assert resolver.requests == []


# --- the stored state ----------------------------------------------------------------------------


@pytest.mark.rule("R5-13", "R5-14")
def test_the_answer_of_the_resolver_is_stored(new_app: NewApp) -> None:
    app = initialised(new_app)
    resolver = FakeResolver(app, SUCCESSFUL)
    assert stored(app) is None
    assert format_registration_status(resolver.registrar.include().status) == SUCCESSFUL
    first = RegistrationRecord(
        RESOLVER, "mtc-m16c.sid.inpe.br", "150.163.34.243", NOON, NOON, NOON, None, None, None
    )
    assert stored(app) == first
    resolver.time, resolver.answers = 60, [UNSUCCESSFUL]
    resolver.registrar.include()
    assert stored(app) == replace(first, confirmed_at=None)
    resolver.time, resolver.answers = 120, [SUCCESSFUL]
    resolver.registrar.include()
    later = NOON + timedelta(seconds=120)
    assert stored(app) == replace(first, confirmed_at=later)
    resolver.time, resolver.answers = 180, [EXCLUDED]
    assert format_registration_status(resolver.registrar.exclude().status) == EXCLUDED
    later = NOON + timedelta(seconds=180)
    assert stored(app) == replace(first, included_at=None, confirmed_at=None, excluded_at=later)
    resolver.time, resolver.answers = 240, [SUCCESSFUL]
    resolver.registrar.include()
    later = NOON + timedelta(seconds=240)
    assert stored(app) == replace(first, included_at=later, confirmed_at=later)


def test_an_error_is_stored_until_the_next_success(new_app: NewApp) -> None:
    app = initialised(new_app)
    resolver = FakeResolver(app, answer_with("alert {unknown key}", 403))
    with pytest.raises(ResolverError):
        resolver.registrar.include()
    refused = stored(app)
    assert refused is not None
    assert refused.error is not None
    assert refused.error.startswith(
        f"the resolver {RESOLVER} refuses the request: unknown key; check whether "
    )
    assert refused == RegistrationRecord(RESOLVER, error=refused.error, error_at=NOON)
    resolver.answers = [SUCCESSFUL]
    resolver.registrar.include()
    included = stored(app)
    assert included is not None
    assert (included.error, included.error_at) == (None, None)
    resolver.answers = ["<html>"]
    with pytest.raises(ResolverError):
        resolver.registrar.exclude()
    failed = stored(app)
    assert failed == replace(included, error=failed and failed.error, error_at=NOON)


def test_another_resolver_means_a_new_registration(new_app: NewApp) -> None:
    first = initialised(new_app)
    FakeResolver(first, SUCCESSFUL).registrar.include()
    other = new_app(**SETTINGS, IBI_RESOLVER_URL="http://resolver.example.org")
    description = describe_served(archive_of(other))
    assert not description.ok
    assert "by http://urlib.net/" in description.text
    assert "but IBI_RESOLVER_URL is http://resolver.example.org" in description.text
    resolver = FakeResolver(other, SUCCESSFUL)
    resolver.time = 60
    resolver.registrar.include()
    record = stored(other)
    assert record is not None
    assert record.resolver_url == "http://resolver.example.org"
    assert record.registered_at == record.included_at == NOON + timedelta(seconds=60)


def test_each_archive_of_a_database_has_a_separate_state(new_app: NewApp) -> None:
    one = initialised(new_app)
    two = initialised(new_app, IBI_ARCHIVE_SERVICE_IBI="sid.inpe.br/mtc-m99/2008/03.17.15.17")
    FakeResolver(one, SUCCESSFUL).registrar.include()
    assert stored(two) is None
    FakeResolver(two, EXCLUDED).registrar.exclude()
    assert stored(one) != stored(two)


def test_a_status_that_cannot_be_stored_is_returned_with_the_reason(new_app: NewApp) -> None:
    app = initialised(new_app)

    def answer_and_break() -> HttpResponse:
        with archive_of(app).database.writing() as connection:
            connection.execute(text("ALTER TABLE ibi_registration RENAME TO gone"))
        return answer_with(SUCCESSFUL)

    resolver = FakeResolver(app, SUCCESSFUL)
    resolver.registrar.fetch = lambda *words, **options: answer_and_break()
    result = resolver.registrar.include()
    assert result.status.confirmed
    assert result.not_stored is not None
    assert "flask ibi init" in result.not_stored


# --- answers that are not a status ---------------------------------------------------------------

NOT_A_STATUS: list[tuple[Any, str]] = [
    ("", "sends an empty answer; the resolver may not know the Archive or the key"),
    (answer_with(b"\r\n \r\n"), "sends an empty answer"),
    (answer_with("", 204), "sends an empty answer"),
    ("<!DOCTYPE html><p>Hi", "sends an HTML page instead of a status; check whether IBI"),
    (answer_with("It works!", content_type="text/html; charset=UTF-8"), "sends an HTML page"),
    (
        answer_with("", 301, location="https://www.urlib.net/x?key=1"),
        "redirects to https://www.urlib.net/x, but redirects are not followed; if this is",
    ),
    (answer_with("", 302), "answers with a redirect (status 302) that has no target"),
    (
        answer_with("alert {this Archive is\r\n not registered}", 403),
        "refuses the request: this Archive is not registered; check whether IBI_REGISTRATION_KEY",
    ),
    (answer_with("", 403), "refuses the request (status 403) without a reason; check whether"),
    (
        answer_with("<html>Forbidden", 403),
        "refuses the request (status 403) with an HTML page; perhaps a firewall",
    ),
    ("alert {unknown key}", "refuses the request: unknown key; "),
    (answer_with("", 404), "answers with status 404; check whether IBI_RESOLVER_URL"),
    (
        answer_with("alert {archiveip is missing}", 400),
        "answers with status 400 (archiveip is missing); tell the resolver's administrator",
    ),
    (answer_with("", 429), "answers with status 429; try again later"),
    (answer_with("<h1>Oops", 500), "answers with status 500; try again later"),
    (
        answer_with("alert {no database}", 503),
        "answers with status 503 (no database); try again later",
    ),
    (
        answer_with("x" * 65536, complete=False),
        "sends more than 65536 bytes instead of a status; check whether IBI_RESOLVER_URL",
    ),
    ("{ola", "answers '{ola' instead of a status: an opening brace"),
    ("confirmation yes", "instead of a status: status.archive is missing"),
    ("status.archive included", "status.confirmation is missing"),
    (EXCLUDED, "after an inclusionRequest it should be included"),
    (SUCCESSFUL.encode("utf-16"), "not ASCII text (perhaps UTF-16)"),
    (answer_with(b"\x1f\x8b\x08 \xff"), "instead of a status"),
    (answer_with(b"alert {n\xe3o \x1b[2J}", 403), "refuses the request: n\ufffdo [2J; "),
    (
        TransportError(RESOLVER, "unreachable", "can't be reached (no route)", True),
        "can't be reached (no route); check whether IBI_RESOLVER_URL",
    ),
    (
        TransportError(RESOLVER, "name", "can't be reached: the host name is not known", False),
        "the host name is not known; check whether IBI_RESOLVER_URL",
    ),
    (
        TransportError(RESOLVER, "tls", "can't be reached over TLS (expired)", False),
        "over TLS (expired); check whether the certificate is valid",
    ),
    (TransportError(RESOLVER, "timeout", "took too long", True), "took too long; try again later"),
    (
        TransportError(RESOLVER, "cut off", "closed the connection", True),
        "closed the connection; the resolver may have carried out the request; you can safely try",
    ),
    (
        TransportError(RESOLVER, "no http", "not valid HTTP", False),
        "not valid HTTP; check whether IBI_RESOLVER_URL",
    ),
    (
        TransportError(RESOLVER, "encoding", "answers in gzip", False),
        "answers in gzip; tell the resolver's administrator",
    ),
]


def test_the_error_for_each_other_answer_contains_advice(ready: Flask) -> None:
    for answer, part in NOT_A_STATUS:
        outcome = answer_with(answer) if isinstance(answer, str) else answer
        with pytest.raises(ResolverError) as caught:
            FakeResolver(ready, outcome).registrar.include()
        assert caught.value.is_refusal == part.startswith("refuses")
        line = str(caught.value)
        assert line.startswith(f"the resolver {RESOLVER} "), line
        assert part in line
        assert "; " in line
        assert line.isprintable(), line
        record = stored(ready)
        assert record is not None
        assert record.error == line


# --- retries -------------------------------------------------------------------------------------

TEMPORARY = [
    answer_with("", 500),
    answer_with("", 503),
    answer_with("", 429),
    TransportError(RESOLVER, "unreachable", "can't be reached", True),
    TransportError(RESOLVER, "timeout", "took too long", True),
    TransportError(RESOLVER, "cut off", "closed the connection", True),
]


def test_after_a_temporary_failure_the_request_is_retried_until_the_deadline(ready: Flask) -> None:
    for answer in TEMPORARY:
        resolver = FakeResolver(ready, answer)
        delays: list[float] = []
        resolver.registrar.on_retry = lambda error, delay, delays=delays: delays.append(delay)  # type: ignore[misc]
        with pytest.raises(ResolverError):
            resolver.registrar.include()
        assert resolver.waits == delays == [1, 2, 4, 8, 16, 16], answer
        assert resolver.time < 60
        timeouts = [seconds for _, _, seconds in resolver.requests]
        assert timeouts == [20, 20, 20, 20, 20, 20, 13], answer


def test_a_retry_may_succeed(ready: Flask) -> None:
    for answer in TEMPORARY:
        resolver = FakeResolver(ready, answer, answer, SUCCESSFUL)
        result = resolver.registrar.include()
        assert (result.status.confirmed, result.tries) == (True, 3), answer
        assert resolver.waits == [1, 2], answer


def test_a_refusal_or_an_answer_that_is_not_valid_is_not_retried(ready: Flask) -> None:
    for answer, part in NOT_A_STATUS:
        if part.startswith("refuses") or isinstance(answer, str):
            resolver = FakeResolver(ready, answer)
            with pytest.raises(ResolverError):
                resolver.registrar.include()
            assert (len(resolver.requests), resolver.waits) == (1, []), answer


def test_the_delays_are_random(ready: Flask) -> None:
    resolver = FakeResolver(ready, answer_with("", 500))
    chances = count()
    resolver.registrar.chance = lambda: (next(chances) % 2) / 2
    with pytest.raises(ResolverError):
        resolver.registrar.include()
    assert resolver.waits[:4] == [0.5, 1.5, 2, 6]


def test_the_delay_is_at_least_that_of_retry_after(ready: Flask) -> None:
    for retry_after, delay in (
        ("7", 7),
        ("0", 1),
        ("Sun, 01 Mar 2026 12:00:30 GMT", 30),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 1),
        ("soon", 1),
        ("-5", 1),
    ):
        resolver = FakeResolver(ready, answer_with("", 429, retry_after=retry_after), SUCCESSFUL)
        resolver.registrar.include()
        assert resolver.waits == [delay], retry_after


def test_there_is_no_retry_after_the_deadline(ready: Flask) -> None:
    resolver = FakeResolver(ready, answer_with("", 429, retry_after="3600"), SUCCESSFUL)
    with pytest.raises(ResolverError) as caught:
        resolver.registrar.include()
    assert caught.value.retry_after == 3600
    assert resolver.waits == []


def test_a_date_without_a_time_zone_is_in_utc() -> None:
    assert read_retry_after("Sun, 01 Mar 2026 12:00:30 -0000", NOON) == 30


# --- copies of the database ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "answer"), [(Registrar.include, SUCCESSFUL), (Registrar.exclude, EXCLUDED)]
)
def test_a_copy_of_the_database_sends_nothing_without_the_option_moved(
    new_app: NewApp, request_: Callable[..., Any], answer: str
) -> None:
    first = initialised(new_app)
    FakeResolver(first, SUCCESSFUL).registrar.include()
    before = stored(first)
    for key, value, registered in (
        ("IBI_ARCHIVE_ADDRESS", "staging.sid.inpe.br", "mtc-m16c.sid.inpe.br"),
        ("IBI_ARCHIVE_ADDRESS", "mtc-m16c.sid.inpe.br:8080", "mtc-m16c.sid.inpe.br"),
        ("IBI_ARCHIVE_IP", "10.0.0.7", "150.163.34.243"),
    ):
        copy = new_app(**{**SETTINGS, key: value})
        resolver = FakeResolver(copy, answer)
        with pytest.raises(RegistrationError) as caught:
            request_(resolver.registrar)
        line = str(caught.value)
        start = f"{key} is {value}, but the Archive is registered at {registered}"
        assert line.startswith(start)
        assert "--moved" in line
        assert "database is a copy" in line
        assert resolver.requests == []
        assert stored(copy) == before
        assert not describe_served(archive_of(copy)).ok
    request_(resolver.registrar, moved=True)
    assert len(resolver.requests) == 1
    request_(resolver.registrar)
    assert describe_served(archive_of(copy)).ok


def test_the_case_of_an_address_does_not_matter(new_app: NewApp) -> None:
    FakeResolver(initialised(new_app), SUCCESSFUL).registrar.include()
    other = new_app(**SETTINGS, IBI_ARCHIVE_ADDRESS="MTC-M16C.sid.inpe.br")
    FakeResolver(other, SUCCESSFUL).registrar.include()


@pytest.mark.rule("R5-14")
def test_a_copy_of_an_excluded_archive_sends_nothing(new_app: NewApp) -> None:
    first = initialised(new_app)
    FakeResolver(first, SUCCESSFUL).registrar.include()
    FakeResolver(first, EXCLUDED).registrar.exclude()
    with pytest.raises(RegistrationError):
        FakeResolver(new_app(**SETTINGS, IBI_ARCHIVE_IP="10.0.0.7"), SUCCESSFUL).registrar.include()


# --- the state in words --------------------------------------------------------------------------


def test_the_description_of_the_state_contains_the_next_step(new_app: NewApp) -> None:
    archive = archive_of(initialised(new_app))
    resolver = FakeResolver(new_app(**SETTINGS), SUCCESSFUL)

    def description() -> tuple[bool, str]:
        found = describe_served(archive)
        return found.ok, found.text

    assert description()[0]
    assert "flask ibi registration-email" in description()[1]
    resolver.registrar.include()
    assert description() == (True, "included since 2026-03-01T12:00:00Z, and confirmed")
    resolver.answers = [UNSUCCESSFUL]
    resolver.registrar.include()
    assert not description()[0]
    assert description()[1].startswith(
        "included, not confirmed since 2026-03-01T12:00:00Z; the resolver"
    )
    resolver.answers = [answer_with("", 404)]
    with pytest.raises(ResolverError):
        resolver.registrar.include()
    assert not description()[0]
    assert "; the last request failed at 2026-03-01T12:00:00Z: the resolver" in description()[1]
    resolver.answers = [EXCLUDED]
    resolver.registrar.exclude()
    assert description()[0]
    assert description()[1].startswith(
        "excluded since 2026-03-01T12:00:00Z; to include the Archive again"
    )
    bare = archive_of(new_app())
    with bare.database.writing() as connection:
        connection.execute(text("DELETE FROM ibi_registration"))
    assert describe_served(bare).ok
    assert "flask ibi generate-key" in describe_served(bare).text


# --- key and e-mail ------------------------------------------------------------------------------


def test_generated_keys_have_the_standard_form_and_differ() -> None:
    keys = {generate_key() for _ in range(1000)}
    assert len(keys) == 1000
    assert all(is_key(key) and re.fullmatch("[0-9]{10,}-[0-9]{10,}", key) for key in keys)


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


@pytest.mark.rule("R5-12")
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
        assert describe_served(archive_of(app)).ok
        # another program at the address does not confirm the inclusion
        place.app = Flask("another")
        assert format_registration_status(registrar.include().status) == UNSUCCESSFUL
        assert not describe_served(archive_of(app)).ok
        assert format_registration_status(registrar.exclude().status) == EXCLUDED
        record = stored(app)
    assert record is not None
    assert record.registered_at is not None
    assert record.included_at is None


@pytest.mark.rule("R5-12")
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
def test_neither_a_log_nor_the_database_contains_the_key(
    ready: Flask,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(1)
    for name, serve in LEAKS.items():
        caplog.clear()
        done.clear()
        with serve() as address:
            monkeypatch.setattr(joining.registrar, "DEADLINE", 0.2 if name == "slow" else 20)
            configure(ready, resolver_url=f"http://{address}")
            registrar = Registrar(archive_of(ready), chance=lambda: 10**6)
            output = ""
            try:
                output += repr(registrar.include(moved=True))
            except ResolverError as error:
                output += "".join(traceback.format_exception(error))
                output += f"{error} {error!r} {error.args} {vars(error)}"
                output += f"{error.__cause__!r} {error.__context__!r}"
            finally:
                done.set()
        output += caplog.text + "".join(capfd.readouterr()) + repr(stored(ready))
        output += "".join(f"{record.msg}{record.args}" for record in caplog.records)
        assert "Starting new HTTP connection" in output, name
        for part in (KEY, KEY[:12], KEY.partition("-")[2]):
            assert part not in output, name
