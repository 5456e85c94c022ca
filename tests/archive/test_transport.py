"""The HTTP client: one answer in time, or an error that says what is wrong and holds no secret."""

from __future__ import annotations

import logging
import socket
import ssl
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from threading import Event
from time import monotonic

import pytest
import requests
import responses
import urllib3
from support.loopback import LOOPBACK, drips, nobody, raw, says, sends, serving

from flask_ibi_archive.archive.transport import HttpResponse, fetch
from flask_ibi_archive.errors import TransportError

SECRET = "registrationkey=1234567890-9876543210"
KEY = SECRET.partition("=")[2]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


def ask(
    address: str, *, seconds: float = 20, limit: int = 100, scheme: str = "http"
) -> HttpResponse:
    url = f"{scheme}://{address}/J8LNKB5R7W"
    return fetch(url, SECRET, seconds=seconds, limit=limit, inner_hosts=LOOPBACK)


def fails(address: str, **options: float | str) -> TransportError:
    with pytest.raises(TransportError) as caught:
        ask(address, **options)  # type: ignore[arg-type]
    return caught.value


def everything_of(error: BaseException) -> str:
    """Return all that is said of an error and of those that it came from."""
    said = "".join(traceback.format_exception(error))
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and one not in seen:
            seen.append(one)
            said += f"{one!s}{one!r}{one.args}"
            waiting += [one.__cause__, one.__context__]
    return said


def test_what_is_asked_comes_as_it_was_written() -> None:
    resolver = says("confirmation yes")
    query = "a=x%20y&b=%3F%2B%7C%22&c=Relat%F3rio&d=/:@!(),;'&e=a%40b"
    with serving(resolver) as address:
        answer = fetch(
            f"http://{address}/J8LNKB5R7W", query, seconds=20, limit=100, inner_hosts=LOOPBACK
        )
    assert resolver.asked.get() == query
    assert (answer.status, answer.text, answer.complete) == (200, "confirmation yes", True)
    assert answer.headers["content-type"] == "text/plain"


@pytest.mark.parametrize("status", [201, 204, 301, 302, 304, 400, 403, 404, 429, 500, 503])
def test_every_status_is_an_answer_and_no_redirect_is_followed(status: int) -> None:
    resolver = says("" if status in (204, 304) else "no", status, Location="http://[x:y]/?z#")
    with serving(resolver) as address:
        assert ask(address).status == status
    resolver.asked.get()
    assert resolver.asked.empty()


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"Content-Length: 100000\r\n\r\n",
        HEAD + b"\r\n",
        HEAD.replace(b"200 OK", b"302 Found") + b"Location: /\r\nContent-Length: 100000\r\n\r\n",
    ],
)
def test_no_more_is_read_than_the_limit(head: bytes) -> None:
    with raw(sends(head + b"x" * 100000)) as address:
        answer = ask(address, limit=100)
    assert (answer.body, answer.complete) == (b"x" * 100, False)


def test_an_answer_as_long_as_the_limit_is_complete() -> None:
    with raw(sends(HEAD + b"Content-Length: 100\r\n\r\n" + b"x" * 100)) as address:
        assert ask(address, limit=100).complete


def test_an_answer_in_chunks_is_put_together() -> None:
    chunks = b"Transfer-Encoding: chunked\r\n\r\n4\r\nconf\r\n3\r\nirm\r\n0\r\n\r\n"
    with raw(sends(HEAD + chunks)) as address:
        assert ask(address).text == "confirm"


ODD = [
    (b"", "cut off", "broke off before its answer was complete", True),
    (HEAD + b"Content-Length: 900\r\n\r\nstatus", "cut off", "broke off", True),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\nsta", "cut off", "broke off", True),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nno\r\n", "no http", "not speak HTTP", False),
    (b"SSH-2.0-OpenSSH\r\n", "no http", "does not speak HTTP as it should", False),
    (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70000, "no http", "does not speak HTTP", False),
    (
        HEAD + b"Content-Encoding: gzip\r\n\r\n\x1f\x8b",
        "encoding",
        "in an encoding (gzip) that",
        False,
    ),
]


@pytest.mark.parametrize(("data", "kind", "said", "passing"), ODD)
def test_what_is_no_whole_answer_is_an_error_of_its_kind(
    data: bytes, kind: str, said: str, passing: bool
) -> None:
    with raw(sends(data)) as address:
        error = fails(address)
    assert (error.kind, error.passing) == (kind, passing)
    assert str(error).startswith(f"http://{address}/J8LNKB5R7W ")
    assert said in str(error)


