"""The taker of an offer: what it takes, what it refuses, and how it goes on."""

from __future__ import annotations

import itertools
from contextlib import suppress
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select
from support.archives import FAR_SERVICE, archive_of, import_records, open_app
from support.givers import ID, SECRET, Giver, Killed, Taking, as_json, item, rep, taking

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.tables import AccessCount
from flask_ibi_archive.archive.moving.accepting import Outcome
from flask_ibi_archive.archive.moving.tables import Acceptance
from flask_ibi_archive.core.records.offer_messages import DailyCount
from flask_ibi_archive.errors import OfferError, TransportError

WORK = {
    "titles": ["Rain"],
    "creators": [{"name": "Silva, Ana", "orcid": "0000-0002-1825-0097"}],
    "contributors": [{"name": "Lima, Eva", "role": "advisor"}],
    "type": "tese",
}
FILE = {"path": "report.pdf", "content": b"the report" * 100}


def shelf() -> list[dict[str, Any]]:
    """Items of every kind: editions, translations, metadata items, files, access, tombstones."""
    return [
        item(1, files=[FILE], language="en", translations={"pt": rep(2)}, next_edition=rep(9)),
        item(2, language="pt", translations={"en": rep(1)}, access={"networks": ["10.0.0.0/8"]}),
        item(3, metadata={"ibi": rep(4)}, embargo="2999-01-01"),
        item(4, content_type="Metadata"),
        item(5, files=[FILE, {"path": "b/data.csv", "content": b"1,2"}], target_file="b/data.csv"),
        item(6, state="Deleted", tombstone={"reason": "withdrawn"}),
        item(7, aliases=["b.br/x/2002/02.02.00.00"]),
        item(8, next_edition="c.br/x/2003/03.03.00.00", language="en"),
        item(9, metadata={"work": WORK}),
    ]


#: The states of the items of the shelf after the move.
MOVED = {rep(number): "Original" for number in range(1, 10)} | {rep(6): "Deleted"}


def states(archive: Archive) -> dict[str, str]:
    """Return the states of all items."""
    return {str(one.record.rep): one.record.state for one in archive.find()}


@pytest.mark.postgresql
def test_all_kinds_of_items_move_with_what_belongs_to_them(archive: Archive) -> None:
    giver = Giver(shelf())
    giver.counts[1] = (DailyCount(date(2020, 1, 1), "Data", 7, 1, 2),)
    with taking(archive, giver) as taker:
        assert taker.run() == Outcome(9, 0, 0)
        assert taker.refused == {}
    assert states(archive) == MOVED
    for offered in giver.items:
        ibi = offered.record.identifiers[0]
        view = archive.get(ibi)
        assert view is not None
        for name in ("aliases", "language", "metadata", "access", "embargo", "timestamp"):
            assert getattr(view.record, name) == getattr(offered.record, name), (ibi, name)
        assert view.record.next_edition == offered.record.next_edition
        assert view.record.target_path == offered.record.target_path
        assert view.record.tombstone == offered.record.tombstone
        assert view.sizes == offered.sizes
        for path in offered.sizes:
            content = giver.contents[offered.number, path]
            digest = next(file.sha256 for file in view.record.files if file.path == path)
            assert archive.files_folder.path(str(digest)).read_bytes() == content
    first = archive.get(rep(1))
    assert first is not None
    assert first.record.translations == {"pt": rep(2)}
    with archive.database.reading() as connection:
        count = connection.execute(select(AccessCount.__table__.c.accesses)).scalar_one()
        finished = connection.scalar(select(Acceptance.finished_at))
    assert (count, finished is not None) == (7, True)


def test_a_copy_stays_a_copy(archive: Archive) -> None:
    with taking(archive, Giver(shelf(), kind="copy")) as taker:
        assert taker.run() == Outcome(9, 0, 0)
    found = archive.get(rep(1))
    assert found is not None
    assert (found.record.state, found.record.original_archive) == ("Copy", FAR_SERVICE)
    removed = archive.get(rep(6))
    assert removed is not None
    assert removed.record.tombstone is not None
    assert removed.record.tombstone.original_archive == FAR_SERVICE


