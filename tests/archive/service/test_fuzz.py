"""Random requests: every request is answered, and no request raises an exception or writes.

IBI_FUZZ_REQUESTS sets the number of requests of the long runs, which are marked as slow.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import MetaData, select
from support.archive_servers import servers
from support.archives import SERVICE, archive_of
from support.fuzz import HEADERS, MALFORMED_HOSTS, REMOTES, scrap, spoil
from support.resolving import app_over, archives_of, goes_on, leads, resolver_of
from support.web import (
    CLOSED,
    CLOSED_METADATA,
    CONTENTS,
    FAR_METADATA,
    GONE,
    HIDDEN,
    METADATA,
    NEW,
    NOBODY,
    ONLY_IBIP,
    REPORT,
    REPORT_ALIAS,
    REPORT_IBIP,
    SERVED_ELSEWHERE,
    TRAP,
    URL_METADATA,
    WITH_CLOSED_METADATA,
    WITH_METADATA,
    Answer,
    environ_of,
    run,
)

from flask_ibi_archive.archive.service import local_resolution
from flask_ibi_archive.core.protocol.pairs import parse_pairs

SHORT_RUN = 250
LONG_RUN = int(os.environ.get("IBI_FUZZ_REQUESTS", "12000"))
#: The number of requests of a short and of a long run.
for_each_length = pytest.mark.parametrize(
    "count", [SHORT_RUN, pytest.param(LONG_RUN, marks=pytest.mark.slow)]
)
GOOD = [REPORT, REPORT_IBIP, REPORT_ALIAS, GONE, NEW, CLOSED, HIDDEN, SERVED_ELSEWHERE,
        FAR_METADATA,
        URL_METADATA, WITH_METADATA, METADATA, WITH_CLOSED_METADATA, CLOSED_METADATA, TRAP,
        ONLY_IBIP,
        SERVICE, NOBODY]  # fmt: skip
PATHS = [
    *CONTENTS,
    "doc/cgi/a.html",
    "Relat%f3rio%20Final.pdf",
    "self%20%e9.pdf",
    "..a/b..",
    "a%5Cb.txt",
]
NAMES = [
    "servicesubject", "clientinformation.ipaddress", "parsedibiurl.ibi", "parsedibiurl.filepath",
    "parsedibiurl.verblist", "urlkey", "state", "ibi", "url", "contenttype", "choice", "x", "",
]  # fmt: skip
VALUES = ["urlRequest", "urlRequest", "acknowledgment", "inclusionConfirmationRequest",
          "GetMetadata",
          "GetMetadata(oai_dc)", "GetLastEdition+GetFileList", "GetTranslation(pt)", "oai_dc",
          "150.163.2.175",
          "::1", "1.2.3.4+5.6.7.8", "::ffff:150.163.2.175", "report.pdf", "Original", "1234567890",
          "1424636122-5331490054869684", f"rep+{REPORT}", "Data", "9" * 400, "-1",
          "1e309"]  # fmt: skip


MODIFIERS = b" ! + : +(pt) :(oai_dc) !+:+ ?? %21%3a :: +(xx)".split(b" ")
PREFIXES = [b"", b"", b"", b"", b"ibi/", b"rep/", b"upn:EEAFFE:", b"http://urlib.net/", b"/"]


def random_ibi(chance: random.Random) -> bytes:
    return spoil(chance, chance.choice(GOOD).encode())


def random_query(chance: random.Random) -> bytes:
    if chance.random() < 0.4:  # almost a correct message
        pairs = [
            b"servicesubject=" + chance.choice([b"urlRequest", b"acknowledgment"]),
            b"clientinformation.ipaddress=150.163.2.175",
            b"parsedibiurl.ibi=" + random_ibi(chance),
            chance.choice([b"parsedibiurl.verblist=", b"parsedibiurl.filepath=", b"choice="])
            + spoil(chance, chance.choice([*VALUES, *PATHS]).encode()),
        ]
    else:
        pairs = [
            chance.choice(NAMES).encode()
            + chance.choice([b"=", b"=", b"=", b"", b"=="])
            + spoil(chance, chance.choice([*VALUES, *PATHS, *GOOD]).encode())
            for _ in range(chance.randrange(6))
        ]
    if pairs and chance.random() < 0.1:
        pairs.append(chance.choice(pairs))
    chance.shuffle(pairs)
    query = spoil(chance, b"&".join(pairs))
    return query * 40 if chance.random() < 0.03 else query


def random_path(chance: random.Random) -> bytes:
    kind = chance.randrange(12)
    if kind > 9:
        rest = chance.choice(MODIFIERS) + chance.choice([b"", b"", b"/", *map(str.encode, PATHS)])
        return b"/" + chance.choice(PREFIXES) + random_ibi(chance) + spoil(chance, rest)
    if kind < 3:
        return spoil(chance, f"/{SERVICE}".encode())
    ibi = random_ibi(chance)
    if kind < 5:
        return b"/col/" + ibi + b"/doc/" + spoil(chance, chance.choice(PATHS).encode())
    if kind < 8:
        return (
            b"/col/"
            + ibi
            + spoil(chance, chance.choice([b"/", b"", b"/files", b"/metadata", b"/doc/"]))
        )
    if kind < 9:
        return spoil(
            chance, chance.choice([b"/ibi/health", b"/ibi/health/live", b"/ibi/health/ready"])
        )
    return b"/" + b"/".join(scrap(chance) for _ in range(chance.randrange(6)))


def requests(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Yield WSGI environments, the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        headers = {
            name: chance.choice(HEADERS[name])
            for name in chance.sample([*HEADERS, *["Range"] * 4], chance.choice([0, 0, 1, 1, 2, 4]))
        }
        method = chance.choice(["GET"] * 16 + ["HEAD", "POST", "OPTIONS", "BREW"])
        # a "?" ends the path; the three bytes removed would end the request line
        target = random_path(chance) + b"?" + random_query(chance)
        yield environ_of(target.translate(None, b" \r\n"), method, headers, chance.choice(REMOTES))


def everything(app: Flask, files: Path) -> dict[str, Any]:
    """Return the contents of all tables and files."""
    tables = MetaData()
    with archive_of(app).database.reading() as connection:
        tables.reflect(connection)
        found: dict[str, Any] = {
            name: sorted(map(repr, connection.execute(select(table))))
            for name, table in tables.tables.items()
        }
    found["files"] = sorted(
        (str(path), path.stat().st_mtime_ns, path.read_bytes())
        for path in files.rglob("*")
        if path.is_file()
    )
    return found


@pytest.fixture
def _expected_warnings() -> Iterator[None]:
    """Hide the expected warnings about acknowledgments that are not counted."""
    logger = logging.getLogger("flask_ibi_archive.accesses")

    def is_error(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR

    logger.addFilter(is_error)
    yield
    logger.removeFilter(is_error)


@pytest.mark.postgresql
@for_each_length
@pytest.mark.usefixtures("_expected_warnings")
def test_no_request_fails_or_writes(
    shelf_place: tuple[str, Path],
    web: Flask,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
) -> None:
    # a request with a persistent URL would count an access
    monkeypatch.setattr(local_resolution, "count_after_response", lambda *parts: None)
    uri, folder = shelf_place
    assert web.config["PROPAGATE_EXCEPTIONS"]
    before = everything(web, folder / "files")
    assert before["ibi_item"]
    assert before["files"]
    statuses: dict[int, int] = {}
    caplog.set_level(logging.WARNING)
    if count > SHORT_RUN and not uri.startswith("sqlite"):  # slower
        count //= 4
    for environ in requests(20150227, count):
        shown = (environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"][:500])
        try:
            answer = run(web, environ)
        except Exception as error:
            headers = {name: value for name, value in environ.items() if name.startswith("HTTP_")}
            raise AssertionError(f"{shown} {headers} {environ.get('REMOTE_ADDR')}") from error
        assert answer.status < 500, (shown, answer.body)
        assert b"Traceback" not in answer.body
        if "Content-Disposition" not in answer.headers and (
            answer.headers.get("Content-Type") == "text/plain"
        ):
            assert answer.body.isascii(), shown
            parse_pairs(answer.body)
        statuses[answer.status] = statuses.get(answer.status, 0) + 1
    assert not caplog.records
    assert everything(web, folder / "files") == before
    # the requests reach all parts of the application
    assert {200, 302, 400, 403, 404, 405, 410} <= set(statuses), statuses
    if count >= 3000:
        assert {206, 308} <= set(statuses), statuses
    if count > 10_000:
        assert {304, 412, 414, 416} <= set(statuses), statuses
    assert statuses[200] > sum(statuses.values()) / 20, statuses


def registered(app: Flask) -> list[Any]:
    """Return the Archives of a resolver, without the statistics of their answers."""
    return [
        (one.service_ibi, one.address, one.included_at, one.confirmed_at, one.excluded_at)
        for one in resolver_of(app).registry.list()
    ]


@for_each_length
def test_no_request_to_a_resolver_fails_or_writes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    chance = random.Random(20150312)
    table = {
        REPORT: leads("http://a.br/a"),
        REPORT_IBIP: leads("http://a.br/a"),
        f"{REPORT}!": goes_on(NEW),
        GONE: "state Deleted",
        NEW: leads("http://a.br/%0d%0aX-Header:1"),
    }
    uri = f"sqlite:///{tmp_path / 'resolver.sqlite'}"
    statuses: dict[int, int] = {}

    with (
        servers() as hosts,
        app_over(archives_of(hosts, table), tmp_path, IBI_RESOLVER_DATABASE_URI=uri) as app,
        caplog.at_level(logging.WARNING),
    ):
        path = b"/" + resolver_of(app).config.service_ibi.encode()
        before = registered(app)
        for environ in requests(20150312, max(count // 4, SHORT_RUN)):
            kind = chance.random()
            if kind < 0.3:
                environ["PATH_INFO"] = spoil(chance, path).decode("latin-1")
                subject = chance.choice(["inclusionRequest", "exclusionRequest"])
                environ["QUERY_STRING"] += f"&servicesubject={subject}&registrationkey=1234567890"
            elif kind < 0.7:
                target = b"/" + random_ibi(chance) + chance.choice(MODIFIERS)
                environ["PATH_INFO"] = spoil(chance, target).decode("latin-1")
            shown = (environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"][:500])
            answer = run(app, environ)
            assert answer.status < 500, (shown, answer.body)
            if answer.headers.get("Content-Type") == "text/plain":
                assert answer.body.isascii(), shown
                parse_pairs(answer.body)
            statuses[answer.status] = statuses.get(answer.status, 0) + 1
        assert registered(app) == before
    assert not caplog.records
    assert {200, 302, 400, 404, 405} <= set(statuses), statuses
    if count >= 3000:
        assert 410 in statuses, statuses


def test_a_malformed_host_header_is_refused_only_for_persistent_urls(web: Flask) -> None:
    def ask(target: str, host: str) -> Answer:
        return run(web, environ_of(target, "GET", {"Host": host}, "::1"))

    for target in (f"/{REPORT}", f"/{REPORT}!:(oai_dc)", f"/{NOBODY}"):
        for host in MALFORMED_HOSTS:
            check_refused(ask(target, host))
    for target in (
        f"/{SERVICE}?servicesubject=inclusionConfirmationRequest",
        f"/col/{REPORT}",
        f"/col/{REPORT}/",
        f"/col/{REPORT}/doc/report.pdf",
        f"/col/{REPORT}/metadata",
        "/ibi/health/live",
        "/",
    ):
        right = ask(target, "a.br")
        for host in MALFORMED_HOSTS:
            malformed = ask(target, host)
            if malformed.status == 400:  # werkzeug cannot find a route for this host
                check_refused(malformed)
            else:
                assert malformed.status == right.status < 500, host
                assert malformed.headers.get("Location") == right.headers.get("Location"), host


def check_refused(answer: Answer) -> None:
    """Check that an answer refuses the Host header."""
    assert answer.status == 400
    assert answer.alert.startswith("the Host header is ")


def test_a_resolver_refuses_a_malformed_host_header_for_persistent_urls(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'resolver.sqlite'}"
    with app_over([], tmp_path, IBI_RESOLVER_DATABASE_URI=uri) as app:
        service = resolver_of(app).config.service_ibi
        for host in MALFORMED_HOSTS:
            for target in (f"/{REPORT}", f"/{REPORT}!", "/x"):
                check_refused(run(app, environ_of(target, "GET", {"Host": host}, "::1")))
            for target in ("/", f"/{service}", "/ibi-resolver/health"):
                assert run(app, environ_of(target, "GET", {"Host": host}, "::1")).status < 500
        # HTTP 1.0 allows a request without this header
        assert run(app, environ_of("/", "GET", {"Host": ""}, "::1")).status == 200
