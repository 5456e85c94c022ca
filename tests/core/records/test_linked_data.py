"""JSON-LD with the parser of others; test_formats has documents of whole works."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace
from rdflib import RDF, Graph, Literal, Namespace, URIRef
from rdflib.namespace import PROV, SDO, XSD
from support.metadata import BASE, load_work, works

from flask_ibi_archive.core.records.description import WorkType, parse_name
from flask_ibi_archive.core.records.formats.json_ld import write_json_ld
from flask_ibi_archive.core.records.work import Work

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
THESIS = load_work("thesis")


def load(work: Work) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(write_json_ld(work))
    assert found["@context"] == "https://schema.org"
    return found


def read_graph(work: Work, context: dict[str, Any] = CONTEXT) -> Graph:
    """Return the graph. The context of schema.org would be a request to another host."""
    document = {**load(work), "@context": context}
    return Graph().parse(data=json.dumps(document), format="json-ld")


@given(works)
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
    found = {
        (term.removeprefix(str(PROV)), value)
        for term, value in read_graph(work).predicate_objects(URIRef(work.url))
        if term in PROV
    }
    assert found == {
        ("wasAttributedTo", URIRef("https://orcid.org/0000-0002-1825-0097")),
        ("generatedAtTime", Literal("2026-11-26T20:35:37+00:00", datatype=XSD.dateTime)),
        ("wasRevisionOf", URIRef(first)),
        ("wasDerivedFrom", URIRef(original)),
    }


def test_only_a_data_set_is_in_a_catalogue_of_data() -> None:
    found = load(replace(THESIS, type=WorkType.DATASET))
    assert found["includedInDataCatalog"] == {"@type": "DataCatalog", "name": "Repositório X"}
    assert [one["@type"] for one in found["distribution"]] == ["DataDownload"]
    assert not {"provider", "encoding"} & found.keys()


def test_the_access_is_stated_in_words_of_coar() -> None:
    for access, right, is_free, condition in (
        ("open", None, True, "c_abf2"),
        ("open", "restricted", True, "c_abf2"),
        (None, "open", True, "c_abf2"),
        (None, "metadata only", False, "c_14cb"),
        (None, None, None, None),
    ):
        stated = condition and f"http://purl.org/coar/access_right/{condition}"
        found = load(replace(THESIS, access=access, access_right=right))
        assert (found.get("isAccessibleForFree"), found.get("conditionsOfAccess")) == (
            is_free,
            stated,
        )


def test_a_person_has_the_parts_of_the_name() -> None:
    name = load(replace(THESIS, creators=(parse_name("Silva, José da, Jr."),)))["author"][0]
    parts = ("name", "familyName", "givenName", "honorificSuffix")
    assert [name[part] for part in parts] == ["José da Silva Jr.", "Silva", "José da", "Jr."]