@pytest.mark.rule("MV-2")
def test_a_dry_run_changes_nothing(archive: Archive) -> None:
    import_records(archive, [item(2)])
    with taking(archive, Giver(shelf())) as taker:
        assert taker.examine() == 2
        assert taker.refused[rep(2)] == f"this Archive has the Original of {rep(2)}"
    assert states(archive) == {rep(2): "Original"}


# --- killed, and lost answers ---------------------------------------------------------------------


#: The requests of the move of the shelf: the offer, then for each page the page, files and switch.
STEPS = 10


def test_the_number_of_steps(archive: Archive) -> None:
    giver = Giver(shelf())
    with taking(archive, giver) as taker:
        taker.run()
    assert len(giver.requests) == STEPS


@pytest.mark.rule("MV-5")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_taker_that_is_killed_at_each_step_in_turn_goes_on(archive: Archive, when: str) -> None:
    giver = Giver(shelf())
    giver.counts[1] = (DailyCount(date(2020, 1, 1), "Data", 7, 1, 2),)
    with taking(archive, giver) as taker:
        for step in range(1, STEPS):
            with pytest.MonkeyPatch.context() as patch:
                kill_at_request(patch, step, when)
                try:
                    taker.run()
                except Killed:
                    assert_never_two_originals(archive, giver)
                else:
                    break
        assert step > 3
        check_moved(archive, giver, taker)


@pytest.mark.slow
@pytest.mark.parametrize("step", range(1, STEPS + 1))
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_taker_that_is_killed_at_one_step_goes_on(archive: Archive, step: int, when: str) -> None:
    giver = Giver(shelf())
    giver.counts[1] = (DailyCount(date(2020, 1, 1), "Data", 7, 1, 2),)
    with taking(archive, giver) as taker:
        with pytest.MonkeyPatch.context() as patch:
            kill_at_request(patch, step, when)
            with pytest.raises(Killed):
                taker.run()
        assert_never_two_originals(archive, giver)
        check_moved(archive, giver, taker)


def check_moved(archive: Archive, giver: Giver, taker: Taking) -> None:
    """Accept again, and check that all is here once."""
    for _ in range(2):
        assert taker.run() == Outcome(9, 0, 0)
        assert len(giver.switched) == 9
        assert states(archive) == MOVED
        with archive.database.reading() as connection:
            counts = connection.execute(select(AccessCount.__table__.c.accesses)).all()
        assert [tuple(row) for row in counts] == [(7,)]
        assert not list(archive.files_folder.folder.glob(".new-*/*"))


def kill_at_request(patch: pytest.MonkeyPatch, step: int, when: str) -> None:
    """Kill the taker before or after the request with a number."""
    from flask_ibi_archive.archive.moving import http_offer

    send, count = http_offer.fetch, iter(range(1, 1000))

    def sending(*args: Any, **options: Any) -> Any:
        number = next(count)
        if number == step and when == "before":
            raise Killed
        response = send(*args, **options)
        if number == step:
            raise Killed
        return response

    patch.setattr(http_offer, "fetch", sending)


def assert_never_two_originals(archive: Archive, giver: Giver) -> None:
    for offered in giver.items:
        found = archive.get(offered.record.identifiers[0])
        if found is not None and found.record.state == "Original":
            assert offered.number in giver.switched


@pytest.mark.rule("MV-5")
def test_a_taker_that_is_killed_before_each_commit_in_turn_goes_on(archive: Archive) -> None:
    giver = Giver(shelf())
    giver.counts[1] = (DailyCount(date(2020, 1, 1), "Data", 7, 1, 2),)
    with taking(archive, giver) as taker:
        for commit in range(1, 9):
            with pytest.MonkeyPatch.context() as patch:
                kill_before_commit(patch, archive, commit)
                try:
                    taker.run()
                except Killed:
                    assert_never_two_originals(archive, giver)
        check_moved(archive, giver, taker)


