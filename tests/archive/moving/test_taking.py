"""The taker of an offer: what it takes, what it refuses, and how it goes on."""

from __future__ import annotations

import itertools
import json
import logging
import re
import socket
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_httpserver import HTTPServer
from sqlalchemy import select
from support import operations
from support.archives import FAR_SERVICE, SERVICE, archive_of, import_records, open_app
from support.loopback import LOOPBACK
from support.moves import Killed, item, rep
from werkzeug import Request, Response

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.files import Staging
from flask_ibi_archive.archive.items.tables import AccessCount
from flask_ibi_archive.archive.moving import accepting, client
from flask_ibi_archive.archive.moving.accepting import Acceptor, Outcome
from flask_ibi_archive.archive.moving.client import OfferClient
from flask_ibi_archive.core.protocol.hosts import NO_INNER_HOSTS
from flask_ibi_archive.core.records import offer_messages as messages
from flask_ibi_archive.core.records.offer_messages import DailyCount
from flask_ibi_archive.core.records.record import parse_record
from flask_ibi_archive.errors import OfferError, StorageError, TransportError

ID, SECRET = "0123456789abcdef", "s" * 43


@dataclass
class Giver:
    """A server that offers records.

    :param records: the records as JSON objects; the files have ``content`` instead of ``sha256``.
    :param stated: values that the description of the offer states instead of the right ones.
    :ivar page: the number of items in a page.
    :ivar answer: answers a request instead of the server; None: the server answers.
    :ivar loses: the numbers of the requests whose answers are lost, from 1.
    """

    server: HTTPServer
    records: list[dict[str, Any]]
    kind: str = "move"
    stated: Mapping[str, Any] = field(default_factory=dict)
    page: int = 3

    def __post_init__(self) -> None:
        self.answer: Callable[[Request], Response | None] = lambda request: None
        self.loses: set[int] = set()
        self.counts: dict[int, tuple[messages.DailyCount, ...]] = {}
        self.requests: list[str] = []
        self.authorizations: set[str | None] = set()
        self.moved: set[int] = set()
        self.contents: dict[tuple[int, str], bytes] = {}
        self.server.clear()
        self.server.expect_request(re.compile("/.*")).respond_with_handler(self._handle)

    @property
    def items(self) -> list[messages.OfferedRecord]:
        """The items as they are offered now."""
        return [self._offer(number, data) for number, data in enumerate(self.records, 1)]

    def _offer(self, number: int, data: dict[str, Any]) -> messages.OfferedRecord:
        record = {name: value for name, value in data.items() if name != "files"}
        sizes = {}
        for file in data.get("files", []):
            path, content = file["path"], file["content"]
            self.contents.setdefault((number, path), content)
            sizes[path] = len(content)
            digest = sha256(content).hexdigest()
            record.setdefault("files", []).append({"path": path, "sha256": digest})
        return messages.offer_record(number, parse_record(record), sizes, number in self.moved)

    def _handle(self, request: Request) -> Response:
        self.requests.append(f"{request.method} {request.full_path.rstrip('?')}")
        self.authorizations.add(request.headers.get("Authorization"))
        is_lost = len(self.requests) in self.loses
        response = self.answer(request) or self.respond(request)
        if is_lost:
            request.environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return response

    def respond(self, request: Request) -> Response:
        path, items = request.path.removeprefix(f"{messages.PATH}/{ID}"), self.items
        if path == "":
            sizes = [size for item in items for size in item.sizes.values()]
            offer = messages.OfferDescription(
                *(ID, self.kind, "Copy" if self.kind == "move" else None, FAR_SERVICE, SERVICE),
                *(datetime(2999, 1, 1, tzinfo=timezone.utc), len(items), sum(sizes), len(sizes)),
            )
            return as_json({**messages.format_offer(offer), **self.stated})
        if path == "/items":
            after = int(request.args["after"])
            return Response(b"".join(map(messages.format_offered, items[after:][: self.page])))
        if path == "/switch":
            asked = messages.parse_switch(request.get_json()).items
            return as_json(messages.format_answers(map(self._switch, asked)))
        _, _, number, name = path.split("/", 3)
        content = self.contents[int(number), name]
        response = Response(content)
        return response.make_conditional(request, accept_ranges=True, complete_length=len(content))

    def _switch(self, asked: messages.StoredVersion) -> messages.SwitchAnswer:
        item = self.items[asked.number - 1]
        if not item.moved and asked.version != item.version:
            return messages.SwitchAnswer(asked.number, "changed")
        if not item.record.transferable:
            return messages.SwitchAnswer(asked.number, "refused", "not transferable")
        self.moved.add(asked.number)
        counts = self.counts.get(asked.number, ())
        return messages.SwitchAnswer(asked.number, "switched", counts=counts)


