"""Parsing of the seven requests of actors, and formatting of the answers to them as text.

The text of a record has the lines of [P] 4.7 in their order. Each value follows its name, so that
the text is also a list of pairs::

    documentID sid.inpe.br/md-m09@80/2008/06.04.14.39
        actorID sid.inpe.br/bibdigital@80/2006/04.07.15.50
        originalDocument yes
        documentURL http://host/document documentLastUpdate 2008-07-17T20:22:06Z
        metadataURL http://host/oai metadataLastUpdate 2008-07-17T20:44:57Z metadataFormat mtd2-br
        actorID dpi.inpe.br/banon/2001/01.11.16.21
        documentURL http://other/copy documentLastUpdate 2008-07-18T08:00:00Z

A tab is before each line after the first one. The first actor has the document. The other actors
have copies. As in [P] 4.7, a copy has no originalDocument.

Source: [P] 4.1 to 4.7.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

from flask_ibi_archive.core.protocol.hosts import is_archive_address, is_like_ipv4
from flask_ibi_archive.core.protocol.pairs import encode_word, format_pairs
from flask_ibi_archive.core.protocol.query_strings import REPEATED, decode_query_string
from flask_ibi_archive.core.protocol.registry_2008 import model
from flask_ibi_archive.errors import (
    DocumentRegistryError,
    PeerProtocolError,
)
from flask_ibi_archive.reasons import ask_if_meant

#: The maximum length of the arguments of a request in bytes.
MAX_BODY = 65536
VERB = "verb"
_CREDENTIALS = (model.ACTOR_ID, model.PASSWORD)


@dataclass(frozen=True, slots=True)
class _Verb:
    """A verb with the names of its arguments in the order of [P].

    :param create: the class of the request.
    :param location: the names of the arguments that describe a location.
    """

    create: Callable[..., model.RegistryRequest]
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    location: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.required + self.optional + self.location


_VERBS = {
    "RegisterActor": _Verb(
        model.RegisterActor,
        ("computerName", "ip", "domainName", "port", "eMailAddress", model.PASSWORD),
        (model.ACTOR_ID,),
    ),
    "ChangePassword": _Verb(model.ChangePassword, (*_CREDENTIALS, "newPassword")),
    "ChangeEMailAddress": _Verb(model.ChangeEMailAddress, (*_CREDENTIALS, "newEmailAddress")),
    "RegisterDocument": _Verb(
        model.RegisterDocument, _CREDENTIALS, (model.DOCUMENT_ID, model.ORIGINAL), model.LOCATION
    ),
    "ChangeActor": _Verb(model.ChangeActor, (*_CREDENTIALS, model.DOCUMENT_ID, "newActorID")),
    "DeleteDocumentRegistration": _Verb(
        model.DeleteDocumentRegistration, (*_CREDENTIALS, model.DOCUMENT_ID)
    ),
    "DisplayIDRegistration": _Verb(model.DisplayIDRegistration, (*_CREDENTIALS, model.DOCUMENT_ID)),
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


def find_verb(arguments: model.Arguments) -> str | None:
    """Return the verb of a request, which may be malformed. None if the verb is not known."""
    return next((value for name, value in arguments if name == VERB and value in _VERBS), None)


def list_arguments(verb: str) -> list[tuple[str, bool]]:
    """Return the names of the arguments of a verb, and whether each argument is optional."""
    names = _VERBS[verb]
    return [(name, name not in names.required) for name in names.names]


def parse_registry_request(arguments: model.Arguments) -> model.RegistryRequest:
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


def _parse_request(arguments: model.Arguments) -> model.RegistryRequest:
    name = _parse_verb([value for argument, value in arguments if argument == VERB])
    verb = _VERBS[name]
    given = [(argument, value) for argument, value in arguments if argument != VERB]
    _check_names(name, verb, given)
    values = model.parse_values([pair for pair in given if pair[0] not in verb.location])
    fields = model.name_fields(values)
    if verb.create is model.RegisterActor:
        _check_host(fields["computer_name"], fields["domain_name"])
    else:
        fields["credentials"] = model.Credentials(fields.pop("actor_id"), fields.pop("password"))
    if verb.location:
        fields["location"] = model.parse_location(
            [pair for pair in given if pair[0] in verb.location]
        )
    return verb.create(**fields)


def _parse_verb(values: list[str]) -> str:
    if len(values) > 1:
        raise PeerProtocolError(REPEATED.format(VERB))
    text = values[0] if values else ""
    if text not in _VERBS:
        found = (
            f"verb {text[:80]!a} is unknown{_suggest(text, VERBS)}" if text else "verb is missing"
        )
        raise PeerProtocolError(f"{found}; it must be one of {', '.join(VERBS)}")
    return text


def _check_names(name: str, verb: _Verb, given: model.Arguments) -> None:
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
    return ask_if_meant(next(iter(get_close_matches(text[:80], known, n=1)), None))


def _check_host(computer_name: str, domain_name: str) -> None:
    host = f"{computer_name}.{domain_name}"
    if not is_archive_address(host) or is_like_ipv4(host):
        raise PeerProtocolError(
            f"computerName and domainName: {host[:80]!a} should be a host name, such as "
            "hermes.dpi.inpe.br"
        )


CONFIRMATION, ERROR, RETRY_AFTER = "confirmation", "error", "retryAfter"


@dataclass(frozen=True, slots=True)
class RegisteredActor:
    """The answer to RegisterActor ([P] 4.1)."""

    actor_id: str


@dataclass(frozen=True, slots=True)
class RegisteredDocument:
    """The answer to RegisterDocument ([P] 4.4)."""

    document_id: str


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The answer to ChangePassword, ChangeEMailAddress, ChangeActor and DeleteDocumentRegistration.

    :param text: what was changed, in one line for people.
    Source: [P] 4.2, 4.3, 4.5 and 4.6.
    """

    text: str


