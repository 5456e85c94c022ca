"""Works for the tests of metadata formats, and the schemas that validate the documents."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema_rs
from hypothesis import strategies as st
from jsonschema import Draft201909Validator
from lxml import etree

from flask_ibi_archive.core.records.record import (
    ELEMENTS,
    AccessRule,
    DublinCore,
    FileRecord,
    Record,
)
from flask_ibi_archive.core.records.values import NOT_XML
from flask_ibi_archive.core.records.work import Work, WorkFile, make_work
from support.commands import ROOT

IBI = "8JMKD3MGP8W/35MME4E"
BASE = "http://urlib.net"

#: Any text of Unicode, with control characters and halves of surrogate pairs.
texts = st.text(st.characters(), max_size=40)
_words = st.sampled_from(
    [
        "Silva, Ana", "INPE", "São Paulo: USP", "Chuva: um estudo", "2009-07-21", "c. 1998",
        "1998-08", "31/12/2001", "article", "Tese (Doutorado em Letras)", "Dataset",
        "Silva, Ana (0000-0002-1825-0097)", "info:eu-repo/semantics/article",
        "info:eu-repo/grantAgreement/EC/FP7/1", "10.1000/182",
        "Capítulo de livro",
        "doi:10.1590/S1519-70772014000100002", "https://doi.org/10.1000/a<b>&c", "CC BY 4.0",
        "https://creativecommons.org/licenses/by/4.0/", "http://example.org/x?a=1&b=%", "1234-567X",
        "ISBN 978-85-17-00001-1", "Revista X, São Paulo, v. 2, n. 1, p. 7-18, 2004", "por", "pt-BR",
    ]
)  # fmt: skip
_languages = st.sampled_from([None, "pt", "pt-BR", "en", "", "x y", "português"])
_values = st.lists(st.tuples(st.one_of(texts, _words), _languages), max_size=3).map(tuple)
#: The Dublin Core of works. The values are any texts, or texts that have a meaning.
dublin_cores: st.SearchStrategy[DublinCore] = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(ELEMENTS, _values)
)
_options = st.fixed_dictionaries(
    {},
    optional={
        "previous_edition": st.just("8JMKD3MGP8W/35MME4S"),
        "translation_of": st.sampled_from([None, "8JMKD3MGP8W/35MME4Q", "8JMKD3MGP8W/35MME4P"]),
        "today": st.dates(),
        "title": texts,
        "files": st.lists(
            st.builds(
                WorkFile,
                texts,
                st.just("http://example.org/file"),
                st.sampled_from([None, "application/pdf"]),
                st.one_of(st.none(), st.integers(0, 10**12)),
            ),
            max_size=2,
        ),
    },
)
_records = st.builds(
    Record,
    ibip=st.just(IBI),
    rep=st.sampled_from([None, "sid.inpe.br/mtc-m18@80/2009/07.21.13.23"]),
    timestamp=st.one_of(st.none(), st.datetimes()),
    language=st.sampled_from([None, "pt", "en"]),
    next_edition=st.sampled_from([None, "8JMKD3MGP8W/35MME4R"]),
    translations=st.sampled_from([{}, {"en": "8JMKD3MGP8W/35MME4Q"}]),
    embargo=st.one_of(st.none(), st.dates()),
    access=st.sampled_from([None, AccessRule(("192.0.2.0/24",))]),
    files=st.sampled_from([(), (FileRecord("a.pdf"),)]),
)


def _build(record: Record, dublin_core: DublinCore, options: dict[str, Any]) -> Work:
    return make_work(record, dublin_core, BASE, **options)


works = st.builds(_build, _records, dublin_cores, _options)


def make(**dc: str | list[str]) -> Work:
    """Return the work that has the values of Dublin Core."""
    elements = {
        name: tuple((text, None) for text in ([values] if isinstance(values, str) else values))
        for name, values in dc.items()
    }
    return make_work(Record(ibip=IBI), elements, BASE)


def one_line(text: str) -> str:
    """Return what remains of a text in a format without line breaks and control characters."""
    return " ".join(NOT_XML.sub("\ufffd", text).split()) if text.strip() else ""


FOLDER = ROOT / "tests/data/schemas"


#: The files of the schemas that validate documents, by the names of formats.
SCHEMA_FILES = {
    "oai_dc": "oai_dc.xsd",
    "datacite": "datacite-4.7/metadata.xsd",
    "oai_openaire": "openaire-4.0/openaire.xsd",
    "mtd3-br": "mtd3-br.xsd",
}


class _Folder(etree.Resolver):
    def resolve(self, system_url: str | None, public_id: str | None, context: Any) -> Any:
        """Return the file that has the name in a URL; nothing is read from the network."""
        if not (system_url or "").startswith("http"):
            return None  # a file beside the schema
        name = (system_url or "").rpartition("/")[2]
        return self.resolve_filename(str(FOLDER / name), context)


def load_schema(name: str) -> etree.XMLSchema:
    """Return the schema of a format, or a schema by the name of its file without the extension."""
    parser = etree.XMLParser(no_network=True)
    parser.resolvers.add(_Folder())
    return etree.XMLSchema(etree.parse(FOLDER / SCHEMA_FILES.get(name, f"{name}.xsd"), parser))


#: The lists of terms of the JSON schema that kernels 4.6 and 4.7 have extended.
_EXTENDED = {
    "contributorType": "contributorType",
    "dateType": "dateType",
    "relationType": "relationType",
    "relatedIdentifierType": "relatedIdentifierType",
    "resourceTypeGeneral": "resourceType",
}


@cache
def load_validator() -> Draft201909Validator:
    """Return a validator of DataCite's JSON, with the terms of kernel 4.7.

    The package ``datacite`` contains the schema of kernel 4.5. The package itself is not imported,
    because it needs the network.
    """
    spec = find_spec("datacite")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    [folder] = spec.submodule_search_locations
    schema = json.loads((Path(folder) / "schemas/datacite-v4.5.json").read_text(encoding="utf-8"))
    for name, file in _EXTENDED.items():
        root = etree.parse(FOLDER / f"datacite-4.7/include/datacite-{file}-v4.xsd")
        terms = {str(one.get("value")) for one in root.iter("{*}enumeration")}
        assert terms >= {*schema["definitions"][name]["enum"]}
        schema["definitions"][name]["enum"] = sorted(terms)
    schema["definitions"]["relatedObject"]["properties"]["relationTypeInformation"] = {}
    Draft201909Validator.check_schema(schema)
    return Draft201909Validator(schema)


@cache
def _load_quick_validator() -> Any:
    return jsonschema_rs.Draft201909Validator(load_validator().schema)


def is_valid_json(value: dict[str, Any]) -> bool:
    """Return whether DataCite's JSON is valid, much quicker than :func:`load_validator`."""
    return bool(_load_quick_validator().is_valid(value))
