"""The formats of metadata, with the schemas and parsers of others.

``IBI_TEST_WORKS=100000 pytest tests/core/records/test_formats.py`` tests as many random
works as the variable says. ``pytest --snapshot-update`` writes the documents of the examples anew.
"""

from __future__ import annotations

import json
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from lxml import etree
from support.metadata import BASE, FOLDER, IBI, SCHEMA_FILES, load_schema, load_work, works
from support.vectors import load
from syrupy.assertion import SnapshotAssertion

from flask_ibi_archive.core.records.formats import BUILT_IN, FormatRegistry, MetadataFormat
from flask_ibi_archive.core.records.formats.brazilian import cite
from flask_ibi_archive.core.records.page_head import list_item_links, list_meta_tags
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.core.records.work import Work, make_work

SCHEMAS = {name: load_schema(name) for name in SCHEMA_FILES}
WRITE: dict[str, Any] = {format.name: format.write for format in BUILT_IN}


def read_xml(name: str, work: Work) -> Any:
    """Return the root of the document, which must be valid by the official schema."""
    root = etree.fromstring(WRITE[name](work).encode())
    SCHEMAS[name].assertValid(root)
    return root


#: The lists of terms of the JSON schema that kernels 4.6 and 4.7 have extended.
_EXTENDED = {
    **{name: name for name in ("contributorType", "dateType", "relationType")},
    "relatedIdentifierType": "relatedIdentifierType",
    "resourceTypeGeneral": "resourceType",
}


@cache
def load_validator() -> Any:
    """Return a validator of DataCite's JSON, with the terms of kernel 4.7.

    The package ``datacite`` contains the schema of kernel 4.5. The package itself is not imported,
    because it needs the network.
    """
    spec = find_spec("datacite")
    assert spec is not None
    [folder] = spec.submodule_search_locations or ()
    schema = json.loads((Path(folder) / "schemas/datacite-v4.5.json").read_text(encoding="utf-8"))
    for name, file in _EXTENDED.items():
        root = etree.parse(FOLDER / f"datacite-4.7/include/datacite-{file}-v4.xsd")
        terms = {str(one.get("value")) for one in root.iter("{*}enumeration")}
        assert terms >= {*schema["definitions"][name]["enum"]}
        schema["definitions"][name]["enum"] = sorted(terms)
    schema["definitions"]["relatedObject"]["properties"]["relationTypeInformation"] = {}
    return jsonschema_rs.Draft201909Validator(schema)


@settings(max_examples=int(os.environ.get("IBI_TEST_WORKS", settings.default.max_examples)))
@given(works)
def test_every_format_of_any_work_is_valid(work: Work) -> None:
    for name in SCHEMAS:
        read_xml(name, work)
    load_validator().validate(json.loads(WRITE["datacite-json"](work)))


@pytest.mark.parametrize("name", load("works.json"))
def test_the_documents_of_a_work(name: str, snapshot: SnapshotAssertion) -> None:
    work = load_work(name)
    for format in BUILT_IN:
        assert format.write(work) == snapshot(name=format.name)
    assert "".join(part.text for part in cite(work)) == snapshot(name="citation")
    tags = (f"{tag.name}: {tag.content}" for tag in list_meta_tags(work, "http://a.example/1"))
    assert "\n".join(tags) == snapshot(name="meta tags")
    links = list_item_links(work, {"http://a.example/oai_dc": "text/xml"})
    assert "\n".join(link.format() for link in links) == snapshot(name="links")


# --- identifiers in other systems ----------------------------------------------------------------

SAME_AS = load("works.json")["data set"]["record"]["same_as"]
DOI_URL = "https://doi.org/10.5281/Zenodo.12"
URIS = [
    "https://hdl.handle.net/20.500.12345/678", "https://n2t.net/ark:12345/x54xz321",
    "urn:nbn:br:bn-1", "http://old.example.org/handle/1/2?x=y&z",
]  # fmt: skip


def work_with(*same_as: str, **dc: str) -> Work:
    """Return a work with identifiers in other systems."""
    elements = {name: ((text, None),) for name, text in {"title": "Chuva", **dc}.items()}
    return make_work(Record(ibip=IBI, same_as=same_as), elements, BASE)


@pytest.mark.rule("FI-5")
def test_oai_dc_and_the_page_have_all_identifiers_and_repeat_none() -> None:
    def list_identifiers(work: Work) -> list[str]:
        return [child.text for child in read_xml("oai_dc", work).iter("{*}identifier")]

    work = work_with(SAME_AS[0], *SAME_AS[2:])
    all_uris = [f"{BASE}/{IBI}", DOI_URL, *URIS]
    assert list_identifiers(work) == all_uris
    stated = "https://doi.org/10.5281/ZENODO.12"
    found = list_identifiers(work_with(SAME_AS[0], SAME_AS[2], identifier=stated))
    assert found == [stated, f"{BASE}/{IBI}", URIS[0]]
    tags = [(tag.name, tag.content) for tag in list_meta_tags(work)]
    assert ("citation_doi", "10.5281/Zenodo.12") in tags
    assert [text for name, text in tags if name == "DC.identifier"] == all_uris


@pytest.mark.rule("FI-5")
def test_json_ld_links_to_them() -> None:
    def link(*same_as: str) -> object:
        return json.loads(WRITE["json-ld"](work_with(*same_as))).get("sameAs")

    assert link(*SAME_AS[2:], SAME_AS[0]) == [DOI_URL, *URIS]
    assert link(SAME_AS[2]) == URIS[0]
    assert link() is None
    # the DOI of the Dublin Core is preferred: it is the one that the authors cite
    work = work_with(SAME_AS[0], identifier="doi:10.1000/182")
    assert (work.doi, work.same_as_uris) == (
        "10.1000/182",
        ["https://doi.org/10.1000/182", DOI_URL],
    )


# --- the registry --------------------------------------------------------------------------------


def test_the_built_in_formats_have_different_names_and_types() -> None:
    registry = FormatRegistry(BUILT_IN)
    names = "oai_dc datacite datacite-json oai_openaire mtd3-br json-ld bibtex ris csl-json"
    assert " ".join(format.name for format in registry) == names
    assert len({format.media_type for format in registry}) == len([*registry]) == len(BUILT_IN)
    assert [format.name for format in registry if format.is_xml] == [*SCHEMA_FILES]
    assert registry.get("marcxml") is None
    # a format of the host is added, or replaces another
    mine = MetadataFormat("datacite", "application/xml", lambda work: b"<x/>")
    registry.add(mine)
    assert registry.get("datacite") is mine
    assert len([*registry]) == len(BUILT_IN)


def test_a_wrong_format_is_refused() -> None:
    for values, message in (
        ({"name": "m ods"}, "is not the name of a format"),
        ({"media_type": "xml"}, "is not a media type"),
        ({"schema": "http://a.example/a.xsd"}, "needs both a schema and a namespace"),
    ):
        format = {"name": "mods", "media_type": "application/xml", **values}
        with pytest.raises(ValueError, match=message):
            FormatRegistry().add(MetadataFormat(write=lambda work: "", **format))
