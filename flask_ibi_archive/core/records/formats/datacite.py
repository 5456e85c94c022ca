"""The format DataCite, kernel 4: the values of a work, as JSON, as XML, and as oai_openaire.

The format oai_openaire (OpenAIRE Guidelines for Literature Repository Managers 4.0) contains only
values that version 4.1 of DataCite has. Sources:
https://openaire-guidelines-for-literature-repository-managers.readthedocs.io, and the schemas.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flask_ibi_archive.core.records import description as model
from flask_ibi_archive.core.records import values
from flask_ibi_archive.core.records.formats import common
from flask_ibi_archive.core.records.work import Work

_UNAVAILABLE = ":unav"
#: The year if neither the metadata nor the Archive know one; the schema demands four digits.
NO_YEAR = "0000"

#: A member of a list of values, by the names of the JSON schema.
Value = dict[str, Any]

#: The types of the containers of works, because a relatedItem must have a type; the types of
#: contributors that have another name in DataCite; and the types of titles.
_CONTAINERS = values.list_words("datacite containers")
_ROLES = values.list_words("datacite roles")
_TITLES = values.list_words("datacite titles")
#: Matches the DOIs that the JSON schema allows; it knows no divided prefixes such as 10.1000.5.
_PLAIN_DOI = re.compile(r"10\.[0-9]{4,9}/\S+")


def write_datacite_json(work: Work) -> str:
    """Return the DataCite document of a work in JSON."""
    return json.dumps(describe_datacite(work), ensure_ascii=False, indent=1) + "\n"


def describe_datacite(work: Work) -> Value:
    """Return the JSON object of a work, with the names of the JSON schema of DataCite."""
    general = common.TYPES[work.type].datacite
    # the year of publication, otherwise the year in which the Archive got the item
    year = work.year if work.year is not None else work.deposited and work.deposited.year
    media_types = dict.fromkeys(file.media_type for file in work.files if file.media_type)
    sizes = (f"{file.size} bytes" for file in work.files if file.size is not None)
    lists: dict[str, Iterable[Any]] = {
        "creators": map(_describe_name, work.creators or (model.Name(_UNAVAILABLE),)),
        "titles": _list_titles(work),
        "subjects": (
            common.omit_empty(
                subject=one.value, subjectScheme=one.scheme, valueUri=one.uri, lang=one.lang
            )
            for one in work.subjects
        ),
        "contributors": map(_describe_contributor, work.contributors),
        "dates": _list_dates(work),
        "alternateIdentifiers": _list_alternate_identifiers(work),
        "relatedIdentifiers": _list_related(work),
        "sizes": filter(None, (work.extent, *sizes)),
        "formats": media_types,
        "rightsList": _list_rights(work),
        "descriptions": _list_descriptions(work),
        "geoLocations": (
            {"geoLocationPlace": text}
            for text, _ in work.coverage
            if not values.parse_date(text).iso
        ),
        "fundingReferences": map(_describe_grant, work.funding),
        "relatedItems": _list_related_items(work),
    }
    return common.omit_empty(
        doi=work.doi if work.doi and _PLAIN_DOI.fullmatch(work.doi) else None,
        url=work.url,
        types={"resourceType": work.type_text or general, "resourceTypeGeneral": general},
        publisher={"name": work.imprint[1] or _UNAVAILABLE},
        publicationYear=NO_YEAR if year is None else f"{year:04}",
        language=work.language,
        version=work.version,
        **{name: _list_once(members) for name, members in lists.items()},
        schemaVersion="http://datacite.org/schema/kernel-4",
    )


def _list_once(members: Iterable[Any]) -> list[Any]:
    """Remove repeated values, which the schema does not allow; keep the order."""
    found: list[Any] = []
    for value in members:
        if value not in found:
            found.append(value)
    return found


def _describe_name(name: model.Name) -> Value:
    # without a comma and without a statement, it may be a person or an organisation
    kind = "Organizational" if name.kind == "organisation" or name.ror else None
    identifiers = (
        (name.orcid_url, "ORCID", "https://orcid.org"),
        (name.lattes_url, "Lattes", "http://lattes.cnpq.br"),
        (name.ror, "ROR", "https://ror.org"),
    )
    return common.omit_empty(
        name=name.inverted,
        nameType="Personal" if name.is_person or name.lattes else kind,
        givenName=name.given,
        familyName=None if name.given is None else name.family,
        nameIdentifiers=[
            {"nameIdentifier": url, "nameIdentifierScheme": scheme, "schemeUri": scheme_uri}
            for url, scheme, scheme_uri in identifiers
            if url is not None
        ],
        affiliation=_list_once(map(_describe_affiliation, name.affiliations)),
    )


def _describe_affiliation(organisation: model.Organisation) -> Value:
    return common.omit_empty(
        name=organisation.name,
        affiliationIdentifier=organisation.ror,
        affiliationIdentifierScheme=organisation.ror and "ROR",
        schemeUri=organisation.ror and "https://ror.org",
    )


def _describe_contributor(name: model.Name) -> Value:
    stated: str = name.role or "other"
    role = _ROLES.get(stated) or stated.title().replace(" ", "")
    return {**_describe_name(name), "contributorType": role}


def _list_titles(work: Work) -> Iterator[Value]:
    yield common.omit_empty(title=work.title, lang=work.title_language)
    for title in work.other_titles:
        # a title in another language is a translation
        is_translated = title.lang and work.title_language not in (None, title.lang)
        kind = title.kind or ("translated" if is_translated else "alternative")
        yield common.omit_empty(title=title.value, titleType=_TITLES[kind], lang=title.lang)


def _list_dates(work: Work) -> Iterator[Value]:
    if work.issued is not None:
        yield _describe_date(work.issued, "Issued")
    if work.degree is not None and work.degree.defended is not None:
        yield {**_describe_date(work.degree.defended, "Accepted"), "dateInformation": "defence"}
    for kind, date in work.dates.items():
        yield _describe_date(date, kind.title())
    if work.available is not None:
        yield {"date": work.available.isoformat(), "dateType": "Available"}
    if work.deposited is not None:
        yield {"date": work.deposited.isoformat(), "dateType": "Updated"}
    for text, _ in work.coverage:
        if values.parse_date(text).iso:
            yield _describe_date(values.parse_date(text), "Coverage")


def _describe_date(date: values.IssuedDate, kind: str) -> Value:
    """Return a date. If the stated text is not ISO 8601, it becomes the field dateInformation."""
    text = date.iso or date.text
    information = None if text == date.text else date.text
    return common.omit_empty(date=text, dateType=kind, dateInformation=information)


def _list_alternate_identifiers(work: Work) -> Iterator[Value]:
    # the ISSN and the ISBN may be those of what contains the work
    is_contained = work.is_contained
    for text, kind in (
        (work.url if work.doi else None, "URL"),
        *((ibi, "IBI") for ibi in work.identifiers),
        (None if is_contained else work.isbn, "ISBN"),
        (None if is_contained else work.issn, "ISSN"),
        (work.number, "Number"),
    ):
        if text:
            yield {"alternateIdentifier": text, "alternateIdentifierType": kind}


def _list_related(work: Work) -> Iterator[Value]:
    """Yield the identifiers of the work in other systems (not the DOI), and the related works."""
    for alias in work.same_as:
        if not work.is_doi(alias):
            yield _relate(alias.text, model.FOREIGN_KINDS[alias.kind], "IsIdenticalTo")
    urls: list[tuple[str | None, str]] = [
        (work.next_edition, "IsPreviousVersionOf"),
        (work.previous_edition, "IsNewVersionOf"),
        (work.translation_of, "IsTranslationOf"),
        *((url, "HasTranslation") for _, url in work.translations),
    ]
    yield from (_relate(url, "URL", relation) for url, relation in urls if url is not None)
    for related in work.related:
        text, kind, relation = related.identifier, related.kind, related.relation
        if kind == "IBI":  # DataCite does not know these, but the persistent URL
            text, kind = work.url.removesuffix(work.ibi) + text, "URL"
        # kernel 4.7 has no word for dc:relation
        information = {} if relation else {"relationTypeInformation": "dc:relation"}
        yield _relate(text, kind, relation or "Other") | information
    if work.container is None and work.type in model.CONTAINED:
        numbers = ((work.issn, "ISSN"), (work.isbn, "ISBN"))
        yield from (_relate(text, kind, "IsPublishedIn") for text, kind in numbers if text)


def _relate(text: str, kind: str, relation: str) -> Value:
    """Return a related identifier. In a Handle or a DOI, the scheme is left out."""
    return {
        "relatedIdentifier": re.sub("^(hdl|doi):", "", text),
        "relatedIdentifierType": kind,
        "relationType": relation,
    }


def _list_rights(work: Work) -> Iterator[Value]:
    """Yield the term for who may read the files, then the statements about rights and licence."""
    access = common.find_access(work)
    if access is not None:
        yield {"rights": access.label, "rightsUri": access.uri}
    licences = [values.find_licence(text) for text, _ in work.rights]
    for (text, language), url in zip(work.rights, licences, strict=True):
        yield _describe_licence(text, url, language)
    if work.licence_url and work.licence_url not in licences:
        yield _describe_licence(values.name_licence(work.licence_url), work.licence_url)


def _describe_licence(text: str, url: str | None, language: str | None = None) -> Value:
    spdx = url and values.find_spdx(url)
    return common.omit_empty(
        rights=text,
        rightsUri=url,
        lang=language,
        rightsIdentifier=spdx,
        rightsIdentifierScheme=spdx and "SPDX",
        schemeUri=spdx and "https://spdx.org/licenses/",
    )


def _list_descriptions(work: Work) -> Iterator[Value]:
    """Yield the abstracts, the degree of a thesis, the notes, and the checksums of the files."""
    for text, language in work.abstracts:
        yield common.omit_empty(description=text, descriptionType="Abstract", lang=language)
    degree = work.degree
    if degree is not None:
        institution = degree.institution and degree.institution.name
        parts = (degree.name or degree.level, degree.programme, institution)
        if text := ", ".join(part for part in parts if part):
            yield {"description": text, "descriptionType": "Other"}
    for text, language in work.notes:
        yield common.omit_empty(description=text, descriptionType="Other", lang=language)
    for file in work.files:
        if file.sha256 is not None:
            text = f"SHA-256 of {file.name}: {file.sha256}"
            yield {"description": text, "descriptionType": "TechnicalInfo"}


def _describe_grant(grant: model.Grant) -> Value:
    """Return the values of a grant."""
    is_ror = (grant.funder_id or "").startswith("https://ror.org/")
    return common.omit_empty(
        funderName=grant.funder,
        funderIdentifier=grant.funder_id,
        funderIdentifierType=grant.funder_id and ("ROR" if is_ror else "Crossref Funder ID"),
        awardNumber=grant.number,
        awardUri=grant.url,
        awardTitle=grant.title,
    )


def _list_related_items(work: Work) -> Iterator[Value]:
    """Yield the journal, the book or the event that contains the work."""
    container = work.container
    if container is None:
        return
    kind = _CONTAINERS.get(work.type.value) or ("Journal" if work.issn else "Book")
    text, scheme = (work.issn, "ISSN") if kind == "Journal" else (work.isbn, "ISBN")
    number = {"relatedItemIdentifier": text, "relatedItemIdentifierType": scheme}
    yield common.omit_empty(
        relatedItemType=kind,
        relationType="IsPublishedIn",
        relatedItemIdentifier=number if text else None,
        titles=[{"title": container.title}],
        volume=container.volume,
        issue=container.number,
        firstPage=container.first_page,
        lastPage=container.last_page,
    )


# --- XML -----------------------------------------------------------------------------------------


#: The namespace and the schema.
SPACE = (
    "http://datacite.org/schema/kernel-4",
    "https://schema.datacite.org/meta/kernel-4.7/metadata.xsd",
)
#: The groups of elements whose names are those of their members in the plural.
_GROUPS = values.VOCABULARIES["datacite"]["groups"]
#: The elements of a grant, and their attributes.
_GRANT = values.VOCABULARIES["datacite grant"]


def write_datacite(work: Work) -> str:
    """Return the DataCite document of a work in XML."""
    return common.document("resource", _write(work), SPACE)


def _write(work: Work) -> Iterator[str]:
    """Yield the elements of a document."""
    members = describe_datacite(work)
    yield _write_identifier(work)
    yield common.element("publisher", members["publisher"]["name"])
    yield common.element("publicationYear", members["publicationYear"])
    yield _write_text("resourceType", members["types"])
    yield from _write_members(members, "language", "version")
    for name in _GROUPS:
        yield from _write_group(name, members)


def _write_identifier(work: Work, prefix: str = "") -> str:
    """Return the identifier of a work: the DOI, otherwise the persistent URL.

    The schema allows other types than DOI, and the OpenAIRE Guidelines for Data Archives use URL.
    """
    identifier, kind = (work.doi, "DOI") if work.doi else (work.url, "URL")
    return common.element(f"{prefix}identifier", identifier, {"identifierType": kind})


def _write_group(name: str, members: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield a group of elements; nothing if the work has no such values.

    :param name: the name of the group, such as ``titles``.
    :param members: the values of the work; see :func:`describe_datacite`.
    :param prefix: the prefix of the elements with a colon, or "".
    """
    member = "rights" if name == "rightsList" else name.removesuffix("s")
    write = _WRITERS.get(name, _write_text)
    parts = (write(member, value, prefix) for value in members.get(name, ()))
    return common.group(prefix + name, parts)


