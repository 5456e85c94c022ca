"""A switch: the giver gives up its Original once, in the version that the taker has stored."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from io import BytesIO
from threading import Barrier
from typing import Any

import pytest
from flask import Flask
from msgspec.structs import replace
from support.accesses import insert_counts
from support.archives import FAR_SERVICE, archive_of
from support.operations import record_of

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.changes import make_claim
from flask_ibi_archive.archive.moving.offers import withdraw_offer
from flask_ibi_archive.core.records.offer_messages import DailyCount, SwitchAnswer
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.signals import item_state_changed

from .conftest import Taker, deposit

Run = Callable[..., Any]
Make = Callable[..., Taker]
SECOND = "dpi.inpe.br/banon/1999/01.09.22.14"
DAY = date(2026, 1, 2)


def states(archive: Archive, *items: str) -> list[tuple[str, str | None]]:
    """Return the states of items, and the other Archives that have their Originals."""
    records = [record_of(archive, item) for item in items]
    return [(record.state, record.original_elsewhere) for record in records]


@pytest.fixture
def second(new_app: Callable[..., Flask]) -> Archive:
    archive = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI=SECOND))
    archive.init()
    return archive


@pytest.mark.rule("MV-3")
@pytest.mark.parametrize(("leave", "state"), [("copy", "Copy"), ("tombstone", "Deleted")])
def test_a_switch_leaves_a_copy_or_a_tombstone_and_is_repeated(
    archive: Archive, offer: Make, clock: list[datetime], leave: str, state: str
) -> None:
    item, other = deposit(archive, "On rain", "a.txt"), deposit(archive, "On snow", "b.txt")
    numbers = {"accesses": 3, "double_clicks": 1, "robots": 2}
    insert_counts(archive, [{"ibi": item, "day": DAY, "content_type": "Data", **numbers}])
    taker = offer(item, other, "--leave", leave, "--expires", "1d")
    before, page = record_of(archive, item), taker.read()
    changes = []
    expected = (SwitchAnswer(1, "switched", counts=(DailyCount(DAY, "Data", 3, 1, 2),)),)
    with item_state_changed.connected_to(lambda _, **values: changes.append(values)):
        assert taker.switch(page[:1]) == expected
    assert states(archive, item, other) == [(state, FAR_SERVICE), ("Original", None)]
    assert [(one["old_state"], one["new_state"]) for one in changes] == [("Original", state)]
    after = record_of(archive, item)
    assert make_claim("1", after).original_archive == FAR_SERVICE
    assert after.metadata == before.metadata
    if leave == "copy":
        assert (after.files, after.timestamp) == (before.files, before.timestamp)
    else:
        assert (after.files, after.tombstone.reason) == ((), f"transferred to {FAR_SERVICE}")
    # the counts of the item are away, and those of the Archive remain
    assert archive.statistics(item).downloads == 0
    assert archive.statistics().downloads == 3
    # what has moved is shown, and the answer is repeated, even after the end of the offer
    [moved, unmoved] = taker.read()
    assert (moved.moved, unmoved) == (True, page[1])
    assert moved.record.state == ("Original" if leave == "copy" else "Deleted")
    assert moved.record.original_elsewhere is None
    clock[0] += timedelta(days=2)
    assert taker.read() == [moved]
    assert taker("/files/1/a.txt").status_code == (200 if leave == "copy" else 404)
    assert taker("/files/2/b.txt").status_code == 404
    assert taker.switch(page) == (*expected, SwitchAnswer(2, "refused", "the offer has expired"))
    assert states(archive, item, other) == [(state, FAR_SERVICE), ("Original", None)]


def test_an_item_that_came_back_is_not_switched_by_the_old_offer(
    archive: Archive, offer: Make
) -> None:
    item = deposit(archive, "On rain")
    taker = offer(item)
    taker.switch(taker.read())
    archive.edit(item, take_back=True)
    reason = "it has moved with this offer, and has come back"
    page = taker.read()
    assert taker.switch(page) == (SwitchAnswer(1, "refused", reason),)
    again = offer(item)
    assert again.switch(again.read())[0].result == "switched"
    assert taker.switch(page) == (SwitchAnswer(1, "switched"),)


@pytest.mark.rule("MV-3")
def test_an_item_that_was_edited_since_is_not_switched(archive: Archive, offer: Make) -> None:
    item, other = deposit(archive, "On rain", "a.txt"), deposit(archive, "On snow")
    taker = offer(item, other)
    page = taker.read()
    archive.edit(item, language="pt")
    assert [answer.result for answer in taker.switch(page)] == ["changed", "switched"]
    assert states(archive, item, other) == [("Original", None), ("Copy", FAR_SERVICE)]
    page = taker.read()[:1]
    archive.edit(item, files=[("a.txt", BytesIO(b"other content"))])
    assert taker.switch(page)[0].result == "changed"
    page = taker.read()[:1]
    archive.delete(item, "a mistake")
    assert taker.switch(page)[0].result == "changed"
    assert taker.switch(taker.read()[:1])[0].result == "switched"
    assert states(archive, item) == [("Deleted", FAR_SERVICE)]


def test_an_item_that_cannot_be_moved_stays_with_the_reason(
    archive: Archive, offer: Make, second: Archive
) -> None:
    fixed, gone = deposit(archive, "fixed"), deposit(archive, "gone")
    taker = offer(fixed, gone)
    page = taker.read()
    archive.transfer(gone, SECOND)
    archive.edit(fixed, transferable=False)
    page = [*taker.read()[:1], page[1], replace(page[1], number=7)]
    assert [(answer.result, answer.reason) for answer in taker.switch(page)] == [
        ("refused", f"{fixed} is not transferable; set its field transferable to true first"),
        ("refused", "this Archive no longer has the Original"),
        ("refused", "the offer has no item with this number"),
    ]
    assert states(archive, fixed) == [("Original", None)]


def test_the_copies_in_other_archives_of_the_database_name_the_taker(
    archive: Archive, offer: Make, second: Archive
) -> None:
    for leave, state in (("copy", "Copy"), ("tombstone", "Deleted")):
        item = deposit(archive, "On rain", "a.txt")
        archive.make_copy(item, SECOND)
        taker = offer(item, "--leave", leave)
        assert taker.switch(taker.read())[0].result == "switched"
        assert states(archive, item) == [(state, FAR_SERVICE)]
        assert states(second, item) == [("Copy", FAR_SERVICE)]


def test_nothing_is_switched_of_copies_or_after_a_withdrawal(
    archive: Archive, offer: Make, run: Run
) -> None:
    item = deposit(archive, "On rain")
    for words, reason in (
        (("--as", "copy"), "only copies are offered"),
        ((), "the offer was withdrawn"),
    ):
        taker = offer(item, *words)
        page = taker.read()
        if not words:
            run("offers", "withdraw", taker.address.public_id)
        assert taker.switch(page) == (SwitchAnswer(1, "refused", reason),)
        assert states(archive, item) == [("Original", None)]


# --- at the same time ----------------------------------------------------------------------------


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Call functions in threads at the same time, and return their results; None if refused."""
    barrier = Barrier(len(calls))

    def call(function: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return function()
        except StorageError:
            return None

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(call, calls))


