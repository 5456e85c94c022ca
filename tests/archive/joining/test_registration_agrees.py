"""An Archive and its resolver agree on the registration state after failures of both."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text
from support.archives import SERVICE, archive_of, close, make_app
from support.commands import ROOT
from support.loopback import serving
from support.registries import CHEAP, KEY, a_config, answer_of

from flask_ibi_archive.archive import joining
from flask_ibi_archive.archive.joining.registrar import Registrar
from flask_ibi_archive.archive.joining.registration_state import NEVER, find_registration, state_of
from flask_ibi_archive.core.protocol.inclusion import EXCLUSION_REQUEST, parse_registration_request
from flask_ibi_archive.core.protocol.pairs import decode_query_string
from flask_ibi_archive.errors import ResolverError, TransportError
from flask_ibi_archive.resolver import archives as resolver_side
from flask_ibi_archive.resolver.archives import Registry
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import RESOLVER
from flask_ibi_archive.server.http.transport import HttpResponse

WRONG_KEY = f"{KEY}-{KEY}"
STEPS = 45
#: The registration state of an Archive; if it is included, also its address and IP.
State = tuple[str, ...]


@pytest.fixture(autouse=True)
def _short_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few retries, some requests stay in doubt."""
    monkeypatch.setattr(joining.registrar, "DEADLINE", 5)


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
    archive = archive_of(app)
    served = archive.served().id
    record = archive.database.read(lambda connection: find_registration(connection, served))
    state, _ = state_of(record)
    if record is None or record.included_at is None:
        return (state,)
    return state, str(record.address), str(record.ip)


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
        self.time = 0.0
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

    def fetch(
        self, url: str, query: str, *, seconds: float, limit: int, inner_hosts: object
    ) -> HttpResponse:
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

    def call_back(
        self, url: str, query: str, *, seconds: float, limit: int, inner_hosts: object
    ) -> HttpResponse:
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

    def wait(self, seconds: float) -> None:
        """Wait before a retry; the resolver may start again in the meantime."""
        self.time += seconds
        if self.resolver is None and self.chance.random() < 0.5:
            self.restart_resolver()

    # requests

    def request(self, way: str, key: str) -> None:
        """Include or exclude the Archive, and compare the states of both sides."""
        before, expected = of_the_archive(self.apps[KEY]), self.expected
        registrar = Registrar(
            archive_of(self.apps[key]),
            fetch=self.fetch,
            clock=lambda: self.time,
            wait=self.wait,
            chance=self.chance.random,
        )
        try:
            getattr(registrar, way)(moved=True)
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
            (6, lambda: self.request("include", KEY)),
            (4, lambda: self.request("exclude", KEY)),
            (1, lambda: self.request("include", WRONG_KEY)),
            (1, lambda: self.request("exclude", WRONG_KEY)),
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
        for way in ("include", "exclude", "include"):
            agreed = self.events["agreed"]
            self.request(way, KEY)
            assert self.events["agreed"] == agreed + 1
        self.calm = False


@pytest.mark.rule("R5-11")
def test_both_sides_agree_after_random_failures(
    uri: str, tmp_path: Path, records: Database
) -> None:
    events = run_world(uri, tmp_path, records, seed=0)
    assert events["agreed"] > 0
    assert events["in doubt"] > 0


@pytest.mark.slow
def test_both_sides_agree_after_many_random_failures(
    uri: str, tmp_path: Path, records: Database
) -> None:
    events = Counter[str]()
    for seed in range(5):
        events += run_world(uri, tmp_path, records, seed)
    for event in (*World.FATES, "in doubt", "failed", "refused", "agreed"):
        assert events[event] > 2, event


def run_world(uri: str, folder: Path, records: Database, seed: int) -> Counter[str]:
    """Do random actions, check the states after each action, and count the events."""
    world = World(uri, folder, records, random.Random(seed))
    world.expected = of_the_resolver(records)
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


# --- with processes that are killed --------------------------------------------------------------


class Process:
    """A process with a resolver's registry, which the test kills."""

    def __init__(self, uri: str) -> None:
        path = os.pathsep.join([str(ROOT / "tests"), str(ROOT)])
        script = ROOT / "tests" / "resolver" / "resolver_process.py"
        self.process = subprocess.Popen(
            [sys.executable, str(script), uri],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )

    def serve(self, port: int = 0, hold: bool = False) -> int:
        """Start to serve in the process, and return the port."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{port} {'hold' if hold else 'answer'}\n")
        self.process.stdin.flush()
        return int(self.line())

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def processes(uri: str, records: Database) -> Iterator[list[Process]]:
    """Processes that are ready to serve."""
    started = [Process(uri) for _ in range(3)]
    yield started
    for process in started:
        process.kill()


@pytest.mark.slow
def test_an_archive_retries_until_a_killed_resolver_runs_again(
    uri: str, tmp_path: Path, records: Database, processes: list[Process]
) -> None:
    first, second, third = processes
    kills: list[Callable[[], None]] = [first.kill]
    apps: list[Flask] = []
    known: list[tuple[State, State]] = []

    def serve_archive(environ: dict[str, Any], start_response: Any) -> Any:
        if kills:
            kills.pop()()
        return apps[0](environ, start_response)

    def wait(seconds: float) -> None:
        known.append((of_the_archive(apps[0]), of_the_resolver(records)))
        if len(known) == 1:
            second.serve(port, hold=True)
            killer.start()
        else:
            killer.join()
            third.serve(port)

    def kill_when_done() -> None:
        assert second.line() == "done"
        second.kill()

    killer = Thread(target=kill_when_done)
    with serving(serve_archive) as address:
        port = first.serve()
        app = make_app(
            uri,
            tmp_path,
            IBI_REGISTRATION_KEY=KEY,
            IBI_ARCHIVE_ADMIN_EMAIL="banon@dpi.inpe.br",
            IBI_ARCHIVE_ADDRESS=address,
            IBI_RESOLVER_URL=f"http://127.0.0.1:{port}/J8LNKB5R7W/3FUQHC5",
        )
        apps.append(app)
        archive_of(app).init()
        registrar = Registrar(archive_of(app), wait=wait, clock=lambda: 0.0)
        included = ("included", address, "150.163.34.243")
        assert registrar.include().tries == 3
        # the first resolver was killed during the call back and stored nothing; the second one was
        # killed before its answer and stored the inclusion
        assert known == [((NEVER,), (NEVER,)), ((NEVER,), included)]
        assert of_the_archive(app) == of_the_resolver(records) == included
        assert registrar.exclude().tries == 1
        assert of_the_archive(app) == of_the_resolver(records) == ("excluded",)
        close(app)
