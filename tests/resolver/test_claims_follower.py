"""The follower with real servers: requests, lease, silence, and what it survives."""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.exc import IntegrityError
from support.archive_servers import Answer, Servers, hangs
from support.claiming import ClaimingArchive, a_claim, an_ibi, follow_row, rows_of
from support.clocks import Clock
from support.loopback import PATIENCE
from support.registries import NOON, a_config

from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.resolver import claims
from flask_ibi_archive.resolver.claims import Follower, FollowerThread
from flask_ibi_archive.resolver.tables import (
    ClaimedName,
    FollowedArchive,
    RegisteredArchive,
    ResolverState,
)
from flask_ibi_archive.server.database.database import Database


class Following:
    """A resolver with Archives on real servers.

    :param config: settings of the resolver.
    """

    def __init__(self, database: Database, hosts: Servers, **config: Any) -> None:
        self.database = database
        self.hosts = hosts
        self.clock = Clock(NOON)
        self.config = a_config(**config)
        self.followers: list[Follower] = []
        self.archives: list[ClaimingArchive] = []

    def include(
        self, *claims: Any, answer: Answer | None = None, address: str | None = None
    ) -> ClaimingArchive:
        """Include an Archive with some claims.

        :param answer: what its server answers. None: its claims.
        """
        number = len(self.archives)
        service = f"a.br/service/2001/01.01.00.{number:02}"
        archive = ClaimingArchive(service, self.clock, seed=number).set(*claims)
        self.archives.append(archive)
        server = self.hosts.add(answer or archive.answer)
        archive.server = server  # type: ignore[attr-defined]
        follow_row(self.database, archive, address or server.address)
        return archive

    def follower(self, **options: Any) -> Follower:
        """Return a new follower, which is closed at the end."""
        follower = Follower(self.config, self.database, now=self.clock, **options)
        self.followers.append(follower)
        return follower

    def follow(self, seconds: float = 0) -> None:
        """Read all that is due after some time."""
        self.clock.wait(seconds)
        follower = self.follower()
        assert follower.run_once()
        follower.close()

    def row(self, archive: ClaimingArchive) -> Any:
        """Return the row of an Archive."""
        return rows_of(self.database, FollowedArchive)[self.archives.index(archive)]

    def state(self) -> Any:
        """Return the state of the resolver."""
        [state] = rows_of(self.database, ResolverState)
        return state

    def names(self) -> set[str]:
        """Return all names."""
        return {row.name for row in rows_of(self.database, ClaimedName)}

    def since(self) -> dict[str, Any]:
        """Return since when names are claimed."""
        return {row.name: row.since for row in rows_of(self.database, ClaimedName)}


@pytest.fixture
def following(database: Database, hosts: Servers) -> Iterator[Following]:
    """A resolver that has no Archives yet."""
    following = Following(database, hosts)
    yield following
    for follower in following.followers:
        follower.close()


def wait_until(check: Callable[[], bool]) -> None:
    """Wait until something is true."""
    end = monotonic() + PATIENCE
    while not check():
        assert monotonic() < end
        sleep(0.01)


def test_pages_are_read_to_the_end_and_then_asked_for_with_an_etag(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "LIMIT", 2)
    archive = following.include(*map(a_claim, range(5)))
    progress: list[tuple[int, int]] = []
    follower = following.follower(on_progress=lambda *counts: progress.append(counts))
    assert follower.run_once()
    follower.close()
    assert following.names() == {an_ibi(number) for number in range(5)}
    assert progress == [(1, 2), (2, 4), (3, 5)]
    server = archive.server  # type: ignore[attr-defined]
    row = following.row(archive)
    assert server.asked[0] == "/ibi/claims?after=&limit=2"
    assert "Accept-Encoding: gzip" in server.heads[0]
    following.follow(29)
    assert len(server.asked) == 3  # it is not due
    following.follow(1)
    assert server.asked[3] == f"/ibi/claims?after={row.position}&limit=2"
    assert f"If-None-Match: {row.etag}" in server.heads[3]
    assert following.row(archive).read_at == following.clock.now
    archive.set(a_claim(1, None))
    following.follow(30)
    assert following.names() == {an_ibi(number) for number in (0, 2, 3, 4)}


