"""Moves and copies between two real servers, with databases of different kinds, and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from support.archives import import_records
from support.databases import BACKENDS, copy_database
from support.givers import Killed, item, rep
from support.moves import Place, open_place

from flask_ibi_archive.archive.items.tables import AccessCount
from flask_ibi_archive.archive.moving import client
from flask_ibi_archive.signals import moved_away, moved_here

Places = tuple[Place, Place]


@pytest.fixture(params=["one kind", pytest.param("different kinds", marks=pytest.mark.slow)])
def places(request: pytest.FixtureRequest, backend: str, tmp_path: Path) -> Iterator[Places]:
    """The giver and the taker, in databases of one kind or of different kinds."""
    other = next(kind for kind in BACKENDS if kind != backend)
    taking = backend if request.param == "one kind" else other
    with (
        open_place(backend, tmp_path / "giver", 1) as giver,
        open_place(taking, tmp_path / "taker", 2) as taker,
    ):
        yield giver, taker


NUMBERS = range(1, 9)


def fill(place: Place, folder: Path) -> None:
    """Store items of all kinds, with files and counts of accesses."""
    (folder / "a.pdf").write_bytes(b"pdf" * 1000)
    (folder / "b.csv").write_bytes(b"1,2\n")
    files = [{"path": "x/report ü.pdf", "source": str(folder / "a.pdf")}]
    records = [
        item(1, files=files, language="en", translations={"pt": rep(2)}, next_edition=rep(3)),
        item(2, language="pt", access={"networks": ["127.0.0.0/8"], "others": "none"}),
        item(3, metadata={"ibi": rep(4)}, embargo="2999-01-01"),
        item(4, content_type="Metadata"),
        item(5, files=[*files, {"path": "b.csv", "source": str(folder / "b.csv")}]),
        item(6, state="Deleted", tombstone={"reason": "withdrawn", "successor": rep(7)}),
        item(7, aliases=["b.br/x/2002/02.02.00.00"], next_edition=rep(8)),
        item(8),
    ]
    import_records(place.archive, records, folder)
    count(place, 1, 5)


def count(place: Place, number: int, accesses: int) -> None:
    """Store a count of accesses."""
    from datetime import date

    archive = place.archive
    key = {"ibi": rep(number), "day": date(2020, 1, 1), "content_type": "Data"}
    with archive.database.writing() as connection:
        connection.execute(
            AccessCount.__table__.insert().values(
                **key, archive_id=archive.served().id, accesses=accesses
            )
        )


def counts(place: Place) -> list[int]:
    with place.archive.database.reading() as connection:
        return list(connection.scalars(select(AccessCount.accesses)))


def records(place: Place) -> dict[str, Any]:
    """Return what must not change when items move."""
    from msgspec.structs import replace

    found = {}
    for one in place.archive.find():
        ibi = one.record.identifiers[0]
        view = place.archive.get(ibi)
        assert view is not None
        files = tuple(replace(file, source=None) for file in view.record.files)
        related = sorted((other.kind, other.ibi, other.language) for other in view.related)
        tombstone = view.record.tombstone and replace(view.record.tombstone, original_archive=None)
        found[ibi] = (
            replace(
                view.record,
                state="",
                original_archive=None,
                files=files,
                translations={},
                tombstone=tombstone,
            ),
            related,
        )
    return found


MOVED = {rep(n): "Original" for n in NUMBERS} | {rep(6): "Deleted"}
LEFT = {rep(n): "Copy" for n in NUMBERS} | {rep(6): "Deleted"}


@pytest.mark.rule("MV-2", "MV-5")
@pytest.mark.postgresql
def test_a_move_and_the_way_back(places: Places, tmp_path: Path) -> None:
    giver, taker = places
    fill(giver, tmp_path)
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


def test_tombstones_may_remain(places: Places, tmp_path: Path) -> None:
    giver, taker = places
    fill(giver, tmp_path)
    files = giver.files()
    address = giver.offer(taker, "--all", "--leave", "tombstone")
    assert taker.accept(address).status == 0
    assert taker.files() == files
    assert set(giver.states().values()) == {"Deleted"}
    assert taker.accept(address).status == 0
    back = taker.offer(giver, "--all", "--leave", "tombstone")
    assert giver.accept(back).status == 0
    assert (giver.states(), giver.files()) == (MOVED, files)


def test_a_taker_that_has_lost_what_arrived_accepts_again(tmp_path: Path) -> None:
    with (
        open_place("sqlite", tmp_path / "giver", 1) as giver,
        open_place("sqlite", tmp_path / "taker", 2) as taker,
    ):
        import_records(giver.archive, [item(1), item(8)])
        database = taker.archive.database.engine.url.database
        copy_database(database, tmp_path / "backup")
        address = giver.offer(taker, "--all")
        for _ in range(2):
            assert taker.accept(address).status == 0
            assert taker.states() == {rep(1): "Original", rep(8): "Original"}
            copy_database(tmp_path / "backup", database)
            assert taker.states() == {}
        # the offer may have ended: the giver takes an item back, and offers it again
        assert giver.run("edit", rep(8), "--take-back").status == 0
        assert taker.accept(giver.offer(taker, rep(8))).status == 0
        assert taker.states() == {rep(8): "Original"}
        assert giver.states() == {rep(1): "Copy", rep(8): "Copy"}


def test_a_copy_can_be_renewed(places: Places, tmp_path: Path) -> None:
    giver, taker = places
    fill(giver, tmp_path)
    for language in ("en", "fr"):
        giver.archive.edit(rep(8), language=language)
        assert taker.accept(giver.offer(taker, "--all", "--as", "copy")).status == 0
        found = taker.archive.get(rep(8))
        assert found is not None
        assert (found.record.state, found.record.language) == ("Copy", language)
    assert counts(giver) == [5]


@pytest.mark.rule("MV-4")
def test_related_items_that_stay_are_references_on_both_sides(
    places: Places, tmp_path: Path
) -> None:
    giver, taker = places
    fill(giver, tmp_path)
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
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    giver, taker = places
    fill(giver, tmp_path)
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
        originals = [
            ibi for place in places for ibi, state in place.states().items() if state == "Original"
        ]
        assert len(set(originals)) == len(originals)
        seen.append(len(originals))

    monkeypatch.setattr(client, "fetch", sending)
    assert taker.accept(giver.offer(taker, "--all")).status == 0
    check()
    assert [taker.status(ibi) for ibi in public] == [302] * len(public)
    assert (seen[0], seen[-1]) == (7, 7)


@pytest.mark.rule("MV-5")
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_move_that_is_killed_at_each_step_in_turn(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    giver, taker = places
    fill(giver, tmp_path)
    files = giver.files()
    address = giver.offer(taker, "--all")
    send, left = client.fetch, [0]

    def sending(*args: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and side == "before":
            raise Killed
        response = send(*args, **options)
        if left[0] == 0:
            raise Killed
        return response

    monkeypatch.setattr(client, "fetch", sending)
    for step in range(1, 20):
        left[0] = step
        try:
            done = taker.accept(address)
        except Killed:
            originals = [
                ibi
                for place in places
                for ibi, state in place.states().items()
                if state == "Original"
            ]
            assert len(set(originals)) == len(originals)
        else:
            break
    assert (done.status, step > 3) == (0, True)
    assert (taker.states(), giver.states()) == (MOVED, LEFT)
    assert (taker.files(), counts(taker), counts(giver)) == (files, [5], [])


def test_both_sides_send_signals(places: Places, tmp_path: Path) -> None:
    giver, taker = places
    fill(giver, tmp_path)
    received = []

    def receive(sender: Any, **values: Any) -> None:
        received.append((values["ibi"], values["archive"], values.get("to", values.get("giver"))))

    with moved_away.connected_to(receive), moved_here.connected_to(receive):
        assert taker.accept(giver.offer(taker, rep(7))).status == 0
    assert received == [
        (rep(7), giver.service, taker.service),
        (rep(7), taker.service, giver.service),
    ]


# --- the command ---------------------------------------------------------------------------------


def test_the_secret_is_not_an_argument(places: Places, tmp_path: Path) -> None:
    giver, taker = places
    fill(giver, tmp_path)
    address = giver.offer(taker, "--all")
    done = taker.run("accept", address)
    assert (done.status, done.out) == (2, "")
    secret = address.partition("#")[2]
    assert "list of processes" in done.err
    assert secret not in done.err
    for wrong in (address[:-1], address.partition("#")[0], "x#" + secret, ""):
        done = taker.accept(wrong)
        assert (done.status, secret[:-1] in done.err) == (1, False)
    done = taker.run("accept")
    assert (done.status, "there is no terminal" in done.err) == (1, True)


def test_a_wrong_secret_and_an_expired_offer_are_refused(places: Places, tmp_path: Path) -> None:
    giver, taker = places
    fill(giver, tmp_path)
    address = giver.offer(taker, "--all")
    url = address.partition("#")[0]
    done = taker.accept(f"{url}#{'A' * 43}")
    assert (done.status, "answers with status 401" in done.err) == (1, True)
    assert giver.run("offers", "withdraw", url[-16:]).status == 0
    done = taker.accept(address)
    assert (done.status, "answers with status 410: the offer was withdrawn" in done.err) == (
        1,
        True,
    )
    done = giver.accept(taker.run("offer", "--all", "--to", giver.service).out)
    assert done.status == 1
