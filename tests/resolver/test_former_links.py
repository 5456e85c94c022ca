"""Foreign identifiers and former addresses at a resolver (federation FI-4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from support.archive_servers import Servers
from support.claiming import store_claims
from support.resolving import TableArchive, X, app_over, archives_of, resolver_of

from flask_ibi_archive.core.protocol.states import State

HANDLE, DOI, ARK = "hdl:20.500.12345/678", "doi:10.5281/zenodo.1", "ark:12345/x54xz321"
OLD = "http://old.example.org/handle/1/2?x=y"
OWN_HOST = "resolver.example"
OWN = f"https://{OWN_HOST}/login"
ORIG, COPY, GONE = State.ORIGINAL, State.COPY, State.DELETED


@pytest.fixture
def archives(hosts: Servers) -> list[TableArchive]:
    return archives_of(hosts, {}, {}, {})


@pytest.fixture
def app(archives: list[TableArchive], tmp_path: Path) -> Iterator[Flask]:
    """A resolver whose second and third Archive claim an item with aliases."""
    with app_over(archives, tmp_path, SERVER_NAME=OWN_HOST) as app:
        names = HANDLE, DOI, ARK, OLD, OWN
        claims = {
            2: {X: COPY, **dict.fromkeys(names, COPY)},
            3: {X: ORIG, **dict.fromkeys(names, ORIG)},
        }
        store_claims(resolver_of(app).database, claims)
        yield app


@pytest.mark.rule("FI-4")
@pytest.mark.parametrize(
    "target",
    [
        f"/{DOI}",
        "/DOI:10.5281/ZENODO.1",
        "/ark:/12345/x5-4xz321",
        f"/{HANDLE}+(pt)/a%20b.txt?x=1",
        f"/{HANDLE}?ibiurl.requireditemstatus=Original",
    ],
)
def test_a_foreign_identifier_leads_to_the_same_link_at_the_original(
    app: Flask, archives: list[TableArchive], target: str
) -> None:
    response = app.test_client().get(target)
    assert (response.status_code, response.headers["Location"]) == (
        302,
        f"http://{archives[2].address}{target}",
    )
    assert response.headers["Cache-Control"] == "private"
    assert all(not archive.asked for archive in archives)


def test_a_former_address_leads_to_the_archive_that_claims_it(
    app: Flask, archives: list[TableArchive]
) -> None:
    for host in ("old.example.org", "OLD.example.org:80"):
        response = app.test_client().get("/handle/1/2?x=y", headers={"Host": host})
        assert response.status_code == 302
        assert response.headers["Location"] == f"http://{archives[2].address}/{OLD}"
    assert app.test_client().get("/handle/1/2?x=y").status_code == 400  # at another host


@pytest.mark.parametrize(
    "target", ["/login", f"/http://{OWN_HOST}/login", f"/{OWN}", f"/http://{OWN_HOST}./login"]
)
def test_an_address_of_the_resolver_itself_is_not_redirected(
    app: Flask, archives: list[TableArchive], target: str
) -> None:
    for host in (OWN_HOST, f"{OWN_HOST.upper()}:80"):
        assert app.test_client().get(target, headers={"Host": host}).status_code == 400


def test_an_alias_of_an_item_that_was_moved_leads_to_its_new_archive(
    archives: list[TableArchive], tmp_path: Path
) -> None:
    with app_over(archives, tmp_path, SERVER_NAME=OWN_HOST) as app:
        claims = {1: {DOI: GONE}, 2: {}}
        new = archives[1]
        store_claims(resolver_of(app).database, claims, original_archive=new.service)
        response = app.test_client().get(f"/{DOI}")
        assert response.headers["Location"] == f"http://{new.address}/{DOI}"


@pytest.mark.rule("FI-4")
@pytest.mark.parametrize("accept", ["text/html", "text/plain"])
def test_a_foreign_identifier_that_nobody_claims_is_unknown(
    app: Flask, archives: list[TableArchive], accept: str
) -> None:
    response = app.test_client().get("/doi:10.5281/other", headers={"Accept": accept})
    assert response.status_code == 404
    assert "doi:10.5281/other" in response.text
    assert "None" not in response.text
    assert all(not archive.asked for archive in archives)


def test_only_reading_is_allowed(app: Flask) -> None:
    assert app.test_client().post(f"/{DOI}").status_code == 405
    assert app.test_client().head(f"/{DOI}").status_code == 302
