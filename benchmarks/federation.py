"""Measure a resolver with thousands of Archives, of which some are dead, hang or lie.

    python -m benchmarks.federation [--archives 10000] [--postgresql URL] [--rows asked rate]

The Archives (federation_items.py) are served by one other process. They are included and their logs
are read. Then some of them begin to fail, and the resolver is measured: how many Archives it asks,
how many resolutions it does in a second, and how long readers wait.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import socket
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from functools import partial
from math import gcd
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, process_time, sleep
from typing import Any

from flask import Flask
from sqlalchemy import func, insert, or_, select, update
from support.databases import migrate_to_head
from support.loopback import PATIENCE, free_ports
from support.registries import NOON, resolver_database
from support.smtp import Post, post_office

from flask_ibi_archive.core.claims.claim import STATE_NUMBERS, identifier_key
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.protocol.messages import format_request
from flask_ibi_archive.core.resolution.answer import Question
from flask_ibi_archive.core.resolution.outcome import Alert, Redirect
from flask_ibi_archive.core.resolution.persistent_url import parse_persistent_url
from flask_ibi_archive.resolver.claims.tables import (
    CURRENT,
    FORKED,
    SILENT,
    STALE,
    Binding,
    FollowedLog,
    PinnedKey,
    PrefixHolder,
    ResolverState,
)
from flask_ibi_archive.resolver.claims.versions import bump_version
from flask_ibi_archive.resolver.resolution_context import Asked, ResolutionRequest
from flask_ibi_archive.resolver.service import ResolverService
from flask_ibi_archive.resolver.tables import RegisteredArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.migrate import RESOLVER
from flask_ibi_archive.server.http.transport import HEADERS

from .fan_out import ADDRESS
from .federation_items import (
    DEAD,
    FORGES,
    FORKS,
    HANGING,
    REMOVED,
    ROLES,
    TRANSLATION,
    Federation,
    Item,
    service_of,
)
from .federation_resolvers import (
    HOST,
    following,
    get_service,
    make_environment,
    make_resolver,
    make_settings,
    read_cpu,
    request_item,
)
from .federation_server import Control, serving_federation
from .gunicorn_servers import Server, serving
from .processes import System, count_instructions
from .targets import check_federation

#: Where a resolver is told that an Archive has new claims.
PING = "/ibi/claims/ping"
REQUIRED = "?ibiurl.requireditemstatus=Original"


@dataclass(frozen=True)
class Scope:
    """How much is measured.

    :param resolutions: resolutions whose requests are counted, or whose time is measured.
    :param rate: resolutions by several threads.
    :param threads: the threads of the process that resolves.
    :param conflicts: second claims of Originals.
    :param readers: readers of three resolvers.
    :param instructions: resolutions whose instructions are counted.
    :param stores_claims: whether the claims are stored directly, and not read by the follower.
    """

    resolutions: int = 5_000
    rate: int = 20_000
    threads: int = 8
    conflicts: int = 1_000
    readers: int = 2_000
    instructions: int = 300
    stores_claims: bool = False


def include(database: Database, federation: Federation) -> None:
    """Include all Archives of a federation, and pin the keys of their logs."""
    archives, logs, keys = [], [], []
    for number in range(federation.archives):
        key = federation.signing_key(number).verifier
        address = federation.address(number)
        archives.append(
            {
                "id": number + 1,
                "service_ibi": service_of(number),
                "key_hash": "",
                "registered_at": NOON,
                "address": address,
                "ip": address.partition(":")[0],
                "platform_version": "1",
                "admin_email": f"admin{number}@sim.br",
                "included_at": NOON,
                "confirmed_at": NOON,
            }
        )
        pinned = {"archive_id": number + 1, "pinned_at": NOON, "key": key.format()}
        logs.append({**pinned, "origin": key.name, "frontier": b""})
        keys.append(pinned)
    with database.writing() as connection:
        for table, rows in ((RegisteredArchive, archives), (FollowedLog, logs), (PinnedKey, keys)):
            connection.execute(insert(table), rows)
        connection.execute(update(RegisteredArchive).values(changed_in=1))
        connection.execute(update(ResolverState).values(version=1))


def store_claims(database: Database, federation: Federation) -> None:
    """Store the claims of all Archives, as if a follower had read their logs just now.

    The follower is not measured then, and need not run: the claims stay current for a day.
    """
    with database.writing() as connection:
        for archive in range(federation.archives):
            bindings = [
                {
                    "key": identifier_key(name),
                    "archive_id": archive + 1,
                    "state": STATE_NUMBERS[state],
                }
                for item, state in federation.list_holdings(archive)
                for name in (item.rep, item.ibip)
            ]
            connection.execute(insert(Binding), bindings)
        prefixes = [
            {"prefix": prefix, "archive_id": archive + 1, "seen_at": NOON}
            for archive in range(federation.archives)
            for prefix in _list_prefixes(Item(archive, 0))
        ]
        connection.execute(insert(PrefixHolder), prefixes)
        connection.execute(update(FollowedLog).values(state=CURRENT))
        tomorrow = datetime.now(timezone.utc) + timedelta(days=1)
        connection.execute(update(ResolverState).values(followed_at=tomorrow))


def store_faults(database: Database, federation: Federation) -> None:
    """Store the states of the logs, as if a follower had tried to read them after the failures."""
    states = {DEAD: SILENT, HANGING: SILENT, FORGES: STALE, FORKS: FORKED}
    faults = federation.faults.items()
    with database.writing() as connection:
        for archive, fault in faults:
            if fault in states:
                log = update(FollowedLog).where(FollowedLog.archive_id == archive + 1)
                connection.execute(log.values(state=states[fault]))
        bump_version(connection, [archive + 1 for archive, _ in faults])


def _list_prefixes(item: Item) -> list[str]:
    return [parse_identifier(ibi).prefix for ibi in (item.rep, item.ibip)]


@dataclass
class Bench:
    """A resolver in this process, and the federation that it has included.

    :ivar figures: what was measured: the row, the name of the figure, and the value.
    :ivar follower: the process that reads the logs. None if the claims were stored directly.
    """

    app: Flask
    control: Control
    settings: dict[str, Any]
    post: Post
    scope: Scope
    chance: random.Random
    say: Callable[[str], None]
    figures: list[tuple[str, str, float]] = field(default_factory=list)
    has_failed: bool = False
    follower: int | None = None

    def __post_init__(self) -> None:
        self._new = self._shuffle()

    @property
    def federation(self) -> Federation:
        """The Archives."""
        return self.control.federation

    @property
    def resolver(self) -> ResolverService:
        """The resolver."""
        return get_service(self.app)

    def add(self, row: str, name: str, value: float) -> None:
        """Add a figure."""
        self.figures.append((row, name, value))
        self.say(f"{row}, {name}: {value:.4g}")

    def add_times(self, row: str, seconds: Sequence[float], name: str = "") -> None:
        """Add the median and the 99th percentile of some times."""
        ordered = sorted(seconds)
        self.add(row, f"{name}median ms", statistics.median(ordered) * 1000)
        self.add(row, f"{name}99th percentile ms", percentile(ordered, 0.99) * 1000)

    def _shuffle(self) -> Iterator[Item]:
        """Yield each item once, in an order that looks random and needs no memory."""
        total = self.federation.archives * self.federation.items
        step = self.chance.randrange(total)
        while gcd(step, total) > 1:
            step += 1
        place = self.chance.randrange(total)
        for _ in range(total):
            place = (place + step) % total
            yield Item(*divmod(place, self.federation.items))

    def list_items(self, count: int, *, good: bool = False) -> list[Item]:
        """Return items that were not asked for before.

        :param good: whether the Archives that minted the items must not fail.
        """
        faults = self.federation.faults if good else {}
        items = (item for item in self._new if item.archive not in faults)
        return [next(items) for _ in range(count)]

    def choose_target(self, item: Item) -> str:
        """Return a persistent URL of an item without the host; most have no modifier."""
        ibi = self.chance.choice((item.rep, item.ibip))
        if self.chance.random() < 0.1:
            return f"{ibi}!"
        return f"{ibi}+(pt)" if item.role == TRANSLATION else ibi

    def resolve(self, target: str, trace: Any = None) -> tuple[Redirect | Alert, float]:
        """Return the outcome of a persistent URL, and the seconds that the resolution took."""
        url = f"http://{HOST}/{target}"
        request = ResolutionRequest(parse_persistent_url(url), url, (ADDRESS,), (), "Mozilla/5.0")
        begun = perf_counter()
        outcome = self.resolver.resolve(request, trace)
        return outcome, perf_counter() - begun

    def ask(self, archive: int, target: str) -> float:
        """Return the seconds in which an Archive itself answers on a new connection."""
        wanted = parse_persistent_url(f"http://{HOST}/{target}")
        question = Question(wanted.ibi, wanted.verbs, wanted.path)
        query = format_request(question.create_request((ADDRESS,)))
        address = self.federation.address(archive)
        headers = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items())
        request = f"GET /{service_of(archive)}?{query} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n"
        host, _, port = address.partition(":")
        begun = perf_counter()
        with socket.create_connection((host, int(port))) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.sendall(request.encode())
            peer.recv(65536)
            return perf_counter() - begun

    def begin_to_follow(self, process: int) -> None:
        """Wait until the follower has read all logs, and measure how fast it does this."""
        self.follower = process
        begun = perf_counter()
        self.wait_for_logs(datetime.now(timezone.utc))
        seconds = perf_counter() - begun
        logs = self.resolver.database.read_rows(select(func.count(), func.sum(FollowedLog.size)))
        (number, entries) = logs[0]
        self.add("follow", "logs per second", number / seconds)
        self.add("follow", "entries per second", entries / seconds)
        self.add("follow", "CPU ms for a log", read_cpu(process) / number * 1000)
        self.add("follow", "CPU s of the first reading", read_cpu(process))
        followed_at = select(ResolverState.followed_at)
        self.wait_until(lambda: self.resolver.database.read_rows(followed_at)[0][0] is not None)

    def wait_for_logs(self, since: datetime) -> None:
        """Wait until all logs were read after a time."""
        unread = select(func.count()).where(
            or_(
                FollowedLog.read_at.is_(None),
                FollowedLog.read_at < since,
                # a reading that began before does not clear this
                FollowedLog.due_at.is_not(None),
            )
        )
        self.wait_until(lambda: self.resolver.database.read_rows(unread)[0][0] == 0)

    def wait_until(self, is_done: Callable[[], bool]) -> None:
        """Wait until something is true."""
        patience = PATIENCE + self.federation.archives / 10
        end = monotonic() + patience
        while not is_done():
            if monotonic() > end:
                raise SystemExit(f"it takes more than {patience:.0f} s")
            sleep(0.05)

    def follow_again(self) -> None:
        """Let the follower read all logs at once."""
        now = datetime.now(timezone.utc)
        with self.resolver.database.writing() as connection:
            connection.execute(update(FollowedLog).values(due_at=now))
        self.wait_for_logs(now)
        statement = select(FollowedLog.state, func.count()).group_by(FollowedLog.state)
        self.say(f"  logs: {dict(map(tuple, self.resolver.database.read_rows(statement)))}")

    def fail(self) -> None:
        """Let Archives fail, and let the follower notice it; only once."""
        if not self.has_failed:
            self.has_failed = True
            self.control.fail()
            if self.scope.stores_claims:
                store_faults(self.resolver.database, self.federation)
            else:
                self.follow_again()

    # --- the rows --------------------------------------------------------------------------------

    def follow(self) -> None:
        """Measure a pass over all logs, of which none has grown."""
        if self.follower is None:
            return
        begun, cpu = perf_counter(), read_cpu(self.follower)
        self.follow_again()
        seconds, cpu = perf_counter() - begun, read_cpu(self.follower) - cpu
        row = "follow with failures" if self.has_failed else "follow"
        self.add(row, "CPU s of a pass over unchanged logs", cpu)
        self.add(row, "CPU ms for an unchanged log", cpu / self.federation.archives * 1000)
        self.add(row, "s of a pass", seconds)

    def asked(self) -> None:
        """Count the Archives that are asked for a resolution."""
        self._count_asked("asked", map(self.choose_target, self.list_items(self.scope.resolutions)))
        originals = (f"{item.rep}{REQUIRED}" for item in self.list_items(self.scope.resolutions))
        self._count_asked("asked for an Original", originals)

    def _count_asked(self, row: str, targets: Iterator[str]) -> None:
        counts, claimants, outcomes = [], [], Counter[str]()
        is_trusted = FollowedLog.state.in_((CURRENT, SILENT))
        statement = select(FollowedLog.archive_id).where(~is_trusted)
        always = {number for (number,) in self.resolver.database.read_rows(statement)}
        for target in targets:
            asked: set[int] = set()

            def trace(event: Any, asked: set[int] = asked) -> None:
                if isinstance(event, Asked):
                    asked.add(event.target.archive.id)

            outcome, _ = self.resolve(target, trace)
            outcomes[outcome.kind.name if isinstance(outcome, Alert) else "redirect"] += 1
            counts.append(len(asked))
            claimants.append(len(asked - always))
        self.add(row, "Archives that are always asked", len(always))
        self.add(row, "mean without these", statistics.mean(claimants))
        self.add(row, "99th percentile without these", percentile(sorted(claimants), 0.99))
        self.add(row, "mean", statistics.mean(counts))
        self.add(row, "99th percentile", percentile(sorted(counts), 0.99))
        self.add(row, "maximum", max(counts))
        self.say(f"  outcomes: {dict(outcomes)}")

    def rate(self) -> None:
        """Count the resolutions of this process in a second, and the CPU time of one."""
        items = self.list_items(self.scope.rate, good=True)
        with ThreadPoolExecutor(self.scope.threads) as pool:
            begun, cpu = perf_counter(), process_time()
            list(pool.map(partial(request_item, self.app), items))
            seconds, cpu = perf_counter() - begun, process_time() - cpu
        self.add("rate", "per second", len(items) / seconds)
        self.add("rate", "CPU ms", cpu / len(items) * 1000)
        self.say(f"  the Archives: {self.control.count()}")

    def instructions(self) -> None:
        """Count the instructions of a resolution, which do not depend on the load."""
        options = {
            name: value for name, value in asdict(self.federation).items() if name != "claimed"
        }
        arguments = json.dumps(self.settings), json.dumps(options)
        system = System("resolver", "federation_resolvers:resolutions", arguments)
        counted = count_instructions(system, self.scope.instructions, 50)
        self.add("instructions", "thousands", counted / 1000)

    def added(self) -> None:
        """Measure the time that the resolver adds to that of the Archive itself."""
        added, own = [], []
        for item in self.list_items(self.scope.resolutions, good=True):
            own.append(self.ask(item.archive, item.rep))
            added.append(self.resolve(item.rep)[1] - own[-1])
        self.add_times("added", own, "the Archive's own ")
        self.add_times("added", added)

    def unknown(self) -> None:
        """Measure resolutions of identifiers that nobody knows, minted by any of the Archives."""
        found, times = Counter[str](), []
        for item in self.list_items(self.scope.resolutions):
            unknown = Item(item.archive, item.number + self.federation.items)
            outcome, seconds = self.resolve(unknown.rep)
            found[outcome.kind.name if isinstance(outcome, Alert) else "redirect"] += 1
            times.append(seconds)
        self.say(f"  outcomes: {dict(found)}")
        self.add(
            "unknown", "share that is said to be unknown", found["UNKNOWN"] / sum(found.values())
        )
        self.add_times("unknown", times)

    def rivals(self) -> None:
        """Measure resolutions of required Originals that a dead Archive claims, too."""
        faults = self.federation.faults
        dead = [archive for archive, fault in faults.items() if fault == DEAD]
        items = [item for item in self.list_items(2 * len(dead), good=True) if item.role != REMOVED]
        for archive, item in zip(dead, items, strict=False):
            self.control.claim(archive, item)
        self.follow_again()
        self.fail()
        found, times = Counter[str](), []
        for item in items[: len(dead)]:
            outcome, seconds = self.resolve(f"{item.rep}{REQUIRED}")
            found[outcome.kind.name if isinstance(outcome, Alert) else "redirect"] += 1
            times.append(seconds)
        self.say(f"  outcomes: {dict(found)}")
        self.add("rivals", "share of alerts about two Originals", found["SUSPECTS"] / len(dead))
        self.add_times("rivals", times)

    def conflicts(self) -> None:
        """Measure the time from a second claim until both administrators have an e-mail."""
        count = min(self.scope.conflicts, self.federation.archives // 2)
        claims = {}
        for archive in range(0, 2 * count, 2):
            item = Item(archive + 1, self.chance.randrange(0, self.federation.items, ROLES))
            claims[archive] = item
        begun = perf_counter()
        for archive, item in claims.items():
            self.control.claim(archive, item)
            self.app.test_client().post(PING, data={"service": service_of(archive)})
        wanted = {f"admin{archive}@sim.br" for archive in range(2 * count)}
        seconds = []
        while wanted:
            _, recipients, _ = self.post.accepted.get(timeout=PATIENCE)
            seconds += [perf_counter() - begun] * len(wanted & set(recipients))
            wanted -= set(recipients)
        self.add("conflicts", "second claims", count)
        self.add("conflicts", "median s", statistics.median(seconds))
        self.add("conflicts", "maximum s", max(seconds))

    def mirrors(self) -> None:
        """Count readers who fail, if two of three resolvers are killed while they read."""
        items = self.list_items(self.scope.readers, good=True)
        with ExitStack() as stack:
            servers = [stack.enter_context(self._serving(number)) for number in range(3)]

            def read(number: int) -> bool:
                if number == len(items) // 3:
                    for server in servers[:2]:
                        for process in (server.process.pid, *server.workers):
                            os.kill(process, signal.SIGKILL)
                addresses = self.chance.sample([server.address for server in servers], 3)
                return any(self._reads(address, items[number]) for address in addresses)

            with ThreadPoolExecutor(self.scope.threads) as pool:
                successes = list(pool.map(read, range(len(items))))
        self.add("mirrors", "readers", len(successes))
        self.add("mirrors", "readers who fail", successes.count(False))

    @contextmanager
    def _serving(self, number: int) -> Iterator[Server]:
        """Run another resolver with the same Archives, the same claims and its own database."""
        folder = Path(self.settings["IBI_RESOLVER_CLAIMS_FOLDER"]).with_name(f"mirror{number}")
        folder.mkdir()
        uri = f"sqlite:///{folder}/resolver.sqlite"
        with resolver_database(uri) as database:
            include(database, self.federation)
            store_claims(database, self.federation)
        environment = make_environment(make_settings(folder, uri))
        port = free_ports(number)
        with serving("resolver", port, 1, environment, module="federation_resolvers") as server:
            yield server

    def _reads(self, address: str, item: Item) -> bool:
        """Return whether a resolver leads a reader to an item, or says that it was removed."""
        connection = http.client.HTTPConnection(address, timeout=PATIENCE)
        with closing(connection), suppress(OSError, http.client.HTTPException):
            connection.request("GET", f"/{item.rep}", headers={"Host": HOST})
            answer = connection.getresponse()
            if item.role == REMOVED:
                return answer.status == 410
            return answer.headers["Location"] == self.federation.url(item.archive, item)
        return False


ROWS: dict[str, Callable[[Bench], None]] = {
    "follow": Bench.follow,
    "conflicts": Bench.conflicts,
    "rivals": Bench.rivals,
    "follow with failures": Bench.follow,
    "asked": Bench.asked,
    "rate": Bench.rate,
    "added": Bench.added,
    "unknown": Bench.unknown,
    "mirrors": Bench.mirrors,
    "instructions": Bench.instructions,
}


#: The rows that begin while no Archive fails.
HEALTHY = ("follow", "conflicts", "rivals")


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return a percentile of numbers in their order."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


@contextmanager
def bench_of(
    federation: Federation,
    scope: Scope,
    folder: Path,
    uri: str | None = None,
    say: Callable[[str], None] = print,
) -> Iterator[Bench]:
    """Serve a federation, and yield a resolver that has included it."""
    if uri is None:
        uri = f"sqlite:///{folder}/resolver.sqlite"
    else:
        migrate_to_head(uri, RESOLVER)
    with (
        post_office() as post,
        serving_federation(federation) as control,
        resolver_database(uri) as database,
    ):
        include(database, control.federation)
        server, port = post.address
        mail = {"MAIL_SERVER": server, "MAIL_PORT": port, "MAIL_DEFAULT_SENDER": "resolver@sim.br"}
        settings = make_settings(folder, uri, **mail)
        app = make_resolver(settings)
        bench = Bench(app, control, settings, post, scope, random.Random(federation.seed), say)
        with ExitStack() as stack:
            stack.callback(bench.resolver.close)
            if scope.stores_claims:
                store_claims(database, control.federation)
            else:
                process = stack.enter_context(following(settings))
                bench.begin_to_follow(process.pid)
            yield bench


def main(words: list[str] | None = None) -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.federation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--archives", type=int, default=10_000)
    parser.add_argument("--items", type=int, default=100, help="that each Archive minted")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resolutions", type=int, default=Scope.resolutions)
    parser.add_argument("--rate", type=int, default=Scope.rate, help="resolutions by the threads")
    parser.add_argument("--threads", type=int, default=Scope.threads)
    parser.add_argument("--postgresql", metavar="URL", help="an empty database")
    parser.add_argument("--store-claims", action="store_true", help="without reading the logs")
    parser.add_argument("--healthy", action="store_true", help="no Archive fails")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), metavar="ROW")
    parser.epilog = f"rows: {', '.join(ROWS)}"
    options = parser.parse_args(words)
    scope = Scope(
        options.resolutions, options.rate, options.threads, stores_claims=options.store_claims
    )
    federation = Federation(options.archives, options.items, options.seed)
    begun = monotonic()

    def say(line: str) -> None:
        print(f"[{monotonic() - begun:4.0f} s] {line}", file=sys.stderr, flush=True)

    with (
        TemporaryDirectory() as folder,
        bench_of(federation, scope, Path(folder), options.postgresql, say) as bench,
    ):
        say("included")
        for row in options.rows:
            say(row)
            if row not in HEALTHY and not options.healthy:
                bench.fail()
            ROWS[row](bench)
        for line in check_federation(bench.figures):
            print(line)


if __name__ == "__main__":
    main()
