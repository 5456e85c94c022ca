"""Parsing of descriptions: converts the field ``work`` of the metadata to a :class:`Description`.

Every value is checked. An error names the field, such as ``metadata.work.creators[0].orcid``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, get_args

from flask_ibi_archive.core.records import description as model
from flask_ibi_archive.core.records import fields, work_identifiers
from flask_ibi_archive.core.records.description import (
    Container,
    Degree,
    Description,
    Grant,
    IssuedDate,
    Name,
    Organisation,
    RelatedWork,
    Subject,
    Text,
    Title,
    WorkType,
    find_best_type,
    find_type,
)
from flask_ibi_archive.core.records.fields import FieldError, quoted
from flask_ibi_archive.core.records.format_description import LISTS
from flask_ibi_archive.core.records.values import (
    has_orcid,
    is_url,
    parse_date,
    parse_licence,
    parse_name,
)

#: Parses the value of a field with a name; raises FieldError.
Parser = Callable[[str, Any], Any]

_DATE = re.compile(r"(?:c\. )?[0-9]{4}|[0-9]{4}-[0-9]{2}(?:-[0-9]{2})?")
#: The simple form of BCP 47, with a code of ISO 639 of two or three letters.
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*")
_DASH = re.compile(r"\s*[-–—]+\s*")


def parse_description(field: str, value: Any) -> Description:
    """Parse a description.

    :param field: the name of the field, which messages contain.
    :param value: the JSON object.
    :raises FieldError: if a field is wrong, or if there is no title.
    """
    members = fields.parse_members(field, value, _DESCRIPTION, required="titles")
    if not members["titles"]:
        raise FieldError(f"{field}.titles", "the list is empty; a work needs a title")
    type_text, type = members.pop("type", (None, WorkType.OTHER))
    licence = members.pop("licence", None)
    return Description(**members, type=type, type_text=type_text, licence_url=licence)


def find_work_errors(field: str, value: Any) -> list[FieldError]:
    """Return the errors of a description: one for each field, and for each member of a list."""
    errors = []
    for name, member in value.items() if isinstance(value, dict) else ():
        parse = _DESCRIPTION.get(name)
        inside, of_list = f"{field}.{name}", _MEMBERS.get(name)
        parts: list[tuple[str, Any, Parser | None]] = [(inside, member, parse)]
        if of_list is not None and isinstance(member, list):
            parts = [(f"{inside}[{no}]", one, of_list) for no, one in enumerate(member)]
        for path, part, parser in parts:
            try:
                if parser is not None:
                    parser(path, part)
            except FieldError as error:
                errors.append(error)
    try:  # finds unknown and missing fields
        fields.parse_members(field, value, dict.fromkeys(_DESCRIPTION, lambda *_: None), "titles")
    except FieldError as error:
        errors.append(error)
    return errors


def _parse_language(field: str, value: Any) -> str:
    tag = fields.parse_text(field, value)
    if not _LANGUAGE.fullmatch(tag):
        raise FieldError(field, f"{quoted(tag)} is not a language tag such as pt-BR")
    return tag


def _parse_title(field: str, value: Any) -> Title:
    if isinstance(value, dict):
        return Title(**fields.parse_members(field, value, _TITLE, required="value"))
    return Title(fields.parse_line_text(field, value))


def _parse_text(field: str, value: Any) -> Text:
    if isinstance(value, dict):
        members = fields.parse_members(field, value, _TEXT, required="value")
        return members["value"], members.get("lang")
    return fields.parse_xml_text(field, value), None


def _parse_rights(field: str, value: Any) -> Text:
    text, language = _parse_text(field, value)
    if is_url(text):
        raise FieldError(field, f"{quoted(text)} is a URL; write the URL of a licence as licence")
    return text, language


def _parse_subject(field: str, value: Any) -> Subject:
    if isinstance(value, dict):
        return Subject(**fields.parse_members(field, value, _SUBJECT, required="value"))
    return Subject(fields.parse_xml_text(field, value))


def _parse_organisation(field: str, value: Any) -> Organisation:
    if isinstance(value, dict):
        return Organisation(**fields.parse_members(field, value, _ORGANISATION, required="name"))
    return Organisation(fields.parse_line_text(field, value))


def _parse_name(field: str, value: Any, parsers: Mapping[str, Parser]) -> Name:
    if not isinstance(value, dict):
        return _read_name(field, fields.parse_line_text(field, value))
    members = fields.parse_members(field, value, parsers, required="name")
    text = members.pop("name")
    is_organisation = members.get("kind") == "organisation" or "ror" in members
    if not is_organisation:
        return replace(_read_name(f"{field}.name", text), **members)
    for wrong in {"orcid", "lattes"} & members.keys():
        raise FieldError(
            f"{field}.{wrong}", "only a person has this; the name is an organisation's"
        )
    if members.get("kind") == "person":
        raise FieldError(f"{field}.ror", "only an organisation has a ROR; write it in affiliations")
    return Name(text, **members)


def _read_name(field: str, text: str) -> Name:
    """Return the name that a text states, which may contain an ORCID."""
    name = parse_name(text)
    if not any(map(str.isalnum, name.inverted)):
        raise FieldError(field, f"{quoted(text)} is not a name such as Silva, Ana")
    if name.orcid is None and has_orcid(text):
        raise FieldError(field, f"{quoted(text)} contains an ORCID whose check digit is wrong")
    return name


def _parse_type(field: str, value: Any) -> tuple[str | None, WorkType]:
    text = fields.parse_line_text(field, value)
    if find_type(text) is None:
        types = [type.value for type in WorkType]
        raise FieldError(
            field,
            f"{quoted(text)} is not a known type of works, such as {', '.join(types)}, nor a word "
            f"for one in Portuguese, Spanish or of COAR{fields.suggest(text, types)}",
        )
    return find_best_type([text])


def _parse_date(field: str, value: Any) -> IssuedDate:
    parsed = parse_date(value) if isinstance(value, str) and _DATE.fullmatch(value) else None
    if parsed is None or len(parsed.parts) <= str(value).count("-"):
        raise FieldError(
            field,
            f'{quoted(value)} is not a date such as "2009", "2009-07", "2009-07-21" or "c. 2009"',
        )
    return parsed


def _parse_dates(field: str, value: Any) -> Mapping[str, IssuedDate]:
    return fields.parse_members(field, value, dict.fromkeys(_choices(model.DateKind), _parse_date))


def _parse_degree(field: str, value: Any) -> Degree:
    if value == {}:
        raise FieldError(field, "the object is empty; omit the field instead")
    return Degree(**fields.parse_members(field, value, _DEGREE))


def _parse_pages(field: str, value: Any) -> str:
    return _DASH.sub("-", fields.parse_line_text(field, value))


def _parse_container(field: str, value: Any) -> Container:
    return Container(**fields.parse_members(field, value, _CONTAINER, required="title"))


def _parse_licence(field: str, value: Any) -> str:
    text = fields.parse_line_text(field, value)
    url = parse_licence(text)
    if url is None:
        raise FieldError(
            field,
            f"{quoted(text)} is neither an identifier of the SPDX License List, such as CC-BY-4.0 "
            "or MIT, nor the URL of a licence (write who has access as access_right)",
        )
    return url


def _parse_related(field: str, value: Any) -> RelatedWork:
    if not isinstance(value, dict):
        return work_identifiers.find_related_work(field, value)
    members = fields.parse_members(field, value, _RELATED, required="identifier")
    related: RelatedWork = members.pop("identifier")
    return replace(related, **members)


def _parse_grant(field: str, value: Any) -> Grant:
    return Grant(**fields.parse_members(field, value, _GRANT, required="funder"))


def _choices(literal: Any) -> tuple[str, ...]:
    """Return the words of a type of :mod:`~flask_ibi_archive.core.records.description`."""
    return get_args(literal)


def _choose(literal: Any) -> Parser:
    return partial(fields.parse_choice, choices=_choices(literal))


_TITLE: Mapping[str, Parser] = {
    "value": fields.parse_line_text,
    "lang": _parse_language,
    "kind": _choose(model.TitleKind),
}
_TEXT: Mapping[str, Parser] = {"value": fields.parse_xml_text, "lang": _parse_language}
_SUBJECT: Mapping[str, Parser] = {
    "value": fields.parse_xml_text,
    "lang": _parse_language,
    "scheme": fields.parse_line_text,
    "uri": work_identifiers.parse_http_url,
}
_ORGANISATION: Mapping[str, Parser] = {
    "name": fields.parse_line_text,
    "ror": work_identifiers.parse_ror,
}
_CREATOR: Mapping[str, Parser] = {
    "name": fields.parse_line_text,
    "kind": _choose(model.NameKind),
    "orcid": work_identifiers.parse_orcid,
    "lattes": work_identifiers.parse_lattes,
    "ror": work_identifiers.parse_ror,
    "affiliations": partial(fields.parse_list, parse=_parse_organisation),
}
_CONTRIBUTOR: Mapping[str, Parser] = {**_CREATOR, "role": _choose(model.Role)}
_DEGREE: Mapping[str, Parser] = {
    "name": fields.parse_line_text,
    "level": _choose(model.DegreeLevel),
    "programme": fields.parse_line_text,
    "institution": _parse_organisation,
    "defended": _parse_date,
}
_CONTAINER: Mapping[str, Parser] = {
    "title": fields.parse_line_text,
    "place": fields.parse_line_text,
    "volume": fields.parse_line_text,
    "number": fields.parse_line_text,
    "pages": _parse_pages,
}
_RELATED: Mapping[str, Parser] = {
    "identifier": work_identifiers.find_related_work,
    "relation": _choose(model.Relation),
}
_GRANT: Mapping[str, Parser] = {
    "funder": fields.parse_line_text,
    "number": fields.parse_line_text,
    "title": fields.parse_line_text,
    "funder_id": work_identifiers.parse_funder_id,
    "programme": fields.parse_line_text,
    "url": work_identifiers.parse_http_url,
}
#: The parser of the members of each list of a description.
_MEMBERS: Mapping[str, Parser] = {
    "titles": _parse_title,
    "creators": partial(_parse_name, parsers=_CREATOR),
    "contributors": partial(_parse_name, parsers=_CONTRIBUTOR),
    "abstracts": _parse_text,
    "subjects": _parse_subject,
    "rights": _parse_rights,
    "coverage": _parse_text,
    "notes": _parse_text,
    "related": _parse_related,
    "funding": _parse_grant,
}
_VALUES: Mapping[str, Parser] = {
    "type": _parse_type,
    "publisher": fields.parse_line_text,
    "issued": _parse_date,
    "dates": _parse_dates,
    "degree": _parse_degree,
    "container": _parse_container,
    "licence": _parse_licence,
    "access_right": _choose(model.AccessRight),
    "issn": work_identifiers.parse_issn,
    "isbn": work_identifiers.parse_isbn,
    "number": fields.parse_line_text,
    "version": fields.parse_line_text,
    "extent": fields.parse_line_text,
}
#: The parser of each field of a description, in the order of the class.
_DESCRIPTION: Mapping[str, Parser] = {
    name: partial(fields.parse_list, parse=_MEMBERS[name]) if name in LISTS else _VALUES[name]
    for name in (
        *("titles", "creators", "contributors", "type", "publisher", "issued", "dates", "degree"),
        *("container", "abstracts", "subjects", "rights", "licence", "access_right", "issn"),
        *("isbn", "number", "version", "extent", "coverage", "notes", "related", "funding"),
    )
}
#: The names of the fields.
WORK_FIELDS = tuple(_DESCRIPTION)
