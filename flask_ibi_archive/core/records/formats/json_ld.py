"""The format JSON-LD with the vocabulary of schema.org, and with PROV-O for the provenance.

Sources: https://schema.org/CreativeWork; Google's documentation of structured data;
https://www.w3.org/TR/prov-o/.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from flask_ibi_archive.core.records.description import (
    IN_JOURNALS,
    Container,
    DateKind,
    Degree,
    Grant,
    Name,
    Organisation,
    RelatedWork,
    Relation,
    Role,
    Subject,
    WorkType,
)
from flask_ibi_archive.core.records.formats.vocabularies import find_access
from flask_ibi_archive.core.records.values import split_publisher
from flask_ibi_archive.core.records.work import Work, WorkFile

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


#: The namespace of PROV-O. Its terms are written as IRIs, because they need no other context then.
PROV = "http://www.w3.org/ns/prov#"
#: The properties for contributors with a role.
_ROLES: dict[Role, str] = {
    "editor": "editor",
    "translator": "translator",
    "illustrator": "illustrator",
    "producer": "producer",
    "sponsor": "sponsor",
    "other": "contributor",
}
#: The properties for other works; others are mentioned.
_RELATIONS: dict[Relation, str] = {
    "Cites": "citation",
    "References": "citation",
    "IsPartOf": "isPartOf",
    "IsPublishedIn": "isPartOf",
    "HasPart": "hasPart",
    "IsDerivedFrom": "isBasedOn",
    "IsTranslationOf": "translationOfWork",
    "HasTranslation": "workTranslation",
    "IsVersionOf": "exampleOfWork",
    "IsVariantFormOf": "exampleOfWork",
    "HasVersion": "workExample",
    "IsCitedBy": "subjectOf",
    "IsReferencedBy": "subjectOf",
    "IsDescribedBy": "subjectOf",
    "IsDocumentedBy": "subjectOf",
    "IsReviewedBy": "subjectOf",
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
    text = json.dumps(_describe(work), ensure_ascii=False, indent=indent)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text + "\n"


def _describe(work: Work) -> dict[str, Any]:
    """Return the JSON-LD object of a work. Properties without a value are omitted."""
    type = find_schema_type(work.type)
    is_dataset = type == "Dataset"
    degree, container = work.degree, work.container
    issued = work.issued or (degree.defended if degree else None)
    place, publisher = split_publisher(work.publisher)
    catalogue = work.archive_name and {"@type": "DataCatalog", "name": work.archive_name}
    provider = work.archive_name and {"@type": "Organization", "name": work.archive_name}
    found: dict[str, Any] = {
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
        **_describe_contributors(work.contributors),
        "datePublished": issued and (issued.iso or issued.text),
        "dateCreated": _find_date(work, "created"),
        "dateModified": work.deposited and work.deposited.isoformat(),
        "publisher": publisher and {"@type": "Organization", "name": publisher},
        "locationCreated": place and {"@type": "Place", "name": place},
        "description": "\n\n".join(text for text, _ in work.abstracts),
        "keywords": [_describe_subject(subject) for subject in work.subjects],
        "inLanguage": work.language,
        "license": work.licence_url,
        "copyrightNotice": [text for text, _ in work.rights],
        "isAccessibleForFree": _is_free(work),
        "conditionsOfAccess": _list_conditions(work),
        "funding": [_describe_grant(grant) for grant in work.funding],
        "funder": [*{each.funder: _describe_funder(each) for each in work.funding}.values()],
        "inSupportOf": degree and (degree.name or degree.level),
        "sourceOrganization": degree and degree.institution and _describe_university(degree),
        "sameAs": work.same_as_uris,
        "isbn": work.isbn if type == "Book" else None,
        "reportNumber": work.number if type == "Report" else None,
        "version": work.version,
        "materialExtent": work.extent,
        "isPartOf": [_describe_container(container, work)] if container else [],
        "pagination": container and container.pages,
        "genre": work.type_text,
        "translationOfWork": work.translation_of and {"@type": type, "@id": work.translation_of},
        "workTranslation": [
            {"@type": type, "@id": url, "inLanguage": language}
            for language, url in work.translations
        ],
        # only data sets are in catalogues of data
        "includedInDataCatalog" if is_dataset else "provider": catalogue
        if is_dataset
        else provider,
        "distribution" if is_dataset else "encoding": [
            _describe_file(file, type) for file in work.files
        ],
        **_describe_provenance(work),
    }
    for related in work.related:
        _add_related(found, related)
    for name in ("sameAs", "isPartOf", "conditionsOfAccess"):
        found[name] = _unwrap(found[name])
    return _omit_empty(found)


def _find_date(work: Work, kind: DateKind) -> str | None:
    stated = work.dates.get(kind)
    return None if stated is None else stated.iso or stated.text


def _is_free(work: Work) -> bool | None:
    """Return whether everyone may read the files now; None if it is unknown."""
    if work.access is not None:
        return work.access == "open"
    return None if work.access_right is None else work.access_right == "open"


def _list_conditions(work: Work) -> list[str]:
    """Return the access right of the vocabulary of COAR, and the end of an embargo."""
    right = find_access(work)
    conditions = [] if right is None else [right.uri]
    if (work.access or work.access_right) == "embargoed" and work.available is not None:
        conditions.append(f"available from {work.available.isoformat()}")
    return conditions


def _describe_contributors(names: Iterable[Name]) -> dict[str, list[Any]]:
    """Return the properties for contributors. What else they did is the name of a role."""
    found: dict[str, list[Any]] = {}
    for name in names:
        person, role = _describe_name(name), name.role
        if role is None or role in _ROLES:
            found.setdefault("contributor" if role is None else _ROLES[role], []).append(person)
        else:
            described = {"@type": "Role", "roleName": role, "contributor": person}
            found.setdefault("contributor", []).append(described)
    return found


def _describe_provenance(work: Work) -> dict[str, Any]:
    """Return who made the work, when it was deposited, and from which other works it was made."""
    time = work.deposited
    return {
        f"{PROV}wasAttributedTo": [
            {"@id": identifier} for name in work.creators if (identifier := _identify(name))
        ],
        f"{PROV}generatedAtTime": time
        and {"@type": "http://www.w3.org/2001/XMLSchema#dateTime", "@value": time.isoformat()},
        f"{PROV}wasRevisionOf": work.previous_edition and {"@id": work.previous_edition},
        f"{PROV}wasDerivedFrom": work.translation_of and {"@id": work.translation_of},
    }


def _describe_subject(subject: Subject) -> str | dict[str, Any]:
    if subject.scheme is None and subject.uri is None:
        return subject.value
    terms = subject.scheme and {"@type": "DefinedTermSet", "name": subject.scheme}
    return _omit_empty(
        {
            "@type": "DefinedTerm",
            "@id": subject.uri,
            "name": subject.value,
            "inDefinedTermSet": terms,
        }
    )


def _describe_funder(grant: Grant) -> dict[str, Any]:
    return _describe_organisation(Organisation(grant.funder, grant.funder_id))


def _describe_grant(grant: Grant) -> dict[str, Any]:
    return _omit_empty(
        {
            "@type": "Grant",
            "identifier": grant.number,
            "name": grant.title,
            "url": grant.url,
            "funder": _describe_funder(grant),
            "isPartOf": grant.programme and {"@type": "Grant", "name": grant.programme},
        }
    )


def _describe_organisation(organisation: Organisation) -> dict[str, Any]:
    url = organisation.ror
    return _omit_empty(
        {"@type": "Organization", "@id": url, "identifier": url, "name": organisation.name}
    )


def _describe_university(degree: Degree) -> dict[str, Any]:
    assert degree.institution is not None
    programme = degree.programme and {"@type": "Organization", "name": degree.programme}
    return _omit_empty({**_describe_organisation(degree.institution), "department": programme})


def _add_related(found: dict[str, Any], related: RelatedWork) -> None:
    """Add another work to the property that says how it is related."""
    if related.relation == "IsIdenticalTo" and related.url is not None:
        found["sameAs"] = list(dict.fromkeys([*found["sameAs"], related.url]))
        return
    other = {"@type": "CreativeWork", "@id": related.url, "identifier": related.identifier}
    name = _RELATIONS.get(related.relation, "mentions") if related.relation else "mentions"
    before = found.get(name) or []
    found[name] = [*(before if isinstance(before, list) else [before]), _omit_empty(other)]


def _unwrap(values: list[str]) -> list[str] | str:
    """Return the only value of a list; other lists are returned unchanged."""
    return values[0] if len(values) == 1 else values


def _omit_empty(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value not in (None, "", [])}


def _identify(name: Name) -> str | None:
    return name.orcid_url or name.ror


def _describe_name(name: Name) -> dict[str, Any]:
    identifier = _identify(name)
    return _omit_empty(
        {
            "@type": "Person" if name.is_person else "Organization",
            "@id": identifier,
            "identifier": identifier,
            "sameAs": name.lattes_url,
            "name": name.direct,
            "givenName": name.given,
            "familyName": name.given and name.family,
            "affiliation": [_describe_organisation(each) for each in name.affiliations],
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
            "sha256": file.sha256,
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
