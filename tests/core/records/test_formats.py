"""Tests the formats of metadata against XML schemas and the vocabulary of schema.org."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from lxml import etree
from rdflib import RDF, Graph, Literal, URIRef
from rdflib.namespace import PROV, SDO
from support.cases import for_each
from support.metadata import BASE, IBI, SCHEMA_FILES, load_schema, load_validator, make, works
from support.random_works import described_works

from flask_ibi_archive.core.records.formats import BUILT_IN, FormatRegistry, MetadataFormat
from flask_ibi_archive.core.records.record import AccessRule, FileRecord, Record
from flask_ibi_archive.core.records.work import Work, make_work

# rdflib's own parser of JSON-LD uses the class
pytestmark = pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")

SCHEMAS = {name: load_schema(name) for name in SCHEMA_FILES}
WRITE = {format.name: format.write for format in BUILT_IN}
DATACITE = "{http://datacite.org/schema/kernel-4}"


def text_of(name: str, work: Work) -> str:
    text = WRITE[name](work)
    assert isinstance(text, str)
    return text


def check_schemas(work: Work) -> None:
    for name, schema in SCHEMAS.items():
        schema.assertValid(etree.fromstring(text_of(name, work).encode()))
    load_validator().validate(json.loads(text_of("datacite-json", work)))


def find(work: Work, path: str) -> list[tuple[str | None, dict[str, str]]]:
    """Return the texts and attributes of the elements of a DataCite document."""
    root = etree.fromstring(text_of("datacite", work).encode())
    steps = "/".join(f"{DATACITE}{step}" for step in path.split("/"))
    return [
        (found.text, {str(k): str(v) for k, v in found.attrib.items()})
        for found in root.findall(steps)
    ]


def read_json_ld(work: Work) -> Graph:
    """Return the graph. The context of schema.org would be a request to another host."""
    found = json.loads(text_of("json-ld", work))
    assert found.pop("@context") == "https://schema.org"
    return Graph().parse(
        data=json.dumps({"@context": {"@vocab": str(SDO)}, **found}), format="json-ld"
    )


@given(works | described_works)
def test_json_ld_of_any_text_uses_terms_of_schema_org_and_prov(work: Work) -> None:
    graph = read_json_ld(work)
    terms = {*graph.predicates(), *graph.objects(predicate=RDF.type)} - {RDF.type}
    # rdflib has a version of the vocabulary before 13.0
    names = {str(term).removeprefix(str(SDO)) for term in terms if term not in PROV} - {"funding"}
    assert names <= SDO.__annotations__.keys()
    assert graph.value(URIRef(work.url), SDO.name) == Literal(work.title)
    assert "<" not in text_of("json-ld", work)


def read_oai_dc(work: Work) -> list[tuple[str, str | None]]:
    """Return the names and the values of the elements of an oai_dc document."""
    root = etree.fromstring(text_of("oai_dc", work).encode())
    SCHEMAS["oai_dc"].assertValid(root)
    return [(etree.QName(child).localname, child.text) for child in root]


def known(record: Record, **dc: str) -> list[tuple[str, str | None]]:
    """Return what an oai_dc document contains besides the Dublin Core and the persistent URL."""
    elements = {name: ((text, None),) for name, text in {"title": "Chuva", **dc}.items()}
    found = read_oai_dc(make_work(record, elements, BASE, today=DAY))
    stated = [("title", "Chuva"), *dc.items(), ("identifier", f"{BASE}/{IBI}")]
    assert all(one in found for one in stated)
    return [one for one in found if one not in stated]


DAY = date(2026, 11, 23)
FILES = (FileRecord("a.pdf"),)
RIGHTS = "info:eu-repo/semantics/"
COAR = "http://purl.org/coar/resource_type/"


@for_each(
    ("fields", "expected"),
    [
        (
            {"files": FILES, "embargo": date(2027, 1, 1)},
            [
                ("date", "info:eu-repo/date/embargoEnd/2027-01-01"),
                ("rights", f"{RIGHTS}embargoedAccess"),
            ],
        ),
        ({"files": FILES, "embargo": DAY}, [("rights", f"{RIGHTS}openAccess")]),
        (
            {"access": AccessRule(("192.0.2.0/24",)), "embargo": date(2027, 1, 1)},
            [("rights", f"{RIGHTS}restrictedAccess")],
        ),
        ({"language": "pt-BR"}, [("language", "por")]),
        # the description is about another item
        ({"content_type": "Metadata", "language": "pt", "files": FILES}, []),
    ],
)
def test_oai_dc_says_what_the_archive_knows(
    fields: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert known(Record(ibip=IBI, **fields)) == expected


def test_oai_dc_adds_nothing_that_the_dublin_core_states() -> None:
    record = Record(ibip=IBI, files=FILES, language="pt", embargo=date(2027, 1, 1))
    for right in (f"{RIGHTS}closedAccess", "http://purl.org/coar/access_right/c_f1cf"):
        stated = {"language": "por", "rights": right, "date": "info:eu-repo/date/embargoEnd/2027"}
        assert known(record, **stated) == []
    # a licence and a year say nothing about the access
    assert len(known(record, rights="CC BY 4.0", date="2026")) == 3


@for_each(
    ("stated", "terms"),
    [
        ("Tese (Doutorado em Letras)", [f"{RIGHTS}doctoralThesis", f"{COAR}c_db06"]),
        (f"{RIGHTS}article", [f"{COAR}c_6501"]),
        (f"{COAR}c_2df8fbb1", [f"{RIGHTS}article"]),  # a research article
        ("Conjunto de dados", ["http://purl.org/dc/dcmitype/Dataset", f"{COAR}c_ddb1"]),
        ("Hieróglifo", []),
    ],
)
def test_oai_dc_contains_terms_of_two_vocabularies_for_the_type(
    stated: str, terms: list[str]
) -> None:
    assert known(Record(ibip=IBI), type=stated) == [("type", term) for term in terms]


def test_oai_dc_contains_a_bare_doi_as_a_url() -> None:
    bare = ["10.1000/182", "doi:10.1000/182", "DOI 10.1000/182"]
    work = make(title="10.1000/182", identifier=bare, source=bare[1], relation=bare[2])
    assert read_oai_dc(work) == [
        ("title", "10.1000/182"),
        *[("identifier", "https://doi.org/10.1000/182")] * 3,
        ("identifier", f"{BASE}/{IBI}"),
        ("source", "https://doi.org/10.1000/182"),
        ("relation", "https://doi.org/10.1000/182"),
    ]
    others = ["http://dx.doi.org/10.1000/182", "ISBN 978-85-17-00001-1", "See 10.1000/182"]
    found = read_oai_dc(make(title="Chuva", identifier=others))
    assert [text for name, text in found if name == "identifier"] == [*others, f"{BASE}/{IBI}"]


def test_an_oai_dc_document_always_has_a_title() -> None:
    untitled = ("title", f"[Untitled] {IBI}")
    url = ("identifier", f"{BASE}/{IBI}")
    assert read_oai_dc(make(subject="chuva")) == [untitled, ("subject", "chuva"), url]
    assert read_oai_dc(make()) == [untitled, url]
    # the name of a file may be a secret
    named = make_work(Record(ibip=IBI), {}, BASE, title="secret.pdf")
    assert untitled in read_oai_dc(named)


def test_datacite_says_that_mandatory_values_are_unavailable() -> None:
    work = make(subject="chuva")
    check_schemas(work)
    assert find(work, "identifier") == [(work.url, {"identifierType": "URL"})]
    assert find(work, "titles/title") == [(IBI, {})]
    assert find(work, "creators/creator/creatorName") == [(":unav", {})]
    assert find(work, "publisher") == [(":unav", {})]
    assert find(work, "publicationYear") == [("0000", {})]
    assert find(work, "resourceType") == [("Other", {"resourceTypeGeneral": "Other"})]


def test_the_year_of_datacite_is_that_of_the_deposit_if_no_year_is_stated() -> None:
    moment = datetime(2011, 3, 4, tzinfo=timezone.utc)
    work = make_work(Record(ibip=IBI, timestamp=moment), {}, BASE)
    assert find(work, "publicationYear") == [("2011", {})]


def test_a_doi_identifies_the_work_in_datacite() -> None:
    work = make(title="Chuva", identifier="https://doi.org/10.1000/182", rights="CC BY 4.0")
    assert find(work, "identifier") == [("10.1000/182", {"identifierType": "DOI"})]
    assert find(work, "alternateIdentifiers/alternateIdentifier") == [
        (work.url, {"alternateIdentifierType": "URL"}),
        (IBI, {"alternateIdentifierType": "IBI"}),
    ]
    assert find(work, "rightsList/rights") == [("CC BY 4.0", CC_BY)]


CC_BY = {
    "rightsURI": "https://creativecommons.org/licenses/by/4.0/",
    "rightsIdentifier": "CC-BY-4.0",
    "rightsIdentifierScheme": "SPDX",
    "schemeURI": "https://spdx.org/licenses/",
}


def test_datacite_states_editions_translations_and_related_works() -> None:
    record = Record(ibip=IBI, next_edition="8J/2", translations={"en": "8J/3", "es": "8J/4"})
    related = ("doi:10.1000/a<b>", "https://doi.org/10.1000/182", "http://a.example/x")
    elements = {"relation": tuple((text, None) for text in related)}
    work = make_work(record, elements, BASE, previous_edition="8J/1", translation_of="8J/3")
    check_schemas(work)
    found = find(work, "relatedIdentifiers/relatedIdentifier")
    assert [(text, a["relatedIdentifierType"], a["relationType"]) for text, a in found] == [
        (f"{BASE}/8J/2", "URL", "IsPreviousVersionOf"),
        (f"{BASE}/8J/1", "URL", "IsNewVersionOf"),
        (f"{BASE}/8J/3", "URL", "IsTranslationOf"),
        (f"{BASE}/8J/4", "URL", "HasTranslation"),
        ("10.1000/a<b>", "DOI", "Other"),
        ("10.1000/182", "DOI", "Other"),
        ("http://a.example/x", "URL", "Other"),
    ]
    information = [a.get("relationTypeInformation") for _, a in found]
    assert information == [None] * 4 + ["dc:relation"] * 3


def test_datacite_states_grants() -> None:
    prefix = "info:eu-repo/grantAgreement"
    grants = [
        f"{prefix}/EC/FP7/244909",
        f"{prefix}/FAPESP//2010%2F12345-6/BR/Chuvas%20do%20sul/CHUVA/",
        f"{prefix}/EC/FP7/",
        f"{prefix}/EC",
    ]
    work = make(title="Chuva", relation=grants)
    check_schemas(work)
    group = "fundingReferences/fundingReference"
    assert find(work, f"{group}/funderName") == [("European Commission", {}), ("FAPESP", {})]
    assert find(work, f"{group}/awardNumber") == [("244909", {}), ("2010/12345-6", {})]
    assert find(work, f"{group}/awardTitle") == [("Chuvas do sul", {})]
    assert find(work, "relatedIdentifiers/relatedIdentifier") == []


def test_the_built_in_formats_have_different_names_and_types() -> None:
    registry = FormatRegistry(BUILT_IN)
    assert [format.name for format in registry] == [
        "oai_dc", "datacite", "datacite-json", "oai_openaire", "mtd3-br", "json-ld",
        "bibtex", "ris", "csl-json",
    ]  # fmt: skip
    assert len({format.media_type for format in registry}) == len([*registry]) == len(BUILT_IN)
    assert [format.name for format in registry if format.is_xml] == [*SCHEMA_FILES]
    assert registry.get("marcxml") is None


def test_a_format_of_the_host_is_added_or_replaces_another() -> None:
    registry = FormatRegistry(BUILT_IN)
    mine = MetadataFormat("datacite", "application/xml", lambda work: b"<x/>")
    registry.add(mine)
    assert registry.get("datacite") is mine
    assert len([*registry]) == len(BUILT_IN)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "m ods"}, "is not the name of a format"),
        ({"media_type": "xml"}, "is not a media type"),
        ({"schema": "http://a.example/a.xsd"}, "needs both a schema and a namespace"),
    ],
)
def test_a_wrong_format_is_refused(values: dict[str, str], message: str) -> None:
    format = {"name": "mods", "media_type": "application/xml", **values}
    with pytest.raises(ValueError, match=message):
        FormatRegistry().add(MetadataFormat(write=lambda work: "", **format))
