"""check: before a real server on loopback, and before all kinds of odd ones."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic

import pytest
import requests
import responses
from flask import Flask
from support.archives import SERVICE, archive_of
from support.commands import Outcome, command
from werkzeug.serving import WSGIRequestHandler, make_server

from flask_ibi_archive.archive import checking

NewApp = Callable[..., Flask]

ADDRESS = f"http://mtc-m16c.sid.inpe.br/{SERVICE}"
RESOLVER = "http://urlib.net/J8LNKB5R7W/3FUQHC5"
CONFIRMS = "confirmation yes"


class QuietHandler(WSGIRequestHandler):
    """Writes no log."""

    def log(self, type: str, message: str, *args: object) -> None:
        """Leave the log out."""


@contextmanager
def listening() -> Iterator[tuple[socket.socket, str]]:
    """Return a socket that listens on a free port, and its address."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener, f"127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def serving(listener: socket.socket, app: Flask) -> Iterator[None]:
    """Serve a WSGI app on a socket."""
    server = make_server("127.0.0.1", 0, app, request_handler=QuietHandler, fd=listener.fileno())
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def resolver(status: int) -> Flask:
    """Return a stand-in for the resolver."""
    app = Flask("resolver")
    app.add_url_rule("/<path:path>", "any", lambda path: ("a resolver", status))
    return app


def findings(outcome: Outcome) -> dict[str, tuple[bool, str]]:
    """Return what check has printed: by name, whether it is well, and the line."""
    assert outcome.err == ""
    found = {}
    for line in outcome.out.splitlines():
        name, text = line[5:].split(": ", 1)
        found[name] = (line[:5] == "ok   ", text)
        assert line[:5] in ("ok   ", "FAIL ")
    assert outcome.status == (0 if all(ok for ok, _ in found.values()) else 1)
    assert list(found) == [
        "configuration",
        "database",
        "files",
        "address",
        "resolver",
        "registration",
    ]
    return found


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def mocked() -> Iterator[responses.RequestsMock]:
    """Answers in place of the network: confirms, and is a resolver, unless told otherwise."""
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        mock.get(ADDRESS, body=CONFIRMS)
        mock.get(RESOLVER, body="a resolver")
        yield mock


@pytest.mark.parametrize("status", [200, 404, 500, 503])
def test_check_asks_the_real_servers(new_app: NewApp, status: int) -> None:
    with ExitStack() as stack:
        own, address = stack.enter_context(listening())
        far, resolver_address = stack.enter_context(listening())
        app = new_app(
            IBI_ARCHIVE_ADDRESS=address,
            IBI_MINT_HOST="mtc-m18.sid.inpe.br",
            IBI_RESOLVER_URL=f"http://{resolver_address}/J8LNKB5R7W/3FUQHC5",
        )
        command(app, "init")
        stack.enter_context(serving(own, app))
        stack.enter_context(serving(far, resolver(status)))
        found = findings(command(app, "check"))
    assert found == {
        "configuration": (True, f"the Archive is at {address}, and can give identifiers"),
        "database": (True, f"up to date; the service is {SERVICE}"),
        "files": (True, f"{archive_of(app).config.files_folder} can be written"),
        "address": (True, f"http://{address}/{SERVICE} answers"),
        "resolver": (
            status < 500,
            f"http://{resolver_address}/J8LNKB5R7W/3FUQHC5 answers"
            + (f" with status {status}; try again later" if status >= 500 else ""),
        ),
        "registration": (
            True,
            "not registered yet; for a registration key run: flask ibi generate-key",
        ),
    }


def test_check_finds_that_another_archive_is_at_the_address(new_app: NewApp) -> None:
    with ExitStack() as stack:
        own, address = stack.enter_context(listening())
        settings = {
            "IBI_ARCHIVE_ADDRESS": address,
            "IBI_MINT_HOST": "mtc-m18.sid.inpe.br",
            "IBI_RESOLVER_URL": f"http://{address}",
        }
        command(new_app(**settings), "init")
        other = new_app(**settings, IBI_ARCHIVE_SERVICE_IBI="sid.inpe.br/mtc-m99/2008/03.17.15.17")
        command(other, "init")
        stack.enter_context(serving(own, other))
        ok, text = findings(command(new_app(**settings), "check"))["address"]
    assert not ok
    assert f"/{SERVICE} answers 404 " in text