def kill_before_commit(patch: pytest.MonkeyPatch, archive: Archive, commit: int) -> None:
    """Kill the taker before the commit with a number."""
    from flask_ibi_archive.archive.items import operations as context

    name, count = context.name_archives, iter(range(1, 1000))

    def naming(*args: Any) -> Any:
        if next(count) == commit:
            raise Killed
        return name(*args)

    patch.setattr(context, "name_archives", naming)


@pytest.mark.rule("MV-3")
def test_answers_that_are_lost_are_repeated(archive: Archive) -> None:
    # each question is asked twice
    giver = Giver(shelf(), loses=set(range(1, 2 * STEPS, 2)))
    with taking(archive, giver) as taker:
        assert taker.run() == Outcome(9, 0, 0)
    assert giver.requests[::2] == giver.requests[1::2]
    assert len(giver.requests) == 2 * STEPS
    assert len(giver.switched) == 9


def test_a_giver_that_is_lost_is_asked_five_times(archive: Archive) -> None:
    giver = Giver(shelf(), loses=set(range(4, 100)))
    with taking(archive, giver) as taker:
        with pytest.raises(TransportError, match="closed the connection"):
            taker.run()
        assert taker.waited[-4:] == [1, 2, 4, 8]
        giver.loses = set()
        assert taker.run() == Outcome(9, 0, 0)


def test_a_giver_that_is_slow_is_asked_about_fewer_items(archive: Archive) -> None:
    from werkzeug import Response

    giver = Giver([item(number) for number in range(1, 51)], page=50)
    sizes = []

    def fail(request: Any) -> Any:
        if not request.path.endswith("/switch"):
            return None
        sizes.append(len(request.get_json()["items"]))
        return Response(status=503) if sizes[-1] > 12 else None

    giver.answer = fail
    with taking(archive, giver) as taker:
        assert taker.run() == Outcome(50, 0, 0)
    assert sizes == [50, 12, 12, 12, 12, 2]


@pytest.mark.rule("MV-2")
def test_the_rest_of_a_file_is_read_by_range(archive: Archive) -> None:
    content = bytes(range(256)) * 4096
    giver = Giver([item(1, files=[{"path": "big", "content": content}])])
    ranges = []

    def cut(request: Any) -> Any:
        from werkzeug import Response

        if "/files/" not in request.path:
            return None
        ranges.append(request.headers.get("Range"))
        begin = int(request.headers["Range"].removeprefix("bytes=").rstrip("-"))
        rest = content[begin:]
        response = Response(rest[:300_000], 206)
        response.headers["Content-Length"] = str(len(rest))
        return response

    giver.answer = cut
    with taking(archive, giver) as taker:
        assert taker.run() == Outcome(1, 0, 0)
    assert len(ranges) == 4
    assert all(ranges)


def test_a_file_goes_on_where_a_killed_taker_stopped(archive: Archive) -> None:
    from werkzeug import Response

    content = bytes(range(256)) * 4096
    giver = Giver([item(1, files=[{"path": "big", "content": content}])])
    ranges = []

    def cut(request: Any) -> Any:
        if "/files/" not in request.path:
            return None
        ranges.append(request.headers["Range"])
        if len(ranges) > 1:
            return None
        response = Response(content[:300_000])
        response.headers["Content-Length"] = str(len(content))
        return response

    giver.answer = cut
    with taking(archive, giver) as taker:
        with pytest.raises(Killed):
            Taking(archive, taker.url, waited=KillingList()).run()
        assert taker.run() == Outcome(1, 0, 0)
    first, second = (int(text.removeprefix("bytes=").rstrip("-")) for text in ranges)
    assert (first, second >= 200_000) == (0, True)  # older versions of urllib3 lose a block


