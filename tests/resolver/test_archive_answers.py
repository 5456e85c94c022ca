"""The answers of an Archive that are accepted, and the reasons why others are not."""

from __future__ import annotations

import socket
import struct

import pycurl
import pytest
from support.archive_servers import (
    KNOWN,
    LIMIT,
    SECRET,
    THE_END,
    MakeFanOut,
    Servers,
    at,
    hangs,
    http,
    one_of,
    reason_of,
    says,
)
from support.cases import for_each
from support.loopback import PATIENCE, nobody, raw

from flask_ibi_archive.core.protocol.pairs import Pair
from flask_ibi_archive.resolver import concurrent_requests as fan_out
from flask_ibi_archive.resolver.concurrent_requests import Reply
from flask_ibi_archive.resolver.http_transfer import Transfer

PAIRS = [Pair("state", ("Original",)), Pair("url", ("http://a.br/b",))]
ANSWERS = {
    "a list of pairs": (http(KNOWN), PAIRS),
    "nothing": (http(), []),
    "no type": (http(KNOWN, content_type=None), PAIRS),
    "a type with a character set": (http(KNOWN, content_type="Text/Plain; charset=x"), PAIRS),
    "an alert": (http("alert {bad question}", "400 Bad"), []),
    "a name twice, and bytes that are no ASCII": (
        http(b"a \xf3 a {b  c}"),
        [Pair("a", ("\udcf3",)), Pair("a", ("b", "c"))],
    ),
    "as much as is taken": (http("a " + "b" * (LIMIT - 2)), [Pair("a", ("b" * (LIMIT - 2),))]),
    "chunks": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3\r\na b\r\n2\r\ncd\r\n0\r\nX: y\r\n\r\n",
        [Pair("a", ("bcd",))],
    ),
    "a body that ends with the connection": (
        b"HTTP/1.0 200 OK\r\n\r\na b" + THE_END,
        [Pair("a", ("b",))],
    ),
    "an encoding that is none": (http(KNOWN, Content_Encoding="identity"), PAIRS),
    "something before it": (b"HTTP/1.1 103 Early\r\nLink: a\r\n\r\n" + http(KNOWN), PAIRS),
}


