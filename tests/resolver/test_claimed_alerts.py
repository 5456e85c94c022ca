"""What alerts tell about the claims of Archives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from support.archive_servers import Servers, http
from support.registries import NOON
from support.resolving import ORIGINAL, TableArchive, X, app_over, archives_of, resolver_of
from support.stored_claims import store_claims

from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.resolver.conflicts import update_conflicts

PAGE, PAIRS = {"Accept": "text/html"}, {"Accept": "text/plain"}


@pytest.fixture
def archives(hosts: Servers) -> list[TableArchive]:
    failure = http("", "500 No")
    table = {X: failure, f"{X}!": failure}
    return archives_of(hosts, table, table)


@pytest.fixture
def app(archives: list[TableArchive], tmp_path: Path) -> Iterator[Flask]:
    """A resolver with two silent Archives that claim the same Original."""
    with app_over(archives, tmp_path) as app:
        database = resolver_of(app).database
        store_claims(database, {1: {X: State.ORIGINAL}, 2: {X: State.ORIGINAL}})
        yield app


def test_a_silent_claimant_is_named(app: Flask, archives: list[TableArchive]) -> None:
    for headers in (PAGE, PAIRS):
        response = app.test_client().get(f"/{X}", headers=headers)
        assert response.status_code == 504
        for archive in archives:
            assert archive.service in response.text


def test_the_alert_does_not_say_that_an_item_was_not_found_which_was_found(
    hosts: Servers, tmp_path: Path
) -> None:
    archives = archives_of(hosts, {f"{X}+(pt)": f"ibi {{rep {X}}}"}, {})
    archives[1].table[f"{X}+(pt)"] = http("", "500 No")
    with app_over(archives, tmp_path) as app:
        response = app.test_client().get(f"/{X}+(pt)", headers=PAIRS)
    assert response.status_code == 504
    assert f"{X} was found, but not what was requested of it" in response.text


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_suspicion_links_to_the_conflict(app: Flask, is_noted: bool) -> None:
    path = "/ibi/conflicts"  # the list, if the follower has not noted the conflict
    if is_noted:
        path += "/1"
        with resolver_of(app).database.writing() as connection:
            update_conflicts(connection, 1, [X], NOON)
    client = app.test_client()
    response = client.get(f"/{X}{ORIGINAL}", headers=PAGE)
    assert response.status_code == 409
    assert f'href="{path}"' in response.text
    assert client.get(path).status_code == 200
    response = client.get(f"/{X}{ORIGINAL}", headers=PAIRS)
    assert f"conflicts {path}" in response.text.splitlines()
