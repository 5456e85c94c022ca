"""The format JSON-LD with the vocabulary of schema.org.

Source: https://schema.org/CreativeWork and Google's documentation of structured data.
"""

from __future__ import annotations

import json
from typing import Any

from flask_ibi_archive.core.records.description import Container, Name
from flask_ibi_archive.core.records.work import Work, WorkFile
from flask_ibi_archive.core.records.work_types import IN_JOURNALS, WorkType

_TYPES = {
    WorkType.ARTICLE: "ScholarlyArticle",
    WorkType.BACHELOR_THESIS: "Thesis",
    WorkType.BOOK: "Book",
    WorkType.CHAPTER: "Chapter",
    WorkType.COLLECTION: "Collection",
    WorkType.CONFERENCE_PAPER: "ScholarlyArticle",
    WorkType.DATASET: "Dataset",
    WorkType.DOCTORAL_THESIS: "Thesis",
    WorkType.IMAGE: "ImageObject",
    WorkType.LECTURE: "PresentationDigitalDocument",
    WorkType.MAP: "Map",
    WorkType.MASTER_THESIS: "Thesis",
    WorkType.MUSIC: "MusicComposition",
    WorkType.POSTER: "Poster",
    WorkType.PREPRINT: "ScholarlyArticle",
    WorkType.PROCEEDINGS: "Book",
    WorkType.REPORT: "Report",
    WorkType.REVIEW: "Review",
    WorkType.SOFTWARE: "SoftwareSourceCode",
    WorkType.SOUND: "AudioObject",
    WorkType.THESIS: "Thesis",
    WorkType.VIDEO: "VideoObject",
}


def find_schema_type(type: WorkType) -> str:
    """Return the name of the type in the vocabulary of schema.org."""
    return _TYPES.get(type, "CreativeWork")


def write_json_ld(work: Work, indent: int | None = 1) -> str:
    """Return the JSON-LD document of a work.

    The text may be the content of a ``script`` element of HTML, because it contains no ``<``.

    :param indent: the number of spaces of each level; None: the document is one line, which needs
        less time.
    """
    text = json.dumps(describe_work(work), ensure_ascii=False, indent=indent)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text + "\n"


def describe_work(work: Work) -> dict[str, Any]:
    """Return the JSON-LD object of a work. Properties without a value are omitted."""
    type = find_schema_type(work.type)
    files = "distribution" if type == "Dataset" else "encoding"
    issued = work.issued
    found = {
        "@context": "https://schema.org",
        "@type": type,
        "@id": work.url,
        "url": work.page_url,
        "identifier": [
            _omit_empty({"@type": "PropertyValue", "propertyID": scheme, "value": value})
            for scheme, value in (("DOI", work.doi), *(("IBI", ibi) for ibi in work.identifiers))
            if value
        ],
        "name": work.title,
        "alternateName": [title.value for title in work.other_titles],
        "author": [_describe_name(name) for name in work.creators],
        "contributor": [_describe_name(name) for name in work.contributors],
        "datePublished": issued and (issued.iso or issued.text),
        "dateModified": work.deposited and work.deposited.isoformat(),
        "publisher": work.publisher and {"@type": "Organization", "name": work.publisher},
        "description": "\n\n".join(text for text, _ in work.abstracts),
        "keywords": [text for text, *_ in work.subjects],
        "inLanguage": work.language,
        "license": work.licence_url,
        "sameAs": _unwrap(work.same_as_uris),
        "isbn": work.isbn if type == "Book" else None,
        "isPartOf": work.container and _describe_container(work.container, work),
        "pagination": work.container and work.container.pages,
        "genre": work.type_text,
        "translationOfWork": work.translation_of and {"@type": type, "@id": work.translation_of},
        "workTranslation": [
            {"@type": type, "@id": url, "inLanguage": language}
            for language, url in work.translations
        ],
        files: [_describe_file(file, type) for file in work.files],
    }
    return _omit_empty(found)


def _unwrap(values: list[str]) -> list[str] | str:
    """Return the only value of a list; other lists are returned unchanged."""
    return values[0] if len(values) == 1 else values


def _omit_empty(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value not in (None, "", [])}


def _describe_name(name: Name) -> dict[str, Any]:
    return _omit_empty(
        {
            "@type": "Person" if name.is_person else "Organization",
            "@id": name.orcid_url,
            "identifier": name.orcid_url,
            "name": name.direct,
            "givenName": name.given,
            "familyName": name.given and name.family,
        }
    )


def _describe_file(file: WorkFile, type: str) -> dict[str, Any]:
    return _omit_empty(
        {
            "@type": "DataDownload" if type == "Dataset" else "MediaObject",
            "name": file.name,
            "contentUrl": file.url,
            "encodingFormat": file.media_type,
            "contentSize": None if file.size is None else f"{file.size} B",
        }
    )


def _describe_container(container: Container, work: Work) -> dict[str, Any]:
    """Return the book or the journal. The work is part of an issue, which is part of a volume."""
    if work.type not in IN_JOURNALS:
        return _omit_empty({"@type": "Book", "name": container.title, "isbn": work.isbn})
    part = _omit_empty({"@type": "Periodical", "name": container.title, "issn": work.issn})
    if container.volume:
        part = {
            "@type": "PublicationVolume",
            "volumeNumber": container.volume,
            "isPartOf": part,
        }
    if container.number:
        part = {"@type": "PublicationIssue", "issueNumber": container.number, "isPartOf": part}
    return part
