"""A switch: the giver gives up its Original once, in the version that the taker has stored."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta, timezone
from io import BytesIO
from threading import Barrier
from typing import Any

import pytest
from flask import Flask
from msgspec.structs import replace
from support.accesses import insert_counts
from support.archives import FAR_SERVICE, archive_of

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.changes import make_claim
from flask_ibi_archive.archive.moving.offers import withdraw_offer
from flask_ibi_archive.core.records.offer_messages import DailyCount, SwitchAnswer
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.signals import item_state_changed

from .conftest import Taker, deposit, record_of

Run = Callable[..., Any]
Make = Callable[..., Taker]
NOON = datetime(2026, 11, 24, 12, tzinfo=timezone.utc)


def states(archive: Archive, *items: str) -> list[tuple[str, str | None]]:
    """Return the states of items, and the Archives of their Originals."""
    records = [record_of(archive, item) for item in items]
    return [
        (
            record.state,
            record.original_archive or getattr(record.tombstone, "original_archive", None),
        )
        for record in records
    ]


@pytest.mark.rule("MV-3")
@pytest.mark.parametrize(("leave", "state"), [("copy", "Copy"), ("tombstone", "Deleted")])
def test_a_switch_leaves_a_copy_or_a_tombstone(
    archive: Archive, offer: Make, leave: str, state: str
) -> None:
    item, other = deposit(archive, "On rain", "a.txt"), deposit(archive, "On snow")
    taker = offer(item, other, "--leave", leave)
    before = record_of(archive, item)
    changes = []
    with item_state_changed.connected_to(lambda _, **values: changes.append(values)):
        answers = taker.switch(taker.read()[:1])
    assert answers == (SwitchAnswer(1, "switched"),)
    assert states(archive, item, other) == [(state, FAR_SERVICE), ("Original", None)]
    assert [(one["old_state"], one["new_state"]) for one in changes] == [("Original", state)]
    after = record_of(archive, item)
    assert make_claim("1", after).original_archive == FAR_SERVICE
    assert after.metadata == before.metadata
    if leave == "copy":
        assert (after.files, after.timestamp) == (before.files, before.timestamp)
    else:
        assert after.files == ()
        assert after.tombstone.reason == f"transferred to {FAR_SERVICE}"


@pytest.mark.rule("MV-4")
def test_related_items_that_stay_name_the_item_as_before(archive: Archive, offer: Make) -> None:
    first = deposit(archive, "On rain", language="en")
    second = archive.new_edition(first, title="On rain, again", language="en").rep
    translated = archive.add_translation(first, title="Da chuva", language="pt").rep
    taker = offer(first)
    assert taker.switch(taker.read())[0].result == "switched"
    view = archive.get(translated)
    assert view is not None
    assert [(other.kind, other.ibi) for other in view.related] == [("translation", first)]
    assert record_of(archive, first).next_edition == second
    # and the other item can follow it
    follower = offer(translated)
    [read] = follower.read()
    assert read.record.translations == {"en": first}
    assert follower.switch([read])[0].result == "switched"


def test_a_deleted_item_moves_with_its_tombstone(archive: Archive, offer: Make) -> None:
    item = deposit(archive, "On rain")
    archive.delete(item, "a mistake", citation="Silva: On rain")
    before = record_of(archive, item)
    taker = offer(item)
    assert taker.switch(taker.read()) == (SwitchAnswer(1, "switched"),)
    after = record_of(archive, item)
    assert (after.state, after.timestamp) == ("Deleted", before.timestamp)
    assert after.tombstone.original_archive == FAR_SERVICE
    assert (after.tombstone.reason, after.tombstone.citation) == ("a mistake", "Silva: On rain")


@pytest.mark.rule("MV-3")
def test_a_repeated_switch_has_the_same_answer(
    archive: Archive, offer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = deposit(archive, "On rain")
    count = {"ibi": item, "day": date(2026, 1, 2), "content_type": "Data"}
    numbers = {"accesses": 3, "double_clicks": 1, "robots": 2}
    insert_counts(archive, [{**count, **numbers}])
    now = [NOON]
    archive.clock = lambda: now[0]
    taker = offer(item, "--leave", "tombstone", "--expires", "1d")
    page = taker.read()
    counts = (DailyCount(date(2026, 1, 2), "Data", 3, 1, 2),)
    expected = SwitchAnswer(1, "switched", counts=counts)
    assert taker.switch(page) == (expected,)
    # the counts of the item are away, and those of the Archive remain
    assert archive.statistics(item).downloads == 0
    assert archive.statistics().downloads == 3
    now[0] += timedelta(days=2)  # the answer is given even after the offer has expired
    assert taker.switch(page) == (expected,)
    assert states(archive, item) == [("Deleted", FAR_SERVICE)]


@pytest.mark.parametrize("leave", ["copy", "tombstone"])
def test_what_has_moved_is_shown_even_after_the_end(
    archive: Archive, offer: Make, leave: str
) -> None:
    now = [NOON]
    archive.clock = lambda: now[0]
    taker = offer(
        *(deposit(archive, "a", "a.txt"), deposit(archive, "b", "b.txt")),
        *("--leave", leave, "--expires", "1d"),
    )
    page = taker.read()
    taker.switch(page[:1])
    [moved, other] = taker.read()
    assert (moved.moved, other) == (True, page[1])
    if leave == "copy":
        assert moved == replace(page[0], moved=True)
    else:
        assert (moved.record.state, moved.record.original_elsewhere) == ("Deleted", None)
    now[0] += timedelta(days=2)
    assert taker.read() == [moved]
    assert taker("/files/2/b.txt").status_code == 404
    assert taker("/files/1/a.txt").status_code == (200 if leave == "copy" else 404)


def test_an_item_that_came_back_is_not_switched_by_the_old_offer(
    archive: Archive, offer: Make
) -> None:
    item = deposit(archive, "On rain")
    taker = offer(item)
    taker.switch(taker.read())
    archive.edit(item, take_back=True)
    page = taker.read()
    reason = "it has moved with this offer, and has come back"
    assert taker.switch(page) == (SwitchAnswer(1, "refused", reason),)
    again = offer(item)
    assert again.switch(again.read())[0].result == "switched"
    # the counts are those of the last move, whichever offer is asked
    assert taker.switch(page) == (SwitchAnswer(1, "switched"),)


def test_an_item_that_was_edited_since_is_not_switched(archive: Archive, offer: Make) -> None:
    item, other = deposit(archive, "On rain", "a.txt"), deposit(archive, "On snow")
    taker = offer(item, other)
    page = taker.read()
    archive.edit(item, language="pt")
    answers = taker.switch(page)
    assert [answer.result for answer in answers] == ["changed", "switched"]
    assert states(archive, item, other) == [("Original", None), ("Copy", FAR_SERVICE)]
    page = taker.read()[:1]
    archive.edit(item, files=[("a.txt", BytesIO(b"other content"))])
    assert taker.switch(page)[0].result == "changed"
    page = taker.read()[:1]
    archive.delete(item, "a mistake")
    assert taker.switch(page)[0].result == "changed"
    deleted = taker.read()[0]
    assert deleted.record.state == "Deleted"
    assert taker.switch([deleted])[0].result == "switched"


def test_an_item_that_cannot_be_moved_stays_with_the_reason(
    archive: Archive, offer: Make, new_app: Callable[..., Flask]
) -> None:
    second = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI="dpi.inpe.br/banon/1999/01.09.22.14"))
    second.init()
    fixed, gone = deposit(archive, "fixed"), deposit(archive, "gone")
    taker = offer(fixed, gone)
    page = taker.read()
    archive.transfer(gone, second.served().service_ibi)
    archive.edit(fixed, transferable=False)
    page = [*taker.read()[:1], page[1], replace(page[1], number=7)]
    answers = taker.switch(page)
    assert [(answer.result, answer.reason) for answer in answers] == [
        (
            "refused",
            f"{fixed} is not transferable; set its field transferable to true first",
        ),
        ("refused", "this Archive no longer has the Original"),
        ("refused", "the offer has no item with this number"),
    ]
    assert states(archive, fixed) == [("Original", None)]


def test_the_copies_in_other_archives_of_the_database_name_the_taker(
    archive: Archive, offer: Make, new_app: Callable[..., Flask]
) -> None:
    second = archive_of(new_app(IBI_ARCHIVE_SERVICE_IBI="dpi.inpe.br/banon/1999/01.09.22.14"))
    second.init()
    items = [deposit(archive, "On rain", "a.txt"), deposit(archive, "On snow")]
    for item in items:
        archive.make_copy(item, second.served().service_ibi)
    for item, leave, state in zip(items, ("copy", "tombstone"), ("Copy", "Deleted"), strict=True):
        taker = offer(item, "--leave", leave)
        assert taker.switch(taker.read())[0].result == "switched"
        assert states(archive, item) == [(state, FAR_SERVICE)]
        assert states(second, item) == [("Copy", FAR_SERVICE)]


def test_copies_are_not_switched(archive: Archive, offer: Make, run: Run) -> None:
    item = deposit(archive, "On rain")
    taker = offer(item, "--as", "copy")
    refusal = SwitchAnswer(1, "refused", "only copies are offered")
    assert taker.switch(taker.read()) == (refusal,)
    assert states(archive, item) == [("Original", None)]
    assert run("offers", "withdraw", taker.address.public_id).exit_code == 0
    assert taker("/items").status_code == 410


def test_nothing_is_switched_after_the_end_of_an_offer(
    archive: Archive, offer: Make, run: Run
) -> None:
    now = [NOON]
    archive.clock = lambda: now[0]
    items = [deposit(archive, "a"), deposit(archive, "b")]
    expired, withdrawn = offer(items[0], "--expires", "1d"), offer(items[1])
    pages = [expired.read(), withdrawn.read()]
    now[0] += timedelta(days=1)
    run("offers", "withdraw", withdrawn.address.public_id)
    assert expired.switch(pages[0]) == (SwitchAnswer(1, "refused", "the offer has expired"),)
    assert withdrawn.switch(pages[1]) == (SwitchAnswer(1, "refused", "the offer was withdrawn"),)
    assert states(archive, *items) == [("Original", None)] * 2


# --- at the same time ----------------------------------------------------------------------------


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Call functions in threads at the same time, and return their results."""
    barrier = Barrier(len(calls))

    def call(function: Callable[[], Any]) -> Any:
        barrier.wait()
        return function()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(call, calls))


