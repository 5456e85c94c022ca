"""Typed links: the Link header (RFC 8288), linksets (RFC 9264), and FAIR Signposting."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from hypothesis import given
from link_header import parse
from signposting.linkheader import find_signposting_http_link
from support.metadata import make, works

from flask_ibi_archive.core.records.description import Name
from flask_ibi_archive.core.records.page_head import (
    LINKSET_JSON,
    LINKSET_TEXT,
    MAX_HEADER,
    Description,
    Link,
    format_link_header,
    format_linkset,
    format_linkset_json,
    list_all_links,
    list_item_links,
)
from flask_ibi_archive.core.records.work import Work, WorkFile

LINKSET = "http://example.org/linkset"
DESCRIPTIONS = (
    Description("http://example.org/metadata?choice=oai_dc", "text/xml"),
    Description("http://example.org/metadata?choice=far"),
)
THESIS = replace(
    make(
        title="Rain",
        creator=["Silva, Ana", "Reis, Rui (https://orcid.org/0000-0001-2345-6789)"],
        type="doctoral thesis",
        rights="https://creativecommons.org/licenses/by/4.0/",
    ),
    files=(WorkFile("a.pdf", "http://example.org/a.pdf", "application/pdf"),),
)


def test_a_landing_page_has_the_links_of_level_2() -> None:
    header = format_link_header(list_item_links(THESIS, DESCRIPTIONS, LINKSET))
    assert [(link.rel, link.href, getattr(link, "type", None)) for link in parse(header).links] == [
        ("cite-as", THESIS.url, None),
        ("linkset", LINKSET, LINKSET_JSON),
        ("linkset", LINKSET, LINKSET_TEXT),
        ("type", "https://schema.org/AboutPage", None),
        ("type", "https://schema.org/Thesis", None),
        ("license", "https://creativecommons.org/licenses/by/4.0/", None),
        ("describedby", DESCRIPTIONS[0].url, "text/xml"),
        ("describedby", DESCRIPTIONS[1].url, None),
        ("author", "https://orcid.org/0000-0001-2345-6789", None),
        ("item", "http://example.org/a.pdf", "application/pdf"),
    ]


def test_the_package_signposting_reads_the_header() -> None:
    people = (
        Name("Reis", "Rui", "0000-0001-2345-6789", "person"),
        Name("INPE", kind="organisation", ror="https://ror.org/04xbn6x09"),
        Name("Sá", "Edu", kind="person", lattes="1234567890123456"),
    )
    work = replace(THESIS, creators=people)
    header = format_link_header(list_item_links(work, DESCRIPTIONS, LINKSET))
    found = find_signposting_http_link([header], work.page_url)
    assert found.citeAs is not None
    assert found.citeAs.target == work.url
    assert found.license is not None
    assert found.license.target == work.licence_url
    assert {one.target for one in found.authors} == {
        "https://orcid.org/0000-0001-2345-6789",
        "https://ror.org/04xbn6x09",
        "http://lattes.cnpq.br/1234567890123456",
    }
    assert [(one.target, str(one.type)) for one in found.items] == [
        ("http://example.org/a.pdf", "application/pdf")
    ]
    assert {one.target for one in found.describedBy} == {one.url for one in DESCRIPTIONS}
    assert {one.target for one in found.linksets} == {LINKSET}
    assert {one.target for one in found.types} == {
        "https://schema.org/AboutPage", "https://schema.org/Thesis",
    }  # fmt: skip


def test_the_linkset_also_contains_the_links_of_files_and_metadata() -> None:
    about = {"href": THESIS.page_url, "type": "text/html"}
    found = json.loads(format_linkset_json(list_all_links(THESIS, DESCRIPTIONS)))["linkset"]
    page, *parts = found
    assert page["anchor"] == THESIS.page_url
    assert "linkset" not in page
    assert parts == [
        {
            "anchor": "http://example.org/a.pdf",
            "cite-as": [{"href": THESIS.url}],
            "collection": [about],
        },
        *(
            {"anchor": one.url, "cite-as": [{"href": THESIS.url}], "describes": [about]}
            for one in DESCRIPTIONS
        ),
    ]


def test_a_header_is_small_and_the_linkset_complete() -> None:
    files = tuple(WorkFile(f"{n}", f"http://example.org/{n:0200}") for n in range(500))
    work = replace(THESIS, files=files, licence_url="http://example.org/" + "x" * MAX_HEADER)
    header = format_link_header(list_item_links(work, DESCRIPTIONS, LINKSET))
    assert MAX_HEADER - 250 < len(header.encode()) <= MAX_HEADER
    relations = [link.rel for link in parse(header).links]
    assert relations.count("item") < 20
    assert "license" not in relations
    assert "author" in relations
    page = json.loads(format_linkset_json(list_all_links(work, DESCRIPTIONS)))["linkset"][0]
    assert len(page["item"]) == 500
    assert page["license"] == [{"href": work.licence_url}]


@given(works)
def test_any_work_has_valid_links(work: Work) -> None:
    links = list(list_item_links(work, DESCRIPTIONS, LINKSET))
    header = format_link_header(links)
    assert re.fullmatch(r"[\x21-\x7e ]*", header)
    assert [link.rel for link in parse(header).links] == [link.relation for link in links]
    document = json.loads(format_linkset_json(list_all_links(work, DESCRIPTIONS)))
    assert list(document) == ["linkset"]
    for context in document["linkset"]:  # RFC 9264, 4.2
        assert isinstance(context.pop("anchor"), str)
        for relation, targets in context.items():
            assert re.fullmatch("[a-z][a-z0-9.-]*", relation)
            assert targets
            for target in targets:
                assert target.keys() <= {"href", "type"}
                assert re.fullmatch(r"https?://[\x21-\x7e]+", target["href"])


def test_the_two_forms_of_a_linkset_have_the_same_links() -> None:
    links = list(list_all_links(THESIS, DESCRIPTIONS))
    # RFC 9264, 4.1: a linkset may contain line breaks, but a Link header may not
    parsed = parse(format_linkset(links).replace("\n", " ")).links
    assert [(one.anchor, one.rel, one.href, getattr(one, "type", None)) for one in parsed] == [
        (link.anchor, link.relation, link.target, link.media_type) for link in links
    ]


def test_urls_with_other_characters_are_escaped() -> None:
    link = Link("http://example.org/é", "item", 'http://example.org/%20a">b c\n')
    assert link.format(with_anchor=True) == (
        '<http://example.org/%20a%22%3Eb%20c%0A>; rel="item"; anchor="http://example.org/%C3%A9"'
    )