def as_json(value: Any, status: int = 200) -> Response:
    return Response(json.dumps(value), status, content_type="application/json")


@dataclass
class Taking:
    """What an Archive does with the offer of a giver.

    :ivar refused: the reasons by the identifiers of the refused items.
    :ivar waited: the seconds that it has waited before it repeated requests.
    """

    archive: Archive
    giver: Giver
    inner_hosts: Any = LOOPBACK
    refused: dict[str, str] = field(default_factory=dict)
    waited: list[float] = field(default_factory=list)

    def open(self) -> Acceptor:
        url = f"http://127.0.0.1:{self.giver.server.port}{messages.PATH}/{ID}"
        address = messages.OfferAddress(url, SECRET)
        client = OfferClient(address, "taker.example.br", self.inner_hosts, self.waited.append)
        self.refused.clear()
        context = self.archive.without_session().context
        return Acceptor(context, client, lambda done, total: None, self.refused.__setitem__)

    def run(self) -> Outcome:
        return self.open().run()


Take = Callable[..., Taking]
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


@pytest.fixture
def take(archive: Archive, httpserver: HTTPServer) -> Take:
    return lambda records, **options: Taking(archive, Giver(httpserver, records, **options))


def states(archive: Archive) -> dict[str, str]:
    return {str(one.record.rep): one.record.state for one in archive.find()}


def record_of(archive: Archive, number: int) -> Any:
    return operations.record_of(archive, rep(number))


def read_counts(archive: Archive) -> list[int]:
    with archive.database.reading() as connection:
        return list(connection.scalars(select(AccessCount.accesses)))


def test_a_copy_stays_a_copy(archive: Archive, take: Take) -> None:
    taker = take(shelf(), kind="copy")
    assert taker.run() == (9, 0)
    assert not any(request.endswith("/switch") for request in taker.giver.requests)
    copy = record_of(archive, 1)
    assert (copy.state, copy.original_archive) == ("Copy", FAR_SERVICE)
    assert record_of(archive, 6).tombstone.original_archive == FAR_SERVICE


# --- killed, and lost answers ---------------------------------------------------------------------

#: The requests of the move of the shelf: the offer, then for each page the page, files and switch.
STEPS = 10


def kill(patch: pytest.MonkeyPatch, archive: Archive, step: int, when: str) -> None:
    """Kill the taker before or after the request with a number, or before a commit."""
    dialect = archive.database.engine.dialect
    owner, name = (dialect, "do_commit") if when == "commit" else (client, "fetch")
    act, count = getattr(owner, name), itertools.count(1)

    def acting(*args: Any, **options: Any) -> Any:
        number = next(count)
        if number == step and when != "after":
            raise Killed
        result = act(*args, **options)
        if number == step:
            raise Killed
        return result

    patch.setattr(owner, name, acting)


def assert_never_two_originals(taker: Taking) -> None:
    for offered in taker.giver.items:
        view = taker.archive.get(rep(offered.number))
        if view is not None and view.record.state == "Original":
            assert offered.number in taker.giver.moved


@pytest.mark.rule("MV-5")
@pytest.mark.parametrize("when", ["before", "after", "commit"])
def test_a_taker_that_is_killed_at_each_step_in_turn_goes_on(
    archive: Archive, take: Take, when: str
) -> None:
    taker = take(shelf())
    taker.giver.counts[1] = (DailyCount(date(2020, 1, 1), "Data", 7, 1, 2),)
    for step in itertools.count(1):
        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            kill(patch, archive, step, when)
            taker.run()
            break
        assert_never_two_originals(taker)
    assert step > 4
    for _ in range(2):
        assert taker.run() == (9, 0)
        assert len(taker.giver.moved) == 9
        assert states(archive) == MOVED
        assert read_counts(archive) == [7]
        assert not list(archive.files_folder.folder.glob(".new-*/*"))


