"""The format BibTeX.

Source: O. Patashnik, BibTeXing, 1988. The text is UTF-8, as biber and current LaTeX expect it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.core.records.work_types import WorkType
from flask_ibi_archive.core.records.work_values import Name, split_publisher
from flask_ibi_archive.errors import one_line

_TYPES = {
    WorkType.ARTICLE: "article",
    WorkType.BACHELOR_THESIS: "mastersthesis",
    WorkType.BOOK: "book",
    WorkType.CHAPTER: "incollection",
    WorkType.CONFERENCE_PAPER: "inproceedings",
    WorkType.DOCTORAL_THESIS: "phdthesis",
    WorkType.MASTER_THESIS: "mastersthesis",
    WorkType.PROCEEDINGS: "proceedings",
    WorkType.REPORT: "techreport",
    WorkType.REVIEW: "article",
    WorkType.THESIS: "phdthesis",
}
#: The fields for the publisher and for the container; the others have other names.
_PUBLISHERS = {"phdthesis": "school", "mastersthesis": "school", "techreport": "institution"}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_NOT_IN_KEY = re.compile(r"[^A-Za-z0-9./:+-]")

#: The characters that LaTeX interprets.
_SPECIAL = {
    **{character: f"\\{character}" for character in "#$%&_"},
    "\\": r"\textbackslash{}",
    # BibTeX counts braces even after a backslash
    "{": r"\textbraceleft{}",
    "}": r"\textbraceright{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}
#: Matches between characters that LaTeX joins, such as two hyphens.
_LIGATURES = re.compile(r"(?<=[-'`,?!<>])(?=[-'`,<>])")


def escape(text: str) -> str:
    """Return a text that LaTeX prints as it is, on one line."""
    parts = _LIGATURES.split(one_line(text))
    return "{}".join(
        "".join(_SPECIAL.get(character, character) for character in part) for part in parts
    )


def write_bibtex(work: Work) -> str:
    """Return the BibTeX entry of a work."""
    kind = _TYPES.get(work.type, "misc")
    key = _NOT_IN_KEY.sub("_", work.ibi)
    lines = [f"  {name} = {value}" for name, value in _list_fields(work, kind)]
    return f"@{kind}{{{key},\n" + ",\n".join(lines) + "\n}\n"


def _list_fields(work: Work, kind: str) -> Iterator[tuple[str, str]]:
    """Yield the names and the delimited values of the fields."""
    place, publisher = split_publisher(work.publisher)
    container = work.container
    values = {
        "title": work.title,
        _PUBLISHERS.get(kind, "publisher"): publisher,
        "address": place or (container and container.place),
        "journal" if kind == "article" else "booktitle": container and container.title,
        "volume": container and container.volume,
        "number": container and container.number,
        "pages": container and container.pages,
        "type": work.type_text if kind.endswith(("thesis", "report")) else None,
        "abstract": work.abstracts[0][0] if work.abstracts else None,
        "keywords": ", ".join(text for text, _ in work.subjects),
        "language": work.language,
        "isbn": work.isbn,
        "issn": work.issn,
    }
    if work.authors:
        yield "author", "{" + " and ".join(map(_format_name, work.authors)) + "}"
    for name, value in values.items():
        if value:
            yield name, "{" + escape(value) + "}"
    yield from _list_dates(work)
    # the packages hyperref and url read these values verbatim
    for name, value in (("doi", work.doi), ("url", work.url)):
        if value:
            yield name, "{" + _escape_url(value) + "}"


def _list_dates(work: Work) -> Iterator[tuple[str, str]]:
    if work.issued is None:
        return
    year = f"{work.year:04}" if work.year is not None else escape(work.issued.text)
    yield "year", "{" + year + "}"
    if work.issued.month is not None:
        yield "month", _MONTHS[work.issued.month - 1]


def _format_name(name: Name) -> str:
    """Return a name. Braces protect a name that BibTeX would divide, such as an organisation."""
    if name.given is None:
        return "{" + escape(name.family) + "}"
    return f"{_protect(name.family)}, {_protect(name.given)}"


def _protect(text: str) -> str:
    is_divided = re.search(r",|(?:^|\s)and(?:\s|$)", text, re.IGNORECASE)
    return "{" + escape(text) + "}" if is_divided else escape(text)


def _escape_url(text: str) -> str:
    """Return a URL in which %XX replaces the characters that would end the value."""
    return re.sub(r"[\\{}]", lambda found: f"%{ord(found[0]):02X}", one_line(text))
