"""Two Archives on one computer: they mint with different prefixes, or everybody is told."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from email import message_from_bytes, policy
from email.message import EmailMessage
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of, close, make_app
from support.commands import Outcome, command
from support.loopback import PATIENCE, SUCCESSFUL, Later, serving
from support.registries import CHEAP, KEY, a_config, a_registry, a_request
from support.resolving import app_over, resolver_of
from support.smtp import Post, post_office

from flask_ibi_archive.archive.identification.api_keys import create_key
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.inclusion import EXCLUSION_REQUEST
from flask_ibi_archive.resolver.archives import Archive, Registry, find_clashes
from flask_ibi_archive.resolver.commands import ibi_resolver
from flask_ibi_archive.server.database.database import Database

pytestmark = pytest.mark.no_tables

RESOLVER = "/J8LNKB5R7W/3FUQHC5"
SERVICES = ("example.org/a/2026/03.01.12.00", "example.org/b/2026/03.01.12.00")
#: The prefix of IBIps of the port 800 at the IP address of the tests.
IBIP = "8JMKD3MGP8W"
CLASH = f"identifiers with the prefix {IBIP} are minted by {SERVICES[0]} and {SERVICES[1]}"


@pytest.fixture
def new_archive(tmp_path: Path) -> Iterator[Any]:
    """Create apps, each with an Archive in a database of its own."""
    made: list[Flask] = []

    def create(**config: Any) -> Flask:
        folder = tmp_path / f"archive{len(made)}"
        folder.mkdir()
        app = make_app(f"sqlite:///{folder / 'archive.sqlite'}", folder, **config)
        made.append(app)
        archive_of(app).init()
        return app

    yield create
    for app in made:
        close(app)


# --- the prefixes --------------------------------------------------------------------------------


@pytest.mark.rule("G5-02")
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(
            [
                {"IBI_ARCHIVE_ADDRESS": "repository.example.org:8080"},
                {"IBI_ARCHIVE_ADDRESS": "repository.example.org:8081"},
            ],
            id="two ports, default settings",
        ),
        pytest.param(
            [
                {"IBI_ARCHIVE_ADDRESS": "a.example.org"},
                {"IBI_ARCHIVE_ADDRESS": "b.example.org", "IBI_MINT_PORT": "80,802"},
            ],
            id="two virtual hosts",
        ),
    ],
)
def test_two_archives_of_a_computer_mint_different_identifiers(
    new_archive: Any, settings: list[dict[str, str]]
) -> None:
    """Two apps with two databases mint at the same time, and give identifiers to programs."""
    minted = []
    for config in settings:
        app = new_archive(IBI_IDENTIFICATION=True, **config)
        archive = archive_of(app)
        archive.minter.clock, archive.minter.wait = lambda: Fraction(1287588115), lambda _: None
        key = create_key(archive.database, archive.served().id, "ojs", ["mint"], archive.clock())
        answer = app.test_client().post(
            "/ibi/identifiers", headers={"Authorization": f"Bearer {key}"}
        )
        minted += [(one["rep"], one["ibip"]) for one in answer.json["identifiers"]]
        minted += [(one.rep, one.ibip) for one in archive.mint(2)]
    assert len({rep for rep, _ in minted}) == len({ibip for _, ibip in minted}) == 6


def test_an_archive_may_mint_with_the_port_of_its_address() -> None:
    archive = Archive(1, SERVICES[0], "a.example.org:8080", "150.163.34.243")
    for ibi, expected in (
        ("example.org/a.8080/2026/03.01.12.00", True),
        ("example.org/a.8081/2026/03.01.12.00", False),
    ):
        assert archive.may_mint(parse_identifier(ibi)) is expected


# --- what a resolver knows -----------------------------------------------------------------------


def include(registry: Registry, number: int, **values: Any) -> str:
    """Include an Archive, and return what the answer says about a clash."""
    registry.register(SERVICES[number], KEY)
    email = f"admin{number}@example.org"
    return registry.process(
        a_request(service_ibi=SERVICES[number], admin_email=email, **values)
    ).clash


@pytest.mark.rule("G5-02")
@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        ({"mints": f"example.org/a {IBIP}"}, {"mints": f"example.org/b {IBIP}"}, CLASH),
        # without the pair, the prefix of the service IBI counts
        ({}, {"mints": "example.org/a"}, CLASH.replace(IBIP, "example.org/a")),
        ({"mints": IBIP, "database": "1"}, {"mints": IBIP, "database": "2"}, CLASH),
        ({"mints": IBIP, "database": "1"}, {"mints": IBIP, "database": "1"}, ""),
        ({"mints": IBIP}, {"mints": f"{IBIP}34M"}, ""),
    ],
)
def test_the_same_prefix_in_different_databases_is_a_clash(
    database: Database, first: dict[str, str], second: dict[str, str], clash: str
) -> None:
    registry = a_registry(database)
    assert include(registry, 0, **first) == ""
    assert include(registry, 1, **second) == include(registry, 0, **first) == clash
    assert list(find_clashes(database)) == ([clash] if clash else [])
    registry.process(a_request(EXCLUSION_REQUEST, service_ibi=SERVICES[0]))
    assert not find_clashes(database)


def receive(post: Post) -> list[EmailMessage]:
    """Return the e-mails that have arrived."""
    found = []
    while not post.accepted.empty():
        data = post.accepted.get()[2].replace(b"\r\n", b"\n")
        found.append(message_from_bytes(data, policy=policy.default))
    return found


def test_both_administrators_get_one_email(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with post_office() as post:
        host, port = post.address
        config = a_config(MAIL_SERVER=host, MAIL_PORT=port, IBI_RESOLVER_EMAIL="urlib@example.org")
        registry = a_registry(database, config=config)
        for number in (0, 1, 1, 0):
            include(registry, number, mints=IBIP)
        [message] = receive(post)
        post.refuses["MAIL"] = "550 no"
        include(registry, 1, mints="example.org/b")
        with caplog.at_level(logging.ERROR):
            # it is included nevertheless
            assert include(registry, 1, mints=IBIP) == CLASH
    assert message["To"] == "admin0@example.org, admin1@example.org"
    assert message.get_content().count(f"{CLASH}.\n") == 2
    assert "550" in caplog.text


# --- the commands --------------------------------------------------------------------------------


class World:
    """Two virtual hosts at one IP address, with an Archive each, and a resolver."""

    def __init__(self, stack: ExitStack, folder: Path, new_archive: Any) -> None:
        self.resolver = stack.enter_context(app_over([], folder / "resolver"))
        resolver_of(self.resolver).registry.cost = CHEAP
        url = f"http://{stack.enter_context(serving(self.resolver))}{RESOLVER}"
        self.settings, self.places, self.new_archive = [], [], new_archive
        for number, service in enumerate(SERVICES):
            resolver_of(self.resolver).registry.register(service, KEY)
            self.places.append(Later())
            self.settings.append(
                {
                    "IBI_ARCHIVE_SERVICE_IBI": service,
                    "IBI_ARCHIVE_ADDRESS": stack.enter_context(serving(self.places[number])),
                    "IBI_ARCHIVE_ADMIN_EMAIL": f"admin{number}@example.org",
                    "IBI_MINT_HOST": f"{'ab'[number]}.example.org",
                    "IBI_MINT_PORT": "80,800",
                    "IBI_REGISTRATION_KEY": KEY,
                    "IBI_RESOLVER_URL": url,
                    "IBI_DATABASE_TIMEOUT": PATIENCE,
                }
            )
            self.start(number)

    def start(self, number: int, **settings: str) -> None:
        """Start an Archive, or replace it by one with other settings and a new database."""
        self.places[number].app = self.new_archive(**{**self.settings[number], **settings})

    def register(self, number: int) -> Outcome:
        return command(self.places[number].app, "register-archive")

    def check(self) -> list[str]:
        """Return what the checks of the Archives and of the resolver say about the clash."""
        outcomes = [command(place.app, "check") for place in self.places]
        outcomes.append(command(self.resolver, "check", group=ibi_resolver))
        lines = [line for outcome in outcomes for line in outcome.out.splitlines()]
        return [line for line in lines if CLASH in line]


def test_commands_tell_of_a_clash_until_the_prefixes_differ(
    new_archive: Any, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        world = World(stack, tmp_path, new_archive)
        assert world.register(0).data == f"{SUCCESSFUL}\n"
        assert world.check() == []
        told = world.register(1)
        assert (told.status, told.out) == (0, f"{SUCCESSFUL} clash {{{CLASH}}}\n")
        assert told.err.startswith(f"Warning: {CLASH}; set IBI_MINT_PORT of one of the two")
        archives = world.check()
        resolver = archives.pop()
        assert resolver == f"FAIL prefixes: {CLASH}; one must change its IBI_MINT_PORT"
        assert len(archives) == 2
        for line in archives:
            assert line.startswith(f"FAIL resolver: {world.settings[0]['IBI_RESOLVER_URL']} says")
            assert "set IBI_MINT_PORT" in line
        world.start(1, IBI_MINT_PORT="80,802")
        assert len(world.check()) == 3
        assert world.register(1).data == f"{SUCCESSFUL}\n"
        assert world.check() == []
