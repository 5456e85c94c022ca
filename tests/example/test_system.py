"""The example of the whole system, started as on the page about it: two Archives and a resolver."""

from __future__ import annotations

import json
import re
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests
from support.commands import ROOT, Outcome, environment, python
from support.loopback import PATIENCE, free_ports

PAGE = (ROOT / "docs/try-the-example.rst").read_text(encoding="utf-8")
IBI = "8JMKD3MGP8W/35MMLL8"
INCLUDED = "status.archive included status.confirmation successful"
NEW_EDITION = "sid.inpe.br/mtc-m18/2012/07.12.18.08"


class System:
    """The running example.

    :param port: the resolver's port.
    :param output: the output of the command until the servers were running.
    """

    def __init__(self, port: int, output: str) -> None:
        self.port = port
        self.output = output

    def here(self, text: str) -> str:
        """Return a text of the page with the ports of this system."""
        return re.sub(
            r"localhost:500(\d)", lambda found: f"localhost:{self.port + int(found[1])}", text
        )

    def get(self, url: str, **headers: str) -> requests.Response:
        """Send a request to this computer, without following redirects."""
        assert urlsplit(url).hostname == "localhost"
        return requests.get(url, headers=headers, timeout=PATIENCE, allow_redirects=False)

    def leads_to(self, target: str, **headers: str) -> str:
        """Return the URL to which the resolver redirects a persistent URL."""
        answer = self.get(f"http://localhost:{self.port}/{target}", **headers)
        assert answer.status_code == 302, answer.text
        return answer.headers["Location"]


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
        # a shell starts background processes with a disabled Ctrl-C
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
            rest, _ = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert (process.returncode, rest.strip()) == (0, "")


def test_the_running_system(system: System) -> None:
    """One test, so that parallel test processes start the system only once."""
    check_output(system)
    check_commands(system)
    check_example_of_the_page(system)
    check_translations(system)
    check_local_resolution(system)
    check_publications(system)


def check_output(system: System) -> None:
    """Check that both Archives are included and that the pages in the output exist."""
    assert system.output.count(INCLUDED) == 2
    assert "Error" not in system.output
    pages = re.findall(r"http://localhost:\d+/\S*(?=  )", system.output)
    assert len(pages) == 4
    # one line for each thing that was done, and no commands
    done, _, _ = system.output.partition("The system is running.")
    assert len(done.splitlines()) <= 8
    assert "$ flask" not in done
    # the second repository shows its items with titles and authors
    second = system.get(pages[1], Accept="text/html").text
    cards = re.findall("<li>\n<h2><a[^>]*>(.*?)</a></h2>\n<p>(.+?)</p>", second)
    assert len(cards) == 5
    for page in pages:
        answer = system.get(page, Accept="text/html")
        assert (answer.status_code, "<title>" in answer.text) == (200, True)


def check_commands(system: System) -> None:
    """Check that the commands in the output work."""
    printed = re.findall(r"^  (\. .*)\n  \S*flask (--app .*)$", system.output, re.MULTILINE)
    (archive, listing), (resolver, resolving) = printed
    assert "Annual report of the observatory" in run(archive, listing)
    assert "/doc/metadata.cgi?choice=oai_dc" in run(resolver, resolving)


def run(load: str, arguments: str) -> str:
    """Return the output of a flask command after the line that loads its settings."""
    command = f"{load}\n{shlex.quote(sys.executable)} -m flask {arguments}"
    found = subprocess.run(["sh", "-ec", command], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stdout


def check_example_of_the_page(system: System) -> None:
    """Check that the item is in the first Archive, and its last edition in the second one."""
    block = r"^    curl '(.*)'\n\n::\n\n((?:    .*\n)+)"
    [(asked, answered)] = re.findall(block, PAGE, re.MULTILINE)
    body = system.get(system.here(asked)).text
    pairs = re.sub("urlkey .*", "urlkey ...", body).splitlines()
    assert pairs == [line.strip() for line in system.here(answered).splitlines()]
    [curl] = re.findall(r"^    (curl -i .*)$", PAGE, re.MULTILINE)
    [shown] = re.findall(r"^    Location: (.*)$", PAGE, re.MULTILINE)
    answer = system.get(system.here(shlex.split(curl)[-1]))
    location = answer.headers["Location"]
    assert (answer.status_code, location) == (302, system.here(shown))
    assert urlsplit(location).port == system.port + 2
    program = system.get(location).headers["Location"]
    document = system.get(f"http://localhost:{system.port + 2}{program}")
    assert (document.status_code, "<oai_dc:dc" in document.text) == (200, True)
    location = system.leads_to(IBI)
    assert urlsplit(location).port == system.port + 1
    answer = system.get(location)
    assert (answer.status_code, answer.content[:5]) == (200, b"%PDF-")


def check_translations(system: System) -> None:
    for accept, number, file in (("pt-BR,en;q=0.5", 2, "RTC-07.pdf"), ("en", 1, "CCSDS%20643")):
        location = system.leads_to("8JMKD3MGP8W/35MME4E+", **{"Accept-Language": accept})
        assert urlsplit(location).port == system.port + number
        assert file in location


def check_local_resolution(system: System) -> None:
    """Check that an Archive resolves its own items, and redirects others to the resolver."""
    first = f"http://localhost:{system.port + 1}"
    answer = system.get(f"{first}/{IBI}")
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith(f"{first}/col/")
    for target in (NEW_EDITION, f"{IBI}!"):
        answer = system.get(f"{first}/{target}")
        assert answer.headers["Location"] == f"http://localhost:{system.port}/{target}"


def check_publications(system: System) -> None:
    """Check that the persistent URL of a publication leads to its editions and translations."""
    front = f"http://localhost:{system.port + 1}"
    page = system.get(f"{front}/?q=Amazon").text
    [path] = re.findall(r'href="([^"]+)"[^>]*>Ice clouds over the Amazon basin<', page)
    page = system.get(f"{front}{path}").text
    [ibi] = set(re.findall(rf'href="http://localhost:{system.port}/([^"]+)"', page))
    assert system.leads_to(ibi).endswith("/doc/Ice-clouds-over-the-Amazon-basin.pdf")
    assert system.leads_to(f"{ibi}!").endswith("-revised.pdf")
    answer = system.get(system.leads_to(f"{ibi}!+(pt)"))
    assert (answer.status_code, answer.content[:5]) == (200, b"%PDF-")


#: Starts the system with each of the ports, and stops it at once.
TWICE = """
import sys
from threading import Event
from example_app.__main__ import main
folder, *ports = sys.argv[1:]
stop = Event()
stop.set()
for port in ports:
    main(["--folder", folder, "--port", port], stop)
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
    with closing(sqlite3.connect(folder / "archive2/repository.sqlite")) as database:
        rows = database.execute("SELECT formats FROM ibi_item WHERE formats IS NOT NULL").fetchall()
    assert rows
    for (formats,) in rows:
        assert urlsplit(json.loads(formats)["oai_dc"]).port == second + 2
