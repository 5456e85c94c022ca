"""Tests JSON-LD with the parser of others."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace
from rdflib import RDF, Graph, Literal, Namespace, URIRef
from rdflib.namespace import PROV, SDO, XSD
from support.cases import for_each
from support.metadata import BASE, IBI, works
from support.random_works import described_works

from flask_ibi_archive.core.records.description import (
    Container,
    Degree,
    Grant,
    Name,
    Organisation,
    RelatedWork,
    Subject,
    Title,
    WorkType,
)
from flask_ibi_archive.core.records.formats.json_ld import write_json_ld
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.core.records.values import parse_date
from flask_ibi_archive.core.records.work import Work, WorkFile, make_work

# rdflib's own parser of JSON-LD uses the class
pytestmark = pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")

S = Namespace("http://schema.org/")
URLS = ("url", "license", "sameAs", "contentUrl", "isPartOf", "isBasedOn", "inDefinedTermSet")
DATES = ("datePublished", "dateCreated", "dateModified")
#: What the context of schema.org says about the properties that we write.
CONTEXT = {
    "@vocab": str(S),
    **{name: {"@type": "@id"} for name in URLS},
    **{name: {"@type": f"{S}Date"} for name in DATES},
}
ORCID, ROR = "0000-0002-1825-0097", "https://ror.org/036rp1748"
FUNDER = "https://doi.org/10.13039/501100003593"
INPE = Organisation("Instituto Nacional de Pesquisas Espaciais", ROR)
THESIS = replace(
    make_work(Record(ibip=IBI, language="pt"), {}, BASE),
    title="Chuva",
    titles=(Title("Chuva", "pt"), Title("Rain", "en", "translated")),
    creators=(
        Name("Silva", "Ana", ORCID, "person", "1234567890123456", affiliations=(INPE,)),
        Name("Grupo de Chuva", kind="organisation", ror=ROR),
    ),
    contributors=(
        Name("Lima", "Eva", role="advisor"),
        Name("Reis", "Rui", role="editor"),
        Name("Sá", "Edu"),
    ),
    type=WorkType.DOCTORAL_THESIS,
    publisher="São José dos Campos: INPE",
    dates={"created": parse_date("2008-01-02")},
    degree=Degree("Doutorado em Meteorologia", "doctoral", "Meteorologia", INPE,
                  parse_date("2009-03-01")),
    abstracts=(("Chove.", "pt"), ('"Rain"\\ \u2028 falls', "en")),
    subjects=(Subject("chuva", "pt"), Subject("rain", "en", "LCSH", "http://id.example/1")),
    rights=(("© INPE", None),),
    licence_url="https://creativecommons.org/licenses/by/4.0/",
    access="embargoed",
    available=date(2027, 3, 1),
    version="2",
    extent="171 p.",
    related=(
        RelatedWork("doi:10.1000/182", "DOI", "https://doi.org/10.1000/182", "Cites"),
        RelatedWork("9788517000010", "ISBN", None, "IsPartOf"),
        RelatedWork("http://a.example/x", "URL", "http://a.example/x", "IsIdenticalTo"),
        RelatedWork("http://a.example/y", "URL", "http://a.example/y"),
    ),
    funding=(Grant("CNPq", "140123/2005-1", "Chuvas", FUNDER, "PQ", "http://a.example/g"),),
    files=(WorkFile("a.pdf", "http://a.example/a.pdf", "application/pdf", 12, "a" * 64),),
    archive_name="Repositório X",
)  # fmt: skip


def load(work: Work) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(write_json_ld(work))
    assert found["@context"] == "https://schema.org"
    return found


def read_graph(work: Work, context: dict[str, Any] = CONTEXT) -> Graph:
    """Return the graph. The context of schema.org would be a request to another host."""
    document = {**load(work), "@context": context}
    return Graph().parse(data=json.dumps(document), format="json-ld")


@given(works | described_works)
def test_any_work_uses_terms_of_schema_org_and_prov(work: Work) -> None:
    graph = read_graph(work, {"@vocab": str(SDO)})
    terms = {*graph.predicates(), *graph.objects(predicate=RDF.type)} - {RDF.type}
    # rdflib has a version of the vocabulary before 13.0
    names = {str(term).removeprefix(str(SDO)) for term in terms if term not in PROV} - {"funding"}
    assert names <= SDO.__annotations__.keys()
    assert graph.value(URIRef(work.url), SDO.name) == Literal(work.title)
    assert "<" not in write_json_ld(work)


def test_the_provenance_is_stated_in_prov() -> None:
    time = datetime(2026, 11, 26, 20, 35, 37, tzinfo=timezone.utc)
    first, original = f"{BASE}/J8LNKAN8RW/38KJF4E", f"{BASE}/J8LNKAN8RW/38KJF4F"
    work = replace(THESIS, deposited=time, previous_edition=first, translation_of=original)
    graph = read_graph(work)
    found = {
        (term.removeprefix(str(PROV)), value)
        for term, value in graph.predicate_objects(URIRef(work.url))
        if term in PROV
    }
    assert found == {
        ("wasAttributedTo", URIRef(f"https://orcid.org/{ORCID}")),
        ("wasAttributedTo", URIRef(ROR)),
        ("generatedAtTime", Literal("2026-11-26T20:35:37+00:00", datatype=XSD.dateTime)),
        ("wasRevisionOf", URIRef(first)),
        ("wasDerivedFrom", URIRef(original)),
    }


def test_a_thesis_has_people_degree_grant_access_and_files() -> None:
    inpe = {"@type": "Organization", "@id": ROR, "identifier": ROR, "name": INPE.name}
    cnpq = {"@type": "Organization", "@id": FUNDER, "identifier": FUNDER, "name": "CNPq"}
    orcid = f"https://orcid.org/{ORCID}"
    found = load(replace(THESIS, doi="10.1000/182"))
    assert found["identifier"] == [
        {"@type": "PropertyValue", "propertyID": "DOI", "value": "10.1000/182"},
        {"@type": "PropertyValue", "propertyID": "IBI", "value": IBI},
    ]
    assert found["author"] == [
        {
            "@type": "Person",
            "@id": orcid,
            "identifier": orcid,
            "sameAs": "http://lattes.cnpq.br/1234567890123456",
            "name": "Ana Silva",
            "givenName": "Ana",
            "familyName": "Silva",
            "affiliation": [inpe],
        },
        {"@type": "Organization", "@id": ROR, "identifier": ROR, "name": "Grupo de Chuva"},
    ]
    assert found["contributor"] == [
        {
            "@type": "Role",
            "roleName": "advisor",
            "contributor": {
                "@type": "Person", "name": "Eva Lima", "givenName": "Eva", "familyName": "Lima",
            },
        },
        {"@type": "Person", "name": "Edu Sá", "givenName": "Edu", "familyName": "Sá"},
    ]  # fmt: skip
    assert [editor["name"] for editor in found["editor"]] == ["Rui Reis"]
    assert found["inSupportOf"] == "Doutorado em Meteorologia"
    programme = {"@type": "Organization", "name": "Meteorologia"}
    assert found["sourceOrganization"] == {**inpe, "department": programme}
    assert (found["datePublished"], found["dateCreated"]) == ("2009-03-01", "2008-01-02")
    assert found["funding"] == [
        {
            "@type": "Grant",
            "identifier": "140123/2005-1",
            "name": "Chuvas",
            "url": "http://a.example/g",
            "funder": cnpq,
            "isPartOf": {"@type": "Grant", "name": "PQ"},
        }
    ]
    assert found["funder"] == [cnpq]
    assert found["keywords"][1] == {
        "@type": "DefinedTerm",
        "@id": "http://id.example/1",
        "name": "rain",
        "inDefinedTermSet": {"@type": "DefinedTermSet", "name": "LCSH"},
    }
    assert found["isAccessibleForFree"] is False
    assert found["conditionsOfAccess"] == [
        "http://purl.org/coar/access_right/c_f1cf",
        "available from 2027-03-01",
    ]
    assert found["encoding"][0]["sha256"] == "a" * 64
    assert found["provider"] == {"@type": "Organization", "name": "Repositório X"}
    assert (found["license"], found["inLanguage"]) == (THESIS.licence_url, "pt")
    assert [one["identifier"] for one in found["citation"]] == ["doi:10.1000/182"]
    assert [one["identifier"] for one in found["mentions"]] == ["http://a.example/y"]
    assert found["isPartOf"] == {"@type": "CreativeWork", "identifier": "9788517000010"}
    assert found["sameAs"] == ["https://doi.org/10.1000/182", "http://a.example/x"]


def test_a_data_set_is_in_a_catalogue_and_an_article_in_an_issue() -> None:
    found = load(replace(THESIS, type=WorkType.DATASET))
    assert found["includedInDataCatalog"] == {"@type": "DataCatalog", "name": "Repositório X"}
    assert "provider" not in found
    assert found["distribution"][0] == {
        "@type": "DataDownload",
        "name": "a.pdf",
        "contentUrl": "http://a.example/a.pdf",
        "encodingFormat": "application/pdf",
        "contentSize": "12 B",
        "sha256": "a" * 64,
    }
    journal = Container("Revista X", volume="2", number="1", pages="7-18")
    parts = load(replace(THESIS, type=WorkType.ARTICLE, container=journal))["isPartOf"]
    assert [part["@type"] for part in parts] == ["PublicationIssue", "CreativeWork"]


@for_each(
    ("access", "right", "is_free", "condition"),
    [
        ("open", None, True, "c_abf2"),
        ("open", "restricted", True, "c_abf2"),
        (None, "open", True, "c_abf2"),
        (None, "metadata only", False, "c_14cb"),
        (None, None, None, None),
    ],
)
def test_the_access_is_stated_in_words_of_coar(
    access: Any, right: Any, is_free: bool | None, condition: str | None
) -> None:
    found = load(replace(THESIS, access=access, access_right=right))
    assert found.get("isAccessibleForFree") is is_free
    stated = condition and f"http://purl.org/coar/access_right/{condition}"
    assert found.get("conditionsOfAccess") == stated
