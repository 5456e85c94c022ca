"""Real-looking works: a spreadsheet of a university library, and a library of CSL-JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

NAMES = [
    ("Silva", "Ana"), ("Gonçalves", "José Antônio"), ("García Márquez", "Ñuño"), ("O'Brien", "Zoë"),
    ("D'Ávila", "M. Â."), ("Nguyễn", "João P."), ("Sánchez-Ruiz", "Víctor"), ("Ōe", "Kenzaburō"),
    ("Иванов", "Анна"), ("王", "小明"), ("Saint-Exupéry", "François"),
]  # fmt: skip
MARKS = ["", "?", " (uma revisão)", ": um estudo", " & <outros> casos", ' de "caso"']
ABSTRACT = 'A edição: "água", CO₂ e α-diversity.\nOutro parágrafo; com vírgulas, l\'été, señal.'


def pick(values: Sequence[Any], number: int, count: int = 3) -> list[Any]:
    """Return some of the values, others for each number."""
    return [values[(number + step) % len(values)] for step in range(count)]


def make_rows(count: int) -> list[dict[str, str]]:
    """Return the rows of a spreadsheet of theses and articles, as a library keeps it."""
    rows = list(map(_make_row, range(1, count + 1)))
    empty = dict.fromkeys((name for row in rows[:2] for name in row), "")
    return [empty | row for row in rows]


def _make_row(number: int) -> dict[str, str]:
    year = 1961 + number % 60
    names = ["{}, {}".format(*name) for name in pick(NAMES, number)]
    row = {
        "Título": f"Chuva {number}{MARKS[number % len(MARKS)]}",
        "Autores": "; ".join(names),
        "Ano": [f"{year}", f"{year}-07", f"28/02/{year}"][number % 3],
        "Resumo[pt-BR]": ABSTRACT,
        "Palavras-chave": "chuva; São Paulo; déjà vu",
        "Idioma": ["Português", "pt_BR", "inglês", "es", ""][number % 5],
        "Acesso": ["aberto", "restrito", ""][number % 3],
        "Licença": ["CC BY 4.0", "CC-BY-NC-4.0", ""][number % 3],
        "Financiador": ["", "FAPESP", "CNPq; CAPES"][number % 3],
        "Processo": ["", f"2019/{number:05}-6", ""][number % 3],
        "Código": f"BR-{number:05}",
    }
    if number % 2:
        return row | {
            "Tipo": ["Tese", "Dissertação", "Trabalho de conclusão de curso"][number % 3],
            "Orientador": names[0],
            "Banca": "; ".join(names),
            "Data da defesa": f"{year}-05-28",
            "Instituição": "Universidade de São Paulo",
            "Programa": "Pós-Graduação em Meteorologia",
            "Título (en)": f"Rain {number}",
            "Abstract (en)": "In English.",
        }
    return row | {
        "Tipo": "Artigo",
        "Revista": "Ciência & Educação",
        "Volume": f"{number}",
        "Número": "2",
        "Páginas": f"{number}-{number + 9}",
        "ISSN": "0102-7786",
        "DOI": ["10.1590/test.{}", "https://doi.org/10.1590/test.{}", ""][number % 3].format(
            number
        ),
    }


def write_table(
    rows: Sequence[dict[str, str]], delimiter: str = ";", encoding: str = "utf-8-sig"
) -> bytes:
    """Return a table as a spreadsheet writes it."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [*rows[0]], delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode(encoding)


# --- CSL-JSON ------------------------------------------------------------------------------------

_PUBLISHED = {"publisher": "Éditions", "publisher-place": "México"}
_IN_JOURNALS = {
    "container-title": "Acta Amazonica", "volume": "7", "issue": "2-3", "page": "7-18",
    "ISSN": "1413-7852",
}  # fmt: skip
_IN_BOOKS = {
    **_PUBLISHED, "container-title": "Anais do 5º Simpósio", "page": "7-18",
    "editor": [{"family": "Brandão", "given": "Élodie"}], "ISBN": "978-3-16-148410-0",
}  # fmt: skip
#: The twenty types of CSL that our types of works distinguish, and the variables of each.
CSL_TYPES: dict[str, dict[str, Any]] = {
    "article": {}, "article-journal": _IN_JOURNALS, "review": _IN_JOURNALS, "chapter": _IN_BOOKS,
    "paper-conference": _IN_BOOKS, "collection": _PUBLISHED, "map": _PUBLISHED,
    "book": {**_PUBLISHED, "ISBN": "978-0-306-40615-7", "edition": "2", "number-of-pages": "171",
             "translator": [{"family": "Åström", "given": "Björn"}]},
    "report": {**_PUBLISHED, "number": "INPE-1-RPQ/1"},
    "standard": {**_PUBLISHED, "number": "ABNT-1"},
    "thesis": {**_PUBLISHED, "genre": "Dissertação de mestrado"},
    "patent": {"number": "BR 10 2019 000001 4"}, "dataset": {"version": "v1.1"},
    "software": {"publisher": "Zenodo", "version": "v1.2"}, "document": {}, "graphic": {},
    "motion_picture": {}, "musical_score": {}, "song": {}, "speech": {},
}  # fmt: skip


def make_csl_items(count: int) -> list[dict[str, Any]]:
    """Return a library of CSL-JSON, with each type in turn."""
    return [
        _make_csl_item(number, [*CSL_TYPES][number % len(CSL_TYPES)]) for number in range(count)
    ]


def _make_csl_item(number: int, kind: str) -> dict[str, Any]:
    names = [{"family": family, "given": given} for family, given in pick(NAMES, number)]
    issued: dict[str, Any] = {"date-parts": [[1899 + number % 99, 7, 21][: 1 + number % 3]]}
    item: dict[str, Any] = {
        "id": f"http://zotero.org/users/1/items/{number:06}",
        "type": kind,
        "title": f"Chuva {number}{MARKS[number % len(MARKS)]}",
        "author": [*names, {"literal": "Comité científico, sección II"}][: 1 + number % 4],
        "issued": issued | ({"circa": True} if number % 6 == 0 else {}),
        **CSL_TYPES[kind],
    }
    if number % 7:
        item |= {"language": ["pt", "pt-BR", "en"][number % 3], "abstract": "CO₂ e l'été."}
    if number % 3:
        item |= {"keyword": "chuva, déjà vu", "DOI": f"10.1590/Test.{number}(19)"}
    return item
