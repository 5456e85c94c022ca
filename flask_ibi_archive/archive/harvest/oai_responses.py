"""Writes the responses to harvesters as XML.

Source: OAI-PMH 2.0, 3.2 and 4, and http://www.openarchives.org/OAI/2.0/OAI-PMH.xsd.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from xml.parsers.expat import ExpatError, ParserCreate

from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.records.formats import MetadataFormat
from flask_ibi_archive.core.records.formats.oai_dc import DECLARATION, element
from flask_ibi_archive.errors import HarvestError

_NAMESPACE = "http://www.openarchives.org/OAI/2.0/"
_IDENTIFIER_NAMESPACE = f"{_NAMESPACE}oai-identifier"
_XSI = 'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
_ROOT = (
    f'<OAI-PMH xmlns="{_NAMESPACE}" {_XSI} '
    f'xsi:schemaLocation="{_NAMESPACE} {_NAMESPACE}OAI-PMH.xsd">'
)
#: Matches what precedes the root element of a document: it can't be inside another document.
_PROLOGUE = re.compile(r"\ufeff?\s*(<\?xml[^>]*\?>\s*)?(<!DOCTYPE[^>\[]*>\s*)?")
#: Matches the host names that an identifier of the scheme oai-identifier may contain.
_DOMAIN = re.compile(r"[A-Za-z][A-Za-z0-9-]*(\.[A-Za-z][A-Za-z0-9-]*)+\Z")


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a record.

    :param ibi: the identifier of the item.
    :param datestamp: the time of the last change or of the deletion.
    :param sets: the sets to which the item belongs, or belonged when it was deleted.
    """

    ibi: str
    datestamp: datetime
    is_deleted: bool = False
    sets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ArchiveDescription:
    """The answer to Identify.

    :param host: the host name in the identifiers of records.
    :param base_url: the URL of the OAI-PMH interface.
    """

    name: str
    host: str
    base_url: str
    admin_email: str
    earliest: datetime


def make_identifier(host: str, ibi: str) -> str:
    """Return the OAI identifier of an item (OAI identifier format, 2.0)."""
    return f"oai:{host}:{ibi}"


def parse_oai_identifier(host: str, identifier: str) -> str:
    """Return the IBI in an OAI identifier, in canonical case.

    :raises HarvestError: idDoesNotExist, if it is not an identifier of this Archive.
    """
    prefix = make_identifier(host, "")
    try:
        if identifier.lower().startswith(prefix.lower()):
            return parse_identifier(identifier[len(prefix) :]).text
    except ValueError:
        pass
    raise HarvestError("idDoesNotExist", f"{identifier!r} is not the identifier of a record")


def write_response(base_url: str, now: datetime, arguments: Mapping[str, str], body: str) -> str:
    """Return a complete response.

    :param now: the time of the response.
    :param arguments: the arguments of the request; empty if the verb or an argument is wrong.
    :param body: the element of the verb, or the errors.
    """
    return (
        f"{DECLARATION}{_ROOT}\n"
        f"{element('responseDate', format_timestamp(now))}\n"
        f"{element('request', base_url, arguments)}\n"
        f"{body}\n</OAI-PMH>\n"
    )


def write_error(error: HarvestError) -> str:
    """Return the element of an error."""
    return element("error", error.message, {"code": error.code})


def write_identify(archive: ArchiveDescription) -> str:
    """Return the answer to Identify."""
    lines = [
        element("repositoryName", archive.name),
        element("baseURL", archive.base_url),
        element("protocolVersion", "2.0"),
        element("adminEmail", archive.admin_email),
        element("earliestDatestamp", format_timestamp(archive.earliest)),
        element("deletedRecord", "persistent"),
        element("granularity", "YYYY-MM-DDThh:mm:ssZ"),
    ]
    if _DOMAIN.match(archive.host):
        location = f"{_IDENTIFIER_NAMESPACE} {_IDENTIFIER_NAMESPACE}.xsd"
        lines += [
            f'<description><oai-identifier xmlns="{_IDENTIFIER_NAMESPACE}" {_XSI}'
            f' xsi:schemaLocation="{location}">',
            element("scheme", "oai"),
            element("repositoryIdentifier", archive.host),
            element("delimiter", ":"),
            element("sampleIdentifier", make_identifier(archive.host, "8JMKD3MGP8W/35MME4E")),
            "</oai-identifier></description>",
        ]
    return _wrap("Identify", lines)


def write_formats(formats: Iterable[MetadataFormat]) -> str:
    """Return the answer to ListMetadataFormats."""
    return _wrap(
        "ListMetadataFormats",
        (
            _wrap(
                "metadataFormat",
                [
                    element("metadataPrefix", one.name),
                    element("schema", one.schema or ""),
                    element("metadataNamespace", one.namespace or ""),
                ],
            )
            for one in formats
        ),
    )


def write_sets(sets: Mapping[str, str]) -> str:
    """Return the answer to ListSets.

    :param sets: the name of each set, by its setSpec.
    """
    return _wrap(
        "ListSets",
        (
            _wrap("set", [element("setSpec", spec), element("setName", name)])
            for spec, name in sets.items()
        ),
    )


def write_header(host: str, header: Header) -> str:
    """Return the header of a record."""
    lines = [
        element("identifier", make_identifier(host, header.ibi)),
        element("datestamp", format_timestamp(header.datestamp)),
        *(element("setSpec", spec) for spec in header.sets),
    ]
    return _wrap("header", lines, ' status="deleted"' if header.is_deleted else "")


def write_record(host: str, header: Header, document: bytes | None) -> str:
    """Return a record.

    :param document: the metadata as an XML document; None for a deleted item.
    :raises ValueError: if the document can't be a part of the response, because it is not
        well-formed, not UTF-8, or has declarations of its own.
    """
    lines = [write_header(host, header)]
    if document is not None:
        text = _PROLOGUE.sub("", document.decode(), count=1).rstrip()
        _check_part(text)
        lines.append(f"<metadata>{text}</metadata>")
    return _wrap("record", lines)


def _check_part(text: str) -> None:
    """Raise ValueError if a text is no XML document that another document can contain."""

    def refuse(*_: object) -> None:
        raise ValueError("the metadata have declarations, which can't be part of a response")

    parser = ParserCreate(namespace_separator=" ")  # this checks the prefixes of namespaces
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(text, True)
    except ExpatError as error:
        raise ValueError(f"the metadata are not well-formed XML: {error}") from error


def write_list(verb: str, entries: Iterable[str], token: str | None) -> str:
    """Return the answer to ListIdentifiers or ListRecords.

    :param entries: the headers or the records.
    :param token: the token for the next part; "" at the end of a list with several parts; None if
        the list has only one part.
    """
    end = [] if token is None else [element("resumptionToken", token)]
    return _wrap(verb, [*entries, *end])


def _wrap(name: str, lines: Iterable[str], attributes: str = "") -> str:
    return "\n".join([f"<{name}{attributes}>", *lines, f"</{name}>"])