def test_check_gives_the_same_as_json(app: Flask, mocked: responses.RequestsMock) -> None:
    outcome = command(app, "check", "--json")
    assert outcome.status == 0
    told = json.loads(outcome.data)
    assert {one["name"]: (one["ok"], one["text"]) for one in told} == findings(
        command(app, "check")
    )
    mocked.replace(responses.GET, RESOLVER, status=500)
    outcome = command(app, "check", "--json")
    assert (outcome.status, outcome.err) == (1, "")
    assert [one["ok"] for one in json.loads(outcome.out)] == [True, True, True, True, False, True]


def test_check_asks_for_a_confirmation(app: Flask, mocked: responses.RequestsMock) -> None:
    command(app, "check")
    [own, far] = [call.request.url for call in mocked.calls]
    assert own == f"{ADDRESS}?servicesubject=inclusionConfirmationRequest"
    assert far == RESOLVER


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"body": "<html>It works!</html>"}, "answers 200 '<html>It works!</html>' instead of"),
        ({"body": "confirmation no"}, "answers 200 'confirmation no' instead of"),
        ({"body": ""}, "answers 200 '' instead of"),
        ({"body": CONFIRMS + " " + "x" * 5000}, "instead of 'confirmation yes'"),
        ({"body": "\0\r\n\x1b[2J" * 3}, r"answers 200 '\x00\r\n\x1b[2J"),
        ({"body": "<html>", "status": 500}, "answers 500 '<html>' instead of"),
        (
            {"status": 301, "headers": {"Location": "https://example.org/"}},
            "answers 301 '' instead",
        ),
        ({"body": requests.Timeout("slow")}, "took too long; see that IBI_ARCHIVE_ADDRESS"),
        (
            {"body": requests.ConnectionError("no")},
            "can't be reached; see that IBI_ARCHIVE_ADDRESS",
        ),
        ({"body": requests.exceptions.SSLError("no")}, "can't be reached over TLS; see that"),
    ],
)
def test_an_odd_answer_at_the_address_is_a_line_and_status_1(
    app: Flask, mocked: responses.RequestsMock, answer: dict[str, object], said: str
) -> None:
    mocked.replace(responses.GET, ADDRESS, **answer)
    found = findings(command(app, "check"))
    assert [ok for ok, _ in found.values()] == [True, True, True, False, True, True]
    assert said in found["address"][1]
    assert found["address"][1].startswith(ADDRESS)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"status": 500}, "answers with status 500"),
        ({"body": requests.Timeout("slow")}, "took too long; see that IBI_RESOLVER_URL"),
        ({"body": requests.ConnectionError("no")}, "can't be reached; see that IBI_RESOLVER_URL"),
    ],
)
def test_an_odd_answer_of_the_resolver_is_a_line_and_status_1(
    app: Flask, mocked: responses.RequestsMock, answer: dict[str, object], said: str
) -> None:
    mocked.replace(responses.GET, RESOLVER, **answer)
    found = findings(command(app, "check"))
    assert [ok for ok, _ in found.values()] == [True, True, True, True, False, True]
    assert said in found["resolver"][1]


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nno!",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nno!\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nconfirmation yes",
        b"HTTP/1.1 999 ?\r\nContent-Type: text/plain; charset=none\r\n\r\n\xff\xfe",
    ],
)
@pytest.mark.parametrize("uri", ["sqlite://"])
def test_what_speaks_no_right_http_is_a_line_and_status_1(new_app: NewApp, sent: bytes) -> None:
    def answer() -> None:
        for _ in range(2):
            peer = listener.accept()[0]
            with peer:
                peer.recv(65536)
                peer.sendall(sent)

    with listening() as (listener, address):
        app = new_app(IBI_ARCHIVE_ADDRESS=address, IBI_RESOLVER_URL=f"http://{address}/x")
        command(app, "init")
        thread = Thread(target=answer)
        thread.start()
        try:
            found = findings(command(app, "check"))
        finally:
            for _ in range(2):
                socket.create_connection(listener.getsockname()).close()
            thread.join()
    assert not found["address"][0]


