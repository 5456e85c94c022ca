"""The requests of actors and the record of a document, as dataclasses and as arguments.

The dataclasses have the default values of optional arguments. After the dataclasses, the table
:data:`ARGUMENTS` names the field of each argument and the parser of its value, and the functions
convert dataclasses to arguments and arguments to values. ``registry_messages.py`` parses and
formats complete messages.

``repr`` never shows a password, because it must not appear in a log.

Source: [P] 4.1 to 4.7.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, TypeAlias

from flask_ibi_archive.core.identifiers import canonical_address, parse_identifier
from flask_ibi_archive.core.protocol.hosts import MAX_PORT, check_url
from flask_ibi_archive.core.protocol.inclusion import MAX_VALUE, is_email
from flask_ibi_archive.core.protocol.languages import parse_language
from flask_ibi_archive.core.protocol.pairs import encode_word
from flask_ibi_archive.core.protocol.query_strings import REPEATED
from flask_ibi_archive.core.protocol.relations import is_format
from flask_ibi_archive.errors import PeerProtocolError

#: The maximum length of a URL in the registry, in characters. A database index contains the URLs.
MAX_URL = 2048


@dataclass(frozen=True, slots=True)
class Credentials:
    """The identifier and the password that an actor sends with each request.

    :param actor_id: the IBI of the actor in canonical case.
    """

    actor_id: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class MetadataLocation:
    """The place of one metadata file of a document.

    :param url: an absolute http or https URL in ASCII.
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

    A location has at least one of the document's URL and the URL of metadata ([P] 4.4, note 3).

    :param url: the URL of the document. None if the actor only has metadata.
    :param updated_at: the date of the last change of the document, in UTC. None without a URL.
    :param metadata: the metadata, in the order of the request.
    :param previous_edition_url: the URL of the previous edition, or None.
    :param next_edition_url: the URL of the next edition, or None.
    """

    url: str | None = None
    updated_at: datetime | None = None
    metadata: tuple[MetadataLocation, ...] = ()
    previous_edition_url: str | None = None
    next_edition_url: str | None = None


# --- the requests --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RegisterActor:
    """A data provider asks for its registration ([P] 4.1).

    :param computer_name: the first part of the host name, such as ``hermes``.
    :param ip: the IP address of the host, as canonical text.
    :param domain_name: the other parts of the host name, such as ``dpi.inpe.br``.
    :param actor_id: the IBI that the actor chose, in canonical case. None: the resolver mints one.
    """

    computer_name: str
    ip: str
    domain_name: str
    port: int
    email: str
    password: str = field(repr=False)
    actor_id: str | None = None

    @property
    def host(self) -> str:
        """The complete host name, in lower case."""
        return f"{self.computer_name}.{self.domain_name}".lower()


@dataclass(frozen=True, slots=True)
class ChangePassword:
    """An actor replaces its password ([P] 4.2)."""

    credentials: Credentials
    new_password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ChangeEMailAddress:
    """An actor replaces its e-mail address ([P] 4.3)."""

    credentials: Credentials
    new_email: str


@dataclass(frozen=True, slots=True)
class RegisterDocument:
    """An actor registers a document, or replaces its earlier registration ([P] 4.4).

    :param document_id: the IBI of the document in canonical case. None: the resolver mints one.
    :param is_original: True if the actor holds the copyright of the document.
    """

    credentials: Credentials
    location: DocumentLocation
    document_id: str | None = None
    is_original: bool = False


@dataclass(frozen=True, slots=True)
class ChangeActor:
    """An actor hands its registration of a document over to another actor ([P] 4.5)."""

    credentials: Credentials
    document_id: str
    new_actor_id: str


@dataclass(frozen=True, slots=True)
class DeleteDocumentRegistration:
    """An actor deletes its registration of a document ([P] 4.6)."""

    credentials: Credentials
    document_id: str


@dataclass(frozen=True, slots=True)
class DisplayIDRegistration:
    """An actor asks for the record of a document ([P] 4.7)."""

    credentials: Credentials
    document_id: str


RegistryRequest: TypeAlias = (
    RegisterActor
    | ChangePassword
    | ChangeEMailAddress
    | RegisterDocument
    | ChangeActor
    | DeleteDocumentRegistration
    | DisplayIDRegistration
)


# --- the record of a document --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DocumentRegistration:
    """The registration of a document by one actor.

    :param is_copy: False if the actor has the document, True if the actor has a copy.
    :param is_original: True if the actor holds the copyright. A copy is never the original.
    """

    actor_id: str
    is_copy: bool
    is_original: bool
    location: DocumentLocation


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """All registrations of one document ([P] 4.7).

    :param registrations: the registration of the document, then the copies in the order of their
        registration.
    """

    document_id: str
    registrations: tuple[DocumentRegistration, ...]


#: Arguments in the order of the request or of the answer.
Arguments = Sequence[tuple[str, str]]

#: The maximum number of metadata in a request.
MAX_METADATA = 100

ACTOR_ID, DOCUMENT_ID, PASSWORD = "actorID", "documentID", "password"
ORIGINAL = "originalDocument"
_METADATA_URL = "metadataURL"

_DOCUMENT = ("documentURL", "documentLastUpdate")
_METADATA = (_METADATA_URL, "metadataLastUpdate", "metadataFormat", "metadataLanguage")
_EDITIONS = ("previousEditionURL", "nextEditionURL")
#: The arguments of a location. Only the arguments of metadata may be repeated.
LOCATION = (*_DOCUMENT, *_METADATA, *_EDITIONS)

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_WORDS = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_DATE = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,][0-9]+)?"
    r"(Z|[+-][0-9]{2}(?::?[0-9]{2})?)"
)


# --- values --------------------------------------------------------------------------------------


def _parse_id(text: str) -> str:
    return parse_identifier(text).text


def _parse_name(text: str) -> str:
    if not _WORDS.fullmatch(text):
        raise ValueError(f"{text[:80]!a} should be a part of a host name, such as dpi.inpe.br")
    return text


def _parse_port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or not 1 <= int(text) <= MAX_PORT:
        raise ValueError(f"{text[:80]!a} should be a number from 1 to {MAX_PORT}")
    return int(text)


def _parse_email(text: str) -> str:
    if not is_email(text):
        raise ValueError(f"{text[:80]!a} should be an e-mail address, such as banon@dpi.inpe.br")
    return text


def _parse_flag(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(f"{text[:80]!a} should be yes or no")
    return text == "yes"


def _parse_url(text: str) -> str:
    """Return an http or https URL in ASCII; the path and the query may be an IRI."""
    check_url(text)
    url = encode_word(text)
    if len(url) > MAX_URL:
        raise ValueError(f"the URL has {len(url)} characters; at most {MAX_URL} are allowed")
    return url


def _parse_date(text: str) -> datetime:
    """Return a date in UTC, without the fraction of the second."""
    if found := _DATE.fullmatch(text):
        offset = found[2] + "00" if len(found[2]) == 3 else found[2]
        try:
            local = datetime.strptime(found[1] + offset, "%Y-%m-%dT%H:%M:%S%z")
            date = local.astimezone(timezone.utc)
        except (ValueError, OverflowError):
            pass
        else:
            if 1000 <= date.year < 9999:  # A database cannot show other years in every time zone.
                return date
    # a "+" that is not encoded arrives as a space
    advice = (
        '; encode "+" as %2B' if " " in text and _DATE.fullmatch(text.replace(" ", "+")) else ""
    )
    raise ValueError(
        f"{text[:80]!a} should be a date with a time and an offset, such as "
        f"2008-07-17T17:22:06-03:00 or 2008-07-17T20:22:06Z{advice}"
    )


def _parse_format(text: str) -> str:
    if not is_format(text):
        raise ValueError(
            f'{text[:80]!a} should be a format: letters, digits, "_" and "-", as in oai_dc'
        )
    return text


#: The field of each argument, and the parser of its value.
ARGUMENTS: dict[str, tuple[str, Callable[[str], Any]]] = {
    ACTOR_ID: ("actor_id", _parse_id),
    PASSWORD: ("password", str),
    "computerName": ("computer_name", _parse_name),
    "ip": ("ip", canonical_address),
    "domainName": ("domain_name", _parse_name),
    "port": ("port", _parse_port),
    "eMailAddress": ("email", _parse_email),
    "newPassword": ("new_password", str),
    "newEmailAddress": ("new_email", _parse_email),
    DOCUMENT_ID: ("document_id", _parse_id),
    ORIGINAL: ("is_original", _parse_flag),
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


def _parse_value(name: str, text: str) -> Any:
    """Return the value of an argument.

    :raises PeerProtocolError: if the value is wrong. The message does not show a password.
    """
    _, parse = ARGUMENTS[name]
    if _CONTROL.search(text):
        raise PeerProtocolError(
            f"{name}: the value contains a control character or is not Unicode text"
        )
    if len(text) > MAX_VALUE and parse is not _parse_url:
        raise PeerProtocolError(
            f"{name}: the value has {len(text)} characters; at most {MAX_VALUE} are allowed"
        )
    try:
        return parse(text)
    except ValueError as error:
        raise PeerProtocolError(f"{name}: {error}") from None


def parse_values(arguments: Arguments) -> dict[str, Any]:
    """Return the value of each argument.

    :param arguments: arguments with known names.
    :raises PeerProtocolError: if an argument is repeated or a value is wrong.
    """
    for name, count in Counter(name for name, _ in arguments).items():
        if count > 1:
            raise PeerProtocolError(REPEATED.format(name))
    return {name: _parse_value(name, text) for name, text in arguments}


def name_fields(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of arguments, by the name of their fields."""
    return {ARGUMENTS[name][0]: value for name, value in values.items()}


