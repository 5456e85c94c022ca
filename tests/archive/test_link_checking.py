"""Looking at addresses elsewhere: what is well, what is told when, and how politely it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from threading import Lock
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text
from support.archives import archive_of, import_records
from support.far import Far, Reply, far_server, nobody
from support.loopback import LOOPBACK
from support.web import rep

from flask_ibi_archive.archive import link_check, link_requests
from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.archive.link_check import LinkChecker, LinkFailure, user_agent
from flask_ibi_archive.archive.link_requests import HostLimits, LinkClient, clean_url, host_of
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.storage import link_list, link_rows

NewApp = Callable[..., Flask]
BEGIN = datetime(2026, 11, 21, 3, 0, tzinfo=timezone.utc)


class Clock:
    """A clock that goes on when somebody waits."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.waits: list[float] = []
        self._lock = Lock()

    def __call__(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        with self._lock:
            self.waits.append(seconds)
            self.seconds += seconds


@pytest.fixture
def far() -> Iterator[Far]:
    """A server elsewhere."""
    with far_server() as server:
        yield server


@pytest.fixture
def archive(app: Flask) -> ArchiveService:
    return archive_of(app)


def client(deadline: float = 20, delay: float = 0) -> LinkClient:
    clock = Clock()
    return LinkClient(HostLimits(delay, clock, clock.wait), "the test", LOOPBACK, deadline)


def item(number: int, *urls: str, **more: Any) -> dict[str, Any]:
    """Return the record of an item whose files are elsewhere."""
    files = [{"path": f"{place}.pdf", "url": url} for place, url in enumerate(urls)]
    return {"rep": rep(number), "files": files, **more}


def run(archive: ArchiveService, hours: float = 0, **options: Any) -> list[LinkFailure]:
    """Look at everything, so many hours after the first look; give what is told."""
    clock = Clock()
    options = {"clock": clock, "pause": clock.wait, "threads": 2, **options}
    with LinkChecker(archive, now=lambda: BEGIN + timedelta(hours=hours), **options) as checker:
        checker.collect()
        checker.look()
        return list(checker.failures())


def notes(archive: ArchiveService) -> dict[str, tuple[int, str | None]]:
    """Return what is kept: failures and error, by address."""
    with archive.database.reading() as connection:
        rows = connection.execute(text("SELECT url, failures, error FROM ibi_link"))
        return {row.url: (row.failures, row.error) for row in rows}


# --- what is well


@pytest.mark.parametrize(
    ("replies", "asked"),
    [
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
    ],
)
def test_an_address_is_well_where_a_good_answer_comes_in_the_end(
    far: Far, replies: dict[str, Reply], asked: list[str]
) -> None:
    far.replies.update(replies)
    assert client().look(far.url("a")).error is None
    assert far.lines == asked


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(404), "answers 404 (Not Found)"),
        (Reply(410), "answers 410 (Gone)"),
        (Reply(403), "answers 403 (Forbidden)"),
        (Reply(500), "answers 500 (Internal Server Error)"),
        (Reply(503), "answers 503 (Service Unavailable)"),
        (Reply(300), "answers 300 (Multiple Choices)"),
        (Reply(599), "answers 599 (unknown)"),
        (Reply(302), "answers 302 (Found) and does not say where to go"),
        (Reply(301, {"Location": "a"}), "leads on more than 5 times"),
        (
            Reply(301, {"Location": "ftp://user:secret@x.org/a"}),
            "leads to ftp://x.org/a, which is neither http nor https",
        ),
        (
            Reply(301, {"Location": "http://[::1/"}),
            "leads to http://[::1/, which is neither http nor https",
        ),
        (Reply(raw=b""), "answers in no right HTTP or is cut off"),
        (Reply(raw=b"SSH-2.0-OpenSSH\r\n\r\n"), "answers in no right HTTP or is cut off"),
        (Reply(raw=b"HTTP/1.1 200 \x1b[2J\r\nno header\r\n\r\n"), None),
    ],
)
def test_whatever_else_comes_is_told_in_a_line_and_not_logged(
    far: Far, reply: Reply, error: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    far.replies["a"] = reply
    look = client().look(far.url("a"))
    assert (look.error, look.not_now, look.unreachable) == (error, False, None)
    assert not [record for record in caplog.records if record.levelname != "DEBUG"]


def test_an_error_behind_a_redirection_says_where_it_leads(far: Far) -> None:
    far.replies["a"] = Reply(301, {"Location": far.url("b", "user:secret@localhost")})
    error = client().look(far.url("a")).error
    assert error == f"leads to {far.url('b', 'localhost')}, which answers 404 (Not Found)"
    far.replies["a"] = Reply(301, {"Location": far.url("x" * 5000)})
    assert len(client().look(far.url("a")).error or "") < 300


def test_a_host_where_nobody_listens_or_that_has_no_name_can_not_be_reached() -> None:
    address = nobody()
    look = client().look(f"http://{address}/a")
    assert look.error == "has a host that refuses the connection"
    assert look.unreachable == "127.0.0.1"
    look = client().look("http://nowhere.invalid/a")
    assert look.error == "has a host whose name is unknown"
    assert look.unreachable == "nowhere.invalid"


def test_a_server_without_tls_is_no_secure_connection(far: Far) -> None:
    error = client().look(far.url("a").replace("http:", "https:")).error
    assert error == "can't be asked over a secure connection"


@pytest.mark.parametrize(
    "head", [b"", b"HTTP/1.1 200 OK\r\nX-Drips: ", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 3]
)
def test_a_server_that_drips_is_cut_off_when_the_time_is_over(far: Far, head: bytes) -> None:
    far.replies["a"] = Reply(raw=head, drips=True)
    assert client(0.3).look(far.url("a")).error == "took longer than 0.3 s"
    assert far.lines == ["HEAD a"]


def test_the_time_is_that_of_all_redirections_together(far: Far) -> None:
    far.replies["a"] = Reply(301, {"Location": "b"})
    far.replies["b"] = Reply(raw=b"", drips=True)
    error = client(0.3).look(far.url("a")).error
    assert error == f"leads to {far.url('b')}, which took longer than 0.3 s"


def test_what_is_there_is_not_read(far: Far) -> None:
    begins = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n"
    far.replies["HEAD a"] = Reply(405)
    far.replies["GET a"] = Reply(raw=begins, drips=True)
    assert client().look(far.url("a")).error is None
    # nor what comes with a redirection
    leads = b"HTTP/1.1 302 Found\r\nLocation: b\r\nContent-Length: 1000000000000\r\n\r\n"
    far.replies["GET a"] = Reply(raw=leads, drips=True)
    far.replies["b"] = Reply()
    assert client().look(far.url("a")).error is None


def test_who_asks_is_said_and_no_password_goes_along(
    far: Far, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
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
    assert client().look(cleaned).error is None
    assert len(far.asked) == 2
    for asked in far.asked:
        assert asked.headers["User-Agent"] == "the test"
        assert not {"Authorization", "Cookie", "Referer", "From"} & set(asked.headers)


def test_the_user_agent_names_the_program_its_version_and_the_archive() -> None:
    name, _, rest = user_agent("http://mtc-m16c.sid.inpe.br").partition("/")
    assert name == "flask_ibi_archive"
    assert rest.endswith(" (+http://mtc-m16c.sid.inpe.br)")


@pytest.mark.parametrize(
    ("url", "cleaned", "host"),
    [
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
    ],
)
def test_addresses_are_asked_for_without_fragment_and_password(
    url: str, cleaned: str | None, host: str
) -> None:
    assert clean_url(url) == cleaned
    assert host_of(cleaned or "") == host


# --- politeness


@pytest.mark.parametrize("uri", ["sqlite://"])
def test_a_host_is_asked_for_one_thing_at_a_time_with_a_while_in_between(
    archive: ArchiveService,
) -> None:
    clock, lock = Clock(), Lock()
    asking: set[str] = set()
    times: dict[str, list[float]] = {}

    def now_asking(host: str) -> Reply:
        with lock:
            assert host not in asking
            asking.add(host)
            times.setdefault(host, []).append(clock())
        clock.wait(0.25)  # the answer takes its time
        with lock:
            asking.remove(host)
        return Reply(301, {"Location": third.url("t", "localhost")}) if host != "t" else Reply()

    with far_server() as first, far_server() as second, far_server() as third:
        for host, server in (("f", first), ("s", second), ("t", third)):
            for name in ("t", *map(str, range(6))):
                server.replies[name] = lambda host=host: now_asking(host)  # type: ignore[misc]
        names = ((first, "127.0.0.1"), (second, "127.0.0.2"), (third, "localhost"))
        urls = [server.url(str(n), host) for n in range(6) for server, host in names]
        import_records(archive, [item(1, *urls)])
        assert run(archive, clock=clock, pause=clock.wait, delay=1, threads=3) == []
    assert {host: len(found) for host, found in times.items()} == {"f": 6, "s": 6, "t": 18}
    for found in times.values():
        assert all(later - sooner >= 1.25 for sooner, later in pairwise(found))


@pytest.mark.parametrize(
    "reply", [Reply(429), Reply(429, {"Retry-After": "9"}), Reply(503, {"Retry-After": "9"})]
)
@pytest.mark.parametrize("uri", ["sqlite://"])
def test_a_host_that_asks_for_it_is_left_alone_and_nothing_is_noted(
    archive: ArchiveService, far: Far, reply: Reply
) -> None:
    for name in ("a", "b", "c"):
        far.replies[name] = reply
    import_records(archive, [item(1, *map(far.url, "abc"), far.url("d", "127.0.0.2"))])
    assert run(archive) == []
    assert len([line for line in far.lines if not line.endswith(" d")]) == 1
    assert list(notes(archive)) == [far.url("d", "127.0.0.2")]


def test_limits_forget_hosts_whose_while_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_requests, "REMEMBERED", 3)
    clock = Clock()
    limits = HostLimits(5, clock, clock.wait)
    for number in range(100):
        with limits.turn(f"host{number}"):
            clock.wait(1)
    assert len(limits._hosts) <= 6
    with limits.turn("host99"):
        assert clock.waits[-1] == 5


@pytest.mark.parametrize("uri", ["sqlite://"])
def test_a_host_that_is_down_fails_all_its_addresses_without_being_asked_for_each(
    archive: ArchiveService,
) -> None:
    address = nobody()
    clock = Clock()
    import_records(archive, [item(1, *(f"http://{address}/{n}" for n in range(20)))])
    run(archive, clock=clock, pause=clock.wait)
    assert set(notes(archive).values()) == {(1, "has a host that refuses the connection")}
    assert len(notes(archive)) == 20
    assert len(clock.waits) == link_check.DOWN_AFTER - 1


# --- which addresses


def test_files_metadata_and_formats_elsewhere_are_looked_at_each_address_once(
    app: Flask, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(app)
    monkeypatch.setattr(link_rows, "BATCH", 2)
    monkeypatch.setattr(link_list, "BATCH", 2)
    monkeypatch.setattr(link_check, "BATCH", 1)
    own = "http://mtc-m16c.sid.inpe.br"
    records = [
        item(1, far.url("a"), far.url("b"), far.url("c")),
        item(2, far.url("a"), far.url("a#page=2"), f"{own}/x", f"{own}:80/y"),
        item(
            3,
            metadata={"url": far.url("m"), "formats": {"oai_dc": far.url("o"), "own": f"{own}/z"}},
        ),
        item(4, content_type="Metadata", formats={"oai_dc": far.url("n"), "mods": far.url("a")}),
        item(5, far.url("gone"), state="Deleted", timestamp="2010-01-02T03:04:05Z"),
        item(6, state="Copy", original_archive=rep(50)),
        {"rep": rep(7), "files": [{"path": "only named"}]},
        *(item(number, far.url(f"f{number}")) for number in range(20, 27)),
    ]
    import_records(archive, records)
    for _ in range(3):
        far.asked.clear()
        found = run(archive)
        paths = ["a", "b", "c", "m", "n", "o", *(f"f{number}" for number in range(20, 27))]
        assert sorted({asked.path for asked in far.asked}) == sorted(paths)
        assert len(far.asked) == 2 * len(paths)
    assert sorted(failure.note.url for failure in found) == sorted(map(far.url, paths))
    [shared] = [failure for failure in found if failure.note.url == far.url("a")]
    assert shared.used == 4
    assert [(use.ibi, use.path, use.relation) for use in shared.uses] == [
        (rep(1), "0.pdf", None),
        (rep(2), "0.pdf", None),
        (rep(2), "1.pdf", None),
        (rep(4), None, ".metadata(mods)"),
    ]
    [described] = [failure for failure in found if failure.note.url == far.url("m")]
    assert [(use.ibi, use.path, use.relation) for use in described.uses] == [
        (rep(3), None, ".metadata")
    ]


def test_items_of_other_archives_are_not_looked_at(new_app: NewApp, far: Far) -> None:
    archives = []
    for number in (1, 2):
        app = new_app(IBI_ARCHIVE_SERVICE_IBI=f"sid.inpe.br/mtc-m18@80/2008/03.17.15.1{number}")
        archives.append(archive_of(app))
        archives[-1].init()
        import_records(archives[-1], [item(number, far.url(f"of{number}"))])
    run(archives[0])
    assert {asked.path for asked in far.asked} == {"of1"}
    run(archives[1])
    assert set(notes(archives[0])) == {far.url("of1"), far.url("of2")}


def test_an_address_that_no_item_has_any_longer_is_forgotten(app: Flask, far: Far) -> None:
    archive = archive_of(app)
    import_records(archive, [item(1, far.url("a"), far.url("b")), item(2, far.url("b"))])
    for _ in range(3):
        assert run(archive) == [] or set(notes(archive)) == {far.url("a"), far.url("b")}
    import_records(archive, [item(1)], on_conflict="update")
    assert [failure.note.url for failure in run(archive)] == [far.url("b")]
    assert set(notes(archive)) == {far.url("b")}


# --- what is told when


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ("+", "-"),
        ("xxx", "--T"),
        ("xxxxx", "--TTT"),
        ("xx+xx", "-----"),
        ("xx+xxx", "-----T"),
        ("xxx+", "--T-"),
        ("xxx+xx", "--T---"),
        ("xxx+xxx", "--T---T"),
        ("x.x.x", "----T"),
        ("xxx.", "--TT"),
        ("+.x+x", "-----"),
    ],
)
@pytest.mark.parametrize("uri", ["sqlite://"])
def test_a_failure_is_told_only_after_it_came_three_times_in_a_row(
    archive: ArchiveService, far: Far, looks: str, told: str
) -> None:
    """x: a failure; +: a good look; a dot: not now."""
    replies = {"x": Reply(404), "+": Reply(), ".": Reply(429)}
    import_records(archive, [item(1, far.url("a"))])
    found = ""
    for hour, look in enumerate(looks):
        far.replies["a"] = replies[look]
        found += "T" if run(archive, hour) else "-"
    assert found == told


