"""Tests the parsing and formatting of records; a wrong value is refused with its field."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.metadata import descriptions
from support.stores import FORMATS, ibip_of, rep_of

from flask_ibi_archive.core.records.record import (
    ELEMENTS,
    FIELDS,
    AccessRule,
    DublinCoreMetadata,
    Record,
    Tombstone,
    format_line,
    format_record,
    parse_record,
    read_json,
)
from flask_ibi_archive.core.records.values import FieldError

A, B = rep_of(0), rep_of(1)

numbers = st.integers(0, 1000)
reps = numbers.map(rep_of)
ibips = numbers.map(ibip_of)
legacies = numbers.map(lambda number: f"aBZc/{number}")
identifiers = st.one_of(reps, ibips, legacies)
moments = st.datetimes(datetime(1, 1, 1)).map(
    lambda moment: moment.replace(microsecond=0).isoformat() + "Z"
)
texts = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), min_size=1
)
segments = texts.map(lambda text: text.replace("/", "_")).filter(
    lambda text: text not in (".", "..")
)
paths = st.lists(segments, min_size=1, max_size=3).map("/".join)
urls = st.text("abcXYZ019-._~%/?=&é日", max_size=20).map(lambda rest: f"https://a.example/{rest}")
formats = st.dictionaries(st.sampled_from(FORMATS), urls, max_size=3)
checksums = st.integers(0, 2**256 - 1).map(lambda number: f"{number:064x}")
values = st.one_of(
    texts, st.fixed_dictionaries({"value": texts}, optional={"lang": st.just("pt-BR")})
)
dublin_core = st.dictionaries(
    st.sampled_from(ELEMENTS), st.lists(values, min_size=1, max_size=3), min_size=1
)
metadata = (
    st.fixed_dictionaries({"ibi": st.just("farZ/1")})
    | st.fixed_dictionaries({"dc": dublin_core})
    | st.fixed_dictionaries({"work": descriptions})
    | st.fixed_dictionaries({"url": urls}, optional={"formats": formats, "timestamp": moments})
)
files = st.lists(
    st.fixed_dictionaries({"path": paths}, optional={"url": urls, "sha256": checksums})
    | st.fixed_dictionaries({"path": paths}, optional={"source": texts, "sha256": checksums}),
    max_size=4,
    unique_by=lambda file: file["path"],
)
access = st.fixed_dictionaries(
    {"networks": st.lists(st.sampled_from(["10.0.0.0/8", "::1/128", "192.0.2.7"]), min_size=1)},
    optional={"others": st.sampled_from(["metadata", "none"])},
)
#: The fields that do not depend on others.
fields = st.fixed_dictionaries(
    {"rep": st.just(A)},
    optional={
        "ibip": ibips,
        "aliases": st.lists(legacies, max_size=3, unique=True),
        "same_as": st.lists(numbers.map("hdl:20.500.12345/{}".format), unique=True),
        "timestamp": moments,
        "transferable": st.booleans(),
        "language": st.just("pt"),
        "translations": st.sampled_from([{}, {"en": "otherZ/1", "es": "otherZ/2"}]),
        "next_edition": numbers.map("nextZ/{}".format),
        "metadata": metadata,
        "files": files,
        "list_files": st.booleans(),
        "access": access,
    },
)
#: The fields that a state and a kind of content require or allow.
states = (
    st.just({})
    | st.fixed_dictionaries({"state": st.just("Original"), "embargo": st.dates().map(str)})
    | st.fixed_dictionaries({"state": st.just("Copy"), "original_archive": reps})
    | st.fixed_dictionaries({"state": st.just("Deleted"), "timestamp": moments})
)
kinds = st.sampled_from([{}, {"content_type": "Data"}]) | st.fixed_dictionaries(
    {"content_type": st.just("Metadata"), "formats": formats}
)
#: JSON objects that are records, with or without the fields with default values.
records = st.builds(lambda *parts: {**parts[0], **parts[1], **parts[2]}, fields, states, kinds)


@given(records)
def test_a_written_record_is_read_as_the_same_record(data: dict[str, Any]) -> None:
    record = parse_record(data)
    written = format_record(record)
    assert [*written] == [name for name in FIELDS if name in written], "in the order of the fields"
    assert parse_record(written) == record
    assert format_record(parse_record(written)) == written
    line = format_line(record)
    assert "\n" not in line
    for text in (line, line.encode(), json.dumps(data)):
        assert parse_record(read_json(text)) == record


json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(), identifiers, moments
    ),
    lambda inside: st.one_of(
        st.lists(inside, max_size=3),
        st.dictionaries(
            st.one_of(
                st.text(), st.sampled_from(["ibi", "dc", "url", "path", "networks", "value", "pt"])
            ),
            inside,
            max_size=3,
        ),
    ),
    max_leaves=8,
)


def check_refusal(read: Callable[[], object]) -> None:
    """Parse a value; the message of a FieldError and the name of its field must be one line."""
    try:
        read()
    except FieldError as error:
        refused = error
    else:
        return
    assert refused.reason
    for text in (str(refused), refused.field, refused.reason):
        assert text.isprintable(), text


@given(st.sampled_from(FIELDS), json_values)
def test_any_value_is_accepted_or_refused_in_one_line(field: str, value: Any) -> None:
    check_refusal(lambda: parse_record(value))
    check_refusal(lambda: parse_record({"rep": A, field: value}))
    check_refusal(lambda: parse_record(format_record(Record(**{"rep": A, field: value}))))


@given(st.binary(), numbers)
def test_a_record_with_random_bytes_is_accepted_or_refused_in_one_line(
    noise: bytes, place: int
) -> None:
    line = json.dumps({"rep": A, "metadata": {"dc": {"title": ["x"]}}}).encode()
    place %= len(line)
    check_refusal(lambda: parse_record(read_json(line[:place] + noise + line[place:])))


# --- defaults ------------------------------------------------------------------------------------


def test_a_record_with_only_an_identifier_has_the_documented_defaults() -> None:
    record = parse_record({"rep": A})
    assert (record.state, record.content_type) == ("Original", "Data")
    assert (record.transferable, record.list_files) == (True, True)
    assert (record.timestamp, record.language, record.access, record.metadata) == (None,) * 4
    assert record.target_path is None
    assert format_record(record) == {"rep": A}
    networks = {"networks": ["150.163.0.0/16"]}
    assert parse_record({"rep": A, "access": networks}).access == AccessRule(("150.163.0.0/16",))
    files: dict[str, Any] = {"rep": A, "files": [{"path": "a"}, {"path": "b"}]}
    assert parse_record(files).target_path == "a"
    assert parse_record({**files, "target_file": "b"}).target_path == "b"


@pytest.mark.rule("R72-15")
def test_a_time_is_in_utc() -> None:
    record = parse_record({"rep": A, "timestamp": "2009-07-21T13:23:45Z"})
    assert record.timestamp == datetime(2009, 7, 21, 13, 23, 45, tzinfo=timezone.utc)


# --- records of a host application -------------------------------------------------------------


def with_title(*values: Any) -> dict[str, Any]:
    return {"metadata": {"dc": {"title": list(values)}}}


def test_similar_types_are_accepted() -> None:
    moment = datetime(2009, 7, 21, 10, 23, 45, tzinfo=timezone(timedelta(hours=-3)))
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"metadata": DublinCoreMetadata({"title": "x"})}, with_title("x")),  # type: ignore[dict-item]
        (
            {"metadata": {"dc": {"title": [("x", "en"), "y", ("z", None)]}}},
            with_title({"value": "x", "lang": "en"}, "y", "z"),
        ),
        ({"aliases": "farZ/1"}, {"aliases": ["farZ/1"]}),
        ({"access": AccessRule("10.0.0.0/8")}, {"access": {"networks": ["10.0.0.0/8"]}}),  # type: ignore[arg-type]
        ({"timestamp": moment}, {"timestamp": "2009-07-21T13:23:45Z"}),
    ]
    for fields, meant in cases:
        record = parse_record(format_record(Record(rep=A, **fields)))
        assert record == parse_record({"rep": A, **meant})


def test_any_other_form_is_refused_by_the_name_of_its_field() -> None:
    for field, value, name in (
        ("metadata", DublinCoreMetadata("x"), "metadata.dc"),  # type: ignore[arg-type]
        ("metadata", {"dc": {"titel": ["x"]}}, "metadata.dc.titel"),
        ("aliases", {"farZ/1"}, "aliases"),
        ("timestamp", datetime(2009, 7, 21), "timestamp"),
        ("transferable", "no", "transferable"),
    ):
        with pytest.raises(FieldError) as refused:
            parse_record(format_record(Record(**{"rep": A, field: value})))  # type: ignore[arg-type]
        assert refused.value.field == name
        assert "\n" not in str(refused.value)


# --- tombstones ----------------------------------------------------------------------------------

DELETED = {"rep": A, "state": "Deleted", "timestamp": "2009-07-21T13:23:45Z"}


def test_a_tombstone_is_written_as_it_was_read() -> None:
    for optional in ({}, {"citation": "Banon, G.", "successor": B}, {"original_archive": B}):
        stated = {"reason": "a mistake", **optional}
        record = parse_record({**DELETED, "tombstone": stated})
        assert record.tombstone == Tombstone(**stated)
        assert format_record(record) == {**DELETED, "tombstone": stated}
    capitals = parse_record({**DELETED, "tombstone": {"reason": "x", "successor": B.upper()}})
    assert capitals.tombstone == Tombstone("x", None, B)
