"""Parsing and formatting of the seven requests of actors.

Source: [P] 4.1 to 4.7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from flask_ibi_archive.core.protocol.hosts import is_archive_address, is_like_ipv4
from flask_ibi_archive.core.protocol.query import decode_query_string
from flask_ibi_archive.core.protocol.registry_2008.arguments import (
    ACTOR_ID,
    DOCUMENT_ID,
    FIELDS,
    LOCATION,
    ORIGINAL,
    PASSWORD,
    Arguments,
    format_location,
    format_value,
    parse_location,
    parse_values,
)
from flask_ibi_archive.core.protocol.registry_2008.model import (
    ChangeActor,
    ChangeEMailAddress,
    ChangePassword,
    Credentials,
    DeleteDocumentRegistration,
    DisplayIDRegistration,
    RegisterActor,
    RegisterDocument,
    RegistryRequest,
)
from flask_ibi_archive.errors import DocumentRegistryError, PeerProtocolError, RepeatedParameter

#: The maximum length of the arguments of a request in bytes.
MAX_BODY = 65536
VERB = "verb"
_CREDENTIALS = (ACTOR_ID, PASSWORD)


@dataclass(frozen=True, slots=True)
class _Verb:
    """A verb with the names of its arguments in the order of [P].

    :param create: the class of the request.
    :param location: the names of the arguments that describe a location.
    """

    create: Callable[..., RegistryRequest]
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    location: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.required + self.optional + self.location


_VERBS = {
    "RegisterActor": _Verb(
        RegisterActor,
        ("computerName", "ip", "domainName", "port", "eMailAddress", PASSWORD),
        (ACTOR_ID,),
    ),
    "ChangePassword": _Verb(ChangePassword, (*_CREDENTIALS, "newPassword")),
    "ChangeEMailAddress": _Verb(ChangeEMailAddress, (*_CREDENTIALS, "newEmailAddress")),
    "RegisterDocument": _Verb(RegisterDocument, _CREDENTIALS, (DOCUMENT_ID, ORIGINAL), LOCATION),
    "ChangeActor": _Verb(ChangeActor, (*_CREDENTIALS, DOCUMENT_ID, "newActorID")),
    "DeleteDocumentRegistration": _Verb(DeleteDocumentRegistration, (*_CREDENTIALS, DOCUMENT_ID)),
    "DisplayIDRegistration": _Verb(DisplayIDRegistration, (*_CREDENTIALS, DOCUMENT_ID)),
}
#: The seven verbs in the order of [P].
VERBS = tuple(_VERBS)


def decode_arguments(raw: bytes) -> list[tuple[str, str]]:
    """Decode the query of a URL or the body of a POST request.

    :param raw: the bytes in the format ``application/x-www-form-urlencoded``.
    :returns: the names and values in the order of the request.
    :raises DocumentRegistryError: "malformed" if the bytes are longer than :data:`MAX_BODY` or are
        not UTF-8.
    """
    if len(raw) > MAX_BODY:
        raise DocumentRegistryError(
            "malformed", f"the request has {len(raw)} bytes; at most {MAX_BODY} are allowed"
        )
    arguments = decode_query_string(raw)
    for name, value in arguments:
        try:
            f"{name}{value}".encode()
        except UnicodeEncodeError:
            raise DocumentRegistryError(
                "malformed", f"the argument {name[:80]!a} is not UTF-8; it must be UTF-8 text"
            ) from None
    return arguments


def find_verb(arguments: Arguments) -> str | None:
    """Return the verb of a request, which may be malformed. None if the verb is not known."""
    return next((value for name, value in arguments if name == VERB and value in _VERBS), None)


def list_arguments(verb: str) -> list[tuple[str, bool]]:
    """Return the names of the arguments of a verb, and whether each argument is optional."""
    names = _VERBS[verb]
    return [(name, name not in names.required) for name in names.names]


def parse_registry_request(arguments: Arguments) -> RegistryRequest:
    """Parse a request.

    :param arguments: the decoded names and values in the order of the request. Arguments after a
        metadataURL belong to this URL.
    :returns: the request. Identifiers and the IP address are canonical, dates are in UTC without a
        fraction of a second, and URLs are in ASCII.
    :raises DocumentRegistryError: "malformed" if the request is wrong. The message contains the
        name of the wrong argument, and does not show a password.
    Source: [P] 4.1 to 4.7.
    """
    try:
        return _parse_request(arguments)
    except PeerProtocolError as error:
        raise DocumentRegistryError("malformed", str(error)) from None


def _parse_request(arguments: Arguments) -> RegistryRequest:
    name = _parse_verb([value for argument, value in arguments if argument == VERB])
    verb = _VERBS[name]
    given = [(argument, value) for argument, value in arguments if argument != VERB]
    _check_names(name, verb, given)
    values = parse_values([pair for pair in given if pair[0] not in verb.location])
    fields = {FIELDS[argument]: value for argument, value in values.items()}
    if verb.create is RegisterActor:
        _check_host(fields["computer_name"], fields["domain_name"])
    else:
        credentials = [fields.pop(FIELDS[argument]) for argument in _CREDENTIALS]
        fields["credentials"] = Credentials(*credentials)
    if verb.location:
        fields["location"] = parse_location([pair for pair in given if pair[0] in verb.location])
    return verb.create(**fields)


def _parse_verb(values: list[str]) -> str:
    if len(values) > 1:
        raise RepeatedParameter(VERB)
    text = values[0] if values else ""
    if text not in _VERBS:
        found = (
            f"verb {text[:80]!a} is unknown{_suggest(text, VERBS)}" if text else "verb is missing"
        )
        raise PeerProtocolError(f"{found}; it must be one of {', '.join(VERBS)}")
    return text


def _check_names(name: str, verb: _Verb, given: Arguments) -> None:
    """Check that all required arguments and only known arguments are given, with a value.

    :raises PeerProtocolError: if an argument is unknown, empty, missing or repeated.
    """
    names = verb.names
    counts = Counter([argument for argument, _ in given])
    for argument, value in given:
        if argument not in names:
            raise PeerProtocolError(
                f"{argument[:80]!a} is not an argument of {name}{_suggest(argument, names)}; the "
                f"arguments are {', '.join(names)}"
            )
        if not value:
            advice = "" if argument in verb.required else ", or omit the argument"
            raise PeerProtocolError(f"{argument} is empty; enter a value{advice}")
    for argument in verb.required:
        if not counts[argument]:
            raise PeerProtocolError(
                f"{argument} is missing; {name} requires {', '.join(verb.required)}"
            )


def _suggest(text: str, known: tuple[str, ...]) -> str:
    similar = get_close_matches(text[:80], known, n=1)
    return f"; did you mean {similar[0]}?" if similar else ""


def _check_host(computer_name: str, domain_name: str) -> None:
    host = f"{computer_name}.{domain_name}"
    if not is_archive_address(host) or is_like_ipv4(host):
        raise PeerProtocolError(
            f"computerName and domainName: {host[:80]!a} should be a host name, such as "
            "hermes.dpi.inpe.br"
        )


def format_registry_request(request: RegistryRequest) -> list[tuple[str, str]]:
    """Return the arguments of a request, in the order of [P].

    :returns: names and values, not encoded. One of the values is the password.
    Source: [P] 4.1 to 4.7.
    """
    name = type(request).__name__
    verb = _VERBS[name]
    arguments = [(VERB, name)]
    for argument in verb.required + verb.optional:
        value = _get_field(request, FIELDS[argument])
        if value is not None:
            arguments.append((argument, format_value(value)))
    if isinstance(request, RegisterDocument):
        for line in format_location(request.location):
            arguments += line
    return arguments


def _get_field(request: RegistryRequest, field: str) -> Any:
    if isinstance(request, RegisterActor) or hasattr(request, field):
        return getattr(request, field)
    return getattr(request.credentials, field)
