"""The lists of a description as lines of text, as people write them in the field of a form.

Each line is one member of the list. The parts of a line are separated by semicolons::

    creators       Silva, Ana; 0000-0002-1825-0097; Vale University https://ror.org/04xbn6x09
    contributors   advisor: Souza, Davi; 1234567890123456; Vale University
    titles         Nuvens de gelo [pt]
    subjects       lidar [en]
    related        IsSupplementedBy doi:10.1000/182
    funding        Vale Foundation; 2024/123; Ice clouds; https://ror.org/04xbn6x09
    dates          accepted: 2025-03-14
    institution    Vale University https://ror.org/04xbn6x09

A line becomes a value of the JSON of a description. :func:`.parse_description.parse_description`
says whether the value is right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

from flask_ibi_archive.core.records.description import Relation

_LANGUAGE = re.compile(r"(.*\S)\s*\[([A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8})*)\]")
_ROLE = re.compile(r"([a-z -]+):\s*(.+)")
_DATE = re.compile(r"([a-z]+):?\s+(.+)")
_ORCID = re.compile(r"(?:https?://)?orcid\.org/.*|[\d-]*-[\d-]*[Xx]?")
_LATTES = re.compile(r"(?:https?://)?lattes\.cnpq\.br/.*|\d+")
_ROR = re.compile(r"(?:https?://)?ror\.org/\S+")
_WITH_ROR = re.compile(rf"(.*\S)\s+\(?({_ROR.pattern}?)\)?")
_FUNDER_ID = re.compile(rf"{_ROR.pattern}|\S*10\.13039/\S+")
_RELATIONS = {relation.lower(): relation for relation in get_args(Relation)}
#: The parts of a grant that are no address, in their order.
_GRANT_PARTS = ("funder", "number", "title", "programme")


def parse_lines(field: str, text: str | None) -> Any:
    """Return the value of a field of a description, which is written in lines.

    ::

        parse_lines("creators", "Silva, Ana; 0000-0002-1825-0097\\nSouza, Davi")

    :param field: the name of the field, such as ``creators``.
    :param text: the lines; None for no lines. Empty lines do not count.
    :returns: the list of the members, for ``metadata={"work": {...}}`` of an
        :class:`~flask_ibi_archive.ItemRecord`. For ``dates``, an object.
    """
    members = [parse_line(field, line) for line in split_lines(text)]
    return (
        {kind: day for member in members for kind, day in member.items()}
        if (field == "dates")
        else members
    )


def split_lines(text: str | None) -> list[str]:
    """Return the lines of a text that are not empty, without white space around them."""
    return [line.strip() for line in (text or "").splitlines() if line.strip()]


def parse_line(field: str, line: str) -> Any:
    """Return the member of a list that a line states."""
    return _PARSERS.get(field, _parse_text)(line.strip())


def format_lines(field: str, value: Any) -> str:
    """Return a field of a description in lines; the opposite of :func:`parse_lines`.

    A detail that lines can't state, such as the scheme of a subject, is left out.

    :param value: the value in JSON; None for a field that is not stated.
    """
    members: Iterable[Any] = value or ()
    if isinstance(value, Mapping):
        members = [{kind: day} for kind, day in value.items()]
    return "\n".join(format_line(field, member) for member in members)


def format_line(field: str, value: Any) -> str:
    """Return the line for a member of a list."""
    return " ".join(_FORMATTERS.get(field, _format_text)(value).split())


def _parse_text(line: str) -> Any:
    found = _LANGUAGE.fullmatch(line)
    return {"value": found[1], "lang": found[2]} if found else line


def _format_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value['value']} [{value['lang']}]" if "lang" in value else str(value["value"])


def _parse_organisation(text: str) -> Any:
    """Return the organisation that a text states: its name, and its ROR if there is one."""
    found = _WITH_ROR.fullmatch(text)
    return {"name": found[1], "ror": found[2]} if found else text


def _format_organisation(value: Any) -> str:
    """Return an organisation as text; the opposite of :func:`_parse_organisation`."""
    if isinstance(value, str):
        return value
    return " ".join(filter(None, (value["name"], value.get("ror"))))


def _parse_name(line: str) -> Any:
    name, *parts = (part.strip() for part in line.split(";"))
    value: dict[str, Any] = {"name": name}
    for part in filter(None, parts):
        if _ORCID.fullmatch(part):
            value["orcid"] = part
        elif _LATTES.fullmatch(part):
            value["lattes"] = part
        elif _ROR.fullmatch(part):
            value["ror"] = part
        else:
            value.setdefault("affiliations", []).append(_parse_organisation(part))
    return value if len(value) > 1 else name


def _format_name(value: Any) -> str:
    if isinstance(value, str):
        return value
    identifiers = (value.get(name) for name in ("orcid", "lattes", "ror"))
    affiliations = map(_format_organisation, value.get("affiliations", ()))
    return "; ".join(filter(None, (value["name"], *identifiers, *affiliations)))


def _parse_contributor(line: str) -> Any:
    found = _ROLE.fullmatch(line)
    if found is None:
        return _parse_name(line)
    name = _parse_name(found[2])
    return {**({"name": name} if isinstance(name, str) else name), "role": found[1].strip()}


def _format_contributor(value: Any) -> str:
    role = None if isinstance(value, str) else value.get("role")
    return f"{role}: {_format_name(value)}" if role else _format_name(value)


def _parse_related(line: str) -> Any:
    relation, _, identifier = line.partition(" ")
    known = _RELATIONS.get(relation.rstrip(":").lower())
    return {"identifier": identifier.strip(), "relation": known} if known else line


def _format_related(value: Any) -> str:
    if isinstance(value, str):
        return value
    return " ".join(filter(None, (value.get("relation"), value["identifier"])))


def _parse_grant(line: str) -> Any:
    value: dict[str, str] = {}
    texts: list[str] = []
    for part in (part.strip() for part in line.split(";")):
        if _FUNDER_ID.fullmatch(part):
            value["funder_id"] = part
        elif part.startswith(("http://", "https://")):
            value["url"] = part
        else:
            texts.append(part)
    stated = dict(zip(_GRANT_PARTS, texts, strict=False))
    return {**{name: text for name, text in stated.items() if text}, **value}


def _format_grant(value: Any) -> str:
    texts = [value.get(name, "") for name in _GRANT_PARTS]
    while texts and not texts[-1]:
        texts.pop()
    urls = filter(None, (value.get("funder_id"), value.get("url")))
    return "; ".join([*texts, *urls])


def _parse_date(line: str) -> Any:
    found = _DATE.fullmatch(line)
    return {found[1]: found[2]} if found else {line: ""}


def _format_date(value: Any) -> str:
    return " ".join(f"{kind}: {day}" for kind, day in value.items())


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "creators": _parse_name,
    "institution": _parse_organisation,
    "contributors": _parse_contributor,
    "related": _parse_related,
    "funding": _parse_grant,
    "dates": _parse_date,
}
_FORMATTERS: Mapping[str, Callable[[Any], str]] = {
    "creators": _format_name,
    "institution": _format_organisation,
    "contributors": _format_contributor,
    "related": _format_related,
    "funding": _format_grant,
    "dates": _format_date,
}
