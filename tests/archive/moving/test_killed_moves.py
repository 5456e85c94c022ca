"""Items move between two servers and back, although processes are killed and answers are lost.

The variable IBI_TEST_MOVED_ITEMS of the environment changes the number of the items.
"""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import pytest
import requests
from support.archives import archive_of, close, import_records, make_app
from support.commands import ROOT
from support.databases import new_database
from support.loopback import PATIENCE, free_port
from support.moves import SERVICES, settings
from support.web import query_of

from flask_ibi_archive.archive.archive import Archive

ITEMS = int(os.environ.get("IBI_TEST_MOVED_ITEMS", "200"))
#: One of this number of items has a file.
FILES = 10
#: The number of times that each side is killed.
KILLS = 10
#: The share of the answers that are lost after the giver has acted.
LOST = 0.02


def name(number: int) -> str:
    """Return the identifier of an item."""
    day, second = divmod(number, 86400)
    hour, minute = divmod(second // 60, 60)
    return f"a.br/item/2001/01.{day + 1:02}.{hour:02}.{minute:02}.{second % 60:02}"


def write_records(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of the items; some are editions and translations of each other."""
    for number in range(ITEMS):
        record: dict[str, Any] = {
            "rep": name(number),
            "metadata": {"dc": {"title": [f"Item {number}"], "creator": ["Silva, Ana"]}},
            "same_as": [f"hdl:20.500.12345/{number}"],
        }
        if number % FILES == 0:
            path = folder / f"{number}.txt"
            path.write_bytes(str(number).encode() * 500)
            record["files"] = [{"path": "text.txt", "source": str(path)}]
        if number % 7 == 0 and number + 1 < ITEMS:
            record["next_edition"] = name(number + 1)
        if number % 5 == 0 and number + 3 < ITEMS:
            record |= {"language": "en", "translations": {"pt": name(number + 3)}}
        if number % 5 == 3:
            record["language"] = "pt"
        yield record


@dataclass
class Server:
    """An Archive served by gunicorn with several processes."""

    archive: Archive
    address: str
    service: str
    environment: dict[str, str]
    master: int

    def kill_worker(self) -> None:
        """Kill one of the processes that answer requests."""
        path = Path(f"/proc/{self.master}/task/{self.master}/children")
        with suppress(ProcessLookupError):
            os.kill(int(random.choice(path.read_text().split())), signal.SIGKILL)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            [sys.executable, "-m", "flask", "--app", "moving_app", "ibi", *words],
            cwd=Path(__file__).parent,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> str:
        """Run a command and return its output."""
        process = self.start(*words)
        out, err = process.communicate()
        assert process.returncode == 0, err
        return out.strip()

    def ask_state(self, ibi: str) -> str | None:
        """Return the state of an item in the answer to a urlRequest; None if there is none."""
        query = query_of(
            ("servicesubject", "urlRequest"),
            ("clientinformation.ipaddress", "150.163.2.174"),
            ("parsedibiurl.ibi", ibi),
            ("parsedibiurl.verblist", ""),
            ("parsedibiurl.filepath", ""),
        )
        while True:  # the process that answers may be killed
            with suppress(requests.RequestException):
                url = f"http://{self.address}/{self.service}?{query}"
                text = requests.get(url, timeout=PATIENCE).text
                found = re.search(r"^state (\w+)", text, re.MULTILINE)
                return found and found[1]


@contextmanager
def serving(backend: str, folder: Path, number: int) -> Iterator[Server]:
    """Serve an empty Archive."""
    folder.mkdir()
    with new_database(backend, folder, ready=True) as uri, ExitStack() as stack:
        address = f"127.0.0.1:{free_port()}"
        app = make_app(uri, folder, **settings(number, address))
        stack.callback(close, app)
        archive_of(app).init()
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT)]),
            "TEST_URI": uri,
            "TEST_FOLDER": str(folder),
            "TEST_NUMBER": str(number),
            "TEST_ADDRESS": address,
        }
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "gunicorn", "--bind", address, "--workers", "2"),
                *("--threads", "4", "--timeout", "120", "--chdir", str(Path(__file__).parent)),
                "moving_app:create_app()",
            ],
            env=environment,
            stderr=subprocess.DEVNULL,
        )
        stack.callback(process.wait)
        stack.callback(process.terminate)
        server = Server(archive_of(app), address, SERVICES[number], environment, process.pid)
        server.ask_state(name(0))
        yield server


@dataclass
class Network:
    """A TCP proxy that loses answers, and kills a process soon after certain requests."""

    giver: Server
    kill_giver: set[int]
    kill_taker: set[int]
    taker: subprocess.Popen[str] | None = None
    requests: int = 0
    lost: int = 0
    killed: list[str] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # until the listener is closed
            while True:
                connection, _ = self.listener.accept()
                Thread(target=self._relay, args=(connection,), daemon=True).start()

    def _relay(self, near: socket.socket) -> None:
        host, port = self.giver.address.split(":")
        with closing(near):
            with suppress(OSError), socket.create_connection((host, int(port))) as far:
                Thread(target=self._send, args=(near, far), daemon=True).start()
                while data := far.recv(65536):
                    if random.random() < LOST:
                        self.lost += 1
                        break
                    near.sendall(data)
            with suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)  # the other thread still reads from it

    def _send(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while data := near.recv(65536):
                far.sendall(data)
                if data.startswith((b"GET ", b"POST ")):
                    self._kill()

    def _kill(self) -> None:
        """Count a request, and kill a process a moment later if it is time."""
        with self.lock:
            self.requests += 1
            number = self.requests
        if number in self.kill_giver | self.kill_taker:
            time.sleep(random.random() / 20)  # also after the answer, or in a commit
        if number in self.kill_giver:
            self.giver.kill_worker()
            self.killed.append("giver")
        if number in self.kill_taker and self.taker is not None and self.taker.poll() is None:
            self.taker.kill()
            self.killed.append("taker")


@dataclass
class Probe:
    """Asks for the states of random items until it is stopped.

    The taker is asked before the giver: an item that is an Original at the taker has left the giver
    before.
    """

    giver: Server
    taker: Server
    wrong: list[str] = field(default_factory=list)
    asked: int = 0
    stopped: Event = field(default_factory=Event)

    def run(self) -> None:
        while not self.stopped.is_set():
            ibi = name(random.randrange(ITEMS))
            states = [self.taker.ask_state(ibi), self.giver.ask_state(ibi)]
            if states.count("Original") > 1:
                self.wrong.append(ibi)
            self.asked += 1
            self.stopped.wait(0.05)  # the servers have other work, too


def move(giver: Server, taker: Server) -> None:
    """Move all items."""
    # the requests without faults: for each page the page and the switch, and the files
    expected = 2 * -(-ITEMS // 50) + ITEMS // FILES
    network = Network(
        giver,
        kill_giver=set(random.sample(range(2, expected * 3 // 4), KILLS)),
        kill_taker=set(random.sample(range(2, expected * 3 // 4), KILLS)),
    )
    probe = Probe(giver, taker)
    address = giver.run("offer", "--all", "--to", taker.service)
    through = address.replace(giver.address, network.address)
    watching = Thread(target=probe.run)
    watching.start()
    begin, runs, refused = time.monotonic(), 0, 0
    try:
        while True:
            runs += 1
            network.taker = taker.start("accept", "-")
            out, err = network.taker.communicate(through)
            refused += out.count("\n")
            if network.taker.returncode == 0:
                break
            # killed, or the giver did not answer in time
            assert network.taker.returncode in (-signal.SIGKILL, 1), err
            assert runs < 10 * KILLS, err
    finally:
        network.taker = None
        probe.stopped.set()
        watching.join()
        network.listener.close()
    print(
        f"{ITEMS} items in {time.monotonic() - begin:.0f} s, {runs} runs, {network.requests} "
        f"requests, {network.lost} lost answers, killed {network.killed.count('giver')} times the "
        f"giver and {network.killed.count('taker')} times the taker; asked {probe.asked} times; "
        f"{refused} refusals"
    )
    assert probe.wrong == []
    assert probe.asked > 0
    assert network.killed.count("taker") > KILLS // 2


def contents(archive: Archive) -> dict[str, Any]:
    """Return what must be the same after a move; ``verify`` compares the files."""
    found = {}
    for record in archive.list_records():
        files = {file.path: file.sha256 for file in record.files}
        found[str(record.rep)] = (record.state, files, record.next_edition, record.same_as)
    return found


@pytest.mark.slow
@pytest.mark.rule("MV-3", "MV-5")
@pytest.mark.parametrize("backends", [("sqlite", "sqlite"), ("postgresql", "sqlite")])
def test_each_item_has_one_original_although_both_sides_are_killed(
    backends: tuple[str, str], tmp_path: Path
) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    with (
        serving(backends[0], tmp_path / "first", 1) as first,
        serving(backends[1], tmp_path / "second", 2) as second,
    ):
        import_records(first.archive, list(write_records(sources)), sources)
        before = contents(first.archive)
        for giver, taker in ((first, second), (second, first)):
            move(giver, taker)
            assert contents(taker.archive) == before
            assert {state for state, *_ in contents(giver.archive).values()} == {"Copy"}
            for server in (giver, taker):
                server.run("verify")
