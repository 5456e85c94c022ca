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


def test_a_tombstone_is_written_as_it_was_read() -> None:
    optional = {"citation": "Banon, G. (2009). A title.", "successor": REP[:-1] + "1"}
    for tombstone in ({}, optional, {"original_archive": REP[:-1] + "2"}):
        record = parse_record({**DELETED, "tombstone": {"reason": "a mistake", **tombstone}})
        assert record.tombstone == Tombstone("a mistake", **tombstone)
        assert format_record(record) == {
            **DELETED,
            "tombstone": {"reason": "a mistake", **tombstone},
        }
    capitals = parse_record({**DELETED, "tombstone": {"reason": "x", "successor": REP.upper()}})
    assert capitals.tombstone == Tombstone("x", None, REP)


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
