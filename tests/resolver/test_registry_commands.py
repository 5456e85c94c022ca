"""The commands of a resolver's administrator: init, register, list, remove."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask
from support.clocks import Clock
from support.commands import Outcome, command
from support.loopback import nobody
from support.registries import CHEAP, KEY, NOON, SERVICE, Calls, a_request, confirms
from support.smtp import post_office

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.inclusion import EXCLUSION_REQUEST, build_confirmation_email
from flask_ibi_archive.resolver.archives import Registry
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.metrics import Result, store_results
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import RESOLVER

NewApp = Callable[..., Flask]

HEADER = [
    "service", "address", "state", "since", "answers", "failures", "mean_milliseconds",
    "last_failure",
]  # fmt: skip
OTHER = "a.br/other/2001/01.01.00.00"


def registry_of(app: Flask) -> Registry:
    found: Registry = app.extensions["ibi_resolver"].resolver.registry
    return found


def confirmation_of(app: Flask) -> tuple[str, str]:
    url = registry_of(app).config.service_url
    return build_confirmation_email(parse_identifier(SERVICE), url)


@pytest.fixture
def new_resolver(tmp_path: Path) -> Iterator[NewApp]:
    """Create apps with a resolver on one database in memory."""
    database = Database("sqlite://", RESOLVER)

    def init() -> None:
        with database.writing() as connection:
            migrate.upgrade(connection, history=RESOLVER)

    def make(**settings: Any) -> Flask:
        app = Flask("resolver")
        config = ResolverConfig.from_mapping(settings, str(tmp_path))
        registry = Registry(
            database, config, fetch=Calls(confirms()), now=Clock(NOON, step=1), cost=CHEAP
        )
        resolver = SimpleNamespace(config=config, database=database, registry=registry, init=init)
        app.extensions["ibi_resolver"] = SimpleNamespace(resolver=resolver)
        return app

    yield make
    database.close()


@pytest.fixture
def resolver(new_resolver: NewApp) -> Flask:
    """An app with a resolver whose tables exist."""
    app = new_resolver()
    run(app, "init")
    return app


def run(app: Flask | Callable[[], Flask], *words: object, stdin: str | None = None) -> Outcome:
    given = None if stdin is None else stdin.encode()
    return command(app, *words, stdin=given, group=ibi_resolver)


def register(app: Flask, *words: object, key: str = KEY, service: str = SERVICE) -> Outcome:
    return run(app, "register", service, "--key-file", "-", *words, stdin=f"{key}\n")


# --- init ----------------------------------------------------------------------------------------


def test_init_prints_the_service_and_its_address(new_resolver: NewApp) -> None:
    ibi = "J8LNKB5R7W/3FUQHC5"
    for _ in range(2):
        assert run(new_resolver(), "init").data == f"{ibi}\n"
    told = run(
        new_resolver(SERVER_NAME="urlib.net", IBI_RESOLVER_SERVICE_IBI="a.br/x/2001/01.01.00.00"),
        "init",
    )
    assert told.lines == ["a.br/x/2001/01.01.00.00", "http://urlib.net/a.br/x/2001/01.01.00.00"]
    assert run(new_resolver(), "list").lines == ["\t".join(HEADER)]


@pytest.mark.parametrize("words", [("list",), ("remove", SERVICE), ("register", SERVICE)])
def test_commands_before_init_say_to_run_init(new_resolver: NewApp, words: tuple[str]) -> None:
    outcome = run(new_resolver(), *words, stdin=f"{KEY}\n")
    assert (outcome.status, outcome.out) == (1, "")
    assert outcome.err.endswith("of this version; run: flask ibi-resolver init\n")


def test_an_app_without_a_resolver_is_reported() -> None:
    error = run(Flask("none"), "list").error
    assert error == "this app has no IBIResolver; call IBIResolver(app) where the app is created"


# --- register ------------------------------------------------------------------------------------


def test_the_key_is_prompted_for_and_not_shown(resolver: Flask) -> None:
    outcome = run(resolver, "register", SERVICE, stdin=f"{KEY}\n")
    assert (outcome.status, outcome.err.strip()) == (0, "Registration key:")
    assert KEY not in outcome.out
    [record] = registry_of(resolver).list()
    assert (record.service_ibi, record.email) == (SERVICE, None)
    registry_of(resolver).process(a_request())


@pytest.mark.parametrize("key", ["hush-hush", "", "123456789", f"\n{KEY}"])
def test_an_invalid_key_is_reported_but_not_shown(
    resolver: Flask, tmp_path: Path, key: str
) -> None:
    error = register(resolver, key=key).error
    assert error.startswith("the registration key is invalid: a key must be a number of ten or")
    assert "hush" not in error
    path = tmp_path / "key.txt"
    path.write_text(key)
    assert run(resolver, "register", SERVICE, "--key-file", path).error == error
    assert run(resolver, "register", SERVICE, "--key-file", tmp_path / "none").usage
    assert not registry_of(resolver).list()


def test_an_invalid_identifier_or_address_is_reported(resolver: Flask) -> None:
    assert "is not an IBI" in register(resolver, service="dpi.inpe.br").error
    assert "is not an e-mail address" in register(resolver, "--email", "nobody").usage
    assert not registry_of(resolver).list()


@pytest.mark.rule("R5-04")
def test_the_confirmation_is_printed_without_a_mail_server(new_resolver: NewApp) -> None:
    app = new_resolver(SERVER_NAME="urlib.net")
    run(app, "init")
    subject, body = confirmation_of(app)
    text = f"Subject: {subject}\n\n{body}\n"
    assert register(app).data == text
    assert register(app, "--email", "banon@dpi.inpe.br").data == f"To: banon@dpi.inpe.br\n{text}"
    assert f"archiveserviceibi = {SERVICE}\n" in text
    assert "IBI_RESOLVER_URL = http://urlib.net/J8LNKB5R7W/3FUQHC5\n" in text
    assert "está cadastrado" in text
    assert "is registered" in text


@pytest.mark.rule("R5-04")
def test_the_confirmation_is_sent_by_the_mail_server(new_resolver: NewApp) -> None:
    with post_office() as post:
        app = new_resolver(**post.settings, IBI_RESOLVER_EMAIL="urlib@example.org")
        run(app, "init")
        assert register(app, "--email", "banon@dpi.inpe.br").data == ""
        # there is no receiver
        assert register(app).data.startswith("Subject: ")
    assert [one.mail_from for one in post.accepted] == ["urlib@example.org"]
    [came] = post.receive()
    assert came["To"] == "banon@dpi.inpe.br"
    subject, body = confirmation_of(app)
    assert came["Subject"] == subject
    assert came.get_content().replace("\r\n", "\n") == f"{body}\n"
    assert KEY not in came.as_string()


def test_mail_errors_are_reported_in_one_line(new_resolver: NewApp) -> None:
    with nobody() as address:
        host, _, port = address.partition(":")
        mail = {"MAIL_SERVER": host, "MAIL_PORT": port}
        app = new_resolver(**mail)
        run(app, "init")
        # without a sender address nothing is registered
        said = register(app, "--email", "a@b.org").error
        assert said.startswith("MAIL_DEFAULT_SENDER is not set; it should be the sender's address")
        assert said.endswith("; or set IBI_RESOLVER_EMAIL")
        assert not registry_of(app).list()
        app = new_resolver(**mail, IBI_RESOLVER_EMAIL="urlib@example.org")
        assert "the mail server" in register(app, "--email", "a@b.org").error
    # the Archive is registered; repeating the command sends the e-mail again
    assert [record.service_ibi for record in registry_of(app).list()] == [SERVICE]


# --- list and remove -----------------------------------------------------------------------------


def test_list_prints_state_and_metrics_of_each_archive(resolver: Flask) -> None:
    registry = registry_of(resolver)

    def listed() -> list[list[str]]:
        header, *lines = [line.split("\t") for line in run(resolver, "list").lines]
        assert header == HEADER
        return lines

    register(resolver)
    register(resolver, service=OTHER)
    assert listed() == [
        [SERVICE, "", "registered", "2026-03-01T12:00:00Z", "0", "0", "", ""],
        [OTHER, "", "registered", "2026-03-01T12:00:01Z", "0", "0", "", ""],
    ]
    registry.process(a_request())
    registry.fetch = Calls(confirms(status=500))
    registry.process(a_request(service_ibi=OTHER, address="a.br:8080"))
    first = registry.list()[0].id
    with registry.database.writing() as connection:
        results = [(first, 0.042, None)] * 3 + [(first, 5.0, "took too long")]
        store_results(connection, [Result(*one) for one in results], (), NOON + timedelta(hours=1))
    assert listed() == [
        [
            SERVICE, "banon-pc2.dpi.inpe.br", "included", "2026-03-01T12:00:02Z", "3", "1", "42",
            "took too long",
        ],
        [OTHER, "a.br:8080", "included, not confirmed", "2026-03-01T12:00:03Z", "0", "0", "", ""],
    ]  # fmt: skip
    registry.process(a_request(EXCLUSION_REQUEST, service_ibi=OTHER))
    assert listed()[1][1:4] == ["a.br:8080", "excluded", "2026-03-01T12:00:04Z"]
    told = json.loads(run(resolver, "list", "--json").data)
    assert told[0]["ip"] == "150.163.2.166"
    assert (told[0]["state"], told[0]["since"]) == ("included", told[0]["included_at"])
    assert (told[0]["mean_milliseconds"], told[0]["excluded_at"]) == (42, None)
    assert told[0]["last_failure_at"] == "2026-03-01T13:00:00Z"
    assert not any("key" in name for name in told[0])
    assert told[1]["state"] == "excluded"


def test_remove_deletes_the_registration(resolver: Flask) -> None:
    register(resolver)
    register(resolver, service=OTHER)
    outcome = run(resolver, "remove", SERVICE.upper())
    assert (outcome.status, outcome.out) == (0, "")
    assert outcome.err == f"{SERVICE} is no longer registered\n"
    assert [line.split("\t")[0] for line in run(resolver, "list").lines[1:]] == [OTHER]
    error = f"no Archive with the service {SERVICE} is registered"
    assert run(resolver, "remove", SERVICE).error == error
    assert "is not an IBI" in run(resolver, "remove", "x").error