@pytest.mark.rule("MV-3")
def test_answers_that_are_lost_are_repeated(take: Take) -> None:
    taker = take(shelf())
    taker.giver.loses = set(range(1, 2 * STEPS, 2))  # each question is asked twice
    assert taker.run() == (9, 0)
    assert taker.giver.requests[::2] == taker.giver.requests[1::2]
    assert len(taker.giver.requests) == 2 * STEPS


def test_a_giver_that_is_lost_is_asked_five_times(take: Take) -> None:
    taker = take(shelf())
    taker.giver.loses = set(range(4, 100))
    with pytest.raises(TransportError, match="closed the connection"):
        taker.run()
    assert taker.waited[-4:] == [1, 2, 4, 8]
    taker.giver.loses = set()
    taker.giver.answer = lambda request: Response(status=503)
    with pytest.raises(OfferError, match="status 503"):
        taker.run()
    assert taker.waited[-4:] == [1, 2, 4, 8]


class KillingList(list[float]):
    """A list of waits in which no wait ends."""

    def append(self, seconds: float) -> None:
        raise Killed


@pytest.mark.rule("MV-2")
@pytest.mark.parametrize("case", ["cut off", "killed", "range ignored"])
def test_the_rest_of_a_file_is_read_by_range(take: Take, case: str) -> None:
    content = bytes(range(256)) * 4096
    taker = take([item(1, files=[{"path": "big", "content": content}])])
    begins = []

    def cut(request: Request) -> Response | None:
        if "/files/" not in request.path:
            return None
        begins.append(int(request.headers["Range"].removeprefix("bytes=").rstrip("-")))
        if case == "range ignored" and begins[-1]:
            return Response(content)
        rest = content[begins[-1] :]
        response = Response(rest[:300_000], 206)
        response.headers["Content-Length"] = str(len(rest))
        return response

    taker.giver.answer = cut
    if case == "killed":
        with pytest.raises(Killed):
            Taking(taker.archive, taker.giver, waited=KillingList()).run()
    assert taker.run() == (1, 0)
    assert (begins[0], begins == sorted(set(begins))) == (0, True)
    assert len(begins) == (2 if case == "range ignored" else 4)


def test_an_offer_is_accepted_by_one_process_at_a_time(archive: Archive, take: Take) -> None:
    taker = take(shelf())
    with (
        Staging(archive.files_folder, name=f"offer-{ID}").locked(),
        pytest.raises(StorageError, match="another process is using"),
    ):
        taker.run()
    assert taker.run() == (9, 0)


#: What may happen during a move: the event, and the request or the item.
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["kill before", "kill after", "kill commit", "lose", "edit"]),
        st.integers(1, 9),
    ),
    max_size=6,
)


@pytest.mark.slow
@given(events=EVENTS)
def test_no_order_of_events_makes_two_originals_or_none(
    tmp_path_factory: pytest.TempPathFactory,
    httpserver: HTTPServer,
    events: list[tuple[str, int]],
) -> None:
    languages = itertools.cycle(["fr", "es", "de", "it"])
    with open_app("sqlite", tmp_path_factory.mktemp("taker")) as app:
        archive = archive_of(app)
        giver = Giver(httpserver, shelf())
        taker = Taking(archive, giver)
        for event, number in events:
            with pytest.MonkeyPatch.context() as patch, suppress(Killed, OfferError):
                if event == "lose":
                    giver.loses = {len(giver.requests) + number}
                elif event == "edit" and number not in giver.moved and number in (7, 9):
                    giver.records[number - 1]["language"] = next(languages)
                elif event.startswith("kill"):
                    kill(patch, archive, number, event.removeprefix("kill "))
                taker.run()
            assert_never_two_originals(taker)
        for _ in range(2):
            assert taker.run() == (9, 0)
        assert states(archive) == MOVED
        for offered in giver.items:  # each in the version that the giver gave up
            assert record_of(archive, offered.number).language == offered.record.language


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.rule("MV-3")
def test_an_item_that_changes_or_is_refused_stays_at_the_giver(
    archive: Archive, take: Take
) -> None:
    taker = take([*shelf(), item(10, transferable=False)])

    def edit(request: Request) -> None:
        if request.path.endswith("/switch") and not taker.giver.moved:
            taker.giver.records[0] |= {"language": "fr"}

    taker.giver.answer = edit
    assert taker.run() == (8, 2)
    refusal = "the giver refuses: not transferable"
    assert taker.refused == {rep(1): accepting.CHANGED, rep(10): refusal}
    assert taker.giver.moved.isdisjoint({1, 10})
    assert taker.run() == (9, 1)
    assert record_of(archive, 1).language == "fr"


