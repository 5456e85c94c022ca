"""Offers are made, listed and withdrawn; who has the secret reads the offered items alone."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import date, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from support.archives import FAR_SERVICE, SERVICE, archive_of, import_records
from support.operations import record_of

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.moving.offers import Offer
from flask_ibi_archive.core.records import offer_messages as messages
from flask_ibi_archive.core.records.record import AccessRule, MetadataItem

from .conftest import Taker, deposit

Run = Callable[..., Any]
Make = Callable[..., Taker]


# --- the commands --------------------------------------------------------------------------------


@pytest.mark.rule("MV-1")
def test_the_address_is_printed_once_and_the_secret_is_stored_as_a_hash(
    archive: Archive, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    item = deposit(archive, "On rain", "a.txt")
    tombstone = run("offer", item, "--to", FAR_SERVICE, "--leave", "tombstone")
    made = run("offer", item, "--to", FAR_SERVICE)
    warning = "the other Archive has the only Original"
    assert (warning in tombstone.stderr, warning in made.stderr) == (True, False)
    address = made.stdout.strip()
    base, _, secret = address.partition("#")
    assert base.startswith("http://mtc-m16c.sid.inpe.br/ibi/offers/")
    assert len(secret) == 43
    assert f"offer {base[-16:]}: 1 items (5 bytes) to {FAR_SERVICE}" in made.stderr
    with archive.database.reading() as connection:
        rows = " ".join(str(row) for row in connection.execute(select(Offer.__table__)))
    shown = rows + made.stderr + caplog.text + run("offers", "--json").output
    assert secret not in shown
    assert base[-16:] in shown


def test_offers_are_listed_with_their_progress(
    archive: Archive, run: Run, offer: Make, clock: list[datetime]
) -> None:
    items = [deposit(archive, "On rain") for _ in range(3)]
    taker = offer(*items[:2])
    copies = offer(items[2], "--as", "copy", "--expires", "1d")
    gone = offer(items[2], "--leave", "tombstone")
    assert run("offers", "withdraw", gone.address.public_id).exit_code == 0
    taker.switch(taker.read()[:1])
    assert copies.read()[0].record.rep == items[2]
    clock[0] += timedelta(days=2)
    for ended in (copies, gone):
        assert ended().status_code == ended("/items").status_code == 410
    listed = json.loads(run("offers", "--json").stdout)
    assert [(row["kind"], row["items"], row["moved"], row["status"]) for row in listed] == [
        ("move", 2, 1, "open"),
        ("copy", 1, 0, "expired"),
        ("move", 1, 0, "withdrawn"),
    ]
    taker.switch(taker.read()[1:])
    assert "\tdone\n" in run("offers").stdout


@pytest.mark.rule("MV-1")
def test_items_are_chosen_by_name_a_list_or_all(
    archive: Archive, run: Run, tmp_path: Path, offer: Make
) -> None:
    rain, snow = deposit(archive, "On rain"), deposit(archive, "On snow")
    fixed = deposit(archive, "On fixed rain", transferable=False)
    listed = tmp_path / "list.txt"
    listed.write_text(f"{snow}\n\nhttp://urlib.net/{rain.upper()}\n")
    for arguments, expected in (
        (("--all", "--as", "copy"), {rain, snow, fixed}),
        (("--file", str(listed), "--as", "copy"), {rain, snow}),
        ((rain,), {rain}),
        (("--all",), {rain, snow}),
    ):
        records = [item.record for item in offer(*arguments).read()]
        assert {record.rep for record in records} == expected, arguments
    for item in (rain, snow):
        archive.edit(item, transferable=False)
    again = run("offer", "--all", "--to", FAR_SERVICE)
    assert "Error: there are no items that can be offered" in again.stderr


WRONG_CHOICES: list[tuple[tuple[str, ...], str]] = [
    ((), "choose the items with one of: IBI..., --all, --file"),
    (("--all", "--file", "-"), "choose the items with one of: "),
    (("--all", "--expires", "soon"), "'soon' is not a period such as 90d, 12w, 6m or 1y\n"),
    (("--all", "--expires", "never"), "'never' is not a period"),
    (("--file", "/nowhere"), "/nowhere can't be read: No such file or directory"),
    (("8JMKD3MGP8W/35MME4E",), "no item of this Archive has the identifier 8JMKD3MGP8W/"),
    ((SERVICE,), f"{SERVICE} can't be offered: it is the service of the Archive"),
]


def test_a_wrong_choice_is_refused_in_one_line(run: Run) -> None:
    for arguments, message in WRONG_CHOICES:
        refused = run("offer", *arguments, "--to", FAR_SERVICE)
        assert refused.exit_code in (1, 2)
        assert message in refused.stderr
        assert refused.stdout == ""


def test_items_that_cannot_be_offered_are_refused_by_name(
    archive: Archive, run: Run, offer: Make
) -> None:
    fixed = deposit(archive, "fixed", transferable=False)
    removed = deposit(archive, "removed")
    archive.delete(removed, "a mistake")
    copy = {"rep": "far.inpe.br/a/2010/01.01.00.00", "state": "Copy"}
    import_records(archive, [{**copy, "original_archive": FAR_SERVICE}])
    for arguments, reason in (
        ((fixed,), f"{fixed} can't be offered: it is not transferable; set its field "),
        ((copy["rep"],), "it is a Copy; the Archive that has the Original can offer it"),
        ((removed, "--as", "copy"), "it is deleted, and a deleted item can only be moved"),
    ):
        refused = run("offer", *arguments, "--to", FAR_SERVICE)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert reason in refused.stderr
    assert len(offer(removed).read()) == 1
    same = run("offer", removed, "--to", SERVICE)
    assert f"the Archive {SERVICE} is in this database; use flask ibi transfer" in same.stderr


@pytest.mark.rule("MV-5")
def test_an_offer_is_withdrawn_only_while_no_item_was_moved(
    archive: Archive, run: Run, offer: Make
) -> None:
    taker = offer(deposit(archive, "a"), deposit(archive, "b"))
    name = taker.address.public_id
    taker.switch(taker.read()[:1])
    refused = run("offers", "withdraw", name)
    assert refused.exit_code == 1
    assert f"1 of the 2 items of the offer {name} were moved already; to get them back, " in (
        refused.stderr
    )
    assert f"flask ibi offer --file LIST --to {SERVICE}" in refused.stderr
    unknown = run("offers", "withdraw", "0" * 16)
    assert "this Archive has made no offer 0000000000000000; flask ibi offers" in unknown.stderr


def test_the_metadata_item_of_an_item_is_offered_with_it(archive: Archive, offer: Make) -> None:
    metadata = deposit(archive, "About rain", content_type="Metadata")
    items = [archive.deposit(metadata=MetadataItem(metadata)).rep for _ in range(2)]
    # a tombstone of the metadata item would leave the other item without its description
    assert len(offer(items[0], "--leave", "tombstone", "--expires", "1d").read()) == 1
    moved = offer(items[1]).read()
    assert [item.record.rep for item in moved] == [metadata, items[1]]


# --- reading -------------------------------------------------------------------------------------


def test_a_page_has_what_belongs_to_the_items(archive: Archive, offer: Make) -> None:
    rule = AccessRule(("150.163.0.0/16",), "none")
    first = deposit(
        archive, "On rain", "a.txt", language="en", access=rule, embargo="2030-01-01", key="a:1"
    )
    second = archive.add_translation(first, title="Da chuva", language="pt").rep
    third = archive.new_edition(first, title="On rain, again").rep
    removed = deposit(archive, "On snow")
    archive.delete(removed, "a mistake", successor=first)
    taker = offer(first, second, third, removed, "--leave", "tombstone")
    archive.edit(first, add_files=[("more.txt", BytesIO(b"more"))])
    answer = taker()
    assert answer.headers["Cache-Control"] == "no-store"
    found = messages.parse_offer(answer.json)
    assert (found.giver, found.taker) == (SERVICE, FAR_SERVICE)
    assert (found.kind, found.leaves, found.items) == ("move", "Deleted", 4)
    assert (found.files, found.bytes) == (2, 9)
    one, two, three, four = taker.read()
    assert [item.number for item in (one, two, three, four)] == [1, 2, 3, 4]
    assert (one.record.translations, one.record.next_edition) == ({"pt": second}, third)
    assert (one.record.access, one.record.embargo) == (rule, date(2030, 1, 1))
    assert (one.record.key, one.sizes) == (None, {"a.txt": 5, "more.txt": 4})
    assert (two.record.translations, three.record.rep) == ({"en": first}, third)
    assert (four.record.state, four.record.tombstone.successor) == ("Deleted", first)


def test_pages_follow_each_other_until_they_are_empty(
    archive: Archive, offer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "MAX_ITEMS", 3)
    items = [deposit(archive, f"item {number}") for number in range(7)]
    taker = offer("--all")
    found, after, sizes = [], 0, []
    while page := taker.read(after):
        found += [item.record.rep for item in page]
        after = page[-1].number
        sizes.append(len(page))
    assert (found, sizes) == (items, [3, 3, 1])
    monkeypatch.setattr(messages, "MAX_PAGE", 700)
    assert len(taker.read()) in (1, 2)
    monkeypatch.setattr(messages, "MAX_LINE", 10)  # items that the taker could not read
    assert taker.read() == []


def test_files_of_offered_items_alone_are_sent_in_ranges(archive: Archive, offer: Make) -> None:
    deposit(archive, "On snow", "secret.txt")
    closed = deposit(archive, "On rain", "a b/é.txt", embargo="2999-01-01")
    taker = offer(closed)
    other = offer(deposit(archive, "On hail", "b.txt"))
    whole = taker("/files/1/a%20b/%C3%A9.txt")
    assert (whole.status_code, whole.data) == (200, "a b/é.txt".encode())
    assert whole.headers["Cache-Control"] == "no-store"
    part = taker("/files/1/a%20b/%C3%A9.txt", headers={"Range": "bytes=4-"})
    assert (part.status_code, part.data) == (206, "é.txt".encode())
    assert part.headers["Content-Range"] == "bytes 4-9/10"
    assert part.headers["ETag"] == f'"{record_of(archive, closed).files[0].sha256}"'
    assert archive.statistics().downloads == 0  # what the taker reads is not counted
    for path in (
        *("1/secret.txt", "2/secret.txt", "1/b.txt", "1/../../../../etc/passwd"),
        *("1/%2e%2e/a.txt", f"{2**31}/a.txt", f"{10**22}/a.txt"),
    ):
        assert taker(f"/files/{path}").status_code == 404, path
    assert Taker(taker.client, taker.address.text, other.secret)("").status_code == 401


# --- wrong requests ------------------------------------------------------------------------------

WRONG_REQUESTS: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("GET", "/items?after=-1", {}, 422, "'-1' is not a whole number"),
    ("GET", f"/items?after={2**31}", {}, 422, "'2147483648' is not a whole number"),
    ("GET", "/switch", {}, 405, "the method GET is not allowed; use POST"),
    ("POST", "", {"json": {}}, 405, "the method POST is not allowed; use GET"),
    ("POST", "/switch", {"json": {"items": [1], "address": "a.br"}}, 422, "1 is not an object"),
    ("POST", "/switch", {"json": "x" * (1 << 20)}, 413, "the body is longer than 1048576 bytes"),
]


def test_a_wrong_request_is_answered_with_a_problem(archive: Archive, offer: Make) -> None:
    taker = offer(deposit(archive, "On rain"))
    for method, path, options, status, detail in WRONG_REQUESTS:
        answer = taker(path, method, **options)
        assert answer.status_code == status, (path, answer.text)
        assert answer.mimetype == "application/problem+json"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.json["detail"].startswith(detail), (path, answer.text)


@pytest.mark.rule("MV-1")
def test_a_wrong_secret_and_an_unknown_offer_have_the_same_answer(
    archive: Archive, offer: Make
) -> None:
    taker = offer(deposit(archive, "On rain", "a.txt"))
    answers = [
        taker.client.open(
            f"/ibi/offers/{name}{path}",
            method="POST" if path == "/switch" else "GET",
            headers={"Authorization": authorization},
        )
        for authorization in ("", "Bearer ", "Basic abc", f"Bearer {'s' * 43}", "Bearer é")
        for path in ("", "/items", "/files/1/a.txt", "/switch")
        for name in (taker.address.public_id, "0" * 16, "x")
    ]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.data for answer in answers}) == 1
    assert {answer.headers["WWW-Authenticate"] for answer in answers} == {'Bearer realm="offers"'}


def test_other_archives_of_the_database_do_not_know_the_offer(
    offer: Make, archive: Archive, new_app: Callable[..., Flask]
) -> None:
    taker = offer(deposit(archive, "On rain"))
    other = new_app(IBI_ARCHIVE_SERVICE_IBI="dpi.inpe.br/banon/1999/01.09.22.14")
    for prepare, status in ((lambda: None, 503), (archive_of(other).init, 401)):
        prepare()
        answer = Taker(other.test_client(), taker.address.text)()
        assert (answer.status_code, answer.mimetype) == (status, "application/problem+json")
