"""What is written is read again: a work in JSON Lines, CSL-JSON and CSV gives the same work."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from support.metadata import IBI, descriptions, make_described
from support.vectors import load

from flask_ibi_archive.core.records.csl_reader import read_csl_json
from flask_ibi_archive.core.records.description import parse_description
from flask_ibi_archive.core.records.formats.reference_managers import write_csl_json
from flask_ibi_archive.core.records.readers import Entry
from flask_ibi_archive.core.records.record import Record, describe_work, parse_record

COMPLETE = load("works.json")["thesis"]["record"]["metadata"]["work"]


def read(entry: Entry) -> Record:
    """Return the record of an entry, in which nothing was wrong or changed."""
    assert (entry.errors, entry.warnings) == ((), ())
    return parse_record(entry.data, has_identifier=False)


@given(descriptions)
@example(COMPLETE)
def test_csl_json_gives_the_same_description(stated: dict[str, Any]) -> None:
    metadata = describe_work(parse_description("work", stated))
    record = Record(ibip=IBI, metadata=metadata, language="pt-BR", same_as=("doi:10.1590/a",))
    [entry] = read_csl_json(write_csl_json(make_described(record))).entries
    found = read(entry)
    assert found.metadata == metadata
    assert (found.language, found.same_as) == (record.language, record.same_as)
