"""Tests the formats of metadata against XML schemas and the vocabulary of schema.org.

``IBI_TEST_WORKS=100000 pytest -m slow tests/core/records/test_formats.py`` tests as many random
works as the variable says.
"""

from __future__ import annotations

import json
import os
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from lxml import etree
from support.cases import for_each
from support.metadata import BASE, IBI, SCHEMA_FILES, is_valid_json, load_schema, make, works
from support.random_works import described_works, make_random_work

from flask_ibi_archive.core.records.description import derive_dublin_core, parse_description
from flask_ibi_archive.core.records.formats import BUILT_IN, FormatRegistry, MetadataFormat
from flask_ibi_archive.core.records.formats.common import find_language_code
from flask_ibi_archive.core.records.page_head import list_meta_tags
from flask_ibi_archive.core.records.record import AccessRule, FileRecord, Record
from flask_ibi_archive.core.records.work import Work, WorkFile, make_work

SCHEMAS = {name: load_schema(name) for name in SCHEMA_FILES}
WRITE: dict[str, Any] = {format.name: format.write for format in BUILT_IN}
DATACITE = "{http://datacite.org/schema/kernel-4}"
#: The number of works of the long run.
WORKS = int(os.environ.get("IBI_TEST_WORKS", "2000"))
#: A thesis and an article, and what XPath finds in each format for aggregators.
CASES = json.loads(Path(__file__).with_name("aggregator_cases.json").read_text("utf-8"))


def read_xml(name: str, work: Work) -> Any:
    """Return the root of the document, which must be valid by the official schema."""
    root = etree.fromstring(WRITE[name](work).encode())
    SCHEMAS[name].assertValid(root)
    return root


# --- all formats ---------------------------------------------------------------------------------


def check_formats(work: Work) -> None:
    for name in SCHEMAS:
        read_xml(name, work)
    assert is_valid_json(json.loads(WRITE["datacite-json"](work)))


@given(works | described_works)
def test_every_format_of_any_work_is_valid(work: Work) -> None:
    check_formats(work)


@pytest.mark.slow
def test_every_format_of_very_many_works_is_valid() -> None:
    for seed in range(WORKS):
        try:
            check_formats(make_random_work(seed))
        except Exception as error:
            raise AssertionError(f"the work of seed {seed} is not valid: {error}") from error


def describe(fields: dict[str, Any], **options: Any) -> Work:
    described = parse_description("metadata.work", fields)
    record = Record(ibip=IBI, language="pt-BR", embargo=date(2027, 3, 1), files=TEXT)
    elements = derive_dublin_core(described)
    return make_work(record, elements, BASE, description=described, **options)


TEXT = (FileRecord("tese.pdf"),)
FILE = WorkFile("tese.pdf", "http://a.example/1", "application/pdf", 12, "0" * 64)
DESCRIBED = {
    "thesis": describe(CASES["thesis"], today=date(2026, 1, 1), files=[FILE]),
    "article": describe(CASES["article"]),
}


@for_each(
    ("work", "format"), [(work, format) for work in CASES["says"] for format in CASES["says"][work]]
)
def test_a_work_is_described(work: str, format: str) -> None:
    root = read_xml(format, DESCRIBED[work])
    spaces = {prefix or "d": uri for prefix, uri in root.nsmap.items()}
    expected = CASES["says"][work][format]
    found = {path: root.xpath(path, namespaces=spaces) for path in expected}
    # elements, or attributes
    assert {path: [getattr(one, "text", one) for one in found[path]] for path in found} == expected


@for_each(
    ("tag", "code"),
    [("pt-BR", "por"), ("pt_BR", "por"), ("zh-Hant-TW", "zho"), ("eng", "eng"),
     ("inglês", "inglês")],
)  # fmt: skip
def test_a_language_is_written_as_iso_639_3(tag: str, code: str) -> None:
    assert find_language_code(tag) == code


# --- Dublin Core ---------------------------------------------------------------------