COPY_OF_THIRD = {"state": "Copy", "original_archive": "c.br/c/2003/03.03.03.03"}


@pytest.mark.rule("MV-6")
def test_items_that_are_ours_are_refused_with_the_reasons(archive: Archive, take: Take) -> None:
    reserved = archive.reserve().rep
    service = str(archive.served().rep)
    import_records(
        archive,
        [
            item(1, state="Deleted", tombstone={"reason": "x"}),
            item(2, **COPY_OF_THIRD),
            item(3),
            item(4),
            item(5, same_as=["hdl:20.500.12345/1"]),
            item(6, language="pt", **COPY_OF_THIRD),
        ],
    )
    before = [one.record for one in archive.find()]
    expected = {
        rep(1): "this Archive had the Original of",
        rep(2): f"the Original of {rep(2)} is in c.br/c/2003/03.03.03.03",
        rep(13): "its identifiers belong to several items",
        rep(14): f"this Archive has the Original of {rep(4)}",
        rep(15): "already has one of the aliases",
        rep(16): f"it would become related to {rep(6)}",
        rep(17): f"it would become related to {rep(3)}",
        service: "is the service of this Archive",
        reserved: "is reserved for a draft",
    }
    taker = take(
        [
            item(1),
            item(2),
            item(13, aliases=[rep(3), rep(4)]),
            item(14, aliases=[rep(4)]),
            item(15, same_as=["https://hdl.handle.net/20.500.12345/1"]),
            item(16, language="en", translations={"pt": rep(6)}),
            item(17, next_edition=rep(3)),
            item(18, rep=service),
            item(19, rep=reserved),
            item(20),
        ],
        page=4,
    )
    for accept, done in ((lambda: taker.open().examine(), []), (taker.run, [rep(20)])):
        assert accept() == (1, 9)
        assert taker.refused.keys() == expected.keys()
        for ibi, reason in expected.items():
            assert reason in taker.refused[ibi]
        records = [one.record for one in archive.find()]
        assert [one for one in records if one.rep not in done] == before
        assert states(archive).keys() >= set(done)


def test_an_item_that_is_offered_twice_becomes_one_original(archive: Archive, take: Take) -> None:
    import_records(archive, [item(2, language="pt", translations={"en": rep(1)})])
    twice = item(1, language="en", translations={"pt": rep(2)})  # a relation that exists already
    assert take([twice, twice]).run() == (1, 1)
    assert states(archive) == {rep(1): "Original", rep(2): "Original"}
    assert record_of(archive, 1).translations or record_of(archive, 2).translations


def test_items_of_one_giver_may_be_related_in_any_order(archive: Archive, take: Take) -> None:
    earlier = item(3, next_edition=rep(2), files=[FILE])
    taker = take([item(2, next_edition=rep(1)), item(1), earlier], page=1)
    taker.giver.contents[3, FILE["path"]] = b""
    assert taker.run() == (2, 1)
    taker.giver.contents[3, FILE["path"]] = FILE["content"]
    assert taker.run() == (3, 0)  # it becomes related to an Original, which came from the giver
    assert [record_of(archive, n).next_edition for n in (1, 2, 3)] == [None, rep(1), rep(2)]


# --- a hostile giver -----------------------------------------------------------------------------


