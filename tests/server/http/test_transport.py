"""The HTTP client: a response in time, or an error that explains the failure without secrets."""

from __future__ import annotations

import logging
import socket
import ssl
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from threading import Event
from typing import Any

import pytest
import requests
import responses
import urllib3
from support.loopback import LOOPBACK, drips, nobody, raw, sends, serving
from werkzeug import Request, Response

from flask_ibi_archive.errors import TransportError
from flask_ibi_archive.server.http.transport import HttpResponse, fetch

SECRET = "registrationkey=1234567890-9876543210"
KEY = SECRET.partition("=")[2]
LIMITS: dict[str, Any] = {"seconds": 20, "limit": 100, "inner_hosts": LOOPBACK}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


def get(
    address: str, *, seconds: float = 20, limit: int = 100, scheme: str = "http"
) -> HttpResponse:
    url = f"{scheme}://{address}/J8LNKB5R7W"
    return fetch(url, SECRET, seconds=seconds, limit=limit, inner_hosts=LOOPBACK)


def fails(address: str, **options: float | str) -> TransportError:
    with pytest.raises(TransportError) as caught:
        get(address, **options)  # type: ignore[arg-type]
    return caught.value


def all_texts_of(error: BaseException) -> str:
    """Return all texts of an error and of its causes."""
    texts = "".join(traceback.format_exception(error))
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and one not in seen:
            seen.append(one)
            texts += f"{one!s}{one!r}{one.args}"
            waiting += [one.__cause__, one.__context__]
    return texts


def test_a_query_arrives_unchanged() -> None:
    asked: list[bytes] = []

    @Request.application
    def resolver(request: Request) -> Response:
        asked.append(request.query_string)
        return Response("confirmation yes", content_type="text/plain")

    query = "a=x%20y&b=%3F%2B%7C%22&c=Relat%F3rio&d=/:@!(),;'&e=a%40b"
    with serving(resolver) as address:
        answer = fetch(
            f"http://{address}/J8LNKB5R7W", query, seconds=20, limit=100, inner_hosts=LOOPBACK
        )
    assert asked == [query.encode()]
    assert (answer.status, answer.text, answer.complete) == (200, "confirmation yes", True)
    assert answer.headers["content-type"] == "text/plain"


def test_every_status_is_a_response_and_no_redirect_is_followed() -> None:
    for status in (201, 204, 302, 304, 404, 503):
        body = "" if status in (204, 304) else "no"
        # nobody can follow the redirect
        with serving(Response(body, status, {"Location": "http://x.invalid/"})) as address:
            assert get(address).status == status


def test_no_more_than_the_limit_is_read() -> None:
    for head in (
        HEAD + b"Content-Length: 100000\r\n\r\n",
        HEAD + b"\r\n",
        HEAD.replace(b"200 OK", b"302 Found") + b"Location: /\r\nContent-Length: 100000\r\n\r\n",
    ):
        with raw(sends(head + b"x" * 100000)) as address:
            response = get(address, limit=100)
        assert (response.body, response.complete) == (b"x" * 100, False), head
    with raw(sends(HEAD + b"Content-Length: 100\r\n\r\n" + b"x" * 100)) as address:
        assert get(address, limit=100).complete


INCOMPLETE = [
    (b"", "cut off", "closed the connection before the answer was complete", True),
    (HEAD + b"Content-Length: 900\r\n\r\nstatus", "cut off", "closed the connection", True),
    (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\nsta",
        "cut off",
        "closed the connection",
        True,
    ),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nno\r\n", "no http", "not valid HTTP", False),
    (b"SSH-2.0-OpenSSH\r\n", "no http", "sends an answer that is not valid HTTP", False),
    (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70000, "no http", "not valid HTTP", False),
    (
        HEAD + b"Content-Encoding: gzip\r\n\r\n\x1f\x8b",
        "encoding",
        "in an encoding (gzip) that",
        False,
    ),
]


def test_each_incomplete_response_has_a_kind_of_error() -> None:
    for data, kind, part, passing in INCOMPLETE:
        with raw(sends(data)) as address:
            error = fails(address)
        assert (error.kind, error.passing) == (kind, passing), data
        assert str(error).startswith(f"http://{address}/J8LNKB5R7W "), data
        assert part in str(error)


def test_an_address_where_no_server_listens_cannot_be_reached() -> None:
    with nobody() as address:
        error = fails(address)
    assert (error.kind, error.passing) == ("unreachable", True)
    assert "can't be reached (Connection refused)" in str(error)


