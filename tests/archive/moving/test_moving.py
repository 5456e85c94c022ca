"""Moves and copies between two real servers, and back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import insert, select
from support.archives import import_records
from support.databases import copy_database
from support.moves import Killed, Place, item, open_place, rep

from flask_ibi_archive.archive.items.tables import AccessCount
from flask_ibi_archive.archive.moving import client
from flask_ibi_archive.signals import moved_away, moved_here

Places = tuple[Place, Place]
NUMBERS = range(1, 9)
MOVED = {rep(n): "Original" for n in NUMBERS} | {rep(6): "Deleted"}
LEFT = {rep(n): "Copy" for n in NUMBERS} | {rep(6): "Deleted"}


@pytest.fixture
def places(backend: str, tmp_path: Path) -> Iterator[Places]:
    """The giver, with items of all kinds, their files and counts of accesses, and the taker."""
    with (
        open_place(backend, tmp_path / "giver", 1) as giver,
        open_place(backend, tmp_path / "taker", 2) as taker,
    ):
        (tmp_path / "a.pdf").write_bytes(b"pdf" * 1000)
        (tmp_path / "b.csv").write_bytes(b"1,2\n")
        files = [{"path": "x/report ü.pdf", "source": str(tmp_path / "a.pdf")}]
        records = [
            item(1, files=files, language="en", translations={"pt": rep(2)}, next_edition=rep(3)),
            item(2, language="pt", access={"networks": ["127.0.0.0/8"], "others": "none"}),
            item(3, metadata={"ibi": rep(4)}, embargo="2999-01-01"),
            item(4, content_type="Metadata"),
            item(5, files=[*files, {"path": "b.csv", "source": str(tmp_path / "b.csv")}]),
            item(6, state="Deleted", tombstone={"reason": "withdrawn", "successor": rep(7)}),
            item(7, aliases=["b.br/x/2002/02.02.00.00"], next_edition=rep(8)),
            item(8),
        ]
        import_records(giver.archive, records, tmp_path)
        count = {"ibi": rep(1), "day": date(2020, 1, 1), "content_type": "Data", "accesses": 5}
        with giver.archive.database.writing() as connection:
            archive_id = giver.archive.served().id
            connection.execute(insert(AccessCount).values(archive_id=archive_id, **count))
        yield giver, taker


def counts(place: Place) -> list[int]:
    with place.archive.database.reading() as connection:
        return list(connection.scalars(select(AccessCount.accesses)))


def records(place: Place) -> dict[str, Any]:
    """Return what must not change when items move."""
    found = {}
    for one in place.archive.find():
        ibi = one.record.identifiers[0]
        view = place.archive.get(ibi)
        assert view is not None
        record, tombstone = view.record, view.record.tombstone
        related = sorted((other.kind, other.ibi, other.language) for other in view.related)
        files = tuple(replace(file, source=None) for file in record.files)
        tombstone = tombstone and replace(tombstone, original_archive=None)
        record = replace(record, state="", original_archive=None, translations={})
        found[ibi] = replace(record, files=files, tombstone=tombstone), related
    return found


@pytest.mark.rule("MV-2", "MV-5")
@pytest.mark.postgresql
def test_a_move_and_the_way_back(places: Places) -> None:
    giver, taker = places
    before, files = records(giver), giver.files()
    address = giver.offer(taker, "--all")
    assert taker.accept(address, "--dry-run").status == 0
    assert taker.states() == {}
    done = taker.accept(address)
    assert (done.status, done.out) == (0, "")
    assert "8 items are here; 0 were not taken" in done.err
    assert (taker.states(), giver.states()) == (MOVED, LEFT)
    assert records(taker) == before
    assert (taker.files(), counts(taker), counts(giver)) == (files, [5], [])
    # the way back
    back = taker.offer(giver, "--all")
    assert giver.accept(back).status == 0
    assert (taker.states(), giver.states()) == (LEFT, MOVED)
    assert records(giver) == before
    assert (giver.files(), counts(giver), counts(taker)) == (files, [5], [])
    for place in places:
        assert place.run("verify").status == 0
        assert "done" in place.run("offers").out
    # the first offer does not move the items again
    again = taker.accept(address)
    assert (again.status, again.out.count("it has moved with this offer")) == (1, 8)
    assert (taker.states(), giver.states()) == (LEFT, MOVED)


@pytest.mark.rule("MV-3", "MV-5")
@pytest.mark.parametrize("leave", ["copy", "tombstone"])
def test_a_lost_answer_is_repeated_after_the_offer_has_expired(
    places: Places, monkeypatch: pytest.MonkeyPatch, leave: str
) -> None:
    giver, taker = places
    files = giver.files()
    address = giver.offer(taker, "--all", "--leave", leave, "--expires", "1d")
    send = client.fetch

    def sending(url: str, *args: Any, **options: Any) -> Any:
        response = send(url, *args, **options)
        if url.endswith("/switch"):
            raise Killed
        return response

    with monkeypatch.context() as patch:
        patch.setattr(client, "fetch", sending)
        with pytest.raises(Killed):
            taker.accept(address)
    clock = giver.archive.clock
    giver.archive.clock = lambda: clock() + timedelta(days=2)
    assert "Original" not in {*taker.states().values(), *giver.states().values()}
    assert taker.accept(address).status == 0
    assert (taker.states(), taker.files(), counts(taker)) == (MOVED, files, [5])


@pytest.mark.only_on("sqlite")
def test_a_taker_that_has_lost_what_arrived_accepts_again(places: Places) -> None:
    giver, taker = places
    database = taker.archive.database.engine.url.database
    copy_database(database, f"{database}.backup")
    address = giver.offer(taker, rep(7), rep(8), "--expires", "1d")
    clock = giver.archive.clock
    for days in (0, 2):
        giver.archive.clock = lambda days=days: clock() + timedelta(days=days)
        assert taker.accept(address).status == 0
        assert taker.states() == {rep(7): "Original", rep(8): "Original"}
        copy_database(f"{database}.backup", database)
        assert taker.states() == {}
    tombstone = giver.offer(taker, rep(2), "--leave", "tombstone")
    assert taker.accept(tombstone).status == 0
    copy_database(f"{database}.backup", database)
    lost = taker.accept(tombstone)
    assert (lost.status, lost.out) == (1, f"{rep(2)}\tthe giver has only a tombstone of it\n")


def test_a_copy_can_be_renewed(places: Places) -> None:
    giver, taker = places
    address = giver.offer(taker, "--all", "--as", "copy")
    for language in ("en", "fr"):
        giver.archive.edit(rep(8), language=language)
        assert taker.accept(address).status == 0
        view = taker.archive.get(rep(8))
        assert view is not None
        assert (view.record.state, view.record.language) == ("Copy", language)
    assert counts(giver) == [5]


@pytest.mark.rule("MV-4")
def test_related_items_that_stay_are_references_on_both_sides(places: Places) -> None:
    giver, taker = places
    before = records(giver)
    assert taker.accept(giver.offer(taker, rep(1))).status == 0
    assert taker.states() == {rep(1): "Original"}
    assert records(taker)[rep(1)] == before[rep(1)]
    assert records(giver) == before
    # then the others follow
    rest = [rep(number) for number in (2, 3, 5, 6, 7, 8)]
    assert taker.accept(giver.offer(taker, *rest)).status == 0
    assert records(taker) == before
    assert taker.states() == MOVED


@pytest.mark.rule("MV-3")
def test_a_persistent_url_is_answered_at_each_step(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    giver, taker = places
    public = [rep(number) for number in (1, 5, 7)]
    seen = []
    send = client.fetch

    def sending(*args: Any, **options: Any) -> Any:
        check()
        response = send(*args, **options)
        check()
        return response

    def check() -> None:
        assert [giver.status(ibi) for ibi in public] == [302] * len(public)
        states = [*giver.states().items(), *taker.states().items()]
        originals = [ibi for ibi, state in states if state == "Original"]
        assert len(set(originals)) == len(originals)
        seen.append(len(originals))

    monkeypatch.setattr(client, "fetch", sending)
    assert taker.accept(giver.offer(taker, "--all")).status == 0
    check()
    assert [taker.status(ibi) for ibi in public] == [302] * len(public)
    assert (seen[0], seen[-1]) == (7, 7)


def test_both_sides_send_signals(places: Places) -> None:
    giver, taker = places
    received = []

    def receive(sender: Any, **values: Any) -> None:
        received.append((values["ibi"], values["archive"], values.get("to", values.get("giver"))))

    with moved_away.connected_to(receive), moved_here.connected_to(receive):
        assert taker.accept(giver.offer(taker, rep(7))).status == 0
    assert received == [
        (rep(7), giver.service, taker.service),
        (rep(7), taker.service, giver.service),
    ]


def test_a_wrong_address_is_refused_without_showing_the_secret(places: Places) -> None:
    giver, taker = places
    address = giver.offer(taker, "--all")
    url, _, secret = address.partition("#")
    shown = taker.run("accept", address)
    assert (shown.status, shown.out, "list of processes" in shown.err) == (2, "", True)
    nobody = taker.run("accept")
    assert (nobody.status, "there is no terminal" in nobody.err) == (1, True)
    for wrong, reason in (
        (address[:-1], "it has 43 characters"),
        (url, "the address has no secret"),
        (f"x#{secret}", "is not the address of an offer"),
        (f"{url}#{'A' * 43}", "answers with status 401"),
    ):
        done = taker.accept(wrong)
        assert (done.status, reason in done.err) == (1, True), done.err
        assert secret[:-1] not in shown.err + done.err
    assert giver.run("offers", "withdraw", url.rpartition("/")[2]).status == 0
    assert "answers with status 410: the offer was withdrawn" in taker.accept(address).err