def test_a_failure_says_since_when_how_often_and_when_it_was_told(app: Flask, far: Far) -> None:
    archive = archive_of(app)
    import_records(archive, [item(1, far.url("ok"), far.url("a"))])
    far.replies["ok"] = Reply()
    for hour in range(3):
        assert run(archive, hour) == [] or hour == 2
    far.replies["a"] = Reply(410)
    [failure] = run(archive, 3)
    assert failure.to_json() == {
        "url": far.url("a"),
        "error": "answers 410 (Gone)",
        "failures": 4,
        "failing_since": "2026-11-21T03:00:00Z",
        "checked_at": "2026-11-21T06:00:00Z",
        "noticed_at": "2026-11-21T05:00:00Z",
        "used": 1,
        "uses": [{"ibi": rep(1), "path": "1.pdf"}],
    }
    far.replies["a"] = Reply()
    assert run(archive, 4) == []
    assert notes(archive) == {far.url("ok"): (0, None), far.url("a"): (0, None)}


@pytest.mark.parametrize("uri", ["sqlite://"])
def test_how_many_failures_are_told_is_a_setting(new_app: NewApp, far: Far) -> None:
    app = new_app(IBI_LINK_FAILURES=1)
    archive_of(app).init()
    import_records(archive_of(app), [item(1, far.url("a"))])
    assert len(run(archive_of(app))) == 1


