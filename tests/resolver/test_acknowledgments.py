"""Acknowledgments are sent in the background and do not delay questions."""

from __future__ import annotations

import logging
from time import monotonic

import pytest
from support.archive_servers import (
    KNOWN,
    SECRET,
    SHORT,
    MakeFanOut,
    Server,
    Servers,
    ask_and_hear,
    at,
    hangs,
    http,
    one_of,
    says,
)
from support.cases import for_each
from support.loopback import PATIENCE, raw, sends

from flask_ibi_archive.resolver import acknowledgments
from flask_ibi_archive.resolver.acknowledgments import Acknowledgments
from flask_ibi_archive.resolver.concurrent_requests import MAX_ACKNOWLEDGMENTS, FanOut, Reply
from flask_ibi_archive.resolver.engine import MAX_HOST_CONNECTIONS
from flask_ibi_archive.resolver.http_transfer import TransferResult
from flask_ibi_archive.server.http.transport import CUT_OFF


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
    host = hosts.add(says(http("notice {acknowledgment received}")), seconds=0.01)
    asks = make_fan_out()
    for number in range(100):
        assert thank(asks, host, f"/{number}")
    asks.close(PATIENCE)
    assert sorted(host.asked) == sorted(f"/{number}" for number in range(100))
    assert host.accepted <= MAX_HOST_CONNECTIONS


def test_close_waits_no_longer_than_its_timeout(hosts: Servers, make_fan_out: MakeFanOut) -> None:
    host = hosts.add(hangs)
    asks = make_fan_out()
    assert thank(asks, host)
    host.wait()
    begun = monotonic()
    asks.close(SHORT)
    assert monotonic() - begun < PATIENCE / 2


def test_hanging_acknowledgments_do_not_delay_questions(
    hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    host = hosts.add(lambda target, head: http(KNOWN) if target.startswith("/question") else None)
    asks = make_fan_out()
    for number in range(MAX_ACKNOWLEDGMENTS + 30):
        assert thank(asks, host, f"/thanks/{number}")
    host.wait(MAX_HOST_CONNECTIONS)
    for _ in range(3):
        found = one_of(asks.ask([at(host.address, "/question")], PATIENCE))
        assert isinstance(found, Reply)
    assert len(host.asked) == MAX_HOST_CONNECTIONS + 3


def test_acknowledgments_are_discarded_when_too_many_are_pending(
    hosts: Servers, make_fan_out: MakeFanOut, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acknowledgments, "MAX_WAITING", 3)
    host = hosts.add(hangs)
    asks = make_fan_out()
    assert [thank(asks, host) for _ in range(5)] == [True] * 3 + [False] * 2
    host.wait(3)
    hosts.release(host, http("notice {acknowledgment received}"))
    assert asks._acknowledgments.wait(PATIENCE)
    assert thank(asks, host)


@pytest.mark.rule("R62-13")
@for_each(("works", "tries"), [(1, 1), (2, 2), (3, 2)])
def test_an_acknowledgment_is_retried_once(
    works: int, tries: int, make_fan_out: MakeFanOut, caplog: pytest.LogCaptureFixture
) -> None:
    asks = make_fan_out()
    talks = [sends(b"")] * (works - 1) + [sends(http("notice a"))]
    with raw(*talks) as address:
        assert asks.send_acknowledgment(f"http://{address}/?{SECRET}", {})
        asks.close(PATIENCE)
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    expected = f"1 acknowledgments were not delivered; the last failure: {CUT_OFF}"
    assert said == ([] if works <= tries else [expected])


def test_failures_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    counts = Acknowledgments(lambda: now[0])
    for number in range(10):
        assert counts.add("http://a.br/?b", 100, {})
        counts.waiting.pop().finish(TransferResult(status=503), 0.1)
        now[0] += acknowledgments.LOG_PAUSE / 4
        assert len(caplog.records) == (number + 4) // 4
    said = [record.getMessage().partition(";")[0] for record in caplog.records]
    assert said == [f"{count} acknowledgments were not delivered" for count in (1, 4, 4)]
    assert (
        caplog.records[-1]
        .getMessage()
        .endswith("the last failure: the Archive answered with status 503")
    )