RegistryAnswer: TypeAlias = (
    RegisteredActor | RegisteredDocument | Confirmation | model.DocumentRecord
)


def quote_message(text: str) -> str:
    """Return a message for people in one line of printable ASCII.

    Other characters become escapes such as ``\\xe7``. The XML of an answer can hold all characters
    of the result.
    """
    line = " ".join(text.split())
    return re.sub("[^ -~]", lambda found: ascii(found[0])[1:-1], line)


def list_registration_lines(
    registration: model.DocumentRegistration,
) -> list[list[tuple[str, str]]]:
    """Return the arguments of a registration, one list for each line ([P] 4.7)."""
    lines = [[(model.ACTOR_ID, registration.actor_id)]]
    if not registration.is_copy:
        lines.append([(model.ORIGINAL, model.format_value(registration.is_original))])
    return lines + model.format_location(registration.location)


def format_registry_answer(answer: RegistryAnswer | DocumentRegistryError) -> str:
    """Return the text of an answer: ASCII, a list of pairs.

    :returns: a pair ``actorID``, ``documentID``, ``confirmation {text}`` or ``error {code text}``,
        or a record. After an error, the pair ``retryAfter`` may contain a number of seconds.
    Source: [P] 4.1 to 4.7.
    """
    if isinstance(answer, model.DocumentRecord):
        lines = [[(model.DOCUMENT_ID, answer.document_id)]]
        for registration in answer.registrations:
            lines += list_registration_lines(registration)
        return "\n\t".join([_format_line(line) for line in lines]) + "\n"
    return "".join([format_pairs([pair]) + "\n" for pair in _list_pairs(answer)])


def _format_line(arguments: model.Arguments) -> str:
    return " ".join([f"{name} {encode_word(value)}" for name, value in arguments])


def _list_pairs(
    answer: RegisteredActor | RegisteredDocument | Confirmation | DocumentRegistryError,
) -> list[tuple[str, str | Sequence[str]]]:
    match answer:
        case RegisteredActor():
            return [(model.ACTOR_ID, answer.actor_id)]
        case RegisteredDocument():
            return [(model.DOCUMENT_ID, answer.document_id)]
        case Confirmation():
            return [(CONFIRMATION, quote_message(answer.text).split())]
    pairs: list[tuple[str, str | Sequence[str]]] = [
        (ERROR, [answer.code, *quote_message(str(answer)).split()])
    ]
    if answer.retry_after is not None:
        pairs.append((RETRY_AFTER, str(answer.retry_after)))
    return pairs
