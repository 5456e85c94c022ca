"""Requests of a link check: which URLs work, what a request contains, and the rate limit."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.clocks import Clock
from support.far import Far, Reply, unused_address
from support.loopback import LOOPBACK

from flask_ibi_archive.server.http import link_requests
from flask_ibi_archive.server.http.link_requests import HostLimits, LinkClient, clean_url, host_of


def client(timeout: float = 20, delay: float = 0) -> LinkClient:
    clock = Clock()
    return LinkClient(HostLimits(delay, clock, clock.wait), "the test", LOOPBACK, timeout)


WORKING: list[tuple[dict[str, Reply], list[str]]] = [
    ({"a": Reply(200)}, ["HEAD a"]),
    ({"a": Reply(204)}, ["HEAD a"]),
    ({"HEAD a": Reply(405), "GET a": Reply(200)}, ["HEAD a", "GET a"]),
    ({"HEAD a": Reply(501), "GET a": Reply(206)}, ["HEAD a", "GET a"]),
    ({"HEAD a": Reply(404), "GET a": Reply(200)}, ["HEAD a", "GET a"]),
    ({"HEAD a": Reply(500), "GET a": Reply(200)}, ["HEAD a", "GET a"]),
    ({"HEAD a": Reply(raw=b""), "GET a": Reply(200)}, ["HEAD a", "GET a"]),
    ({"a": Reply(301, {"Location": "/b"}), "b": Reply()}, ["HEAD a", "HEAD b"]),
    ({"a": Reply(302, {"Location": "b?c=d"}), "b?c=d": Reply()}, ["HEAD a", "HEAD b?c=d"]),
    ({"a": Reply(303, {"Location": "b#c"}), "b": Reply()}, ["HEAD a", "HEAD b"]),
    (
        {"a": Reply(307, {"Location": "b"}), "b": Reply(308, {"Location": "c"}), "c": Reply()},
        ["HEAD a", "HEAD b", "HEAD c"],
    ),
    (
        {"a": Reply(301, {"Location": "/Relat\xf3rio"}), "Relat%F3rio": Reply()},
        ["HEAD a", "HEAD Relat%F3rio"],
    ),
]


def test_a_url_works_if_its_last_redirect_answers_2xx(far: Far) -> None:
    for replies, requests in WORKING:
        far.replies = dict(replies)
        far.requests.clear()
        assert client().check(far.url("a")).error is None, replies
        assert far.lines == requests, replies


BROKEN: list[tuple[Reply, str | None]] = [
    (Reply(404), "answers 404 (Not Found)"),
    (Reply(410), "answers 410 (Gone)"),
    (Reply(403), "answers 403 (Forbidden)"),
    (Reply(500), "answers 500 (Internal Server Error)"),
    (Reply(503), "answers 503 (Service Unavailable)"),
    (Reply(300), "answers 300 (Multiple Choices)"),
    (Reply(599), "answers 599 (unknown)"),
    (Reply(302), "answers 302 (Found) without a Location"),
    (Reply(301, {"Location": "a"}), "has more than 5 redirects"),
    (
        Reply(301, {"Location": "ftp://user:secret@x.org/a"}),
        "redirects to ftp://x.org/a, which is neither http nor https",
    ),
    (
        Reply(301, {"Location": "http://[::1/"}),
        "redirects to http://[::1/, which is neither http nor https",
    ),
    (Reply(raw=b""), "closed the connection before the answer was complete"),
    (Reply(raw=b"SSH-2.0-OpenSSH\r\n\r\n"), "sends an answer that is not valid HTTP"),
    (Reply(raw=b"HTTP/1.1 200 \x1b[2J\r\nno header\r\n\r\n"), None),
]


def test_any_other_answer_is_an_error_of_one_line_and_is_not_logged(
    far: Far, caplog: pytest.LogCaptureFixture
) -> None:
    for reply, error in BROKEN:
        far.replies["a"] = reply
        status = client().check(far.url("a"))
        found = (status.error, status.postponed, status.failed_host)
        assert found == (error, False, None), reply
    assert not [record for record in caplog.records if record.levelname != "DEBUG"]


def test_an_error_after_a_redirect_shows_its_target(far: Far) -> None:
    far.replies["a"] = Reply(301, {"Location": far.url("b", "user:secret@localhost")})
    error = client().check(far.url("a")).error
    assert error == f"redirects to {far.url('b', 'localhost')}, which answers 404 (Not Found)"
    far.replies["a"] = Reply(301, {"Location": far.url("x" * 5000)})
    assert len(client().check(far.url("a")).error or "") < 300


def test_a_host_that_cannot_be_reached_is_named() -> None:
    status = client().check(f"http://{unused_address()}/a")
    assert status.error == "can't be reached (Connection refused)"
    assert status.failed_host == "127.0.0.1"
    status = client().check("http://nowhere.invalid/a")
    assert (status.error or "").startswith("can't be reached: the host name is not known")
    assert status.failed_host == "nowhere.invalid"


def test_a_server_without_tls_is_an_error(far: Far) -> None:
    error = client().check(far.url("a").replace("http:", "https:")).error
    assert (error or "").startswith("can't be reached over TLS")


def test_a_server_that_sends_slowly_is_cut_off_at_the_deadline(far: Far) -> None:
    for head in (b"", b"HTTP/1.1 200 OK\r\nX-Drips: ", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 3):
        far.requests.clear()
        far.replies["a"] = Reply(raw=head, drips=True)
        assert client(0.2).check(far.url("a")).error == "took longer than 0.2 s", head
        assert far.lines == ["HEAD a"], head


def test_the_deadline_is_that_of_all_redirects_together(far: Far) -> None:
    far.replies["a"] = Reply(301, {"Location": "b"})
    far.replies["b"] = Reply(raw=b"", drips=True)
    error = client(0.2).check(far.url("a")).error
    assert error == f"redirects to {far.url('b')}, which took longer than 0.2 s"


def test_no_body_is_read(far: Far) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n"
    far.replies["HEAD a"] = Reply(405)
    far.replies["GET a"] = Reply(raw=head, drips=True)
    assert client().check(far.url("a")).error is None
    # nor that of a redirect
    head = b"HTTP/1.1 302 Found\r\nLocation: b\r\nContent-Length: 1000000000000\r\n\r\n"
    far.replies["GET a"] = Reply(raw=head, drips=True)
    far.replies["b"] = Reply()
    assert client().check(far.url("a")).error is None


def test_a_request_has_a_user_agent_and_no_password(
    far: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login user password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    far.replies["a"] = Reply(
        301, {"Location": far.url("b", "user:secret@127.0.0.1"), "Set-Cookie": "c=d"}
    )
    far.replies["b"] = Reply()
    cleaned = clean_url(far.url("a", "user:secret@127.0.0.1"))
    assert cleaned == far.url("a")
    assert client().check(cleaned).error is None
    assert len(far.requests) == 2
    for request in far.requests:
        assert request.headers["User-Agent"] == "the test"
        assert not {"Authorization", "Cookie", "Referer", "From"} & set(request.headers)


def test_urls_are_cleaned_of_fragment_and_password() -> None:
    for url, cleaned, host in (
        ("http://x.org/a", "http://x.org/a", "x.org"),
        ("https://X.org:8080/a?b=c#d", "https://X.org:8080/a?b=c", "x.org"),
        ("http://user:secret@x.org./", "http://x.org./", "x.org"),
        ("http://u@[2001:db8::1]:80/", "http://[2001:db8::1]:80/", "2001:db8::1"),
        ("http://x.org/Relat%f3rio", "http://x.org/Relat%f3rio", "x.org"),
        ("ftp://x.org/a", None, ""),
        ("mailto:a@x.org", None, ""),
        ("http:///a", None, ""),
        ("http://x.org:port/", None, ""),
        ("http://[x/", None, ""),
    ):
        assert clean_url(url) == cleaned, url
        assert host_of(cleaned or "") == host, url


def test_limits_remove_hosts_whose_delay_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_requests, "MAX_HOSTS", 3)
    clock = Clock()
    limits = HostLimits(5, clock, clock.wait)
    for number in range(100):
        with limits.turn(f"host{number}"):
            clock.wait(1)
    assert len(limits._hosts) <= 6
    with limits.turn("host99"):
        assert clock.waits[-1] == 5
