"""IBI_REGISTER_ON_START: once per start of the server, whatever its processes are."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest
import requests
import responses
from click.testing import CliRunner
from flask import Flask
from flask.cli import FlaskGroup
from support.archives import SERVICE, archive_of, close, make_app
from support.commands import ROOT, command
from support.loopback import (
    EXCLUDED,
    PATIENCE,
    SUCCESSFUL,
    UNSUCCESSFUL,
    Resolver,
    includes,
    serving,
)

from flask_ibi_archive.archive.registration import start
from flask_ibi_archive.archive.registration.inclusion import Registrar
from flask_ibi_archive.archive.registration.start import (
    Starter,
    is_first,
    lock_name,
    register_on_start,
)
from flask_ibi_archive.storage.registration import find_registration

NewApp = Callable[..., Flask]

PROGRAM = Path(__file__).with_name("starting_server.py")
PROCESSES = 3
KEY = "1234567890-9876543210"
OWN = f"http://mtc-m16c.sid.inpe.br/{SERVICE}"
RESOLVER = "http://urlib.net/J8LNKB5R7W/3FUQHC5"
SETTINGS = {"IBI_REGISTRATION_KEY": KEY, "IBI_ARCHIVE_ADMIN_EMAIL": "banon@dpi.inpe.br"}

posix = pytest.mark.skipif(os.name != "posix", reason="there are no such locks")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


# --- real processes ------------------------------------------------------------------------------


class Server:
    """The processes of a server, which share a socket."""

    def __init__(self, uri: str, folder: Path, listener: socket.socket, resolver: str) -> None:
        self.running: list[subprocess.Popen[str]] = []
        self.listener = listener
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        self.words = [uri, str(folder), str(listener.fileno()), address, f"http://{resolver}"]

    def start(self, number: int = 1) -> list[subprocess.Popen[str]]:
        """Start so many processes at once."""
        begun = [
            subprocess.Popen(
                [sys.executable, str(PROGRAM), *self.words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
                pass_fds=[self.listener.fileno()],
            )
            for _ in range(number)
        ]
        self.running += begun
        return begun

    def kill(self, process: subprocess.Popen[str]) -> None:
        """Kill a process."""
        process.kill()
        process.communicate()
        self.running.remove(process)

    def stop(self) -> list[str]:
        """Stop the processes; give what they still said."""
        said = [
            line for process in self.running for line in process.communicate("\n")[0].split("\n")
        ]
        self.running = []
        return [line for line in said if line]


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@posix
def test_the_archive_is_included_once_per_start_of_its_server(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'ibi.sqlite'}"
    resolver = Resolver(includes)
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as listener,
        serving(resolver) as far,
    ):
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        app = make_app(uri, tmp_path, IBI_ARCHIVE_ADDRESS=address)
        archive_of(app).init()
        server = Server(uri, tmp_path, listener, far)
        try:
            for processes in (PROCESSES, 2):
                begun = server.start(processes)
                elected = {process: line_of(process) for process in begun}
                assert sorted(elected.values()) == ["first", *["follows"] * (processes - 1)]
                query = resolver.asked.get(timeout=PATIENCE)
                assert query.startswith("servicesubject=inclusionRequest&")
                first = next(process for process, said in elected.items() if said == "first")
                assert line_of(first) == f"INFO the Archive is included on start: {SUCCESSFUL}"
                # who is replaced while others live: the server was not started anew
                server.kill(first)
                [successor] = server.start()
                assert line_of(successor) == "follows"
                assert server.stop() == []
        finally:
            for process in list(server.running):
                server.kill(process)
        # nobody is left who could have asked
        assert resolver.asked.empty()
        archive = archive_of(app)
        record = archive.database.read(
            lambda connection: find_registration(connection, archive.served().id)
        )
        close(app)
    assert record is not None
    assert record.address == address
    assert record.confirmed_at is not None


FORK = """
import os, sys
from pathlib import Path
from flask_ibi_archive.archive.registration.start import is_first
print(is_first(Path(sys.argv[1]), "x"), flush=True)
if os.fork():
    os._exit(0)
sys.stdin.readline()
"""
ASK = """
import sys
from pathlib import Path
from flask_ibi_archive.archive.registration.start import is_first
print(is_first(Path(sys.argv[1]), "x"))
"""


@posix
def test_a_forked_child_keeps_the_server_alive(tmp_path: Path) -> None:
    def ask() -> str:
        return subprocess.check_output(
            [sys.executable, "-c", ASK, str(tmp_path)], text=True
        ).strip()

    with subprocess.Popen(
        [sys.executable, "-c", FORK, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        assert parent.stdout.readline() == "True\n"
        assert parent.wait(PATIENCE) == 0
        assert ask() == "False"
        parent.stdin.close()
        assert parent.stdout.read() == ""  # closed by the child's end
    assert ask() == "True"


# --- the lock ------------------------------------------------------------------------------------


@pytest.fixture
def _shares(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What this process has a share in, given up afterwards."""
    shares: list[int] = []
    monkeypatch.setattr(start, "_alive_files", shares)
    yield
    for share in shares:
        os.close(share)


