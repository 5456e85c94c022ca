"""Concurrent requests: limits, persistent connections, threads and forked processes."""

from __future__ import annotations

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from time import monotonic, sleep
from weakref import ref

import pytest
from support.archive_servers import (
    KNOWN,
    QUESTION,
    SHORT,
    THE_END,
    MakeFanOut,
    Servers,
    all_of,
    ask_and_hear,
    at,
    hangs,
    http,
    one_of,
    reason_of,
    says,
)
from support.cases import for_each
from support.loopback import PATIENCE, drips, raw

from flask_ibi_archive.core.protocol.pairs import Pair
from flask_ibi_archive.resolver import engine as http_engine
from flask_ibi_archive.resolver.archives import Archive
from flask_ibi_archive.resolver.concurrent_requests import Failure, Reply, Target
from flask_ibi_archive.resolver.engine import STOPPED, Engine

PAIRS = [Pair("state", ("Original",)), Pair("url", ("http://a.br/b",))]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


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
    hosts.release(late, http(KNOWN))
    last = one_of(replies)
    assert last.target is targets[0]
    assert last.seconds >= max(result.seconds for result in results if result)


def test_requests_can_be_added_to_a_reply_queue(hosts: Servers, make_fan_out: MakeFanOut) -> None:
    late, quick = hosts.add(hangs), hosts.add(says(http(KNOWN)))
    asks = make_fan_out()
    replies = asks.ask([at(late.address, number=1)], PATIENCE)
    late.wait()
    assert asks.ask([at(quick.address, number=2), at("", number=3)], PATIENCE, replies) is replies
    assert replies.pending == 3
    found = replies.get(PATIENCE), replies.get(PATIENCE)
    assert {one.target.archive.id for one in found if one} == {2, 3}
    hosts.release(late, http())
    assert one_of(replies).target.archive.id == 1


def test_no_targets_give_no_replies(make_fan_out: MakeFanOut) -> None:
    assert all_of(make_fan_out().ask([], PATIENCE)) == []


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


