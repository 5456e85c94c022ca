"""A description as a JSON object, as the field ``work`` of the metadata of a record contains it.

A host may write such an object with Python's types: tuples instead of lists, a text instead of a
list with one text, a pair of a text and its language, a date, the classes of a description, and
None or an empty value instead of a missing field. These are converted; other values are copied
unchanged, and :mod:`flask_ibi_archive.core.records.parse_description` refuses those that are wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import date
from enum import Enum
from typing import Any

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
    Title,
    WorkType,
)
from flask_ibi_archive.core.records.values import find_spdx

#: The fields that are lists.
LISTS = frozenset({
    "titles", "creators", "contributors", "abstracts", "subjects", "rights", "coverage", "notes",
    "related", "funding", "affiliations",
})  # fmt: skip


def format_description(given: Any) -> Any:
    """Return a description as a JSON object, with only the fields that are stated.

    :param given: a :class:`Description`; or an object with the fields of the JSON object, which may
        contain Python's types.
    """
    if isinstance(given, Description):
        return _format_fields(_name_fields(given))
    return _format_fields(given) if isinstance(given, Mapping) else given


def _name_fields(description: Description) -> dict[str, Any]:
    """Return the fields of a description with the names of the JSON object."""
    named: dict[str, Any] = {}
    for field in fields(Description):
        value = getattr(description, field.name)
        if field.name == "type":
            is_stated = description.type_text is not None or value is not WorkType.OTHER
            named["type"] = (description.type_text or value.value) if is_stated else None
        elif field.name == "licence_url":
            named["licence"] = None if value is None else find_spdx(value) or value
        elif field.name != "type_text":
            named[field.name] = value
    return named


def _format_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    formatted = {}
    for name, value in given.items():
        in_json = _format_list(value) if name in LISTS else _format_value(value)
        if not (in_json is None or in_json in ("", [], {})):
            formatted[str(name)] = in_json
    return formatted


def _format_list(value: Any) -> Any:
    if isinstance(value, str | Mapping | Name | Title | Subject | RelatedWork | Grant):
        return [_format_value(value)]
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, str) for v in value):
        return value  # two texts, or one text and its language
    return [_format_value(member) for member in value] if isinstance(value, list | tuple) else value


def _format_value(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, Name):
        return _format_name(value)
    if isinstance(value, IssuedDate):
        return value.text
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, RelatedWork):
        return _format_fields({"identifier": value.identifier, "relation": value.relation})
    if isinstance(value, Subject):
        return _shorten(value._asdict(), "value")
    if isinstance(value, Title):
        return _shorten({name: getattr(value, name) for name in ("value", "lang", "kind")}, "value")
    if isinstance(value, Organisation):
        return _shorten({"name": value.name, "ror": value.ror}, "name")
    if isinstance(value, Degree | Container | Grant):
        return _format_fields({field.name: getattr(value, field.name) for field in fields(value)})
    if isinstance(value, Mapping):
        return _format_fields(value)
    if isinstance(value, tuple) and len(value) == 2:  # a text and its language
        return _shorten({"value": value[0], "lang": value[1]}, "value")
    return value


def _format_name(name: Name) -> Any:
    stated = {
        "kind": name.kind,
        "orcid": name.orcid,
        "lattes": name.lattes,
        "ror": name.ror,
        "affiliations": name.affiliations,
        "role": name.role,
    }
    return _shorten({"name": name.inverted, **stated}, "name")


def _shorten(members: Mapping[str, Any], main: str) -> Any:
    """Return a JSON object; or only the text of its main field if there is no other field."""
    formatted = _format_fields(members)
    return formatted[main] if [*formatted] == [main] else formatted
