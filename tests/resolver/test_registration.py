"""Inclusion and exclusion over HTTP with real Archives, also with two on one computer."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import requests
from flask import Flask
from support.archives import SERVICE, archive_of, close, import_records, make_app
from support.commands import Outcome, command
from support.loopback import EXCLUDED, PATIENCE, SUCCESSFUL, serving
from support.registries import CHEAP, KEY, a_config, a_registry, a_request
from support.resolving import app_over, resolver_of
from support.smtp import post_office

from flask_ibi_archive.core.protocol.hosts import InnerHosts
from flask_ibi_archive.core.protocol.inclusion import EXCLUSION_REQUEST, format_registration_request
from flask_ibi_archive.resolver.archives import MAX_OF_SENDER, Registry, find_clashes
from flask_ibi_archive.server.database.database import Database

OTHER_KEY = "9876543210"
RESOLVER = "/J8LNKB5R7W/3FUQHC5"


class World:
    """An Archive and a resolver, each served on the loopback interface.

    :param stack: closes them.
    """

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.folder = folder
        self.resolver = stack.enter_context(
            app_over([], folder / "resolver", IBI_DATABASE_TIMEOUT=PATIENCE)
        )
        resolver_of(self.resolver).registry.cost = CHEAP
        self.resolver_address = stack.enter_context(serving(self.resolver))
        self.archives: dict[str, Flask] = {}
        self.address = stack.enter_context(
            serving(lambda environ, start: self.archives[KEY](environ, start))
        )
        stack.callback(lambda: [close(app) for app in self.archives.values()])
        for key in (KEY, OTHER_KEY):
            self.add_archive(key, self.address)
        archive_of(self.archives[KEY]).init()

    def add_archive(self, key: str, address: str) -> Flask:
        """Create an app on the Archive's database."""
        app = make_app(
            f"sqlite:///{self.folder / 'archive.sqlite'}",
            self.folder,
            IBI_ARCHIVE_ADDRESS=address,
            IBI_RESOLVER_URL=f"http://{self.resolver_address}{RESOLVER}",
            IBI_REGISTRATION_KEY=key,
            IBI_ARCHIVE_ADMIN_EMAIL="banon@dpi.inpe.br",
            IBI_DATABASE_TIMEOUT=PATIENCE,
        )
        self.archives[key if address == self.address else address] = app
        return app

    def call(self, *words: str, key: str = KEY) -> Outcome:
        """Run a command of the Archive."""
        return command(self.archives[key], *words)

    def click(self, target: str) -> requests.Response:
        """Send a request to the resolver without following redirects."""
        url = f"http://{self.resolver_address}/{target}"
        return requests.get(url, allow_redirects=False, timeout=PATIENCE)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """An Archive that is registered but not included."""
    with ExitStack() as stack:
        found = World(stack, tmp_path)
        resolver_of(found.resolver).registry.register(SERVICE, KEY)
        yield found


@pytest.mark.rule("R5-09", "R5-12", "R5-13")
def test_a_real_archive_is_included_confirmed_and_excluded(world: World) -> None:
    [item] = [{"rep": "a.br/x/2001/01.01.00.00", "files": [{"path": "a", "url": "http://a.br/a"}]}]
    import_records(archive_of(world.archives[KEY]), [item])
    target = str(item["rep"])
    for _ in range(2):
        assert world.call("register-archive").data == f"{SUCCESSFUL}\n"
        assert world.click(target).headers["Location"] == "http://a.br/a"
        assert world.call("unregister-archive").data == f"{EXCLUDED}\n"
        assert world.click(target).status_code == 404


def test_wrong_keys_are_limited_with_retry_after(world: World) -> None:
    world.resolver.extensions["ibi_resolver"].resolver.config = replace(
        resolver_of(world.resolver).config, trusted_proxies=(ip_network("127.0.0.1"),)
    )
    query = format_registration_request(a_request(service_ibi=SERVICE, key=OTHER_KEY))

    def send(sender: str, method: str = "GET", query: str = query) -> requests.Response:
        return requests.request(
            method,
            f"http://{world.resolver_address}{RESOLVER}?{query}",
            headers={"X-Forwarded-For": sender},
            timeout=PATIENCE,
        )

    for number in range(MAX_OF_SENDER):
        assert send("8.8.8.8", ("GET", "HEAD")[number % 2]).status_code == 403
    for method in ("GET", "HEAD"):
        answer = send("8.8.8.8", method)
        assert answer.status_code == 429
        assert 0 < int(answer.headers["Retry-After"]) <= 60
        assert answer.headers["Content-Type"] == "text/plain"
    assert send("8.8.8.8").text == (
        "alert {too many wrong registration keys came from this address or for the Archive "
        f"{SERVICE}; try again in {send('8.8.8.8').headers['Retry-After']} s}}"
    )
    assert send("8.8.4.4").status_code == 403
    right = format_registration_request(a_request(service_ibi=SERVICE, address=world.address))
    assert send("8.8.4.4", query=right).text == SUCCESSFUL


def test_an_internal_address_is_refused(world: World) -> None:
    resolver = resolver_of(world.resolver)
    resolver.registry.config = replace(resolver.config, inner_hosts=InnerHosts())
    outcome = world.call("register-archive")
    assert outcome.status == 5
    assert (
        f"answers with status 400 (archiveaddress: {world.address} has an internal IP address; "
        "the setting IBI_INNER_HOSTS of this resolver does not allow this address); "
        "tell the resolver's administrator"
    ) in outcome.err
    assert resolver.registry.list()[0].included_at is None


SERVICES = ("example.org/a/2026/03.01.12.00", "example.org/b/2026/03.01.12.00")
#: The prefix of IBIps of the port 800 at the IP address of the tests.
IBIP = "8JMKD3MGP8W"
CLASH = f"identifiers with the prefix {IBIP} are minted by {SERVICES[0]} and {SERVICES[1]}"


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


def test_both_administrators_get_one_email_also_after_a_restart(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with post_office() as post:
        config = a_config(**post.settings, IBI_RESOLVER_EMAIL="urlib@example.org")
        for number in (0, 1, 1, 0):
            registry = a_registry(database, config=config)  # as after a restart
            include(registry, number, mints=IBIP)
        [message] = post.receive()
        post.refuses["MAIL"] = "550 no"
        include(registry, 1, mints="example.org/b")
        with caplog.at_level(logging.ERROR):
            # it is included nevertheless
            assert include(registry, 1, mints=IBIP) == CLASH
    assert message["To"] == "admin0@example.org, admin1@example.org"
    assert message.get_content().count(f"{CLASH}.\n") == 2
    assert "550" in caplog.text


# --- the commands --------------------------------------------------------------------------------
