"""Tests the parsing and formatting of descriptions of works, and the Dublin Core made from them."""

from __future__ import annotations

import json
from datetime import date
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.cases import for_each
from support.stores import ibip_of, rep_of

from flask_ibi_archive.core.records import description as model
from flask_ibi_archive.core.records.description import (
    WORK_FIELDS,
    Container,
    Degree,
    Description,
    Grant,
    Name,
    Organisation,
    RelatedWork,
    Subject,
    Title,
    WorkType,
    derive_dublin_core,
    parse_description,
)
from flask_ibi_archive.core.records.lines import (
    find_errors,
    format_description,
    format_record,
    parse_record,
)
from flask_ibi_archive.core.records.record import DublinCoreMetadata, Record
from flask_ibi_archive.core.records.values import (
    FieldError,
    IssuedDate,
    find_spdx,
    parse_date,
    parse_issued,
    parse_licence,
)
from flask_ibi_archive.core.records.work import read_dublin_core

ORCID = "0000-0002-1825-0097"
ROR = "https://ror.org/036rp1748"
LATTES = "1234567890123456"
BY = "https://creativecommons.org/licenses/by/4.0/"
TITLE = {"titles": ["Rain"]}

THESIS: dict[str, Any] = {
    "titles": ["Chuva no cerrado", {"value": "Rain", "lang": "en", "kind": "translated"}],
    "creators": [
        "Silva, Ana",
        {"name": "Souza, Davi", "orcid": ORCID, "lattes": LATTES, "affiliations": ["INPE"]},
        {"name": "Grupo de Chuva, INPE", "kind": "organisation"},
    ],
    "contributors": [{"name": "Lima, Eva", "role": "advisor"}],
    "type": "Tese (Doutorado em Meteorologia)",
    "publisher": "INPE",
    "issued": "2009-07",
    "dates": {"submitted": "2009-01-31"},
    "degree": {
        "name": "Doutorado em Meteorologia",
        "level": "doctoral",
        "programme": "Meteorologia",
        "institution": {"name": "INPE", "ror": ROR},
        "defended": "2009-03-01",
    },
    "abstracts": [{"value": "It rains.", "lang": "en"}],
    "subjects": [{"value": "rain", "lang": "en", "scheme": "LCSH", "uri": "http://id.example/1"}],
    "licence": "CC-BY-4.0",
    "access_right": "open",
    "extent": "171 p.",
    "related": [{"identifier": "doi:10.1000/182", "relation": "IsSupplementTo"}],
    "funding": [{"funder": "European Commission", "number": "244909", "programme": "FP7"}],
}


def parse(**fields: Any) -> Description:
    return parse_description("work", {**TITLE, **fields})


