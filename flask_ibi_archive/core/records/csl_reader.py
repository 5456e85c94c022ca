"""The reader of CSL-JSON, as Zotero, pandoc and the registries of DOIs write it.

A value for which a description has no field is kept as a note, or left out, with a warning. Wrong
values are not found here, but later, when the record is parsed.

Source: https://github.com/citation-style-language/schema, csl-data.json of version 1.0.2;
https://www.crossref.org/documentation/retrieve-metadata/content-negotiation/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any
from urllib.parse import quote

from flask_ibi_archive.core.identifiers.grammar import match_identifier
from flask_ibi_archive.core.protocol.languages import LANGUAGES
from flask_ibi_archive.core.records import description as model
from flask_ibi_archive.core.records import readers
from flask_ibi_archive.core.records import values as parsers
from flask_ibi_archive.core.records.readers import (
    Column,
    Entry,
    Value,
    WorksFile,
    keep_as_note,
    omit,
)
from flask_ibi_archive.core.records.record import check_json, decode_json
from flask_ibi_archive.core.records.values import FieldError, quoted, wrong
from flask_ibi_archive.errors import translatable as _

#: The fields of the variables with texts and with names. Some variables are those of registries,
#: not of CSL.
_TEXTS, _NAMES = parsers.list_words("csl texts"), parsers.list_words("csl names")
_DATES = {"issued": "issued", "submitted": "submitted", "available-date": "available"}
#: The variables that describe the work, but have no field: those that only describe its place in a
#: library are not among them.
_WITHOUT_FIELD = parsers.VOCABULARIES["csl"]["without field"]
#: The types of CSL, and the words for them that a description knows.
_TYPES = parsers.list_words("csl types") | {
    terms[5]: type for type, terms in reversed(parsers.VOCABULARIES["terms"].items())
}
_NAMED = [
    *((name, Column(field)) for name, field in (_TEXTS | _NAMES | _DATES).items()),
    *(("funder", Column(field)) for field in ("funders", "funder_ids", "grants")),
    ("type", Column("type")),
]


def read_csl_json(text: str) -> WorksFile:
    """Read the works in a CSL-JSON document, which is a list of items or one item.

    :raises FieldError: if the text is not such a document.
    """
    items = decode_json(json.loads, text)
    items = [items] if isinstance(items, dict) else items
    if not isinstance(items, list):
        raise FieldError("", "the text is not CSL-JSON, a list of items in brackets")
    places = (_("item {number}", number=number) for number in count(1))
    return WorksFile(map(_read_item, places, items), readers.name_fields(_NAMED))


def _read_item(place: str, item: Any) -> Entry:
    try:
        check_json("", item)
        if not isinstance(item, dict):
            raise wrong("", item, "is not an item of CSL-JSON")
        if item.get("id") not in (None, ""):
            name = quoted(item["id"])[1:-1] if isinstance(item["id"], str) else item["id"]
            place = _("{place} ({name})", place=place, name=name)
        name = str(item.get("id") or readers.digest(json.dumps(item, sort_keys=True)))
        entry = readers.build_entry(place, name, list_values(item))
    except FieldError as error:
        return Entry(place, errors=(error,))
    work = entry.data.setdefault("metadata", {}).setdefault("work", {})
    # what an export of this package states in the words of records; null: it is not stated
    for field, value in _read_custom(item).items():
        if value is None:
            work.pop(field, None)
        elif field in model.WORK_FIELDS:
            work[field] = value
    return entry


def _read_custom(item: Mapping[str, Any]) -> Mapping[str, Any]:
    custom = item.get("custom")
    return custom if isinstance(custom, dict) else {}


def _list(value: Any) -> list[Any]:
    """Return a value as a list without empty members; registries write one value without a list."""
    return [one for one in (value if isinstance(value, list) else [value]) if one or one == 0]


def list_values(item: Mapping[str, Any]) -> Iterator[Value]:
    """Yield the values of an item except those of the variable ``custom``."""
    yield from _read_type(item)
    for variable, field in _NAMES.items():
        yield from (_read_name(variable, Column(field), one) for one in _list(item.get(variable)))
    for variable, field in _DATES.items():
        yield from (_read_date(variable, field, one) for one in _list(item.get(variable)))
    for variable, field in {**_TEXTS, **dict.fromkeys(_WITHOUT_FIELD, "")}.items():
        texts = _list(item.get(variable))
        if variable in ("ISSN", "ISBN"):
            texts = [",".join(map(str, texts))]
        for number, one in enumerate(texts):
            text = (one.get("name") or one.get("URL")) if isinstance(one, dict) else one
            if not isinstance(text, str | int | float) or isinstance(text, bool):
                yield omit(variable, one, _("is not a text"))
            elif field:
                # these tags of CSL say nothing about the words
                plain = re.sub(r"</?(?:span|sc)\b[^>]*>", "", str(text)).strip()
                yield from _read_text(item, variable, Column(field), number, plain)
            else:
                yield keep_as_note(variable, str(text), _("a description has no field for it"))
    for funder in _list(item.get("funder")):
        if isinstance(funder, dict) and isinstance(name := funder.get("name"), str):
            for award in _list(funder.get("award")) or [""]:  # several grants repeat the funder
                yield Value("funder", Column("funders"), name)
                yield Value("funder", Column("grants"), str(award))
                yield Value("funder", Column("funder_ids"), str(funder.get("DOI") or ""))


def _change(name: str, column: Column, text: object, value: str) -> Value:
    """Return a value for a text, with a warning if the value differs from the text."""
    reason = _("{text} is read as {value}", text=quoted(text), value=value)
    return Value(name, column, value, "" if text == value else reason)


def _read_text(
    item: Mapping[str, Any], variable: str, column: Column, number: int, text: str
) -> Iterator[Value]:
    """Yield the values that the text of a variable gives; usually this is one value.

    :param number: the position of the text, from 0, if registries write several texts.
    """
    match variable:
        case "language":
            yield _read_language(variable, column, text)
        case "URL":
            yield from _read_url(item, variable, column, text)
        case "keyword":
            words = re.split("[;,]" if ";" not in text else ";", text)
            yield from (Value(variable, column, word) for word in words)
        case "title" if number:
            yield Value(variable, Column("other_title"), text)
        case _:
            yield Value(variable, column, text)


def _read_type(item: Mapping[str, Any]) -> Iterator[Value]:
    """Yield the type, and the genre; the genre of a thesis is its type or its degree."""
    kind, genre = item.get("type") or "document", item.get("genre")  # pandoc writes "" for @misc
    known = _TYPES.get(kind) or model.find_type(kind) if isinstance(kind, str) else None
    if known is None:
        yield omit("type", kind, _("is not a type of CSL, such as article-journal"))
    type = model.find_type(known or "")
    stated = model.find_type(genre) if isinstance(genre, str) else None
    if stated and (stated is type or {stated, type} <= model.THESES):
        known = genre
    elif genre and isinstance(genre, str) and type in model.THESES:
        yield Value("genre", Column("degree"), genre)
    elif genre and not _read_custom(item):
        yield keep_as_note("genre", str(genre), _("a description has no field for it"))
    yield Value("type", Column("type"), known)


def _read_name(variable: str, column: Column, name: Any) -> Value:
    parts = name if isinstance(name, dict) else {}
    words = [parts.get(part) or "" for part in ("literal", "name", "family", "given")]
    particles = ("suffix", "non-dropping-particle", "dropping-particle")
    words += (parts.get(part) or "" for part in particles)
    if not all(isinstance(word, str) for word in words) or not any(words):
        return omit(variable, name, 'is not a name such as {"family": "Silva"}')
    literal, organisation, family, given, suffix, particle, dropped = map(str.strip, words)
    if literal or organisation:
        return Value(variable, column, {"name": literal or organisation, "kind": "organisation"})
    family, given = f"{particle} {family}".strip(), f"{given} {dropped}".strip()
    stated = {"name": ", ".join(filter(None, (family, given, suffix)))}
    places = [one.get("name") for one in _list(parts.get("affiliation")) if isinstance(one, dict)]
    more = {"orcid": parts.get("ORCID"), "affiliations": [place for place in places if place]}
    return Value(variable, column, stated | {field: one for field, one in more.items() if one})


#: Between the beginning and the end of a period.
_PERIOD = re.compile(r"/|–|\s-|(?<=[0-9]{4})-(?=[0-9]{4})")


def _read_date(variable: str, field: str, date: Any) -> Value:
    """Read a date. A date without a year becomes a note."""
    stated = date if isinstance(date, dict) else {"raw": date}
    lists = [one for one in _list(stated.get("date-parts")) if isinstance(one, list)]
    parts = [str(part).strip() for part in (lists or [[]])[0] if part is not None]
    while parts and not parts[-1].strip("0"):  # an unknown month or day
        parts.pop()
    text = "-".join(parts) or str(stated.get("raw") or stated.get("literal") or "").strip()
    if not text:
        return Value(variable, Column(field), None)
    whole = parsers.find_date(text)
    found = whole or parsers.find_date(_PERIOD.split(text)[0].strip()) or parsers.parse_date(text)
    if found.year is None:
        return keep_as_note(variable, text, wrong("", text, _("is not a date")).reason)
    value = str(found.iso)
    if found.is_approximate or stated.get("circa"):
        value = f"c. {found.year:04}"
    is_complete = whole and not stated.get("season") and lists[1:] in ([], lists[:1])
    return _change(variable, Column(field), value if is_complete else date, value)


def _read_url(item: Mapping[str, Any], variable: str, column: Column, text: str) -> Iterator[Value]:
    """Yield the URL of the work, unless it is the URL of the DOI or the persistent URL."""
    name, doi = str(item.get("id") or ""), parsers.find_doi(text)
    is_own = match_identifier(name) is not None and text.endswith(f"/{name}")
    if is_own or (doi and str(item.get("DOI")).lower().endswith(doi.lower())):
        return
    url = text.partition("#")[0]
    if re.match(r"[\w-]+(?:\.[\w-]+)+(?:[:/?]|$)", url):
        url = f"http://{url}"
    url = quote(url, safe="%:/?[]@!$&'()*+,;=~-._")
    try:
        model.find_related_work("", url)
    except FieldError as error:
        yield keep_as_note(variable, text, error.reason)
    else:
        yield _change(variable, column, text, url)


def _read_language(variable: str, column: Column, text: str) -> Value:
    """Return the language; if the text names several, the first one."""
    first, *others = re.split(r"\s*[;,/|]\s*|\s+(?:and|e|y)\s+", text)
    language = parsers.read_language(first)
    if language.partition("-")[0] not in LANGUAGES:
        return omit(variable, text, _("is not a language such as pt-BR"))
    return _change(variable, column, text if others else language, language)
