"""Questions to Archives: answers, limits, connections, acknowledgments, and Archives that fail."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from queue import SimpleQueue
from time import monotonic
from typing import Any

import pycurl
import pytest
from support.archive_servers import (
    LIMIT,
    THE_END,
    MakeFanOut,
    Server,
    Servers,
    hangs,
    http,
    says,
)
from support.clocks import Clock
from support.loopback import PATIENCE, nobody, raw, sends
from support.vectors import load

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.hosts import NO_INNER_HOSTS, parse_inner_hosts
from flask_ibi_archive.core.protocol.pairs import Pair
from flask_ibi_archive.core.protocol.relations import NO_VERBS
from flask_ibi_archive.core.resolution.answer import Question
from flask_ibi_archive.resolver import asking
from flask_ibi_archive.resolver.archives import Archive
from flask_ibi_archive.resolver.asking import (
    MAX_ACKNOWLEDGMENTS,
    MAX_HOST_CONNECTIONS,
    NO_HTTP,
    CircuitBreaker,
    Failure,
    FanOut,
    Reply,
    ReplyQueue,
    Target,
)
from flask_ibi_archive.server.http.transport import CUT_OFF, INTERNAL_REASON

HERE = "127.0.0.1"
PAIRS = [Pair("state", ("Original",)), Pair("url", ("http://a.br/b",))]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"

#: Seconds until a hanging Archive times out in a test.
SHORT = 0.1
#: A part of each request, which must not appear in messages.
SECRET = "clientinformation.ipaddress=150.163.2.175"
KNOWN = "state Original\r\nurl http://a.br/b"


#: A question whose content does not matter.
QUESTION = Question(parse_identifier("a.br/x/2001/01.01.00.00"), NO_VERBS)


def at(address: str, target: str = f"/a/b?{SECRET}", number: int = 1) -> Target:
    """Return a request to the Archive at an address.

    :param number: the id of the Archive.
    """
    return Target(Archive(number, "a/b", address), f"http://{address}{target}", QUESTION)


def all_of(replies: ReplyQueue) -> list[Reply | Failure]:
    """Return all results."""
    found = []
    while (result := replies.get(PATIENCE)) is not None:
        found.append(result)
    assert not replies.pending
    return found


def one_of(replies: ReplyQueue) -> Reply | Failure:
    """Return the only result."""
    (found,) = all_of(replies)
    return found


def reason_of(replies: ReplyQueue) -> str:
    """Return the reason of the only result, a failure."""
    found = one_of(replies)
    assert isinstance(found, Failure)
    assert SECRET not in found.reason
    assert "\n" not in found.reason
    return found.reason


def ask_and_hear(asks: FanOut, *hosts: Server) -> None:
    """Send a request to some servers and check that each answers."""
    for result in all_of(asks.ask([at(one.address) for one in hosts], PATIENCE)):
        assert isinstance(result, Reply), result


# --- answers -------------------------------------------------------------------------------------

ANSWERS = {
    "a type with a character set": (http(KNOWN, content_type="Text/Plain; charset=x"), PAIRS),
    "an alert after an early hint": (
        b"HTTP/1.1 103 Early\r\nLink: a\r\n\r\n" + http("alert {bad question}", "400 Bad"),
        [],
    ),
    "a name twice, and bytes that are no ASCII": (
        http(b"a \xf3 a {b  c}"),
        [Pair("a", ("\udcf3",)), Pair("a", ("b", "c"))],
    ),
    "chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\r\na b\r\n2\r\ncd\r\n0\r\nX: y\r\n\r\n",
        [Pair("a", ("bcd",))],
    ),
    "a body that ends with the connection": (
        b"HTTP/1.0 200 OK\r\n\r\na b" + THE_END,
        [Pair("a", ("b",))],
    ),
}


@pytest.mark.parametrize(("answer", "pairs"), ANSWERS.values())
def test_an_answer_that_counts(
    answer: bytes, pairs: list[Pair], hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    found = one_of(make_fan_out().ask([at(hosts.add(says(answer)).address)], PATIENCE))
    assert isinstance(found, Reply), found
    assert found.pairs == pairs
    assert 0 < found.seconds < PATIENCE


MORE = "answers with more than 1000 bytes"
#: Answers as Latin-1 text, each with the reason why it is a failure.
FAILURES = [
    *((one["answer"].encode("latin-1"), one["reason"])
      for one in load("resolution/failed_answers.json")),
    (http("a " + "b" * (LIMIT - 1)), MORE),
    (HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + (b"fa\r\n" + b"a " * 125 + b"\r\n") * 5, MORE),
    (HEAD + b"X: y\r\n" * 100_000, NO_HTTP),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "reason"), FAILURES)
def test_an_answer_that_is_a_failure(
    answer: bytes, reason: str, hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    assert reason_of(make_fan_out().ask([at(hosts.add(says(answer)).address)], PATIENCE)) == reason


def test_an_unreadable_answer_does_not_affect_others(
    hosts: Servers,
    make_fan_out: MakeFanOut,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    late, odd = hosts.add(hangs), hosts.add(says(http(KNOWN)))
    asks = make_fan_out()
    replies = asks.ask([at(late.address), at(odd.address)], PATIENCE)

    def fail(*_: object) -> None:
        raise RecursionError("so deep")

    with monkeypatch.context() as patch:
        patch.setattr(asking, "read_answer", fail)
        found = replies.get(PATIENCE)
    assert isinstance(found, Failure)
    assert found.reason == "answers with a text that can't be read"
    assert "the answer of an Archive can't be read" in caplog.text
    late.wait()  # it may not have read the request yet
    late.release(http(KNOWN))
    assert isinstance(one_of(replies), Reply)


def test_a_refused_connection_is_a_failure(make_fan_out: MakeFanOut) -> None:
    with nobody() as address:
        reason = reason_of(make_fan_out().ask([at(address)], PATIENCE))
    assert reason == "can't be reached (Connection refused)"


def test_an_unknown_host_name_is_a_failure() -> None:
    transfer = asking._Transfer(LIMIT, NO_INNER_HOSTS)
    transfer.prepare("http://a.br/", 1, print, {})
    ended = transfer.read_result(pycurl.E_COULDNT_RESOLVE_HOST)
    assert ended.reason == "can't be reached: the host name is unknown"
    assert ended.is_retryable


# --- questions -----------------------------------------------------------------------------------


@pytest.mark.rule("R62-05")
def test_archives_are_asked_concurrently(hosts: Servers, make_fan_out: MakeFanOut) -> None:
    late = hosts.add(hangs)
    quick = [hosts.add(says(http(KNOWN))) for _ in range(40)]
    targets = [at(one.address, number=number) for number, one in enumerate([late, *quick])]
    replies = make_fan_out().ask(targets, PATIENCE)
    results = [replies.get(PATIENCE) for _ in quick]
    assert [result.pairs for result in results if isinstance(result, Reply)] == [PAIRS] * len(quick)
    assert {result.target.archive.id for result in results if result} == set(range(1, 41))
    assert replies.pending == 1
    assert replies.get(0) is None
    late.wait()
    late.release(http(KNOWN))
    last = one_of(replies)
    assert last.target is targets[0]
    assert last.seconds >= max(result.seconds for result in results if result)


@pytest.mark.rule("R62-06")
def test_the_url_is_sent_unchanged(hosts: Servers, make_fan_out: MakeFanOut) -> None:
    host = hosts.add(says(http(KNOWN)))
    target = (
        "/a/../B//c/./d?a=x%20y&b=%3F%2b%7C%22&c=Relat%F3rio&d=/:@!(),;'\"<>{}|^`\\[]~&e=//f?g=%"
    )
    assert isinstance(one_of(make_fan_out().ask([at(host.address, target)], PATIENCE)), Reply)
    assert host.heads.popleft().split("\r\n") == [
        f"GET {target} HTTP/1.1",
        f"Host: {host.address}",
        "Accept: text/plain, */*;q=0.1",
        "Accept-Encoding: identity",
        "User-Agent: flask_ibi_archive",
    ]


def test_a_late_answer_is_a_failure(hosts: Servers, make_fan_out: MakeFanOut) -> None:
    begun = monotonic()
    replies = make_fan_out(SHORT).ask([at(hosts.add(hangs).address)], PATIENCE)
    assert reason_of(replies) == "took too long"
    assert monotonic() - begun >= SHORT


BAD_URLS = {
    "https": "https://{}/a",
    "another protocol": "file://{}/etc/passwd",
    "a line's end": "http://{}/a?b=c\r\nX: y",
    "a password": "http://user:word@{}/",
    "nothing": "",
}


@pytest.mark.parametrize("url", BAD_URLS.values())
def test_an_invalid_url_is_not_requested(
    url: str, hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    host = hosts.add(says(http(KNOWN)))
    asks = make_fan_out()
    bad = Target(Archive(1, "a/b", "a"), url.format(host.address), QUESTION)
    first, second = all_of(asks.ask([bad, at(host.address)], PATIENCE))
    assert isinstance(first, Failure)
    assert first.reason == "has an invalid address"
    assert isinstance(second, Reply)
    assert host.accepted == 1


# --- no other server is contacted ----------------------------------------------------------------


@pytest.mark.rule("R62-05")
def test_no_redirect_is_followed_and_no_proxy_used(
    hosts: Servers, make_fan_out: MakeFanOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbidden = hosts.add(says(http(KNOWN)))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://{forbidden.address}")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    answers = [
        http("", f"{status} There", Location=f"http://{forbidden.address}/")
        for status in (301, 302, 303, 307, 308)
    ]
    answers.append(http("", "200 OK", Refresh=f"0; url=http://{forbidden.address}/"))
    answers.append(http(KNOWN, Alt_Svc=f'h2="{forbidden.address}"; ma=9999'))
    bad = [hosts.add(says(answer)) for answer in answers]
    asks = make_fan_out()
    for _ in range(2):
        assert len(all_of(asks.ask([at(one.address) for one in bad], PATIENCE))) == len(bad)
    assert [len(one.asked) for one in bad] == [2] * len(bad)
    assert not forbidden.accepted


# --- internal addresses --------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0x7f.1", "localhost", "[::1]", "10.0.0.1", "[fe80::1]"])
def test_an_internal_address_is_not_connected_to(
    host: str, hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    here = hosts.add(says(http(KNOWN)))
    asks = make_fan_out(inner_hosts=NO_INNER_HOSTS)
    url = f"{host}:{here.port}"
    for _ in range(2):
        assert reason_of(asks.ask([at(url)], PATIENCE)) == INTERNAL_REASON
    assert asks.send_acknowledgment(f"http://{url}/x", {})
    asks.close()
    assert here.accepted == 0


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The results of look-ups of names, which each test sets: ``name:port:address,address``."""
    found: list[str] = []
    prepare = asking._Transfer.prepare

    def prepare_with_names(transfer: asking._Transfer, *request: Any) -> None:
        prepare(transfer, *request)
        transfer.curl.setopt(pycurl.RESOLVE, found)

    monkeypatch.setattr(asking._Transfer, "prepare", prepare_with_names)
    return found


