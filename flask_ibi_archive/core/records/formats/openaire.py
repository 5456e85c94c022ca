"""The format oai_openaire: OpenAIRE Guidelines for Literature Repository Managers 4.0.

The values are those of the format DataCite, as far as version 4.1 of DataCite knows them. Sources:
https://openaire-guidelines-for-literature-repository-managers.readthedocs.io, and the schema.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flask_ibi_archive.core.records.description import WorkType
from flask_ibi_archive.core.records.formats.datacite import NAMESPACE as DATACITE
from flask_ibi_archive.core.records.formats.datacite import (
    describe_datacite,
    describe_grant,
    write_grant,
    write_group,
    write_identifier,
)
from flask_ibi_archive.core.records.formats.vocabularies import (
    METADATA_ONLY,
    TYPES,
    find_access,
    find_language_code,
    find_version,
)
from flask_ibi_archive.core.records.formats.xml_text import document, element, group
from flask_ibi_archive.core.records.values import name_licence
from flask_ibi_archive.core.records.work import Work

NAMESPACE = "http://namespace.openaire.eu/schema/oaire/"
SCHEMA = "https://www.openaire.eu/schema/repo-lit/4.0/openaire.xsd"

#: The terms of DataCite that are newer than the schema. Such dates and related works are left out.
_NEW_DATES = frozenset({"Coverage", "Other", "Withdrawn"})
_NEW_RELATIONS = frozenset({
    "Collects", "HasTranslation", "IsCollectedBy", "IsObsoletedBy", "IsPublishedIn",
    "IsTranslationOf", "Obsoletes", "Other",
})  # fmt: skip
_GROUPS = (
    "titles", "creators", "contributors", "alternateIdentifiers", "relatedIdentifiers", "dates",
    "subjects", "sizes",
)  # fmt: skip
_GENERAL = {
    WorkType.DATASET: "dataset",
    WorkType.SOFTWARE: "software",
    **dict.fromkeys(
        (WorkType.COLLECTION, WorkType.IMAGE, WorkType.MAP, WorkType.MUSIC, WorkType.OTHER,
         WorkType.SOUND, WorkType.VIDEO),
        "other research product",
    ),
}  # fmt: skip


def write_openaire(work: Work) -> str:
    """Return the oai_openaire document of a work."""
    return document(
        "oaire:resource",
        _write(work),
        {NAMESPACE: SCHEMA},
        oaire=NAMESPACE,
        datacite=DATACITE,
        dc="http://purl.org/dc/elements/1.1/",
    )


def _write(work: Work) -> Iterator[str]:
    """Yield the elements of a document."""
    values = _describe(work)
    for name in _GROUPS:
        yield from write_group(name, values, "datacite:")
    grants = ({**describe_grant(each), "fundingStream": each.programme} for each in work.funding)
    yield from group("oaire:fundingReferences", (write_grant(each, "oaire:") for each in grants))
    yield write_identifier(work, "datacite:")
    if work.language:
        yield element("dc:language", find_language_code(work.language))
    if work.publisher:
        yield element("dc:publisher", values["publisher"]["name"])
    terms = TYPES[work.type]
    general = _GENERAL.get(work.type, "literature")
    attributes = {"resourceTypeGeneral": general, "uri": terms.uri}
    yield element("oaire:resourceType", terms.label, attributes)
    for text, language in (*work.abstracts, *work.notes):
        yield element("dc:description", text, {"xml:lang": language})
    yield from (element("dc:format", name) for name in values.get("formats", ()))
    # an item without files is a description alone; None with files means that nobody knows
    access = find_access(work) or (None if work.files else METADATA_ONLY)
    if access is not None:
        yield element("datacite:rights", access.label, {"rightsURI": access.uri})
    yield from (
        element("dc:coverage", text, {"xml:lang": language}) for text, language in work.coverage
    )
    yield from _write_citation(work)
    if work.licence_url:
        name = name_licence(work.licence_url)
        yield element("oaire:licenseCondition", name, {"uri": work.licence_url})
    for file in work.files:
        about: dict[str, str | None] = {
            "accessRightsURI": access and access.uri,
            "mimeType": file.media_type,
            "objectType": general if general in ("dataset", "software") else "fulltext",
        }
        yield element("oaire:file", file.url, about)


def _describe(work: Work) -> dict[str, Any]:
    """Return the values of the format DataCite that the older schema knows."""
    values = describe_datacite(work)
    return values | {
        "contributors": [
            {**name, "contributorType": name["contributorType"].replace("Translator", "Other")}
            for name in values.get("contributors", ())
        ],
        "dates": [date for date in values.get("dates", ()) if date["dateType"] not in _NEW_DATES],
        "relatedIdentifiers": [
            related
            for related in values.get("relatedIdentifiers", ())
            if related["relationType"] not in _NEW_RELATIONS
        ],
    }


def _write_citation(work: Work) -> Iterator[str]:
    """Yield the journal or book that contains the work, and the version."""
    container = work.container
    if container is not None:
        parts = {
            "citationTitle": container.title,
            "citationVolume": container.volume,
            "citationIssue": container.number,
            "citationStartPage": container.first_page,
            "citationEndPage": container.last_page,
            "citationConferencePlace": container.place
            if work.type in (WorkType.CONFERENCE_PAPER, WorkType.POSTER)
            else None,
        }
        yield from (element(f"oaire:{name}", text) for name, text in parts.items() if text)
    stage = find_version(work)
    if stage is not None:
        yield element("oaire:version", stage.label, {"uri": stage.uri})
    elif work.version:
        yield element("oaire:version", work.version)