@pytest.mark.postgresql
def test_switches_at_the_same_time_move_each_item_once(
    archive: Archive, giver: Flask, offer: Make, run: Run
) -> None:
    items = [deposit(archive, f"item {number}") for number in range(6)]
    count = {"day": DAY, "content_type": "Data", "accesses": 1, "double_clicks": 0, "robots": 0}
    insert_counts(archive, [{"ibi": item, **count} for item in items])
    taker = offer(*items)
    page = taker.read()
    same = Taker(giver.test_client(), taker.address.text)
    one, two = at_once(lambda: taker.switch(page), lambda: same.switch(page[::-1])[::-1])
    assert one == two
    assert all(len(answer.counts) == 1 for answer in one)
    # two takers of one item
    item = deposit(archive, "On rain")
    made = run("offer", item, "--to", SECOND).stdout.strip()
    takers = [offer(item), Taker(giver.test_client(), made)]
    pages = [taker.read() for taker in takers]
    answers = at_once(*(lambda n=n: takers[n].switch(pages[n])[0].result for n in (0, 1)))
    assert sorted(answers) == ["refused", "switched"]


@pytest.mark.rule("MV-3", "MV-5")
@pytest.mark.postgresql
def test_of_a_switch_and_another_change_at_the_same_time_one_is_refused(
    archive: Archive, offer: Make
) -> None:
    for number in range(4):
        item = deposit(archive, f"item {number}")
        taker = offer(item)
        page = taker.read()
        changes = {
            "refused": lambda name=taker.address.public_id: withdraw_offer(archive, name) or True,
            # if the edit came first, the taker must read it
            "changed": lambda item=item: archive.edit(item, language="pt") or True,
        }
        result = list(changes)[number % 2]
        changed, [answer] = at_once(
            changes[result], lambda taker=taker, page=page: taker.switch(page)
        )
        assert answer.result == (result if changed else "switched")
        expected = ("Original", None) if changed else ("Copy", FAR_SERVICE)
        assert states(archive, item) == [expected]
        is_edited = record_of(archive, item).language == "pt"
        assert is_edited is bool(changed and result == "changed")