@for_each(("answer", "pairs"), ANSWERS.values())
def test_an_answer_that_counts(
    answer: bytes, pairs: list[Pair], hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    found = one_of(make_fan_out().ask([at(hosts.add(says(answer)).address)], PATIENCE))
    assert isinstance(found, Reply), found
    assert found.pairs == pairs
    assert 0 < found.seconds < PATIENCE


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
MORE = "answers with more than 1000 bytes"
NO_HTTP = "does not send valid HTTP"
CUT_OFF = "closed the connection before the answer was complete"
FAILURES = {
    "a redirect": (http("", "302 Found", Location="/"), "redirects (status 302)"),
    "not modified": (http("", "304 Not", None), "redirects (status 304)"),
    "no content": (b"HTTP/1.1 204 No\r\n\r\n", "answers with status 204"),
    "not found": (http(KNOWN, "404 Not Found"), "answers with status 404"),
    "busy": (http("alert {busy}", "503 Busy"), "answers with status 503"),
    "a fault without alert": (http(KNOWN, "400 Bad"), "answers with status 400"),
    "an alert of another type": (
        http("alert {a}", "400 Bad", "text/html"),
        "answers with status 400",
    ),
    "a page": (
        http(KNOWN, content_type="text/html"),
        "answers with text/html instead of text/plain",
    ),
    "a type that says back what was asked": (
        http(KNOWN, content_type=SECRET),
        "answers with another content type instead of text/plain",
    ),
    "a type of other bytes": (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/pla\xefn\r\nContent-Length: 0\r\n\r\n",
        "answers with another content type instead of text/plain",
    ),
    "a name that is empty": (http("{} x"), "answers with a malformed pair list (at position 0)"),
    "an odd number of words": (
        http(f"state Copy {SECRET}"),
        "answers with a malformed pair list (at position 11)",
    ),
    "too much": (http("a " + "b" * (LIMIT - 1)), MORE),
    "too much of which is told before": (HEAD + b"Content-Length: 1001\r\n\r\n", MORE),
    "an enormous length": (HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n", MORE),
    "chunks without end": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + (b"fa\r\n" + b"a " * 125 + b"\r\n") * 5,
        MORE,
    ),
    "a body without end": (HEAD + b"\r\n" + b"a " * 501, MORE),
    "a head without end": (HEAD + b"X: y\r\n" * 5000, NO_HTTP),
    "a header without end": (HEAD + b"X: " + b"y" * 200_000, NO_HTTP),
    "something compressed": (
        http(b"\x1f\x8b", Content_Encoding="gzip"),
        "answers with a content encoding that was not requested (gzip)",
    ),
    "an encoding of its own": (
        http(b"a b", Content_Encoding=SECRET),
        "answers with a content encoding that was not requested",
    ),
    "what is no HTTP": (b"SSH-2.0-OpenSSH\r\n" + THE_END, NO_HTTP),
    "HTTP/0.9": (KNOWN.encode() + b"\r\n" + THE_END, NO_HTTP),
    "a further head that breaks off": (
        b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nX: " + THE_END,
        CUT_OFF,
    ),
    "what comes before an answer": (b"HTTP/1.1 103 Early\r\n\r\n" + THE_END, CUT_OFF),
    "nothing at all": (THE_END, CUT_OFF),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-" + THE_END, CUT_OFF),
    "half a body": (HEAD + b"Content-Length: 30\r\n\r\na b" + THE_END, CUT_OFF),
    "half of the chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\na" + THE_END, CUT_OFF),
    "chunks of no number": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", NO_HTTP),
}


@for_each(("answer", "reason"), FAILURES.values())
def test_an_answer_that_is_a_failure(
    answer: bytes, reason: str, hosts: Servers, make_fan_out: MakeFanOut
) -> None:
    assert reason_of(make_fan_out().ask([at(hosts.add(says(answer)).address)], PATIENCE)) == reason


@for_each(("place", "name"), [(Transfer, "read_result"), (fan_out, "read_answer")])
def test_an_unreadable_answer_does_not_affect_others(
    place: object,
    name: str,
    hosts: Servers,
    make_fan_out: MakeFanOut,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    late, odd = hosts.add(hangs), hosts.add(says(http(KNOWN)))
    asked = make_fan_out()
    replies = asked.ask([at(late.address)], PATIENCE)
    late.wait()

    def fail(*_: object) -> None:
        raise RecursionError("so deep")

    with monkeypatch.context() as patch:
        patch.setattr(place, name, fail)
        assert reason_of(asked.ask([at(odd.address)], PATIENCE)) in (
            NO_HTTP,
            "answers with a text that can't be read",
        )
    assert "the answer of an Archive can't be read" in caplog.text
    hosts.release(late, http(KNOWN))
    assert isinstance(one_of(replies), Reply)


def test_a_refused_connection_is_a_failure(make_fan_out: MakeFanOut) -> None:
    with nobody() as address:
        assert (
            reason_of(make_fan_out().ask([at(address)], 9))
            == "can't be reached (Connection refused)"
        )


def test_a_reset_connection_is_a_failure(make_fan_out: MakeFanOut) -> None:
    def cut(peer: socket.socket) -> None:
        peer.recv(65536)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with raw(cut) as address:
        assert reason_of(make_fan_out().ask([at(address)], PATIENCE)) == CUT_OFF


def test_an_unknown_host_name_is_a_failure() -> None:
    transfer = Transfer(LIMIT)
    ended = transfer.read_result(pycurl.E_COULDNT_RESOLVE_HOST)
    assert ended.reason == "can't be reached: the host name is unknown"
    transfer.close()