def _write_members(members: Mapping[str, Any], *names: str, prefix: str = "") -> Iterator[str]:
    """Yield an element for each of some names, if the work has a value with this name."""
    yield from (_write_text(name, members[name], prefix) for name in names if name in members)


def _write_text(
    name: str, member: Mapping[str, str] | str, prefix: str = "", key: str | None = None
) -> str:
    """Return the element for a value. In an object, one member is the text, the others attributes.

    :param key: the name of the member that is the text; None: the name of the element.
    """
    if isinstance(member, str):
        return common.element(prefix + name, member)
    attributes = dict(member)
    text = attributes.pop(key or name)
    return common.element(
        prefix + name, text, {_rename(key): attributes[key] for key in attributes}
    )


def _rename(key: str) -> str:
    """Convert the name of a member in JSON to the name of the attribute in XML."""
    return "xml:lang" if key == "lang" else re.sub("Uri$", "URI", key)


def _write_name(name: str, member: Mapping[str, Any], prefix: str) -> str:
    """Return a creator or a contributor."""
    name = prefix + name
    parts = [common.element(f"{name}Name", member["name"], {"nameType": member.get("nameType")})]
    parts += _write_members(member, "givenName", "familyName", prefix=prefix)
    for identifier in member.get("nameIdentifiers", ()):
        parts.append(_write_text("nameIdentifier", identifier, prefix))
    for affiliation in member.get("affiliation", ()):
        parts.append(_write_text("affiliation", affiliation, prefix, "name"))
    return common.parent(name, parts, {"contributorType": member.get("contributorType")})


