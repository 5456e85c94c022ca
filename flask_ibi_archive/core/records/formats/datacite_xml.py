"""The format DataCite, kernel 4, in XML.

Source: https://schema.datacite.org/meta/kernel-4.7/metadata.xsd.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flask_ibi_archive.core.records.formats.datacite import describe_datacite
from flask_ibi_archive.core.records.formats.xml_text import (
    document,
    element,
    format_attributes,
    group,
)
from flask_ibi_archive.core.records.work import Work

NAMESPACE = "http://datacite.org/schema/kernel-4"
SCHEMA = "https://schema.datacite.org/meta/kernel-4.7/metadata.xsd"

#: The names of attributes, if they differ from those in JSON.
_ATTRIBUTES = {
    "lang": "xml:lang",
    "rightsUri": "rightsURI",
    "schemeUri": "schemeURI",
    "valueUri": "valueURI",
}
#: The element of each member of the groups whose members have a text and attributes. The element
#: has the same name as the text in JSON.
_TEXTS = {
    "titles": "title",
    "subjects": "subject",
    "dates": "date",
    "alternateIdentifiers": "alternateIdentifier",
    "relatedIdentifiers": "relatedIdentifier",
    "rightsList": "rights",
    "descriptions": "description",
}
_LISTS = {"sizes": "size", "formats": "format"}
_NAMES = {"creators": "creator", "contributors": "contributor"}
_GIVEN = ("givenName", "familyName")
_PAGES = ("volume", "issue", "firstPage", "lastPage")


def write_datacite(work: Work) -> str:
    """Return the DataCite document of a work in XML."""
    return document("resource", _write(work), {NAMESPACE: SCHEMA}, xmlns=NAMESPACE)


def _write(work: Work) -> Iterator[str]:
    """Yield the elements of a document."""
    values = describe_datacite(work)
    # the schema allows other types than DOI, and the OpenAIRE Guidelines for Data Archives use URL
    identifier, kind = (work.doi, "DOI") if work.doi else (work.url, "URL")
    yield element("identifier", identifier, {"identifierType": kind})
    yield element("publisher", values["publisher"]["name"])
    yield element("publicationYear", values["publicationYear"])
    yield _write_text("resourceType", values["types"])
    for name in ("language", "version"):
        if name in values:
            yield element(name, values[name])
    for name in (*_NAMES, *_TEXTS, *_LISTS):
        yield from write_group(name, values)
    yield from group("geoLocations", map(_write_place, values.get("geoLocations", ())))
    yield from group("fundingReferences", map(write_grant, values.get("fundingReferences", ())))
    yield from group("relatedItems", map(_write_related_item, values.get("relatedItems", ())))


def write_group(name: str, values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield a group of elements; nothing if the work has no such values.

    :param name: the name of the group, such as ``titles``.
    :param values: the values of the work; see :func:`describe_datacite`.
    :param prefix: the prefix of the elements with a colon, or "".
    """
    members = values.get(name, ())
    if name in _NAMES:
        lines = (_write_name(f"{prefix}{_NAMES[name]}", member) for member in members)
    elif name in _TEXTS:
        lines = (_write_text(_TEXTS[name], member, prefix) for member in members)
    else:
        lines = (element(prefix + _LISTS[name], member) for member in members)
    return group(prefix + name, lines)


def _write_text(name: str, member: Mapping[str, str], prefix: str = "") -> str:
    """Return an element whose attributes are the other values of a member."""
    attributes = {_ATTRIBUTES.get(key, key): text for key, text in member.items() if key != name}
    return element(prefix + name, member[name], attributes)


def _write_name(name: str, member: Mapping[str, Any]) -> str:
    """Return a creator or a contributor."""
    prefix = name.removesuffix("creator").removesuffix("contributor")
    parts = [element(f"{name}Name", member["name"], {"nameType": member.get("nameType")})]
    parts += [element(prefix + key, member[key]) for key in _GIVEN if key in member]
    parts += [
        _write_text("nameIdentifier", identifier, prefix)
        for identifier in member.get("nameIdentifiers", ())
    ]
    for affiliation in member.get("affiliation", ()):
        attributes = {_ATTRIBUTES.get(key, key): text for key, text in affiliation.items()}
        parts.append(element(f"{prefix}affiliation", attributes.pop("name"), attributes))
    attributes = {key: text for key, text in member.items() if key == "contributorType"}
    return f"<{name}{format_attributes(attributes)}>{''.join(parts)}</{name}>"


def _write_place(location: Mapping[str, str]) -> str:
    return f"<geoLocation>{element('geoLocationPlace', location['geoLocationPlace'])}</geoLocation>"


def write_grant(grant: Mapping[str, str], prefix: str = "", stream: str | None = None) -> str:
    """Return a fundingReference.

    :param grant: the values of the grant.
    :param prefix: the prefix of the elements with a colon, or "".
    :param stream: the funding programme, for which only OpenAIRE has an element; or None.
    """
    parts = [element(f"{prefix}funderName", grant["funderName"])]
    if "funderIdentifier" in grant:
        kind = {"funderIdentifierType": grant["funderIdentifierType"]}
        parts.append(element(f"{prefix}funderIdentifier", grant["funderIdentifier"], kind))
    if stream is not None:
        parts.append(element(f"{prefix}fundingStream", stream))
    if "awardNumber" in grant or "awardUri" in grant:
        award = {"awardURI": grant.get("awardUri")}
        parts.append(element(f"{prefix}awardNumber", grant.get("awardNumber", ""), award))
    if "awardTitle" in grant:
        parts.append(element(f"{prefix}awardTitle", grant["awardTitle"]))
    return f"<{prefix}fundingReference>{''.join(parts)}</{prefix}fundingReference>"


def _write_related_item(item: Mapping[str, Any]) -> str:
    attributes = {key: item[key] for key in ("relatedItemType", "relationType")}
    parts = []
    if "relatedItemIdentifier" in item:
        parts.append(_write_text("relatedItemIdentifier", item["relatedItemIdentifier"]))
    parts += group("titles", (_write_text("title", title) for title in item["titles"]))
    parts += [element(key, item[key]) for key in _PAGES if key in item]
    return f"<relatedItem{format_attributes(attributes)}>{''.join(parts)}</relatedItem>"