def test_what_was_switched_is_completed_after_the_offer_has_ended(archive: Archive) -> None:
    giver = Giver(shelf())
    with taking(archive, giver) as taker:
        with pytest.MonkeyPatch.context() as patch:
            kill_at_request(patch, 4, "after")  # the answer to the first switch is lost
            with pytest.raises(Killed):
                taker.run()
        assert states(archive)[rep(1)] == "Copy"
        giver.answer = refuse_all_but_switches(giver)
        with pytest.raises(OfferError, match="the offer was withdrawn"):
            taker.run()
    assert states(archive) == {rep(number): "Original" for number in (1, 2, 3)}


class KillingList(list[float]):
    """A list of waits in which no wait ends."""

    def append(self, seconds: float) -> None:
        raise Killed


def test_an_offer_is_accepted_by_one_process_at_a_time(archive: Archive) -> None:
    from flask_ibi_archive.archive.items.files import Staging
    from flask_ibi_archive.errors import StorageError

    with taking(archive, Giver(shelf())) as taker:
        with (
            Staging(archive.files_folder, name=f"offer-{ID}").locked(),
            pytest.raises(StorageError, match="another process is using"),
        ):
            taker.run()
        assert taker.run() == Outcome(9, 0, 0)


#: What may happen during a move: the event, and the request or the item.
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["kill before", "kill after", "kill commit", "lose", "edit", "withdraw"]),
        st.integers(1, 9),
    ),
    max_size=6,
)


@pytest.mark.slow
@given(events=EVENTS)
def test_no_order_of_events_makes_two_originals_or_none(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, int]]
) -> None:
    languages = itertools.cycle(["fr", "es", "de", "it"])
    with open_app("sqlite", tmp_path_factory.mktemp("taker")) as app:
        archive, giver = archive_of(app), Giver(shelf())
        with taking(archive, giver) as taker:
            for event, number in events:
                with pytest.MonkeyPatch.context() as patch, suppress(Killed, OfferError):
                    if event == "lose":
                        giver.loses = {len(giver.requests) + number}
                    elif event == "edit" and number not in giver.switched and number in (7, 9):
                        giver.change(number, language=next(languages))
                    elif event == "withdraw":
                        giver.answer = refuse_all_but_switches(giver)
                    elif event == "kill commit":
                        kill_before_commit(patch, archive, number)
                    elif event.startswith("kill"):
                        kill_at_request(patch, number, event.removeprefix("kill "))
                    taker.run()
                assert_never_two_originals(archive, giver)
            with suppress(OfferError):
                taker.run()
            if "withdraw" not in dict(events):
                assert taker.run() == Outcome(9, 0, 0)
                assert len(giver.switched) == 9
        # what the giver has given up is here, in the version that it gave up
        for number in giver.switched:
            found = archive.get(rep(number))
            assert found is not None
            assert found.record.state == MOVED[rep(number)]
            assert found.record.language == giver.items[number - 1].record.language


def refuse_all_but_switches(giver: Giver) -> Any:
    """Let a giver answer as one that has withdrawn its offer, but confirm what was switched."""

    def answer(request: Any) -> Any:
        if not request.path.endswith("/switch"):
            return as_json({"detail": "the offer was withdrawn"}, 410)
        asked = {one["number"] for one in request.get_json()["items"]}
        return None if asked <= giver.switched.keys() else as_json({"detail": "withdrawn"}, 410)

    return answer


# --- changes at the giver ------------------------------------------------------------------------


@pytest.mark.rule("MV-3")
def test_an_item_that_changes_before_the_switch_is_read_again(archive: Archive) -> None:
    giver = Giver(shelf())

    def edit(request: Any) -> None:
        if request.path.endswith("/switch") and not giver.switched:
            giver.change(1, language="fr", translations={"pt": rep(2)})

    giver.answer = edit
    with taking(archive, giver) as taker:
        assert taker.run() == Outcome(9, 0, 0)
    found = archive.get(rep(1))
    assert found is not None
    assert found.record.language == "fr"