@pytest.mark.parametrize("uri", ["sqlite://"])
def test_an_address_where_nobody_listens_can_not_be_reached(new_app: NewApp) -> None:
    with listening() as (_, address):
        pass
    app = new_app(IBI_ARCHIVE_ADDRESS=address, IBI_RESOLVER_URL=f"http://{address}")
    command(app, "init")
    found = findings(command(app, "check"))
    assert "can't be reached" in found["address"][1]
    assert "can't be reached" in found["resolver"][1]


@pytest.mark.parametrize("uri", ["sqlite://"])
def test_a_server_that_does_not_answer_in_time_takes_too_long(
    new_app: NewApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "TIMEOUT", 0.05)
    with listening() as (_, address):
        app = new_app(IBI_ARCHIVE_ADDRESS=address, IBI_RESOLVER_URL=f"http://{address}")
        command(app, "init")
        found = findings(command(app, "check"))
    assert "took too long" in found["address"][1]
    assert "took too long" in found["resolver"][1]


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n"])
@pytest.mark.parametrize("uri", ["sqlite://"])
def test_a_server_that_drips_takes_too_long(
    new_app: NewApp, monkeypatch: pytest.MonkeyPatch, head: bytes
) -> None:
    def drip(peer: socket.socket) -> None:
        with peer, suppress(OSError):
            peer.sendall(head or b"HTTP/1.1 200 OK\r\nX-Drips: ")
            while not done.wait(0.05):
                peer.sendall(b"x")

    def answer() -> None:
        for _ in range(2):
            drips.append(Thread(target=drip, args=(listener.accept()[0],)))
            drips[-1].start()

    monkeypatch.setattr(checking, "TIMEOUT", 0.5)
    done, drips = Event(), list[Thread]()
    with listening() as (listener, address):
        app = new_app(IBI_ARCHIVE_ADDRESS=address, IBI_RESOLVER_URL=f"http://{address}")
        command(app, "init")
        drips.append(Thread(target=answer))
        drips[0].start()
        before = monotonic()
        found = findings(command(app, "check"))
        took = monotonic() - before
        drips[0].join()
        done.set()
        for thread in drips:
            thread.join()
    assert "took too long" in found["address"][1]
    assert "took too long" in found["resolver"][1]
    assert took < 5


def test_check_tries_the_folder_of_files_and_leaves_nothing_there(
    new_app: NewApp, mocked: responses.RequestsMock, tmp_path: Path
) -> None:
    folder = tmp_path / "kept" / "files"
    app = new_app(IBI_FILES_FOLDER=str(folder))
    command(app, "init")
    assert findings(command(app, "check"))["files"] == (True, f"{folder} can be written")
    assert list(folder.iterdir()) == []
    folder.rmdir()
    ok, text = findings(command(app, "check"))["files"]
    assert not ok
    assert text.startswith(f"the folder of files is missing ({folder}); see that IBI_FILES_FOLDER")
    assert not folder.exists()


@pytest.mark.parametrize("name", ["file", "file/files"])
def test_check_tells_of_a_folder_of_files_that_is_none(
    new_app: NewApp, mocked: responses.RequestsMock, tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").touch()
    app = new_app(IBI_FILES_FOLDER=str(tmp_path / name))
    assert f"the folder of files {tmp_path / name} can't be written: " in command(app, "init").error
    ok, text = findings(command(app, "check"))["files"]
    assert not ok
    assert text.startswith(f"the folder of files is missing ({tmp_path / name}); ")
    assert "IBI_FILES_FOLDER" in text


@pytest.mark.no_tables
def test_check_before_init_says_to_run_it_and_does_not_try_the_address(
    new_app: NewApp, mocked: responses.RequestsMock
) -> None:
    found = findings(command(new_app(), "check"))
    assert found["database"] == (False, "the database has none of our tables; run: flask ibi init")
    assert found["address"][1].startswith("not tried: ")
    assert [call.request.url for call in mocked.calls] == [RESOLVER]


def test_check_tells_of_settings_that_do_not_allow_to_mint(
    new_app: NewApp, mocked: responses.RequestsMock
) -> None:
    app = new_app(IBI_ARCHIVE_IP=None)
    command(app, "init")
    found = findings(command(app, "check"))
    assert found["configuration"][1].startswith("IBI_ARCHIVE_IP is not set")
    assert [ok for ok, _ in found.values()] == [False, True, True, True, True, True]
