"""The identifiers of a work in other systems, in all formats, citations and page heads (FI-5)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from lxml import etree
from support.metadata import BASE, IBI, load_schema, load_validator

from flask_ibi_archive.core.records.formats import BUILT_IN
from flask_ibi_archive.core.records.page_head import list_meta_tags
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.core.records.work import Work, make_work

DOI, SECOND_DOI = "doi:10.5281/Zenodo.12", "doi:10.1000/a<b>"
OTHERS = (
    "hdl:20.500.12345/678",
    "ark:12345/x54xz321",
    "urn:nbn:br:bn-1",
    "http://old.example.org/handle/1/2?x=y&z",
)
URIS = (
    "https://hdl.handle.net/20.500.12345/678",
    "https://n2t.net/ark:12345/x54xz321",
    "urn:nbn:br:bn-1",
    "http://old.example.org/handle/1/2?x=y&z",
)
DOI_URL = "https://doi.org/10.5281/Zenodo.12"
WRITE: dict[str, Any] = {format.name: format.write for format in BUILT_IN}


def work_with(*same_as: str, **dc: str) -> Work:
    """Return a work with identifiers in other systems."""
    elements = {name: ((text, None),) for name, text in {"title": "Chuva", **dc}.items()}
    return make_work(Record(ibip=IBI, same_as=same_as), elements, BASE)


def identifiers_of(work: Work) -> list[str]:
    """Return the values of dc:identifier other than the persistent URL."""
    root = etree.fromstring(WRITE["oai_dc"](work).encode())
    load_schema("oai_dc").assertValid(root)
    found = [one.text for one in root.iter("{http://purl.org/dc/elements/1.1/}identifier")]
    found.remove(f"{BASE}/{IBI}")
    return found


@pytest.mark.rule("FI-5")
def test_oai_dc_has_all_of_them() -> None:
    assert identifiers_of(work_with(DOI, *OTHERS)) == [DOI_URL, *URIS]


@pytest.mark.rule("FI-5")
def test_oai_dc_repeats_none_that_the_dublin_core_states() -> None:
    stated = "https://doi.org/10.5281/ZENODO.12"
    assert identifiers_of(work_with(DOI, OTHERS[0], identifier=stated)) == [stated, URIS[0]]


@pytest.mark.rule("FI-5")
def test_datacite_says_that_they_are_identical() -> None:
    work = work_with(DOI, SECOND_DOI, *OTHERS)
    root = etree.fromstring(WRITE["datacite"](work).encode())
    load_schema("datacite").assertValid(root)
    load_validator().validate(json.loads(WRITE["datacite-json"](work)))
    space = "{http://datacite.org/schema/kernel-4}"
    own = root.find(f"{space}identifier")
    assert (own.text, own.get("identifierType")) == ("10.5281/Zenodo.12", "DOI")
    related = [
        (found.get("relatedIdentifierType"), found.text, found.get("relationType"))
        for found in root.iter(f"{space}relatedIdentifier")
    ]
    assert related == [
        ("DOI", "10.1000/a<b>", "IsIdenticalTo"),
        ("Handle", "20.500.12345/678", "IsIdenticalTo"),
        ("ARK", "ark:12345/x54xz321", "IsIdenticalTo"),
        ("URN", "urn:nbn:br:bn-1", "IsIdenticalTo"),
        ("URL", "http://old.example.org/handle/1/2?x=y&z", "IsIdenticalTo"),
    ]


@pytest.mark.rule("FI-5")
def test_json_ld_links_to_them() -> None:
    assert json.loads(WRITE["json-ld"](work_with(*OTHERS, DOI)))["sameAs"] == [DOI_URL, *URIS]
    assert json.loads(WRITE["json-ld"](work_with(OTHERS[0])))["sameAs"] == URIS[0]
    assert "sameAs" not in json.loads(WRITE["json-ld"](work_with()))


def test_the_doi_of_the_dublin_core_is_preferred() -> None:
    """It is the one that the authors cite."""
    work = work_with(DOI, identifier="doi:10.1000/182")
    assert work.doi == "10.1000/182"
    assert work.same_as_uris == ["https://doi.org/10.1000/182", DOI_URL]


def test_the_head_of_the_page_has_all_of_them() -> None:
    tags = [(tag.name, tag.content) for tag in list_meta_tags(work_with(DOI, *OTHERS))]
    assert ("citation_doi", "10.5281/Zenodo.12") in tags
    assert [text for name, text in tags if name == "DC.identifier"] == [
        f"{BASE}/{IBI}",
        DOI_URL,
        *URIS,
    ]
