"""Tests the parsing and formatting of descriptions of works, and the Dublin Core made from them."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

from hypothesis import given
from support.metadata import descriptions
from support.stores import rep_of
from support.vectors import load

from flask_ibi_archive.core.records.description import (
    Description,
    Name,
    Organisation,
    derive_dublin_core,
    parse_description,
)
from flask_ibi_archive.core.records.record import (
    DublinCoreMetadata,
    Record,
    find_errors,
    format_description,
    format_record,
    parse_record,
)
from flask_ibi_archive.core.records.work import read_dublin_core

TITLE = {"titles": ["Rain"]}
THESIS: dict[str, Any] = load("description.json")
TABLES = load("tables/description.json")


@given(descriptions)
def test_a_written_description_is_read_as_the_same_description(data: dict[str, Any]) -> None:
    described = parse_description("work", data)
    record = Record(
        rep=rep_of(0), metadata=DublinCoreMetadata(derive_dublin_core(described), described)
    )
    written = json.loads(json.dumps(format_record(record)))
    assert [*written["metadata"]] == ["work"]
    assert parse_record(written) == record
    assert not find_errors(json.dumps(written))


def test_a_thesis_is_written_as_it_was_given() -> None:
    assert format_description(parse_description("work", THESIS)) == THESIS


def test_each_wrong_value_is_the_only_error_that_is_found() -> None:
    for field, value, message in TABLES["a wrong value is refused by its field"]["cases"]:
        record = {"rep": rep_of(0), "metadata": {"work": {**TITLE, field: value}}}
        [found] = find_errors(json.dumps(record))
        assert message in str(found).removeprefix("metadata.work.")
    for text, _ in TABLES["a licence has one url"]["cases"]:
        work = parse_description("work", {**TITLE, "licence": text})
        again = parse_description("work", {**TITLE, **format_description(work)})
        assert again.licence_url == work.licence_url


def make(**fields: Any) -> Description:
    return parse_description("work", {**TITLE, **fields})


def test_the_dublin_core_of_an_article_is_read_and_that_of_a_book_has_numbers() -> None:
    article = make(
        creators=["Silva, Ana", "Platão"],
        type="article",
        issued="2009-07-21",
        container={"title": "Rev", "place": "Lima", "volume": "2", "number": "1", "pages": "7-18"},
        issn="0100-879X",
        licence="CC0-1.0",
        funding=[
            {"funder": "European Commission", "number": "2/4", "programme": "FP7", "title": "X"}
        ],
    )
    assert read_dublin_core(derive_dublin_core(article)) == article
    # the numbers of a book identify the book
    book = make(type="book", isbn="978-0-306-40615-7", number="INPE-1")
    numbers = [text for text, _ in derive_dublin_core(book)["identifier"]]
    assert numbers == ["ISBN 978-0-306-40615-7", "INPE-1"]


def test_python_types_are_written_as_json() -> None:
    given = {
        "titles": "Rain",
        "creators": (Name("Silva", "Ana"), "Souza, Davi"),
        "abstracts": [("Chove.", "pt")],
        "issued": date(2009, 7, 21),
        "degree": {"defended": date(2009, 3, 1), "institution": Organisation("USP")},
        "publisher": None,
        "subjects": [],
    }
    assert format_description(given) == {
        "titles": ["Rain"],
        "creators": ["Silva, Ana", "Souza, Davi"],
        "abstracts": [{"value": "Chove.", "lang": "pt"}],
        "issued": "2009-07-21",
        "degree": {"defended": "2009-03-01", "institution": "USP"},
    }
