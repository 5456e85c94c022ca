"""The reader of CSL-JSON, as Zotero, pandoc and the registries of DOIs write it.

What a description cannot contain is kept as a note, or left out, with a warning. What is wrong in
a description is found later, when the record is parsed.

Source: https://github.com/citation-style-language/schema, csl-data.json of version 1.0.2;
https://www.crossref.org/documentation/retrieve-metadata/content-negotiation/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from flask_ibi_archive.core.identifiers.grammar import match_identifier
from flask_ibi_archive.core.protocol.languages import LANGUAGES
from flask_ibi_archive.core.records import description as model
from flask_ibi_archive.core.records import readers
from flask_ibi_archive.core.records import values as parsers
from flask_ibi_archive.core.records.formats.brazilian import KINSHIP
from flask_ibi_archive.core.records.formats.common import TYPES
from flask_ibi_archive.core.records.formats.reference_managers import OTHER_TYPES
from flask_ibi_archive.core.records.readers import Column, Doubt, Entry, Value, WorksFile
from flask_ibi_archive.core.records.record import check_json, decode_json
from flask_ibi_archive.core.records.values import FieldError, quoted, wrong
from flask_ibi_archive.errors import translatable
from flask_ibi_archive.errors import translatable as _

#: The variables with texts, and those with names, and the fields. Some variables are those of
#: registries, not of CSL.
_TEXTS, _NAMES = (
    {variable: field for field, names in parsers.VOCABULARIES[table].items() for variable in names}
    for table in ("csl texts", "csl names")
)
_DATES = {"issued": "issued", "submitted": "submitted", "available-date": "available"}
#: The variables that are not read. Those that do not describe the work, such as its place in a
#: library, are not among them.
_NOT_READ = parsers.VOCABULARIES["csl"]["not read"]
_NAME_PARTS = (
    "literal", "name", "family", "given", "suffix", "dropping-particle", "non-dropping-particle",
)  # fmt: skip
#: The types of CSL, and the words for them that a description knows.
_TYPES = OTHER_TYPES | {terms.csl: type.value for type, terms in reversed(TYPES.items())}
_NAMED = [
    *((name, Column(field)) for name, field in (_TEXTS | _NAMES | _DATES).items()),
    *(("funder", Column(field)) for field in ("funders", "funder_ids", "grants")),
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
    return WorksFile(_read_items(text, start + 1), readers.name_fields(_NAMED))


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
        place = _("item {number}", number=number)
        try:
            item, position = decode_json(decoder.raw_decode, text, position)
        except FieldError as error:
            yield Entry(place, errors=(error,))
            return
        yield _read_item(place, item)


def _read_item(place: str, item: Any) -> Entry:
    try:
        check_json("", item)
        if not isinstance(item, dict):
            raise wrong("", item, "is not an item of CSL-JSON")
        if item.get("id") not in (None, ""):
            name = quoted(item["id"])[1:-1] if isinstance(item["id"], str) else item["id"]
            place = translatable("{place} ({name})", place=place, name=name)
        name = str(item.get("id") or readers.digest(json.dumps(item, sort_keys=True)))
        entry = readers.build_entry(place, name, _list_values(item))
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


def _refuse(value: Any, reason: str) -> Doubt:
    """Return the Doubt of a value that is left out."""
    return Doubt(None, readers.leave_out(wrong("", value, reason).reason))


def _read_custom(item: Mapping[str, Any]) -> Mapping[str, Any]:
    custom = item.get("custom")
    return custom if isinstance(custom, dict) else {}


def _list_values(item: Mapping[str, Any]) -> Iterator[Value]:
    yield from _read_type(item)
    for variable, value in item.items():
        if variable in _NAMES:
            for name in value if isinstance(value, list) else [value]:
                yield variable, Column(_NAMES[variable]), read_csl_name(name)
        elif variable in _NOT_READ and value:
            yield (
                variable,
                Column("notes"),
                Doubt(None, _("{text} is left out", text=quoted(value))),
            )
    for variable, field in _DATES.items():
        for column, value in _read_date(item.get(variable)):
            yield variable, Column(column or field), value
    is_contained = any(item.get(name) for name in ("container-title", "event-title", "event"))
    taken: dict[str, str] = {}
    for variable, field in _TEXTS.items():
        for number, text in enumerate(_list_texts(variable, item.get(variable))):
            if isinstance(text, Doubt) or taken.get(field) == text:
                yield variable, Column(field), text
                continue
            value, kept = _READERS.get(variable, lambda item, text: text)(item, text), ""
            if field in ("volume", "issue", "pages", "container_place") and not is_contained:
                kept = _("the work is in no container-title")
            elif field in taken and not readers.FIELDS[field].path.endswith("]"):
                kept = _("the field has another value")
            elif variable == "URL" and isinstance(value, Doubt) and value.value is None:
                kept = value.reason
            if kept:
                text = f"{variable}: {text}"
                reason = _("{reason}; it is kept as a note", reason=kept)
                yield variable, Column("notes"), Doubt(text, reason)
            elif value:
                column = "other_title" if variable == "title" and number else field
                yield variable, Column(column), value
                taken[field] = text
    if isinstance(keywords := item.get("keyword"), str):
        for word in re.split("[;,]" if ";" not in keywords else ";", keywords):
            yield "keyword", Column("subjects"), word
    yield from _list_grants(item.get("funder"))


def _list_texts(variable: str, value: Any) -> Iterator[Any]:
    """Yield the texts of a variable, of which registries write lists and objects."""
    if variable in ("ISSN", "ISBN") and isinstance(value, list):
        value = ",".join(map(str, value))
    for one in value if isinstance(value, list) else [value]:
        text = (one.get("name") or one.get("URL")) if isinstance(one, dict) else one
        if isinstance(text, str | int | float) and not isinstance(text, bool):
            yield str(text).strip()
        elif text:
            yield _refuse(one, _("is not a text"))


def _read_type(item: Mapping[str, Any]) -> Iterator[Value]:
    """Yield the type, and the genre: that of a thesis states its type or its degree."""
    kind, genre = item.get("type") or "document", item.get("genre")  # pandoc writes "" for @misc
    known = _TYPES.get(kind) or model.find_type(kind) if isinstance(kind, str) else None
    if known is None:
        reason = _("is not a type of CSL, such as article-journal")
        yield "type", Column("type"), _refuse(kind, reason)
        return
    type = known if isinstance(known, str) else known.value
    stated = model.find_type(genre) if isinstance(genre, str) else None
    is_thesis = model.find_type(type) in model.THESES
    if stated is not None and (
        stated is model.find_type(type) or (is_thesis and stated in model.THESES)
    ):
        type = str(genre)
    elif isinstance(genre, str) and is_thesis:
        yield "genre", Column("degree"), genre
    elif isinstance(genre, str) and genre and not _read_custom(item):
        reason = _("{text} is kept as a note", text=quoted(genre))
        yield "genre", Column("notes"), Doubt(genre, reason)
    yield "type", Column("type"), type


def read_csl_name(name: Any) -> dict[str, Any] | Doubt:
    """Return the JSON of a name; a Doubt if the value is not a name of CSL-JSON."""
    parts = [name.get(part) or "" for part in _NAME_PARTS] if isinstance(name, dict) else [None]
    if not all(isinstance(part, str) for part in parts) or not any(parts):
        return _refuse(name, 'is not a name such as {"family": "Silva"}')
    literal, organisation, family, given, suffix, dropped, particle = (
        str(part).strip() for part in parts
    )
    if literal or organisation:
        return {"name": literal or organisation, "kind": "organisation"}
    if KINSHIP.fullmatch(suffix) and family:
        family, suffix = f"{family} {suffix}", ""
    family = " ".join(filter(None, (particle, family)))
    given = " ".join(filter(None, (given, dropped)))
    affiliations = name.get("affiliation")
    listed = affiliations if isinstance(affiliations, list) else []
    places = [one.get("name") for one in listed if isinstance(one, dict)]
    more = {"orcid": name.get("ORCID"), "affiliations": [place for place in places if place]}
    stated = {field: value for field, value in more.items() if value}
    return {"name": ", ".join(filter(None, (family, given, suffix))), **stated}


#: Between the beginning and the end of a period.
_PERIOD = re.compile(r"/|–|\s-|(?<=[0-9]{4})-(?=[0-9]{4})")


def _read_date(date: Any) -> Iterator[tuple[str, Any]]:
    """Yield a date of CSL-JSON: "" for its own field or the name of another one, and the value."""
    date = {"raw": date} if isinstance(date, str) else date
    if not isinstance(date, dict):
        if date is not None:
            yield "", _refuse(date, _("is not a date of CSL"))
        return
    lists = date.get("date-parts")
    lists = [one for one in lists if isinstance(one, list)] if isinstance(lists, list) else []
    parts = [str(part).strip() for part in lists[0] if part not in (None, "")] if lists else []
    while parts and not parts[-1].strip("0"):  # an unknown month or day
        parts.pop()
    text = str(date.get("raw") or date.get("literal") or "").strip()
    season = date.get("season")
    lost = [_("the season {season}", season=season)] if season else []
    if parts:
        if len(parts) > 1 and parts[1].isdigit() and not 1 <= int(parts[1]) <= 12:
            lost, parts = lost or [_("the season")], parts[:1]
        if len(lists) > 1 and lists[1] != lists[0]:
            lost.append(_("the end of the period, {end}", end=quoted(lists[1])))
        iso = "-".join(text.zfill(width) for text, width in zip(parts, (4, 2, 2), strict=False))
    elif text:
        found = parsers.parse_date(text)
        if not found.parts:
            found = parsers.parse_date(_PERIOD.split(text)[0])
            lost.append(_("the end of the period"))
        elif len(found.parts) == 1 and len(text) > 7 and not found.is_approximate:
            lost.append(_("the rest of it"))
        iso = found.iso or ""
        date = {**date, "circa": date.get("circa") or found.is_approximate}
    else:
        return
    if not iso:
        reason = wrong("", text, _("is not a date")).reason
        yield "notes", Doubt(text, _("{reason}; it is kept as a note", reason=reason))
        return
    if date.get("circa"):
        iso = f"c. {iso[:4]}"
    for what, more in zip(lost[:1], [*lost[1:], None], strict=False):
        what = what if more is None else _("{first} and {second}", first=what, second=more)
        reason = _("only {iso} is read of the date; {what} is left out", iso=iso, what=what)
        yield "", Doubt(iso, reason)
    if not lost:
        yield "", iso


def _read_title(item: Mapping[str, Any], text: str) -> str:
    """Return a title without the tags of CSL that say nothing about its words."""
    return re.sub(r"</?(?:span|sc)\b[^>]*>", "", text)


def _read_url(item: Mapping[str, Any], text: str) -> str | Doubt | None:
    """Return the address of the work; None if it is that of its DOI, or the persistent URL."""
    name, doi = str(item.get("id") or ""), parsers.find_doi(text)
    is_own = match_identifier(name) is not None and text.endswith(f"/{name}")
    if is_own or (doi and str(item.get("DOI")).lower().endswith(doi.lower())):
        return None
    url = text.partition("#")[0]
    if re.match(r"[\w-]+(?:\.[\w-]+)+(?:[:/?]|$)", url):
        url = f"http://{url}"
    url = quote(url, safe="%:/?[]@!$&'()*+,;=~-._")
    try:
        model.find_related_work("", url)
    except FieldError as error:
        return Doubt(None, error.reason)
    if url == text:
        return url
    return Doubt(url, _("{text} is read as {url}", text=quoted(text), url=url))


def _read_languages(item: Mapping[str, Any], text: str) -> str | Doubt:
    """Return the language, of several ones the first that is known."""
    first, *others = re.split(r"\s*[;,/|]\s*|\s+(?:and|e|y)\s+", text)
    language = readers.read_language(first)
    if len(language.partition("-")[0]) == 3:
        codes = {code: tag for tag, code in LANGUAGES.items()}
        language = codes.get(language.lower(), language)
    if language.partition("-")[0] not in LANGUAGES:
        return _refuse(text, _("is not a language such as pt-BR"))
    if others:
        reason = _("only {language} is read of {text}", language=language, text=quoted(text))
        return Doubt(language, reason)
    return language


_READERS: Mapping[str, Any] = {
    **dict.fromkeys(("title", "title-short", "subtitle", "container-title"), _read_title),
    "URL": _read_url,
    "language": _read_languages,
}


def _list_grants(funders: Any) -> Iterator[Value]:
    """Yield the funders of a registry; a funder with several grants is repeated."""
    for funder in funders if isinstance(funders, list) else []:
        if isinstance(funder, dict) and isinstance(name := funder.get("name"), str):
            awards = funder.get("award")
            for award in (awards if isinstance(awards, list) else None) or [""]:
                yield "funder", Column("funders"), name
                yield "funder", Column("grants"), str(award)
                yield "funder", Column("funder_ids"), str(funder.get("DOI") or "")
