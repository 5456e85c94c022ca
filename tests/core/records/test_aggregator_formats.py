"""What a complete thesis and a complete article say in each format for aggregators."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

from lxml import etree
from support.cases import for_each
from support.metadata import BASE, IBI, SCHEMA_FILES, is_valid_json, load_schema

from flask_ibi_archive.core.records.description import derive_dublin_core, parse_description
from flask_ibi_archive.core.records.formats import BUILT_IN
from flask_ibi_archive.core.records.formats.vocabularies import find_language_code
from flask_ibi_archive.core.records.record import FileRecord, Record
from flask_ibi_archive.core.records.work import Work, WorkFile, make_work

WRITE: dict[str, Any] = {format.name: format.write for format in BUILT_IN}
SCHEMAS = {name: load_schema(name) for name in SCHEMA_FILES}
ORCID, ROR = "0000-0002-1825-0097", "https://ror.org/04xbn6x09"
LATTES = "1234567890123456"
CC_BY = "https://creativecommons.org/licenses/by/4.0/"
SEMANTICS, COAR = "info:eu-repo/semantics/", "http://purl.org/coar/"

THESIS = {
    "titles": [
        {"value": "Sobre a chuva", "lang": "pt"},
        {"value": "On rain", "lang": "en", "kind": "translated"},
    ],
    "creators": [
        {
            "name": "Silva, Ana",
            "orcid": ORCID,
            "lattes": LATTES,
            "affiliations": [{"name": "INPE", "ror": ROR}],
        }
    ],
    "contributors": [
        {"name": "Lima, Rui", "lattes": LATTES, "role": "advisor"},
        {"name": "Souza, Eva", "role": "co-advisor"},
        {"name": "Reis, Leo", "role": "committee member"},
        {"name": "Neves, Lia", "role": "translator"},
    ],
    "type": "Tese (Doutorado em Meteorologia)",
    "publisher": "São José dos Campos: INPE",
    "issued": "2009-07",
    "dates": {"submitted": "2009-05-02"},
    "degree": {
        "name": "Doutorado em Meteorologia",
        "level": "doctoral",
        "programme": "Pós-Graduação em Meteorologia",
        "institution": {"name": "INPE", "ror": ROR},
        "defended": "2009-06-30",
    },
    "abstracts": [{"value": "Chove.", "lang": "pt"}, {"value": "It rains.", "lang": "en"}],
    "subjects": [
        {"value": "chuva", "lang": "pt"},
        {"value": "Meteorologia", "scheme": "CNPq", "uri": "https://a.example/cnpq/1"},
    ],
    "licence": "CC-BY-4.0",
    "version": "acceptedVersion",
    "extent": "171 p.",
    "coverage": ["Amazônia", "1998"],
    "related": [
        {"identifier": "doi:10.1000/182", "relation": "IsTranslationOf"},
        {"identifier": "978-0-306-40615-7", "relation": "References"},
    ],
    "funding": [
        {
            "funder": "FAPESP",
            "number": "2010/1-2",
            "title": "Chuvas",
            "funder_id": "https://doi.org/10.13039/501100001807",
            "programme": "Bolsas",
            "url": "https://a.example/grant",
        }
    ],
}
ARTICLE = {
    "titles": ["Chuva"],
    "creators": [{"name": "Instituto da Chuva", "kind": "organisation", "ror": ROR}],
    "type": "artigo",
    "container": {"title": "Revista X", "volume": "2", "number": "1", "pages": "7-18"},
    "issn": "0100-879X",
}


def make(fields: dict[str, Any], **options: Any) -> Work:
    description = parse_description("metadata.work", fields)
    record = Record(ibip=IBI, language="pt-BR", embargo=date(2027, 3, 1), files=FILES)
    dublin_core = derive_dublin_core(description)
    return make_work(record, dublin_core, BASE, description=description, **options)


FILES = (FileRecord("tese.pdf"),)
WORKS = {
    "thesis": make(
        THESIS,
        today=date(2026, 1, 1),
        files=[WorkFile("tese.pdf", "http://a.example/1", "application/pdf", 12, "0" * 64)],
    ),
    "article": make(ARTICLE),
}


def find(name: str, format: str, path: str) -> list[str]:
    """Return the texts or attributes that XPath finds; ``d`` is the default namespace."""
    root = etree.fromstring(WRITE[format](WORKS[name]).encode())
    SCHEMAS[format].assertValid(root)
    spaces = {prefix or "d": uri for prefix, uri in root.nsmap.items()}
    return [getattr(one, "text", one) for one in root.xpath(path, namespaces=spaces)]


#: What XPath finds in each format.
THESIS_SAYS: dict[str, dict[str, list[str]]] = {
    "oai_dc": {
        "//dc:title/@xml:lang": ["pt", "en"],
        "//dc:language": ["por"],
        "//dc:date": ["2009-07", "info:eu-repo/date/embargoEnd/2027-03-01"],
        "//dc:rights": [CC_BY, f"{SEMANTICS}embargoedAccess"],
        "//dc:type": [
            "Tese (Doutorado em Meteorologia)",
            f"{SEMANTICS}doctoralThesis",
            f"{COAR}resource_type/c_db06",
            f"{SEMANTICS}acceptedVersion",
        ],
        "//dc:relation[contains(., 'grantAgreement')]": [
            "info:eu-repo/grantAgreement/FAPESP/Bolsas/2010%2F1-2//Chuvas"
        ],
    },
    "datacite": {
        "//d:title/@titleType": ["TranslatedTitle"],
        "//d:creatorName/@nameType": ["Personal"],
        "//d:creator/d:nameIdentifier": [
            f"https://orcid.org/{ORCID}",
            f"http://lattes.cnpq.br/{LATTES}",
        ],
        "//d:creator/d:affiliation/@affiliationIdentifier": [ROR],
        "//d:contributor/@contributorType": ["Supervisor", "Supervisor", "Other", "Translator"],
        "//d:date/@dateType": ["Issued", "Accepted", "Submitted", "Available", "Coverage"],
        "//d:date": ["2009-07", "2009-06-30", "2009-05-02", "2027-03-01", "1998"],
        "//d:geoLocationPlace": ["Amazônia"],
        "//d:subject/@valueURI": ["https://a.example/cnpq/1"],
        "//d:relatedIdentifier/@relationType": ["IsTranslationOf", "References"],
        "//d:relatedIdentifier/@relatedIdentifierType": ["DOI", "ISBN"],
        "//d:funderIdentifier/@funderIdentifierType": ["Crossref Funder ID"],
        "//d:awardNumber/@awardURI": ["https://a.example/grant"],
        "//d:rights/@rightsIdentifier": ["CC-BY-4.0"],
        "//d:size": ["171 p.", "12 bytes"],
        "//d:description[@descriptionType != 'Abstract']": [
            "Doutorado em Meteorologia, Pós-Graduação em Meteorologia, INPE",
            f"SHA-256 of tese.pdf: {'0' * 64}",
        ],
    },
    "oai_openaire": {
        "//oaire:resourceType/@uri": [f"{COAR}resource_type/c_db06"],
        "//datacite:rights/@rightsURI": [f"{COAR}access_right/c_f1cf"],
        "//oaire:version": ["AM"],
        "//oaire:fundingStream": ["Bolsas"],
        "//oaire:file": ["http://a.example/1"],
        "//datacite:relatedIdentifier/@relationType": ["References"],
        "//datacite:contributor/@contributorType": ["Supervisor", "Supervisor", "Other", "Other"],
    },
    "mtd3-br": {
        "//mtd3-br:contributorAuthorLattes": [f"http://lattes.cnpq.br/{LATTES}"],
        "//mtd3-br:contributorAdvisor": ["Lima, Rui"],
        "//mtd3-br:contributorAdvisor-co1": ["Souza, Eva"],
        "//mtd3-br:contributorReferees": ["Reis, Leo"],
        "//mtd3-br:dateIssued": ["2009-06-30"],
        "//mtd3-br:descriptionResumo": ["Chove."],
        "//mtd3-br:descriptionAbstract": ["It rains."],
        "//mtd3-br:descriptionSponsorship": ["FAPESP"],
        "//mtd3-br:publisherProgram": ["Pós-Graduação em Meteorologia"],
        "//mtd3-br:subjectCnpq": ["Meteorologia"],
    },
}
ARTICLE_SAYS: dict[str, dict[str, list[str]]] = {
    "datacite": {
        "//d:creatorName/@nameType": ["Organizational"],
        "//d:relatedItem/@relatedItemType": ["Journal"],
        "//d:relatedItem/d:firstPage": ["7"],
        "//d:relatedItemIdentifier": ["0100-879X"],
    },
    "oai_openaire": {
        "//oaire:citationTitle": ["Revista X"],
        "//oaire:citationEndPage": ["18"],
        "//datacite:rights": ["metadata only access"],
    },
}


@for_each("format", THESIS_SAYS)
def test_a_thesis_is_described(format: str) -> None:
    expected = THESIS_SAYS[format]
    assert {path: find("thesis", format, path) for path in expected} == expected


@for_each("format", ARTICLE_SAYS)
def test_an_article_is_described(format: str) -> None:
    expected = ARTICLE_SAYS[format]
    assert {path: find("article", format, path) for path in expected} == expected


def test_datacite_json_has_the_same_values() -> None:
    value = json.loads(WRITE["datacite-json"](WORKS["thesis"]))
    assert is_valid_json(value)
    [creator] = value["creators"]
    assert creator["affiliation"][0]["affiliationIdentifier"] == ROR
    assert value["fundingReferences"][0]["awardUri"] == "https://a.example/grant"
    assert value["types"]["resourceTypeGeneral"] == "Dissertation"


@for_each(
    ("tag", "code"),
    [("pt-BR", "por"), ("pt_BR", "por"), ("zh-Hant-TW", "zho"), ("eng", "eng"),
     ("inglês", "inglês")],
)  # fmt: skip
def test_a_language_is_written_as_iso_639_3(tag: str, code: str) -> None:
    assert find_language_code(tag) == code
