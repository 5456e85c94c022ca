"""Runs of the link check: the links, the reports, and the rate limit for each host."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from threading import Lock
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text
from support.archives import archive_of, import_records
from support.clocks import Clock
from support.far import Far, Reply, far_server, unused_address
from support.web import rep

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.care import link_check
from flask_ibi_archive.archive.care.link_check import LinkChecker, LinkFailure
from flask_ibi_archive.archive.items import link_rows
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.server.http.link_requests import MAX_HOST_FAILURES, user_agent

NewApp = Callable[..., Flask]
BEGIN = datetime(2026, 11, 21, 3, 0, tzinfo=timezone.utc)


def item(number: int, *urls: str, **more: Any) -> dict[str, Any]:
    """Return the record of an item whose files are on another server."""
    files = [{"path": f"{place}.pdf", "url": url} for place, url in enumerate(urls)]
    return {"rep": rep(number), "files": files, **more}


def checker(archive: Archive, hours: float = 0, **options: Any) -> LinkChecker:
    """Return a run that begins some hours after :data:`BEGIN`, with a simulated clock."""
    clock = Clock()
    defaults = {"clock": clock, "pause": clock.wait, "threads": 2}
    now = BEGIN + timedelta(hours=hours)
    return LinkChecker(archive, now=lambda: now, **{**defaults, **options})


def run(archive: Archive, hours: float = 0, **options: Any) -> list[LinkFailure]:
    """Check all links, and return the report."""
    found = checker(archive, hours, **options)
    found.find_links()
    found.check()
    return list(found.report())


def results(archive: Archive) -> dict[str, tuple[int, str | None]]:
    """Return the number of failures and the error of each link that was checked."""
    with archive.database.reading() as connection:
        rows = connection.execute(
            text("SELECT url, failures, error FROM ibi_link WHERE checked_at IS NOT NULL")
        )
        return {row.url: (row.failures, row.error) for row in rows}


# --- requests to a host --------------------------------------------------------------------------


@pytest.mark.parametrize("uri", ["sqlite://"])  # the threads share one connection
def test_a_host_gets_one_request_at_a_time_with_a_delay_after_each(archive: Archive) -> None:
    clock, lock = Clock(), Lock()
    busy: set[str] = set()
    times: dict[str, list[float]] = {}

    def answer(host: str) -> Reply:
        with lock:
            assert host not in busy
            busy.add(host)
            times.setdefault(host, []).append(clock())
        clock.wait(0.25)  # the duration of the request
        with lock:
            busy.remove(host)
        return Reply(301, {"Location": third.url("t", "localhost")}) if host != "t" else Reply()

    with far_server() as first, far_server() as second, far_server() as third:
        for host, server in (("f", first), ("s", second), ("t", third)):
            for name in ("t", *map(str, range(6))):
                server.replies[name] = lambda host=host: answer(host)  # type: ignore[misc]
        hosts = ((first, "127.0.0.1"), (second, "127.0.0.2"), (third, "localhost"))
        urls = [server.url(str(n), host) for n in range(6) for server, host in hosts]
        import_records(archive, [item(1, *urls)])
        assert run(archive, clock=clock, pause=clock.wait, delay=1, threads=3) == []
    assert {host: len(found) for host, found in times.items()} == {"f": 6, "s": 6, "t": 18}
    for found in times.values():
        assert all(later - sooner >= 1.25 for sooner, later in pairwise(found))


def test_a_host_that_refuses_requests_gets_no_more_requests(archive: Archive, far: Far) -> None:
    elsewhere = far.url("d", "127.0.0.2")
    import_records(archive, [item(1, *map(far.url, "abc"), elsewhere)])
    for hour, reply in enumerate(
        (Reply(429), Reply(429, {"Retry-After": "9"}), Reply(503, {"Retry-After": "9"}))
    ):
        far.requests.clear()
        far.replies = {**dict.fromkeys("abc", reply), "d": Reply()}
        assert run(archive, hour) == []
        assert len([line for line in far.lines if line != "HEAD d"]) == 1, reply
        assert results(archive) == {elsewhere: (0, None)}, reply
    # the result of a link that redirects to such a host is not stored either
    far.replies["d"] = Reply(301, {"Location": far.url("a")})
    assert run(archive, 9) == []
    assert results(archive) == {elsewhere: (0, None)}


def test_all_links_to_a_host_that_is_down_fail_without_a_request_for_each(archive: Archive) -> None:
    address = unused_address()
    clock = Clock()
    import_records(archive, [item(1, *(f"http://{address}/{n}" for n in range(20)))])
    run(archive, clock=clock, pause=clock.wait)
    assert set(results(archive).values()) == {(1, "can't be reached (Connection refused)")}
    assert len(results(archive)) == 20
    assert len(clock.waits) == MAX_HOST_FAILURES - 1


def test_the_user_agent_is_the_program_with_its_version_and_the_archive() -> None:
    name, _, rest = user_agent("http://mtc-m16c.sid.inpe.br").partition("/")
    assert name == "flask_ibi_archive"
    assert rest.endswith(" (+http://mtc-m16c.sid.inpe.br)")


# --- the links that are checked ------------------------------------------------------------------


def test_external_urls_of_files_metadata_and_formats_are_checked_once(
    archive: Archive, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_rows, "BATCH", 2)
    monkeypatch.setattr(link_check, "BATCH", 3)
    monkeypatch.setattr(link_check, "REPORT_BATCH", 2)
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
    paths = ["a", "b", "c", "m", "n", "o", *(f"f{number}" for number in range(20, 27))]
    for hour in range(3):
        far.requests.clear()
        found = run(archive, hour)
        assert sorted({request.path for request in far.requests}) == sorted(paths)
        assert len(far.requests) == 2 * len(paths)
    uses = {
        failure.link.url: [(use.ibi, use.path, use.relation) for use in failure.uses]
        for failure in found
    }
    assert sorted(uses) == sorted(map(far.url, paths))
    assert uses[far.url("a")] == [
        (rep(1), "0.pdf", None),
        (rep(2), "0.pdf", None),
        (rep(2), "1.pdf", None),
        (rep(4), None, ".metadata(mods)"),
    ]
    assert uses[far.url("m")] == [(rep(3), None, ".metadata")]


def test_items_of_other_archives_are_not_checked(new_app: NewApp, far: Far) -> None:
    archives = []
    for number in (1, 2):
        app = new_app(IBI_ARCHIVE_SERVICE_IBI=f"sid.inpe.br/mtc-m18@80/2008/03.17.15.1{number}")
        archives.append(archive_of(app))
        archives[-1].init()
        import_records(archives[-1], [item(number, far.url(f"of{number}"))])
    run(archives[0])
    assert {request.path for request in far.requests} == {"of1"}
    run(archives[1], 1)
    assert set(results(archives[0])) == {far.url("of1"), far.url("of2")}


def test_a_link_that_no_item_uses_any_longer_is_deleted(archive: Archive, far: Far) -> None:
    import_records(archive, [item(1, far.url("a"), far.url("b")), item(2, far.url("b"))])
    for hour in range(3):
        run(archive, hour)
        assert set(results(archive)) == {far.url("a"), far.url("b")}
    import_records(archive, [item(1)], on_conflict="update")
    assert [failure.link.url for failure in run(archive, 3)] == [far.url("b")]
    assert set(results(archive)) == {far.url("b")}


def test_a_host_of_any_length_and_any_letters_is_stored(archive: Archive) -> None:
    """Imports do not accept such a URL any more, but older versions may have stored it."""
    import_records(archive, [item(1, "http://x.invalid/0", "http://x.invalid/1")])
    with archive.database.writing() as connection:
        for path, url in (("0.pdf", "http://" + "\xfc" * 5000), ("1.pdf", "http://[x/")):
            connection.execute(
                text("UPDATE ibi_file SET url = :url WHERE path = :path"),
                {"url": url, "path": path},
            )
    assert checker(archive).find_links() == 1


# --- reports -------------------------------------------------------------------------------------


def test_a_link_is_reported_after_three_consecutive_failures(archive: Archive, far: Far) -> None:
    """In ``checks``, x is a failure, + a success, and a dot a host that refuses for now."""
    replies = {"x": Reply(404), "+": Reply(), ".": Reply(429)}
    for number, (checks, reported) in enumerate(
        (
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
        )
    ):
        name = f"a{number}"
        import_records(archive, [item(1, far.url(name))], on_conflict="update")
        found = ""
        for hour, check in enumerate(checks):
            far.replies[name] = replies[check]
            found += "T" if run(archive, 24 * number + hour) else "-"
        assert found == reported, checks


def test_a_report_contains_the_times_and_the_number_of_failures(archive: Archive, far: Far) -> None:
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
    assert results(archive) == {far.url("ok"): (0, None), far.url("a"): (0, None)}


def test_the_number_of_failures_is_a_setting(new_app: NewApp, far: Far) -> None:
    app = new_app(IBI_LINK_FAILURES=1)
    archive_of(app).init()
    import_records(archive_of(app), [item(1, far.url("a"))])
    assert len(run(archive_of(app))) == 1


# --- parts of the work ---------------------------------------------------------------------------


def test_a_link_that_was_checked_recently_is_skipped_but_still_reported(
    archive: Archive, far: Far
) -> None:
    import_records(archive, [item(1, far.url("a"))])
    for hour in (0, 21, 42):
        run(archive, hour, older_than=timedelta(hours=20))
    requests = len(far.requests)
    assert len(run(archive, 43, older_than=timedelta(hours=20))) == 1
    assert len(far.requests) == requests == 6


def test_only_one_host_is_checked_and_reported(archive: Archive, far: Far) -> None:
    import_records(archive, [item(1, far.url("a"), far.url("b", "localhost"))])
    run(archive, 0)
    far.requests.clear()
    for hour in (1, 2):
        found = run(archive, hour, host="LocalHost.")
    assert [failure.link.url for failure in found] == [far.url("b", "localhost")]
    assert {request.host for request in far.requests} == {"localhost"}
    # the links to other hosts are still known
    assert results(archive)[far.url("a")] == (1, "answers 404 (Not Found)")


def test_the_links_with_the_oldest_checks_come_first(
    archive: Archive, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_rows, "BATCH", 1)
    import_records(archive, [item(1, far.url("b"))])
    run(archive, 5)
    import_records(archive, [item(2, far.url("a")), item(3, far.url("c"))])
    run(archive, 6, older_than=timedelta(hours=3))
    import_records(archive, [item(4, far.url("d"))])
    far.requests.clear()
    run(archive, 10)
    checked = [line.removeprefix("HEAD ") for line in far.lines if line.startswith("HEAD")]
    assert checked[:2] == ["d", "b"]
    assert sorted(checked[2:]) == ["a", "c"]


def test_the_next_run_continues_a_run_that_was_killed(archive: Archive, far: Far) -> None:
    class Killed(BaseException):
        """Raised as if the process were killed."""

    def progress(count: int) -> None:
        if len(results(archive)) == 2:
            raise Killed

    import_records(archive, [item(1, *map(far.url, "abcdef"))])
    killed = checker(archive, threads=1)
    assert killed.find_links() == 6
    with pytest.raises(Killed):
        killed.check(progress)
    before = results(archive)
    assert len(before) == 2
    assert checker(archive, 1, older_than=timedelta(hours=2)).find_links() == 4
    far.requests.clear()
    run(archive, 1, older_than=timedelta(hours=2))
    assert len({request.path for request in far.requests}) == 4
    assert results(archive).items() > before.items()


def test_a_failure_in_two_simultaneous_runs_counts_once(archive: Archive, far: Far) -> None:
    import_records(archive, [item(1, far.url("a"), far.url("b"))])
    first, second = checker(archive, threads=1), checker(archive, threads=1)
    assert (first.find_links(), second.find_links()) == (2, 2)

    def progress(count: int) -> None:
        """Run the second check completely while the first run is between two links."""
        if len(results(archive)) == 1:
            second.check()

    first.check(progress)
    error = "answers 404 (Not Found)"
    assert results(archive) == {far.url(name): (1, error) for name in "ab"}


def test_a_run_ends_when_the_database_fails(archive: Archive, far: Far) -> None:
    import_records(archive, [item(1, *map(far.url, "abcdef"))])
    run = checker(archive)
    run.find_links()
    archive.downgrade("base")
    with pytest.raises(NotReady):
        run.check()
    assert far.requests == []
