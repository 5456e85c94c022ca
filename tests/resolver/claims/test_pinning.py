"""The key of an Archive's claims: read and pinned at an inclusion request."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import monotonic
from typing import Any

import pytest
from sqlalchemy import insert, text
from sqlalchemy.exc import IntegrityError
from support.archive_servers import http
from support.cases import for_each
from support.claim_logs import ClaimLog, a_claim
from support.followers import Following
from support.loopback import PATIENCE
from support.registries import KEY, NOON, SERVICE, Calls, a_registry, a_request, confirms

from flask_ibi_archive.core.claims.keys import PLAIN, SigningKey
from flask_ibi_archive.core.protocol.inclusion import EXCLUSION_REQUEST
from flask_ibi_archive.errors import RegistrationRefused
from flask_ibi_archive.resolver import archives
from flask_ibi_archive.resolver.old_claims.followed_logs import lock_archives, lock_logs
from flask_ibi_archive.resolver.old_claims.log_lists import list_keys
from flask_ibi_archive.resolver.old_claims.tables import CURRENT, NEW, FollowedLog, PinnedKey
from flask_ibi_archive.resolver.old_claims.versions import bump_version
from flask_ibi_archive.server.http.transport import HttpResponse, fetch

OTHER = "b.br/service/2001/01.01.00.00"
IBIP = "8JMKD3MGP8W/34PGRBS"


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
        # control characters
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


@for_each("origin", [SERVICE, f"{SERVICE}#2"])
def test_the_name_of_a_log_belongs_to_one_archive(following: Following, origin: str) -> None:
    """The rep of an Archive that registered with its IBIp is unknown."""
    first = following.include(following.new_log())
    with pytest.raises(RegistrationRefused, match="belongs to another Archive") as raised:
        following.include(following.new_log(origin, seed=bytes([1] * 32)), IBIP)
    assert str(raised.value).startswith(f"the claims of {IBIP} are signed with the name {origin!a}")
    assert raised.value.status == 409
    assert [row.archive_id for row in following.rows(FollowedLog)] == [first]
    states = {record.service_ibi: record.included_at for record in following.registry.list()}
    assert states[IBIP] is None


def test_a_registered_rep_is_the_name_of_no_other_log(following: Following) -> None:
    """Not even if its Archive does not publish claims yet."""
    following.include()
    with pytest.raises(RegistrationRefused):
        following.include(following.new_log(), IBIP)
    assert following.rows(FollowedLog) == []


def test_whoever_registers_with_the_rep_gets_the_name_of_the_log(following: Following) -> None:
    impostor = following.include(following.new_log(seed=bytes([1] * 32)).add(a_claim()), IBIP)
    following.follow()
    assert following.row(impostor).state == CURRENT
    version = following.version()
    log = following.new_log()
    owner = following.include(log)
    assert [row.archive_id for row in following.rows(FollowedLog)] == [owner]
    assert following.row(owner).key == vkey(log)
    assert following.version() > version
    with pytest.raises(RegistrationRefused):
        following.include(service=IBIP, log=following.new_log(f"{SERVICE}#3"))


def test_the_first_of_two_archives_with_unknown_reps_has_the_name(following: Following) -> None:
    first = following.include(following.new_log(), IBIP)
    with pytest.raises(RegistrationRefused):
        following.include(following.new_log(), "8JMKD3MGP8W/34PGRBT")
    assert [row.archive_id for row in following.rows(FollowedLog)] == [first]
    own = following.new_log(OTHER)
    second = following.include(own, "8JMKD3MGP8W/34PGRBT")
    assert following.row(second).key == vkey(own)


def test_of_two_archives_that_send_one_name_at_the_same_time_one_is_refused(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = Barrier(1 if following.database.has_one_writer else 2)  # in two open transactions
    store = archives.store_result

    def store_together(*args: Any, **values: Any) -> bool:
        both.wait(PATIENCE)
        return store(*args, **values)

    monkeypatch.setattr(archives, "store_result", store_together)
    calls = Calls(confirms())
    calls.key = HttpResponse(200, {}, vkey(following.new_log()).encode())
    registry = a_registry(following.database, calls, config=following.config)
    services = (IBIP, "8JMKD3MGP8W/34PGRBT")
    for service in services:
        registry.register(service, KEY)

    def include(service: str) -> object:
        try:
            return registry.process(a_request(service_ibi=service)).confirmed
        except RegistrationRefused as error:
            return error.status

    with ThreadPoolExecutor(2) as threads:
        assert set(threads.map(include, services)) == {True, 409}
    assert len(following.rows(FollowedLog)) == 1


def test_an_inclusion_waits_for_the_follower_before_it_changes_another_archive(
    following: Following,
) -> None:
    """Otherwise each would wait for the other: PostgreSQL ends one of them with an error."""
    if following.database.has_one_writer:
        return
    holder = following.include(following.new_log(), IBIP)
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted AND pid <> pg_backend_pid()")
    with ThreadPoolExecutor(1) as threads:
        with following.database.writing() as connection:
            lock_logs(connection, lock_archives(connection, [holder]))
            owner = threads.submit(following.include, following.new_log())
            end = monotonic() + PATIENCE
            while not following.database.read(lambda reader: reader.scalar(waiting)):
                assert monotonic() < end
            bump_version(connection, [holder])
        assert following.row(owner.result()).service_rep == SERVICE


def test_the_claims_of_a_log_that_was_lost_with_its_name_are_forgotten(
    following: Following,
) -> None:
    lost = following.new_log(seed=bytes([1] * 32)).add(a_claim(), a_claim(1))
    archive_id = following.include(lost, IBIP)
    following.follow()
    following.include(following.new_log())
    new = following.new_log(OTHER).add(a_claim(1))
    following.include(new, IBIP)
    assert following.row(archive_id).number == 2
    following.follow(60)
    held = [number for number in range(2) if following.holders(a_claim(number).identifiers[0])]
    assert held == [1]
    assert [entry for _, entry in following.kept.read_entries(archive_id)] == new.entries


def test_the_database_accepts_no_second_log_of_a_service(following: Following) -> None:
    following.include(following.new_log())
    other = following.include(service=OTHER)
    row = {"archive_id": other, "origin": f"{SERVICE}#2", "key": "", "pinned_at": NOON}
    with pytest.raises(IntegrityError), following.database.writing() as connection:
        connection.execute(insert(FollowedLog).values(**row, frontier=b""))


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
    monkeypatch.setattr("flask_ibi_archive.resolver.old_claims.pinning.TIMEOUT", 0.05)
    answers["log"] = lambda target, head: None
    assert registry.process(a_request(address=server.address)).confirmed
    assert following.rows(FollowedLog) == []
    answers["log"] = log.answer
    monkeypatch.undo()
    assert registry.process(a_request(address=server.address)).confirmed
    assert [row.key for row in following.rows(FollowedLog)] == [vkey(log)]


def test_calls_of_tests_have_no_claims_by_default() -> None:
    assert Calls(confirms()).key.status == 404
