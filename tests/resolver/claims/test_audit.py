"""The audit: answers that contradict the claims of their Archive (federation CL-11)."""

from __future__ import annotations

import pytest
from support.archive_servers import MakeFanOut, Servers, http
from support.cases import for_each
from support.claiming import ClaimingArchive, follow_row, rows_of
from support.loopback import PATIENCE
from support.registries import NOON
from support.resolving import X, archives_of, leads

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.pairs import parse_pairs
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.resolver import claims
from flask_ibi_archive.resolver.archives import Archive
from flask_ibi_archive.resolver.claims import MAX_CONTRADICTIONS, audit_claims, contradicts
from flask_ibi_archive.resolver.tables import FollowedArchive, ResolverState
from flask_ibi_archive.server.database.database import Database

ORIG, COPY = State.ORIGINAL, State.COPY
HERE, THERE = "http://here.br/a.pdf", "http://there.br/b.pdf"
SINCE, LATER = "2026-11-26T22:00:00Z", "2026-11-26T22:00:01Z"
CHANGED = f"\r\ntimestamp {LATER}"


@for_each(
    ("text", "contradicted"),
    [
        ("", {ORIG, COPY}),
        (leads(HERE), {None, COPY}),
        ("state Deleted", {None, ORIG, COPY}),
        (leads(HERE) + CHANGED, set()),  # the change was perhaps not read yet
        (f"ibi {{rep {X}}}", set()),  # shown to nobody
    ],
)
def test_which_answers_contradict_a_claim(text: str, contradicted: set[State | None]) -> None:
    pairs = parse_pairs(text)
    assert {one for one in (None, ORIG, COPY) if contradicts(one, pairs, SINCE)} == contradicted


def test_answers_that_contradict_claims_are_counted_and_end_the_trust(
    database: Database,
    hosts: Servers,
    make_fan_out: MakeFanOut,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(claims, "WAIT", PATIENCE)
    tables = {X: leads(HERE)}, {X: leads(THERE, "Copy")}, {X: http("", "500 No")}
    servers = archives_of(hosts, *tables)
    archives = []
    for number, server in enumerate(servers):
        key = ClaimingArchive(server.service, seed=number)
        archive_id = follow_row(database, key, server.address)
        archives.append(Archive(archive_id, server.service, server.address))
    with database.writing() as connection:
        connection.execute(FollowedArchive.__table__.update().values(epoch="1", read_at=NOON))
    claimed = {archives[0].id: ORIG}
    for count in range(1, MAX_CONTRADICTIONS + 1):
        fan_out = make_fan_out()
        audit_claims(database, fan_out, parse_identifier(X), archives, claimed, 300)
        rows = rows_of(database, FollowedArchive)
        assert [row.contradictions for row in rows] == [0, count, 0]
        [state] = rows_of(database, ResolverState)
        assert state.version == (count == MAX_CONTRADICTIONS)
    assert claims.NO_READER in servers[1].asked[0]
    assert caplog.text.count("contradicted its claims") == MAX_CONTRADICTIONS