# --- parts of the work


@pytest.mark.parametrize("uri", ["sqlite://"])
def test_what_was_looked_at_lately_is_left_out_but_still_told(app: Flask, far: Far) -> None:
    archive = archive_of(app)
    import_records(archive, [item(1, far.url("a"))])
    for hour in (0, 21, 42):
        run(archive, hour, older_than=timedelta(hours=20))
    asked = len(far.asked)
    assert len(run(archive, 43, older_than=timedelta(hours=20))) == 1
    assert len(far.asked) == asked == 6


@pytest.mark.parametrize("uri", ["sqlite://"])
def test_one_host_alone_is_looked_at_and_told(app: Flask, far: Far) -> None:
    archive = archive_of(app)
    import_records(archive, [item(1, far.url("a"), far.url("b", "localhost"))])
    for _ in range(3):
        found = run(archive, host="LocalHost.")
    assert [failure.note.url for failure in found] == [far.url("b", "localhost")]
    assert {asked.host for asked in far.asked} == {"localhost"}


@pytest.mark.parametrize("uri", ["sqlite://"])
def test_addresses_that_wait_longest_come_first(archive: ArchiveService, far: Far) -> None:
    import_records(archive, [item(1, far.url("b"))])
    run(archive, 5)
    import_records(archive, [item(2, far.url("a")), item(3, far.url("c"))])
    run(archive, 6, older_than=timedelta(hours=3))
    import_records(archive, [item(4, far.url("d"))])
    far.asked.clear()
    run(archive, 10)
    asked = [line.removeprefix("HEAD ") for line in far.lines if line.startswith("HEAD")]
    assert asked[:2] == ["d", "b"]
    assert sorted(asked[2:]) == ["a", "c"]


