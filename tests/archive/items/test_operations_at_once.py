"""Two operations at the same time: they run one after the other, without a deadlock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from flask import Flask
from support.archives import SERVICE
from support.operations import SECOND, make_archives, record_of

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.errors import IBIError, RuleBroken, StorageError

pytestmark = pytest.mark.postgresql

ROUNDS = 2


@pytest.fixture
def archives(new_app: Callable[..., Flask]) -> list[Archive]:
    return make_archives(new_app, 3)


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Call functions at the same time and return their results or exceptions."""
    barrier = Barrier(len(works))

    def run(work: Callable[[], Any]) -> Any:
        barrier.wait(30)
        try:
            return work()
        except IBIError as error:
            return error

    with ThreadPoolExecutor(len(works)) as threads:
        return list(threads.map(run, works))


def test_one_of_two_next_editions_wins(archives: list[Archive]) -> None:
    first, *_ = archives
    for _ in range(ROUNDS):
        item = first.deposit(ItemRecord())
        found = at_once(*[lambda ibi=item.rep: first.new_edition(ibi, ItemRecord())] * 3)
        [won] = [one for one in found if not isinstance(one, Exception)]
        lost = [one for one in found if isinstance(one, Exception)]
        assert [(type(one), one.rule) for one in lost] == [(RuleBroken, 7)] * 2
        assert all(won.rep in str(one) for one in lost)
        assert record_of(first, item.rep).next_edition == won.rep


def test_one_of_two_who_use_a_reservation_wins(archives: list[Archive]) -> None:
    first, *_ = archives
    for _ in range(ROUNDS):
        held = first.reserve()
        found = at_once(
            lambda ibi=held.rep: first.deposit(ItemRecord(), reserved=ibi),
            lambda ibi=held.ibip: first.deposit(ItemRecord(), reserved=ibi),
            lambda ibi=held.ibip: first.release(ibi),
        )
        assert len([one for one in found if isinstance(one, StorageError)]) == 2


def test_opposite_transfers_do_not_cause_a_deadlock(archives: list[Archive]) -> None:
    first, second, third = archives
    ours = [first.deposit(ItemRecord()).rep for _ in range(ROUNDS)]
    theirs = [second.deposit(ItemRecord()).rep for _ in range(ROUNDS)]
    for ibi in ours + theirs:
        third.make_copy(ibi)
    for ours_one, theirs_one in zip(ours, theirs, strict=True):
        found = at_once(
            lambda ibi=ours_one: first.transfer(ibi, SECOND, keep_copy=True),
            lambda ibi=theirs_one: second.transfer(ibi, SERVICE),
            lambda ibi=ours_one: third.delete(ibi, "no room"),
            lambda ibi=theirs_one: third.make_copy(ibi),
        )
        assert found[:3] == [None, None, None]
        # an update after the transfer finds the Original in the new Archive, or misses it in the
        # old one
        assert found[3] is None or isinstance(found[3], StorageError)
        assert record_of(second, ours_one).state == record_of(first, theirs_one).state == "Original"
        assert record_of(third, theirs_one).original_archive == SERVICE


@pytest.mark.only_on("postgresql")  # on SQLite, writers never run at the same time
def test_a_deposit_without_relations_does_not_wait_for_the_lock(archives: list[Archive]) -> None:
    first, *_ = archives
    with first.context.transaction() as store:
        store.lock_relations()
        with ThreadPoolExecutor(1) as threads:
            item = threads.submit(first.deposit, ItemRecord(language="en")).result(30)
    assert record_of(first, item.rep).language == "en"