def format_fields(record: object, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the given arguments with their values in an object, but no arguments with None."""
    values = [(name, getattr(record, ARGUMENTS[name][0])) for name in names]
    return [(name, format_value(value)) for name, value in values if value is not None]


def format_value(value: Any) -> str:
    """Return the text of the value of an argument."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    return str(value)


# --- locations -----------------------------------------------------------------------------------


def parse_location(arguments: Arguments) -> DocumentLocation:
    """Parse the arguments of a location.

    :param arguments: arguments with names from :data:`LOCATION`. The order of the arguments of
        metadata is important: the arguments after a metadataURL belong to this URL.
    :raises PeerProtocolError: if an argument is missing, repeated or wrong.
    Source: [P] 4.4, notes 3 and 5.
    """
    groups: list[list[tuple[str, str]]] = []
    others: list[tuple[str, str]] = []
    for name, text in arguments:
        if name == _METADATA_URL:
            groups.append([])
        elif name in _METADATA and not groups:
            raise PeerProtocolError(f"{name} must follow the metadataURL to which it belongs")
        (groups[-1] if name in _METADATA else others).append((name, text))
    if len(groups) > MAX_METADATA:
        raise PeerProtocolError(
            f"metadataURL appears {len(groups)} times; at most {MAX_METADATA} are allowed"
        )
    values = parse_values(others)
    if "documentURL" in values:
        _require_date("documentLastUpdate", "documentURL", values)
    elif "documentLastUpdate" in values:
        raise PeerProtocolError(
            "documentLastUpdate is the date of the documentURL, which is missing"
        )
    elif not groups:
        raise PeerProtocolError("documentURL and metadataURL are missing; one of them is required")
    metadata = [_parse_metadata(number, group) for number, group in enumerate(groups, start=1)]
    return DocumentLocation(metadata=tuple(metadata), **name_fields(values))


def _parse_metadata(number: int, arguments: Arguments) -> MetadataLocation:
    try:
        values = parse_values(arguments)
        _require_date("metadataLastUpdate", _METADATA_URL, values)
    except PeerProtocolError as error:
        raise PeerProtocolError(f"metadata {number}: {error}") from None
    return MetadataLocation(**name_fields(values))


def _require_date(name: str, url: str, values: dict[str, Any]) -> None:
    if name not in values:
        raise PeerProtocolError(f"{name} is missing; it is required with {url}")


def format_location(location: DocumentLocation) -> list[list[tuple[str, str]]]:
    """Return the arguments of a location, one list for each line of a record ([P] 4.7)."""
    lines = [format_fields(location, _DOCUMENT)]
    lines += [format_fields(metadata, _METADATA) for metadata in location.metadata]
    lines += [format_fields(location, [name]) for name in _EDITIONS]
    return [line for line in lines if line]
