"""The example of the whole system: two Archives and a resolver, as the README starts them."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.commands import ROOT, Outcome, environment, python

README = (ROOT / "README.rst").read_text(encoding="utf-8")
IBI = "8JMKD3MGP8W/35MMLL8"
INCLUDED = "status.archive included status.confirmation successful"
NEW_EDITION = "sid.inpe.br/mtc-m18/2012/07.12.18.08"


def free_ports(number: int = 1) -> int:
    """Return the first of three consecutive free ports; each process searches another range.

    :param number: another number gives other ports.
    """
    first = 20_000 + os.getpid() % 1_300 * 9 + 3 * number
    for port in range(first, 60_000, 3):
        with ExitStack() as stack:
            try:
                for number in range(3):
                    stack.enter_context(socket.create_server(("127.0.0.1", port + number)))
            except OSError:
                continue
            return port
    pytest.fail("there are no three free ports in a row")


class System:
    """The running example.

    :param port: the resolver's port.
    :param output: what the command printed until the servers were running.
    """

    def __init__(self, port: int, output: str) -> None:
        self.port = port
        self.output = output

    def here(self, text: str) -> str:
        """Return a text of the README with the ports of this run."""
        return re.sub(
            r"localhost:500(\d)", lambda found: f"localhost:{self.port + int(found[1])}", text
        )

    def get(self, url: str, **headers: str) -> tuple[HTTPResponse, bytes]:
        """Request a URL of this computer, without following redirects."""
        parts = urlsplit(url)
        assert parts.hostname == "localhost"
        connection = HTTPConnection("localhost", parts.port, timeout=30)
        try:
            target = f"{parts.path}?{parts.query}" if parts.query else parts.path
            connection.request("GET", target, headers=headers)
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()

    def leads_to(self, target: str, **headers: str) -> str:
        """Return the URL to which the resolver redirects a persistent URL."""
        answer, body = self.get(f"http://localhost:{self.port}/{target}", **headers)
        assert answer.status == 302, body
        return str(answer.getheader("Location"))


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """The example, started by its command."""
    folder = tmp_path_factory.mktemp("system")
    port = free_ports()
    arguments = ["-m", "example_app", "--port", str(port), "--folder", str(folder / "data")]
    process = subprocess.Popen(
        [sys.executable, "-u", *arguments],
        cwd=ROOT,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # a shell runs background processes with Ctrl-C ignored
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    output = []
    for line in process.stdout:
        output.append(line)
        if line.startswith("Press Ctrl-C"):
            break
    else:
        pytest.fail("".join(output))
    try:
        yield System(port, "".join(output))
    finally:
        process.send_signal(signal.SIGINT)
        try:
            rest, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, rest.strip()) == (0, "")


def test_both_archives_are_included_by_real_requests(system: System) -> None:
    assert system.output.count(INCLUDED) == 2
    assert "Error" not in system.output


def test_the_readmes_request_crosses_from_one_archive_to_the_other(system: System) -> None:
    [curl] = re.findall(r"^    (curl -i .*)$", README, re.MULTILINE)
    [shown] = re.findall(r"^    Location: (.*)$", README, re.MULTILINE)
    answer, _ = system.get(system.here(shlex.split(curl)[-1]))
    assert answer.status == 302
    location = str(answer.getheader("Location"))
    assert location == system.here(shown)
    assert urlsplit(location).port == system.port + 2
    program, _ = system.get(location)
    document, body = system.get(
        f"http://localhost:{system.port + 2}{program.getheader('Location')}"
    )
    assert document.status == 200
    assert b"<oai_dc:dc" in body


def test_the_item_itself_is_in_the_first_archive(system: System) -> None:
    location = system.leads_to(IBI)
    assert urlsplit(location).port == system.port + 1
    answer, body = system.get(location)
    assert (answer.status, body[:5]) == (200, b"%PDF-")


@pytest.mark.parametrize(
    ("accept", "number", "file"), [("pt-BR,en;q=0.5", 2, "RTC-07.pdf"), ("en", 1, "CCSDS%20643")]
)
def test_a_reader_gets_the_translation_wherever_it_is(
    system: System, accept: str, number: int, file: str
) -> None:
    location = system.leads_to("8JMKD3MGP8W/35MME4E+", **{"Accept-Language": accept})
    assert urlsplit(location).port == system.port + number
    assert file in location


def test_an_archive_resolves_its_own_items_and_redirects_others_to_the_resolver(
    system: System,
) -> None:
    first = f"http://localhost:{system.port + 1}"
    answer, _ = system.get(f"{first}/{IBI}")
    assert answer.status == 302
    assert str(answer.getheader("Location")).startswith(f"{first}/col/")
    answer, _ = system.get(f"{first}/{NEW_EDITION}")
    assert answer.getheader("Location") == f"http://localhost:{system.port}/{NEW_EDITION}"
    answer, _ = system.get(f"{first}/{IBI}!")
    assert answer.getheader("Location") == f"http://localhost:{system.port}/{IBI}!"


def test_an_unknown_item_is_not_found(system: System) -> None:
    answer, body = system.get(f"http://localhost:{system.port}/8JMKD3MGP8W/35MMLL9")
    assert answer.status == 404
    assert body.startswith(b"alert {")


def test_the_pages_in_its_output_exist(system: System) -> None:
    pages = re.findall(r"http://localhost:\d+/(?= |$|\n)", system.output)
    assert len(pages) == 3
    for page in pages:
        answer, body = system.get(page, Accept="text/html")
        assert answer.status == 200
        assert b"<title>" in body


TWICE = """
import sys
from threading import Event
from example_app.__main__ import main
folder, *ports = sys.argv[1:]
at_once = Event()
at_once.set()
for port in ports:
    main(["--folder", folder, "--port", port], at_once)
"""


@pytest.mark.slow
def test_the_example_can_move_to_other_ports(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    def start(*ports: int) -> Outcome:
        return python(tmp_path, "-c", TWICE, str(folder), *map(str, ports))

    first, second = free_ports(), free_ports(2)
    with socket.create_server(("127.0.0.1", first + 2)):
        done = start(first)
    assert (done.status, done.out) == (1, "")
    assert f"Port {first + 2} is in use" in done.err
    done = start(first, second)
    assert (done.status, done.out.count(INCLUDED)) == (0, 4)
    with closing(sqlite3.connect(folder / "archive2/archive.sqlite")) as database:
        rows = database.execute("SELECT formats FROM ibi_item WHERE formats IS NOT NULL").fetchall()
    assert rows
    for (formats,) in rows:
        assert urlsplit(json.loads(formats)["oai_dc"]).port == second + 2
