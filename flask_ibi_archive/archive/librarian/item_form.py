"""The form that edits an item: from the record to the fields, and from the fields to changes.

The values are those of the JSON of the record. A line or a text that the librarian did not change
keeps its value, with details that the form does not show, such as the scheme of a subject.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from werkzeug.datastructures import MultiDict

from flask_ibi_archive.archive.librarian.form_fields import (
    DUBLIN_CORE_SECTIONS,
    ITEM_SECTION,
    WORK_SECTIONS,
    FormField,
)
from flask_ibi_archive.core.records.derive_dublin_core import derive_dublin_core
from flask_ibi_archive.core.records.description_lines import (
    format_line,
    parse_line,
    split_lines,
)
from flask_ibi_archive.core.records.fields import format_record
from flask_ibi_archive.core.records.format_description import format_description
from flask_ibi_archive.core.records.item_view import ItemView
from flask_ibi_archive.core.records.parse import find_errors
from flask_ibi_archive.core.records.record import DublinCoreMetadata
from flask_ibi_archive.core.records.work import read_dublin_core
from flask_ibi_archive.server.pages.texts import gettext

#: What a field contains: a text, or texts with their languages.
Typed = str | list[tuple[str, str]]
#: The key of the roles in the JSON of a description, and the roles with a field of their own.
CONTRIBUTORS = "contributors"
OWN_ROLES = ("advisor", "co-advisor", "committee member")


@dataclass
class ItemForm:
    """The form of an item.

    :param kind: the key of the metadata that the form changes: ``work`` or ``dc``; None if the
        metadata are not in this item.
    :param sections: the fields by the names of their sections.
    :param before: the present values in JSON: the description, or the elements of Dublin Core.
    :param record: the present record in JSON.
    :param values: what the fields contain.
    """

    kind: str | None
    sections: Mapping[str, tuple[FormField, ...]]
    before: Mapping[str, Any]
    record: Mapping[str, Any]
    values: dict[str, Typed]

    @classmethod
    def of_item(cls, item: ItemView) -> ItemForm:
        """Return the form with the present values of an item."""
        record = format_record(item.record)
        kind, before = _read_metadata(item, record)
        described = {"work": WORK_SECTIONS, "dc": DUBLIN_CORE_SECTIONS, None: {}}[kind]
        form = cls(kind, {**described, **ITEM_SECTION}, before, record, {})
        form.values = {field.name: form._show(field) for field in form.fields}
        return form

    @property
    def fields(self) -> list[FormField]:
        """All fields."""
        return [field for fields in self.sections.values() for field in fields]

    def read(self, sent: MultiDict[str, str]) -> None:
        """Replace the values of the fields by those that a browser has sent."""
        for field in self.fields:
            if field.control == "texts":
                texts, languages = sent.getlist(field.name), sent.getlist(f"{field.name}.lang")
                self.values[field.name] = [
                    (text.strip().replace("\r\n", "\n"), language.strip())
                    for text, language in zip(texts, languages, strict=False)
                    if text.strip()
                ]
            else:
                self.values[field.name] = sent.get(field.name, "").strip().replace("\r\n", "\n")

    def make_changes(self) -> dict[str, Any]:
        """Return the changes of the record that the values mean, for :meth:`Archive.edit`."""
        described: dict[str, Any] = {}
        changes: dict[str, Any] = {}
        for field in self.fields:
            head, _, rest = field.name.partition(".")
            value = self._parse(field)
            if head == "item":
                changes[rest] = value or ([] if field.control == "lines" else None)
            elif head == CONTRIBUTORS:
                described[head] = [*described.get(head, ()), *value]
            elif rest:
                described.setdefault(head, {})[rest] = value
            else:
                described[head] = value
        if self.kind is not None:
            changes["metadata"] = {self.kind: format_description(described)}
        return changes

    def find_errors(self, changes: Mapping[str, Any]) -> dict[str, list[str]]:
        """Return the errors of changes by the names of the fields; "" for the whole form."""
        stated = {name: value for name, value in changes.items() if value}
        errors: dict[str, list[str]] = {}
        for error in find_errors(json.dumps({**self._identifiers(), **stated})):
            place = error.field.removeprefix(f"metadata.{self.kind}").lstrip(".")
            errors.setdefault(self.find_field(place), []).append(error.reason)
        required = [field.name for field in self.fields if field.is_required]
        missing = [name for name in required if not self.values[name]]
        return {**errors, **{name: [gettext("Fill in this field.")] for name in missing}}

    def find_field(self, place: str) -> str:
        """Return the name of the field that contains a place in the JSON; "" if there is none.

        :param place: such as ``creators[0].orcid`` or ``degree.defended``.
        """
        names = {field.name for field in self.fields}
        head, _, rest = place.partition("[")
        number, _, _ = rest.partition("]")
        if head == CONTRIBUTORS and number.isdecimal():
            return self._find_contributor(int(number))
        parts = head.split(".")
        places = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
        return next(
            (name for place in places for name in (place, f"item.{place}") if name in names), ""
        )

    def _find_contributor(self, number: int) -> str:
        """Return the name of the field that contains a contributor."""
        for field in self.fields:
            if field.role is not None:
                count = len(split_lines(str(self.values[field.name])))
                if number < count:
                    return field.name
                number -= count
        return ""

    def _identifiers(self) -> dict[str, Any]:
        return {name: self.record[name] for name in ("rep", "ibip") if name in self.record}

    # --- a field --------------------------------------------------------------------------------

    def _get(self, field: FormField) -> Any:
        """Return the present value of a field in JSON."""
        head, _, rest = field.name.partition(".")
        if head == "item":
            return self.record.get(rest)
        value = self.before.get(head)
        if head == CONTRIBUTORS:
            return [one for one in value or () if _find_own_role(one) == field.role]
        return value.get(rest) if rest and value else value

    def _show(self, field: FormField) -> Typed:
        value = self._get(field)
        if field.control == "lines":
            return "\n".join(_format_members(field, value))
        if field.control == "texts":
            return [_split_text(one) for one in value or ()]
        return "" if value is None else format_line("institution", value)

    def _parse(self, field: FormField) -> Any:
        typed, before = self.values[field.name], self._get(field)
        if isinstance(typed, list):
            known = {_split_text(one): one for one in before or ()}
            return [known.get(one) or _join_text(*one) for one in typed]
        if field.control == "lines":
            return self._parse_members(field, typed, before)
        if field.name == "degree.institution":
            return parse_line("institution", typed)
        return typed

    def _parse_members(self, field: FormField, typed: str, before: Any) -> Any:
        head = field.name.partition(".")[0]
        members = before.items() if isinstance(before, Mapping) else before or ()
        known = dict(zip(_format_members(field, before), members, strict=True))
        if head == "item":
            return split_lines(typed)
        if head == "dates":
            return {
                kind: day
                for line in split_lines(typed)
                for kind, day in parse_line(head, line).items()
            }
        return [
            known[line] if line in known else _parse_member(field, line)
            for line in split_lines(typed)
        ]


def _read_metadata(item: ItemView, record: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Return which metadata the form changes, and their present values.

    Dublin Core becomes a description, unless a value would be lost.
    """
    metadata = item.record.metadata
    if metadata is None:
        return "work", {}
    if not isinstance(metadata, DublinCoreMetadata):
        return None, {}
    description = metadata.work or read_dublin_core(metadata.elements)
    if metadata.work is None:
        derived = derive_dublin_core(description)
        if any(
            not {*texts} <= {*derived.get(name, ())} for name, texts in metadata.elements.items()
        ):
            return "dc", record["metadata"]["dc"]
    return "work", format_description(description)


def _find_own_role(contributor: Any) -> str:
    """Return the role of a contributor, if it has a field of its own; otherwise ""."""
    role = "" if isinstance(contributor, str) else contributor.get("role", "")
    return role if role in OWN_ROLES else ""


def _format_members(field: FormField, value: Any) -> list[str]:
    """Return the lines of the members of a list; without the role, if all members have the same."""
    head = field.name.partition(".")[0]
    if isinstance(value, Mapping):
        return [format_line(head, {name: member}) for name, member in value.items()]
    if field.role:
        head = "creators"
    return [format_line(head, member) for member in value or ()]


def _parse_member(field: FormField, line: str) -> Any:
    head = field.name.partition(".")[0]
    if not field.role:
        return parse_line(head, line)
    name = parse_line("creators", line)
    return {**({"name": name} if isinstance(name, str) else name), "role": field.role}


def _split_text(value: Any) -> tuple[str, str]:
    return (value, "") if isinstance(value, str) else (value["value"], value.get("lang", ""))


def _join_text(text: str, language: str) -> Any:
    return {"value": text, "lang": language} if language else text