def _write_place(name: str, place: Mapping[str, str], prefix: str) -> str:
    return common.parent(name, _write_members(place, "geoLocationPlace"))


def _write_grant(name: str, grant: Mapping[str, str | None], prefix: str) -> str:
    parts = [
        common.element(prefix + name, text, {_rename(key): grant.get(key) for key in keys})
        for name, keys in _GRANT.items()
        if (text := grant.get(name) or "") or any(map(grant.get, keys))
    ]
    return common.parent(prefix + name, parts)


def _write_related_item(name: str, item: Mapping[str, Any], prefix: str) -> str:
    parts = [
        *_write_members(item, "relatedItemIdentifier"),
        *_write_group("titles", item),
        *_write_members(item, "volume", "issue", "firstPage", "lastPage"),
    ]
    return common.parent(
        name, parts, {key: item[key] for key in ("relatedItemType", "relationType")}
    )


#: The functions that write the members of groups, if they are more than texts with attributes.
_WRITERS: Mapping[str, Callable[[str, Any, str], str]] = {
    "creators": _write_name,
    "contributors": _write_name,
    "geoLocations": _write_place,
    "fundingReferences": _write_grant,
    "relatedItems": _write_related_item,
}


# --- OpenAIRE ------------------------------------------------------------------------------------


