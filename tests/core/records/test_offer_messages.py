"""The messages of offers and switches: what they contain, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.vectors import load

from flask_ibi_archive.core.records.offer_messages import (
    DailyCount,
    OfferAddress,
    OfferDescription,
    StoredVersion,
    SwitchAnswer,
    SwitchRequest,
    format_answers,
    format_offer,
    format_offered,
    format_switch,
    offer_record,
    parse_address,
    parse_answers,
    parse_offer,
    parse_offered,
    parse_switch,
)
from flask_ibi_archive.core.records.record import FileRecord, Record, Tombstone
from flask_ibi_archive.core.records.values import FieldError

SECRET = "s" * 43
URL = "https://g.example/ibi/offers/0123456789abcdef"
MOMENT = datetime(2026, 12, 24, 12, tzinfo=timezone.utc)
DESCRIPTION = OfferDescription(
    offer="0123456789abcdef",
    kind="move",
    leaves="Copy",
    giver="g.inpe.br/a/2009/08.21.17.02",
    taker="t.inpe.br/a/2009/08.21.17.02",
    expires=MOMENT,
    items=3,
    bytes=12,
    files=1,
)
RECORD = Record(
    rep="g.inpe.br/a/2010/01.01.00.00",
    timestamp=MOMENT,
    files=(FileRecord("a.txt", sha256="0" * 64), FileRecord("b", url="http://example.org/b")),
)
VERSION = "1" * 64
DAY = DailyCount(date(2026, 1, 2), "Data", 3, 1, 0)


def refusal(parse: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(FieldError) as refused:
        parse(*arguments)
    return str(refused.value)


# --- the address ---------------------------------------------------------------------------------


def test_an_address_is_read_with_and_without_its_secret() -> None:
    other = "http://g.example:8080/app/ibi/offers/0123456789abcdef"
    for text, expected in (
        (f" {URL}#{SECRET}\n", OfferAddress(URL, SECRET)),
        (URL, OfferAddress(URL)),
        (f"{other}#{SECRET}", OfferAddress(other, SECRET)),
    ):
        assert parse_address(text) == expected
        assert parse_address(expected.text) == expected
        assert SECRET not in repr(expected)
        assert expected.public_id == "0123456789abcdef"


def test_another_text_is_refused_without_showing_the_secret() -> None:
    with_password = f"https://user:pw@g.example/ibi/offers/0123456789abcdef#{SECRET}"
    for text in ("", f"{URL}?a=b#{SECRET}", f"{URL}#{SECRET}s", f"{URL}##{SECRET}", with_password):
        message = refusal(parse_address, text)
        assert "sss" not in message
        assert "\n" not in message


# --- the description and the pages ---------------------------------------------------------------


def test_a_description_is_read_as_it_was_written() -> None:
    copies = replace(DESCRIPTION, kind="copy", leaves=None, bytes=0, files=0)
    for description in (DESCRIPTION, copies):
        assert parse_offer(json.loads(json.dumps(format_offer(description)))) == description


def test_a_line_is_read_as_it_was_written() -> None:
    removed = Tombstone("Retracted — zurückgezogen")
    for record, sizes in (
        (RECORD, {"a.txt": 12}),
        (replace(RECORD, key="thesis:7"), {"a.txt": 12}),
        (replace(RECORD, files=(), state="Deleted", tombstone=removed), {}),
    ):
        offered = offer_record(7, record, sizes)
        line = format_offered(offered)
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        assert parse_offered(line) == offered
        assert offered.record == replace(record, key=None)


def test_each_change_of_a_record_is_another_version() -> None:
    for changes in (
        {"language": "pt"},
        {"embargo": date(2030, 1, 1)},
        {"timestamp": MOMENT.replace(second=1)},
        {"files": (FileRecord("a.txt", sha256="1" * 64), *RECORD.files[1:])},
    ):
        changed = offer_record(1, replace(RECORD, **changes), {})
        assert changed.version != offer_record(1, RECORD, {}).version


@given(st.integers(min_value=0, max_value=200))
def test_a_line_that_was_cut_off_is_refused(length: int) -> None:
    line = format_offered(offer_record(1, RECORD, {"a.txt": 1}))
    with pytest.raises(FieldError):
        parse_offered(line[: min(length, len(line) - 1)])


# --- the switch ----------------------------------------------------------------------------------

ASKED = (StoredVersion(1, VERSION), StoredVersion(3, VERSION), StoredVersion(2, VERSION))
ANSWERS = (
    SwitchAnswer(1, "switched", counts=(DAY, DAY._replace(content_type="Metadata", accesses=-1))),
    SwitchAnswer(3, "changed"),
    SwitchAnswer(2, "refused", "the item is not transferable"),
)


def test_requests_and_answers_are_read_as_they_were_written() -> None:
    request = SwitchRequest(ASKED, "mtc-m19.sid.inpe.br:8080")
    longest = SwitchRequest(tuple(StoredVersion(n, VERSION) for n in range(1, 51)), "a.br")
    for one in (request, longest):
        assert parse_switch(json.loads(json.dumps(format_switch(one)))) == one
    assert parse_answers(json.loads(json.dumps(format_answers(ANSWERS))), ASKED) == ANSWERS


LINE = json.loads(format_offered(offer_record(1, RECORD, {"a.txt": 1})))
#: Messages that are right, with the functions that parse them.
RIGHT: dict[str, tuple[dict[str, Any], Callable[[Any], object]]] = {
    "description": (format_offer(DESCRIPTION), parse_offer),
    "line": (LINE, lambda data: parse_offered(json.dumps(data).encode() + b"\n")),
    "request": (format_switch(SwitchRequest(ASKED, "a.br")), parse_switch),
    "answer": (
        {"number": 1, "result": "switched"},
        lambda data: parse_answers({"items": [data]}, ASKED[:1]),
    ),
}


@pytest.mark.parametrize("kind", RIGHT)
def test_a_wrong_message_is_refused_by_its_field(kind: str) -> None:
    right, parse = RIGHT[kind]
    for changes, message in load("core/offer_messages.json")[kind]:
        data = {name: one for name, one in {**right, **changes}.items() if one != "..."}
        assert refusal(parse, data).startswith(message), changes
