"""The key of an Archive's claims: read and pinned at an inclusion request."""

from __future__ import annotations

from typing import Any

import pytest
from support.archive_servers import http
from support.cases import for_each
from support.claim_logs import ClaimLog, a_claim
from support.followers import Following
from support.registries import NOON, SERVICE, Calls, a_registry, a_request, confirms

from flask_ibi_archive.core.claims.keys import PLAIN, SigningKey
from flask_ibi_archive.core.protocol.inclusion import EXCLUSION_REQUEST
from flask_ibi_archive.resolver.claims.log_lists import list_keys
from flask_ibi_archive.resolver.claims.tables import CURRENT, NEW, FollowedLog, PinnedKey
from flask_ibi_archive.server.http.transport import HttpResponse, fetch

OTHER = "b.br/service/2001/01.01.00.00"
IBIP = "8JMKD3MGP8W/34PGRBS"

pytestmark = pytest.mark.no_tables


def keys(following: Following) -> list[str]:
    return [row.key for row in following.database.read(list_keys)]


def vkey(log: ClaimLog) -> str:
    return log.signer.verifier.format()


def test_an_archive_without_claims_has_no_log(following: Following) -> None:
    following.include()
    assert following.rows(FollowedLog) == []
    assert following.rows(PinnedKey) == []


def test_the_key_is_pinned_with_the_inclusion_and_again_only_if_it_changes(
    following: Following,
) -> None:
    log = following.new_log()
    archive_id = following.include(log)
    row = following.row(archive_id)
    assert (row.origin, row.key, row.number, row.state) == (SERVICE, vkey(log), 1, NEW)
    assert row.pinned_at > NOON
    following.include(log)
    assert following.row(archive_id).pinned_at == row.pinned_at
    assert keys(following) == [vkey(log)]


def test_another_key_with_the_same_name_continues_the_log(following: Following) -> None:
    log = following.new_log().add(a_claim())
    archive_id = following.include(log)
    following.follow()
    first = vkey(log)
    log.signer = SigningKey(log.origin, bytes([1] * 32))
    log.add(a_claim(1))
    following.follow(60)  # the new key was not pinned yet
    assert "not signed by the known key" in following.row(archive_id).reason
    following.include(log)
    row = following.row(archive_id)
    assert (row.key, row.size, row.number) == (vkey(log), 1, 1)
    following.follow()
    row = following.row(archive_id)
    assert (row.state, row.size) == (CURRENT, 2)
    assert keys(following) == [first, vkey(log)]


def test_a_key_with_another_name_begins_a_new_log(following: Following) -> None:
    log = following.new_log().add(a_claim(), b"no claim")
    archive_id = following.include(log)
    following.follow()
    new = following.new_log(f"{SERVICE}#2", seed=bytes([1] * 32)).add(a_claim(1), b"none either")
    following.include(new)
    row = following.row(archive_id)
    assert (row.origin, row.size, row.number, row.state) == (new.origin, 0, 2, NEW)
    assert (row.checkpoint, row.frontier, row.read_at) == (None, b"", None)
    following.follow()
    assert following.row(archive_id).size == 2
    assert [entry for _, entry in following.kept.read_entries(archive_id)] == new.entries
    assert keys(following) == [vkey(log), vkey(new)]
    # no cache may return a file of the first log, which had the same path
    assert [one.queries - {""} for one in (log, new)] == [
        {f"key={one.signer.verifier.find_id(PLAIN):08x}"} for one in (log, new)
    ]


def test_a_key_that_is_no_longer_published_stays_pinned(following: Following) -> None:
    log = following.new_log()
    archive_id = following.include(log)
    following.include()
    assert following.row(archive_id).key == vkey(log)


def test_the_keys_of_excluded_archives_stay_pinned(following: Following) -> None:
    log = following.new_log()
    archive_id = following.include(log)
    following.registry.process(a_request(EXCLUSION_REQUEST))
    assert following.row(archive_id).key == vkey(log)
    following.follow()
    assert log.asked == []


@for_each(
    "answer",
    [
        HttpResponse(404, {}, b""),
        HttpResponse(500, {}, b"x"),
        HttpResponse(200, {}, b""),
        HttpResponse(200, {}, b"confirmation yes"),
        HttpResponse(200, {}, "é".encode()),
        HttpResponse(200, {}, ClaimLog().signer.verifier.format().encode(), complete=False),
        HttpResponse(200, {}, ClaimLog(OTHER).signer.verifier.format().encode()),
        HttpResponse(200, {}, ClaimLog("x" * 301).signer.verifier.format().encode()),
        HttpResponse(200, {}, ClaimLog(f"{SERVICE}#x").signer.verifier.format().encode()),
        # no list for mirrors could contain this
        HttpResponse(200, {}, ClaimLog(f"{SERVICE}#\x7f").signer.verifier.format().encode()),
        HttpResponse(200, {}, ClaimLog(f"{SERVICE}#\0").signer.verifier.format().encode()),
    ],
)
def test_whatever_is_no_key_of_the_archive_does_not_disturb_the_inclusion(
    following: Following, answer: HttpResponse
) -> None:
    following.include()
    following.calls.key = answer
    status = following.registry.process(a_request())
    assert status.confirmed
    assert following.rows(FollowedLog) == []


def test_an_archive_that_did_not_confirm_gets_no_key_pinned(following: Following) -> None:
    following.include()
    following.calls.answer = confirms("confirmation no")
    log = following.new_log()
    following.calls.key = HttpResponse(200, {}, vkey(log).encode())
    assert not following.registry.process(a_request()).confirmed
    assert following.rows(FollowedLog) == []


def test_the_log_of_another_archive_is_not_accepted(following: Following) -> None:
    """The rep of an Archive that registered with its IBIp is unknown."""
    log = following.new_log()
    first = following.include(log)
    following.include(following.new_log(SERVICE, seed=bytes([1] * 32)), IBIP)
    assert [row.archive_id for row in following.rows(FollowedLog)] == [first]
    own = following.new_log(OTHER)
    second = following.include(own, IBIP)
    assert following.row(second).key == vkey(own)


@for_each("name", ["x", "a.br\x1b", IBIP, f"{OTHER}#", OTHER.upper(), f"{OTHER}#\0"])
def test_the_name_of_a_log_is_a_rep(following: Following, name: str) -> None:
    following.include(following.new_log(name), IBIP)
    assert following.rows(FollowedLog) == []


def test_the_key_is_read_from_a_real_server_and_an_archive_that_hangs_costs_two_seconds(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = following.new_log()
    answers: dict[str, Any] = {}

    def answer(target: str, head: str) -> bytes | None:
        if target.startswith("/ibi/claims/"):
            return answers["log"](target, head)  # type: ignore[no-any-return]
        return http("confirmation yes")

    server = following.servers.add(answer)
    registry = a_registry(following.database, fetch, config=following.config)
    registry.register(SERVICE, "1234567890")
    monkeypatch.setattr("flask_ibi_archive.resolver.claims.pinning.TIMEOUT", 0.05)
    answers["log"] = lambda target, head: None
    assert registry.process(a_request(address=server.address)).confirmed
    assert following.rows(FollowedLog) == []
    answers["log"] = log.answer
    monkeypatch.undo()
    assert registry.process(a_request(address=server.address)).confirmed
    assert [row.key for row in following.rows(FollowedLog)] == [vkey(log)]


def test_calls_of_tests_have_no_claims_by_default() -> None:
    assert Calls(confirms()).key.status == 404