def test_an_item_that_changes_each_time_stays_at_the_giver(archive: Archive) -> None:
    giver = Giver(shelf())
    languages = iter(["fr", "es", "de", "it", "pl", "sv", "da", "fi", "nl"])

    def edit(request: Any) -> None:
        if request.path.endswith("/switch"):
            giver.change(3, language=next(languages))

    giver.answer = edit
    with taking(archive, giver) as taker:
        assert taker.run() == Outcome(8, 0, 1)
        assert list(taker.refused) == [rep(3)]
        assert 3 not in giver.switched
        giver.answer = lambda request: None
        assert taker.run() == Outcome(9, 0, 0)


def test_what_the_giver_refuses_stays_there(archive: Archive) -> None:
    with taking(archive, Giver([item(1), item(2, transferable=False)])) as taker:
        assert taker.run() == Outcome(1, 0, 1)
        assert taker.refused == {rep(2): "the giver refuses: not transferable"}


# --- what the taker refuses ----------------------------------------------------------------------

COPY_OF_THIRD = {"state": "Copy", "original_archive": "c.br/c/2003/03.03.03.03"}
REFUSED: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    "our removed Original": (
        [item(1, state="Deleted", tombstone={"reason": "x"})],
        item(1),
        "this Archive had the Original of",
    ),
    "a Copy from a third Archive": ([item(1, **COPY_OF_THIRD)], item(1), "whose Original is in"),
    "two items": (
        [item(1), item(2)],
        item(1, aliases=[rep(2)]),
        "its identifiers belong to several items",
    ),
    "our Original as an alias": ([item(2)], item(1, aliases=[rep(2)]), "this Archive has"),
    "an alias of our item": (
        [item(2, same_as=["hdl:20.500.12345/1"])],
        item(1, same_as=["https://hdl.handle.net/20.500.12345/1"]),
        "hdl:20.500.12345/1 already belongs to",
    ),
}


@pytest.mark.rule("MV-6")
@pytest.mark.parametrize("case", REFUSED)
def test_an_item_that_is_ours_is_refused(archive: Archive, case: str) -> None:
    assert_refused(archive, *REFUSED[case])


@pytest.mark.rule("MV-6")
@pytest.mark.parametrize(
    ("ours", "offered"),
    [
        (item(2), item(1, next_edition=rep(2))),
        (
            item(2, language="pt", **COPY_OF_THIRD),
            item(1, language="en", translations={"pt": rep(2)}),
        ),
    ],
)
def test_an_item_that_would_be_related_to_ours_is_refused(
    archive: Archive, ours: dict[str, Any], offered: dict[str, Any]
) -> None:
    assert_refused(archive, [ours], offered, "it would become related to")


def assert_refused(
    archive: Archive, ours: list[dict[str, Any]], offered: dict[str, Any], reason: str
) -> None:
    """Check that an offered item is refused and the next one is taken."""
    import_records(archive, ours)
    before = [one.record for one in archive.find()]
    with taking(archive, Giver([offered, item(9)])) as taker:
        assert taker.examine() == 1
        assert taker.run() == Outcome(1, 0, 1)
        assert reason in taker.refused[rep(1)]
    assert [one.record for one in archive.find() if one.record.rep != rep(9)] == before


def test_our_service_is_not_replaced(archive: Archive) -> None:
    service = archive.served().rep
    with taking(archive, Giver([item(1, rep=service)])) as taker:
        assert taker.run() == Outcome(0, 0, 1)
        assert "is the service of this Archive" in taker.refused[str(service)]


def test_a_reserved_identifier_is_not_taken(archive: Archive) -> None:
    reserved = archive.reserve()
    with taking(archive, Giver([item(1, rep=reserved.rep), item(2)])) as taker:
        assert taker.examine() == 1
        assert taker.run() == Outcome(1, 0, 1)
        assert "is reserved for a draft" in taker.refused[reserved.rep]