def test_an_address_where_nobody_listens_can_not_be_reached() -> None:
    with nobody() as address:
        error = fails(address)
    assert (error.kind, error.passing) == ("unreachable", True)
    assert "can't be reached (Connection refused)" in str(error)


@pytest.mark.parametrize(("code", "passing"), [("EAI_NONAME", False), ("EAI_AGAIN", True)])
def test_a_name_that_is_not_known_is_told_from_one_that_is_not_known_now(
    code: str, passing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*parts: object, **options: object) -> object:
        raise socket.gaierror(getattr(socket, code), "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    error = fails("urlib.invalid")
    assert (error.kind, error.passing) == ("name", passing)
    assert "can't be reached: its name is not known (no such name)" in str(error)


def test_a_server_without_tls_can_not_be_reached_over_it() -> None:
    with raw(sends(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as address:
        error = fails(address, scheme="https")
    assert (error.kind, error.passing) == ("tls", False)
    assert "can't be reached over TLS" in str(error)


def test_what_is_wrong_with_a_certificate_is_told() -> None:
    wrong = ssl.SSLCertVerificationError(1, f"https://x/?{SECRET}")
    wrong.verify_message = "certificate has expired"
    with responses.RequestsMock() as mock:
        mock.get("https://x/J8LNKB5R7W", body=requests.exceptions.SSLError(wrong))
        error = fails("x", scheme="https")
    assert str(error).endswith("can't be reached over TLS (certificate has expired)")


@pytest.mark.parametrize(
    ("raised", "kind", "passing"),
    [
        (requests.ConnectionError("no"), "unreachable", True),
        (requests.Timeout("slow"), "timeout", True),
        (requests.ConnectTimeout("slow"), "unreachable", True),
        (requests.exceptions.SSLError("no"), "tls", False),
        (requests.exceptions.InvalidURL("no"), "url", False),
        (urllib3.exceptions.ReadTimeoutError(None, "/", "slow"), "timeout", True),  # type: ignore[arg-type]
        (urllib3.exceptions.LocationParseError("x"), "url", False),
        (RuntimeError("a fault"), "unreachable", False),
    ],
)
def test_whatever_the_client_raises_becomes_an_error_of_ours(
    raised: Exception, kind: str, passing: bool
) -> None:
    with responses.RequestsMock() as mock:
        mock.get("http://x/J8LNKB5R7W", body=raised)
        error = fails("x")
    assert (error.kind, error.passing) == (kind, passing)


@pytest.mark.parametrize(
    "head", [b"", b"HTTP/1.1 200 OK\r\nX-Drips: ", HEAD + b"Content-Length: 9000\r\n\r\n"]
)
def test_a_server_that_drips_takes_too_long(head: bytes) -> None:
    done = Event()
    with raw(drips(head, done)) as address:
        before = monotonic()
        error = fails(address, seconds=0.3, limit=10000)
        took = monotonic() - before
        done.set()
    assert (error.kind, error.passing) == ("timeout", True)
    assert str(error).endswith(" took too long")
    assert took < 10


def test_no_time_at_all_is_too_short() -> None:
    done = Event()
    with raw(drips(b"", done)) as address:
        assert fails(address, seconds=0).kind == "timeout"
        done.set()


FAILURES: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "refused": nobody,
    "redirected": lambda: serving(says("", 302, Location=f"http://x/?{SECRET}")),
    "answered": lambda: serving(says("confirmation yes")),
    **{f"odd {number}": lambda case=case: raw(sends(case[0])) for number, case in enumerate(ODD)},  # type: ignore[misc]
}


@pytest.fixture
def logged() -> Iterator[Callable[[], str]]:
    """All that is logged, at the lowest level."""
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


@pytest.mark.parametrize("name", FAILURES)
def test_what_is_asked_stands_in_no_error_and_no_log(
    name: str, logged: Callable[[], str], capfd: pytest.CaptureFixture[str]
) -> None:
    with FAILURES[name]() as address:
        error: TransportError | None = None
        try:
            ask(address)
        except TransportError as caught:
            error = caught
    if error is not None:
        assert KEY not in everything_of(error)
        assert (error.__cause__, error.__context__) == (None, None)
    assert "Starting new HTTP connection" in logged()
    assert KEY not in logged()
    assert KEY not in "".join(capfd.readouterr())


def test_the_log_still_tells_that_it_was_asked(logged: Callable[[], str]) -> None:
    with serving(says("confirmation yes")) as address:
        ask(address)
    assert "registrationkey=***" in logged()


def test_a_password_in_the_url_is_not_shown() -> None:
    with nobody() as address:
        error = fails(f"user:hush@{address}")
    assert str(error).startswith(f"http://{address}/")
    assert "hush" not in everything_of(error)
