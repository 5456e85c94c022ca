"""The entries of a file of works, which become the JSON objects of records."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from flask_ibi_archive.core.records.fields import FieldError
from flask_ibi_archive.core.records.readers.work_fields import (
    FIELDS,
    OBJECTS,
    Column,
    WorkField,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of a table, or an entry of another file.

    :param place: where the entry is in the file, for messages, such as ``row 7``.
    :param data: the JSON object of a record without identifiers.
    :param key: the name of the entry in the file. The key of the entry is made from it, unless
        ``data`` has a key.
    :param errors: what is wrong with the entry; the fields have the names of the file.
    """

    place: str
    data: dict[str, Any]
    key: str
    errors: tuple[FieldError, ...] = ()


#: A value: the name of the field in the file, the field, and the value (a text, or a JSON object
#: such as a name).
Value = tuple[str, Column, Any]


def digest(text: str) -> str:
    """Return a short digest of a text, by which an entry without a name is found again."""
    return sha256(text.encode()).hexdigest()[:16]


def build_entry(place: str, key: str, values: Iterable[Value]) -> Entry:
    """Return the entry with some values.

    :param values: the values in the order of the file; empty ones are ignored.
    """
    data: dict[str, Any] = {}
    errors: list[FieldError] = []
    counts: Counter[str] = Counter()
    town: str | None = None
    for name, column, value in values:
        described = FIELDS[column.field]
        if isinstance(value, str):
            value = value.strip()
            if described.convert is not None and value:
                try:
                    value = described.convert(value)
                except ValueError as error:
                    errors.append(FieldError(name, str(error)))
                    continue
        number = counts[column.field]
        counts[column.field] += 1
        if not value:
            continue
        if column.field == "place":
            town = value
        elif described.is_parallel:
            _set_parallel(data, described.path, number, value)
        else:
            _set(data, described.path, _complete(value, described, column.lang))
    if town is not None:
        _set_place(data, town)
    return Entry(place, data, key, tuple(errors))


def _complete(value: Any, described: WorkField, lang: str | None) -> Any:
    """Return the value with its language and with what the field says, such as the role."""
    extra = {**described.extra, **({} if lang is None else {"lang": lang})}
    if not extra or described.member is None:
        return value
    return {**(value if isinstance(value, dict) else {described.member: value}), **extra}


def _set(data: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a path. ``[]`` at its end means that the value is added to a list."""
    *parents, last = path.split(".")
    for parent in parents:
        data = data.setdefault(parent, {})
    if last.endswith("[]"):
        data.setdefault(last[:-2], []).append(value)
    else:
        data.setdefault(last, value)


def _set_parallel(data: dict[str, Any], path: str, number: int, value: str) -> None:
    """Set a member of the object with a number in a list of objects."""
    *parents, name, member = path.split(".")
    for parent in parents:
        data = data.setdefault(parent, {})
    objects = data.setdefault(name.removesuffix("[]"), [])
    objects.extend({} for _ in range(number + 1 - len(objects)))
    objects[number][member] = value


def _set_place(data: dict[str, Any], town: str) -> None:
    """Set the place of publication: of the publisher if there is one, or of the container."""
    work = data.get("metadata", {}).get("work", {})
    if "publisher" in work:
        work["publisher"] = f"{town}: {work['publisher']}"
    elif "container" in work:
        work["container"]["place"] = town


def name_fields(columns: Iterable[tuple[str, Column]]) -> Mapping[str, str]:
    """Return for the paths of a record the names of the fields in a file."""
    names: dict[str, list[str]] = {}
    for name, column in columns:
        path = FIELDS[column.field].path.replace("[]", "")
        names.setdefault(path, []).append(name)
    return {path: "/".join(dict.fromkeys(found)) for path, found in names.items()}


def name_field(path: str | None, names: Mapping[str, str]) -> str | None:
    """Return the name in the file of the field at the path of an error."""
    plain = re.sub(r"\[[0-9]+\]", "", path or "")
    while plain:
        if plain in names:
            return names[plain]
        # the object at a path may be made of several fields
        if plain in OBJECTS:
            inside = [name for one, name in names.items() if one.startswith(f"{plain}.")]
            return "/".join(inside) or path
        plain = plain.rpartition(".")[0]
    return path


@dataclass(frozen=True, slots=True)
class WorksFile:
    """What a reader reads in a file.

    :param entries: the entries.
    :param names: the names of the fields in the file, by the paths of records.
    """

    entries: Iterable[Entry]
    names: Mapping[str, str] = field(default_factory=dict)