@for_each("seconds", [SHORT, 0, -1])
def test_the_callers_timeout_is_not_a_failure_of_the_archive(
    seconds: float, hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    ended: SimpleQueue[object] = SimpleQueue()
    host = hosts.add(hangs)
    replies = make_fan_out(on_result=ended.put).ask([at(host.address)], seconds)
    host.wait()
    assert replies.get(PATIENCE) is None
    assert replies.pending == 1
    hosts.release(host, http(KNOWN))
    assert isinstance(ended.get(timeout=PATIENCE), Reply)


def test_a_slow_trickle_of_bytes_does_not_extend_the_timeout(make_fan_out: MakeFanOut) -> None:
    done = Event()
    with raw(drips(HEAD + b"\r\n", done)) as address:
        assert reason_of(make_fan_out(SHORT).ask([at(address)], PATIENCE)) == "took too long"
        done.set()


BAD_URLS = {
    "https": "https://{}/a",
    "another protocol": "file://{}/etc/passwd",
    "a line's end": "http://{}/a?b=c\r\nX: y",
    "a bare line feed": "http://{}/a?b=c\nX: y",
    "a line's end after all": "http://{}/a?b=c\n",
    "a space": "http://{}/a b",
    "no ASCII": "http://{}/\xe7",
    "a password": "http://user:word@{}/",
    "a fragment": "http://{}/#a",
    "no host": "http:///a",
    "nothing": "",
}


@for_each("url", BAD_URLS.values())
def test_an_invalid_url_is_not_requested(
    url: str, hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    host = hosts.add(says(http(KNOWN)))
    asks = make_fan_out()
    bad = Target(Archive(1, "a/b", "a"), url.format(host.address), QUESTION)
    assert reason_of(asks.ask([bad], PATIENCE)) == "has an invalid address"
    assert not asks.send_acknowledgment(bad.url, {})
    first, second = all_of(asks.ask([bad, at(host.address)], PATIENCE))
    assert isinstance(first, Failure)
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


def test_no_cookie_user_name_or_password_is_sent(
    hosts: Servers, make_fan_out: MakeFanOut, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login a password b\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    asking = http("", "401 Who", Set_Cookie="a=b; path=/", WWW_Authenticate='Basic realm="a"')
    host = hosts.add(says(asking))
    asks = make_fan_out()
    heads = []
    for _ in range(2):
        assert reason_of(asks.ask([at(host.address)], PATIENCE)) == "answers with status 401"
        heads.append(host.heads.popleft())
    assert heads[0] == heads[1]
    assert not host.heads


# --- connections ---------------------------------------------------------------------------------


def test_connections_are_persistent(hosts: Servers, make_fan_out: MakeFanOut) -> None:
    both = hosts.add(says(http(KNOWN))), hosts.add(says(http()))
    asks = make_fan_out()
    for _ in range(5):
        ask_and_hear(asks, *both)
    assert [(one.accepted, len(one.asked)) for one in both] == [(1, 5), (1, 5)]


def test_a_closed_connection_is_opened_again(hosts: Servers, make_fan_out: MakeFanOut) -> None:
    host = hosts.add(says(http(KNOWN) + THE_END))
    asks = make_fan_out()
    for _ in range(5):
        ask_and_hear(asks, host)
    assert (host.accepted, len(host.asked)) == (5, 5)


def test_a_failure_does_not_affect_later_requests(hosts: Servers, make_fan_out: MakeFanOut) -> None:
    answers = [http("x" * 2000), http("a", Content_Encoding="br"), http("x y"), http("x"), http()]
    host = hosts.add(lambda target, head: answers[int(target[-1])])
    asks = make_fan_out()
    for _ in range(3):
        found = [one_of(asks.ask([at(host.address, f"/{n}")], PATIENCE)) for n in range(5)]
        assert [isinstance(one, Failure) for one in found] == [True, True, False, True, False]
        assert [one.pairs for one in found if isinstance(one, Reply)] == [[Pair("x", ("y",))], []]


def test_connections_to_a_host_are_limited(
    hosts: Servers, make_fan_out: MakeFanOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_engine, "MAX_HOST_CONNECTIONS", 3)
    slow, quick = hosts.add(hangs), hosts.add(says(http()))
    asks = make_fan_out()
    replies = asks.ask([at(slow.address)] * 10, PATIENCE)
    slow.wait(3)
    ask_and_hear(asks, quick)
    for _ in range(3):
        hosts.release(slow, http(KNOWN))
        slow.wait(3 if len(slow.asked) < 9 else 1)
    hosts.release(slow, http(KNOWN))
    assert len(all_of(replies)) == 10
    assert slow.accepted == 3


def test_abandoned_requests_are_completed_and_counted(
    hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    ended: SimpleQueue[Reply | Failure] = SimpleQueue()
    quick, late, broken = hosts.add(says(http(KNOWN))), hosts.add(hangs), hosts.add(hangs)
    asks = make_fan_out(on_result=ended.put)
    replies = asks.ask([at(one.address) for one in (late, quick, broken)], PATIENCE)
    assert isinstance(replies.get(PATIENCE), Reply)
    assert ended.get(timeout=PATIENCE).target.archive.address == quick.address
    late.wait()
    broken.wait()
    replies.abandon()
    assert (replies.pending, replies.get(PATIENCE)) == (0, None)
    hosts.release(late, http(KNOWN))
    assert isinstance(ended.get(timeout=PATIENCE), Reply)
    hosts.release(broken, http(KNOWN, "500 No"))
    assert isinstance(ended.get(timeout=PATIENCE), Failure)
    later = asks.ask([at(late.address)], PATIENCE)
    late.wait()
    hosts.release(late, http(KNOWN))
    assert isinstance(one_of(later), Reply)
    assert late.accepted == 1
    assert replies.get(0) is None


def test_many_threads_can_ask(hosts: Servers, make_fan_out: MakeFanOut) -> None:
    some = [hosts.add(lambda target, head: http(f"a {target}")) for _ in range(5)]
    asks = make_fan_out()

    def work(number: int) -> None:
        for turn in range(20):
            path = f"/{number}/{turn}"
            found = all_of(asks.ask([at(one.address, path) for one in some], PATIENCE))
            assert [one.pairs for one in found if isinstance(one, Reply)] == [
                [Pair("a", (path,))]
            ] * len(some)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert max(one.accepted for one in some) <= 8


def test_an_error_in_on_result_is_logged(
    hosts: Servers, make_fan_out: MakeFanOut, caplog: pytest.LogCaptureFixture
) -> None:
    def count(result: object) -> None:
        raise ValueError("no")

    asks = make_fan_out(on_result=count)
    host = hosts.add(says(http()))
    for _ in range(2):
        ask_and_hear(asks, host)
    asks.close(PATIENCE)
    assert [record.getMessage() for record in caplog.records] == [
        "the result of a request can't be counted"
    ] * 2


# --- processes and threads -----------------------------------------------------------------------


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
            ask_and_hear(asks, host)
            asks.close(PATIENCE)
            status = 0
        os._exit(status)
    assert os.waitpid(process, 0)[1] == 0
    ask_and_hear(asks, host)
    assert len(host.asked) == 5
    assert list(host.asked).count("/child") == 1
    # one of the parent, one of the child, and one more if both requests ran at the same time
    assert 2 <= host.accepted <= 3


def test_a_failed_engine_is_replaced(
    hosts: Servers,
    make_fan_out: MakeFanOut,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = hosts.add(says(http()))
    asks = make_fan_out()

    def die(self: object, seconds: float) -> None:
        raise ValueError("no")

    with monkeypatch.context() as patch:
        patch.setattr(Engine, "_process_sockets", die)
        assert reason_of(asks.ask([at(host.address)], PATIENCE)) == STOPPED
    ask_and_hear(asks, host)
    assert asks.send_acknowledgment(f"http://{host.address}/", {})
    asks.close(PATIENCE)
    assert len(host.asked) == 2
    assert "requests to Archives failed" in caplog.text


def test_an_error_of_the_caller_does_not_cost_an_engine(
    hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    gc.freeze()  # the collection examines only what this test makes
    host = hosts.add(says(http()))
    asks = make_fan_out()
    for _ in range(3):
        with suppress(ZeroDivisionError):
            asks.ask([at(host.address)], PATIENCE)
            host.wait()
            raise ZeroDivisionError
        while asks.has_work():
            sleep(0.001)
        gc.collect()
    assert host.accepted == 1


def test_the_thread_ends_when_it_has_no_work(hosts: Servers, make_fan_out: MakeFanOut) -> None:
    gc.freeze()  # the collection examines only what this test makes
    asks = make_fan_out()
    ask_and_hear(asks, hosts.add(says(http())))
    thread = asks._thread
    if thread is not None:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    gone = ref(asks)
    del asks
    make_fan_out.__closure__[0].cell_contents.clear()  # type: ignore[attr-defined]
    gc.collect()
    assert gone() is None


def test_a_thread_that_cannot_be_started_is_started_later(
    hosts: Servers, make_fan_out: MakeFanOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, asks = hosts.add(says(http(KNOWN))), make_fan_out()

    def refuse(self: Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", refuse)
        assert asks.send_acknowledgment(f"http://{host.address}/first", {})
    assert asks.send_acknowledgment(f"http://{host.address}/second", {})
    end = monotonic() + PATIENCE
    while asks.has_work() and monotonic() < end:
        sleep(0.01)
    assert len(host.asked) == 2


def test_nothing_is_sent_after_close(hosts: Servers, make_fan_out: MakeFanOut) -> None:
    counted: list[object] = []
    slow = hosts.add(hangs)
    asks = make_fan_out(on_result=counted.append)
    replies = asks.ask([at(slow.address)] * 3, PATIENCE)
    slow.wait(3)
    asks.close(0)
    assert {one.reason for one in all_of(replies) if isinstance(one, Failure)} == {STOPPED}
    assert reason_of(asks.ask([at(slow.address)], PATIENCE)) == STOPPED
    assert not asks.send_acknowledgment(f"http://{slow.address}/", {})
    asks.close()
    assert len(slow.asked) == 3
    assert counted == [], "the Archive did not fail"
