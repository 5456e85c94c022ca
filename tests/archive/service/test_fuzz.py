"""Random requests: every request is answered, and no request raises an exception or writes."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import MetaData, select
from support import web as shelf
from support.archive_servers import servers
from support.archives import SERVICE, archive_of
from support.resolving import app_over, archives_of, goes_on, leads, resolver_of
from support.vectors import load
from support.web import CONTENTS, GONE, NEW, NOBODY, REPORT, REPORT_IBIP, environ_of, run

from flask_ibi_archive.archive.service import local_resolution
from flask_ibi_archive.core.protocol.pairs import parse_pairs

SHORT_RUN = 120
LONG_RUN = 12_000
#: The number of requests of a short and of a long run.
for_each_length = pytest.mark.parametrize(
    "count", [SHORT_RUN, pytest.param(LONG_RUN, marks=pytest.mark.slow)]
)
#: Unusual texts of a URL (each character is a byte), headers, hosts and addresses; names and values
#: of queries; paths of files and what may follow or precede an identifier.
UNUSUAL = load("pages/fuzz.json")
PATHS = [*CONTENTS, *UNUSUAL["paths"]]
GOOD = [SERVICE, NOBODY, shelf.REPORT_ALIAS, shelf.ONLY_IBIP, *map(shelf.rep, range(1, 17))]


def scrap(chance: random.Random) -> bytes:
    """Return bytes that are unusual in a URL."""
    if chance.random() < 0.7:
        text: str = chance.choice(UNUSUAL["scraps"])
        return text.encode("latin-1")
    octets = chance.randbytes(chance.randrange(1, 12))
    return octets if chance.random() < 0.6 else b"".join(b"%%%02X" % byte for byte in octets)


def spoil(chance: random.Random, text: str) -> bytes:
    """Return a text with unusual bytes at a random position, in three of four cases unchanged."""
    whole = text.encode("latin-1", "replace")
    if chance.random() < 0.75:
        return whole
    place = chance.randrange(len(whole) + 1)
    return whole[:place] + scrap(chance) + whole[place + chance.randrange(3) :]


def random_query(chance: random.Random) -> bytes:
    def value(*more: str) -> bytes:
        return spoil(chance, chance.choice([*UNUSUAL["values"], *PATHS, *more]))

    if chance.random() < 0.4:  # almost a correct message
        pairs = [
            b"servicesubject=" + chance.choice([b"urlRequest", b"acknowledgment"]),
            b"clientinformation.ipaddress=150.163.2.175",
            b"parsedibiurl.ibi=" + spoil(chance, chance.choice(GOOD)),
            chance.choice([b"parsedibiurl.verblist=", b"parsedibiurl.filepath=", b"choice="])
            + value(),
        ]
    else:
        pairs = [
            chance.choice(UNUSUAL["names"]).encode() + chance.choice([b"=", b"=", b""]) + value()
            for _ in range(chance.randrange(6))
        ]
    if pairs and chance.random() < 0.1:
        pairs.append(chance.choice(pairs))
    chance.shuffle(pairs)
    query = b"&".join(pairs)
    return query * 40 if chance.random() < 0.03 else query


def random_path(chance: random.Random) -> bytes:
    ibi, path = spoil(chance, chance.choice(GOOD)), spoil(chance, chance.choice(PATHS))
    kind = chance.randrange(12)
    if kind > 9:
        before, after = (chance.choice(UNUSUAL[name]) for name in ("prefixes", "modifiers"))
        return b"/" + before.encode() + ibi + spoil(chance, after) + chance.choice([b"", b"/"])
    if kind < 3:
        return spoil(chance, f"/{SERVICE}")
    if kind < 5:
        return b"/col/" + ibi + b"/doc/" + path
    if kind < 8:
        return b"/col/" + ibi + spoil(chance, chance.choice(["/", "", "/files", "/metadata"]))
    if kind < 9:
        return spoil(chance, f"/ibi/health{chance.choice(['', '/live', '/ready'])}")
    return b"/" + b"/".join(scrap(chance) for _ in range(chance.randrange(6)))


def requests(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield WSGI environments, the same for the same seed."""
    chance, values = random.Random(seed), UNUSUAL["headers"]
    for _ in range(count):
        names = chance.sample([*values, *["Range"] * 4], chance.choice([0, 0, 1, 1, 2, 4]))
        headers = {name: chance.choice(values[name]) for name in names}
        method = chance.choice(["GET"] * 16 + ["HEAD", "POST", "OPTIONS", "BREW"])
        # a "?" ends the path; the three bytes removed would end the request line
        target = random_path(chance) + b"?" + random_query(chance)
        remote = chance.choice(UNUSUAL["remotes"])
        yield environ_of(target.translate(None, b" \r\n"), method, headers, remote)


