"""Reads the fields of the form that have one value on each line."""

from __future__ import annotations

import re
from typing import Any


def read_lines(text: str | None) -> list[str]:
    """Return the lines of a text that are not empty."""
    return [line.strip() for line in (text or "").splitlines() if line.strip()]


def read_texts(text: str | None) -> list[dict[str, Any]]:
    """Return texts, each of which may end with its language: ``Sobre a chuva [pt]``."""
    found = (re.fullmatch(r"(.+?)(?:\s*\[([\w-]+)\])?", line) for line in read_lines(text))
    return [{"value": one[1], "lang": one[2]} for one in found if one is not None]


def read_people(text: str | None) -> list[dict[str, Any]]:
    """Return people: ``Silva, Ana; 0000-0002-1825-0097; Vale University``.

    A number without hyphens is that of the Lattes curriculum.
    """
    people = []
    for line in read_lines(text):
        name, *parts = (part.strip() for part in line.split(";"))
        person: dict[str, Any] = {"name": name, "affiliations": []}
        for part in parts:
            if re.fullmatch(r"[\d-]+-[\dX]+", part):
                person["orcid"] = part
            elif part.isdecimal():
                person["lattes"] = part
            else:
                person["affiliations"].append(read_organisation(part))
        people.append(person)
    return people


def read_organisation(text: str) -> Any:
    """Return an organisation, whose ROR address may follow its name."""
    name, _, number = text.partition(" https://ror.org/")
    return {"name": name, "ror": f"https://ror.org/{number}"} if number else text


def read_grants(text: str | None) -> list[dict[str, str]]:
    """Return grants: ``Vale Foundation; 2019/00123-4; Clouds over the forest``."""
    return [
        {
            name: part.strip()
            for name, part in zip(("funder", "number", "title"), line.split(";"), strict=False)
            if part.strip()
        }
        for line in read_lines(text)
    ]


def read_related(text: str | None) -> list[dict[str, str]]:
    """Return related works: ``IsSupplementedBy doi:10.5555/12345678``."""
    return [
        dict(zip(("identifier", "relation"), reversed(line.split(maxsplit=1)), strict=False))
        for line in read_lines(text)
    ]
