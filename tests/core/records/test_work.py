"""Tests what is read from the free text of Dublin Core."""

from __future__ import annotations

from datetime import date, datetime, timezone

from hypothesis import given
from support.cases import for_each
from support.metadata import BASE, IBI, make, works

from flask_ibi_archive.core.records.description import (
    Container,
    Name,
    Title,
    WorkType,
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


@for_each(
    ("text", "parts", "is_approximate"),
    [
        ("20090721", (2009, 7, 21), False),
        ("31/12/2001", (2001, 12, 31), False),
        ("03/04/2001", (2001,), False),  # the third of April, or the fourth of March
        ("c1998", (1998,), False),  # the year of the copyright
        ("1998/1999", (), False),
    ],
)
def test_what_is_certain_of_a_date_is_read(
    text: str, parts: tuple[int, ...], is_approximate: bool
) -> None:
    assert parse_date(text) == IssuedDate(
        text, *(*parts, None, None, None)[:3], is_approximate=is_approximate
    )


def test_the_end_of_an_embargo_is_no_date_of_publication() -> None:
    embargo = "info:eu-repo/date/embargoEnd/2027-01-01"
    assert make(date=[embargo]).issued is None
    assert make(date=[embargo, "2001"]).year == 2001


@for_each(
    ("text", "name"),
    [
        ("Silva, Ana", Name("Silva", "Ana")),
        ("Silva ,  Ana\n Maria", Name("Silva", "Ana Maria")),
        ("INPE", Name("INPE")),
        (",", Name("?")),
        ("King, Martin Luther, Jr.", Name("King", "Martin Luther, Jr.")),
    ],
)
def test_a_name_with_a_comma_is_a_person(text: str, name: Name) -> None:
    assert parse_name(text) == name


@for_each(
    "text",
    [
        "Silva, Ana (0000-0002-1694-233X)",
        "Silva, Ana [orcid: 0000-0002-1694-233X]",
        "Silva, Ana <http://www.orcid.org/000000021694233X/>",
        "Silva (orcid.org/0000-0002-1694-233X), Ana",
        "Silva, Ana (0000-0002-1694-233X); https://orcid.org/0000-0002-1694-233X",
    ],
)
def test_an_orcid_is_no_part_of_a_name(text: str) -> None:
    assert parse_name(text) == Name("Silva", "Ana", "0000-0002-1694-233X")
    assert parse_name(text).orcid_url == "https://orcid.org/0000-0002-1694-233X"


@for_each(
    ("text", "name"),
    [
        # the check digit is wrong
        ("Silva, Ana (0000-0002-1825-0098)", Name("Silva", "Ana")),
        ("Ana Silva 0000-0002-1825-0097", Name("Ana Silva", None, "0000-0002-1825-0097")),
        # other numbers are a part of the name
        ("Silva, Ana 1950-1999", Name("Silva", "Ana 1950-1999")),
        ("Silva, Ana 0000000218250097", Name("Silva", "Ana 0000000218250097")),
        # nothing else names the person
        ("0000-0002-1825-0097", Name("0000-0002-1825-0097")),
    ],
)
def test_only_a_correct_orcid_beside_a_name_is_one(text: str, name: Name) -> None:
    assert parse_name(text) == name


@for_each(
    ("text", "doi"),
    [
        ("10.1000/182", "10.1000/182"),
        ("DOI: 10.1000/182", "10.1000/182"),
        ("http://dx.doi.org/10.1000/182", "10.1000/182"),
        ("See 10.1000/182", None),
        ("10.1000", None),
    ],
)
def test_a_doi_is_recognised(text: str, doi: str | None) -> None:
    assert find_doi(text) == doi


@for_each(
    ("text", "url"),
    [
        ("CC BY 4.0", "https://creativecommons.org/licenses/by/4.0/"),
        ("CC0 1.0 Universal", "https://creativecommons.org/publicdomain/zero/1.0/"),
        ("cc by", None),  # the version is unknown
        ("https://a.example/licence", "https://a.example/licence"),
        ("info:eu-repo/semantics/openAccess", None),
    ],
)
def test_a_licence_is_recognised(text: str, url: str | None) -> None:
    assert find_licence(text) == url
    if url is not None and "commons" in url:
        assert find_licence(name_licence(url)) == url


@for_each(
    "url",
    [
        "https://a.example/licence",
        "https://creativecommons.org/licenses/by/x/",
        "https://creativecommons.org/licenses/by/4.0/legalcode?x",
    ],
)
def test_other_licences_are_named_by_their_url(url: str) -> None:
    assert name_licence(url) == url


def test_standard_numbers_are_recognised() -> None:
    assert find_issn("ISSN 1234-567x") == find_issn("urn:issn:1234-567X") == "1234-567X"
    assert find_isbn("ISBN 978-85-17-00001-1") == "978-85-17-00001-1"
    assert find_isbn("1234567890123") is None


@for_each(
    ("texts", "type"),
    [
        ("Dissertação (Mestrado em Letras)", WorkType.MASTER_THESIS),
        ("info:eu-repo/semantics/doctoralThesis", WorkType.DOCTORAL_THESIS),
        ("http://purl.org/coar/resource_type/c_ddb1", WorkType.DATASET),
        ("journalArticle", WorkType.ARTICLE),
        (["Text", "info:eu-repo/semantics/article"], WorkType.ARTICLE),
    ],
)
def test_a_type_is_recognised(texts: str | list[str], type: WorkType) -> None:
    assert make(type=texts).type is type


def test_the_type_that_says_most_is_stated() -> None:
    assert make(type=["Text", "Tese (Doutorado)"]).type_text == "Tese (Doutorado)"
    assert make(type=["Hieróglifo"]).type_text == "Hieróglifo"


@for_each(
    ("texts", "word"),
    [
        ("info:eu-repo/semantics/doctoralThesis", "doctoral thesis"),
        (["http://purl.org/coar/resource_type/c_db06", "Tese (Doutorado)"], "Tese (Doutorado)"),
        ("http://a.example/types#hieroglyph", None),
        ("urn:a:hieroglyph", None),
        (["info:eu-repo/semantics/publishedVersion", "Hieróglifo"], "Hieróglifo"),
    ],
)
def test_a_type_is_stated_in_words(texts: str | list[str], word: str | None) -> None:
    assert make(type=texts).type_text == word


@for_each(
    ("text", "container"),
    [
        ("Revista X", Container("Revista X")),
        ("Nature, v. 5, p. 1-2", Container("Nature", None, "5", None, "1-2")),
        ("Nature, London, v. 5, n. 3", Container("Nature", "London", "5", "3")),
        ("Rev. X; v. 2 n. 1 (2015): Y; 45-60", Container("Rev. X", None, "2", "1", "45-60")),
        ("Journal of Rain, Vol. 12, No. 3/4, pp. 10–20 (1999)",
         Container("Journal of Rain", None, "12", "3/4", "10-20")),
    ],
)  # fmt: skip
def test_a_container_is_read(text: str, container: Container) -> None:
    assert parse_container(text) == container


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


def test_the_language_of_the_metadata_is_used_if_the_record_states_none() -> None:
    languages = [make(language=text).language for text in ("por", "pt_BR", "pt-BR", "Português")]
    assert languages == ["pt", "pt-BR", "pt-BR", None]


def test_a_work_without_a_title_has_a_substitute() -> None:
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