@pytest.mark.parametrize("end", [b"", THE_END])
def test_a_name_that_changes_to_an_internal_address_is_not_connected_to(
    end: bytes, hosts: Servers, make_fan_out: MakeFanOut, names: list[str]
) -> None:
    outside = hosts.add(says(http(KNOWN) + end))
    inside = hosts.add(says(http(KNOWN)), place=("127.0.0.2", outside.port))
    asks = make_fan_out(inner_hosts=parse_inner_hosts([HERE]))
    target = at(f"evil.br:{outside.port}")
    names[:] = [f"evil.br:{outside.port}:{HERE}"]
    assert isinstance(one_of(asks.ask([target], PATIENCE)), Reply)
    names[:] = [f"evil.br:{outside.port}:127.0.0.2"]
    found = one_of(asks.ask([target], PATIENCE))
    # an open connection is used again: its address was checked
    assert isinstance(found, Failure if end else Reply)
    assert found[1] == (INTERNAL_REASON if end else PAIRS)
    assert f"Host: evil.br:{outside.port}" in outside.heads[0]
    assert inside.accepted == 0


# --- connections ---------------------------------------------------------------------------------


def test_connections_to_a_host_are_limited(
    hosts: Servers, make_fan_out: MakeFanOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "MAX_HOST_CONNECTIONS", 3)
    slow, quick = hosts.add(hangs), hosts.add(says(http()))
    asks = make_fan_out()
    replies = asks.ask([*[at(slow.address)] * 10, at(quick.address)], PATIENCE)
    assert isinstance(replies.get(PATIENCE), Reply)
    for number in range(10):
        slow.wait()
        slow.release(http(KNOWN))
        assert isinstance(replies.get(PATIENCE), Reply), number
    assert slow.accepted <= 3


