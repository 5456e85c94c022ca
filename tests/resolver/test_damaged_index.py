"""Readers are served as without claims if the index of claims is damaged, and ``check`` fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import insert
from support.archive_servers import Servers
from support.resolving import TableArchive, X, Y, app_over, archives_of, goes_on, leads, resolver_of
from support.stored_claims import store_claims

from flask_ibi_archive.core.claims.claim import identifier_key
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.resolver.checking import check_resolver
from flask_ibi_archive.resolver.old_claims.index_runs import SIZE
from flask_ibi_archive.resolver.old_claims.kept_logs import KeptLogs
from flask_ibi_archive.resolver.old_claims.rebuilding import rebuild_index
from flask_ibi_archive.resolver.old_claims.tables import Binding
from flask_ibi_archive.resolver.service import ResolverService
from flask_ibi_archive.server.commands.group import Finding

HERE, DOI = "http://here.br/a.pdf", "doi:10.5281/zenodo.1"
UNKNOWN_STATE = 9


@pytest.fixture
def archives(hosts: Servers) -> list[TableArchive]:
    table = {X: leads(HERE), f"{Y}!": leads(HERE, relation=".lastedition")}
    return archives_of(hosts, {f"{X}!": goes_on(Y)}, table)


@pytest.fixture
def app(archives: list[TableArchive], tmp_path: Path) -> Iterator[Flask]:
    """A resolver whose first Archive claims what the second one has; the claims are in a file."""
    with app_over(archives, tmp_path) as app:
        resolver = resolver_of(app)
        orig = State.ORIGINAL
        store_claims(resolver.database, {1: {X: orig, DOI: orig}, 2: {}})
        assert resolver.claim_index.fold(force=True)
        assert check_claims(resolver).ok
        yield app


def check_claims(resolver: ResolverService) -> Finding:
    [finding] = [one for one in check_resolver(resolver) if one.name == "claims"]
    return finding


def damage_index(resolver: ResolverService, damage: str) -> None:
    [path] = (resolver.config.claims_folder / "index").glob("*.run")
    content = bytearray(path.read_bytes())
    if damage == "missing file":
        path.unlink()
    elif damage == "short file":
        path.write_bytes(content[:-1])
    elif damage == "wrong file":
        content[-1] = content[-1 - SIZE] = UNKNOWN_STATE  # both records
        path.write_bytes(content)
    elif damage == "link to itself":
        path.unlink()
        path.symlink_to(path)
    else:
        store_wrong_row(resolver, X)
    resolver.claim_index.close()


def store_wrong_row(resolver: ResolverService, ibi: str) -> None:
    row = {"key": identifier_key(ibi), "archive_id": 1, "state": UNKNOWN_STATE}
    with resolver.database.writing() as connection:
        connection.execute(insert(Binding), row)


@pytest.mark.parametrize(
    "damage",
    ["missing file", "short file", "wrong file", "link to itself", "wrong row"],
)
def test_all_archives_are_asked_and_the_check_fails(
    app: Flask, archives: list[TableArchive], damage: str
) -> None:
    resolver = resolver_of(app)
    damage_index(resolver, damage)
    response = app.test_client().get(f"/{X}")
    assert (response.status_code, response.headers.get("Location")) == (302, HERE)
    assert archives[1].questions == [X]
    finding = check_claims(resolver)
    assert not finding.ok
    assert finding.text.endswith("run: flask ibi-resolver rebuild-index")
    kept = KeptLogs(resolver.config.claims_folder / "logs")
    rebuild_index(resolver.database, resolver.claim_index, kept)
    assert check_claims(resolver).ok


def test_all_archives_are_asked_if_the_damage_is_found_in_a_later_round(
    app: Flask, archives: list[TableArchive]
) -> None:
    store_wrong_row(resolver_of(app), Y)
    response = app.test_client().get(f"/{X}!")
    assert (response.status_code, response.headers.get("Location")) == (302, HERE)
    assert [archive.questions for archive in archives] == [[f"{X}!", f"{Y}!"], [f"{Y}!"]]


def test_nobody_says_that_an_alias_is_unknown(app: Flask) -> None:
    damage_index(resolver_of(app), "missing file")
    response = app.test_client().get(f"/{DOI}")
    assert response.status_code == 503
    assert "Retry-After" in response.headers
    assert ".run" not in response.text
    assert app.test_client().get("/login").status_code == 400
