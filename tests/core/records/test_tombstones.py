"""Tests the tombstone of a record."""

from __future__ import annotations

from typing import Any

import pytest
from support.cases import for_each

from flask_ibi_archive.core.records.lines import format_record, parse_record
from flask_ibi_archive.core.records.record import Tombstone
from flask_ibi_archive.core.records.values import FieldError

REP = "a.br/x/2000/01.01.00.00"
DELETED = {"rep": REP, "state": "Deleted", "timestamp": "2009-07-21T13:23:45Z"}


@pytest.mark.parametrize(
    "tombstone",
    [
        {"reason": "a mistake"},
        {"reason": "a mistake", "citation": "Banon, G. (2009). A title."},
        {"reason": "a mistake", "successor": "a.br/x/2000/01.01.00.01"},
        {"reason": "a mistake", "original_archive": "a.br/x/2000/01.01.00.02"},
    ],
    ids=lambda tombstone: "+".join(tombstone),
)
def test_a_tombstone_is_written_as_it_was_read(tombstone: dict[str, str]) -> None:
    record = parse_record({**DELETED, "tombstone": tombstone})
    assert record.tombstone == Tombstone(**tombstone)
    assert format_record(record) == {**DELETED, "tombstone": tombstone}


def test_a_successor_is_stored_in_canonical_case() -> None:
    record = parse_record(
        {**DELETED, "tombstone": {"reason": "x", "successor": "A.br/X/2000/01.01.00.01"}}
    )
    assert record.tombstone == Tombstone("x", None, "a.br/x/2000/01.01.00.01")


@for_each(
    ("values", "field"),
    [
        ({"tombstone": {}}, "tombstone.reason"),
        ({"tombstone": {"reason": "x", "successor": "no"}}, "tombstone.successor"),
        ({"tombstone": {"reason": "x", "date": "2009"}}, "tombstone.date"),
        ({"tombstone": "x"}, "tombstone"),
        ({"tombstone": {"reason": "x"}, "state": "Original"}, "tombstone"),
    ],
)
def test_a_wrong_tombstone_is_named(values: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as refusal:
        parse_record({**DELETED, **values})
    assert refusal.value.field == field
