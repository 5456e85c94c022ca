"""Real-looking works: a spreadsheet of a university library, and a library of CSL-JSON."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Sequence
from typing import Any

FAMILIES = [
    "Silva", "Souza", "Araújo", "Gonçalves", "Magalhães", "Muñoz", "García Márquez", "Müller",
    "O'Brien", "D'Ávila", "Åström", "Nguyễn", "Łukasiewicz", "Çelik", "Sánchez-Ruiz", "Kovács",
    "Ōe", "Иванов", "王", "Saint-Exupéry", "Assunção", "Brandão",
]  # fmt: skip
GIVENS = [
    "Ana", "José Antônio", "Inês", "João P.", "M. Â.", "François", "Zoë", "Ñuño", "Björn", "Maria",
    "Conceição", "Kenzaburō", "Анна", "小明", "Luís", "Víctor", "Élodie",
]  # fmt: skip
BODIES = [
    "Instituto Nacional de Pesquisas Espaciais", "Universidade Federal do Pará",
    "World Health Organization", "Agência Nacional de Águas", "Comité científico, sección II",
]  # fmt: skip
WORDS = [
    "chuva", "seca", "Amazônia", "floresta", "ação", "edição", "história", "língua", "água", "solo",
    "rain", "model", "drought", "l'été", "señal", "niño", "grüne", "Städte", "über", "climate",
    "satélite", "educação", "saúde", "São Paulo", "CO₂", "α-diversity", "déjà", "vu", "naïve",
]  # fmt: skip
JOURNALS = [
    "Revista Brasileira de Meteorologia", "Acta Amazonica", "Nature", "Ciência & Educação",
    "Boletín del Museo", "Zeitschrift für Physik", "Estudos Avançados",
]  # fmt: skip
PUBLISHERS = ["INPE", "Editora da Unicamp", "Springer", "Fondo de Cultura Económica", "Éditions"]
TOWNS = ["São José dos Campos", "Campinas", "México", "Berlin", "Paris"]
LANGUAGES = ["pt", "pt-BR", "en", "es", "fr", "de"]


def pick_title(dice: random.Random, number: int) -> str:
    """Return a title, which is unique by its number."""
    words = " ".join(dice.choices(WORDS, k=dice.randint(2, 9)))
    mark = dice.choice(
        ["", "?", " (uma revisão)", ": um estudo", " & <outros> casos", ' de "caso"']
    )
    return f"{words[0].upper()}{words[1:]} {number}{mark}"


def pick_names(dice: random.Random, most: int = 5) -> list[str]:
    """Return different names in inverted form."""
    families = dice.sample(FAMILIES, dice.randint(1, most))
    return [f"{family}, {dice.choice(GIVENS)}" for family in families]


# --- a spreadsheet -------------------------------------------------------------------------------

COLUMNS = (
    "Título", "Título (en)", "Autores", "Orientador", "Banca", "Tipo", "Ano", "Data da defesa",
    "Instituição", "Programa", "Resumo[pt-BR]", "Abstract (en)", "Palavras-chave", "Idioma",
    "Revista", "Volume", "Número", "Páginas", "ISSN", "DOI", "Licença", "Acesso", "Financiador",
    "Processo", "Observações", "Código",
)  # fmt: skip


def make_rows(count: int, seed: int = 29) -> list[dict[str, str]]:
    """Return the rows of a spreadsheet of theses and articles, as a library keeps it."""
    dice = random.Random(seed)
    return [_make_row(dice, number) for number in range(1, count + 1)]


def _make_row(dice: random.Random, number: int) -> dict[str, str]:
    year = dice.randint(1961, 2026)
    row = dict.fromkeys(COLUMNS, "")
    row |= {
        "Título": pick_title(dice, number),
        "Autores": "; ".join(pick_names(dice)),
        "Ano": dice.choice([str(year), f"{year}-0{dice.randint(1, 9)}", f"28/02/{year}"]),
        "Resumo[pt-BR]": " ".join(dice.choices(WORDS, k=60))
        + '.\nOutro parágrafo; com vírgulas, e "aspas".',
        "Palavras-chave": "; ".join(dice.sample(WORDS, 4)),
        "Idioma": dice.choice(["Português", "pt_BR", "inglês", "es", ""]),
        "Acesso": dice.choice(["aberto", "restrito", ""]),
        "Licença": dice.choice(
            ["CC BY 4.0", "CC-BY-NC-4.0", "https://creativecommons.org/licenses/by/4.0/", ""]
        ),
        "Financiador": dice.choice(["", "FAPESP", "CNPq; CAPES"]),
        "Código": f"BR-{number:05}",
    }
    if row["Financiador"] == "FAPESP":
        row["Processo"] = f"2019/{number:05}-6"
    if dice.random() < 0.5:
        row |= {
            "Tipo": dice.choice(["Tese", "Dissertação", "Trabalho de conclusão de curso"]),
            "Orientador": pick_names(dice, 1)[0],
            "Banca": "; ".join(pick_names(dice, 4)),
            "Data da defesa": f"{year}-05-{dice.randint(10, 28)}",
            "Instituição": "Universidade de São Paulo",
            "Programa": "Pós-Graduação em Meteorologia",
            "Título (en)": f"Rain {number}",
            "Abstract (en)": "In English.",
        }
    else:
        row |= {
            "Tipo": "Artigo",
            "Revista": dice.choice(JOURNALS),
            "Volume": str(dice.randint(1, 90)),
            "Número": str(dice.randint(1, 12)),
            "Páginas": f"{number}-{number + 9}",
            "ISSN": "0102-7786",
            "DOI": dice.choice(
                [f"10.1590/test.{number}", f"https://doi.org/10.1590/test.{number}", ""]
            ),
        }
    return row


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

#: The twenty types of CSL that our types of works distinguish.
CSL_TYPES = (
    "article", "article-journal", "book", "chapter", "collection", "dataset", "document", "graphic",
    "map", "motion_picture", "musical_score", "paper-conference", "patent", "report", "review",
    "software", "song", "speech", "standard", "thesis",
)  # fmt: skip


def make_csl_items(count: int, seed: int = 29) -> list[dict[str, Any]]:
    """Return a library of CSL-JSON, with each type in turn."""
    dice = random.Random(seed)
    return [
        _make_csl_item(dice, number, CSL_TYPES[number % len(CSL_TYPES)])
        for number in range(1, count + 1)
    ]


def _make_csl_name(dice: random.Random) -> dict[str, str]:
    if dice.random() < 0.15:
        return {"literal": dice.choice(BODIES)}
    return {"family": dice.choice(FAMILIES), "given": dice.choice(GIVENS)}


def _make_csl_names(dice: random.Random, most: int) -> list[dict[str, str]]:
    names: list[dict[str, str]] = []
    for _ in range(dice.randint(1, most)):
        if (name := _make_csl_name(dice)) not in names:
            names.append(name)
    return names


def _make_csl_item(dice: random.Random, number: int, kind: str) -> dict[str, Any]:
    year = dice.randint(1899, 2026)
    parts = [year, dice.randint(1, 12), dice.randint(1, 28)][: dice.randint(1, 3)]
    issued: dict[str, Any] = {"date-parts": [parts]}
    if len(parts) == 1 and dice.random() < 0.2:
        issued["circa"] = True
    item: dict[str, Any] = {
        "id": f"http://zotero.org/users/1/items/{number:06}",
        "type": kind,
        "title": pick_title(dice, number),
        "author": _make_csl_names(dice, 7),
        "issued": issued,
    }
    if dice.random() < 0.8:
        item["language"] = dice.choice(LANGUAGES)
    if dice.random() < 0.6:
        item["abstract"] = " ".join(dice.choices(WORDS, k=80)) + "."
    if dice.random() < 0.5:
        item["keyword"] = ", ".join(dice.sample(WORDS, 3))
    if dice.random() < 0.7:
        item["DOI"] = f"10.{dice.randint(1000, 9999)}/Test.{number}(19)"
    if kind in ("article-journal", "review"):
        item |= {
            "container-title": dice.choice(JOURNALS),
            "volume": str(dice.randint(1, 90)),
            "issue": dice.choice(["1", "2-3", "suppl. 1"]),
            "page": dice.choice([f"{number}-{number + 12}", "e12345"]),
            "ISSN": "1413-7852",
        }
    elif kind in ("chapter", "paper-conference"):
        item |= {
            "container-title": f"Anais do {number}º Simpósio",
            "editor": _make_csl_names(dice, 3),
            "page": f"{number}-{number + 7}",
            "publisher": dice.choice(PUBLISHERS),
            "publisher-place": dice.choice(TOWNS),
            "ISBN": "978-3-16-148410-0",
        }
    elif kind in ("book", "collection", "report", "standard", "map", "thesis"):
        item |= {"publisher": dice.choice(PUBLISHERS), "publisher-place": dice.choice(TOWNS)}
        if kind == "book":
            item |= {"ISBN": "978-0-306-40615-7", "edition": "2", "number-of-pages": "171"}
            if dice.random() < 0.5:
                item["translator"] = _make_csl_names(dice, 2)
        if kind in ("report", "standard"):
            item["number"] = f"INPE-{number}-RPQ/1"
        if kind == "thesis":
            item["genre"] = dice.choice(
                ["Tese de doutorado", "Dissertação de mestrado", "Doctoral thesis"]
            )
    elif kind == "patent":
        item["number"] = f"BR 10 2019 {number:06} 4"
    elif kind in ("software", "dataset"):
        item |= {"publisher": "Zenodo", "version": f"v1.{number}"}
    return item
