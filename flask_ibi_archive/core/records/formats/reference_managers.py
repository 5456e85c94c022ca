"""The formats of reference managers: BibTeX, RIS and CSL-JSON.

Source: https://github.com/citation-style-language/schema, csl-data.json of version 1.0.2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from flask_ibi_archive.core.records.csl_reader import list_values
from flask_ibi_archive.core.records.description import (
    IN_JOURNALS,
    WORK_FIELDS,
    Container,
    Name,
    Role,
    parse_work_fields,
)
from flask_ibi_archive.core.records.formats.brazilian import WITH_EDITIONS
from flask_ibi_archive.core.records.formats.common import TYPES, omit_empty
from flask_ibi_archive.core.records.readers import build_entry
from flask_ibi_archive.core.records.record import format_description
from flask_ibi_archive.core.records.values import FieldError, IssuedDate, list_words
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.errors import one_line

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
    """Escape a text for LaTeX, and put it on one line."""
    parts = _LIGATURES.split(one_line(text))
    return "{}".join(
        "".join(_SPECIAL.get(character, character) for character in part) for part in parts
    )


def write_bibtex(work: Work) -> str:
    """Return the BibTeX entry of a work."""
    kind = TYPES[work.type].bibtex
    key = _NOT_IN_KEY.sub("_", work.ibi)
    lines = [f"  {name} = {value}" for name, value in _list_fields(work, kind)]
    return f"@{kind}{{{key},\n" + ",\n".join(lines) + "\n}\n"


def _list_fields(work: Work, kind: str) -> Iterator[tuple[str, str]]:
    """Yield ``(name, value)`` for each field; the value includes braces or quotation marks."""
    place = work.imprint[0]
    container = work.container or Container("")
    values = {
        "title": work.title,
        _PUBLISHERS.get(kind, "publisher"): work.institution,
        "address": place or container.place,
        "journal" if kind == "article" else "booktitle": container.title,
        "volume": container.volume,
        "number": container.number if work.container else work.number,
        "pages": container.pages,
        "edition" if kind == "book" else "version": work.version,
        "type": _find_degree(work) if kind.endswith(("thesis", "report")) else None,
        "abstract": work.abstracts[0][0] if work.abstracts else None,
        "keywords": ", ".join(subject.value for subject in work.subjects),
        "language": work.language,
        "isbn": work.isbn,
        "issn": work.issn,
        "orcid-numbers": "; ".join(
            f"{name.inverted}/{name.orcid}" for name in work.creators if name.orcid
        ),
        "note": ". ".join(_list_notes(work)),
        "copyright": work.licence_url,
    }
    for field, names in (
        ("author", work.creators),
        ("editor", work.find_contributors("editor")),
        ("translator", work.find_contributors("translator")),
        ("advisor", work.find_contributors("advisor", "co-advisor")),
    ):
        if names:
            yield field, "{" + " and ".join(map(_format_name, names)) + "}"
    for name, value in values.items():
        if value:
            yield name, "{" + escape(value) + "}"
    yield from _list_dates(work)
    # the packages hyperref and url read these values verbatim
    for name, value in (("doi", work.doi), ("url", work.url)):
        if value:
            yield name, "{" + _escape_url(value) + "}"


def _find_degree(work: Work) -> str | None:
    """Return the name of the degree, or the type in words."""
    return (work.degree and work.degree.name) or work.type_text


def _list_notes(work: Work) -> Iterator[str]:
    """Yield the remarks, and a sentence about the grants."""
    yield from (text for text, _ in work.notes)
    if work.funding:
        grants = (", ".join(filter(None, (each.funder, each.number))) for each in work.funding)
        yield f"Funding: {'; '.join(grants)}"


def _list_dates(work: Work) -> Iterator[tuple[str, str]]:
    issued = work.issued
    if issued is None:
        return
    year = f"{issued.year:04}" if issued.year is not None else escape(issued.text)
    yield "year", "{" + year + "}"
    if issued.month is not None:
        yield "month", _MONTHS[issued.month - 1]


def _format_name(name: Name) -> str:
    """Return a name such as ``Silva, Jr., José``. BibTeX does not divide a name in braces."""
    if name.given is None:
        return "{" + escape(name.family) + "}"
    family, given, suffix = name.parts
    return ", ".join(map(_protect, filter(None, (family, suffix, given))))


def _protect(text: str) -> str:
    is_divided = re.search(r",|(?:^|\s)and(?:\s|$)", text, re.IGNORECASE)
    return "{" + escape(text) + "}" if is_divided else escape(text)


def _escape_url(text: str) -> str:
    """Percent-encode the characters of a URL that would end the value in BibTeX."""
    return re.sub(r"[\\{}]", lambda found: f"%{ord(found[0]):02X}", one_line(text))


def write_ris(work: Work) -> str:
    """Return the RIS record of a work. Each value is on one line."""
    lines = [(tag, one_line(text)) for tag, text in _list_values(work) if text]
    return "".join(f"{tag}  - {text}\r\n" for tag, text in lines) + "ER  - \r\n"


def _list_values(work: Work) -> Iterator[tuple[str, str | None]]:
    """Yield ``(tag, value)``; the value may be None. TY must be the first tag."""
    place = work.imprint[0]
    yield "TY", TYPES[work.type].ris
    yield "ID", work.ibi
    yield "TI", work.title
    yield from (("TT", title.value) for title in work.other_titles if title.kind == "translated")
    yield from (("AU", author.inverted) for author in work.creators)
    yield from (("A2", name.inverted) for name in work.find_contributors("editor"))
    yield from (("A3", name.inverted) for name in work.find_contributors("advisor", "co-advisor"))
    yield from (("A4", name.inverted) for name in work.find_contributors("translator"))
    issued = work.issued
    if issued is not None:
        # unknown parts of the date are empty
        year, month, day = (*map(str, issued.parts), "", "", "")[:3]
        unparsed = "" if issued.iso else issued.text
        yield "PY", year and f"{year:0>4}"
        yield "DA", f"{year:0>4}/{month:0>2}/{day:0>2}" if day else unparsed
    yield "PB", work.institution
    if work.container is not None:
        place = place or work.container.place
        yield "JO" if work.type in IN_JOURNALS else "T2", work.container.title
        yield "VL", work.container.volume
        yield "IS", work.container.number
        yield "SP", work.container.first_page
        yield "EP", work.container.last_page
    yield "CY", place
    yield "M3", _find_degree(work)
    yield "ET", work.version
    yield "M1", work.number
    yield from (("AB", text) for text, _ in work.abstracts[:1])
    yield from (("KW", subject.value) for subject in work.subjects)
    yield from (("N1", text) for text in _list_notes(work))
    yield "LA", work.language
    yield "SN", work.isbn or work.issn
    yield "DO", work.doi
    yield "UR", work.url


#: The variables for contributors, and their roles.
_ROLES: dict[str, tuple[Role | None, ...]] = {
    "editor": ("editor",),
    "translator": ("translator",),
    "illustrator": ("illustrator",),
    "producer": ("producer",),
    "contributor": ("other", None),
}
#: The types of CSL that are no types of works, by the type that says most about such a work. A
#: description may state them as a type in words.
OTHER_TYPES = list_words("csl types")
_PAGES = re.compile(r"([0-9]+)(?: ?(?:p|pp|pages|páginas)\.?)?")


def write_csl_json(work: Work) -> str:
    """Return a CSL-JSON document, which is a list with one work."""
    return json.dumps([_describe(work)], ensure_ascii=False, indent=1) + "\n"


def _describe(work: Work) -> dict[str, Any]:
    """Return the CSL-JSON object of a work. Variables without a value are omitted.

    CSL reserves the variable ``custom`` for other data. Here, it contains the fields of the record
    that no variable of CSL can express, such as ``creators`` if an author has an ORCID.
    """
    place = work.imprint[0]
    container, degree = work.container or Container(""), work.degree
    dates = {
        "issued": work.issued,
        "submitted": work.dates.get("submitted"),
        "available-date": work.dates.get("available"),
    }
    version = "edition" if work.type in WITH_EDITIONS else "version"
    pages = None if work.extent is None else _PAGES.fullmatch(work.extent)
    short_titles = (title.value for title in work.other_titles if title.kind == "alternative")
    found = {
        "id": work.ibi,
        "type": work.type_text if work.type_text in OTHER_TYPES else TYPES[work.type].csl,
        "title": work.title,
        "title-short": next(short_titles, None),
        "author": [_format_csl_name(name) for name in work.creators],
        **{
            variable: [_format_csl_name(name) for name in work.find_contributors(*roles)]
            for variable, roles in _ROLES.items()
        },
        **{variable: _format_csl_date(date) for variable, date in dates.items() if date},
        "publisher": work.institution,
        "publisher-place": place or container.place,
        "container-title": container.title,
        "volume": container.volume,
        "issue": container.number,
        "page": container.pages,
        "genre": (degree and degree.name)
        or (work.type_text if work.type_text != work.type.value else None),
        "number": work.number,
        version: work.version,
        "number-of-pages": pages and pages[1],
        "dimensions": None if pages else work.extent,
        "abstract": "\n\n".join(text for text, _ in work.abstracts),
        "keyword": _join_subjects([subject.value for subject in work.subjects]),
        "note": "\n\n".join(text for text, _ in work.notes),
        "license": work.licence_url,
        "language": work.language,
        "ISBN": work.isbn,
        "ISSN": work.issn,
        "DOI": work.doi,
        "URL": work.url,
    }
    variables = omit_empty(found)
    return omit_empty(variables, custom=_list_custom_fields(work, variables) or None)


def _join_subjects(subjects: list[str]) -> str:
    """Join the subjects with commas, or with semicolons if a subject contains a comma."""
    return ("; " if any("," in subject for subject in subjects) else ", ").join(subjects)


def _list_custom_fields(work: Work, variables: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a description that an import of the CSL variables would change.

    A field that the import would add, although the description does not state it, is None.
    """
    stated = format_description(work.stated)
    read = build_entry("", "", list_values(variables)).data["metadata"]["work"]
    with suppress(FieldError):
        read = format_description(parse_work_fields("", read))
    return {name: stated.get(name) for name in WORK_FIELDS if stated.get(name) != read.get(name)}


def _format_csl_name(name: Name) -> dict[str, str]:
    if name.given is None:
        return {"family" if name.is_person else "literal": name.family}
    family, given, suffix = name.parts
    return {"family": family, "given": given, **({"suffix": suffix} if suffix else {})}


def _format_csl_date(issued: IssuedDate) -> dict[str, Any]:
    if not issued.parts:
        return {"literal": issued.text}
    found: dict[str, Any] = {"date-parts": [list(issued.parts)]}
    return found | {"circa": True} if issued.is_approximate else found
