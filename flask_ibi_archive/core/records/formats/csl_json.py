"""The format CSL-JSON, which reference managers import and citation processors read.

Source: https://github.com/citation-style-language/schema, csl-data.json of version 1.0.2.
"""

from __future__ import annotations

import json
import re
from typing import Any

from flask_ibi_archive.core.records.description import IssuedDate, Name, Role, WorkType
from flask_ibi_archive.core.records.lines import format_description
from flask_ibi_archive.core.records.values import split_publisher
from flask_ibi_archive.core.records.work import Work

#: The variables for contributors, and their roles.
_ROLES: dict[str, tuple[Role | None, ...]] = {
    "editor": ("editor",),
    "translator": ("translator",),
    "illustrator": ("illustrator",),
    "producer": ("producer",),
    "contributor": ("other", None),
}
#: The types of CSL that are no types of works. A description may state them as a type in words.
_OTHER_TYPES = frozenset({
    "article-magazine", "article-newspaper", "bill", "broadcast", "classic", "entry",
    "entry-dictionary", "entry-encyclopedia", "event", "figure", "hearing", "interview",
    "legal_case", "legislation", "manuscript", "pamphlet", "performance", "periodical",
    "personal_communication", "post", "post-weblog", "regulation", "review-book", "treaty",
    "webpage",
})  # fmt: skip
#: The types of works whose version is an edition.
_WITH_EDITIONS = frozenset({WorkType.BOOK, WorkType.CHAPTER, WorkType.PROCEEDINGS})
#: The fields of a description that CSL has no variables for.
_NOT_IN_CSL = frozenset({
    "access_right", "coverage", "dates", "degree", "funding", "related", "rights",
})  # fmt: skip
_PAGES = re.compile(r"([0-9]+)(?: ?(?:p|pp|pages|páginas)\.?)?")
_CSL_TYPES = {
    WorkType.ARTICLE: "article-journal",
    WorkType.BACHELOR_THESIS: "thesis",
    WorkType.BOOK: "book",
    WorkType.CHAPTER: "chapter",
    WorkType.COLLECTION: "collection",
    WorkType.CONFERENCE_PAPER: "paper-conference",
    WorkType.DATASET: "dataset",
    WorkType.DOCTORAL_THESIS: "thesis",
    WorkType.IMAGE: "graphic",
    WorkType.LECTURE: "speech",
    WorkType.MAP: "map",
    WorkType.MASTER_THESIS: "thesis",
    WorkType.MUSIC: "musical_score",
    WorkType.PATENT: "patent",
    WorkType.POSTER: "speech",
    WorkType.PREPRINT: "article",
    WorkType.PROCEEDINGS: "book",
    WorkType.REPORT: "report",
    WorkType.REVIEW: "review",
    WorkType.SOFTWARE: "software",
    WorkType.SOUND: "song",
    WorkType.STANDARD: "standard",
    WorkType.THESIS: "thesis",
    WorkType.VIDEO: "motion_picture",
}


def write_csl_json(work: Work) -> str:
    """Return a CSL-JSON document, which is a list with one work."""
    return json.dumps([_describe(work)], ensure_ascii=False, indent=1) + "\n"


def _describe(work: Work) -> dict[str, Any]:
    """Return the CSL-JSON object of a work. Variables without a value are omitted.

    What CSL has no variable for is in the variable ``custom``, which CSL reserves for this, with
    the names of the JSON of records: ``creators`` if one has an ORCID, for example.
    """
    place, publisher = split_publisher(work.publisher)
    container, degree = work.container, work.degree
    if degree is not None and degree.institution is not None:
        publisher = degree.institution.name
    defended = None if degree is None else degree.defended
    issued, submitted = work.issued or defended, work.dates.get("submitted")
    available = work.dates.get("available")
    version = "edition" if work.type in _WITH_EDITIONS else "version"
    pages = None if work.extent is None else _PAGES.fullmatch(work.extent)
    found = {
        "id": work.ibi,
        "type": work.type_text if work.type_text in _OTHER_TYPES else _find_type(work.type),
        "title": work.title,
        "title-short": next(
            (title.value for title in work.other_titles if title.kind == "alternative"), None
        ),
        "author": [_format_name(name) for name in work.creators],
        **{
            variable: [_format_name(name) for name in work.contributors if name.role in roles]
            for variable, roles in _ROLES.items()
        },
        "issued": issued and _format_date(issued),
        "submitted": submitted and _format_date(submitted),
        "available-date": available and _format_date(available),
        "publisher": publisher,
        "publisher-place": place or (container and container.place),
        "container-title": container and container.title,
        "volume": container and container.volume,
        "issue": container and container.number,
        "page": container and container.pages,
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


def _find_type(type: WorkType) -> str:
    return _CSL_TYPES.get(type, "document")


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
        "subjects": all(subject[2:] == (None, None) for subject in work.subjects)
        and not any(";" in subject.value for subject in work.subjects),
        "notes": len(work.notes) < 2,
        "type": [*_CSL_TYPES.values()].count(_find_type(work.type)) == 1 and work.degree is None,
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
