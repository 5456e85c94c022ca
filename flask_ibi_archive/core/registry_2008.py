"""The messages of the registry protocol of 2008: requests of actors, and answers in XML.

Before Archives existed, data providers ("actors") told the resolver where their documents are. The
actor that registers a document first has the *document*. All later actors have *copies*.

A request is a verb with arguments, in the query of a URL or in the body of a POST request. No
function here shows a password in a message.

Source: [P] 4.1 to 4.7.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime, timezone
from typing import Any, NamedTuple
from xml.etree import ElementTree

from flask_ibi_archive.core.identifiers.grammar import canonical_address
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol import hosts
from flask_ibi_archive.core.protocol.catalogue_items import is_format
from flask_ibi_archive.core.protocol.inclusion import create_parser, is_email
from flask_ibi_archive.core.protocol.languages import parse_language
from flask_ibi_archive.core.protocol.pairs import encode_word
from flask_ibi_archive.errors import IBIError

#: The verbs with their arguments, in the order of [P]. "?" marks optional arguments.
VERBS = {
    "RegisterActor": "computerName ip domainName port eMailAddress password actorID?",
    "ChangePassword": "actorID password newPassword",
    "ChangeEMailAddress": "actorID password newEmailAddress",
    "RegisterDocument": "actorID password documentID? originalDocument? documentURL? "
    "documentLastUpdate? metadataURL? metadataLastUpdate? metadataFormat? metadataLanguage? "
    "previousEditionURL? nextEditionURL?",
    "ChangeActor": "actorID password documentID newActorID",
    "DeleteDocumentRegistration": "actorID password documentID",
    "DisplayIDRegistration": "actorID password documentID",
}
#: The maximum number of characters of a URL, and of another value.
MAX_URL, MAX_VALUE = 8192, 255

_METADATA_URL = "metadataURL"
_METADATA = (_METADATA_URL, "metadataLastUpdate", "metadataFormat", "metadataLanguage")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_FRACTION = re.compile(r"(?<=:[0-9]{2})[.,][0-9]+")
#: An offset without minutes, which strptime does not know.
_HOURS = re.compile(r"(?<=:[0-9]{2})[+-][0-9]{2}\Z")
_DATE_FORMAT = "%Y-%m-%dT%H:%M:%S%z"


class DocumentRegistryError(IBIError):
    """A request of the registry protocol of 2008 is refused, and nothing was changed.

    :param status: the HTTP status of the response.

    Source: [P] 4.1 to 4.7.
    """

    def __init__(self, message: str, status: int = 400) -> None:
        self.status = status
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class MetadataLocation:
    """The place of one metadata file of a document.

    :param updated_at: the date of the last change, in UTC.
    :param format: the name of the format, such as ``oai_dc``. None if unknown.
    :param language: the language, ``xx`` or ``xx-YY``. None if unknown.
    """

    url: str
    updated_at: datetime
    format: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentLocation:
    """The places where an actor has a document, its metadata and its other editions.

    A location contains the URL of the document, the URL of metadata, or both ([P] 4.4, note 3).

    :param updated_at: the date of the last change of the document, in UTC. None if ``url`` is None.
    :param metadata: the metadata, in the order of the request.
    """

    url: str | None = None
    updated_at: datetime | None = None
    metadata: tuple[MetadataLocation, ...] = ()
    previous_edition_url: str | None = None
    next_edition_url: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentRegistration:
    """The registration of a document by one actor.

    :param address: the host name and port of the actor.
    :param is_copy: False if the actor has the document, True if the actor has a copy.
    :param is_original: True if the actor holds the copyright. A copy is never the original.
    """

    actor_id: str
    address: str
    is_copy: bool
    is_original: bool
    location: DocumentLocation


class RegistryAnswer(NamedTuple):
    """An answer: one XML element with its text, and the full record of a document, if requested.

    :param element: ``actorID``, ``documentID``, ``confirmation`` or ``error``.
    :param record: the registration of the document, then those of the copies, the oldest first.
    """

    element: str
    text: str
    record: Sequence[DocumentRegistration] = ()


# --- values --------------------------------------------------------------------------------------


def _parse_url(text: str) -> str:
    """Check an http or https URL, and percent-encode all characters that are not ASCII.

    Such characters are allowed only after the host.
    """
    hosts.check_url(text)
    return encode_word(text)


def _parse_date(text: str) -> datetime:
    """Parse a date, and return it in UTC, without the fraction of the second."""
    try:
        without_fraction = _FRACTION.sub("", text, count=1)
        local = datetime.strptime(_HOURS.sub(r"\g<0>00", without_fraction), _DATE_FORMAT)
        date = local.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        date = datetime.min
    if not 1000 <= date.year < 9999:  # a database cannot show other years in every time zone
        raise ValueError(
            f"{text[:80]!a} should be a date with a time and an offset, such as "
            "2008-07-17T17:22:06-03:00"
        )
    return date


def _parse_id(text: str) -> str:
    return parse_identifier(text).text


_parse_port = create_parser(
    lambda text: re.fullmatch("[0-9]{1,5}", text) and 1 <= int(text) <= hosts.MAX_PORT,
    f"a number from 1 to {hosts.MAX_PORT}",
    int,
)
_parse_email = create_parser(is_email, "an e-mail address, such as banon@dpi.inpe.br")
_parse_format = create_parser(is_format, 'a format: letters, digits, "_" and "-", as in oai_dc')

#: The name of the parameter of each argument, and the parser of its value.
_ARGUMENTS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "actorID": ("actor_id", _parse_id),
    "password": ("password", str),
    "computerName": ("computer_name", str),
    "ip": ("ip", canonical_address),
    "domainName": ("domain_name", str),
    "port": ("port", _parse_port),
    "eMailAddress": ("email", _parse_email),
    "newPassword": ("new_password", str),
    "newEmailAddress": ("new_email", _parse_email),
    "documentID": ("document_id", _parse_id),
    "originalDocument": (
        "is_original",
        create_parser(("yes", "no").__contains__, "yes or no", "yes".__eq__),
    ),
    "newActorID": ("new_actor_id", _parse_id),
    "documentURL": ("url", _parse_url),
    "documentLastUpdate": ("updated_at", _parse_date),
    _METADATA_URL: ("url", _parse_url),
    "metadataLastUpdate": ("updated_at", _parse_date),
    "metadataFormat": ("format", _parse_format),
    "metadataLanguage": ("language", parse_language),
    "previousEditionURL": ("previous_edition_url", _parse_url),
    "nextEditionURL": ("next_edition_url", _parse_url),
}


# --- requests ------------------------------------------------------------------------------------


def parse_registry_request(arguments: Sequence[tuple[str, str]]) -> tuple[str, dict[str, Any]]:
    """Parse a request; return the verb, and the values of the arguments by parameter.

    The parameters are those of the operations in resolver/registry_2008/operations.py. The
    parameter ``location`` of RegisterDocument is a :class:`DocumentLocation`.

    :param arguments: the decoded names and values in the order of the request. Arguments after a
        metadataURL belong to this URL. Empty values, which forms send, count as missing.
    :raises DocumentRegistryError: if the request is wrong. The message names the wrong argument.
    """
    given = [(name, text) for name, text in arguments if text]
    verbs = [text for name, text in given if name == "verb"]
    if len(verbs) != 1 or verbs[0] not in VERBS:
        raise DocumentRegistryError(f"verb must be one of {', '.join(VERBS)}")
    verb, names = verbs[0], VERBS[verbs[0]].split()
    values: dict[str, Any] = {}
    metadata: list[dict[str, Any]] = []
    for name, text in given:
        if name == "verb":
            continue
        if name not in names and f"{name}?" not in names:
            raise DocumentRegistryError(
                f"{name[:80]!a} is not an argument of {verb}; the arguments are {' '.join(names)}"
            )
        if name == _METADATA_URL:
            metadata.append({})
        elif name.startswith("metadata") and not metadata:
            raise DocumentRegistryError(f"{name} must follow the metadataURL to which it belongs")
        group = metadata[-1] if name.startswith("metadata") else values
        parameter = _ARGUMENTS[name][0]
        if parameter in group:
            raise DocumentRegistryError(f"{name} appears more than once; it must appear once")
        group[parameter] = _parse_value(name, text)
    missing = [name for name in names if name[-1] != "?" and _ARGUMENTS[name][0] not in values]
    if missing:
        raise DocumentRegistryError(f"{missing[0]} is missing; {verb} requires it")
    if verb == "RegisterActor":
        _check_host(f"{values['computer_name']}.{values['domain_name']}")
    if verb == "RegisterDocument":
        values["location"] = _build_location(values, metadata)
    return verb, values


def _parse_value(name: str, text: str) -> Any:
    limit = MAX_URL if name.endswith("URL") else MAX_VALUE
    try:
        if _CONTROL.search(text):
            raise ValueError("the value contains a control character or is not UTF-8")
        if len(text) > limit:
            raise ValueError(f"the value has {len(text)} characters; at most {limit} are allowed")
        return _ARGUMENTS[name][1](text)
    except ValueError as error:
        raise DocumentRegistryError(f"{name}: {error}") from None


def _check_host(host: str) -> None:
    if not hosts.is_host(host) or hosts.is_like_ipv4(host):
        raise DocumentRegistryError(
            f"computerName and domainName: {host[:80]!a} should be a host name, such as "
            "hermes.dpi.inpe.br"
        )


def _build_location(values: dict[str, Any], metadata: list[dict[str, Any]]) -> DocumentLocation:
    """Build the location of the document in a RegisterDocument request.

    :param values: the values of the request by parameter. Those that the location contains are
        removed from this dictionary.
    :param metadata: the values for each metadataURL.
    """
    names = ("url", "updated_at", "previous_edition_url", "next_edition_url")
    parts = {name: values.pop(name, None) for name in names}
    if (parts["url"] is None) != (parts["updated_at"] is None):
        raise DocumentRegistryError("documentURL and documentLastUpdate must be sent together")
    if any("updated_at" not in group for group in metadata):
        raise DocumentRegistryError("metadataLastUpdate is missing; each metadataURL requires it")
    if parts["url"] is None and not metadata:
        raise DocumentRegistryError(
            "documentURL and metadataURL are missing; one of them is required"
        )
    return DocumentLocation(**parts, metadata=tuple([MetadataLocation(**one) for one in metadata]))


# --- answers -------------------------------------------------------------------------------------


def format_registry_answer(answer: RegistryAnswer) -> bytes:
    """Return the XML document of an answer, in UTF-8.

    For a record, the lines of each registration are in the order of [P] 4.7. As in [P] 4.7, a copy
    has no line originalDocument.
    """
    root = ElementTree.Element("registry")
    _add(root, **{answer.element: answer.text})
    for registration in answer.record:
        location, is_original = registration.location, registration.is_original
        element = ElementTree.SubElement(root, "registration")
        flag = None if registration.is_copy else "yes" if is_original else "no"
        _add(element, actorID=registration.actor_id, originalDocument=flag)
        _add(element, documentURL=location.url, documentLastUpdate=location.updated_at)
        for metadata in location.metadata:
            values = zip(_METADATA, astuple(metadata), strict=True)
            _add(ElementTree.SubElement(element, "metadata"), **dict(values))
        previous, following = location.previous_edition_url, location.next_edition_url
        _add(element, previousEditionURL=previous, nextEditionURL=following)
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, "utf-8", xml_declaration=True)
    return document + b"\n"


def _add(parent: ElementTree.Element, **values: str | datetime | None) -> None:
    """Add an element for each value that is not None."""
    for name, value in values.items():
        if value is not None:
            if isinstance(value, datetime):
                value = f"{value:%Y-%m-%dT%H:%M:%SZ}"
            ElementTree.SubElement(parent, name).text = value
