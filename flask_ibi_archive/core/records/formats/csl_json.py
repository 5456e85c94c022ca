"""The format CSL-JSON, which reference managers import and citation processors read.

Source: https://github.com/citation-style-language/schema, csl-data.json of version 1.0.2.
"""

from __future__ import annotations

import json
import re
from typing import Any

from flask_ibi_archive.core.records.description import Container, Name, Role, WorkType
from flask_ibi_archive.core.records.formats.vocabularies import TYPES
from flask_ibi_archive.core.records.lines import format_description
from flask_ibi_archive.core.records.values import IssuedDate
from flask_ibi_archive.core.records.work import Work

#: The variables for contributors, and their roles.
_ROLES: dict[str, tuple[Role | None, ...]] = {
    "editor": ("editor",),
    "translator": ("translator",),
    "illustrator": ("illustrator",),
    "producer": ("producer",),
    "contributor": ("other", None),
}
#: The types of CSL that are no types of works, by the type that says most about such a work. A
#: description may state them as a type in words.
_OTHER_TYPES = {
    "article": "article-magazine article-newspaper",
    "chapter": "entry entry-dictionary entry-encyclopedia",
    "collection": "periodical",
    "image": "figure",
    "other": "event performance",
    "review": "review-book",
    "text": """bill classic hearing interview legal_case legislation manuscript pamphlet
        personal_communication post post-weblog regulation treaty webpage""",
    "video": "broadcast",
}
OTHER_TYPES = {name: type for type, names in _OTHER_TYPES.items() for name in names.split()}
#: The types of works whose version is an edition.
_WITH_EDITIONS = frozenset({WorkType.BOOK, WorkType.CHAPTER, WorkType.PROCEEDINGS})
#: The fields of a description that CSL has no variables for.
_NOT_IN_CSL = frozenset({
    "access_right", "coverage", "dates", "degree", "funding", "related", "rights",
})  # fmt: skip
_PAGES = re.compile(r"([0-9]+)(?: ?(?:p|pp|pages|páginas)\.?)?")


def write_csl_json(work: Work) -> str:
    """Return a CSL-JSON document, which is a list with one work."""
    return json.dumps([_describe(work)], ensure_ascii=False, indent=1) + "\n"


def _describe(work: Work) -> dict[str, Any]:
    """Return the CSL-JSON object of a work. Variables without a value are omitted.

    What CSL has no variable for is in the variable ``custom``, which CSL reserves for this, with
    the names of the JSON of records: ``creators`` if one has an ORCID, for example.
    """
    place = work.imprint[0]
    container, degree = work.container or Container(""), work.degree
    dates = {
        "issued": work.published,
        "submitted": work.dates.get("submitted"),
        "available-date": work.dates.get("available"),
    }
    version = "edition" if work.type in _WITH_EDITIONS else "version"
    pages = None if work.extent is None else _PAGES.fullmatch(work.extent)
    short_titles = (title.value for title in work.other_titles if title.kind == "alternative")
    found = {
        "id": work.ibi,
        "type": work.type_text if work.type_text in OTHER_TYPES else TYPES[work.type].csl,
        "title": work.title,
        "title-short": next(short_titles, None),
        "author": [_format_name(name) for name in work.creators],
        **{
            variable: [_format_name(name) for name in work.find_contributors(*roles)]
            for variable, roles in _ROLES.items()
        },
        **{variable: _format_date(date) for variable, date in dates.items() if date},
        "publisher": work.institution,
        "publisher-place": place or container.place,
        "container-title": container.title,
        "volume": container.volume,
        "issue": container.number,
        "page": container.pages,
        "genre": (degree and degree.name)
        or (work.type_text if work.type_text != work.type.value else None),
        "number": work.number,
        version: work.version,
        "number-of-pages": pages and pages[1],
        "dimensions": None if pages else work.extent,
        "abstract": "\n\n".join(text for text, _ in work.abstracts),
        "keyword": _join_subjects([subject.value for subject in work.subjects]),
        "note": "\n\n".join(text for text, _ in work.notes),
        "license": work.licence_url,
        "language": work.language,
        "ISBN": work.isbn,
        "ISSN": work.issn,
        "DOI": work.doi,
        "URL": work.url,
        "custom": _list_other_fields(work),
    }
    return {name: value for name, value in found.items() if value not in (None, "", [], {})}


def _join_subjects(subjects: list[str]) -> str:
    """Return the subjects with a comma between them; a semicolon if one contains a comma."""
    return ("; " if any("," in subject for subject in subjects) else ", ").join(subjects)


def _list_other_fields(work: Work) -> dict[str, Any]:
    """Return the fields that CSL has no variables for, or not for all of what they state."""
    stated: dict[str, Any] = format_description(work)
    is_plain = {
        "titles": len(work.titles) == 1,
        "creators": _are_names(stated.get("creators", [])),
        "contributors": _are_names(stated.get("contributors", []))
        and all(any(name.role in roles for roles in _ROLES.values()) for name in work.contributors),
        "abstracts": len(work.abstracts) < 2,
        "subjects": all(not (subject.scheme or subject.uri) for subject in work.subjects)
        and not any(";" in subject.value for subject in work.subjects),
        "notes": len(work.notes) < 2,
        "type": [terms.csl for terms in TYPES.values()].count(TYPES[work.type].csl) == 1
        and work.degree is None,
    }
    return {
        name: value
        for name, value in stated.items()
        if name in _NOT_IN_CSL or not is_plain.get(name, True)
    }


def _are_names(names: list[Any]) -> bool:
    """Return whether some names in JSON are only names, such as ``{"name": "Silva, Ana"}``."""
    return all(isinstance(name, str) or not {*name} - {"name", "kind", "role"} for name in names)


def _format_name(name: Name) -> dict[str, str]:
    if name.given is None:
        return {"family" if name.is_person else "literal": name.family}
    given, _, suffix = name.given.partition(", ")
    return {"family": name.family, "given": given, **({"suffix": suffix} if suffix else {})}


def _format_date(issued: IssuedDate) -> dict[str, Any]:
    if not issued.parts:
        return {"literal": issued.text}
    found: dict[str, Any] = {"date-parts": [list(issued.parts)]}
    return found | {"circa": True} if issued.is_approximate else found