def test_an_identifier_that_is_offered_twice_is_refused_once(archive: Archive) -> None:
    with taking(archive, Giver([item(1), item(1)])) as taker:
        assert taker.run() == Outcome(1, 0, 1)
        assert taker.refused == {rep(1): f"{rep(1)} is already the item 1 of the offer"}


def test_a_relation_to_our_item_that_exists_already_is_kept(archive: Archive) -> None:
    import_records(archive, [item(2, language="pt", translations={"en": rep(1)})])
    offered = item(1, language="en", translations={"pt": rep(2)})
    with taking(archive, Giver([offered])) as taker:
        assert taker.run() == Outcome(1, 0, 0)
    found = archive.get(rep(1))
    assert found is not None
    assert [one.ibi for one in found.related] == [rep(2)]


def test_items_that_come_later_replace_their_stubs(archive: Archive) -> None:
    records = [item(1, next_edition=rep(2)), item(2, next_edition=rep(3)), item(3)]
    with taking(archive, Giver(records, page=1)) as taker:
        assert taker.run() == Outcome(3, 0, 0)
    found = archive.get(rep(2))
    assert found is not None
    assert found.record.next_edition == rep(3)


# --- a hostile giver -----------------------------------------------------------------------------


@pytest.mark.rule("MV-2")
def test_a_file_that_is_not_the_stated_one_is_refused(archive: Archive) -> None:
    giver = Giver([item(1, files=[FILE]), item(2)])
    right = giver.contents[1, "report.pdf"]
    with taking(archive, giver) as taker:
        for wrong, reason in (
            (b"x" * len(right), "the content is not the stated one"),
            (right + b"x", "is longer than the stated"),
            (right[:-1], "the file ends after"),
        ):
            giver.contents[1, "report.pdf"] = wrong
            assert taker.run() == Outcome(1, 0, 1)
            assert reason in taker.refused[rep(1)]
            assert archive.get(rep(1)) is None
        giver.contents[1, "report.pdf"] = right
        assert taker.run() == Outcome(2, 0, 0)


@pytest.mark.rule("MV-2")
def test_more_bytes_than_the_offer_states_are_not_stored(archive: Archive) -> None:
    giver = Giver([item(1, files=[FILE]), item(2)], stated={"bytes": 10})
    with taking(archive, giver) as taker:
        assert taker.run() == Outcome(1, 0, 1)
        assert "the offer states only 10 more" in taker.refused[rep(1)]
    assert not any("/files/" in request for request in giver.requests)


