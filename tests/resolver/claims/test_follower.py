"""The follower: what it stores of the logs of Archives, and the states of the logs."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event
from time import monotonic, sleep

import pytest
from support.archive_servers import Servers, http
from support.cases import for_each
from support.claim_logs import a_claim
from support.followers import Following
from support.loopback import PATIENCE, nobody

from flask_ibi_archive.core.claims.claim import Claim
from flask_ibi_archive.core.claims.merkle import Frontier
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.old_claims import followed_logs
from flask_ibi_archive.resolver.old_claims.conflicts import (
    IS_OPEN,
    find_open_conflict,
    list_conflicts,
)
from flask_ibi_archive.resolver.old_claims.log_lists import list_logs
from flask_ibi_archive.resolver.old_claims.tables import (
    CONTRADICTED,
    CURRENT,
    FORKED,
    FULL,
    NEW,
    SILENT,
    STALE,
    Conflict,
    FollowedLog,
    PrefixHolder,
    RejectedEntry,
    ResolverState,
)
from flask_ibi_archive.server.database.database import Database

OTHER = "b.br/service/2001/01.01.00.00"
ORIGINAL, COPY, DELETED = 1, 2, 3
IBI = a_claim().identifiers[0]
NOW = "2026-03-01T12:00:00Z"


def test_claims_are_bound_with_the_position_of_the_log(following: Following) -> None:
    log = following.new_log()
    archive_id = following.include(log)
    assert following.row(archive_id).state == NEW
    aliases = ("doi:10.5281/zenodo.1", "http://old.example.org/1")
    log.add(
        Claim("a.br/items/2001/02.01.00.00", "8JMKD3MGP8W/34PGRBS", State.ORIGINAL, NOW,
              aliases=aliases),
        a_claim(1, State.COPY),
        a_claim(2, State.DELETED),
    )  # fmt: skip
    following.follow()
    for name in ("a.br/items/2001/02.01.00.00", "8JMKD3MGP8W/34PGRBS", *aliases):
        assert following.holders(name) == [(archive_id, ORIGINAL)]
    assert following.holders(a_claim(1).identifiers[0]) == [(archive_id, COPY)]
    assert following.holders(a_claim(2).identifiers[0]) == [(archive_id, DELETED)]
    assert following.holders(a_claim(3).identifiers[0]) == []
    row = following.row(archive_id)
    assert (row.state, row.reason, row.size) == (CURRENT, None, 3)
    assert Frontier.from_bytes(3, row.frontier).root() == log.root()
    assert row.checkpoint == log.checkpoint()
    assert row.read_at == row.signed_at == following.clock.now
    prefixes = {(one.prefix, one.archive_id) for one in following.rows(PrefixHolder)}
    assert prefixes == {("a.br/items", archive_id), ("8JMKD3MGP8W", archive_id)}
    assert [entry for _, entry in following.kept.read_entries(archive_id)] == log.entries


def test_a_later_claim_replaces_the_earlier_one(following: Following) -> None:
    log = following.new_log().add(a_claim())
    archive_id = following.include(log)
    following.follow()
    log.add(a_claim(0, State.COPY), a_claim(0, State.DELETED))
    following.follow(60)
    assert following.holders(IBI) == [(archive_id, DELETED)]


def test_a_log_is_read_every_minute_and_at_once_after_a_registration(following: Following) -> None:
    log = following.new_log().add(a_claim())
    archive_id = following.include(log)
    following.follow()
    log.add(a_claim(1))
    following.follow(59)
    assert following.row(archive_id).size == 1
    following.follow(1)
    assert following.row(archive_id).size == 2
    log.add(a_claim(2))
    following.include(log)
    following.follow(1)
    assert following.row(archive_id).size == 3
    assert following.row(archive_id).due_at is None


def test_a_large_log_is_read_in_batches_to_its_end(following: Following) -> None:
    log = following.new_log().add(*map(a_claim, range(9000)))
    archive_id = following.include(log)
    progress: list[tuple[int, int]] = []
    follower = following.follower(on_progress=lambda *counts: progress.append(counts))
    assert follower.run_once()
    assert following.row(archive_id).size == 9000
    assert progress[0] == (1, 8192)
    assert progress[-1][1] == 9000
    assert following.row(archive_id).state == CURRENT
    assert following.holders(a_claim(8999).identifiers[0]) == [(archive_id, ORIGINAL)]


def test_a_follower_that_is_killed_between_batches_leaves_nothing_out(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = following.new_log().add(*map(a_claim, range(9000)))
    archive_id = following.include(log)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        following.follower(on_progress=die).run_once()
    assert following.row(archive_id).size == 8192
    following.advance(seconds=31)  # the lease of the killed process has ended
    # killed in the middle of a transaction
    with monkeypatch.context() as patch:
        patch.setattr(followed_logs, "store_prefixes", die)
        with pytest.raises(KeyboardInterrupt):
            following.follower().run_once()
    assert following.row(archive_id).size == 8192
    assert following.holders(a_claim(8999).identifiers[0]) == []
    following.follow(31)
    assert following.row(archive_id).size == 9000
    for number in (0, 8191, 8192, 8999):
        assert following.holders(a_claim(number).identifiers[0]) == [(archive_id, ORIGINAL)]
    assert [entry for _, entry in following.kept.read_entries(archive_id)] == log.entries


def test_what_was_read_is_not_stored_if_the_key_was_replaced_meanwhile(
    following: Following,
) -> None:
    old = following.new_log().add(a_claim())
    new = following.new_log(f"{old.origin}#2").add(a_claim(1))
    archive_id = following.include(old)

    def replace_key() -> bytes:
        del old.replaced["checkpoint"]
        following.include(new)
        return http(old.checkpoint())

    old.replaced["checkpoint"] = replace_key
    following.follow()
    assert following.row(archive_id).origin == new.origin
    assert following.holders(IBI) == []
    assert following.holders(a_claim(1).identifiers[0]) == [(archive_id, ORIGINAL)]


def test_one_process_follows_at_a_time(following: Following) -> None:
    first, second = following.follower(), following.follower()
    assert first.run_once()
    assert not second.run_once()
    following.advance(seconds=31)  # the first process was killed
    assert second.run_once()
    second.close()
    assert first.run_once()


def test_the_resolver_knows_how_current_all_claims_are(following: Following) -> None:
    def followed_at() -> object:
        [state] = following.rows(ResolverState)
        return state.followed_at

    assert followed_at() is None
    following.follow()
    assert followed_at() == following.clock.now  # there are no logs
    first = following.include(following.new_log())
    following.follow()
    start = following.clock.now
    following.include(following.new_log(OTHER), OTHER)
    following.follow(30)
    assert following.row(first).read_at == start
    assert followed_at() == start
    following.follow(30)
    assert followed_at() == start.replace(second=30)


# --- the states of logs --------------------------------------------------------------------------


def test_an_archive_that_does_not_answer_is_silent_and_its_claims_count(
    following: Following,
) -> None:
    log = following.new_log().add(a_claim())
    archive_id = following.include(log)
    following.follow()
    with nobody() as address:
        following.include(log, address=address)
        version = following.version()
        following.follow(60)
    row = following.row(archive_id)
    assert (row.state, row.size) == (SILENT, 1)
    assert "can't be reached" in row.reason
    following.follow(3600)
    assert following.row(archive_id).state == SILENT
    assert following.version() == version
    following.include(log)
    following.follow(60)
    assert following.row(archive_id).state == CURRENT


def test_an_archive_that_hangs_is_silent(following: Following) -> None:
    following = Following(
        following.database, following.servers, following.kept.folder.parent,
        IBI_RESOLVER_ARCHIVE_TIMEOUT=0.2,
    )  # fmt: skip
    log = following.new_log()
    archive_id = following.include(log)
    following.follow()
    log.replaced["checkpoint"] = lambda: None
    following.follow(60)
    assert following.row(archive_id).state == SILENT
    assert following.row(archive_id).reason == "took too long"
    following.close()


@pytest.mark.slow
@for_each(
    ("path", "answer", "reason"),
    [
        ("checkpoint", None, "answers with status 404 (checkpoint)"),
        ("checkpoint", lambda: http(b"x" * (5 << 20)), "answers with more than 4194304 bytes"),
        ("checkpoint", b"no checkpoint", "sends a checkpoint that is not valid"),
        ("checkpoint", lambda: b"no http\r\n\r\n", "does not send valid HTTP"),
        ("tile/entries/000.p/2", lambda: http(b"x" * (5 << 20)), "more than 4194304 bytes"),
        ("tile/entries/000.p/2", b"garbled", "sends entries that are not those of its checkpoint"),
        ("tile/entries/000.p/2", lambda: http(status="302 FOUND", Location="/"), "status 302"),
    ],
)
def test_an_archive_that_answers_wrongly_is_stale_and_asked_always(
    following: Following, path: str, answer: object, reason: str
) -> None:
    service = f"a.br/archive{len(following.logs)}/2001/01.01.00.00"
    log = following.new_log(service).add(a_claim())
    archive_id = following.include(log, service)
    following.follow()
    version = following.version()
    log.add(a_claim(1))
    log.replaced[path] = answer
    following.follow(60)
    row = following.row(archive_id)
    assert (row.state, row.size) == (STALE, 1)
    assert reason in row.reason
    assert following.version() == version + 1
    log.replaced.clear()
    following.follow(60)
    assert (following.row(archive_id).state, following.row(archive_id).size) == (CURRENT, 2)
    assert following.version() == version + 2


def test_a_checkpoint_that_is_not_signed_again_becomes_stale(following: Following) -> None:
    log = following.new_log().add(a_claim())
    archive_id = following.include(log)
    following.follow()
    log.replaced["checkpoint"] = log.checkpoint().encode()
    following.follow(300)
    assert following.row(archive_id).state == CURRENT
    following.follow(60)
    assert following.row(archive_id).state == STALE
    assert following.row(archive_id).reason == "signed its checkpoint 360 s ago"


def test_a_forked_log_is_read_no_more(
    following: Following, caplog: pytest.LogCaptureFixture
) -> None:
    log = following.new_log().add(a_claim(), a_claim(1))
    archive_id = following.include(log)
    following.follow()
    version = following.version()
    earlier = log.checkpoint()
    fork = log.fork(1).add(a_claim(2), a_claim(3))
    following.logs[archive_id].append(fork)
    following.follow(60)
    row = following.row(archive_id)
    assert (row.state, row.size, row.checkpoint) == (FORKED, 2, earlier)
    assert following.version() == version + 1
    assert [one.levelno for one in caplog.records] == [logging.WARNING]
    assert "is forked: signed a log with 3 entries" in caplog.text
    fork.asked.clear()
    following.follow(60)
    following.include(fork)
    following.follow(60)
    assert fork.asked == []
    assert following.row(archive_id).state == FORKED
    new = following.new_log(f"{log.origin}#2").add(a_claim())
    following.include(new)
    following.follow(60)
    assert following.row(archive_id).state == CURRENT


def test_contradicted_claims_do_not_count_until_the_archive_registers_again(
    following: Following,
) -> None:
    log = following.new_log().add(a_claim())
    archive_id = following.include(log)
    following.follow()
    with following.database.writing() as connection:
        connection.execute(
            FollowedLog.__table__.update().values(state=CONTRADICTED, contradictions=3)
        )
    log.add(a_claim(1))
    following.follow(60)
    row = following.row(archive_id)
    assert (row.state, row.size, row.contradictions) == (CONTRADICTED, 2, 3)
    following.include(log)
    assert following.row(archive_id).state == STALE
    following.follow()
    row = following.row(archive_id)
    assert (row.state, row.contradictions) == (CURRENT, 0)


@pytest.mark.slow
def test_a_log_that_is_too_long_is_read_no_further_until_the_setting_is_raised(
    following: Following, caplog: pytest.LogCaptureFixture
) -> None:
    """An Archive could add entries for ever, and fill the disk of the resolver."""
    following.config = replace(following.config, claims_max_size=100)
    log = following.new_log().add(*map(a_claim, range(9000)))
    archive_id = following.include(log)
    version = following.version()
    following.follow()
    row = following.row(archive_id)
    assert (row.state, row.size) == (FULL, 8192)
    assert row.length == sum(map(len, log.entries[:8192]))
    assert following.version() == version
    [listed] = following.database.read(list_logs)
    assert listed.reason is not None
    assert listed.reason.startswith("has more than 100 bytes of claims; if it is not faulty, set")
    assert [one.levelno for one in caplog.records] == [logging.WARNING]
    assert "is full: has more than 100 bytes of claims" in caplog.text
    log.asked.clear()
    following.follow(60)
    assert log.asked == ["checkpoint"]
    following.config = replace(following.config, claims_max_size=10**6)
    following.follow(60)
    row = following.row(archive_id)
    assert (row.state, row.size, row.length) == (CURRENT, 9000, sum(map(len, log.entries)))
    assert following.version() == version + 1


def test_a_log_counts_until_it_grows_beyond_the_limit(following: Following) -> None:
    following.config = replace(following.config, claims_max_size=100)
    log = following.new_log().add(a_claim(), a_claim(1))
    archive_id = following.include(log)
    following.follow()
    following.follow(60)
    assert following.row(archive_id).state == CURRENT
    log.add(a_claim(2))
    version = following.version()
    following.follow(60)
    row = following.row(archive_id)
    assert (row.state, row.size) == (FULL, 2)
    assert following.version() == version + 1
    with nobody() as address:
        following.include(log, address=address)
        following.follow(60)
    assert following.row(archive_id).state == FULL  # its last claims are not all of its claims
    assert following.row(archive_id).reason == row.reason


def test_the_log_of_an_excluded_archive_is_not_read(following: Following) -> None:
    log = following.new_log().add(a_claim())
    archive_id = following.include(log)
    following.registry.remove(log.origin)
    following.follow()
    assert log.asked == []
    assert following.holders(IBI) == []
    assert following.include(log) != archive_id
    following.follow()
    assert len(following.holders(IBI)) == 1


# --- entries that are kept out -------------------------------------------------------------------


INVALID: list[tuple[bytes | Claim, str]] = [
    (b"", "a claim must name the rep or the ibip"),
    (b"no claim", "a claim must name the rep or the ibip"),
    (b"\xff", "one line of ASCII"),
    (b"x" * 65535, "has no value"),
    (b"ibi {rep a.br/b/2001/01.01.00.00} state Lost timestamp 2026-03-01T12:00:00Z", "state"),
    (a_claim(5, State.COPY, original_archive=None), "ibi.archiveservice: a Copy, and only"),
    (a_claim(5, original_archive=OTHER), "ibi.archiveservice: a Copy, and only a Copy"),
    (
        a_claim(5, State.COPY, original_archive="dpi.inpe.br/banon/1999/01.09.22.14"),
        "ibi.archiveservice: a Copy names its own Archive",
    ),
    (
        a_claim(5, aliases=tuple(f"doi:10.1234/{number}" for number in range(500))),
        "aliases: an item has 501 names, more than 500",
    ),
]


def test_entries_that_are_no_valid_claims_are_kept_out_and_reported_once(
    following: Following, caplog: pytest.LogCaptureFixture
) -> None:
    log = following.new_log().add(a_claim(), *(entry for entry, _ in INVALID), a_claim(1))
    archive_id = following.include(log)
    following.follow()
    assert following.row(archive_id).state == CURRENT
    assert following.holders(a_claim(1).identifiers[0]) == [(archive_id, ORIGINAL)]
    assert following.holders(a_claim(5).identifiers[0]) == []
    rejected = following.rows(RejectedEntry)
    assert [one.position for one in rejected] == list(range(1, 1 + len(INVALID)))
    assert {one.archive_id for one in rejected} == {archive_id}
    for row, (_, reason) in zip(rejected, INVALID, strict=True):
        assert reason in row.reason
    assert len(caplog.messages) == 1
    assert f"{len(INVALID)} new entries" in caplog.text
    assert f"the first is entry 1: {rejected[0].reason}" in caplog.text
    log.add(a_claim(2))
    following.follow(60)
    assert len(caplog.messages) == 1


def test_an_address_at_the_host_of_the_resolver_is_reported_and_the_claim_counts(
    database: Database, hosts: Servers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    following = Following(database, hosts, tmp_path / "claims", SERVER_NAME="urlib.example")
    own = "HTTPS://urlib.example:443/login"
    log = following.new_log().add(a_claim(aliases=("http://old.example/login", own)))
    archive_id = following.include(log)
    following.follow()
    assert following.row(archive_id).state == CURRENT
    assert following.holders(IBI) == [(archive_id, ORIGINAL)]
    [rejected] = following.rows(RejectedEntry)
    assert rejected.reason == f"aliases: this resolver ignores addresses at its own host: {own}"
    assert rejected.reason in caplog.text
    following.close()


# --- conflicts -----------------------------------------------------------------------------------


def conflicts(following: Following) -> list[tuple[str, int, int, bool]]:
    return [
        (one.ibi, one.first_archive_id, one.second_archive_id, one.ended_at is not None)
        for one in following.rows(Conflict)
    ]


def test_a_second_claim_of_an_original_is_a_conflict_until_one_side_changes(
    following: Following,
) -> None:
    first, second = following.new_log(), following.new_log(OTHER)
    one = following.include(first)
    two = following.include(second, OTHER)
    both = Claim(IBI, "8JMKD3MGP8W/34PGRBS", State.ORIGINAL, NOW)
    first.add(both)
    second.add(a_claim(1), a_claim(0, State.COPY, original_archive=first.origin))
    following.follow()
    assert conflicts(following) == []
    second.add(a_claim(2), both)
    following.follow(60)
    assert conflicts(following) == [(IBI, one, two, False)]
    for ibi in both.identifiers:  # the alert finds it by the identifier that was asked for
        assert find_open_conflict(following.database, ibi) == 1
    first.add(both)
    second.add(both)
    following.follow(60)
    assert conflicts(following) == [(IBI, one, two, False)]
    first.add(Claim(both.rep, both.ibip, State.COPY, NOW, OTHER))
    following.follow(60)
    assert conflicts(following) == [(IBI, one, two, True)]
    assert find_open_conflict(following.database, "8JMKD3MGP8W/34PGRBS") is None
    assert following.holders(IBI) == [(one, COPY), (two, ORIGINAL)]


def test_a_change_and_its_reversal_within_a_reading_are_no_conflict(following: Following) -> None:
    first, second = following.new_log(), following.new_log(OTHER)
    following.include(first)
    following.include(second, OTHER)
    first.add(a_claim())
    following.follow()
    second.add(a_claim(), a_claim(0, State.COPY, original_archive=first.origin))
    following.follow(60)
    assert conflicts(following) == []


def test_the_claims_of_archives_that_are_not_included_are_no_rivals(following: Following) -> None:
    first, second = following.new_log().add(a_claim()), following.new_log(OTHER).add(a_claim())
    following.include(first)
    following.follow()
    following.registry.remove(first.origin)
    following.include(second, OTHER)
    following.follow(60)
    assert conflicts(following) == []


def test_a_conflict_is_open_as_long_as_both_archives_are_included(following: Following) -> None:
    def see() -> list[tuple[int, datetime | None]]:
        found = following.database.read(list_conflicts)
        is_open = following.database.read(lambda connection: list_conflicts(connection, IS_OPEN))
        assert is_open == [one for one in found if one.ended_at is None]
        return [(one.id, one.ended_at) for one in found]

    first, second = following.new_log().add(a_claim()), following.new_log(OTHER).add(a_claim())
    following.include(first)
    following.include(second, OTHER)
    following.follow()
    assert see() == [(1, None)]
    following.advance(hours=1)
    following.exclude(OTHER)
    assert see() == [(1, following.clock.now)]
    following.include(second, OTHER)
    assert see() == [(1, None)]
    following.exclude(OTHER)
    excluded_at = following.clock.now
    first.add(a_claim(0, State.COPY, original_archive=OTHER))
    following.follow(60)
    following.include(second, OTHER)
    [(number, ended_at)] = see()
    assert (number, ended_at) == (1, excluded_at + timedelta(minutes=1))
    # a claim that contradicts that of an excluded Archive is a conflict when it is included again
    following.exclude(OTHER)
    first.add(a_claim())
    following.follow(60)
    assert see() == [(1, ended_at)]
    following.include(second, OTHER)
    assert see() == [(2, None), (1, ended_at)]
    following.registry.remove(OTHER)
    assert see() == []


# --- many logs, and a thread ---------------------------------------------------------------------


@pytest.mark.slow
def test_a_hanging_archive_does_not_delay_others(following: Following) -> None:
    hanging = following.new_log()
    hanging.replaced["checkpoint"] = lambda: None
    following.include(hanging)
    logs = []
    for number in range(30):
        service = f"a.br/archive{number}/2001/01.01.00.00"
        logs.append(following.new_log(service).add(a_claim(number)))
        following.include(logs[-1], service)
    follower, stop = following.follower(), Event()
    seen: list[int] = []

    def count(read: int, entries: int) -> None:
        seen.append(entries)
        if entries == 30:
            stop.set()

    follower._on_progress = count
    follower.run(stop)
    assert seen[-1] == 30


@pytest.mark.slow
def test_answers_are_received_while_something_is_stored(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise Archives would seem to be silent whenever this takes long."""
    first, second = following.new_log().add(a_claim()), following.new_log(OTHER).add(a_claim(1))
    first_id = following.include(first)
    second_id = following.include(second, OTHER)
    second.replaced["checkpoint"] = lambda: None  # the connection waits
    follower = following.follower()
    write = following.kept.__class__.write_bundle

    def write_slowly(self: object, archive_id: int, *rest: object) -> None:
        if archive_id == first_id:
            server = following.hosts[second_id]
            server.wait()
            second.replaced.clear()
            following.servers.release(server, http(second.checkpoint()))
            end = monotonic() + PATIENCE
            while not follower._requests._arrived:
                assert monotonic() < end
                sleep(0.01)
        write(self, archive_id, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(following.kept.__class__, "write_bundle", write_slowly)
    assert follower.run_once()
    assert [row.state for row in following.rows(FollowedLog)] == [CURRENT, CURRENT]


def test_a_log_that_can_not_be_stored_does_not_stop_the_follower(
    following: Following, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = following.new_log(OTHER).add(a_claim()), following.new_log().add(a_claim(1))
    bad_id = following.include(bad)
    good_id = following.include(good, OTHER)
    write = following.kept.__class__.write_bundle

    def fail(self: object, archive_id: int, *rest: object) -> None:
        if archive_id == bad_id:
            raise OSError(28, "No space left on device")
        write(self, archive_id, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(following.kept.__class__, "write_bundle", fail)
    following.follow()
    assert following.row(good_id).size == 1
    assert following.row(bad_id).size == 0
    assert "can't be stored: [Errno 28] No space left on device" in caplog.text
    monkeypatch.undo()
    following.follow(60)
    assert following.row(bad_id).size == 1


def test_claims_that_can_not_be_stored_do_not_count(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Archive is asked always; the claims of the others count."""
    log = following.new_log().add(a_claim())
    archive_id = following.include(log)
    following.follow()
    version = following.version()
    log.add(a_claim(1))

    def refuse(*_: object) -> None:
        raise StorageError("the database refuses a value")

    with monkeypatch.context() as patch:
        patch.setattr(followed_logs, "store_prefixes", refuse)
        following.follow(60)
    row = following.row(archive_id)
    assert (row.state, row.size, row.reason) == (STALE, 1, "has claims that can't be stored")
    assert following.version() == version + 1
    [state] = following.rows(ResolverState)
    assert state.followed_at == following.clock.now
    following.follow(60)
    assert (following.row(archive_id).state, following.row(archive_id).size) == (CURRENT, 2)