@pytest.fixture
def second_taker(giver: Flask) -> Callable[[Taker], Taker]:
    """Returns another taker with the same address."""
    return lambda taker: Taker(giver.test_client(), taker.address.text)


def withdraw(archive: Archive, public_id: str) -> bool:
    """Withdraw an offer, and return whether this succeeded."""
    try:
        withdraw_offer(archive, public_id)
    except StorageError:
        return False
    return True


@pytest.mark.rule("MV-5")
@pytest.mark.postgresql
def test_a_withdrawal_and_a_switch_at_the_same_time_agree(archive: Archive, offer: Make) -> None:
    for number in range(4):
        item = deposit(archive, f"item {number}")
        taker = offer(item)
        page = taker.read()
        name = taker.address.public_id
        withdrawn, [answer] = at_once(
            lambda name=name: withdraw(archive, name),
            lambda taker=taker, page=page: taker.switch(page),
        )
        assert (answer.result == "switched") is not withdrawn
        expected = ("Original", None) if withdrawn else ("Copy", FAR_SERVICE)
        assert states(archive, item) == [expected]


@pytest.mark.postgresql
def test_two_equal_switches_at_the_same_time_have_the_same_answer(
    archive: Archive, offer: Make, second_taker: Callable[[Taker], Taker]
) -> None:
    items = [deposit(archive, f"item {number}") for number in range(6)]
    count = {"day": date(2026, 1, 2), "content_type": "Data", "accesses": 1}
    insert_counts(
        archive,
        [{"ibi": item, **count, "double_clicks": 0, "robots": 0} for item in items],
    )
    taker = offer(*items)
    page = taker.read()
    one, two = at_once(
        lambda: taker.switch(page), lambda: second_taker(taker).switch(page[::-1])[::-1]
    )
    assert one == two
    assert all(len(answer.counts) == 1 for answer in one)


