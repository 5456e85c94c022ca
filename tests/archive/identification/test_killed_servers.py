"""Programs get each identifier once, although servers are killed and answers are lost.

Quicker tests of the same are in ``test_api_keys.py`` (equal requests at the same time) and in
``tests/archive/items/test_minting_processes.py`` (processes that are killed).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import requests
from sqlalchemy import func, select
from support.archives import archive_of, close, make_app
from support.commands import ROOT
from support.loopback import PATIENCE, free_port

from flask_ibi_archive.archive.identification.keys import create_key
from flask_ibi_archive.archive.identification.server import IssuedIdentifier

REQUESTS: tuple[dict[str, Any], ...] = ({}, {"count": 3}, {"reserve": True}, {"record": {}})
#: The content of a request, and the identifiers in its answer.
Answer = tuple[dict[str, Any], list[str]]


@pytest.fixture
def site(uri: str, tmp_path: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """The address of a server, and a function that kills a worker and changes the clock."""
    clock, address, dice = tmp_path / "clock", f"127.0.0.1:{free_port()}", random.Random()
    clock.write_text("0")
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
            "TEST_FOLDER": str(tmp_path),
            "TEST_URI": uri,
        },
        stderr=subprocess.DEVNULL,
    )

    def disturb() -> None:
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        if children:
            with suppress(ProcessLookupError):
                os.kill(int(dice.choice(children)), signal.SIGKILL)
        new = clock.with_suffix(".new")
        new.write_text(str(dice.randint(-3, 3)))
        new.replace(clock)

    yield f"http://{address}/ibi/identifiers", disturb
    server.terminate()
    server.wait()


def repeat_request(url: str, key: str, dice: random.Random) -> Answer:
    """Send a random request until it is answered, and sometimes once more."""
    content, issued = dice.choice(REQUESTS), list[str]()
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": uuid.uuid4().hex}
    deadline = time.monotonic() + PATIENCE
    while not issued or dice.random() < 0.2:
        # a short timeout: nobody reads the answer, which is lost
        timeout = PATIENCE if dice.random() < 0.8 else 0.001
        with suppress(requests.RequestException):
            answer = requests.post(url, json=content, headers=headers, timeout=timeout)
            if answer.status_code != 503:  # the clock was set back
                assert answer.status_code == 201, answer.text
                reps = [each["rep"] for each in answer.json()["identifiers"]]
                assert issued in ([], reps)
                issued = reps
        assert time.monotonic() < deadline, "the server does not answer"
    return content, issued


@pytest.mark.rule("G6-23")
@pytest.mark.slow
@pytest.mark.parametrize(("clients", "count", "kills"), [(4, 60, 20), (16, 1000, 60)])
def test_each_identifier_is_issued_once_and_none_is_lost(
    uri: str,
    tmp_path: Path,
    site: tuple[str, Callable[[], None]],
    clients: int,
    count: int,
    kills: int,
) -> None:
    app = make_app(uri, tmp_path, IBI_IDENTIFICATION=True)
    archive = archive_of(app)
    archive.init()
    served = archive.served()
    key = create_key(archive.database, served.id, "ojs", ["mint", "deposit"], archive.clock())
    url, disturb = site

    def send(number: int) -> Answer:
        if number % kills == kills - 1:
            disturb()
        return repeat_request(url, key, random.Random(number))

    with ThreadPoolExecutor(clients) as threads:
        answers = list(threads.map(send, range(count)))
    confirmed = [rep for _, issued in answers for rep in issued]
    assert len(set(confirmed)) == len(confirmed)
    with archive.database.reading() as connection:
        stored = connection.scalars(select(IssuedIdentifier.rep)).all()
        repeat_keys = func.count(IssuedIdentifier.repeat_key.distinct())
        carried_out = connection.scalar(select(repeat_keys))
    # every request was repeated until it was answered
    assert sorted(stored) == sorted(confirmed)
    assert carried_out == count
    items = {record.rep for record in archive.list_records()}
    assert items == {issued[0] for content, issued in answers if "record" in content}
    held = {each.rep for each in archive.reservations()}
    assert held == {issued[0] for content, issued in answers if "reserve" in content}
    close(app)