# Descriptions as the parser returns them.
words = st.text("abcdÁçe X-'9日", min_size=1, max_size=12).map(lambda text: " ".join(text.split()))
lines = words.filter(lambda text: any(map(str.isalnum, text)))
paragraphs = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), min_size=1
)
languages = st.sampled_from([None, "pt", "pt-BR", "en", "zh-Hans"])
dates = st.sampled_from(["2009", "2009-07", "2009-07-21", "2008-02-29", "c. 1998"]).map(parse_date)
rors = st.sampled_from([None, ROR, "https://ror.org/04xbn6x09"])
texts = st.tuples(paragraphs, languages)
organisations = st.builds(Organisation, lines, rors)


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def choices(literal: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(get_args(literal))


def some(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=2).map(tuple)


affiliations = some(organisations)
families = lines.filter(lambda text: not text.strip("-' ").isspace() and "9" not in text)
people = st.builds(
    Name,
    families,
    optional(families),
    st.sampled_from([None, ORCID]),
    st.sampled_from([None, "person"]),
    st.sampled_from([None, LATTES]),
    affiliations=affiliations,
)
groups = st.builds(
    Name,
    lines.map(lambda text: f"{text}, {text}"),
    kind=st.just("organisation"),
    ror=rors,
    affiliations=affiliations,
)
names = people | groups
contributors = st.builds(lambda name, role: replace(name, role=role), names, choices(model.Role))
types = st.sampled_from(
    [
        (WorkType.OTHER, None),
        (WorkType.ARTICLE, "artigo"),
        (WorkType.DOCTORAL_THESIS, "Tese (Doutorado em Física)"),
        (WorkType.DATASET, "dataset"),
    ]
)
related = st.builds(
    lambda work, relation: replace(work, relation=relation),
    st.sampled_from(
        [
            RelatedWork("doi:10.1000/182", "DOI", "https://doi.org/10.1000/182"),
            RelatedWork("hdl:20.500/1", "Handle", "https://hdl.handle.net/20.500/1"),
            RelatedWork("ark:12345/x5", "ARK", "https://n2t.net/ark:12345/x5"),
            RelatedWork("urn:nbn:br:bn-1", "URN"),
            RelatedWork(ibip_of(1), "IBI"),
            RelatedWork(rep_of(1), "IBI"),
            RelatedWork("https://a.example/1?b=c", "URL", "https://a.example/1?b=c"),
            RelatedWork("9780306406157", "ISBN"),
            RelatedWork("0100-879X", "ISSN"),
        ]
    ),
    optional(choices(model.Relation)),
)
grants = st.builds(
    Grant,
    lines,
    optional(lines),
    optional(lines),
    st.sampled_from([None, ROR, "https://doi.org/10.13039/501100001807"]),
    optional(lines),
    st.sampled_from([None, "https://a.example/grant"]),
)
licences = st.sampled_from(
    [None, BY, "https://spdx.org/licenses/MIT", "https://a.example/licence", BY[:-4] + "3.0/br/"]
)
degrees = st.builds(
    Degree,
    optional(lines),
    optional(choices(model.DegreeLevel)),
    optional(lines),
    optional(organisations),
    optional(dates),
).filter(lambda degree: degree != Degree())
containers = st.builds(
    Container,
    lines,
    optional(lines),
    optional(lines),
    optional(lines),
    st.sampled_from([None, "7", "7-18"]),
)
titles = st.builds(Title, lines, languages, optional(choices(model.TitleKind)))
descriptions = st.builds(
    lambda type, **fields: Description(type=type[0], type_text=type[1], **fields),
    types,
    titles=st.lists(titles, min_size=1, max_size=2).map(tuple),
    creators=some(names),
    contributors=some(contributors),
    publisher=optional(lines),
    issued=optional(dates),
    dates=st.dictionaries(choices(model.DateKind), dates, max_size=2),
    degree=optional(degrees),
    container=optional(containers),
    abstracts=some(texts),
    subjects=some(st.builds(Subject, paragraphs, languages, optional(lines), licences)),
    rights=some(texts),
    licence_url=licences,
    access_right=optional(choices(model.AccessRight)),
    issn=st.sampled_from([None, "0100-879X"]),
    isbn=st.sampled_from([None, "978-0-306-40615-7"]),
    number=optional(lines),
    version=optional(lines),
    extent=optional(lines),
    coverage=some(texts),
    notes=some(texts),
    related=some(related),
    funding=some(grants),
)


@given(descriptions)
def test_a_written_description_is_read_as_the_same_description(described: Description) -> None:
    record = Record(
        rep=rep_of(0), metadata=DublinCoreMetadata(derive_dublin_core(described), described)
    )
    written = json.loads(json.dumps(format_record(record)))
    assert [*written["metadata"]] == ["work"]
    assert parse_record(written) == record
    assert not find_errors(json.dumps(written))


def test_each_field_of_the_json_object_is_described_by_a_field_of_the_class() -> None:
    described = {field.replace("licence", "licence_url") for field in WORK_FIELDS}
    assert described | {"type_text"} == {*Description.__struct_fields__}


def test_a_thesis_is_written_as_it_was_given() -> None:
    assert format_description(parse_description("work", THESIS)) == THESIS


READ = {
    "text as name": ("creators", ["Silva, Ana"], (Name("Silva", "Ana"),)),
    "name with an ORCID": ("creators", [f"Silva, Ana ({ORCID})"], (Name("Silva", "Ana", ORCID),)),
    "undivided name": ("creators", ["Platão"], (Name("Platão"),)),
    "ORCID as URL": (
        "creators",
        [{"name": "Silva, Ana", "orcid": f"https://orcid.org/{ORCID}"}],
        (Name("Silva", "Ana", ORCID),),
    ),
    "Lattes as URL": (
        "creators",
        [{"name": "Silva, Ana", "lattes": f"http://lattes.cnpq.br/{LATTES}"}],
        (Name("Silva", "Ana", lattes=LATTES),),
    ),
    "an organisation's comma": (
        "creators",
        [{"name": "USP, Física", "kind": "organisation"}],
        (Name("USP, Física", kind="organisation"),),
    ),
    "bare ROR": ("creators", [{"name": "USP", "ror": "036rp1748"}], (Name("USP", ror=ROR),)),
    "white space in a title": ("titles", [" Rain\n in  May "], (Title("Rain in May"),)),
    "type by URI": ("type", "info:eu-repo/semantics/article", WorkType.ARTICLE),
    "type in Spanish": ("type", "tesis de maestría", WorkType.MASTER_THESIS),
    "approximate date": ("issued", "c. 1998", IssuedDate("c. 1998", 1998, is_approximate=True)),
    "dash between pages": (
        "container",
        {"title": "X", "pages": "7 – 18"},
        Container("X", None, None, None, "7-18"),
    ),
    "ISSN without a hyphen": ("issn", "ISSN 0100879x", "0100-879X"),
    "ISBN with a label": ("isbn", "ISBN 978 0 306 40615 7", "978-0-306-40615-7"),
    "bare DOI": (
        "related",
        ["10.1000/182"],
        (RelatedWork("doi:10.1000/182", "DOI", "https://doi.org/10.1000/182"),),
    ),
    "ISBN of another work": (
        "related",
        ["978-0-306-40615-7"],
        (RelatedWork("9780306406157", "ISBN"),),
    ),
    "IBI in capitals": ("related", [ibip_of(1).lower()], (RelatedWork(ibip_of(1), "IBI"),)),
    "bare funder DOI": (
        "funding",
        [{"funder": "FAPESP", "funder_id": "10.13039/501100001807"}],
        (Grant("FAPESP", funder_id="https://doi.org/10.13039/501100001807"),),
    ),
    "institution as text": (
        "degree",
        {"institution": "USP"},
        Degree(institution=Organisation("USP")),
    ),
}


@for_each(("field", "value", "meant"), READ.values())
def test_a_value_is_read_in_its_usual_spellings(field: str, value: Any, meant: Any) -> None:
    assert getattr(parse(**{field: value}), field) == meant


LICENCES = {
    "SPDX": ("CC-BY-4.0", BY, "CC-BY-4.0"),
    "SPDX in lower case": ("apache-2.0", "https://spdx.org/licenses/Apache-2.0", "Apache-2.0"),
    "short name": ("CC BY 4.0", BY, "CC-BY-4.0"),
    "URL without https": ("http://creativecommons.org/licenses/by/4.0", BY, "CC-BY-4.0"),
    "deed": (BY + "deed.pt-br", BY, "CC-BY-4.0"),
    "port in the list": ("CC-BY-3.0-US", BY[:-4] + "3.0/us/", "CC-BY-3.0-US"),
    "port not in the list": (BY[:-4] + "3.0/br", BY[:-4] + "3.0/br/", None),
    "waiver": ("cc0-1.0", "https://creativecommons.org/publicdomain/zero/1.0/", "CC0-1.0"),
    "open source initiative": (
        "https://opensource.org/licenses/MIT",
        "https://spdx.org/licenses/MIT",
        "MIT",
    ),
    "page of the list": (
        "https://spdx.org/licenses/MIT.html",
        "https://spdx.org/licenses/MIT",
        "MIT",
    ),
    "another URL": ("https://a.example/terms", "https://a.example/terms", None),
}


@for_each(("text", "url", "spdx"), LICENCES.values())
def test_a_licence_has_one_url(text: str, url: str, spdx: str | None) -> None:
    assert parse_licence(text) == url
    assert find_spdx(url) == spdx
    assert parse_licence(spdx or url) == url


REFUSED: dict[str, tuple[str, Any, str]] = {
    "no title": ("titles", [], "titles: the list is empty; a work needs a title"),
    "title of spaces": ("titles", [" "], "titles[0]: the text has spaces only; "),
    "title as text": ("titles", "Rain", "titles: 'Rain' is not a list"),
    "control character": ("abstracts", ["a\x07"], "abstracts[0]: the text contains a control"),
    "language": ("titles", [{"value": "a", "lang": "english"}], "titles[0].lang: 'english' is not"),
    "kind of title": (
        "titles",
        [{"value": "a", "kind": "sub-title"}],
        "titles[0].kind: 'sub-title' is not one of alternative, subtitle, translated, other; "
        "did you mean subtitle?",
    ),
    "unknown field": (
        "colour",
        "red",
        "colour: this field is unknown; the known fields are titles",
    ),
    "misspelt field": ("licenses", "MIT", "did you mean licence?"),
    "name": ("creators", [","], "creators[0]: ',' is not a name such as Silva, Ana"),
    "role of a creator": (
        "creators",
        [{"name": "A", "role": "advisor"}],
        "creators[0].role: this field is unknown",
    ),
    "ORCID": (
        "creators",
        [{"name": "A", "orcid": "12"}],
        "creators[0].orcid: '12' is not an ORCID such as",
    ),
    "check digit of an ORCID": (
        "creators",
        [{"name": "A", "orcid": "0000-0002-1825-0098"}],
        "creators[0].orcid: '0000-0002-1825-0098' is not an ORCID: the check digit is wrong",
    ),
    "check digit of an ORCID beside a name": (
        "creators",
        ["Silva, Ana 0000-0002-1825-0098"],
        "contains an ORCID whose check digit is wrong",
    ),
    "ORCID of an organisation": (
        "creators",
        [{"name": "A", "kind": "organisation", "orcid": ORCID}],
        "creators[0].orcid: only a person has this",
    ),
    "ROR of a person": (
        "creators",
        [{"name": "A", "kind": "person", "ror": ROR}],
        "creators[0].ror: only an organisation has a ROR",
    ),
    "Lattes": (
        "creators",
        [{"name": "A", "lattes": "123"}],
        "creators[0].lattes: '123' is not the",
    ),
    "ROR": ("creators", [{"name": "A", "ror": "x"}], "creators[0].ror: 'x' is not a ROR such as"),
    "check digits of a ROR": (
        "creators",
        [{"name": "A", "affiliations": [{"name": "B", "ror": "036rp1749"}]}],
        "creators[0].affiliations[0].ror: '036rp1749' is not a ROR: the check digits are wrong",
    ),
    "role": (
        "contributors",
        [{"name": "A", "role": "Adviser"}],
        "contributors[0].role: 'Adviser' is not one of advisor, ",
    ),
    "type": ("type", "articel", "; did you mean article?"),
    "day": ("issued", "2009-02-30", "issued: '2009-02-30' is not a date such as"),
    "year alone as a number": ("issued", 2009, 'issued: 2009 is not a date such as "2009"'),
    "date in words": ("issued", "21 July 2009", "issued: '21 July 2009' is not a date such as"),
    "kind of date": ("dates", {"submited": "2009"}, "did you mean submitted?"),
    "level": ("degree", {"level": "doctorate"}, "degree.level: 'doctorate' is not one of bachelor"),
    "empty degree": ("degree", {}, "degree: the object is empty"),
    "container": ("container", {"volume": "2"}, "container.title: the field is missing"),
    "licence": ("licence", "Creative Commons", "licence: 'Creative Commons' is neither"),
    "access right as licence": (
        "licence",
        "info:eu-repo/semantics/openAccess",
        "(write who has access as access_right)",
    ),
    "licence as rights": ("rights", [BY], "rights[0]: "),
    "access right": ("access_right", "Open", "did you mean open?"),
    "ISSN": ("issn", "0100-8790", "issn: '0100-8790' is not an ISSN: the check digit is wrong"),
    "text as ISSN": ("issn", "x", "issn: 'x' is not an ISSN such as"),
    "ISBN": ("isbn", "978-0-306-40615-8", "isbn: '978-0-306-40615-8' is not an ISBN: "),
    "text as ISBN": ("isbn", "x", "isbn: 'x' is not an ISBN such as"),
    "related": ("related", ["x"], "related[0]: 'x' is not an identifier: write a DOI, Handle"),
    "related URL": ("related", ["http://"], "related[0]: "),
    "relation": (
        "related",
        [{"identifier": "10.1000/182", "relation": "isPartOf"}],
        "did you mean IsPartOf?",
    ),
    "funder": ("funding", [{"number": "1"}], "funding[0].funder: the field is missing"),
    "funder's identifier": (
        "funding",
        [{"funder": "A", "funder_id": "10.1000/1"}],
        "funding[0].funder_id: '10.1000/1' is neither a ROR",
    ),
    "subject's URI": (
        "subjects",
        [{"value": "a", "uri": "x"}],
        "subjects[0].uri: 'x' is not a URL",
    ),
}


@for_each(("field", "value", "message"), REFUSED.values())
def test_a_wrong_value_is_refused_by_its_field(field: str, value: Any, message: str) -> None:
    with pytest.raises(FieldError) as error:
        parse(**{field: value})
    assert message in f"{error.value}".removeprefix("work.")
    record = {"rep": rep_of(0), "metadata": {"work": {**TITLE, field: value}}}
    [found] = find_errors(json.dumps(record))
    assert str(found) == f"metadata.{error.value}".replace("metadata.work", "metadata.work", 1)


def test_all_errors_of_a_description_are_found() -> None:
    wrong = {
        "creators": [{"name": "A", "orcid": "1"}, "Silva, Ana", {"name": "B", "ror": "2"}],
        "type": "x",
        "colour": "red",
    }
    errors = find_errors(json.dumps({"rep": "x", "metadata": {"work": wrong}}))
    assert [error.field for error in errors] == [
        "rep",
        "metadata.work.creators[0].orcid",
        "metadata.work.creators[2].ror",
        "metadata.work.type",
        "metadata.work.colour",
    ]


def test_a_work_needs_a_title() -> None:
    with pytest.raises(FieldError, match=r"titles: the field is missing; a work needs"):
        parse_description("work", {"creators": ["Silva, Ana"]})


@pytest.mark.parametrize("text", ["21/07/2009", "2009-7-21", "May 2009"])
def test_a_date_that_is_stated_has_one_form(text: str) -> None:
    """The date of a description, and the date in an option of a command."""
    with pytest.raises(FieldError) as refused:
        parse(issued=text)
    with pytest.raises(FieldError) as refused_option:
        parse_issued("--date", text)
    assert refused.value.reason == refused_option.value.reason


@pytest.mark.parametrize(
    "metadata",
    [{"work": TITLE, "dc": {"title": ["a"]}}, {"work": TITLE, "url": "https://a.example/"}, {}],
)
def test_metadata_are_given_in_one_way(metadata: dict[str, Any]) -> None:
    with pytest.raises(FieldError, match="metadata must have exactly one of the fields ibi, dc, "):
        parse_record({"rep": rep_of(0), "metadata": metadata})


def test_the_dublin_core_of_a_thesis_says_what_dublin_core_can_say() -> None:
    assert derive_dublin_core(parse_description("work", THESIS)) == {
        "title": (("Chuva no cerrado", None), ("Rain", "en")),
        "creator": (("Silva, Ana", None), ("Souza, Davi", None), ("Grupo de Chuva, INPE", None)),
        "subject": (("rain", "en"),),
        "description": (("It rains.", "en"),),
        "publisher": (("INPE", None),),
        "contributor": (("Lima, Eva", None),),
        "date": (("2009-07", None),),
        "type": (("Tese (Doutorado em Meteorologia)", None),),
        "format": (("171 p.", None),),
        "relation": (
            ("https://doi.org/10.1000/182", None),
            ("info:eu-repo/grantAgreement/EC/FP7/244909", None),
        ),
        "rights": ((BY, None),),
    }


def test_the_dublin_core_of_an_article_is_read_as_the_article() -> None:
    article = parse(
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


def test_a_book_is_identified_by_its_numbers() -> None:
    book = parse(type="book", isbn="978-0-306-40615-7", number="INPE-1")
    assert derive_dublin_core(book)["identifier"] == (
        ("ISBN 978-0-306-40615-7", None),
        ("INPE-1", None),
    )


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
