"""Reads works in BibTeX, with the library bibtexparser (the extra ``imports``)."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from typing import Any

from bibtexparser.entrypoint import parse_string
from bibtexparser.middlewares.names import (
    parse_single_name_into_parts,
    split_multiple_persons_names,
)
from bibtexparser.model import DuplicateBlockKeyBlock, DuplicateFieldKeyBlock, ParsingFailedBlock
from bibtexparser.model import Entry as BibtexEntry
from pylatexenc.latex2text import LatexNodes2Text

from flask_ibi_archive.core.records.fields import FieldError
from flask_ibi_archive.core.records.readers.entries import (
    Entry,
    Value,
    WorksFile,
    build_entry,
    name_fields,
)
from flask_ibi_archive.core.records.readers.work_fields import Column
from flask_ibi_archive.core.records.work_types import find_type
from flask_ibi_archive.errors import one_line

# the errors are reported with the entries; without a handler, logging writes them, too
logging.getLogger("bibtexparser").addHandler(logging.NullHandler())
#: The number of entries that are parsed together. All entries of a file would need much memory.
_TOGETHER = 500
#: The fields, and what they are. "number" depends on the type.
_FIELDS = {
    "title": "title",
    "subtitle": "subtitle",
    "author": "creators",
    "editor": "editors",
    "translator": "translators",
    "journal": "journal",
    "journaltitle": "journal",
    "booktitle": "journal",
    "eventtitle": "journal",
    "publisher": "publisher",
    "school": "publisher",
    "institution": "publisher",
    "organization": "publisher",
    "address": "place",
    "location": "place",
    "volume": "volume",
    "issue": "issue",
    "number": "issue",
    "pages": "pages",
    "abstract": "abstract",
    "keywords": "subjects",
    "language": "language",
    "langid": "language",
    "doi": "doi",
    "url": "same_work",
    "isbn": "isbn",
    "issn": "issn",
    "edition": "version",
    "version": "version",
    "pagetotal": "extent",
    "note": "notes",
    "file": "files",
}
_NAMES = {"author", "editor", "translator"}
#: The fields whose values LaTeX does not interpret.
_VERBATIM = {"url", "doi", "file"}
_TYPES = {
    "article": "article",
    "book": "book",
    "mvbook": "book",
    "booklet": "book",
    "collection": "book",
    "inbook": "chapter",
    "incollection": "chapter",
    "bookinbook": "chapter",
    "inproceedings": "conference paper",
    "conference": "conference paper",
    "proceedings": "proceedings",
    "manual": "report",
    "report": "report",
    "techreport": "report",
    "mastersthesis": "master thesis",
    "phdthesis": "doctoral thesis",
    "thesis": "thesis",
    "patent": "patent",
    "dataset": "dataset",
    "software": "software",
    "video": "video",
    "music": "music",
    "standard": "standard",
    "unpublished": "preprint",
    "online": "text",
}
_NUMBERED = {"techreport", "report", "patent", "manual", "standard"}
_NAMED = [
    *((name, Column(field)) for name, field in _FIELDS.items()),
    ("number", Column("report_number")),
    ("year", Column("issued")),
    ("date", Column("issued")),
    ("entry type", Column("type")),
]
_LATEX = LatexNodes2Text(math_mode="verbatim", keep_comments=True)
_BLOCK = re.compile(r"^[ \t]*@", re.MULTILINE)
_MACRO = re.compile(r"\s*@string\b", re.IGNORECASE)
_JOINED = re.compile(r'"\s*#|#\s*"|\}\s*#|#\s*\{')


def read_bibtex(text: str) -> WorksFile:
    """Return the works of a BibTeX file, of which the macros ``@string`` may be part."""
    return WorksFile(_read_blocks(text), name_fields(_NAMED))


def _read_blocks(text: str) -> Iterator[Entry]:
    starts = [found.start() for found in _BLOCK.finditer(text)]
    blocks = [text[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]
    macros = [block for block in blocks if _MACRO.match(block)]
    # each part begins with the macros, which are not in their own place then
    others = ["\n" * block.count("\n") if _MACRO.match(block) else block for block in blocks]
    before = "".join(macros)
    line, seen = text.count("\n", 0, starts[0] if starts else 0) + 1, dict[str, int]()
    for first in range(0, len(others), _TOGETHER):
        part = "".join(others[first : first + _TOGETHER])
        for block in parse_string(before + part).blocks:
            number = line + (block.start_line or 0) - before.count("\n")
            if isinstance(block, ParsingFailedBlock) and number >= line:
                yield _refuse(number, block)
            elif isinstance(block, BibtexEntry) and block.key in seen:
                yield Entry(
                    f"entry {block.key} (line {number})",
                    {},
                    block.key,
                    (FieldError("", f"the key is already in line {seen[block.key]}"),),
                )
            elif isinstance(block, BibtexEntry):
                seen[block.key] = number
                yield _read_entry(number, block)
        line += part.count("\n")


def _refuse(line: int, block: ParsingFailedBlock) -> Entry:
    """Return the entry for a block that bibtexparser cannot parse."""
    if isinstance(block, DuplicateBlockKeyBlock):
        reason = f"the key {block.key} is already in the file"
    elif isinstance(block, DuplicateFieldKeyBlock):
        reason = f"the entry has the field {', '.join(sorted(block.duplicate_keys))} twice"
    else:
        error = getattr(block.error, "abort_reason", None) or str(block.error)
        reason = f"the entry is not BibTeX: {one_line(error)}"
    return Entry(f"line {line}", {}, "", (FieldError("", reason),))


def _read_entry(line: int, block: Any) -> Entry:
    fields = {field.key.lower(): str(field.value) for field in block.fields}
    place = f"entry {block.key} (line {line})"
    errors = tuple(
        FieldError(name, "texts joined by # can't be read; write the whole text")
        for name, value in fields.items()
        if name in _FIELDS and _JOINED.search(value)
    )
    if errors:
        return Entry(place, {}, block.key, errors)
    return build_entry(place, block.key, _list_values(block.entry_type.lower(), fields))


def _list_values(kind: str, fields: Mapping[str, str]) -> Iterator[Value]:
    yield "entry type", Column("type"), _find_type(kind, decode(fields.get("type", "")))
    for name, field in _FIELDS.items():
        if name not in fields:
            continue
        value = fields[name]
        if name in _NAMES:
            yield from ((name, Column(field), one) for one in _read_names(value))
        elif name in _VERBATIM:
            yield name, Column(field), value.replace("\\", "")
        elif name == "keywords":
            words = decode(value)
            for word in re.split(";" if ";" in words else ",", words):
                yield name, Column(field), word
        elif name == "number" and kind in _NUMBERED:
            yield name, Column("report_number"), decode(value)
        else:
            yield name, Column(field), decode(value)
    yield ("date" if "date" in fields else "year"), Column("issued"), _read_date(fields)


def _find_type(kind: str, stated: str) -> str:
    """Return the type. The field ``type`` of a thesis or a report may state it in words."""
    if kind.endswith(("thesis", "report")) and stated:
        if stated in ("phdthesis", "mathesis"):  # the words of biblatex
            return "doctoral thesis" if stated == "phdthesis" else "master thesis"
        if find_type(stated) is not None:
            return stated
    return _TYPES.get(kind, "other")


def decode(text: str) -> str:
    """Return a text without the commands of LaTeX, on one line."""
    if not re.search(r"[\\{}$~%`']|--", text):
        return one_line(text)
    # in BibTeX, unlike LaTeX, "%" begins no comment
    escaped = re.sub(r"(?<!\\)%", r"\\%", text)
    return one_line(_LATEX.latex_to_text(escaped)).replace("–", "-" if _is_range(text) else "–")


def _is_range(text: str) -> bool:
    return re.fullmatch(r"[\w.:]+\s*--?\s*[\w.:]+", text.strip()) is not None


def _read_names(text: str) -> Iterator[dict[str, str]]:
    """Yield the JSON of names that ``and`` separates; braces protect the name of an institution."""
    for author in split_multiple_persons_names(text):
        if re.fullmatch(r"\{.*\}", author.strip(), re.DOTALL):
            yield {"name": decode(author), "kind": "organisation"}
            continue
        if author.strip() == "others":
            continue
        parts = parse_single_name_into_parts(author, strict=False)
        family = decode(" ".join([*parts.von, *parts.last]))
        given = ", ".join(filter(None, map(decode, (" ".join(parts.first), " ".join(parts.jr)))))
        yield {"name": f"{family}, {given}" if given else family}


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def _read_date(fields: Mapping[str, str]) -> str:
    if "date" in fields:
        return decode(fields["date"]).partition("/")[0]
    year, month = decode(fields.get("year", "")), decode(fields.get("month", ""))
    number = month.zfill(2) if month.isdigit() else ""
    if month[:3].lower() in _MONTHS:
        number = f"{_MONTHS.index(month[:3].lower()) + 1:02}"
    return f"{year}-{number}" if number and year.isdigit() else year
