"""Programs get each identifier once, although servers are killed and answers are lost.

Quicker tests of the same are in ``test_api_keys.py`` (equal requests at the same time) and in
``tests/archive/items/test_minting_processes.py`` (processes that are killed).
"""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import pytest
from sqlalchemy import func, select
from support.archives import archive_of, close, make_app
from support.commands import ROOT
from support.loopback import PATIENCE, free_port

from flask_ibi_archive.archive.identification.api_keys import create_key
from flask_ibi_archive.archive.identification.tables import IssuedIdentifier

REQUESTS: tuple[dict[str, Any], ...] = ({}, {"count": 3}, {"reserve": True}, {"record": {}})


class Site:
    """A server with several worker processes, which are killed, and whose clock changes."""

    def __init__(self, address: str, master: int, clock: Path) -> None:
        self.address = address
        self.master = master
        self.clock = clock

    def disturb(self, dice: random.Random) -> None:
        """Kill a worker, and set the clock up to three seconds forward or back."""
        children = Path(f"/proc/{self.master}/task/{self.master}/children").read_text().split()
        if children:
            with suppress(ProcessLookupError):
                os.kill(int(dice.choice(children)), signal.SIGKILL)
        new = self.clock.with_suffix(".new")
        new.write_text(str(dice.randint(-3, 3)))
        new.replace(self.clock)


@contextmanager
def serving(uri: str, folder: Path) -> Iterator[Site]:
    """Serve the Archive with gunicorn, and wait until it answers."""
    clock = folder / "clock"
    clock.write_text("0")
    address = f"127.0.0.1:{free_port()}"
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "gunicorn", "--bind", address, "--workers", "3"),
            *("--threads", "4", "--chdir", str(Path(__file__).parent)),
            "identification_app:create_app()",
        ],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "tests"),
            "TEST_FOLDER": str(folder),
            "TEST_URI": uri,
        },
        stderr=subprocess.DEVNULL,
    )
    site = Site(address, server.pid, clock)
    try:
        Client(site, "", random.Random()).wait_for_server()
        yield site
    finally:
        server.terminate()
        server.wait()


class Client:
    """A program that repeats each request until it gets an answer."""

    def __init__(self, site: Site, key: str, dice: random.Random) -> None:
        self.site = site
        self.key = key
        self.dice = dice
        #: The kind of each request, and the identifiers in its answer.
        self.answers: list[tuple[dict[str, Any], list[str]]] = []
        self.wrong: list[str] = []

    def wait_for_server(self) -> None:
        """Wait until the server answers a request, a wrong one too."""
        deadline = time.monotonic() + PATIENCE
        while self.send({}, "first", reads=True) is None:
            assert time.monotonic() < deadline, "the server does not answer"

    def send(self, content: dict[str, Any], name: str, reads: bool) -> tuple[int, str] | None:
        """Send a request, and return status and body.

        :param reads: False: the answer is lost, because nobody reads it.
        :returns: None if there is no answer.
        """
        connection = http.client.HTTPConnection(self.site.address, timeout=PATIENCE)
        headers = {
            "Authorization": f"Bearer {self.key}",
            "Content-Type": "application/json",
            "Idempotency-Key": name,
        }
        with closing(connection), suppress(OSError, http.client.HTTPException):
            connection.request("POST", "/ibi/identifiers", json.dumps(content), headers)
            if reads:
                response = connection.getresponse()
                return response.status, response.read().decode()
        return None

    def request(self) -> None:
        """Send a random request until it is answered, and sometimes once more."""
        content, name = self.dice.choice(REQUESTS), uuid.uuid4().hex
        deadline = time.monotonic() + PATIENCE
        known: list[str] | None = None
        while known is None or self.dice.random() < 0.2:
            answer = self.send(content, name, reads=self.dice.random() < 0.8)
            if answer is None or answer[0] == 503:  # 503: the clock was set back
                assert time.monotonic() < deadline, answer
                continue
            if answer[0] != 201:
                self.wrong.append(str(answer))
                return
            issued = [each["rep"] for each in json.loads(answer[1])["identifiers"]]
            if known not in (None, issued):
                self.wrong.append(f"{known} and then {issued}")
            known = issued
        self.answers.append((content, known))


def run_clients(
    site: Site, key: str, clients: int, seconds: float, requests: int, kills: int
) -> list[Client]:
    """Let clients send requests while workers are killed, and return the clients.

    :param seconds: the clients go on for this time,
    :param requests: but send at least this number of requests together.
    :param kills: the number of requests between two kills.
    """
    running = [Client(site, key, random.Random(number)) for number in range(clients)]
    count, lock, dice = Counter[str](), Lock(), random.Random()
    end = time.monotonic() + seconds

    def work(client: Client) -> None:
        while count["requests"] < requests or time.monotonic() < end:
            client.request()
            with lock:
                count["requests"] += 1
                if count["requests"] % kills == 0:
                    site.disturb(dice)

    threads = [Thread(target=work, args=(client,)) for client in running]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return running


@pytest.mark.rule("G6-23")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("clients", "seconds", "requests", "kills"),
    [(4, 0, 60, 20), (16, 60, 1000, 60)],
    ids=["few", "sixteen"],
)
def test_each_identifier_is_issued_once_and_none_is_lost(
    uri: str, tmp_path: Path, clients: int, seconds: float, requests: int, kills: int
) -> None:
    app = make_app(uri, tmp_path, IBI_IDENTIFICATION=True)
    archive = archive_of(app)
    archive.init()
    key = create_key(
        archive.database,
        archive.served().id,
        "many clients",
        ["mint", "deposit"],
        archive.clock(),
    )
    with serving(uri, tmp_path) as site:
        finished = run_clients(site, key, clients, seconds, requests, kills)
    assert [text for client in finished for text in client.wrong] == []
    answers = [answer for client in finished for answer in client.answers]
    confirmed = [rep for _, issued in answers for rep in issued]
    assert len(answers) >= requests
    assert len(set(confirmed)) == len(confirmed)
    with archive.database.reading() as connection:
        rep, request = IssuedIdentifier.rep, IssuedIdentifier.request_id
        stored = connection.scalars(select(rep)).all()
        carried_out = connection.scalar(select(func.count(request.distinct())))
    # every request was repeated until it was answered
    assert sorted(stored) == sorted(confirmed)
    assert carried_out == len(answers)
    items = {record.rep for record in archive.list_records()}
    assert items == {issued[0] for content, issued in answers if "record" in content}
    held = {each.rep for each in archive.reservations()}
    assert held == {issued[0] for content, issued in answers if "reserve" in content}
    print(f"{len(answers)} requests, {len(confirmed)} identifiers")
    close(app)
