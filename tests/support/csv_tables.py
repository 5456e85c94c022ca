"""Writes works as tables, with the names of columns that imports know."""

from __future__ import annotations

import csv
import io
from typing import Any

from flask_ibi_archive.core.records.readers import FIELDS, SEPARATOR

#: Fields with columns of their own for the same values.
NOT_WRITTEN = ("doi", "files")


def list_cells(record: dict[str, Any]) -> dict[str, str]:
    """Return the cells of a record by the names of their columns."""
    cells: dict[str, list[str]] = {}
    for name, field in FIELDS.items():
        if name in NOT_WRITTEN:
            continue
        *parents, last = field.path.split(".")
        objects: list[Any] = [record]
        for parent in parents:
            found = [one.get(parent.removesuffix("[n]"), []) for one in objects]
            objects = [
                member if isinstance(member, dict) else {}
                for one in found
                for member in (one if isinstance(one, list) else [one])
            ]
        for one in objects:
            value = one.get(last.removesuffix("[]"), "" if "[n]" in field.path else [])
            for member in value if isinstance(value, list) else [value]:
                stated = member if isinstance(member, dict) else {field.member: member}
                said = {key: stated.get(key) for key in ("kind", "role", "relation")}
                if {key: text for key, text in said.items() if text} == field.extra:
                    lang = f"[{stated['lang']}]" if "lang" in stated else ""
                    cells.setdefault(f"{name}{lang}", []).append(stated[field.member])
    return {name: SEPARATOR.join(texts) for name, texts in cells.items() if any(texts)}


def write_table(record: dict[str, Any]) -> str:
    """Return a table in CSV with a record."""
    cells = list_cells(record)
    stream = io.StringIO()
    csv.writer(stream).writerows([cells.keys(), cells.values()])
    return stream.getvalue()
