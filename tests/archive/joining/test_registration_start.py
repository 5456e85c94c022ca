"""IBI_REGISTER_ON_START: one inclusion per start of a server with any number of processes."""

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

from flask_ibi_archive.archive.joining import start
from flask_ibi_archive.archive.joining.registrar import Registrar
from flask_ibi_archive.archive.joining.registration_state import find_registration
from flask_ibi_archive.archive.joining.start import Starter, is_first, lock_name, register_on_start

NewApp = Callable[..., Flask]

PROGRAM = Path(__file__).with_name("starting_server.py")
KEY = "1234567890-9876543210"
OWN = f"http://mtc-m16c.sid.inpe.br/{SERVICE}"
RESOLVER = "http://urlib.net/J8LNKB5R7W/3FUQHC5"
SETTINGS = {"IBI_REGISTRATION_KEY": KEY, "IBI_ARCHIVE_ADMIN_EMAIL": "banon@dpi.inpe.br"}

posix = pytest.mark.skipif(os.name != "posix", reason="the system has no such locks")


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
        """Start processes at the same time."""
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
        """Stop the processes, and return the last lines that they wrote."""
        lines = [
            line for process in self.running for line in process.communicate("\n")[0].split("\n")
        ]
        self.running = []
        return [line for line in lines if line]


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.rule("R5-05")
@pytest.mark.slow
@posix
def test_the_archive_is_included_once_at_each_start_of_its_server(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'ibi.sqlite'}"
    resolver = Resolver(includes)
    with closing(socket.create_server(("127.0.0.1", 0))) as listener, serving(resolver) as far:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        app = make_app(uri, tmp_path, IBI_ARCHIVE_ADDRESS=address)
        archive_of(app).init()
        server = Server(uri, tmp_path, listener, far)
        try:
            for number in (2, 1):
                begun = server.start(number)
                elected = {process: line_of(process) for process in begun}
                assert sorted(elected.values()) == ["first", "follows"][:number]
                query = resolver.asked.get(timeout=PATIENCE)
                assert query.startswith("servicesubject=inclusionRequest&")
                first = next(process for process, line in elected.items() if line == "first")
                assert line_of(first) == f"INFO the Archive is included on start: {SUCCESSFUL}"
                if number == 2:  # another process runs: this is not a new start of the server
                    server.kill(first)
                    [successor] = server.start()
                    assert line_of(successor) == "follows"
                assert server.stop() == []
        finally:
            for process in list(server.running):
                server.kill(process)
        # no process is left that could send another request
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
from flask_ibi_archive.archive.joining.start import is_first
print(is_first(Path(sys.argv[1]), "x"), flush=True)
if os.fork():
    os._exit(0)
sys.stdin.readline()
"""


@posix
def test_a_forked_child_holds_the_lock_of_its_parent(
    tmp_path: Path, alive_files: list[int]
) -> None:
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
        assert not is_first(tmp_path, "x")
        os.close(alive_files.pop())
        parent.stdin.close()
        assert parent.stdout.read() == ""  # the pipe is closed when the child ends
    assert is_first(tmp_path, "x")


# --- the lock ------------------------------------------------------------------------------------


@pytest.fixture
def alive_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Close the alive files of this process after the test."""
    files: list[int] = []
    monkeypatch.setattr(start, "_alive_files", files)
    yield files
    for file in files:
        os.close(file)


@posix
@pytest.mark.usefixtures("alive_files")
def test_each_archive_has_a_first_process(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    assert is_first(folder, "one")
    assert not is_first(folder, "one")
    assert is_first(folder, "two")
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_without_file_locks_each_process_is_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start, "fcntl", None)
    assert is_first(tmp_path, "x")
    assert is_first(tmp_path, "x")


def test_archives_with_one_folder_have_different_locks(new_app: NewApp) -> None:
    configs = [
        archive_of(new_app(**more)).config
        for more in (
            {},
            {"IBI_ARCHIVE_ADDRESS": "mtc-m99.sid.inpe.br"},
            {"IBI_ARCHIVE_SERVICE_IBI": "sid.inpe.br/mtc-m99/2008/03.17.15.17"},
        )
    ]
    assert len({lock_name(config) for config in configs}) == 3


def test_a_lock_file_that_cannot_be_created_is_logged(
    new_app: NewApp, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    app = new_app(**SETTINGS)
    assert not register_on_start(archive_of(app), tmp_path / "file" / "x", app.logger)
    [line] = caplog.messages
    assert line.startswith("the Archive is not included on start: lock files cannot be created in ")
    assert "flask ibi register-archive" in line


# --- the inclusion -------------------------------------------------------------------------------


class FakeStart:
    """A starter with a clock that advances only when it waits."""

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
    """An initialised Archive whose log is captured."""
    app = new_app(**SETTINGS)
    archive_of(app).init()
    app.logger.setLevel(logging.INFO)
    caplog.clear()
    return app


def outcome(caplog: pytest.LogCaptureFixture) -> tuple[str, str]:
    """Return level and text of the only log message."""
    [record] = [record for record in caplog.records if record.name == "test_app"]
    assert KEY not in caplog.text
    assert record.exc_info is None
    return record.levelname, record.getMessage()


@pytest.mark.parametrize(
    ("answer", "level", "start_of_line"),
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
            f"the Archive is not included on start: the resolver {RESOLVER} refuses "
            "the request: unknown key; ",
        ),
        ({"body": EXCLUDED}, "WARNING", "the Archive is not included on start: the resolver "),
    ],
)
def test_the_archive_is_included_after_its_own_address_answers(
    started: Flask,
    caplog: pytest.LogCaptureFixture,
    answer: dict[str, Any],
    level: str,
    start_of_line: str,
) -> None:
    begun = FakeStart(started)
    with responses.RequestsMock() as mock:
        mock.get(OWN, status=502)
        mock.get(OWN, body="confirmation yes")
        mock.get(RESOLVER, **answer)
        begun.starter.run()
    assert begun.waits == [0.1]
    assert outcome(caplog)[0] == level
    assert outcome(caplog)[1].startswith(start_of_line)