@posix
@pytest.mark.usefixtures("_shares")
def test_the_first_is_the_first_of_its_archive_alone(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    assert is_first(folder, "one")
    assert not is_first(folder, "one")
    assert is_first(folder, "two")
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_where_there_are_no_locks_each_process_is_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "fcntl", None)
    assert is_first(tmp_path, "x")
    assert is_first(tmp_path, "x")


@pytest.mark.parametrize("uri", ["sqlite://"])
def test_archives_of_one_folder_have_locks_of_their_own(new_app: NewApp) -> None:
    configs = [
        archive_of(new_app(**more)).config
        for more in (
            {},
            {"IBI_ARCHIVE_ADDRESS": "mtc-m99.sid.inpe.br"},
            {"IBI_ARCHIVE_SERVICE_IBI": "sid.inpe.br/mtc-m99/2008/03.17.15.17"},
        )
    ]
    assert len({lock_name(config) for config in configs}) == 3


@pytest.mark.parametrize("uri", ["sqlite://"])
def test_a_lock_that_can_not_be_kept_is_a_line_in_the_log(
    new_app: NewApp, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    app = new_app(**SETTINGS)
    assert not register_on_start(archive_of(app), tmp_path / "file" / "x", app.logger)
    [line] = caplog.messages
    assert line.startswith("the Archive is not included on start: no lock file can be created in ")
    assert "flask ibi register-archive" in line


# --- what the first does -------------------------------------------------------------------------


class Start:
    """A start whose clock moves with its waits alone."""

    def __init__(self, app: Flask) -> None:
        self.time = 0.0
        self.waits: list[float] = []
        self.starter = Starter(archive_of(app), app.logger)
        registrar = self.starter.registrar
        registrar.clock, registrar.wait = lambda: self.time, self.wait
        registrar.chance = lambda: 1.0

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.time += seconds


@pytest.fixture
def started(uri: str, new_app: NewApp, caplog: pytest.LogCaptureFixture) -> Flask:
    """An Archive that is set up, with all that is logged of it kept."""
    app = new_app(**SETTINGS)
    archive_of(app).init()
    app.logger.setLevel(logging.INFO)
    caplog.clear()
    return app


def outcome(caplog: pytest.LogCaptureFixture) -> tuple[str, str]:
    """Return level and text of the one line that was logged."""
    [record] = [record for record in caplog.records if record.name == "test_app"]
    assert KEY not in caplog.text
    assert record.exc_info is None
    return record.levelname, record.getMessage()


memory = pytest.mark.parametrize("uri", ["sqlite://"])


@memory
@pytest.mark.parametrize(
    ("answer", "level", "said"),
    [
        ({"body": SUCCESSFUL}, "INFO", f"the Archive is included on start: {SUCCESSFUL}"),
        (
            {"body": UNSUCCESSFUL},
            "WARNING",
            f"the Archive is included on start, but not confirmed: {UNSUCCESSFUL}",
        ),
        (
            {"body": "alert {unknown key}", "status": 403},
            "WARNING",
            f"the Archive is not included on start: the resolver {RESOLVER} refuses: unknown key; ",
        ),
        ({"body": EXCLUDED}, "WARNING", "the Archive is not included on start: the resolver "),
    ],
)
def test_it_waits_for_the_own_address_then_logs_what_the_resolver_says(
    started: Flask, caplog: pytest.LogCaptureFixture, answer: dict[str, Any], level: str, said: str
) -> None:
    start = Start(started)
    with responses.RequestsMock() as mock:
        mock.get(OWN, status=502)
        mock.get(OWN, body="confirmation yes")
        mock.get(RESOLVER, **answer)
        start.starter.run()
    assert start.waits == [0.1]
    assert outcome(caplog)[0] == level
    assert outcome(caplog)[1].startswith(said)


@memory
def test_an_archive_that_never_answers_is_not_included(
    started: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    start = Start(started)
    with responses.RequestsMock() as mock:
        mock.get(OWN, body="It works!")
        start.starter.run()
    assert start.time < 60
    assert start.waits[:6] == [0.1, 0.2, 0.4, 0.8, 1.6, 2]
    level, text = outcome(caplog)
    assert level == "WARNING"
    assert f"{OWN} answers 200 'It works!' instead of 'confirmation yes'; run: flask ibi" in text


@memory
def test_an_archive_that_does_not_reach_its_own_address_is_included_all_the_same(
    started: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    start = Start(started)
    with responses.RequestsMock() as mock:
        mock.get(OWN, body=requests.ConnectTimeout())
        mock.get(RESOLVER, body=SUCCESSFUL)
        start.starter.run()
        assert mock.calls[-1].request.url.startswith(RESOLVER)
    assert 58 < start.time < 60
    waited, included = [record for record in caplog.records if record.name == "test_app"]
    assert waited.getMessage().endswith("; the resolver is asked to include the Archive anyway")
    assert included.getMessage() == f"the Archive is included on start: {SUCCESSFUL}"
    assert KEY not in caplog.text


@memory
def test_an_archive_that_is_not_set_up_is_told_and_not_asked_for(
    new_app: NewApp, caplog: pytest.LogCaptureFixture
) -> None:
    Start(new_app(**SETTINGS)).starter.run()
    level, text = outcome(caplog)
    assert level == "WARNING"
    assert text.endswith("run: flask ibi init")


@memory
def test_a_missing_setting_is_told_at_once(
    new_app: NewApp, caplog: pytest.LogCaptureFixture
) -> None:
    app = new_app()
    archive_of(app).init()
    caplog.clear()
    Start(app).starter.run()
    assert "IBI_REGISTRATION_KEY is not set" in outcome(caplog)[1]


def test_a_copy_of_the_database_does_not_include_itself(
    new_app: NewApp, caplog: pytest.LogCaptureFixture
) -> None:
    first = new_app(**SETTINGS)
    archive_of(first).init()
    with responses.RequestsMock() as mock:
        mock.get(RESOLVER, body=SUCCESSFUL)
        Registrar(archive_of(first)).include()
    caplog.clear()
    clone = new_app(**SETTINGS, IBI_ARCHIVE_ADDRESS="staging.sid.inpe.br")
    with responses.RequestsMock() as mock:
        mock.get(f"http://staging.sid.inpe.br/{SERVICE}", body="confirmation yes")
        Start(clone).starter.run()
    assert "but the Archive is registered at mtc-m16c.sid.inpe.br" in outcome(caplog)[1]


@memory
def test_a_fault_is_a_line_without_a_traceback(
    started: Flask, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*words: object, **options: object) -> None:
        raise RuntimeError(KEY)

    start = Start(started)
    monkeypatch.setattr(start.starter, "_wait_for_own_address", fail)
    start.starter.run()
    assert outcome(caplog) == ("ERROR", "the Archive is not included on start: RuntimeError")


# --- where it starts -----------------------------------------------------------------------------


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The instance folders of the apps that have begun to register."""
    begun: list[Path] = []

    def register(archive: object, folder: Path, logger: object) -> bool:
        begun.append(folder)
        return True

    monkeypatch.setattr(start, "register_on_start", register)
    return begun


@memory
def test_an_app_that_a_server_makes_starts_it(
    new_app: NewApp, starts: list[Path], tmp_path: Path
) -> None:
    new_app(**SETTINGS, IBI_REGISTER_ON_START=True)
    assert starts == [tmp_path / "instance"]
    new_app(**SETTINGS)
    assert len(starts) == 1


@memory
@pytest.mark.parametrize(
    ("words", "begun"),
    [
        (["ibi", "list"], 0),
        (["ibi", "init"], 0),
        (["ibi", "register-archive"], 0),
        (["routes"], 0),
        (["shell"], 0),
        (["greet"], 0),
        (["--help"], 0),
        (["run", "--port", "1"], 1),
        (["run", "--port", "1", "--debug", "--no-reload"], 1),
    ],
)
def test_flask_run_starts_it_and_no_other_command(
    new_app: NewApp,
    starts: list[Path],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    begun: int,
) -> None:
    def create_app() -> Flask:
        app = new_app(**SETTINGS, IBI_REGISTER_ON_START=True)
        app.cli.add_command(click.Command("greet", callback=lambda: click.echo("hello")))
        return app

    monkeypatch.setattr("flask.cli.run_simple", lambda *words, **options: None)
    monkeypatch.delenv("FLASK_RUN_FROM_CLI", raising=False)
    group = FlaskGroup(create_app=create_app, set_debug_flag=False)
    result = CliRunner().invoke(group, words, input="")
    assert "Traceback" not in result.output
    assert len(starts) == begun


@memory
def test_our_commands_alone_start_nothing(new_app: NewApp, starts: list[Path]) -> None:
    command(lambda: new_app(**SETTINGS, IBI_REGISTER_ON_START=True), "init")
    assert starts == []
