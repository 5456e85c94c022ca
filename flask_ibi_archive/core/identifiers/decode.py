"""Decoding: reads the address, the port and the date from the text of an identifier."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from flask_ibi_archive.core.identifiers.dates import get_posix_seconds, join_seconds
from flask_ibi_archive.core.identifiers.ibip import decode_ibip_prefix, decode_ibip_suffix
from flask_ibi_archive.core.identifiers.identifier import Form, Identifier, match_identifier
from flask_ibi_archive.core.identifiers.repository import DEFAULT_PORT
from flask_ibi_archive.errors import IdentifierError, RefusedText
from flask_ibi_archive.reasons import Reason


@dataclass(frozen=True, slots=True)
class Decoded:
    """The decoded content of an identifier.

    An attribute is None if identifiers of this form do not contain the value.

    :param form: the form of the identifier.
    :param host: the domain name (repository name only).
    :param ip: the canonical text of the IP address (IBIp only).
    :param port: 1 to 65535; 80 (repository name) or 800 (IBIp) if the prefix contains no port.
    :param date: the date of the assignment in exact POSIX seconds (UTC).
    """

    form: Form
    host: str | None = None
    ip: str | None = None
    port: int | None = None
    date: Fraction | None = None


def decode_identifier(identifier: Identifier) -> Decoded:
    """Return the address, port and date that an identifier contains.

    The identifier contains the address and the port of the server at the time of the assignment.
    The function does not query the DNS.

    :returns: for rep, the host, the port and the date. For ibip, the IP address, the port and the
        date. For legacy, the form only.
    :raises IdentifierError: if the first part does not contain an address and a port, or if the
        second part does not contain a date.

    Source: [G] 5, functions c and f; 6, Algorithms 1 and 2; 7, on Algorithms 5 and 6.
    """
    if match_identifier(identifier.text) != identifier:
        raise IdentifierError(identifier.text, Reason("not_canonical", form=identifier.form))
    if identifier.form is Form.LEGACY:
        return Decoded(Form.LEGACY)
    if identifier.form is Form.IBIP:
        return _decode_ibip(identifier)
    return _decode_repository_name(identifier)


def _decode_ibip(identifier: Identifier) -> Decoded:
    try:
        ip, port = decode_ibip_prefix(identifier.prefix)
    except RefusedText as error:
        reason = Reason("no_address_and_port", problem=error.reason)
        raise IdentifierError(identifier.text, reason) from error
    try:
        date = decode_ibip_suffix(identifier.suffix)
    except RefusedText as error:
        reason = Reason("no_date", problem=error.reason)
        raise IdentifierError(identifier.text, reason) from error
    return Decoded(Form.IBIP, ip=ip, port=port, date=date)


def _decode_repository_name(identifier: Identifier) -> Decoded:
    subdomain, word, year, rest = identifier.text.split("/")
    word, _, digits = word.replace("@", ".").partition(".")
    port = int(digits) if digits else DEFAULT_PORT
    if not 1 <= port <= 65535:
        raise IdentifierError(identifier.text, Reason("port_range", port=digits[:20]))
    month, day, hour, minute, *seconds = rest.split(".")
    second = int(seconds[0]) if seconds else 0
    fraction = seconds[1] if len(seconds) == 2 else ""
    moment = datetime(int(year), int(month), int(day), int(hour), int(minute), second)
    date = join_seconds(get_posix_seconds(moment), fraction)
    return Decoded(Form.REP, host=f"{word}.{subdomain}", port=port, date=date)