def test_abandoned_questions_are_completed_and_counted(
    hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    ended: SimpleQueue[Reply | Failure] = SimpleQueue()
    quick, late, broken = hosts.add(says(http(KNOWN))), hosts.add(hangs), hosts.add(hangs)
    asks = make_fan_out(on_result=ended.put)
    replies = asks.ask([at(one.address) for one in (late, quick, broken)], PATIENCE)
    assert isinstance(replies.get(PATIENCE), Reply)
    assert ended.get(timeout=PATIENCE).target.archive.address == quick.address
    replies.abandon()
    assert (replies.pending, replies.get(PATIENCE)) == (0, None)
    late.wait()
    broken.wait()
    late.release(http(KNOWN))
    assert isinstance(ended.get(timeout=PATIENCE), Reply)
    broken.release(http(KNOWN, "500 No"))
    assert isinstance(ended.get(timeout=PATIENCE), Failure)
    assert replies.get(0) is None


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_process_uses_its_own_connections(
    hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    host = hosts.add(says(http(KNOWN)))
    asks = make_fan_out()
    ask_and_hear(asks, host)
    process = os.fork()
    if process == 0:
        status = 1
        with suppress(BaseException):
            ask_and_hear(asks, host)
            assert asks.send_acknowledgment(f"http://{host.address}/child", {})
            asks.close(PATIENCE)
            status = 0
        os._exit(status)
    assert os.waitpid(process, 0)[1] == 0
    ask_and_hear(asks, host)
    assert len(host.asked) == 4
    assert list(host.asked).count("/child") == 1
    # one of the parent, one of the child, and one more if the finisher had borrowed the engine
    assert 2 <= host.accepted <= 4


def test_nothing_is_sent_after_close(hosts: Servers, make_fan_out: MakeFanOut) -> None:
    host, asks = hosts.add(says(http(KNOWN))), make_fan_out()
    asks.close(0)
    assert reason_of(asks.ask([at(host.address)], PATIENCE)) == asking.STOPPED
    assert not thank(asks, host)
    assert not host.accepted


# --- acknowledgments -----------------------------------------------------------------------------


def thank(asks: FanOut, host: Server, path: str = "/a/b?urlkey=1") -> bool:
    return asks.send_acknowledgment(f"http://{host.address}{path}", {})


READERS = {
    "Mozilla/5.0 (X)": "Mozilla/5.0 (X)",
    "a\r\nX-Forwarded-For: 1.2.3.4": "a??X-Forwarded-For: 1.2.3.4",
    "\xe7\0\u2028\n": "????",
    "a" * 1001: "a" * 1000,
}


@pytest.mark.rule("R62-14")
def test_an_acknowledgment_has_the_header_of_the_users_program(
    hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    host = hosts.add(says(http("notice {acknowledgment received}")))
    asks = make_fan_out()
    for value in READERS:
        headers = {"User-Agent": "resolver/1", "X-Forwarded-User-Agent": value}
        assert asks.send_acknowledgment(f"http://{host.address}/a/b?urlkey=1", headers)
        host.wait()
    ask_and_hear(asks, host)
    *thanks, question = (head.split("\r\n") for head in host.heads)
    for head, sent in zip(thanks, READERS.values(), strict=True):
        assert head == [
            "GET /a/b?urlkey=1 HTTP/1.1",
            f"Host: {host.address}",
            "Accept: text/plain, */*;q=0.1",
            "Accept-Encoding: identity",
            "User-Agent: resolver/1",
            f"X-Forwarded-User-Agent: {sent}",
        ]
    assert question[-1] == "User-Agent: flask_ibi_archive"


@pytest.mark.rule("R62-13")
def test_close_waits_for_pending_acknowledgments(hosts: Servers, make_fan_out: MakeFanOut) -> None:
    host = hosts.add(says(http("notice {acknowledgment received}")))
    asks = make_fan_out()
    for number in range(50):
        assert thank(asks, host, f"/{number}")
    asks.close(PATIENCE)
    assert sorted(host.asked) == sorted(f"/{number}" for number in range(50))


def test_hanging_acknowledgments_do_not_delay_questions(
    hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    host = hosts.add(lambda target, head: http(KNOWN) if target.startswith("/question") else None)
    asks = make_fan_out()
    for number in range(20):
        assert thank(asks, host, f"/thanks/{number}")
    for _ in range(3):
        found = one_of(asks.ask([at(host.address, "/question")], PATIENCE))
        assert isinstance(found, Reply)
    # more than one engine, if the finisher had borrowed one
    assert len(host.asked) <= 4 * MAX_ACKNOWLEDGMENTS + 3
    assert MAX_ACKNOWLEDGMENTS < MAX_HOST_CONNECTIONS


def test_acknowledgments_are_discarded_when_too_many_wait(
    hosts: Servers,
    make_fan_out: MakeFanOut,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(asking, "MAX_WAITING", 3)
    monkeypatch.setattr(asking, "MAX_ACKNOWLEDGMENTS", 0)  # all wait
    host = hosts.add(says(http("notice {acknowledgment received}")))
    asks = make_fan_out()
    assert [thank(asks, host) for _ in range(5)] == [True] * 3 + [False] * 2
    assert "too many acknowledgments are pending" in caplog.text
    monkeypatch.setattr(asking, "MAX_ACKNOWLEDGMENTS", 4)
    host.wait(3)
    assert thank(asks, host)


@pytest.mark.rule("R62-13")
@pytest.mark.parametrize(("works", "tries"), [(1, 1), (2, 2), (3, 2)])
def test_an_acknowledgment_is_retried_once(
    works: int, tries: int, make_fan_out: MakeFanOut, caplog: pytest.LogCaptureFixture
) -> None:
    asks = make_fan_out()
    talks = [sends(b"")] * (works - 1) + [sends(http("notice a"))]
    with raw(*talks) as address:
        assert asks.send_acknowledgment(f"http://{address}/?{SECRET}", {})
        asks.close(PATIENCE)
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    expected = f"an acknowledgment was not delivered: {CUT_OFF}"
    assert said == ([] if works <= tries else [expected])


# --- Archives that fail --------------------------------------------------------------------------

ONE, OTHER = 1, 2
#: The steps of each case: "x" the Archive fails, "o" it answers, "?" a request is allowed, "-" it
#: is not allowed, a number: seconds pass.
STEPS = {
    "an answer resets the count": "x x o x x ? x -",
    "only one request is the probe": "x x x 10 ? - - 5 -",
    "the maximum is five minutes": (
        "x x x 10 ? x 20 ? x 40 ? x 80 ? x 160 ? x 299 - 1 ? x 299 - 1 ?"
    ),
    "an answer to an earlier request ends the pause": "x x x o ? ?",
    "a probe without a result is followed by another": "x x x 10 ? 9 - 1 ? - x 20 ?",
}


@pytest.mark.rule("R62-05")
@pytest.mark.parametrize("steps", STEPS.values())
def test_a_failing_archive_is_skipped_and_probed_later(steps: str) -> None:
    clock = Clock(1000.0)
    breaker = CircuitBreaker(clock)
    for number, step in enumerate(steps.split()):
        if step in "xo":
            breaker.record_result(ONE, ok=step == "o")
        elif step in "?-":
            assert breaker.allows_request(ONE) is (step == "?"), (number, step)
        else:
            clock.now += float(step)
        assert breaker.allows_request(OTHER), "Archives are independent"
