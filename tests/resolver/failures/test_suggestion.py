"""A reader of an unknown identifier is told which known one was probably meant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from flask import Flask
from sqlalchemy import insert
from support.archive_servers import Servers
from support.resolving import app_over, archives_of, resolver_of, statements_of

from flask_ibi_archive.core.claims.claim import name_key
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.claims.tables import Binding

FOUND, CLAIMED = "8JMKD3MGP8W/35MMLL8", "sid.inpe.br/mtc-m18@80/2009/02.16.17.46"
DOI = "doi:10.5281/a<1>?"
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.fixture
def app(hosts: Servers, tmp_path: Path) -> Iterator[Flask]:
    """A resolver that knows two items, which its Archive does not have any more."""
    with app_over(archives_of(hosts, {}), tmp_path) as app:
        resolver = resolver_of(app)
        resolver.hint_writer.add_hint(FOUND, 1)
        resolver.hint_writer.flush()
        with resolver.database.writing() as connection:
            for name in (CLAIMED, DOI):
                row = {"key": name_key(name), "archive_id": 1, "state": 1}
                connection.execute(insert(Binding).values(row))
        yield app


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("8JMKD3MGP8W/35MMLLB", FOUND),
        ("8JMKD3MGP8W/3SMMLL8", FOUND),
        ("sid.inpe.br/mtc-m18/2009/02.16.17.46", CLAIMED),
        # an error that is not likely enough to let the reader wait
        ("8JMKD3MGP8W/35MMLL9", None),
        (FOUND, None),
    ],
)
def test_the_alert_suggests_a_known_identifier(app: Flask, typed: str, meant: str | None) -> None:
    client = app.test_client()
    page = client.get(f"/{typed}", headers={"Accept": BROWSER})
    text = client.get(f"/{typed}", headers={"Accept": "text/plain"}).get_data(as_text=True)
    assert page.status_code == 404
    link = f'<a href="/{meant}">{meant}</a>'
    assert (link in page.get_data(as_text=True)) == (meant is not None)
    assert (f"suggestion {meant}" in text) == (meant is not None)


def test_a_foreign_identifier_is_suggested_too(app: Flask) -> None:
    client = app.test_client()
    page = client.get("/doi:10.5281/a<1>%3F.", headers={"Accept": BROWSER})
    assert page.status_code == 404
    link = '<a href="/doi:10.5281/a%3C1%3E%3F">doi:10.5281/a&lt;1&gt;?</a>'
    assert link in page.get_data(as_text=True)


def test_a_suggestion_takes_one_statement(app: Flask) -> None:
    resolver = resolver_of(app)
    client = app.test_client()
    with statements_of(resolver.database) as statements:
        client.get("/8JMKD3MGP8W/35MMLLB")
    assert len(statements) == 2


def test_without_a_suggestion_the_alert_is_the_same(app: Flask) -> None:
    with patch.object(
        resolver_of(app).claim_index, "find_in_files", side_effect=StorageError("damaged")
    ):
        response = app.test_client().get("/8JMKD3MGP8W/35MMLLB")
    assert response.status_code == 404
    assert "no Archive has 8JMKD3MGP8W/35MMLLB" in response.get_data(as_text=True)