def test_each_look_is_kept_when_the_run_is_killed(app: Flask, far: Far) -> None:
    archive = archive_of(app)

    class Killed(BaseException):
        """The process ends."""

    def progress(count: int) -> None:
        if len(notes(archive)) == 2:
            raise Killed

    import_records(archive, [item(1, *map(far.url, "abcdef"))])
    clock = Clock()
    with LinkChecker(archive, clock=clock, pause=clock.wait, threads=1) as checker:
        assert checker.collect() == 6
        with pytest.raises(Killed):
            checker.look(progress)
    kept = notes(archive)
    assert len(kept) == 2
    with LinkChecker(
        archive, clock=clock, pause=clock.wait, older_than=timedelta(hours=1)
    ) as checker:
        assert checker.collect() == 4


@pytest.mark.parametrize("uri", ["sqlite://"])
def test_of_two_runs_at_once_one_failure_counts_once(archive: ArchiveService, far: Far) -> None:
    import_records(archive, [item(1, far.url("a"))])
    clock = Clock()
    options: dict[str, Any] = {"clock": clock, "pause": clock.wait, "now": lambda: BEGIN}
    with LinkChecker(archive, **options) as one, LinkChecker(archive, **options) as other:
        one.collect()
        other.collect()
        one.look()
        other.look()
    assert notes(archive) == {far.url("a"): (1, "answers 404 (Not Found)")}


@pytest.mark.parametrize("uri", ["sqlite://"])
def test_a_database_that_goes_away_ends_the_run(new_app: NewApp, far: Far) -> None:
    app = new_app()
    archive = archive_of(app)
    archive.init()
    import_records(archive, [item(1, *map(far.url, "abcdef"))])
    clock = Clock()
    with LinkChecker(archive, clock=clock, pause=clock.wait) as checker:
        checker.collect()
        archive.downgrade("0001")
        with pytest.raises(NotReady):
            checker.look()
    assert len([line for line in far.lines if line.startswith("HEAD")]) <= link_check.THREADS
