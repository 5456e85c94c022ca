"""The format JSON-LD with the vocabulary of schema.org, and with PROV-O for the provenance.

Sources: https://schema.org/CreativeWork; Google's documentation of structured data;
https://www.w3.org/TR/prov-o/.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from flask_ibi_archive.core.records import description as model
from flask_ibi_archive.core.records.formats.common import TYPES, find_access, omit_empty
from flask_ibi_archive.core.records.values import list_words
from flask_ibi_archive.core.records.work import Work, WorkFile

#: The namespace of PROV-O. Its terms are written as IRIs, because they need no other context then.
PROV = "http://www.w3.org/ns/prov#"
_XSD = "http://www.w3.org/2001/XMLSchema#"
#: The roles of contributors that are properties.
_ROLES: frozenset[model.Role] = frozenset(
    {"editor", "translator", "illustrator", "producer", "sponsor"}
)
#: The properties for other works; others are mentioned.
_RELATIONS = list_words("schema.org relations")


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
    type = TYPES[work.type].schema_org
    is_dataset = type == "Dataset"
    access = work.access or work.access_right
    degree, container = work.degree, work.container
    institution = degree and degree.institution
    programme = degree and degree.programme
    department = programme and _make("Organization", name=programme)
    issued = work.issued
    authors = [name.orcid_url or name.ror for name in work.creators]
    funders = {grant.funder: grant.funder_id for grant in work.funding}
    time = work.deposited and work.deposited.isoformat()
    created = work.dates.get("created")
    place, publisher = work.imprint
    # only data sets are in catalogues of data
    archive, kind, encoding = "provider", "Organization", "encoding"
    if is_dataset:
        archive, kind, encoding = "includedInDataCatalog", "DataCatalog", "distribution"
    found: dict[str, Any] = {
        "@context": "https://schema.org",
        "@type": type,
        "@id": work.url,
        "url": work.page_url,
        "identifier": [
            _make("PropertyValue", propertyID=scheme, value=value)
            for scheme, value in (("DOI", work.doi), *(("IBI", ibi) for ibi in work.identifiers))
            if value
        ],
        "name": work.title,
        "alternateName": [title.value for title in work.other_titles],
        "author": [_describe_name(name) for name in work.creators],
        **_describe_contributors(work.contributors),
        "datePublished": issued and (issued.iso or issued.text),
        "dateCreated": created and (created.iso or created.text),
        "dateModified": time,
        "publisher": publisher and _make("Organization", name=publisher),
        "locationCreated": place and _make("Place", name=place),
        "description": "\n\n".join(text for text, _ in work.abstracts),
        "keywords": [_describe_subject(subject) for subject in work.subjects],
        "inLanguage": work.language,
        "license": work.licence_url,
        "copyrightNotice": [text for text, _ in work.rights],
        "isAccessibleForFree": access == "open" if access else None,
        "conditionsOfAccess": _list_conditions(work),
        "funding": [_describe_grant(grant) for grant in work.funding],
        "funder": [_describe_organisation(*funder) for funder in funders.items()],
        "inSupportOf": degree and (degree.name or degree.level),
        "sourceOrganization": institution
        and _describe_organisation(institution.name, institution.ror, department=department),
        "sameAs": work.same_as_uris,
        "isbn": work.isbn if type == "Book" else None,
        "reportNumber": work.number if type == "Report" else None,
        "version": work.version,
        "materialExtent": work.extent,
        "isPartOf": [_describe_container(container, work)] if container else [],
        "pagination": container and container.pages,
        "genre": work.type_text,
        "translationOfWork": work.translation_of and _make(type, work.translation_of),
        "workTranslation": [
            _make(type, url, inLanguage=language) for language, url in work.translations
        ],
        archive: work.archive_name and _make(kind, name=work.archive_name),
        encoding: [_describe_file(file, is_dataset) for file in work.files],
        # who made the work, when it was deposited, and from which other works it was made
        f"{PROV}wasAttributedTo": [{"@id": uri} for uri in authors if uri],
        f"{PROV}generatedAtTime": time and {"@type": f"{_XSD}dateTime", "@value": time},
        f"{PROV}wasRevisionOf": work.previous_edition and {"@id": work.previous_edition},
        f"{PROV}wasDerivedFrom": work.translation_of and {"@id": work.translation_of},
    }
    for related in work.related:
        _add_related(found, related)
    for name in ("sameAs", "isPartOf", "conditionsOfAccess"):
        if len(found[name]) == 1:
            [found[name]] = found[name]
    return omit_empty(found)


def _list_conditions(work: Work) -> list[str]:
    """Return the URI of the access right (COAR), then a text with the end of an embargo, if any."""
    right = find_access(work)
    conditions = [] if right is None else [right.uri]
    if (work.access or work.access_right) == "embargoed" and work.available is not None:
        conditions.append(f"available from {work.available.isoformat()}")
    return conditions


def _describe_contributors(names: Iterable[model.Name]) -> dict[str, list[Any]]:
    """Return the properties for contributors, by name.

    A kind of contribution without a property of its own is written as the name of a role.
    """
    properties: dict[str, list[Any]] = {}
    for name in names:
        person, role = _describe_name(name), name.role or "other"
        if role not in _ROLES and role != "other":
            person = _make("Role", roleName=role, contributor=person)
        properties.setdefault(role if role in _ROLES else "contributor", []).append(person)
    return properties


def _describe_subject(subject: model.Subject) -> str | dict[str, Any]:
    if subject.scheme is None and subject.uri is None:
        return subject.value
    terms = subject.scheme and _make("DefinedTermSet", name=subject.scheme)
    return _make("DefinedTerm", subject.uri, name=subject.value, inDefinedTermSet=terms)


def _describe_grant(grant: model.Grant) -> dict[str, Any]:
    return _make(
        "Grant",
        identifier=grant.number,
        name=grant.title,
        url=grant.url,
        funder=_describe_organisation(grant.funder, grant.funder_id),
        isPartOf=grant.programme and _make("Grant", name=grant.programme),
    )


def _describe_organisation(name: str, identifier: str | None, **more: Any) -> dict[str, Any]:
    return _make("Organization", identifier, identifier=identifier, name=name, **more)


def _add_related(found: dict[str, Any], related: model.RelatedWork) -> None:
    """Add a related work to an object, under the property for the kind of the relation."""
    if related.relation == "IsIdenticalTo" and related.url is not None:
        found["sameAs"] = list(dict.fromkeys([*found["sameAs"], related.url]))
        return
    other = _make("CreativeWork", related.url, identifier=related.identifier)
    name = _RELATIONS.get(related.relation or "", "mentions")
    before = found.get(name) or []
    found[name] = [*(before if isinstance(before, list) else [before]), other]


def _make(type: str, identifier: str | None = None, /, **properties: Any) -> dict[str, Any]:
    """Return a JSON-LD object with a type. Properties without a value are omitted."""
    return omit_empty({"@type": type, "@id": identifier, **properties})


def _describe_name(name: model.Name) -> dict[str, Any]:
    identifier = name.orcid_url or name.ror
    family, given, suffix = name.parts
    return _make(
        "Person" if name.is_person else "Organization",
        identifier,
        identifier=identifier,
        sameAs=name.lattes_url,
        name=name.direct,
        givenName=given,
        familyName=given and family,
        honorificSuffix=suffix,
        affiliation=[_describe_organisation(each.name, each.ror) for each in name.affiliations],
    )


def _describe_file(file: WorkFile, is_dataset: bool) -> dict[str, Any]:
    return _make(
        "DataDownload" if is_dataset else "MediaObject",
        name=file.name,
        contentUrl=file.url,
        encodingFormat=file.media_type,
        contentSize=None if file.size is None else f"{file.size} B",
        sha256=file.sha256,
    )


def _describe_container(container: model.Container, work: Work) -> dict[str, Any]:
    """Return the book or the journal; in a journal, the issue and the volume are objects, too."""
    if work.type not in model.IN_JOURNALS:
        return _make("Book", name=container.title, isbn=work.isbn)
    part = _make("Periodical", name=container.title, issn=work.issn)
    if container.volume:
        part = _make("PublicationVolume", volumeNumber=container.volume, isPartOf=part)
    if container.number:
        part = _make("PublicationIssue", issueNumber=container.number, isPartOf=part)
    return part