#: The namespace and the schema of OpenAIRE.
OPENAIRE = (
    "http://namespace.openaire.eu/schema/oaire/",
    "https://www.openaire.eu/schema/repo-lit/4.0/openaire.xsd",
)

#: The terms of DataCite that are newer than the schema. Such dates and related works are left out.
_NEW_DATES = values.VOCABULARIES["datacite"]["newer dates"]
_NEW_RELATIONS = values.VOCABULARIES["datacite"]["newer relations"]
_OPENAIRE_GROUPS = values.VOCABULARIES["datacite"]["openaire groups"]
_GENERAL = values.list_words("openaire types")


def write_openaire(work: Work) -> str:
    """Return the oai_openaire document of a work."""
    return common.document(
        "oaire:resource", _list_elements(work), OPENAIRE, datacite=SPACE[0], dc=common.DC
    )


def _list_elements(work: Work) -> Iterator[str]:
    """Yield the elements of an OpenAIRE document."""
    members = _describe_older(work)
    for name in _OPENAIRE_GROUPS:
        yield from _write_group(name, members, "datacite:")
    grants = [{**_describe_grant(each), "fundingStream": each.programme} for each in work.funding]
    yield from _write_group("fundingReferences", {"fundingReferences": grants}, "oaire:")
    yield _write_identifier(work, "datacite:")
    if work.language:
        yield common.element("dc:language", common.find_language_code(work.language))
    if work.publisher:
        yield common.element("dc:publisher", members["publisher"]["name"])
    terms = common.TYPES[work.type]
    general = _GENERAL.get(work.type.value, "literature")
    attributes = {"resourceTypeGeneral": general, "uri": terms.uri}
    yield common.element("oaire:resourceType", terms.label, attributes)
    for text, language in (*work.abstracts, *work.notes):
        yield common.element("dc:description", text, {"xml:lang": language})
    yield from (common.element("dc:format", name) for name in members.get("formats", ()))
    # an item without files is a description alone; None with files means that nobody knows
    access = common.find_access(work) or (None if work.files else common.METADATA_ONLY)
    if access is not None:
        yield common.element("datacite:rights", access.label, {"rightsURI": access.uri})
    yield from (
        common.element("dc:coverage", text, {"xml:lang": language})
        for text, language in work.coverage
    )
    yield from _write_citation(work)
    if work.licence_url:
        name = values.name_licence(work.licence_url)
        yield common.element("oaire:licenseCondition", name, {"uri": work.licence_url})
    for file in work.files:
        about: dict[str, str | None] = {
            "accessRightsURI": access and access.uri,
            "mimeType": file.media_type,
            "objectType": general if general in ("dataset", "software") else "fulltext",
        }
        yield common.element("oaire:file", file.url, about)


def _describe_older(work: Work) -> dict[str, Any]:
    """Return the object of :func:`describe_datacite`, without values unknown to version 4.1."""
    members = describe_datacite(work)
    return members | {
        "contributors": [
            {**name, "contributorType": name["contributorType"].replace("Translator", "Other")}
            for name in members.get("contributors", ())
        ],
        "dates": [date for date in members.get("dates", ()) if date["dateType"] not in _NEW_DATES],
        "relatedIdentifiers": [
            related
            for related in members.get("relatedIdentifiers", ())
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
            if work.type in (model.WorkType.CONFERENCE_PAPER, model.WorkType.POSTER)
            else None,
        }
        yield from (common.element(f"oaire:{name}", text) for name, text in parts.items() if text)
    stage = common.find_version(work)
    if stage is not None:
        yield common.element("oaire:version", stage.label, {"uri": stage.uri})
    elif work.version:
        yield common.element("oaire:version", work.version)
