"""The primary dies three times: nothing that was answered is lost, and readers are served.

The servers run on loopback, with the files and the commands of the guide. The figures of
docs/performance.rst are those of this test with more time::

    FAILOVER_SECONDS=600 FAILOVER_PAUSE=10 python -m pytest -m slow -s tests/deployment
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from sched import scheduler
from threading import Event
from typing import Any
from unittest.mock import patch

import pytest
import sqlalchemy as sa
import urllib3
from flask import Flask
from support.archives import archive_of, close
from support.commands import ROOT
from support.documentation import FILES, blocks
from support.loopback import PATIENCE

from example_app import create_app, create_resolver
from example_app.extensions import db
from flask_ibi_archive.archive.accesses.rows import Access
from flask_ibi_archive.archive.identification.keys import create_key
from flask_ibi_archive.core.protocol.pairs import decode_url, parse_pairs
from flask_ibi_archive.core.records.record import DublinCoreMetadata

#: How long the load lasts, and how long the primary is away until the standby is promoted.
SECONDS = float(os.environ.get("FAILOVER_SECONDS", "60"))
PAUSE = float(os.environ.get("FAILOVER_PAUSE", "2"))
KILLS = 3
#: Twenty requests, which are repeated at this rate per second. The first three are of readers.
READS = ("urlRequest", "page", "resolution")
CYCLE = [*READS, "urlRequest", "acknowledgment", "urlRequest", "deposit"] * 2
CYCLE += [*READS, "urlRequest", "acknowledgment", "urlRequest"]
RATE = 100
#: After so many seconds without an answer, a program sends a deposit again. Nobody else does.
RETRY = 5
#: The items before the first deposit, and the keys of programs, each with a limit of its own.
ITEMS, KEYS = 200, 8
SERVICE = "sid.inpe.br/mtc-m18@80/2008/03.17.15.17"
RESOLVER_SERVICE = "J8LNKB5R7W/3FUQHC5"
#: The servers of the guide, and the resolver.
HOSTS = ("repository.example.org", "resolver", "db1", "db2", "app1", "app2")
SECRET = "only for the test"
REGISTRATION_KEY = "1234567890"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "CI" not in os.environ
        and not all(map(shutil.which, ("pg_createcluster", "psql", "nginx"))),
        reason="there is no PostgreSQL of Debian, or no nginx",
    ),
]


# --- the servers ---------------------------------------------------------------------------------


@dataclass
class Site:
    """The servers of the guide, each with an address of its own on loopback.

    :param folder: the folder for the files of all servers.
    """

    folder: Path
    network: str = field(default_factory=lambda: "127.{}.{}".format(*os.urandom(2)))

    def address(self, host: str) -> str:
        """Return the IP address of a server."""
        return f"{self.network}.{HOSTS.index(host) + 1}"

    def here(self, text: str) -> str:
        """Return a text of the guide with the addresses of this run."""
        return re.sub(
            r"(host=|server |,)(db\d|app\d)\b",
            lambda found: found[1] + self.address(found[2]),
            text,
        )

    @property
    def repository(self) -> str:
        return f"http://{self.address('repository.example.org')}:8080"

    @property
    def resolver(self) -> str:
        return f"http://{self.address('resolver')}:8000"

    def settings(self, *files: str) -> dict[str, str]:
        """Return the environment of an app: the settings of the guide, and those of the test."""
        lines = [line for file in files for line in self.here(FILES[file]).splitlines()]
        pairs = [shlex.split(line, comments=True) for line in lines]
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("FLASK_")},
            "FLASK_APP": "example_app",
            "FLASK_SECRET_KEY": SECRET,
            "FLASK_IBI_FOLDER": str(self.folder / "shared"),
            "FLASK_IBI_ARCHIVE_SERVICE_IBI": SERVICE,
            "FLASK_IBI_ARCHIVE_ADDRESS": self.repository.removeprefix("http://"),
            "FLASK_IBI_IDENTIFICATION": "true",
            "FLASK_IBI_TRUSTED_PROXIES": "127.0.0.1/32",
            "FLASK_IBI_RESOLVER_URL": f"{self.resolver}/{RESOLVER_SERVICE}",
            "FLASK_IBI_PERSISTENT_URL_BASE": self.resolver,
            "FLASK_IBI_REGISTRATION_KEY": REGISTRATION_KEY,
            "PGPASSFILE": str(self.folder / "pgpass"),
            **dict(pair[0].split("=", 1) for pair in pairs if pair),
        }

    @contextmanager
    def app(self) -> Iterator[Flask]:
        """Yield an app with the settings of the app servers, in this process."""
        with patch.dict(os.environ, self.settings("repository.env")):
            app = create_app()
            try:
                yield app
            finally:
                with app.app_context():
                    db.engine.dispose()
                close(app)

    @contextmanager
    def gunicorn(
        self, name: str, bind: str, factory: str, settings: dict[str, str]
    ) -> Iterator[None]:
        """Run an app of the example until the end of the with block."""
        (self.folder / "gunicorn.conf.py").write_text(FILES["gunicorn.conf.py"])
        command = [sys.executable, "-m", "gunicorn", "-c", f"{self.folder}/gunicorn.conf.py"]
        with (self.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--threads=16", f"--bind={bind}", f"example_app:{factory}()"],
                stdout=log,
                stderr=log,
                env=settings,
                cwd=ROOT,
            )
        try:
            wait_until(lambda: is_healthy(bind, "ibi-resolver" if name == "resolver" else "ibi"))
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE)

    @contextmanager
    def nginx(self) -> Iterator[None]:
        """Run nginx with the file of the guide."""
        address = self.repository.removeprefix("http://")
        text = self.here(FILES["repository-upstream.conf"]).replace(
            "listen 80;", f"listen {address};"
        )
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        folders = "".join(f"{kind}_temp_path {self.folder}/{kind};\n" for kind in kinds)
        events = "events { worker_connections 4096; }\n"
        text = f"{events}http {{\naccess_log off;\n{folders}{text}}}\n"
        (self.folder / "nginx.conf").write_text(text)
        (self.folder / "proxy_headers.conf").write_text(FILES["proxy_headers.conf"])
        start = ["nginx", "-p", str(self.folder), "-c", "nginx.conf", "-e", "nginx.log"]
        start += ["-g", "pid nginx.pid;"]
        run(start)
        try:
            yield
        finally:
            run([*start, "-s", "stop"])


def run(command: list[str], **options: Any) -> str:
    """Run a command that must succeed, and return its output."""
    # to a file, because a server that the command starts keeps a pipe open
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, **options)
        output.seek(0)
        text = output.read()
    assert done.returncode == 0, (command, text)
    return text


def is_healthy(address: str, path: str) -> bool:
    """Return whether an app answers."""
    url = f"http://{address}/{path}/health/live"
    with suppress(urllib3.exceptions.HTTPError):
        return urllib3.request("GET", url, retries=False, timeout=PATIENCE).status == 200
    return False


def wait_until(is_true: Callable[[], bool]) -> None:
    """Wait until something is true."""
    end = time.monotonic() + PATIENCE
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.05)


@dataclass
class Node:
    """A database server, made with the commands of Debian in a folder.

    :param host: its name in the guide.
    """

    site: Site
    host: str

    @property
    def folder(self) -> Path:
        return self.site.folder / self.host

    @property
    def configuration(self) -> Path:
        return self.folder / "etc/15/main"

    def run(self, *commands: str, peer: str = "") -> str:
        """Run commands of the guide as the user of PostgreSQL.

        :param peer: the other server, which the commands call db1.
        """
        text = "\n".join(commands).replace("--host=db1", f"--host={peer}")
        text = text.replace("/var/lib/postgresql/15/main", f"{self.folder}/data")
        text = text.replace("/etc/postgresql", f"{self.folder}/etc").replace("'...'", f"'{SECRET}'")
        variables = {
            **os.environ,
            "PG_CLUSTER_CONF_ROOT": f"{self.folder}/etc",
            "PGHOST": str(self.folder),
            "PGPASSFILE": f"{self.site.folder}/pgpass.postgres",
        }
        # PostgreSQL refuses to run as root
        user: dict[str, Any] = {}
        if os.getuid() == 0:
            user = {"user": "postgres", "group": "postgres", "extra_groups": []}
        command = ["bash", "-ec", text]
        return run(command, env=variables, cwd=self.folder, **user)

    def create(self) -> None:
        """Create and start a server with the files of the guide, but the synchronous one."""
        self.folder.mkdir()
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        options = f"-d {self.folder}/data -l {self.folder}/log --socketdir {self.folder} -p 5432"
        self.run(f"pg_createcluster 15 main {options} -- --auth-local=peer")
        text = FILES["replication.conf"].replace("'*'", f"'{self.site.address(self.host)}'")
        (self.configuration / "conf.d/replication.conf").write_text(text.replace("db1", self.host))
        # the first line that fits is used
        rules = self.configuration / "pg_hba.conf"
        rules.write_text(FILES["pg_hba.conf"] + rules.read_text())
        self.run("pg_ctlcluster 15 main start")

    def query(self, statement: str) -> str:
        """Return the only value of a statement."""
        return self.run(f"psql --quiet --no-psqlrc -tAc {shlex.quote(statement)}").strip()

    def kill(self) -> None:
        """Kill all processes of the server at once."""
        postmaster = (self.folder / "data/postmaster.pid").read_text().split()[0]
        children = subprocess.run(["pgrep", "-P", postmaster], capture_output=True, text=True)
        for process in (postmaster, *children.stdout.split()):
            with suppress(ProcessLookupError):
                os.kill(int(process), signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{postmaster}").exists())

    def stop(self) -> None:
        """Stop the server if it runs."""
        with suppress(AssertionError):
            self.run("pg_ctlcluster 15 main stop --mode=immediate")


def sessions() -> list[list[str]]:
    """Return the commands of the guide, a list for each of its sessions."""
    return [
        [command for command, _ in block.commands()]
        for block in blocks("howto/failover.rst")
        if block.language == "console"
    ]


class Databases:
    """The primary and its synchronous standby."""

    def __init__(self, site: Site) -> None:
        self.primary, self.standby = (Node(site, host) for host in ("db1", "db2"))
        self.create, self.follow, self.require, self.promote = sessions()

    def start(self) -> None:
        """Set up both servers as the guide does."""
        self.primary.create()
        self.primary.run(*self.create)
        self.standby.create()
        self.standby.run(*self.follow, peer=self.primary.site.address("db1"))
        self.synchronise()

    def synchronise(self) -> None:
        """Let commits wait for the standby, and wait until it has all earlier ones."""
        for node in (self.primary, self.standby):
            (node.configuration / "conf.d/synchronous.conf").write_text(FILES["synchronous.conf"])
        self.primary.run(*self.require)
        position = self.primary.query("SELECT pg_current_wal_lsn()")
        condition = f"sync_state = 'quorum' AND flush_lsn >= '{position}'"
        count = f"SELECT count(*) FROM pg_stat_replication WHERE {condition}"
        wait_until(lambda: self.primary.query(count) == "1")

    def fail_over(self) -> None:
        """Promote the standby of a dead primary."""
        self.standby.run(*self.promote)
        self.primary, self.standby = self.standby, self.primary

    def rebuild(self) -> None:
        """Let the former primary follow the new one."""
        commands = [command for command in self.follow if not command.endswith("stop")]
        self.standby.run(*commands, peer=self.primary.site.address(self.primary.host))
        self.synchronise()


# --- the load ------------------------------------------------------------------------------------


@dataclass
class Load:
    """Readers, resolvers and programs, who send requests at a rate however long answers take.

    :ivar results: kind of the request, when it was due and answered, whether the answer was right.
    :ivar deposits: the title of each deposit that was answered, with its identifiers.
    :ivar counted: the URL keys of the acknowledgments that were answered.
    """

    site: Site
    keys: list[str]
    results: list[tuple[str, float, float, bool]] = field(default_factory=list)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    deposits: list[tuple[str, str, str]] = field(default_factory=list)
    counted: list[str] = field(default_factory=list)
    answers: deque[dict[str, str]] = field(default_factory=lambda: deque(maxlen=1000))
    stopped: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        # each with an address of its own: the accesses of one reader are counted one after another
        self.readers = [
            urllib3.PoolManager(
                maxsize=50,
                retries=False,
                timeout=30,
                source_address=(f"{self.site.network}.{number}", 0),
            )
            for number in range(100, 250)
        ]

    def run(self) -> None:
        """Send requests for some time, and deposits until they are answered."""
        agenda = scheduler(time.monotonic)
        begin, futures = time.monotonic() + 0.1, list[Future[None]]()
        with ThreadPoolExecutor(300) as pool:

            def attempt(number: int, due: float) -> None:
                if not self.send(number, due) and not self.stopped.is_set():
                    agenda.enter(RETRY, 0, start, (number, due))

            def start(number: int, due: float) -> None:
                futures.append(pool.submit(attempt, number, due))

            for number in range(int(SECONDS * RATE)):
                due = begin + number / RATE
                agenda.enterabs(due, 0, start, (number, due))
            while not agenda.empty() or not all(future.done() for future in futures):
                agenda.run()
                wait(futures)
        for future in futures:
            future.result()

    def send(self, number: int, due: float) -> bool:
        """Send a request, and return whether it need not be sent again."""
        kind, right = CYCLE[number % len(CYCLE)], self.is_right(number)
        is_done = right or kind != "deposit"
        if is_done:
            self.results.append((kind, due, time.monotonic(), right))
        return is_done

    def is_right(self, number: int) -> bool:
        """Send a request, and return whether the answer is right."""
        kind = CYCLE[number % len(CYCLE)]
        try:
            right, seen = getattr(self, f"send_{kind}")(number)
        except urllib3.exceptions.HTTPError as error:
            right, seen = False, type(error).__name__
        if not right:
            self.failures[kind, str(seen)] += 1
        return bool(right)

    def results_of(self, *kinds: str) -> list[tuple[str, float, float, bool]]:
        """Return the results of some kinds of requests."""
        return [result for result in self.results if result[0] in kinds]

    def get(self, number: int, url: str, /, **query: str) -> urllib3.BaseHTTPResponse:
        """Send a GET request from the address of a reader."""
        reader = self.readers[number % len(self.readers)]
        return reader.request("GET", url, fields=query or None, redirect=False)

    def send_urlRequest(self, number: int) -> tuple[bool, object]:
        """Ask for the URLs of an item."""
        answer = self.get(
            number,
            f"{self.site.repository}/{SERVICE}",
            **{
                "servicesubject": "urlRequest",
                "clientinformation.ipaddress": address_of_reader(number),
                "parsedibiurl.ibi": rep_of(number),
            },
        )
        pairs = {pair.name: pair.text for pair in parse_pairs(answer.data)}
        right = answer.status == 200 and pairs.get("url") == url_of(number)
        if right:
            self.answers.append(
                {
                    "servicesubject": "acknowledgment",
                    "contenttype": pairs["contenttype"],
                    "state": pairs["state"],
                    "url": decode_url(pairs["url"]),
                    "clientinformation.ipaddress": address_of_reader(number),
                    "url.persistent": f"{self.site.resolver}/{rep_of(number)}",
                    "urlkey": pairs["urlkey"],
                    "ibi": pairs["ibi"],
                }
            )
        return right, answer.status

    def send_page(self, number: int) -> tuple[bool, object]:
        """Read the page of an item."""
        answer = self.get(number, f"{self.site.repository}/col/{rep_of(number)}/")
        return answer.status == 200 and title_of(number).encode() in answer.data, answer.status

    def send_resolution(self, number: int) -> tuple[bool, object]:
        """Follow the persistent URL of an item."""
        answer = self.get(number, f"{self.site.resolver}/{rep_of(number)}")
        return answer.status == 302 and answer.headers["Location"] == url_of(number), answer.status

    def send_acknowledgment(self, number: int) -> tuple[bool, object]:
        """Acknowledge an answer."""
        try:
            pairs = self.answers.popleft()
        except IndexError:
            return False, "nothing to acknowledge"
        answer = self.get(number, f"{self.site.repository}/{SERVICE}", **pairs)
        right = answer.data == b"notice {acknowledgment received}"
        if right:
            self.counted.append(pairs["urlkey"])
        return right, answer.status if answer.status != 200 else answer.data

    def send_deposit(self, number: int) -> tuple[bool, object]:
        """Deposit an item as a program does: with the same key if there was no answer."""
        title = f"Deposit {number}"
        record = {"language": "en", "metadata": {"dc": {"title": [title]}}}
        record["files"] = [{"path": "a.pdf", "url": "https://files.example.org/a.pdf"}]
        answer = self.readers[0].request(
            "POST",
            f"{self.site.repository}/ibi/identifiers",
            body=json.dumps({"record": record}),
            headers={
                "Authorization": f"Bearer {self.keys[number % KEYS]}",
                "Content-Type": "application/json",
                "Idempotency-Key": f"deposit-{number}",
            },
        )
        if answer.status not in (200, 201):
            return False, answer.status
        [issued] = answer.json()["identifiers"]
        self.deposits.append((title, issued["rep"], issued["ibip"]))
        return True, answer.status


def rep_of(number: int) -> str:
    """Return the identifier of an item that a request asks for."""
    chosen = number * 7 % ITEMS
    return f"example.org/load/2001/01.01.{chosen // 60:02}.{chosen % 60:02}"


def title_of(number: int) -> str:
    return f"Item {number * 7 % ITEMS}"


def url_of(number: int) -> str:
    return f"https://files.example.org/{number * 7 % ITEMS}.pdf"


def address_of_reader(number: int) -> str:
    return f"198.{18 + number // 62500}.{number // 250 % 250}.{number % 250}"


# --- the test ------------------------------------------------------------------------------------


@pytest.fixture
def site() -> Iterator[Site]:
    """The folder of the servers, which the user of PostgreSQL may enter."""
    with tempfile.TemporaryDirectory() as name:
        site = Site(Path(name))
        site.folder.chmod(0o755)
        for file, owner in (("pgpass", None), ("pgpass.postgres", "postgres")):
            path = site.folder / file
            path.write_text(f"*:*:*:*:{SECRET}\n")
            path.chmod(0o600)
            if owner and os.getuid() == 0:
                shutil.chown(path, owner, owner)
        yield site


@pytest.fixture
def databases(site: Site) -> Iterator[Databases]:
    """A primary and its synchronous standby."""
    databases = Databases(site)
    try:
        databases.start()
        yield databases
    finally:
        for node in (databases.primary, databases.standby):
            node.stop()


@pytest.fixture
def load(site: Site, databases: Databases) -> Iterator[Load]:
    """Programs and readers of two app servers behind nginx, and of a resolver."""
    items = site.folder / "items.jsonl"
    items.write_text("".join(f"{json.dumps(record_of(number))}\n" for number in range(ITEMS)))
    with site.app() as app:
        for words in (["db", "upgrade"], ["ibi", "init"], ["ibi", "import", str(items)]):
            done = app.test_cli_runner().invoke(args=words)
            assert done.exit_code == 0, done.output
        archive = archive_of(app)
        key = partial(create_key, archive.database, archive.served().id, now=archive.clock())
        keys = [key(f"program {number}", ["deposit"], expires_at=None) for number in range(KEYS)]
    writing = site.settings("repository.env")
    reading = site.settings("repository.env", "repository-reader.env")
    resolver = {
        **os.environ,
        "FLASK_APP": "example_app:create_resolver",
        "FLASK_IBI_RESOLVER_DATABASE_URI": f"sqlite:///{site.folder}/resolver.sqlite",
        "FLASK_IBI_INNER_HOSTS": "127.0.0.0/8",
    }
    with patch.dict(os.environ, resolver):
        registering = create_resolver()
        done = registering.test_cli_runner().invoke(args=["ibi-resolver", "init"])
        assert done.exit_code == 0, done.output
        service = registering.extensions["ibi_resolver"].resolver
        service.registry.register(SERVICE, REGISTRATION_KEY)
        service.close()
    with ExitStack() as stack:
        for host in ("app1", "app2"):
            for port, settings in ((8000, writing), (8001, reading)):
                bind = f"{site.address(host)}:{port}"
                stack.enter_context(site.gunicorn(f"{host}-{port}", bind, "create_app", settings))
        stack.enter_context(site.nginx())
        bind = site.resolver.removeprefix("http://")
        stack.enter_context(site.gunicorn("resolver", bind, "create_resolver", resolver))
        with site.app() as app:
            done = app.test_cli_runner().invoke(args=["ibi", "register-archive"])
            assert "successful" in done.output
        yield Load(site, keys)


def record_of(number: int) -> dict[str, Any]:
    """Return the record of the item for a request with a number."""
    return {
        "rep": rep_of(number),
        "metadata": {"dc": {"title": [title_of(number)], "creator": ["Silva, Ana"]}},
        "files": [{"path": "a.pdf", "url": url_of(number)}],
    }


def test_the_primary_dies_three_times(databases: Databases, load: Load) -> None:
    outages, served = [], list[bool]()
    with ThreadPoolExecutor(1) as pool:
        begin = time.monotonic()
        running = pool.submit(load.run)
        try:
            for number in range(KILLS):
                time.sleep(max(0, begin + SECONDS * (number + 0.5) / KILLS - time.monotonic()))
                databases.primary.kill()
                killed = time.monotonic()
                served += [load.is_right(reader) for reader in range(len(READS))]
                time.sleep(max(0, killed + PAUSE - time.monotonic()))
                databases.fail_over()
                promoted = time.monotonic()
                databases.rebuild()
                outages.append((killed, promoted, time.monotonic()))
        except BaseException:
            load.stopped.set()
            raise
        running.result()
    report(load, outages)
    # readers got each kind of answer while there was no primary
    assert served == [True] * len(READS) * KILLS
    check_answers(load)


def check_answers(load: Load) -> None:
    """Check that no answered deposit or acknowledgment is lost, and that no identifier is twice."""
    issued = [ibi for _, *both in load.deposits for ibi in both]
    assert len(issued) == len(set(issued)) == 2 * len(load.results_of("deposit"))
    assert load.counted
    with load.site.app() as app:
        archive = archive_of(app)
        stored = {
            (record.metadata.elements["title"][0][0], record.rep, record.ibip)
            for record in archive.list_records()
            if isinstance(record.metadata, DublinCoreMetadata)
        }
        assert set(load.deposits) <= stored
        accesses = {row.url_key for row in archive.database.read_rows(sa.select(Access.url_key))}
        facts = [archive.url_keys.read(key) for key in load.counted]
        assert {fact.name for fact in facts if fact is not None} <= accesses
        assert None not in facts


def report(load: Load, outages: list[tuple[float, float, float]]) -> None:
    """Print the figures."""
    for kinds in (*[(kind,) for kind in dict.fromkeys(CYCLE)], READS):
        results = load.results_of(*kinds)
        right = sorted(end for _, _, end, is_right in results if is_right)
        waits = sorted(end - due for _, due, end, is_right in results if is_right)
        print(
            f"{', '.join(kinds)}: {len(results)}, right {len(right) / len(results):.3%}; longest"
            f" time without a right answer {max(b - a for a, b in pairwise(right)):.2f} s;"
            f" median {waits[len(waits) // 2]:.3f} s, 99 % {waits[len(waits) * 99 // 100]:.2f} s"
        )
    for killed, promoted, rebuilt in outages:
        print(
            f"killed; promoted after {promoted - killed:.1f} s, both after {rebuilt - killed:.1f} s"
        )
    print(dict(load.failures))