def test_an_archive_with_another_program_at_its_address_is_not_included(
    started: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    begun = FakeStart(started)
    with responses.RequestsMock() as mock:
        mock.get(OWN, body="It works!")
        begun.starter.run()
    assert begun.time < 60
    assert begun.waits[:6] == [0.1, 0.2, 0.4, 0.8, 1.6, 2]
    level, text = outcome(caplog)
    assert level == "WARNING"
    assert f"{OWN} answers 200 'It works!' instead of 'confirmation yes'; run: flask ibi" in text


def test_an_archive_that_cannot_reach_its_own_address_is_included_anyway(
    started: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    begun = FakeStart(started)
    with responses.RequestsMock() as mock:
        mock.get(OWN, body=requests.ConnectTimeout())
        mock.get(RESOLVER, body=SUCCESSFUL)
        begun.starter.run()
        assert mock.calls[-1].request.url.startswith(RESOLVER)
    assert 58 < begun.time < 60
    waited, included = [record for record in caplog.records if record.name == "test_app"]
    assert waited.getMessage().endswith("; the Archive requests inclusion nevertheless")
    assert included.getMessage() == f"the Archive is included on start: {SUCCESSFUL}"
    assert KEY not in caplog.text


def test_an_archive_that_does_not_exist_yet_is_logged(
    new_app: NewApp, caplog: pytest.LogCaptureFixture
) -> None:
    FakeStart(new_app(**SETTINGS)).starter.run()
    level, text = outcome(caplog)
    assert level == "WARNING"
    assert text.endswith("run: flask ibi init")


def test_a_missing_setting_is_logged_at_once(
    new_app: NewApp, caplog: pytest.LogCaptureFixture
) -> None:
    app = new_app()
    archive_of(app).init()
    caplog.clear()
    FakeStart(app).starter.run()
    assert "IBI_REGISTRATION_KEY is not set" in outcome(caplog)[1]


def test_a_copy_of_the_database_is_not_included(
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
        FakeStart(clone).starter.run()
    assert "but the Archive is registered at mtc-m16c.sid.inpe.br" in outcome(caplog)[1]


def test_an_unexpected_error_is_logged_without_a_traceback(
    started: Flask, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*words: object, **options: object) -> None:
        raise RuntimeError(KEY)

    begun = FakeStart(started)
    monkeypatch.setattr(begun.starter, "_wait_for_own_address", fail)
    begun.starter.run()
    assert outcome(caplog) == ("ERROR", "the Archive is not included on start: RuntimeError")


# --- the commands that start the registration ----------------------------------------------------


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The instance folders of the apps that started registration."""
    begun: list[Path] = []

    def register(archive: object, folder: Path, logger: object) -> bool:
        begun.append(folder)
        return True

    monkeypatch.setattr(start, "register_on_start", register)
    return begun


def test_the_app_of_a_server_starts_the_registration(
    new_app: NewApp, starts: list[Path], tmp_path: Path
) -> None:
    new_app(**SETTINGS, IBI_REGISTER_ON_START=True)
    assert starts == [tmp_path / "instance"]
    new_app(**SETTINGS)
    assert len(starts) == 1


def test_only_flask_run_starts_the_registration(
    new_app: NewApp, starts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def create_app() -> Flask:
        app = new_app(**SETTINGS, IBI_REGISTER_ON_START=True)
        app.cli.add_command(click.Command("greet", callback=lambda: click.echo("hello")))
        return app

    monkeypatch.setattr("flask.cli.run_simple", lambda *words, **options: None)
    group = FlaskGroup(create_app=create_app, set_debug_flag=False)
    for words, count in (
        (["ibi", "list"], 0),
        (["ibi", "init"], 0),
        (["ibi", "register-archive"], 0),
        (["routes"], 0),
        (["shell"], 0),
        (["greet"], 0),
        (["--help"], 0),
        (["run", "--port", "1"], 1),
        (["run", "--port", "1", "--debug", "--no-reload"], 1),
    ):
        starts.clear()
        monkeypatch.delenv("FLASK_RUN_FROM_CLI", raising=False)
        result = CliRunner().invoke(group, words, input="")
        assert "Traceback" not in result.output, words
        assert len(starts) == count, words


def test_a_group_of_our_commands_does_not_start_the_registration(
    new_app: NewApp, starts: list[Path]
) -> None:
    command(lambda: new_app(**SETTINGS, IBI_REGISTER_ON_START=True), "init")
    assert starts == []
