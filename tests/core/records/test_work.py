"""Tests what is read from the free text of Dublin Core."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from pathlib import Path

from hypothesis import given
from support.cases import for_each
from support.metadata import BASE, IBI, make, works

from flask_ibi_archive.core.records.description import (
    Container,
    Name,
    Title,
    parse_container,
    parse_name,
)
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.core.records.values import (
    IssuedDate,
    find_doi,
    find_isbn,
    find_issn,
    find_licence,
    name_licence,
    parse_date,
)
from flask_ibi_archive.core.records.work import Work, WorkFile, make_work

#: Values of Dublin Core, and what is read from them.
CASES = json.loads(Path(__file__).with_name("dublin_core_cases.json").read_text("utf-8"))


@for_each(("text", "parts"), CASES["dates"])
def test_what_is_certain_of_a_date_is_read(text: str, parts: list[int]) -> None:
    assert parse_date(text) == IssuedDate(text, *parts)


def test_the_end_of_an_embargo_is_no_date_of_publication() -> None:
    embargo = "info:eu-repo/date/embargoEnd/2027-01-01"
    assert make(date=[embargo]).issued is None
    assert make(date=[embargo, "2001"]).year == 2001


@for_each(("text", "name"), CASES["names"])
def test_a_comma_divides_the_name_of_a_person_and_a_correct_orcid_is_no_part_of_it(
    text: str, name: list[str | None]
) -> None:
    assert parse_name(text) == Name(*name)  # type: ignore[arg-type]


@for_each(("text", "doi"), CASES["DOIs"])
def test_a_doi_is_recognised(text: str, doi: str | None) -> None:
    assert find_doi(text) == doi


@for_each(("text", "url", "name"), CASES["licences"])
def test_a_licence_is_recognised_and_named(text: str, url: str | None, name: str | None) -> None:
    assert find_licence(text) == url
    if url is not None:
        assert name_licence(url) == name
        assert find_licence(name_licence(url)) == url


def test_standard_numbers_are_recognised() -> None:
    assert find_issn("ISSN 1234-567x") == find_issn("urn:issn:1234-567X") == "1234-567X"
    assert find_isbn("ISBN 978-85-17-00001-1") == "978-85-17-00001-1"
    assert find_isbn("1234567890123") is None


@for_each(("texts", "type", "word"), CASES["types"])
def test_the_type_that_says_most_is_recognised_and_stated_in_words(
    texts: str | list[str], type: str, word: str | None
) -> None:
    work = make(type=texts)
    assert (work.type.value, work.type_text) == (type, word)


@for_each(("text", "container"), CASES["containers"])
def test_a_container_is_read(text: str, container: list[str]) -> None:
    assert parse_container(text) == Container(*container)


def test_only_a_contained_work_has_a_container() -> None:
    assert make(type="Artigo", source="Revista X").container == Container("Revista X")
    assert make(type="Dataset", source="Revista X").container is None
    assert make(type="Artigo", source=["1234-5678", "http://a.example/"]).container is None


def test_a_work_contains_what_the_record_states() -> None:
    moment = datetime(2011, 3, 4, tzinfo=timezone.utc)
    record = Record(
        rep="a.br/x/2000/01.01.00.00", ibip=IBI, timestamp=moment, language="pt",
        embargo=date(2027, 1, 1), next_edition="8J/2", translations={"en": "8J/3"}, state="Copy",
    )  # fmt: skip
    file = WorkFile("a.pdf", f"{BASE}/a.pdf", "application/pdf", 12)
    work = make_work(
        record,
        {"title": (("Chuva", "pt"), ("Rain", "en")), "language": (("eng", None),)},
        BASE,
        page_url="https://a.example/col/x/",
        files=[file],
        metadata_language="es",
        previous_edition="8J/1",
    )
    assert (work.ibi, work.url) == (IBI, f"{BASE}/{IBI}")
    assert work.page_url == "https://a.example/col/x/"
    assert (work.title, work.title_language) == ("Chuva", "pt")
    assert work.other_titles == (Title("Rain", "en"),)
    assert (work.language, work.metadata_language) == ("pt", "es")
    assert (work.deposited, work.available) == (moment, date(2027, 1, 1))
    assert (work.next_edition, work.previous_edition) == (f"{BASE}/8J/2", f"{BASE}/8J/1")
    assert work.translations == (("en", f"{BASE}/8J/3"),)
    assert (work.files, work.state) == ((file,), "Copy")


def test_the_language_and_the_title_have_substitutes() -> None:
    languages = [make(language=text).language for text in ("por", "pt_BR", "pt-BR", "Português")]
    assert languages == ["pt", "pt-BR", "pt-BR", None]
    work = make_work(Record(ibip=IBI), {"title": ((" ", None),)}, BASE, title="a.pdf")
    assert (work.title, work.has_title) == ("a.pdf", False)
    assert make().title == IBI


def test_related_works_have_urls_and_the_licence_is_none_of_them() -> None:
    licence = "https://creativecommons.org/licenses/by/4.0/"
    work = make(relation=["doi:10.1000/182", "http://a.example/x", "Chuva", licence])
    assert [other.url for other in work.related] == [
        "https://doi.org/10.1000/182",
        "http://a.example/x",
    ]
    assert work.licence_url == licence


@given(works)
def test_all_texts_of_a_work_are_legal_in_xml(work: Work) -> None:
    texts = [work.title, *(name.inverted for name in work.creators)]
    for values in (work.dublin_core or {}).values():
        texts += [text for text, _ in values]
    assert all(text.strip() for text in texts)
    assert not any({"\0", "\x1b", "\ufffe", "\ud800"} & set(text) for text in texts)
    "".join([*texts, *(file.name for file in work.files)]).encode()
