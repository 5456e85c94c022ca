"""Real-looking works: a spreadsheet of a university library."""

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
