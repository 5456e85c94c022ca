"""What a complete thesis and a complete article say in each format for aggregators."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

from lxml import etree
from support.cases import for_each
from support.metadata import BASE, IBI, SCHEMA_FILES, load_schema

from flask_ibi_archive.core.records.description import derive_dublin_core, parse_description
from flask_ibi_archive.core.records.formats import BUILT_IN
from flask_ibi_archive.core.records.formats.vocabularies import find_language_code
from flask_ibi_archive.core.records.record import FileRecord, Record
from flask_ibi_archive.core.records.work import Work, WorkFile, make_work

WRITE: dict[str, Any] = {format.name: format.write for format in BUILT_IN}
SCHEMAS = {name: load_schema(name) for name in SCHEMA_FILES}

#: The descriptions, and what XPath finds in each format.
CASES = json.loads(Path(__file__).with_name("aggregator_cases.json").read_text("utf-8"))


def make(fields: dict[str, Any], **options: Any) -> Work:
    description = parse_description("metadata.work", fields)
    record = Record(ibip=IBI, language="pt-BR", embargo=date(2027, 3, 1), files=FILES)
    dublin_core = derive_dublin_core(description)
    return make_work(record, dublin_core, BASE, description=description, **options)


FILES = (FileRecord("tese.pdf"),)
WORKS = {
    "thesis": make(
        CASES["thesis"],
        today=date(2026, 1, 1),
        files=[WorkFile("tese.pdf", "http://a.example/1", "application/pdf", 12, "0" * 64)],
    ),
    "article": make(CASES["article"]),
}


def find(name: str, format: str, path: str) -> list[str]:
    """Return the texts or attributes that XPath finds; ``d`` is the default namespace."""
    root = etree.fromstring(WRITE[format](WORKS[name]).encode())
    SCHEMAS[format].assertValid(root)
    spaces = {prefix or "d": uri for prefix, uri in root.nsmap.items()}
    return [getattr(one, "text", one) for one in root.xpath(path, namespaces=spaces)]


@for_each(
    ("work", "format"), [(work, format) for work in CASES["says"] for format in CASES["says"][work]]
)
def test_a_work_is_described(work: str, format: str) -> None:
    expected = CASES["says"][work][format]
    assert {path: find(work, format, path) for path in expected} == expected


@for_each(
    ("tag", "code"),
    [("pt-BR", "por"), ("pt_BR", "por"), ("zh-Hant-TW", "zho"), ("eng", "eng"),
     ("inglês", "inglês")],
)  # fmt: skip
def test_a_language_is_written_as_iso_639_3(tag: str, code: str) -> None:
    assert find_language_code(tag) == code
