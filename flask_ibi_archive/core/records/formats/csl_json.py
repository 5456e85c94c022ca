"""The format CSL-JSON, which reference managers import and citation processors read.

Source: https://github.com/citation-style-language/schema, csl-data.json of version 1.0.2.
"""

from __future__ import annotations

import json
from typing import Any

from flask_ibi_archive.core.records.description import IssuedDate, Name
from flask_ibi_archive.core.records.work import Work
from flask_ibi_archive.core.records.work_types import WorkType
from flask_ibi_archive.core.records.work_values import split_publisher

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
    return json.dumps([describe_csl(work)], ensure_ascii=False, indent=1) + "\n"


def describe_csl(work: Work) -> dict[str, Any]:
    """Return the CSL-JSON object of a work. Variables without a value are omitted."""
    place, publisher = split_publisher(work.publisher)
    container = work.container
    found = {
        "id": work.ibi,
        "type": _CSL_TYPES.get(work.type, "document"),
        "title": work.title,
        "author": [_format_csl_name(name) for name in work.creators],
        "issued": work.issued and _format_csl_date(work.issued),
        "publisher": publisher,
        "publisher-place": place or (container and container.place),
        "container-title": container and container.title,
        "volume": container and container.volume,
        "issue": container and container.number,
        "page": container and container.pages,
        "genre": work.type_text,
        "abstract": "\n\n".join(text for text, _ in work.abstracts),
        "keyword": ", ".join(text for text, *_ in work.subjects),
        "language": work.language,
        "ISBN": work.isbn,
        "ISSN": work.issn,
        "DOI": work.doi,
        "URL": work.url,
    }
    return {name: value for name, value in found.items() if value not in (None, "", [])}


def _format_csl_name(name: Name) -> dict[str, str]:
    if name.given is None:
        return {"literal": name.family}
    return {"family": name.family, "given": name.given}


def _format_csl_date(issued: IssuedDate) -> dict[str, Any]:
    if not issued.parts:
        return {"literal": issued.text}
    found: dict[str, Any] = {"date-parts": [list(issued.parts)]}
    return found | {"circa": True} if issued.is_approximate else found