def read_oai_dc(work: Work) -> list[tuple[str, str | None]]:
    """Return the names and the values of the elements of an oai_dc document."""
    return [(etree.QName(child).localname, child.text) for child in read_xml("oai_dc", work)]


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
EMBARGO_END = "info:eu-repo/date/embargoEnd"
COAR = "http://purl.org/coar/resource_type/"


@for_each(
    ("fields", "expected"),
    [
        ({"files": FILES, "embargo": date(2027, 1, 1)},
         [("date", f"{EMBARGO_END}/2027-01-01"), ("rights", f"{RIGHTS}embargoedAccess")]),
        ({"files": FILES, "embargo": DAY}, [("rights", f"{RIGHTS}openAccess")]),
        ({"access": AccessRule(("192.0.2.0/24",)), "embargo": date(2027, 1, 1)},
         [("rights", f"{RIGHTS}restrictedAccess")]),
        ({"language": "pt-BR"}, [("language", "por")]),
        # the description is about another item
        ({"content_type": "Metadata", "language": "pt", "files": FILES}, []),
    ],
)  # fmt: skip
def test_oai_dc_says_what_the_archive_knows(
    fields: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    assert known(Record(ibip=IBI, **fields)) == expected


def test_oai_dc_adds_nothing_that_the_dublin_core_states() -> None:
    record = Record(ibip=IBI, files=FILES, language="pt", embargo=date(2027, 1, 1))
    for right in (f"{RIGHTS}closedAccess", "http://purl.org/coar/access_right/c_f1cf"):
        stated = {"language": "por", "rights": right, "date": f"{EMBARGO_END}/2027"}
        assert known(record, **stated) == []
    # a licence and a year say nothing about the access
    assert len(known(record, rights="CC BY 4.0", date="2026")) == 3


def test_oai_dc_contains_terms_of_two_vocabularies_for_the_type() -> None:
    for stated, terms in {
        "Tese (Doutorado em Letras)": [f"{RIGHTS}doctoralThesis", f"{COAR}c_db06"],
        f"{RIGHTS}article": [f"{COAR}c_6501"],
        f"{COAR}c_2df8fbb1": [f"{RIGHTS}article"],  # a research article
        "Conjunto de dados": ["http://purl.org/dc/dcmitype/Dataset", f"{COAR}c_ddb1"],
        "Hieróglifo": [],
    }.items():
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


# --- DataCite ------------------------------------------------------------------------------------


def find(work: Work, path: str) -> list[tuple[str | None, dict[str, str]]]:
    """Return the texts and attributes of the elements of a DataCite document."""
    root = read_xml("datacite", work)
    steps = "/".join(f"{DATACITE}{step}" for step in path.split("/"))
    return [
        (found.text, {str(k): str(v) for k, v in found.attrib.items()})
        for found in root.findall(steps)
    ]


def test_datacite_says_that_mandatory_values_are_unavailable() -> None:
    work = make(subject="chuva")
    check_formats(work)
    assert find(work, "identifier") == [(work.url, {"identifierType": "URL"})]
    assert find(work, "titles/title") == [(IBI, {})]
    assert find(work, "creators/creator/creatorName") == [(":unav", {})]
    assert find(work, "publisher") == [(":unav", {})]
    assert find(work, "publicationYear") == [("0000", {})]
    assert find(work, "resourceType") == [("Other", {"resourceTypeGeneral": "Other"})]
    # the year of the deposit is known
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
    check_formats(work)
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
    check_formats(work)
    group = "fundingReferences/fundingReference"
    assert find(work, f"{group}/funderName") == [("European Commission", {}), ("FAPESP", {})]
    assert find(work, f"{group}/awardNumber") == [("244909", {}), ("2010/12345-6", {})]
    assert find(work, f"{group}/awardTitle") == [("Chuvas do sul", {})]
    assert find(work, "relatedIdentifiers/relatedIdentifier") == []


# --- identifiers in other systems ----------------------------------------------------------------

DOI, SECOND_DOI = "doi:10.5281/Zenodo.12", "doi:10.1000/a<b>"
DOI_URL = "https://doi.org/10.5281/Zenodo.12"
#: The other identifiers, and their URIs.
OTHERS = {
    "hdl:20.500.12345/678": "https://hdl.handle.net/20.500.12345/678",
    "ark:12345/x54xz321": "https://n2t.net/ark:12345/x54xz321",
    "urn:nbn:br:bn-1": "urn:nbn:br:bn-1",
    "http://old.example.org/handle/1/2?x=y&z": "http://old.example.org/handle/1/2?x=y&z",
}
URIS = [*OTHERS.values()]


def work_with(*same_as: str, **dc: str) -> Work:
    """Return a work with identifiers in other systems."""
    elements = {name: ((text, None),) for name, text in {"title": "Chuva", **dc}.items()}
    return make_work(Record(ibip=IBI, same_as=same_as), elements, BASE)


@pytest.mark.rule("FI-5")
def test_oai_dc_and_the_page_have_all_identifiers_and_repeat_none() -> None:
    def list_identifiers(work: Work) -> list[str | None]:
        return [text for name, text in read_oai_dc(work) if name == "identifier"]

    all_uris = [f"{BASE}/{IBI}", DOI_URL, *URIS]
    assert list_identifiers(work_with(DOI, *OTHERS)) == all_uris
    stated = "https://doi.org/10.5281/ZENODO.12"
    found = list_identifiers(work_with(DOI, next(iter(OTHERS)), identifier=stated))
    assert found == [stated, f"{BASE}/{IBI}", URIS[0]]
    tags = [(tag.name, tag.content) for tag in list_meta_tags(work_with(DOI, *OTHERS))]
    assert ("citation_doi", "10.5281/Zenodo.12") in tags
    assert [text for name, text in tags if name == "DC.identifier"] == all_uris


@pytest.mark.rule("FI-5")
def test_datacite_says_that_they_are_identical() -> None:
    work = work_with(DOI, SECOND_DOI, *OTHERS)
    check_formats(work)
    assert find(work, "identifier") == [("10.5281/Zenodo.12", {"identifierType": "DOI"})]
    related = find(work, "relatedIdentifiers/relatedIdentifier")
    assert [(a["relatedIdentifierType"], text, a["relationType"]) for text, a in related] == [
        ("DOI", "10.1000/a<b>", "IsIdenticalTo"),
        ("Handle", "20.500.12345/678", "IsIdenticalTo"),
        ("ARK", "ark:12345/x54xz321", "IsIdenticalTo"),
        ("URN", "urn:nbn:br:bn-1", "IsIdenticalTo"),
        ("URL", "http://old.example.org/handle/1/2?x=y&z", "IsIdenticalTo"),
    ]


@pytest.mark.rule("FI-5")
def test_json_ld_links_to_them() -> None:
    def link(*same_as: str) -> object:
        return json.loads(WRITE["json-ld"](work_with(*same_as))).get("sameAs")

    assert link(*OTHERS, DOI) == [DOI_URL, *URIS]
    assert link(next(iter(OTHERS))) == URIS[0]
    assert link() is None
    # the DOI of the Dublin Core is preferred: it is the one that the authors cite
    work = work_with(DOI, identifier="doi:10.1000/182")
    assert work.doi == "10.1000/182"
    assert work.same_as_uris == ["https://doi.org/10.1000/182", DOI_URL]


# --- the registry --------------------------------------------------------------------------------


def test_the_built_in_formats_have_different_names_and_types() -> None:
    registry = FormatRegistry(BUILT_IN)
    assert [format.name for format in registry] == [
        "oai_dc", "datacite", "datacite-json", "oai_openaire", "mtd3-br", "json-ld",
        "bibtex", "ris", "csl-json",
    ]  # fmt: skip
    assert len({format.media_type for format in registry}) == len([*registry]) == len(BUILT_IN)
    assert [format.name for format in registry if format.is_xml] == [*SCHEMA_FILES]
    assert registry.get("marcxml") is None

    # a format of the host is added, or replaces another
    mine = MetadataFormat("datacite", "application/xml", lambda work: b"<x/>")
    registry.add(mine)
    assert registry.get("datacite") is mine
    assert len([*registry]) == len(BUILT_IN)


@for_each(
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
