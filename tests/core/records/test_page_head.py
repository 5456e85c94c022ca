"""What a landing page tells programs: meta elements, and typed links (FAIR Signposting)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from link_header import parse
from msgspec.structs import replace
from support.metadata import make, works
from support.vectors import load

from flask_ibi_archive.core.records.page_head import (
    MAX_HEADER,
    Link,
    format_link_header,
    list_item_links,
    list_meta_tags,
)
from flask_ibi_archive.core.records.work import Work, WorkFile

PDF = "http://example.org/a.pdf"
PAGE = "http://urlib.net/8JMKD3MGP8W/35MME4E"


def list_citation(work: Work, pdf_url: str | None = None) -> list[tuple[str, str]]:
    return [
        (tag.name.removeprefix("citation_"), tag.content)
        for tag in list_meta_tags(work, pdf_url)
        if tag.name.startswith("citation_")
    ]


@pytest.mark.parametrize("case", load("core/page_head.json"))
def test_works_of_each_type_have_the_tags_of_google_scholar(case: dict[str, Any]) -> None:
    expected = [(name, text) for name, text in case["tags"]]
    assert list_citation(make(**case["dc"])) == [*expected, ("abstract_html_url", PAGE)]
    assert list_citation(make(**case["dc"]), PDF)[-1] == ("pdf_url", PDF)


def test_a_work_without_a_title_has_no_citation() -> None:
    work = make(creator="Silva, Ana")
    assert list_citation(work, PDF) == []
    assert [(tag.name, tag.content) for tag in list_meta_tags(work)] == [
        ("DC.creator", "Silva, Ana"),
        ("DC.identifier", PAGE),
    ]


@given(works)
def test_no_tag_of_any_work_is_empty_or_repeats_a_single_value(work: Work) -> None:
    tags = list(list_meta_tags(work, PDF))
    assert all(tag.content.strip() for tag in tags)
    names = [tag.name for tag in tags if tag.name.startswith("citation_")]
    single = [name for name in names if name not in ("citation_author", "citation_keywords")]
    assert len(single) == len(set(single))
    assert ("citation_title" in names) == work.has_title


# --- typed links ---------------------------------------------------------------------------------

METADATA = {
    "http://example.org/metadata?choice=oai_dc": "text/xml",
    "http://example.org/metadata?choice=far": None,
}
THESIS = replace(
    make(
        title="Rain",
        creator=["Silva, Ana", "Reis, Rui (https://orcid.org/0000-0001-2345-6789)"],
        type="doctoral thesis",
        rights="https://creativecommons.org/licenses/by/4.0/",
    ),
    files=(WorkFile("a.pdf", "http://example.org/a.pdf", "application/pdf"),),
)


def test_a_header_contains_the_links_that_fit() -> None:
    files = tuple(WorkFile(f"{n}", f"http://example.org/{n:0200}") for n in range(500))
    work = replace(THESIS, files=files, licence_url="http://example.org/" + "x" * MAX_HEADER)
    header = format_link_header(list_item_links(work, METADATA))
    assert MAX_HEADER - 250 < len(header.encode()) <= MAX_HEADER
    relations = [link.rel for link in parse(header).links]
    assert relations.count("item") < 20
    assert "license" not in relations
    assert "author" in relations


@given(works)
def test_any_work_has_valid_links(work: Work) -> None:
    links = list(list_item_links(work, METADATA))
    header = format_link_header(links)
    assert re.fullmatch(r"[\x21-\x7e ]*", header)
    assert [link.rel for link in parse(header).links] == [link.relation for link in links]


def test_urls_with_other_characters_are_escaped() -> None:
    link = Link("item", 'http://example.org/%20é">b c\n')
    assert link.format() == '<http://example.org/%20%C3%A9%22%3Eb%20c%0A>; rel="item"'
