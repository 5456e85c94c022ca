"""What is written is read again: a work in JSON Lines, CSL-JSON and CSV gives the same work."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from support.metadata import IBI, descriptions, make_described
from support.vectors import load

from flask_ibi_archive.core.records.csl_reader import read_csl_json
from flask_ibi_archive.core.records.description import parse_description
from flask_ibi_archive.core.records.formats.reference_managers import write_csl_json
from flask_ibi_archive.core.records.readers import (
    FIELDS,
    SEPARATOR,
    Entry,
    read_csv,
    read_json_lines,
)
from flask_ibi_archive.core.records.record import (
    DublinCoreMetadata,
    Record,
    describe_work,
    format_record,
    parse_record,
)

COMPLETE = load("works.json")["thesis"]["record"]["metadata"]["work"]
#: What a table can hold: one title of each kind and one abstract of each language, and names and
#: texts without semicolons. It holds no addition to a name but the ORCID of a creator, no relation
#: to another work but that it is the same, and no degree or grant in more detail than its columns.
texts = st.sampled_from(
    ["chuva", "São José dos Campos", "<i>Aedes</i> & <b>", "a, b", '"x"', "東京"]
)
names = st.sampled_from(["Silva, Ana", "da Silva, José, Júnior", "INPE", "Aristóteles", "王, 小明"])
dates = st.sampled_from(["2009", "2009-07", "2009-07-21", "c. 1998"])


def in_languages(*more: dict[str, str]) -> Any:
    """Return lists of texts, each with another language, or with other members of its object."""
    members = [{"lang": "pt"}, {"lang": "en-GB"}, *more]
    return st.lists(st.sampled_from(members), unique_by=str, max_size=4).flatmap(
        lambda chosen: st.tuples(*(texts.map(lambda t, m=m: {"value": t, **m}) for m in chosen))
    ).map(list)  # fmt: skip


works_of_tables = st.fixed_dictionaries(
    {
        "titles": st.tuples(
            texts,
            st.sampled_from(["subtitle", "translated", "alternative"]).flatmap(
                lambda kind: texts.map(lambda text: {"value": text, "kind": kind, "lang": "pt"})
            ),
        ).map(list),
    },
    optional={
        "creators": st.lists(
            names | st.just({"name": "Silva, Ana", "orcid": "0000-0002-1825-0097"}), max_size=3
        ),
        "contributors": st.lists(names, max_size=2).map(
            lambda found: [{"name": name, "role": "advisor"} for name in found]
        ),
        "type": st.sampled_from(["Tese", "book", "Artigo"]),
        **dict.fromkeys(("publisher", "place", "number", "version", "extent"), texts),
        "issued": dates,
        "degree": st.fixed_dictionaries(
            {"name": texts}, optional={"level": st.just("doctoral"), "defended": dates}
        ),
        "container": st.fixed_dictionaries(
            {"title": texts}, optional={"place": texts, "volume": texts, "pages": st.just("7-18")}
        ),
        "abstracts": in_languages(),
        "subjects": in_languages(),
        "licence": st.just("CC-BY-4.0"),
        "issn": st.just("0100-879X"),
        "related": st.just([{"identifier": "http://a.example/x", "relation": "IsIdenticalTo"}]),
        "funding": st.just([{"funder": "FAPESP"}, {"funder": "CNPq", "number": "2009/1"}]),
    },
)  # fmt: skip


#: Fields with columns of their own for the same values.
NOT_WRITTEN = ("doi", "files")


def list_cells(record: dict[str, Any]) -> dict[str, str]:
    """Return the cells of a record by the names of their columns."""
    cells: dict[str, list[str]] = {}
    for name, field in FIELDS.items():
        if name in NOT_WRITTEN:
            continue
        *parents, last = field.path.split(".")
        objects: list[Any] = [record]
        for parent in parents:
            found = [one.get(parent.removesuffix("[n]"), []) for one in objects]
            objects = [
                member if isinstance(member, dict) else {}
                for one in found
                for member in (one if isinstance(one, list) else [one])
            ]
        for one in objects:
            value = one.get(last.removesuffix("[]"), "" if "[n]" in field.path else [])
            for member in value if isinstance(value, list) else [value]:
                stated = member if isinstance(member, dict) else {field.member: member}
                said = {key: stated.get(key) for key in ("kind", "role", "relation")}
                if {key: text for key, text in said.items() if text} == field.extra:
                    lang = f"[{stated['lang']}]" if "lang" in stated else ""
                    cells.setdefault(f"{name}{lang}", []).append(stated[field.member])
    return {name: SEPARATOR.join(texts) for name, texts in cells.items() if any(texts)}


def write_table(record: dict[str, Any]) -> str:
    """Return a table in CSV with a record."""
    cells = list_cells(record)
    stream = io.StringIO()
    csv.writer(stream).writerows([cells.keys(), cells.values()])
    return stream.getvalue()


def make_record(stated: dict[str, Any]) -> Record:
    metadata = describe_work(parse_description("work", stated))
    return Record(ibip=IBI, metadata=metadata, language="pt-BR", same_as=("doi:10.1590/a",))


def read(entry: Entry) -> Record:
    """Return the record of an entry, in which nothing was wrong or changed."""
    assert (entry.errors, entry.warnings) == ((), ())
    return parse_record(entry.data, has_identifier=False)


def check_same(entry: Entry, record: Record) -> None:
    found = read(entry)
    assert isinstance(found.metadata, DublinCoreMetadata)
    assert isinstance(record.metadata, DublinCoreMetadata)
    assert found.metadata.work == record.metadata.work
    assert (found.language, found.same_as) == (record.language, record.same_as)


@given(descriptions | works_of_tables)
@example(COMPLETE)
def test_json_lines_and_csl_json_give_the_same_work(stated: dict[str, Any]) -> None:
    record = make_record(stated)
    line = {name: value for name, value in format_record(record).items() if name != "ibip"}
    check_same(*read_json_lines([json.dumps(line).encode()]).entries, record)
    check_same(*read_csl_json(write_csl_json(make_described(record))).entries, record)


@given(works_of_tables)
def test_a_table_gives_the_same_work(stated: dict[str, Any]) -> None:
    record = make_record(stated)
    text = write_table(format_record(record))
    check_same(*read_csv(text.splitlines(keepends=True)).entries, record)
