"""Reads works in RIS, with the library rispy (the extra ``imports``).

Source: RIS Format Specifications, Research Information Systems, version of 2011.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import rispy

from flask_ibi_archive.core.records.fields import FieldError
from flask_ibi_archive.core.records.readers.entries import (
    Entry,
    Value,
    WorksFile,
    build_entry,
    digest,
    name_fields,
)
from flask_ibi_archive.core.records.readers.work_fields import Column
from flask_ibi_archive.core.records.work_types import THESES, find_type
from flask_ibi_archive.errors import one_line

#: The tags, and the fields. A2 and SN depend on the type.
_FIELDS = {
    "TI": "title",
    "T1": "title",
    "CT": "title",
    "BT": "title",
    "ST": "other_title",
    "TT": "translated_title",
    "AU": "creators",
    "A1": "creators",
    "A2": "editors",
    "ED": "editors",
    "A4": "translators",
    "JO": "journal",
    "JF": "journal",
    "T2": "journal",
    "JA": "journal",
    "PB": "publisher",
    "CY": "place",
    "PP": "place",
    "VL": "volume",
    "IS": "issue",
    "CP": "issue",
    "AB": "abstract",
    "N2": "abstract",
    "KW": "subjects",
    "LA": "language",
    "DO": "doi",
    "UR": "same_work",
    "ET": "version",
    "N1": "notes",
    "L1": "files",
}
_TYPES = {
    "ABST": "article", "ART": "image", "AGGR": "dataset", "ADVS": "video", "BLOG": "text",
    "BOOK": "book", "CHAP": "chapter", "COMP": "software", "CONF": "proceedings",
    "CPAPER": "conference paper", "CPAP": "conference paper", "DATA": "dataset", "DBASE": "dataset",
    "EBOOK": "book", "ECHAP": "chapter", "EDBOOK": "book", "EJOUR": "article",
    "ELEC": "text", "ENCYC": "chapter", "FIGURE": "image", "GOVDOC": "report", "INPR": "preprint",
    "JFULL": "collection", "JOUR": "article", "MANSCPT": "text", "MAP": "map", "MGZN": "article",
    "MPCT": "video", "MULTI": "video", "MUSIC": "music", "NEWS": "article", "PAMP": "text",
    "PAT": "patent", "RPRT": "report", "SLIDE": "lecture", "SOUND": "sound", "STAND": "standard",
    "THES": "thesis", "UNPB": "preprint", "VIDEO": "video", "UNPD": "preprint",
}  # fmt: skip
#: The types for which M1 or IS is the number of the document.
_NUMBERED = {"RPRT", "PAT", "STAND", "GOVDOC"}
_NAMED = [
    *((tag, Column(field)) for tag, field in _FIELDS.items()),
    ("TY", Column("type")),
    ("PY", Column("issued")),
    ("DA", Column("issued")),
    ("SP", Column("pages")),
    ("SN", Column("issn")),
    ("SN", Column("isbn")),
    ("M1", Column("report_number")),
]
_TAG = re.compile(r"([A-Z][A-Z0-9])  -(?: |$)")


class _Tags(rispy.RisParser):
    """Keeps the tags as they are, and all values of each."""

    DEFAULT_MAPPING = {tag: tag for tag in rispy.RisParser.DEFAULT_MAPPING}  # noqa: RUF012
    DEFAULT_LIST_TAGS = list(rispy.RisParser.DEFAULT_MAPPING)  # noqa: RUF012
    DEFAULT_DELIMITER_MAPPING: Any = {}  # noqa: RUF012


def read_ris(lines: Iterable[str]) -> WorksFile:
    """Return the works of a RIS file."""
    return WorksFile(_read_references(lines), name_fields(_NAMED))


def _read_references(lines: Iterable[str]) -> Iterator[Entry]:
    """Yield the references one by one, because all of them would need much memory."""
    collected: list[str] = []
    first = 1
    for number, line in enumerate(lines, 1):
        text = line.lstrip("\ufeff").rstrip()
        found = _TAG.match(text)
        if found and found[1] == "TY" and collected:
            yield _refuse(first, "the reference has no end (a line ER  -)")
            collected = []
        if not collected:
            if not (found and found[1] == "TY"):
                if text and not text.isdigit():
                    yield _refuse(number, "a reference begins with its type, such as TY  - JOUR")
                continue
            first = number
        collected.append(text)
        if found and found[1] == "ER":
            yield _read_reference(first, "\n".join(collected))
            collected = []
    if collected:
        yield _refuse(first, "the reference has no end (a line ER  -)")


def _refuse(line: int, reason: str) -> Entry:
    return Entry(f"line {line}", {}, "", (FieldError("", reason),))


def _read_reference(line: int, text: str) -> Entry:
    [tags] = rispy.loads(text, implementation=_Tags, skip_unknown_tags=True)
    name = one_line(" ".join(_list(tags, "ID")))
    place = f"line {line}" if not name else f"reference {name} (line {line})"
    return build_entry(place, name or digest(text), _list_values(tags))


def _list(tags: Mapping[str, Any], tag: str) -> list[str]:
    value = tags.get(tag, [])
    return [value] if isinstance(value, str) else value


def _list_values(tags: Mapping[str, Any]) -> Iterator[Value]:
    kind = "".join(_list(tags, "TY")).strip()
    stated = " ".join(_list(tags, "M3"))
    yield "TY", Column("type"), _find_type(kind, stated)
    for tag, field in _FIELDS.items():
        for value in _list(tags, tag):
            if tag == "A2" and kind == "THES":
                yield tag, Column("advisors"), value
            elif tag == "A2" and kind in ("JOUR", "MGZN", "NEWS"):
                yield tag, Column("other_contributors"), value
            elif tag == "IS" and kind in _NUMBERED:
                yield tag, Column("report_number"), value
            elif tag == "KW":
                yield from ((tag, Column(field), word) for word in value.split(";"))
            else:
                yield tag, Column(field), value
    yield from (("M1", Column("report_number"), v) for v in _list(tags, "M1") if kind in _NUMBERED)
    yield from _list_numbers(_list(tags, "SN"))
    yield "SP", Column("pages"), "-".join([*_list(tags, "SP")[:1], *_list(tags, "EP")[:1]])
    yield from _list_dates(tags)


def _list_numbers(values: list[str]) -> Iterator[Value]:
    for value in values:
        for text in re.split(r"[;,]|\s+(?=\()", value):
            digits = re.sub("[^0-9Xx]", "", text)
            if len(digits) in (8, 10, 13):
                yield "SN", Column("issn" if len(digits) == 8 else "isbn"), text


def _list_dates(tags: Mapping[str, Any]) -> Iterator[Value]:
    """Yield the dates. A date is written as ``2009/07/21/``, of which parts may be missing."""
    for tag in ("DA", "PY", "Y1"):
        for value in _list(tags, tag):
            parts = [part.strip() for part in value.split("/")[:3] if part.strip()]
            if all(map(str.isdigit, parts)):
                widths = (4, 2, 2)
                value = "-".join(p.zfill(w) for p, w in zip(parts, widths, strict=False))
            yield ("PY" if tag == "Y1" else tag), Column("issued"), value


def _find_type(kind: str, stated: str) -> str:
    """Return the type. M3 may state that of a thesis or of another work in words."""
    named = find_type(stated) if stated else None
    known = _TYPES.get(kind, "other")
    if named is not None and (known == "other" or named in (find_type(known), *THESES)):
        return stated
    return known
