"""The answers of the registry protocol of 2008 ([P] 4); its requests are a table."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from lxml import etree
from support.vectors import load

from flask_ibi_archive.core.registry_2008 import (
    VERBS,
    DocumentLocation,
    DocumentRegistration,
    MetadataLocation,
    RegistryAnswer,
    format_registry_answer,
)

ACTOR = "dpi.inpe.br/banon/2001/01.11.16.21"
DOCUMENT = "dpi.inpe.br/banon/2002/10.10.08.39"
OTHER = "sid.inpe.br/bibdigital@80/2006/04.07.15.50"
UPDATED = datetime(2008, 7, 17, 20, 22, 6, tzinfo=timezone.utc)
LATER = datetime(2008, 7, 17, 20, 44, 57, tzinfo=timezone.utc)
#: The arguments of the examples of the document, in the order of its sections.
EXAMPLES: list[dict[str, str]] = [
    case[0] for case in load("tables/registry_2008.json")["the examples of the document"]["cases"]
]


def test_each_verb_has_an_example() -> None:
    assert [example["verb"] for example in EXAMPLES] == [*VERBS]


@pytest.mark.rule("P4-17")
def test_a_record_has_the_lines_of_the_document() -> None:
    metadata = MetadataLocation("http://host/oai", LATER, "mtd2-br", "pt-BR")
    own = DocumentLocation("http://host/", UPDATED, (metadata,), "http://a.br/1", "http://a.br/3")
    record = [
        DocumentRegistration(OTHER, "a.br:80", False, True, own),
        DocumentRegistration(ACTOR, "b.br:80", True, False, DocumentLocation("http://b/", LATER)),
    ]
    root = etree.fromstring(format_registry_answer(RegistryAnswer("documentID", DOCUMENT, record)))
    assert (root.tag, root.findtext("documentID")) == ("registry", DOCUMENT)
    found = [
        [(element.tag, element.text.strip()) for element in registration.iter()][1:]
        for registration in root.findall("registration")
    ]
    assert found == [
        [
            ("actorID", OTHER),
            ("originalDocument", "yes"),
            ("documentURL", "http://host/"),
            ("documentLastUpdate", "2008-07-17T20:22:06Z"),
            ("metadata", ""),
            ("metadataURL", "http://host/oai"),
            ("metadataLastUpdate", "2008-07-17T20:44:57Z"),
            ("metadataFormat", "mtd2-br"),
            ("metadataLanguage", "pt-BR"),
            ("previousEditionURL", "http://a.br/1"),
            ("nextEditionURL", "http://a.br/3"),
        ],
        [
            ("actorID", ACTOR),
            ("documentURL", "http://b/"),
            ("documentLastUpdate", "2008-07-17T20:44:57Z"),
        ],
    ]