# --- silence -------------------------------------------------------------------------------------


def test_a_silent_archive_delays_no_other(
    database: Database, hosts: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    following = Following(database, hosts)
    monkeypatch.setattr(claims, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(claims, "IDLE", 0.01)
    silent = [following.include(answer=hangs) for _ in range(3)]
    with database.writing() as connection:  # they were silent before
        connection.execute(update(FollowedArchive).values(failures=1))
    following.include(a_claim(0))
    stop = Event()
    follower = following.follower()
    thread = Thread(target=follower.run, args=(stop,))
    thread.start()
    try:
        wait_until(lambda: following.names() == {an_ibi(0)})
        following.include(a_claim(1))
        wait_until(lambda: following.names() == {an_ibi(0), an_ibi(1)})
        assert sum(len(one.server.asked) for one in silent) == 1  # type: ignore[attr-defined]
    finally:
        stop.set()
        thread.join()
        follower.close()


# --- one follower at a time ----------------------------------------------------------------------


def test_one_process_follows_at_a_time(following: Following) -> None:
    first, second = following.follower(), following.follower()
    assert first.run_once()
    assert not second.run_once()
    following.clock.wait(61)  # the first process was killed
    assert second.run_once()
    second.close()
    assert first.run_once()


@pytest.mark.parametrize(
    ("table", "values"),
    [
        (FollowedArchive, {"key": "another"}),
        (FollowedArchive, {"epoch": "5", "position": "1-2-3"}),
        (FollowedArchive, {"epoch": "another"}),
        (RegisteredArchive, {"included_at": None, "excluded_at": NOON}),
    ],
)
def test_what_was_read_is_not_stored_if_the_archive_is_changed_meanwhile(
    following: Following, table: Any, values: dict[str, Any]
) -> None:
    def change(target: str, head: str) -> bytes | None:
        with following.database.writing() as connection:
            connection.execute(update(FollowedArchive).values(due_at=NOON + timedelta(1)))
            connection.execute(update(table).values(values))
        return archive.answer(target, head)

    archive = following.include(a_claim(), answer=change)
    following.follow()
    assert following.names() == set()


# --- since ---------------------------------------------------------------------------------------


def test_claims_count_since_the_time_when_the_resolver_began_to_catch_up(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = following.include(a_claim(0))
    follower = following.follower(on_progress=lambda *_: following.clock.wait(5))
    following.include(a_claim(1))
    assert follower.run_once()
    assert set(following.since().values()) == {NOON}
    state = following.state()
    assert (state.followed_at, state.catching_up_since) == (following.clock.now, None)
    first.set(a_claim(2))
    following.clock.wait(60)
    follower.close()
    following.follow()
    assert following.since()[an_ibi(2)] == following.clock.now
    # the follower did not run for a long time
    following.clock.wait(301)
    again = following.clock.now
    first.set(a_claim(3))
    following.include(a_claim(4))
    assert following.follower(on_progress=lambda *_: following.clock.wait(5)).run_once()
    assert {following.since()[an_ibi(number)] for number in (3, 4)} == {again}
    assert following.since()[an_ibi(2)] < again


# --- errors --------------------------------------------------------------------------------------


def test_a_page_that_can_not_be_stored_stops_no_other(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = following.include(a_claim(0)), following.include(a_claim(1))

    def refuse(connection: Any, archive_id: int, names: Any, now: Any) -> None:
        if archive_id == following.row(bad).archive_id:
            raise IntegrityError("INSERT", {}, Exception())

    monkeypatch.setattr(claims, "update_conflicts", refuse)
    following.follow()
    assert following.names() == {an_ibi(1)}
    assert following.row(bad).reason == "has claims that can't be stored"
    assert following.row(good).read_at is not None


def test_the_follower_goes_on_after_an_error(
    following: Following, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(claims, "IDLE", 0.0)
    errors: list[Exception] = [NotReady("the database is locked", "wait"), ZeroDivisionError()]
    list_due = claims.list_due

    def fail(*values: Any) -> Any:
        if errors:
            raise errors.pop(0)
        return list_due(*values)

    monkeypatch.setattr(claims, "list_due", fail)
    following.include(a_claim(0))
    stop = Event()
    thread = Thread(target=following.follower().run, args=(stop,))
    with caplog.at_level(logging.ERROR):
        thread.start()
        wait_until(lambda: following.names() == {an_ibi(0)})
    stop.set()
    thread.join()
    assert [one.exc_info is not None for one in caplog.records] == [False, True]


def test_each_process_has_its_own_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Event] = []

    class Waiting:
        def run(self, stop: Event) -> None:
            started.append(stop)
            stop.wait()

        def close(self) -> None:
            started.remove(stops.pop())

    stops: list[Event] = []
    thread = FollowerThread(lambda: Waiting())  # type: ignore[arg-type,return-value]
    thread.start()
    thread.start()
    wait_until(lambda: len(started) == 1)
    pid = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: pid + 1)  # as in a forked process
    thread.start()
    wait_until(lambda: len(started) == 2)
    for number, stop in ((pid + 1, started[1]), (pid, started[0])):
        monkeypatch.setattr(os, "getpid", lambda number=number: number)
        stops.append(stop)
        thread.close(PATIENCE)
        assert stop not in started


# --- a killed process ----------------------------------------------------------------------------

#: Forks a follower for each line that it reads: to import the modules takes long.
PROGRAM = """
import os, sys
from threading import Event
from flask_ibi_archive.resolver import claims
from flask_ibi_archive.resolver.claims import Follower
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import RESOLVER
from support.registries import a_config
claims.LIMIT, claims.IDLE = 3, 0.0
config = a_config(IBI_RESOLVER_CLAIMS_INTERVAL=0.001)
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        show = lambda pages, claims: print(os.getpid(), flush=True)
        Follower(config, Database(sys.argv[1], RESOLVER), on_progress=show).run(Event())
    os.waitpid(pid, 0)
"""


@pytest.mark.slow
@pytest.mark.postgresql
def test_a_follower_that_is_killed_misses_nothing(
    following: Following, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(7)
    archives = [following.include(a_claim(0)) for _ in range(3)]
    for archive in archives:
        archive.clock = lambda: claims.datetime.now(claims.timezone.utc)

    def change() -> None:
        for archive in archives:
            numbers = [chance.randrange(20) for _ in range(12)]
            archive.set(
                *(a_claim(n, chance.choice([State.ORIGINAL, State.COPY, None])) for n in numbers)
            )

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, uri],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pid = 0
        for _ in range(50):
            process.stdin.write("\n")
            process.stdin.flush()
            change()
            while (shown := process.stdout.readline()) == f"{pid}\n":
                pass  # of the last one
            pid = int(shown)  # it has stored a page
            sleep(chance.uniform(0.0, 0.05))
            os.kill(pid, signal.SIGKILL)
            with following.database.writing() as connection:  # its lease ends
                connection.execute(update(ResolverState).values(follower=None))
        process.stdin.close()
    follower = Follower(following.config, following.database)
    with following.database.writing() as connection:
        connection.execute(update(FollowedArchive).values(due_at=None))
    assert follower.run_once()
    follower.close()
    rows = rows_of(following.database, ClaimedName)
    for archive in archives:
        archive_id = following.row(archive).archive_id
        found = {row.name: (row.item, row.state) for row in rows if row.archive_id == archive_id}
        assert found == archive.own_list()
