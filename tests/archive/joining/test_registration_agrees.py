"""An Archive and its resolver agree on the registration state after failures of both."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import text
from support.archives import SERVICE, archive_of, close, make_app
from support.registries import CHEAP, KEY, a_config, answer_of

from flask_ibi_archive.archive.joining import registration
from flask_ibi_archive.archive.joining.registration import NEVER
from flask_ibi_archive.core.protocol.inclusion import (
    EXCLUSION_REQUEST,
    INCLUSION_REQUEST,
    parse_registration_request,
)
from flask_ibi_archive.core.protocol.pairs import decode_query_string
from flask_ibi_archive.errors import ResolverError, TransportError
from flask_ibi_archive.resolver import archives as resolver_side
from flask_ibi_archive.resolver.archives import Registry
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import RESOLVER
from flask_ibi_archive.server.http.transport import HttpResponse

WRONG_KEY = f"{KEY}-{KEY}"
STEPS = 40
#: The registration state of an Archive; if it is included, also its address and IP.
State = tuple[str, ...]


@pytest.fixture
def records(uri: str) -> Iterator[Database]:
    """The tables of the resolver, in the same database as those of the Archive."""
    database = Database(uri, RESOLVER)
    with database.writing() as connection:
        migrate.upgrade(connection, history=RESOLVER)
    Registry(database, a_config(), cost=CHEAP).register(SERVICE, KEY)
    yield database
    with database.writing() as connection:
        migrate.downgrade(connection, history=RESOLVER)
        connection.execute(text(f"DROP TABLE {RESOLVER.version_table}"))
    database.close()


def of_the_resolver(records: Database) -> State:
    [record] = Registry(records, a_config()).list()
    state, _ = record.state
    if record.included_at is None:
        return (NEVER if state == resolver_side.REGISTERED else state,)
    return state, str(record.address), str(record.ip)


def of_the_archive(app: Flask) -> State:
    row = registration.read_registration(archive_of(app))
    state, _ = registration.find_state(row)
    if row is None or row.included_at is None:
        return (state,)
    return state, str(row.address), str(row.ip)


# --- random failures in one process --------------------------------------------------------------


class Killed(BaseException):
    """Raised in place of a resolver that is killed while it calls the Archive back."""


class World:
    """An Archive and a resolver, and the failures between them.

    ``expected`` is the state after the last request that the resolver accepted, whether or not its
    answer arrived.
    """

    FATES = ("well",) * 5 + ("cut off before", "answer lost", "killed midway", "killed after")

    def __init__(self, uri: str, folder: Path, records: Database, chance: random.Random) -> None:
        self.uri = uri
        self.folder = folder
        self.records = records
        self.chance = chance
        self.calm = False
        self.midway = False
        self.serves = True
        self.address = "mtc-m16c.sid.inpe.br"
        self.apps: dict[str, Flask] = {}
        self.resolver: Registry | None = None
        self.expected: State = (NEVER,)
        self.events = Counter[str]()
        self.restart_archive()
        self.restart_resolver()
        archive_of(self.apps[KEY]).init()

    # processes

    def restart_archive(self) -> None:
        """Start a new app of the Archive on the same database."""
        self.close_archive()
        for key in (KEY, WRONG_KEY):
            self.apps[key] = make_app(
                self.uri,
                self.folder,
                IBI_REGISTRATION_KEY=key,
                IBI_ARCHIVE_ADMIN_EMAIL="banon@dpi.inpe.br",
                IBI_ARCHIVE_ADDRESS=self.address,
            )

    def close_archive(self) -> None:
        for app in self.apps.values():
            close(app)

    def kill_resolver(self) -> None:
        """Stop the resolver without any clean-up."""
        if self.resolver is not None:
            self.resolver.database.close()
        self.resolver = None

    def restart_resolver(self) -> None:
        self.kill_resolver()
        database = Database(self.uri, RESOLVER)
        self.resolver = Registry(database, a_config(), self.call_back, cost=CHEAP)

    def move(self) -> None:
        self.address = self.chance.choice(["mtc-m16c.sid.inpe.br", "mtc-m19.sid.inpe.br:8080"])
        self.restart_archive()

    def switch(self) -> None:
        """Start the Archive's server, or stop it."""
        self.serves = not self.serves

    # the network

    def fetch(self, url: str, query: str, **options: object) -> HttpResponse:
        """Replace the Archive's HTTP client."""
        fate = "well" if self.calm else self.chance.choice(self.FATES)
        self.events[fate] += 1
        if self.resolver is None:
            raise TransportError(url, "unreachable", "can't be reached", True)
        if fate == "cut off before":
            raise TransportError(url, "cut off", "closed the connection", True)
        self.midway = fate == "killed midway"
        try:
            status, body = answer_of(self.resolver, query)
        except Killed:
            self.kill_resolver()
            raise TransportError(url, "cut off", "closed the connection", True) from None
        request = parse_registration_request(decode_query_string(query))
        assert status == (200 if request.key == KEY else 403)
        if status == 200:
            state = "included" if self.serves else "included, not confirmed"
            here = (state, request.address, request.ip)
            self.expected = ("excluded",) if request.subject == EXCLUSION_REQUEST else here
        if fate == "killed after":
            self.kill_resolver()
        if fate in ("answer lost", "killed after"):
            raise TransportError(url, "cut off", "closed the connection", True)
        return HttpResponse(status, {"content-type": "text/plain"}, body.encode())

    def call_back(self, url: str, query: str, **options: object) -> HttpResponse:
        """Replace the resolver's HTTP client."""
        if self.midway:
            raise Killed
        place = url.removeprefix(f"http://{self.address}")
        if not self.serves or place == url:
            raise TransportError(url, "unreachable", "can't be reached", True)
        response = self.apps[KEY].test_client().get(f"{place}?{query}")
        return HttpResponse(
            response.status_code, {"content-type": response.content_type}, response.data
        )

    # requests

    def request(self, subject: str, key: str) -> None:
        """Include or exclude the Archive, and compare the states of both sides."""
        before, expected = of_the_archive(self.apps[KEY]), self.expected
        try:
            registration.send_request(archive_of(self.apps[key]), subject, moved=True)
        except ResolverError as error:
            if error.is_refusal:
                assert key == WRONG_KEY
                assert (of_the_archive(self.apps[KEY]), self.expected) == (before, expected)
                self.events["refused"] += 1
            else:
                # the Archive does not know whether its request succeeded; its state is the same
                assert of_the_archive(self.apps[KEY]) == before
                self.events["in doubt" if self.expected != before else "failed"] += 1
        else:
            assert key == KEY
            assert of_the_archive(self.apps[KEY]) == self.expected
            self.events["agreed"] += 1
        assert key == KEY or self.expected == expected
        assert of_the_resolver(self.records) == self.expected

    def step(self) -> None:
        """Do a random action."""
        actions: list[tuple[int, Callable[[], None]]] = [
            (6, lambda: self.request(INCLUSION_REQUEST, KEY)),
            (4, lambda: self.request(EXCLUSION_REQUEST, KEY)),
            (1, lambda: self.request(INCLUSION_REQUEST, WRONG_KEY)),
            (1, lambda: self.request(EXCLUSION_REQUEST, WRONG_KEY)),
            (2, self.kill_resolver),
            (4, self.restart_resolver),
            (1, self.restart_archive),
            (1, self.move),
            (2, self.switch),
        ]
        [action] = self.chance.choices(
            [action for _, action in actions], [weight for weight, _ in actions]
        )
        action()

    def settle(self) -> None:
        """Send requests without failures; after the first request the states must agree."""
        self.calm = True
        self.restart_resolver()
        for subject in (INCLUSION_REQUEST, EXCLUSION_REQUEST, INCLUSION_REQUEST):
            agreed = self.events["agreed"]
            self.request(subject, KEY)
            assert self.events["agreed"] == agreed + 1
        self.calm = False


@pytest.mark.rule("R5-11")
@pytest.mark.slow
def test_both_sides_agree_after_random_failures(
    uri: str, tmp_path: Path, records: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = Counter[str]()
    for seed in range(5):
        world = World(uri, tmp_path, records, random.Random(seed))
        monkeypatch.setattr(registration.transport, "fetch", world.fetch)
        events += run_world(world, seed)
    for event in ("refused", "agreed", "in doubt", *World.FATES):
        assert events[event] > 0, event


def run_world(world: World, seed: int) -> Counter[str]:
    """Do random actions, check the states after each action, and count the events."""
    world.expected = of_the_resolver(world.records)
    try:
        for number in range(STEPS):
            try:
                world.step()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, step {number}") from error
        world.settle()
    finally:
        world.kill_resolver()
        world.close_archive()
    return world.events
