"""What a resolver counts when a persistent URL fails: the identifier, the reason and the day."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask
from sqlalchemy import inspect, select
from support.archive_servers import http, servers
from support.resolving import ORIGINAL, Table, X, Y, Z, app_over, archives_of, leads, resolver_of

from flask_ibi_archive.resolver.claims.tables import FailedUrl

URL = "http://here.br/a.pdf"
UNKNOWN = "a.br/unknown/2001/01.01.00.00"
REMOVED = "a.br/removed/2001/01.01.00.00"
BROKEN = "a.br/broken/2001/01.01.00.00"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """A resolver with two Archives."""
    with servers() as hosts:
        first: Table = {
            X: leads(URL),
            Z: leads(URL, state="Copy"),
            Y: leads(URL),
            REMOVED: "state Deleted\r\ntimestamp 2020-01-01T00:00:00Z",
            BROKEN: http("no", "500 No"),
        }
        second: Table = {Y: leads("http://there.br/b.pdf")}
        with app_over(archives_of(hosts, first, second), tmp_path_factory.mktemp("app")) as app:
            yield app


def failures_of(app: Flask, *targets: str, method: str = "GET") -> dict[tuple[str, str], int]:
    """Return the rows about these requests, after deleting those of earlier requests."""
    resolver = resolver_of(app)
    resolver.hint_writer.flush()
    with resolver.database.writing() as connection:
        connection.execute(FailedUrl.__table__.delete())  # type: ignore[attr-defined]
    for target in targets:
        app.test_client().open(target, method=method)
    resolver.hint_writer.flush()
    rows = resolver.database.read_rows(select(FailedUrl.ibi, FailedUrl.reason, FailedUrl.count))
    return {(row[0], row[1]): row[2] for row in rows}


@pytest.mark.parametrize(
    ("target", "ibi", "reason"),
    [
        (f"/{UNKNOWN}", UNKNOWN, "unknown"),
        (f"/{UNKNOWN.upper()}!:(oai_dc)/a.txt?x=secret", UNKNOWN, "unknown"),
        (f"/{X}{ORIGINAL}&x=y", None, None),
        (f"/{Y}{ORIGINAL}", Y, "suspects"),
        (f"/{Z}{ORIGINAL}", Z, "missing"),
        (f"/{REMOVED}", REMOVED, "removed"),
        (f"/{BROKEN}", BROKEN, "silent"),
        ("/8JMKD3MGP8W/35MMLLO?x=secret", "8JMKD3MGP8W/35MMLLO", "malformed"),
        ("/a.br/x/2001/13.01.00.00", "a.br/x/2001/13.01.00.00", "malformed"),
        # identifiers of other systems, without the modifier and the query
        ("/doi:10.5281/zenodo.1", "doi:10.5281/zenodo.1", "unknown"),
        ("/hdl:20.500.12345/678!:(oai_dc)", "hdl:20.500.12345/678", "unknown"),
        ("/ark:/12345/x5-4+(pt)/a.txt?x=secret", "ark:12345/x5-4", "unknown"),
        ("/hdl:678?x=secret", "hdl:678", "malformed"),
        # addresses whose query says what they mean, unless they were meant as persistent URLs
        ("/http://old.br/handle/1/2?x=y", "http://old.br/handle/1/2?x=y", "malformed"),
        ("/http://old.br/8JMKD3MGP8W/35MMLLO?x=secret", "8JMKD3MGP8W/35MMLLO", "malformed"),
        # the identifier is right: there is nothing to compare
        (f"/{X}+!+", None, None),
        # requests of robots that search for weak servers
        ("/wp-login.php", None, None),
        ("/", None, None),
    ],
)
def test_each_failure_is_counted(
    site: Flask, target: str, ibi: str | None, reason: str | None
) -> None:
    expected = {} if ibi is None else {(ibi, reason): 2}
    assert failures_of(site, target, target) == expected
    if ibi is not None:
        assert failures_of(site, target, method="HEAD") == {(ibi, reason): 1}
    assert failures_of(site, target, method="POST") == {}


def test_the_table_has_no_place_for_readers() -> None:
    assert inspect(FailedUrl).columns.keys() == ["day", "ibi", "reason", "count"]
