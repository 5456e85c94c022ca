"""The check of a link: which URLs work, and what a request contains."""

from __future__ import annotations

import pytest
from support.far import Far, Reply
from support.loopback import LOOPBACK, free_port

from flask_ibi_archive.server.http.transport import LinkError, find_link_error


def check(url: str, timeout: float = 20) -> LinkError | None:
    return find_link_error(url, "http://a.br", LOOPBACK, timeout)


def to(location: bytes) -> Reply:
    """Return a redirect to an address that need not be valid."""
    return Reply(raw=b"HTTP/1.1 301 Moved\r\nLocation: %b\r\n\r\n" % location)


WORKING: list[tuple[dict[str, Reply], list[str]]] = [
    ({"a": Reply(204)}, ["HEAD a"]),
    ({"a": Reply(429)}, ["HEAD a", "GET a"]),
    ({"HEAD a": Reply(405), "GET a": Reply(200)}, ["HEAD a", "GET a"]),
    ({"HEAD a": Reply(raw=b""), "GET a": Reply(200)}, ["HEAD a", "GET a"]),
    (
        {"a": Reply(307, {"Location": "b?c=d#e"}), "b?c=d": to(b"/Relat\xf3")}
        | {"Relat%F3": Reply()},
        ["HEAD a", "HEAD b?c=d", "HEAD Relat%F3"],
    ),
]


def test_a_url_works_if_its_last_redirect_answers_2xx(far: Far) -> None:
    for replies, requests in WORKING:
        far.replies = dict(replies)
        far.server.clear_log()
        assert check(far.url("a")) is None, replies
        assert far.lines == requests, replies


BROKEN = [
    (Reply(404), "answers 404 (Not Found)"),
    (Reply(503, {"Retry-After": "9"}), "answers 503 (Service Unavailable)"),
    (Reply(599), "answers 599 (unknown)"),
    (Reply(302), "answers 302 (Found)"),
    (Reply(301, {"Location": "a"}), "has more than 5 redirects"),
    (
        Reply(301, {"Location": "ftp://user:secret@x.org/a"}),
        "redirects to ftp://x.org/a, which is not a valid address",
    ),
    (to(b"http://[::1/"), "is not a valid address"),
    (Reply(raw=b""), "closed the connection before the answer was complete"),
    (Reply(raw=b"SSH-2.0-OpenSSH\r\n\r\n"), "sends an answer that is not valid HTTP"),
]


def test_any_other_answer_is_an_error_of_one_line_and_is_not_logged(
    far: Far, caplog: pytest.LogCaptureFixture
) -> None:
    for reply, reason in BROKEN:
        far.replies["a"] = reply
        assert check(far.url("a")) == LinkError(reason), reply
    assert not [
        one for one in caplog.records if one.levelname != "DEBUG" and one.name != "werkzeug"
    ]


def test_a_host_that_cannot_be_reached_is_known(far: Far) -> None:
    down = f"http://127.0.0.1:{free_port()}/a"
    assert check(down) == LinkError("can't be reached (Connection refused)", True)
    far.replies["a"] = Reply(301, {"Location": down})
    error = check(far.url("a"))
    assert error == LinkError(f"redirects to {down}, which can't be reached (Connection refused)")


def test_the_deadline_is_that_of_all_redirects_together(far: Far) -> None:
    far.replies["a"] = Reply(301, {"Location": "b"})
    far.replies["b"] = Reply(raw=b"", drips=True)
    error = check(far.url("a"), 0.2)
    assert error == LinkError(f"redirects to {far.url('b')}, which took too long")


def test_no_body_is_read(far: Far) -> None:
    head = b"HTTP/1.1 302 Found\r\nLocation: b\r\nContent-Length: 1000000000000\r\n\r\n"
    far.replies |= {"HEAD a": Reply(405), "GET a": Reply(raw=head, drips=True), "b": Reply()}
    assert check(far.url("a")) is None


def test_a_request_has_a_user_agent_and_no_password(far: Far) -> None:
    location = far.url("b", "user:secret@127.0.0.1")
    far.replies["a"] = Reply(301, {"Location": location, "Set-Cookie": "c=d"})
    far.replies["b"] = Reply()
    assert check(far.url("a")) is None
    assert len(far.requests) == 2
    for request in far.requests:
        assert request.headers["User-Agent"] == "flask_ibi_archive (+http://a.br)"
        assert not {"Authorization", "Cookie", "Referer", "From"} & set(request.headers)
