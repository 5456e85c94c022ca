"""A log that began anew: the claims of the earlier log mean nothing any more."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.claim_logs import ClaimLog, a_claim
from support.followers import Following
from support.registries import SERVICE

from flask_ibi_archive.core.claims.claim import Claim
from flask_ibi_archive.resolver.old_claims import replaced_logs
from flask_ibi_archive.resolver.old_claims.kept_logs import KeptLogs
from flask_ibi_archive.resolver.old_claims.replaced_logs import ReplacedLogs
from flask_ibi_archive.resolver.old_claims.tables import CURRENT, NEW
from flask_ibi_archive.resolver.tables import Conflict

OTHER = "b.br/service/2001/01.01.00.00"


def name(number: int) -> str:
    return a_claim(number).identifiers[0]


def begin_anew(following: Following, *claims: Claim) -> tuple[int, ClaimLog]:
    """Include an Archive again, which has a new log."""
    log = following.new_log(f"{SERVICE}#2", seed=bytes([1] * 32)).add(*claims)
    return following.include(log), log


@pytest.mark.parametrize("folds", [False, True])
def test_what_the_new_log_does_not_claim_is_no_longer_bound(
    following: Following, folds: bool
) -> None:
    other = following.include(following.new_log(OTHER).add(a_claim()), OTHER)
    archive_id = following.include(following.new_log().add(*map(a_claim, range(3))))
    following.follow()
    if folds:
        following.index.fold(force=True)
    _, new = begin_anew(following, a_claim(1), a_claim(3))
    following.follow(60)
    if folds:
        following.index.compact()
    held = [number for number in range(4) if (archive_id, 1) in following.holders(name(number))]
    assert held == [1, 3]
    assert following.holders(name(0)) == [(other, 1)]
    assert following.kept.list_logs(archive_id) == [2]
    assert [entry for _, entry in following.kept.read_entries(archive_id)] == new.entries


def test_the_conflicts_about_such_claims_end_when_the_new_log_was_read(
    following: Following,
) -> None:
    following.include(following.new_log(OTHER).add(a_claim(), a_claim(1)), OTHER)
    archive_id = following.include(following.new_log().add(a_claim(), a_claim(1)))
    following.follow()
    _, new = begin_anew(following, a_claim(1))
    new.replaced["tile/entries/000.p/1"] = None
    following.follow(60)
    assert following.row(archive_id).state != CURRENT
    assert [one.ended_at for one in following.rows(Conflict)] == [None, None]
    new.replaced.clear()
    following.follow(60)
    ended = {one.ibi: one.ended_at for one in following.rows(Conflict)}
    assert ended == {name(0): following.clock.now, name(1): None}


def test_a_process_that_is_killed_leaves_the_rest_to_the_next_one(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive_id = following.include(following.new_log().add(*map(a_claim, range(600))))
    following.follow()
    begin_anew(following, a_claim(1))
    monkeypatch.setattr(replaced_logs, "BATCH", 1)
    unlink = Path.unlink

    def die(path: Path, **options: bool) -> None:
        unlink(path, **options)
        raise KeyboardInterrupt

    for left in (2, 1):
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", die)
            with pytest.raises(KeyboardInterrupt):
                following.follow(60)
        assert len(list(following.kept.list_files(archive_id, 1))) == left
        assert following.row(archive_id).state == NEW
    following.follow(60)
    assert following.row(archive_id).state == CURRENT
    held = [number for number in range(600) if following.holders(name(number))]
    assert held == [1]
    assert following.kept.list_logs(archive_id) == [2]


def test_a_damaged_file_of_the_earlier_log_does_not_stop_the_follower(
    following: Following, caplog: pytest.LogCaptureFixture
) -> None:
    archive_id = following.include(following.new_log().add(a_claim()))
    following.follow()
    [path] = following.kept.list_files(archive_id, 1)
    path.write_bytes(b"garbled")
    begin_anew(following, a_claim(1))
    following.follow(60)
    assert following.row(archive_id).state == CURRENT
    assert following.holders(name(1)) == [(archive_id, 1)]
    assert "until the command rebuild-index is run" in caplog.text


def test_many_new_logs_do_not_delay_the_others(
    following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few bundles of all earlier logs together are forgotten before other logs are read."""
    places = {}
    for number in range(3):
        place = f"a.br/items{number}"
        log = following.new_log(f"{place}/2001/01.01.00.00")
        log.add(*(a_claim(one, place=place) for one in range(1, 300)))
        places[following.include(log, log.origin)] = place
    following.follow()
    for place in places.values():
        service = f"{place}/2001/01.01.00.00"
        following.include(following.new_log(f"{service}#2", seed=bytes([1] * 32)), service)
    other = following.include(following.new_log(OTHER).add(a_claim()), OTHER)
    monkeypatch.setattr(replaced_logs, "BATCH", 2)
    forget_part = ReplacedLogs.forget_part
    rival = following.follower()
    left, states = [6], []

    def forget(waiting: ReplacedLogs) -> object:
        failed = forget_part(waiting)
        if left[-1]:
            left.append(sum(len(list(following.kept.list_files(one, 1))) for one in places))
            states.append(following.row(other).state)
            following.clock.wait(20)
            assert not rival.run_once()  # the lease was renewed meanwhile
        return failed

    monkeypatch.setattr(ReplacedLogs, "forget_part", forget)
    following.follow(60)
    assert left == [6, 4, 3, 1, 0]
    assert states[:2] == [NEW, CURRENT]
    for archive_id, place in places.items():
        assert following.row(archive_id).state == CURRENT
        assert following.holders(a_claim(299, place=place).identifiers[0]) == []


def test_an_error_is_logged_and_tried_again_later(
    following: Following, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    archive_id = following.include(following.new_log().add(a_claim()))
    following.follow()
    begin_anew(following, a_claim(1))

    def fail(*_: object) -> None:
        raise PermissionError("no access")

    for method in ("list_logs", "remove_log"):
        with monkeypatch.context() as patch:
            patch.setattr(KeptLogs, method, fail)
            following.follow(60)
        assert following.row(archive_id).state == NEW
        assert "can't be stored: no access" in caplog.text
        caplog.clear()
    following.follow(60)
    assert following.row(archive_id).state == CURRENT
