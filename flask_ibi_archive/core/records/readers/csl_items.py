"""Reads works in CSL-JSON, which Zotero, Mendeley and Pandoc write, and in JSON Lines.

Source: https://github.com/citation-style-language/schema, csl-data.json of version 1.0.2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flask_ibi_archive.core.records.fields import FieldError, quoted
from flask_ibi_archive.core.records.parse import check_json, decode_json, read_json
from flask_ibi_archive.core.records.parse_description import WORK_FIELDS
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

#: The variables with texts, and the fields.
_TEXTS = {
    "title": "title",
    "title-short": "other_title",
    "publisher": "publisher",
    "publisher-place": "place",
    "container-title": "journal",
    "event-title": "journal",
    "event": "journal",
    "volume": "volume",
    "issue": "issue",
    "page": "pages",
    "abstract": "abstract",
    "language": "language",
    "license": "licence",
    "ISSN": "issn",
    "ISBN": "isbn",
    "DOI": "doi",
    "URL": "same_work",
    "number": "report_number",
    "version": "version",
    "edition": "version",
    "number-of-pages": "extent",
    "dimensions": "extent",
    "note": "notes",
}
#: The variables with names, and the fields.
_NAMES = {
    "author": "creators",
    "editor": "editors",
    "translator": "translators",
    "illustrator": "illustrators",
    "producer": "producers",
    "collection-editor": "editors",
    "contributor": "other_contributors",
    "recipient": "other_contributors",
    "interviewer": "other_contributors",
    "director": "other_contributors",
    "composer": "other_contributors",
    "editorial-director": "editors",
}
_NAME_PARTS = (
    "literal", "family", "given", "suffix", "dropping-particle", "non-dropping-particle",
)  # fmt: skip
_DATES = {"issued": "issued", "submitted": "submitted", "available-date": "available"}
#: The types of CSL, and the words for them that a description knows.
_TYPES = {
    "article": "preprint",
    "article-journal": "article",
    "article-magazine": "article",
    "article-newspaper": "article",
    "book": "book",
    "chapter": "chapter",
    "collection": "collection",
    "dataset": "dataset",
    "document": "other",
    "entry": "chapter",
    "entry-dictionary": "chapter",
    "entry-encyclopedia": "chapter",
    "figure": "image",
    "graphic": "image",
    "map": "map",
    "motion_picture": "video",
    "broadcast": "video",
    "musical_score": "music",
    "paper-conference": "conference paper",
    "patent": "patent",
    "periodical": "collection",
    "report": "report",
    "review": "review",
    "review-book": "review",
    "software": "software",
    "song": "sound",
    "speech": "lecture",
    "standard": "standard",
    "thesis": "thesis",
    "manuscript": "text",
    "pamphlet": "text",
    "post": "text",
    "post-weblog": "text",
    "webpage": "text",
    "bill": "text",
    "legal_case": "text",
    "legislation": "text",
    "regulation": "text",
    "treaty": "text",
    "hearing": "text",
    "interview": "text",
    "classic": "text",
    "personal_communication": "text",
    "performance": "other",
    "event": "other",
}
_NAMED = [
    *((name, Column(field)) for name, field in (_TEXTS | _NAMES | _DATES).items()),
    ("type", Column("type")),
    ("keyword", Column("subjects")),
]


def read_csl_json(text: str) -> WorksFile:
    """Return the works of a CSL-JSON document: a list of items, or one item.

    :raises FieldError: if the text is no such document.
    """
    start = len(text) - len(text.lstrip())
    if text[start : start + 1] == "{":
        text, start = f"[{text[start:]}]", 0
    if text[start : start + 1] != "[":
        raise FieldError("", "the text is not CSL-JSON, a list of items in brackets")
    return WorksFile(_read_items(text, start + 1), name_fields(_NAMED))


_BETWEEN = re.compile(r"\s*,?\s*")


def _read_items(text: str, position: int) -> Iterator[Entry]:
    """Yield the items one by one, because all of them would need much memory."""
    decoder, number = json.JSONDecoder(), 0
    while True:
        found = _BETWEEN.match(text, position)
        position = found.end() if found else position
        if text[position : position + 1] == "]":
            return
        number += 1
        place = f"item {number}"
        try:
            item, position = decode_json(decoder.raw_decode, text, position)
        except FieldError as error:
            yield Entry(place, {}, "", (error,))
            return
        yield _read_item(place, item)


def _read_item(place: str, item: Any) -> Entry:
    try:
        check_json("", item)
        if not isinstance(item, dict):
            raise FieldError("", f"{quoted(item)} is not an item of CSL-JSON")
        if item.get("id") not in (None, ""):
            place += f" ({quoted(item['id'])[1:-1] if isinstance(item['id'], str) else item['id']})"
        name = str(item.get("id") or digest(json.dumps(item, sort_keys=True)))
        entry = build_entry(place, name, _list_values(item))
    except FieldError as error:
        return Entry(place, {}, "", (error,))
    if isinstance(custom := item.get("custom"), dict):
        # what an export of this package states in the words of records
        stated = {field: value for field, value in custom.items() if field in WORK_FIELDS}
        entry.data["metadata"]["work"].update(stated)
    return entry


def _list_values(item: Mapping[str, Any]) -> Iterator[Value]:
    kind = item.get("type") or "document"  # pandoc writes "" for @misc
    if not isinstance(kind, str) or kind not in _TYPES:
        raise FieldError("type", f"{quoted(kind)} is not a type of CSL, such as article-journal")
    genre = item.get("genre")
    yield "type", Column("type"), _find_type(kind, genre if isinstance(genre, str) else "")
    for variable, value in item.items():
        if variable in _NAMES and isinstance(value, list):
            for name in value:
                yield variable, Column(_NAMES[variable]), read_csl_name(variable, name)
    for variable, field in _DATES.items():
        if isinstance(date := item.get(variable), dict):
            yield variable, Column(field), _read_date(date)
    for variable, field in _TEXTS.items():
        value = item.get(variable)
        if isinstance(value, int | float):
            value = str(value)
        if isinstance(value, str):
            yield variable, Column(field), value
    if isinstance(keywords := item.get("keyword"), str):
        for word in re.split("[;,]" if ";" not in keywords else ";", keywords):
            yield "keyword", Column("subjects"), word


def _find_type(kind: str, genre: str) -> str:
    """Return the type; that of a thesis is stated by the genre."""
    stated = find_type(genre) if genre else None
    known = find_type(_TYPES[kind])
    if stated is not None and (stated is known or (kind == "thesis" and stated in THESES)):
        return genre
    return _TYPES[kind]


def read_csl_name(variable: str, name: Any) -> dict[str, str]:
    """Return the JSON of a name.

    :raises FieldError: if the value is not a name of CSL-JSON.
    """
    if not isinstance(name, dict) or not all(
        isinstance(name.get(part) or "", str) for part in _NAME_PARTS
    ):
        raise FieldError(variable, f'{quoted(name)} is not a name such as {{"family": "Silva"}}')
    if literal := name.get("literal"):
        return {"name": literal, "kind": "organisation"}
    family = " ".join(filter(None, (name.get("non-dropping-particle"), name.get("family"))))
    given = " ".join(filter(None, (name.get("given"), name.get("dropping-particle"))))
    given = ", ".join(filter(None, (given, name.get("suffix"))))
    if not family:
        return {"name": given}
    return {"name": f"{family}, {given}" if given else family}


def _read_date(date: Mapping[str, Any]) -> str:
    """Return a date of CSL-JSON; of a period, the beginning."""
    parts = date.get("date-parts")
    if isinstance(parts, list) and parts and isinstance(parts[0], list) and parts[0]:
        texts = [str(part).strip() for part in parts[0] if part not in (None, "")]
        iso = "-".join(text.zfill(width) for text, width in zip(texts, (4, 2, 2), strict=False))
        return f"c. {iso}" if date.get("circa") and len(texts) == 1 else iso
    return str(date.get("raw") or date.get("literal") or "").partition("/")[0]


def read_json_lines(lines: Iterable[bytes]) -> WorksFile:
    """Return the works of JSON Lines: records without identifiers."""
    return WorksFile(_read_lines(lines))


def _read_lines(lines: Iterable[bytes]) -> Iterator[Entry]:
    for number, line in enumerate(lines, 1):
        text, place = line.removeprefix(b"\xef\xbb\xbf").strip(), f"line {number}"
        if not text:
            continue
        try:
            data = read_json(text)
        except FieldError as error:
            yield Entry(place, {}, "", (error,))
            continue
        if not isinstance(data, dict):
            reason = f'{quoted(data)} is not an object (write {{"...": ...}})'
            yield Entry(place, {}, "", (FieldError("", reason),))
            continue
        errors = tuple(
            FieldError(name, "an item that gets new identifiers has none; import without --mint")
            for name in ("rep", "ibip", "aliases")
            if name in data
        )
        yield Entry(place, data, digest(text.decode("utf-8")), errors)