@pytest.mark.parametrize(("code", "passing"), [("EAI_NONAME", False), ("EAI_AGAIN", True)])
def test_an_unknown_name_may_be_temporary(
    code: str, passing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*parts: object, **options: object) -> object:
        raise socket.gaierror(getattr(socket, code), "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    error = fails("urlib.invalid")
    assert (error.kind, error.passing) == ("name", passing)
    assert "can't be reached: the host name is not known (no such name)" in str(error)


def test_a_server_without_tls_is_an_error_of_tls() -> None:
    with raw(sends(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as address:
        error = fails(address, scheme="https")
    assert (error.kind, error.passing) == ("tls", False)
    assert "can't be reached over TLS" in str(error)


def test_the_error_of_a_certificate_is_shown() -> None:
    wrong = ssl.SSLCertVerificationError(1, f"https://x/?{SECRET}")
    wrong.verify_message = "certificate has expired"
    with responses.RequestsMock() as mock:
        mock.get("https://x/J8LNKB5R7W", body=requests.exceptions.SSLError(wrong))
        error = fails("x", scheme="https")
    assert str(error).endswith("can't be reached over TLS (certificate has expired)")


def test_every_exception_becomes_a_transport_error() -> None:
    for exception, kind, passing in (
        (requests.ConnectionError("no"), "unreachable", True),
        (requests.Timeout("slow"), "timeout", True),
        (requests.ConnectTimeout("slow"), "unreachable", True),
        (requests.exceptions.SSLError("no"), "tls", False),
        (requests.exceptions.InvalidURL("no"), "url", False),
        (urllib3.exceptions.ReadTimeoutError(None, "/", "slow"), "timeout", True),  # type: ignore[arg-type]
        (urllib3.exceptions.LocationParseError("x"), "url", False),
        (RuntimeError("a fault"), "unreachable", False),
    ):
        with responses.RequestsMock() as mock:
            mock.get("http://x/J8LNKB5R7W", body=exception)
            error = fails("x")
        assert (error.kind, error.passing) == (kind, passing), exception


def test_a_server_that_sends_slowly_takes_too_long() -> None:
    for head in (b"", b"HTTP/1.1 200 OK\r\nX-Drips: ", HEAD + b"Content-Length: 9000\r\n\r\n"):
        done = Event()
        with raw(drips(head, done)) as address:
            error = fails(address, seconds=0.2, limit=10000)
            done.set()
        assert (error.kind, error.passing) == ("timeout", True), head
        assert str(error).endswith(" took too long"), head


def test_a_look_up_that_does_not_end_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    done = Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *words, **options: done.wait() and [])
    try:
        assert fails("hangs.br", seconds=0.1).kind == "timeout"
    finally:
        done.set()


FAILURES: list[Callable[[], AbstractContextManager[str]]] = [
    nobody,
    lambda: serving(Response("", 302, {"Location": f"http://x/?{SECRET}"})),
    lambda: serving(Response("confirmation yes")),
    *(lambda case=case: raw(sends(case[0])) for case in INCOMPLETE),  # type: ignore[misc]
]


@pytest.fixture
def logged() -> Iterator[Callable[[], str]]:
    """A function that returns all log messages of every level."""
    records: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(self.format(record))

    keeper, root = Keeper(0), logging.getLogger()
    level, loggers = root.level, [root, logging.getLogger("urllib3.connectionpool")]
    root.setLevel(1)
    for logger in loggers:
        logger.addHandler(keeper)
    yield lambda: "\n".join(records)
    for logger in loggers:
        logger.removeHandler(keeper)
    root.setLevel(level)


def test_neither_an_error_nor_a_log_contains_the_query(
    logged: Callable[[], str], capfd: pytest.CaptureFixture[str]
) -> None:
    for serve in FAILURES:
        error: TransportError | None = None
        with serve() as address:
            try:
                fetch(f"http://{address}/", SECRET, **LIMITS)
            except TransportError as caught:
                error = caught
        if error is not None:
            assert KEY not in all_texts_of(error)
            assert (error.__cause__, error.__context__) == (None, None)
    assert logged().count("Starting new HTTP connection") >= len(FAILURES)
    assert KEY not in logged()
    assert KEY not in "".join(capfd.readouterr())
    assert "registrationkey=***" in logged()


def test_a_password_in_the_url_is_not_shown() -> None:
    with nobody() as address:
        error = fails(f"user:hush@{address}")
    assert str(error).startswith(f"http://{address}/")
    assert "hush" not in all_texts_of(error)