@pytest.mark.rule("MV-2", "MV-6")
def test_files_that_are_not_the_stated_ones_are_refused(
    archive: Archive, take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    taker = take([item(1, files=[FILE]), item(2)])
    giver, right = taker.giver, FILE["content"]
    for content, stated, free, reason in (
        (b"x" * len(right), {}, 10**9, "the content is not the stated one"),
        (right + b"x", {}, 10**9, "is longer than the stated"),
        (right[:-1], {}, 10**9, "the file ends after"),
        (right, {}, 100, "has 1000 bytes, but only 100 are free"),
        (right, {"bytes": 10}, 10**9, "the offer states only 10 more"),
    ):
        giver.contents[1, FILE["path"]], giver.stated = content, stated
        with monkeypatch.context() as patch:
            patch.setattr(accepting, "count_free_bytes", lambda store, free=free: free)
            assert taker.run() == (1, 1)
        assert reason in taker.refused[rep(1)]
        assert archive.get(rep(1)) is None
    giver.stated = {}
    giver.answer = lambda request: Response(status=404) if "/files/" in request.path else None
    assert taker.run() == (1, 1)
    assert "the giver has no such file any more" in taker.refused[rep(1)]
    giver.answer = lambda request: None
    assert taker.run() == (2, 0)


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ({"items": 1}, "wrong numbers"),
        ({"items": 3}, "has sent 2 of 3 items only"),
        ({"taker": "c.br/c/2003/03.03.03.03"}, "is an offer to c.br/c/2003"),
        ({"giver": None}, "is wrong"),
    ],
)
def test_an_offer_that_is_wrong_is_not_accepted(
    take: Take, stated: dict[str, Any], reason: str
) -> None:
    with pytest.raises(OfferError, match=reason):
        take([item(1), item(2)], stated=stated).run()


#: Answers that cannot be stored: the end of the path, the status, the body and the error.
HOSTILE = (
    ("", 410, rb'{"detail": "\ud800"}', "gives no reason"),
    ("", 410, b'{"detail": ' + b"[" * 200 + b"]" * 200 + b"}", "gives no reason"),
    ("", 200, rb'{"kind": "\ud800"}', "wrong: kind: .* surrogate"),
    ("", 302, b"", "redirects"),
    ("/items", 200, rb'{"number": 1, "record": {"rep": "\ud800"}}' + b"\n", "rep: .* surrogate"),
    ("/items", 200, b"[" * 100_000 + b"\n", "nested too deeply"),
    ("/items", 200, b" " * 200_001, "more than 200000 bytes"),
)


def test_answers_that_cannot_be_stored_are_refused(
    take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_ANSWER", 200_000)
    taker = take([item(1)])
    for end, status, body, reason in HOSTILE:
        taker.giver.answer = lambda request, end=end, answer=(body, status): (
            Response(*answer, headers={"Location": "http://a.br/"})
            if request.path.endswith(end or ID)
            else None
        )
        with pytest.raises(OfferError, match=reason) as error:
            taker.run()
        assert str(error.value).isprintable()


@pytest.mark.rule("MV-2")
def test_internal_addresses_are_not_asked(take: Take) -> None:
    taker = take([item(1)])
    taker.inner_hosts = NO_INNER_HOSTS
    with pytest.raises(TransportError, match="which IBI_INNER_HOSTS does not"):
        taker.run()
    assert taker.giver.requests == []


@pytest.mark.rule("MV-2")
def test_the_secret_is_in_a_header_only(take: Take, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    taker = take(shelf())
    taker.giver.loses = {5}
    taker.run()
    assert taker.giver.authorizations == {f"Bearer {SECRET}"}
    assert SECRET not in "".join(taker.giver.requests)
    taker.giver.loses = set(range(100))
    with pytest.raises(TransportError) as error:
        taker.run()
    shown = "".join(traceback.format_exception(error.value)) + caplog.text
    assert SECRET not in shown
    assert error.value.__context__ is None


def test_a_line_that_cannot_be_read_is_refused_alone(take: Take) -> None:
    taker = take([item(1), item(2)])

    def spoil(request: Request) -> Response | None:
        if not request.path.endswith("/items"):
            return None
        data = taker.giver.respond(request).get_data()
        return Response(data.replace(b'"title":["Item 1"]', b'"titel":["Item 1"]'))

    taker.giver.answer = spoil
    assert taker.run() == (1, 1)
    assert "titel" in taker.refused[rep(1)]