def ask_all(
    app: Flask,
    environs: Iterator[dict[str, Any]],
    caplog: pytest.LogCaptureFixture,
    read_state: Callable[[], object],
) -> dict[int, int]:
    """Send requests, check each answer and that nothing changed; return how often each status."""
    statuses: dict[int, int] = {}
    before = read_state()
    caplog.set_level(logging.WARNING)
    for environ in environs:
        sent = {
            name: value for name, value in environ.items() if name[:5] not in ("wsgi.", "SERVE")
        }
        try:
            answer = run(app, environ)
        except Exception as error:
            raise AssertionError(str(sent)[:3000]) from error
        assert answer.status < 500, (sent, answer.body)
        assert b"Traceback" not in answer.body
        is_pairs = answer.headers.get("Content-Type") == "text/plain"
        if is_pairs and "Content-Disposition" not in answer.headers:
            assert answer.body.isascii(), sent
            parse_pairs(answer.body)
        statuses[answer.status] = statuses.get(answer.status, 0) + 1
    # an acknowledgment that is not counted is a warning
    records = [one for one in caplog.records if one.name != "flask_ibi_archive.accesses"]
    assert [one for one in records if one.levelno >= logging.WARNING] == []
    assert read_state() == before
    return statuses


@pytest.mark.postgresql
@for_each_length
def test_no_request_fails_or_writes(
    shelf_place: tuple[str, Path],
    web: Flask,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
) -> None:
    def read_everything() -> dict[str, Any]:
        tables = MetaData()
        with archive_of(web).database.reading() as connection:
            tables.reflect(connection)
            found: dict[str, Any] = {
                name: sorted(map(repr, connection.execute(select(table))))
                for name, table in tables.tables.items()
            }
        paths = [path for path in (folder / "files").rglob("*") if path.is_file()]
        assert found["ibi_item"]
        assert paths
        return found | {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}

    # a request with a persistent URL would count an access
    monkeypatch.setattr(local_resolution, "count_after_response", lambda *parts: None)
    uri, folder = shelf_place
    if count > SHORT_RUN and not uri.startswith("sqlite"):  # slower
        count //= 4
    statuses = ask_all(web, requests(20150227, count), caplog, read_everything)
    # the requests reach all parts of the application
    expected = {200, 302, 400, 403, 404, 405, 410}
    expected |= {206, 308} if count >= 3000 else set()
    expected |= {304, 412, 414, 416} if count > 10_000 else set()
    assert expected <= statuses.keys(), statuses
    assert statuses[200] > sum(statuses.values()) / 20, statuses


@for_each_length
def test_no_request_to_a_resolver_fails_or_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    table = {
        REPORT: leads("http://a.br/a"),
        REPORT_IBIP: leads("http://a.br/a"),
        f"{REPORT}!": goes_on(NEW),
        GONE: "state Deleted",
        NEW: leads("http://a.br/%0d%0aX-Header:1"),
    }
    settings = {
        "IBI_RESOLVER_DATABASE_URI": f"sqlite:///{tmp_path / 'resolver.sqlite'}",
        "IBI_RESOLVER_SERVICE_IBI": SERVICE,
    }

    def environs() -> Iterator[dict[str, Any]]:
        chance = random.Random(20150312)
        for environ in requests(20150312, max(count // 4, SHORT_RUN)):
            if chance.random() < 0.5:
                target = f"/{chance.choice([*table, NOBODY])}{chance.choice(UNUSUAL['modifiers'])}"
                environ["PATH_INFO"] = spoil(chance, target).decode("latin-1")
            yield environ

    with servers() as hosts, app_over(archives_of(hosts, table), tmp_path, **settings) as app:
        # without the statistics of the answers of the Archives
        statuses = ask_all(
            app,
            environs(),
            caplog,
            lambda: [
                (one.service_ibi, one.address, one.included_at, one.confirmed_at, one.excluded_at)
                for one in resolver_of(app).registry.list()
            ],
        )
    assert {302, 400, 404, 405} <= statuses.keys(), statuses


def test_a_malformed_host_header_is_refused_only_for_persistent_urls(
    web: Flask, tmp_path: Path
) -> None:
    uri = f"sqlite:///{tmp_path / 'resolver.sqlite'}"
    with app_over([], tmp_path, IBI_RESOLVER_DATABASE_URI=uri) as resolver:
        for host in UNUSUAL["malformed_hosts"]:
            for app, target in ((web, f"/{REPORT}"), (resolver, f"/{REPORT}!")):
                answer = run(app, environ_of(target, "GET", {"Host": host}, "::1"))
                assert (answer.status, answer.alert[:19]) == (400, "the Host header is ")
            # werkzeug finds no route for some of these hosts
            for app, target in (
                (web, f"/col/{REPORT}/doc/report.pdf"),
                (web, f"/{SERVICE}?servicesubject=acknowledgment"),
                (resolver, "/"),
            ):
                assert run(app, environ_of(target, "GET", {"Host": host}, "::1")).status < 500
        # HTTP 1.0 allows a request without this header
        assert run(resolver, environ_of("/", "GET", {"Host": ""}, "::1")).status == 200
