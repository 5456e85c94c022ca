"""OAI-PMH without a server: every text gives well-formed XML, and tokens keep their contents."""

from __future__ import annotations

from datetime import datetime, timezone

from hypothesis import given
from hypothesis import strategies as st
from support.harvesting import OAI, parse

from flask_ibi_archive.archive.harvest.messages import (
    HarvestedRecord,
    HarvestError,
    parse_arguments,
    parse_selection,
    select_repeatable,
    write_error,
    write_list,
    write_record,
    write_response,
)
from flask_ibi_archive.core.records.formats import BUILT_IN
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.core.records.work import make_work

NOW = datetime(2026, 3, 1, tzinfo=timezone.utc)
TEXT = st.text(st.characters(exclude_categories=[]), max_size=30)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 1, 1), timezones=st.just(timezone.utc))
SECONDS = MOMENTS.map(lambda moment: moment.replace(microsecond=0))
NAMES = st.sampled_from(
    ["verb", "identifier", "metadataPrefix", "from", "until", "set", "resumptionToken"]
)
VALUES = TEXT | st.sampled_from(
    ["ListRecords", "GetRecord", "oai_dc", "a:b", "2026-01-01", "oai:a:b"]
)


@given(st.lists(st.tuples(NAMES | TEXT, VALUES), max_size=4))
def test_every_request_has_a_response_that_fits_the_schema(pairs: list[tuple[str, str]]) -> None:
    arguments: dict[str, str] = {}
    try:
        arguments = parse_arguments(pairs)
        parse_selection(arguments) if "metadataPrefix" in arguments else None
        error = HarvestError("noRecordsMatch", "none")
    except HarvestError as refusal:
        arguments, error = {}, refusal
    body = write_error(error)
    root = parse(
        write_response("http://a.br/ibi/oai", NOW, select_repeatable(arguments), body).encode()
    )
    assert root.find(f"{OAI}error").get("code") == error.code


@given(TEXT, TEXT, SECONDS)
def test_records_with_any_text_fit_the_schema(title: str, about: str, moment: datetime) -> None:
    elements = {"title": ((title, None),), "description": ((about, "pt-BR"),)}
    work = make_work(Record("a.br/b/2001/01.01.00.00"), elements, "http://urlib.net")
    harvested = HarvestedRecord(work.ibi, moment, sets=("a:b",))
    record = write_record("a.br", harvested, str(BUILT_IN[0].write(work)).encode())
    body = write_list("ListRecords", [record], about)
    parse(write_response("http://a.br/ibi/oai", NOW, {"verb": "ListRecords"}, body).encode())
