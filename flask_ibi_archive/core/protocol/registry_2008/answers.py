"""The answers of a resolver to actors, as text: formatting and parsing.

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
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from flask_ibi_archive.core.protocol.pairs import Pair, encode_word, format_pairs, parse_pairs
from flask_ibi_archive.core.protocol.registry_2008.arguments import (
    ACTOR_ID,
    DOCUMENT_ID,
    LOCATION,
    ORIGINAL,
    Arguments,
    format_location,
    format_value,
    parse_location,
    parse_values,
)
from flask_ibi_archive.core.protocol.registry_2008.model import DocumentRecord, DocumentRegistration
from flask_ibi_archive.errors import BadParameter, DocumentRegistryError, PeerProtocolError

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


RegistryAnswer: TypeAlias = RegisteredActor | RegisteredDocument | Confirmation | DocumentRecord


def quote_message(text: str) -> str:
    """Return a message for people in one line of printable ASCII.

    Other characters become escapes such as ``\\xe7``. The XML of an answer can hold all characters
    of the result.
    """
    line = " ".join(text.split())
    return re.sub("[^ -~]", lambda found: ascii(found[0])[1:-1], line)


def list_registration_lines(registration: DocumentRegistration) -> list[list[tuple[str, str]]]:
    """Return the arguments of a registration, one list for each line ([P] 4.7)."""
    lines = [[(ACTOR_ID, registration.actor_id)]]
    if not registration.is_copy:
        lines.append([(ORIGINAL, format_value(registration.is_original))])
    return lines + format_location(registration.location)


def format_registry_answer(answer: RegistryAnswer | DocumentRegistryError) -> str:
    """Return the text of an answer: ASCII, a list of pairs.

    :returns: a pair ``actorID``, ``documentID``, ``confirmation {text}`` or ``error {code text}``,
        or a record. After an error, the pair ``retryAfter`` may contain a number of seconds.
    Source: [P] 4.1 to 4.7.
    """
    if isinstance(answer, DocumentRecord):
        lines = [[(DOCUMENT_ID, answer.document_id)]]
        for registration in answer.registrations:
            lines += list_registration_lines(registration)
        return "\n\t".join([_format_line(line) for line in lines]) + "\n"
    return "".join([format_pairs([pair]) + "\n" for pair in _list_pairs(answer)])


def _format_line(arguments: Arguments) -> str:
    return " ".join([f"{name} {encode_word(value)}" for name, value in arguments])


def _list_pairs(
    answer: RegisteredActor | RegisteredDocument | Confirmation | DocumentRegistryError,
) -> list[tuple[str, str | Sequence[str]]]:
    match answer:
        case RegisteredActor():
            return [(ACTOR_ID, answer.actor_id)]
        case RegisteredDocument():
            return [(DOCUMENT_ID, answer.document_id)]
        case Confirmation():
            return [(CONFIRMATION, quote_message(answer.text).split())]
    pairs: list[tuple[str, str | Sequence[str]]] = [
        (ERROR, [answer.code, *quote_message(str(answer)).split()])
    ]
    if answer.retry_after is not None:
        pairs.append((RETRY_AFTER, str(answer.retry_after)))
    return pairs


def parse_registry_answer(text: str | bytes) -> RegistryAnswer:
    """Parse the text of an answer.

    :raises DocumentRegistryError: if the resolver refused the request.
    :raises PeerProtocolError: if the text is not an answer.
    """
    pairs = parse_pairs(text)
    names = [pair.name for pair in pairs]
    if names and names[0] == ERROR:
        raise _parse_error(pairs)
    if names == [CONFIRMATION]:
        return Confirmation(pairs[0].text)
    arguments = [(pair.name, pair.text) for pair in pairs]
    if names == [ACTOR_ID]:
        return RegisteredActor(parse_values(arguments)[ACTOR_ID])
    if names and names[0] == DOCUMENT_ID:
        document_id = parse_values(arguments[:1])[DOCUMENT_ID]
        if len(names) == 1:
            return RegisteredDocument(document_id)
        return DocumentRecord(document_id, _parse_registrations(arguments[1:]))
    raise PeerProtocolError(
        "the text is not an answer of the registry; it must begin with actorID, documentID, "
        "confirmation or error"
    )


def _parse_error(pairs: Sequence[Pair]) -> DocumentRegistryError:
    code, *words = pairs[0].words or ("",)
    if code not in DocumentRegistryError.STATUSES:
        raise BadParameter(ERROR, f"{code[:80]!a} is not the code of an error")
    retry_after = None
    for pair in pairs[1:]:
        if pair.name != RETRY_AFTER or not re.fullmatch("[0-9]{1,9}", pair.text):
            raise BadParameter(pair.name, "it should be retryAfter with a number of seconds")
        retry_after = int(pair.text)
    return DocumentRegistryError(code, " ".join(words), retry_after)


def _parse_registrations(arguments: Arguments) -> tuple[DocumentRegistration, ...]:
    groups: list[list[tuple[str, str]]] = []
    for name, value in arguments:
        if name == ACTOR_ID:
            groups.append([])
        elif name not in (ORIGINAL, *LOCATION):
            raise PeerProtocolError(f"{name[:80]!a} is not a part of a record")
        if not groups:
            raise PeerProtocolError(f"{name} is before the actorID to which it belongs")
        groups[-1].append((name, value))
    return tuple([_parse_registration(group) for group in groups])


def _parse_registration(arguments: Arguments) -> DocumentRegistration:
    values = parse_values([pair for pair in arguments if pair[0] not in LOCATION])
    return DocumentRegistration(
        actor_id=values[ACTOR_ID],
        is_copy=ORIGINAL not in values,
        is_original=values.get(ORIGINAL, False),
        location=parse_location([pair for pair in arguments if pair[0] in LOCATION]),
    )
