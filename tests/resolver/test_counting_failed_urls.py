"""What a resolver counts when a persistent URL fails: the identifier, the reason and the day."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from flask import Flask
from sqlalchemy import inspect, select
from support.archive_servers import servers
from support.resolving import ORIGINAL, Table, X, app_over, archives_of, leads, resolver_of

from flask_ibi_archive.resolver.tables import FailedUrl

URL = "http://here.br/a.pdf"
UNKNOWN = "a.br/unknown/2001/01.01.00.00"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """A resolver with an Archive."""
    with servers() as hosts:
        table: Table = {X: leads(URL)}
        with app_over(archives_of(hosts, table), tmp_path_factory.mktemp("app")) as app:
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
        (f"/{UNKNOWN.upper()}!:(oai_dc)/a.txt?x=secret", UNKNOWN, "unknown"),
        ("/8JMKD3MGP8W/35MMLLO?x=secret", "8JMKD3MGP8W/35MMLLO", "malformed"),
        # an identifier of another system, without the modifier and the query
        ("/ark:/12345/x5-4+(pt)/a.txt?x=secret", "ark:12345/x5-4", "unknown"),
        # addresses whose query says what they mean, unless they were meant as persistent URLs
        ("/http://old.br/handle/1/2?x=y", "http://old.br/handle/1/2?x=y", "malformed"),
        ("/http://old.br/8JMKD3MGP8W/35MMLLO?x=secret", "8JMKD3MGP8W/35MMLLO", "malformed"),
    ],
)
def test_each_failure_is_counted(site: Flask, target: str, ibi: str, reason: str) -> None:
    assert failures_of(site, target, target) == {(ibi, reason): 2}
    assert failures_of(site, target, method="HEAD") == {(ibi, reason): 1}
    assert failures_of(site, target, method="POST") == {}


@pytest.mark.parametrize(
    "target",
    [
        f"/{X}{ORIGINAL}&x=y",
        f"/{X}+!+",  # the identifier is right: there is nothing to compare
        "/wp-login.php",  # a request of a robot that searches for weak servers
    ],
)
def test_other_requests_are_not_counted(site: Flask, target: str) -> None:
    assert failures_of(site, target) == {}


def test_the_table_has_no_place_for_readers() -> None:
    assert inspect(FailedUrl).columns.keys() == ["day", "ibi", "reason", "count"]
