"""The meta elements of landing pages, by the guidelines of Google Scholar and DCMI."""

from __future__ import annotations

import pytest
from hypothesis import given
from support.metadata import make, works

from flask_ibi_archive.core.records.page_head import list_meta_tags
from flask_ibi_archive.core.records.work import Work

PDF = "http://example.org/a.pdf"
PAGE = "http://urlib.net/8JMKD3MGP8W/35MME4E"


def list_citation(work: Work, pdf_url: str | None = None) -> list[tuple[str, str]]:
    return [
        (tag.name.removeprefix("citation_"), tag.content)
        for tag in list_meta_tags(work, pdf_url)
        if tag.name.startswith("citation_")
    ]


@pytest.mark.parametrize(
    ("dublin_core", "expected"),
    [
        (
            {"title": "Chuva", "creator": ["Silva, Ana", "INPE"], "type": "Tese (Doutorado)",
             "date": "2009-07-21", "publisher": "São José dos Campos: INPE"},
            [("title", "Chuva"), ("author", "Silva, Ana"), ("author", "INPE"),
             ("publication_date", "2009/7/21"), ("dissertation_institution", "INPE")],
        ),
        (
            {"title": "Rain", "type": "report", "date": "1998", "publisher": "INPE"},
            [("title", "Rain"), ("publication_date", "1998"),
             ("technical_report_institution", "INPE")],
        ),
        (
            {"title": "Rain", "type": "article", "date": "2004-05", "subject": ["water", "sky"],
             "source": ["Revista X, São Paulo, v. 2, n. 1, p. 7-18, 2004", "ISSN 1234-567X"],
             "identifier": "doi:10.1000/182", "language": "por"},
            [("title", "Rain"), ("publication_date", "2004"), ("journal_title", "Revista X"),
             ("volume", "2"), ("issue", "1"), ("firstpage", "7"), ("lastpage", "18"),
             ("issn", "1234-567X"), ("doi", "10.1000/182"), ("language", "pt"),
             ("keywords", "water"), ("keywords", "sky")],
        ),
        (
            {"title": "Rain", "type": "conference paper", "source": "Simpósio Y, p. 3"},
            [("title", "Rain"), ("conference_title", "Simpósio Y"), ("firstpage", "3")],
        ),
        (
            {"title": "Rain", "type": "book", "identifier": "ISBN 978-85-17-00001-1",
             "publisher": "Editora", "date": "in spring"},
            [("title", "Rain"), ("publisher", "Editora"), ("isbn", "978-85-17-00001-1")],
        ),
    ],
)  # fmt: skip
def test_works_of_each_type_have_the_tags_of_google_scholar(
    dublin_core: dict[str, str | list[str]], expected: list[tuple[str, str]]
) -> None:
    assert list_citation(make(**dublin_core)) == [*expected, ("abstract_html_url", PAGE)]
    assert list_citation(make(**dublin_core), PDF)[-1] == ("pdf_url", PDF)


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
