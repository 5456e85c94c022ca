"""Tests the citations of works, and the bibliographic formats with the parsers of others."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest
import rispy
from bibtexparser import parse_string
from bibtexparser.middlewares import (
    LatexDecodingMiddleware,
    NameParts,
    SeparateCoAuthors,
    SplitNameParts,
)
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from pylatexenc.latex2text import LatexNodes2Text, MacroTextSpec, get_default_latex_context_db
from support.metadata import describe, load_work, make, one_line, texts
from support.vectors import load

from flask_ibi_archive.core.records.csl_reader import read_csl_json
from flask_ibi_archive.core.records.description import WorkType, parse_description, parse_name
from flask_ibi_archive.core.records.formats.brazilian import cite
from flask_ibi_archive.core.records.formats.reference_managers import (
    write_bibtex,
    write_csl_json,
    write_ris,
)
from flask_ibi_archive.core.records.record import format_description
from flask_ibi_archive.core.records.rich_text import to_plain
from flask_ibi_archive.core.records.work import Work

#: Works and their citations in the style of ABNT NBR 6023:2018, as published guides of university
#: libraries describe the norm and repeat its examples ("Guia de normalização de trabalhos
#: acadêmicos", Universidade Federal do Ceará). A number such as 8.1 is a chapter of the norm. In a
#: citation, ``**`` encloses bold type and ``*`` italic type.
CASES = load("citations.json")
MARKS = {"bold": "**", "italic": "*", "": ""}
DAY = date(2026, 11, 21)
#: Texts that a format might interpret.
TRAPS = (
    r"50% of \alpha{} & {x} }{ #1 $5 a_b c^2 ~/x \\ \"y\" 'z' ''q'' ``r'' -- --- ?` !` << >> ,,",
    "@book{key, title = {x}}",
    "TY  - JOUR\r\nER  - \r\n",
    "a\u2028b\x85c\x0bd",
    "]]></title><script>&amp;&#0;</script>",
    "\0\x1b\ufffe\ud800",
)

# pylatexenc does not know these commands of LaTeX, or prints another character
_LATEX = get_default_latex_context_db()
_LATEX.add_context_category(
    "latex2e",
    prepend=True,
    macros=[
        MacroTextSpec("textbraceleft", "{"),
        MacroTextSpec("textbraceright", "}"),
        MacroTextSpec("textasciicircum", "^"),
    ],
)
DECODER = LatexNodes2Text(latex_context=_LATEX, strict_latex_spaces=True)


def read_bibtex(work: Work) -> dict[str, Any]:
    """Return the fields of the entry, decoded as LaTeX prints them. Names are NameParts."""
    library = parse_string(
        write_bibtex(work),
        append_middleware=[
            SeparateCoAuthors(True),
            SplitNameParts(True),
            LatexDecodingMiddleware(decoder=DECODER),
        ],
    )
    assert not library.failed_blocks
    [entry] = library.entries
    return {name: field.value for name, field in entry.fields_dict.items()}


def read_ris(work: Work) -> dict[str, Any]:
    [entry] = rispy.loads(write_ris(work))
    return dict(entry)


def read_csl(work: Work) -> dict[str, Any]:
    [item] = json.loads(write_csl_json(work))
    assert isinstance(item, dict)
    return item


def join(name: NameParts) -> str:
    """Return a name that was read from BibTeX as ``Family, Given, Jr.``."""
    parts = map(" ".join, ([*name.von, *name.last], name.first, name.jr))
    # the middleware does not decode lists of names
    return ", ".join(DECODER.latex_to_text(part) for part in parts if part)


def make_case(case: dict[str, Any]) -> Work:
    return make(**case["dc"]) if "dc" in case else describe(**case["work"])


@pytest.mark.parametrize("case", CASES)
def test_a_work_is_cited_as_the_norm_asks(case: dict[str, Any]) -> None:
    work = make_case(case)
    parts = cite(work, DAY)
    text = "".join(f"{MARKS[part.style]}{part.text}{MARKS[part.style]}" for part in parts)
    assert text == f"{case['citation']} Disponível em: {work.url}. Acesso em: 21 nov. 2026."


def format_citation(work: Work, accessed: date | None = None, has_address: bool = True) -> str:
    return "".join(part.text for part in cite(work, accessed, has_address=has_address))


@pytest.mark.parametrize("case", CASES)
def test_reference_managers_read_a_work_as_it_is(case: dict[str, Any]) -> None:
    work = make_case(case)
    authors = [name.inverted for name in work.creators]
    year = None if work.year is None else str(work.year)

    bibtex = read_bibtex(work)
    assert bibtex["title"] == work.title
    assert [join(name) for name in bibtex.get("author", ())] == authors
    assert (bibtex.get("year"), bibtex["url"]) == (
        year or (work.issued and work.issued.text),
        work.url,
    )

    ris = read_ris(work)
    assert (ris["title"], ris.get("authors", []), ris.get("year")) == (work.title, authors, year)
    assert (ris["urls"], ris.get("doi"), ris.get("keywords")) == ([work.url], work.doi, None)

    csl = read_csl(work)
    assert (csl["title"], csl["URL"]) == (work.title, work.url)
    parts = ("literal", "family", "given", "suffix")
    names = [[name[part] for part in parts if part in name] for name in csl.get("author", [])]
    assert [", ".join(name) for name in names] == authors
    if year is not None:
        assert str(csl["issued"]["date-parts"][0][0]) == year
    if work.container is not None:
        assert ris.get("journal_name") or ris.get("secondary_title") == work.container.title
        assert (ris.get("volume"), ris.get("number"), ris.get("start_page")) == (
            work.container.volume,
            work.container.number,
            work.container.first_page,
        )
        assert csl["container-title"] == work.container.title
        assert work.container.title in (bibtex.get("journal"), bibtex.get("booktitle"))


@given(st.tuples(texts, texts, texts))
@example(TRAPS[:3])
@example(TRAPS[3:])
@example(("&ap;", "", "<p>&ap;</p>"))
def test_any_text_is_read_back_from_bibtex_and_ris(values: tuple[str, str, str]) -> None:
    subject = one_line(values[1])
    title, description = (one_line(to_plain(one_line(values[place]))) for place in (0, 2))
    work = make(title=values[0], subject=values[1], description=values[2])
    bibtex, ris = read_bibtex(work), read_ris(work)
    assert bibtex["title"] == ris["title"] == (title or work.ibi)
    assert bibtex.get("keywords", "") == subject
    assert ris.get("keywords", []) == ([subject] if subject else [])
    assert bibtex.get("abstract", "") == ris.get("abstract", "") == description


@given(texts)
@example("and, and")
@example("Silva and Souza, Ana, Jr.")
@example("{Silva, Ana}")
def test_any_name_is_read_back_from_bibtex(text: str) -> None:
    if one_line(text):
        [name] = read_bibtex(make(creator=text))["author"]
        # a parser removes spaces of LaTeX at the edges
        assert join(name) == parse_name(one_line(text)).inverted


@given(texts, texts, texts, texts, st.sampled_from(WorkType))
@example(*TRAPS[:4], WorkType.ARTICLE)
def test_any_work_has_a_citation(
    title: str, creator: str, source: str, issued: str, type: WorkType
) -> None:
    work = make(title=title, creator=creator, source=source, date=issued, type=type.value)
    citation = format_citation(work, DAY)
    assert citation.encode()
    assert citation.endswith(f" Disponível em: {work.url}. Acesso em: 21 nov. 2026.")


def test_the_words_of_a_citation_are_in_the_language_of_the_page() -> None:
    thesis: dict[str, Any] = {
        "titles": ["Chuva"],
        "contributors": [{"name": "Lima, Rui", "role": "advisor"}],
        "degree": {"level": "master", "defended": "2009"},
    }
    work = describe(**thesis)
    for language, about, end in (
        ("pt", "Orientador: Rui Lima. 2009. Dissertação (Mestrado)", "Acesso em: 21 nov. 2026."),
        ("en", "Advisor: Rui Lima. 2009. Dissertation (Master's degree)", "on: 21 Nov. 2026."),
        ("es", "Director: Rui Lima. 2009. Tesis (Maestría)", "Consultado el: 21 nov. 2026."),
    ):
        text = "".join(part.text for part in cite(work, DAY, language))
        assert f"CHUVA. {about}. " in text
        assert text.endswith(end)


def test_the_citation_of_a_removed_item_has_the_ibi_instead_of_an_address() -> None:
    work = make(title="Chuva", creator="Silva, Ana", date="2001")
    assert format_citation(work, has_address=False).endswith(f", 2001. IBI: {work.ibi}.")


def test_the_repository_is_named_instead_of_an_unknown_publisher() -> None:
    def cite_here(**dc: str) -> str:
        return format_citation(replace(make(title="Chuva", date="2001", **dc), archive_name="RI X"))

    end = f" Disponível em: {make().url}."
    assert cite_here(creator="Silva, Ana") == f"SILVA, Ana. Chuva. RI X, 2001.{end}"
    assert cite_here(publisher="USP") == f"CHUVA. [S. l.]: USP, 2001.{end}"
    # the repository did not publish the book
    chapter = cite_here(type="Capítulo de livro", source="História do Amapá")
    assert chapter == f"CHUVA. In: HISTÓRIA do Amapá. [S. l.: s. n.], 2001.{end}"


def test_each_type_has_a_type_in_each_format() -> None:
    for type in WorkType:
        work = make(title="Chuva", type=type.value)
        assert work.type is type
        assert read_bibtex(work)["title"] == "Chuva"
        assert not any(entry.errors for entry in read_csl_json(write_csl_json(work)).entries)
        assert read_ris(work)["type_of_reference"] in rispy.TYPE_OF_REFERENCE_MAPPING


def test_the_custom_fields_of_csl_are_those_that_its_variables_do_not_state() -> None:
    work = load_work("thesis")
    csl = read_csl(work)
    [entry] = read_csl_json(write_csl_json(work)).entries
    stated = parse_description("work", entry.data["metadata"]["work"])
    written, before = format_description(stated), format_description(work)
    assert {name: written.get(name) for name in csl["custom"]} == csl["custom"]
    assert csl["custom"].keys() >= {"creators", "contributors", "degree", "funding", "related"}
    assert {name: before.get(name) for name in csl["custom"]} == csl["custom"]