@pytest.mark.rule("MV-6")
def test_a_full_disk_is_a_reason(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    from flask_ibi_archive.archive.moving import taken_files

    with taking(archive, Giver([item(1, files=[FILE]), item(2)])) as taker:
        monkeypatch.setattr(taken_files, "count_free_bytes", lambda folder: 100)
        assert taker.run() == Outcome(1, 0, 1)
        assert "has 1000 bytes, but only 100 are free" in taker.refused[rep(1)]
        monkeypatch.undo()
        assert taker.run() == Outcome(2, 0, 0)


WRONG_ANSWERS: dict[str, tuple[Any, str]] = {
    "more items than stated": ({"stated": {"items": 1}}, "wrong numbers"),
    "another taker": ({"taker": "c.br/c/2003/03.03.03.03"}, "is an offer to c.br/c/2003"),
    "a giver that is us": ({"stated": {"giver": None}}, "is wrong"),
}


@pytest.mark.parametrize("case", WRONG_ANSWERS)
def test_an_offer_that_is_wrong_is_not_accepted(archive: Archive, case: str) -> None:
    options, reason = WRONG_ANSWERS[case]
    giver = Giver([item(1), item(2)], **options)
    with taking(archive, giver) as taker, pytest.raises(OfferError, match=reason):
        taker.run()
    assert states(archive) == {}


#: Answers with JSON that cannot be stored: the end of the path, the status, the body and the error.
HOSTILE_JSON: dict[str, tuple[str, int, bytes, str]] = {
    "half a surrogate in a problem": ("", 410, rb'{"detail": "\ud800"}', "gives no reason"),
    "a deep problem": ("", 410, b'{"detail": ' + b"[" * 200 + b"]" * 200 + b"}", "gives no reason"),
    "half a surrogate in the offer": ("", 200, rb'{"kind": "\ud800"}', "wrong: kind: .* surrogate"),
    "half a surrogate in an item": (
        "/items", 200, rb'{"number": 1, "record": {"rep": "\ud800"}}' + b"\n", "rep: .* surrogate",
    ),
    "a deep item": ("/items", 200, b"[" * 100_000 + b"\n", "nested too deeply"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE_JSON)
def test_json_that_cannot_be_stored_is_refused(archive: Archive, case: str) -> None:
    from werkzeug import Response

    end, status, body, reason = HOSTILE_JSON[case]
    giver = Giver([item(1)])
    giver.answer = lambda request: (
        Response(body, status) if request.path.endswith(end or ID) else None
    )
    with taking(archive, giver) as taker, pytest.raises(OfferError, match=reason) as error:
        taker.run()
    assert str(error.value).isprintable()


def test_an_endless_answer_is_cut(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    from werkzeug import Response

    from flask_ibi_archive.archive.moving import http_offer

    monkeypatch.setattr(http_offer, "MAX_PAGE", 1000)
    monkeypatch.setattr(http_offer, "MAX_LINE", 1000)
    giver = Giver([item(1)])
    giver.answer = lambda request: (
        Response(b" " * 10_000_000) if request.path.endswith("/items") else None
    )
    with (
        taking(archive, giver) as taker,
        pytest.raises(OfferError, match="more than 2000 bytes"),
    ):
        taker.run()


def test_redirects_are_not_followed(archive: Archive) -> None:
    from werkzeug import Response

    giver = Giver([item(1)])
    giver.answer = lambda request: Response(status=302, headers={"Location": "http://a.br/"})
    with taking(archive, giver) as taker, pytest.raises(OfferError, match="redirects"):
        taker.run()
    assert len(giver.requests) == 1


@pytest.mark.rule("MV-2")
def test_internal_addresses_are_not_asked(archive: Archive) -> None:
    from flask_ibi_archive.core.protocol.hosts import NO_INNER_HOSTS

    giver = Giver([item(1)])
    with taking(archive, giver) as taker:
        taker.inner_hosts = NO_INNER_HOSTS
        with pytest.raises(TransportError, match="internal IP address"):
            taker.run()
    assert giver.requests == []


@pytest.mark.rule("MV-2")
def test_the_secret_is_in_a_header_only(
    archive: Archive, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    import logging
    import traceback

    caplog.set_level(logging.DEBUG)
    giver = Giver(shelf(), loses={5})
    with taking(archive, giver) as taker:
        taker.run()
    assert giver.authorizations == {f"Bearer {SECRET}"}
    assert SECRET not in "".join(giver.requests)
    with pytest.raises(TransportError) as error:
        Taking(archive, taker.url).run()
    shown = "".join(traceback.format_exception(error.value)) + caplog.text
    assert SECRET not in shown
    assert error.value.__context__ is None


def test_a_line_that_cannot_be_read_is_refused_alone(archive: Archive) -> None:
    from werkzeug import Response

    giver = Giver([item(1), item(2)])

    def spoil(request: Any) -> Any:
        if not request.path.endswith("/items"):
            return None
        data = giver._answer(request).get_data()
        return Response(data.replace(b'"title":["Item 1"]', b'"titel":["Item 1"]'))

    giver.answer = spoil
    with taking(archive, giver) as taker:
        assert taker.run() == Outcome(1, 0, 1)
        assert "titel" in taker.refused[rep(1)]