@pytest.mark.rule("MV-3")
@pytest.mark.postgresql
def test_an_edit_and_a_switch_at_the_same_time_lose_nothing(archive: Archive, offer: Make) -> None:
    for number in range(4):
        item = deposit(archive, f"item {number}")
        taker = offer(item)
        page = taker.read()

        def edit(item: str = item) -> bool:
            try:
                archive.edit(item, language="pt")
            except StorageError:
                return False
            return True

        edited, [answer] = at_once(edit, lambda taker=taker, page=page: taker.switch(page))
        # if the edit came first, the taker must read it; if it came later, it was refused
        assert (answer.result == "changed") is edited
        assert (record_of(archive, item).language == "pt") is edited


@pytest.mark.postgresql
def test_two_offers_of_one_item_at_the_same_time_move_it_once(
    archive: Archive, giver: Flask, run: Run
) -> None:
    item = deposit(archive, "On rain")
    takers = []
    for service in (FAR_SERVICE, "dpi.inpe.br/banon/1999/01.09.22.14"):
        made = run("offer", item, "--to", service)
        takers.append(Taker(giver.test_client(), made.stdout.strip()))
    pages = [taker.read() for taker in takers]
    answers = at_once(*(lambda n=n: takers[n].switch(pages[n])[0] for n in (0, 1)))
    assert sorted(answer.result for answer in answers) == ["refused", "switched"]
