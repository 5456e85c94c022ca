"""Inclusion and exclusion of an Archive: the requests, the resolver's answers, the e-mail before
them.

Source: [R] 5.1, Example 5.1; 5.2, Table 5.2, Examples 5.2 and 5.3.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from flask_ibi_archive.errors import (
    BadParameter,
    LocalProtocolError,
    MissingParameter,
    PeerProtocolError,
    RepeatedParameter,
    UnknownSubject,
)
from flask_ibi_archive.identifiers import Identifier, canonical_address, parse_identifier
from flask_ibi_archive.protocol.hosts import is_archive_address
from flask_ibi_archive.protocol.pairs import format_pairs, parse_pairs
from flask_ibi_archive.protocol.query import SERVICE_SUBJECT, format_query_string
from flask_ibi_archive.protocol.registration import is_key, parse_key

INCLUSION_REQUEST = "inclusionRequest"
EXCLUSION_REQUEST = "exclusionRequest"
INCLUSION_CONFIRMATION_REQUEST = "inclusionConfirmationRequest"
#: The answer to an inclusionConfirmationRequest.
CONFIRMATION = "confirmation yes"

#: The only protocol that there is ([R] Table 5.2).
HTTP = "HTTP"
REGISTRATION_KEY = "registrationkey"

ARCHIVE_STATUS = "status.archive"
CONFIRMATION_STATUS = "status.confirmation"
#: What either request makes of an Archive.
RESULTS = {INCLUSION_REQUEST: "included", EXCLUSION_REQUEST: "excluded"}
CONFIRMATIONS = ("successful", "unsuccessful")

#: The pairs besides the subject, in the order of the examples ([R] Table 5.2).
ADDRESS, SERVICE_IBI, IP = "archiveaddress", "archiveserviceibi", "archiveip"
PROTOCOL, PLATFORM_VERSION = "archiveprotocol", "archiveplatformversion"
ADMIN_EMAIL = "archiveadmemailaddress"
#: Characters of a value that is written down.
MAX_VALUE = 255
_PRINTABLE = re.compile("[ -~]+")
_EMAIL = re.compile("[!-?A-~]+@[!-?A-~]+")

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class InclusionConfirmationRequest:
    """The confirmation call of the resolver: does the Archive want to be included?

    Source: [R] 5.2, Example 5.4.
    """


@dataclass(frozen=True, slots=True)
class RegistrationRequest:
    """An inclusionRequest or exclusionRequest.

    :param subject: which of the two.
    :param address: archiveaddress, host [":" port].
    :param service_ibi: the IBI of the Archive's service.
    :param ip: its IPv4 or IPv6 address.
    :param platform_version: ASCII.
    :param admin_email: user@host.
    :param key: the registration key; no repr and no message shows it.
    :raises LocalProtocolError: if one of them is not what [R] Table 5.2 wants.
    Source: [R] 5.2, Table 5.2.
    """

    subject: str
    address: str
    service_ibi: Identifier
    ip: str
    platform_version: str
    admin_email: str
    key: str = field(repr=False)

    def __post_init__(self) -> None:
        if self.subject not in RESULTS:
            raise LocalProtocolError(
                f"{SERVICE_SUBJECT}: {self.subject!r} is none of {', '.join(RESULTS)}"
            )
        if not self.address:
            raise LocalProtocolError("archiveaddress: it is empty")
        try:
            canonical_address(self.ip)
        except ValueError as error:
            raise LocalProtocolError(f"archiveip: {error}") from error
        if not self.platform_version or not self.platform_version.isascii():
            raise LocalProtocolError(
                f"archiveplatformversion: {self.platform_version!r} should be a text of ASCII"
            )
        user, _, host = self.admin_email.partition("@")
        if not user or not host or not self.admin_email.isascii():
            raise LocalProtocolError(
                f"archiveadmemailaddress: {self.admin_email!r} should be user@host"
            )
        if not is_key(self.key):
            raise LocalProtocolError(f"{REGISTRATION_KEY}: it has not the form of a key")


@dataclass(frozen=True, slots=True)
class RegistrationStatus:
    """What became of an Archive: ``included`` (confirmed or not) or ``excluded``."""

    archive: str
    confirmation: str | None = None

    @property
    def confirmed(self) -> bool:
        """Whether the Archive answered the resolver's call back."""
        return self.confirmation == CONFIRMATIONS[0]


def format_registration_request(request: RegistrationRequest) -> str:
    """Return the query string of a request, its eight pairs in the order of the examples.

    :returns: ASCII, without the "?". It holds the key.
    Source: [R] 5.2, Table 5.2; Examples 5.2 and 5.3.
    """
    return format_query_string(
        [
            (SERVICE_SUBJECT, request.subject),
            (ADDRESS, request.address),
            (SERVICE_IBI, request.service_ibi.text),
            (IP, request.ip),
            (PROTOCOL, HTTP),
            (PLATFORM_VERSION, request.platform_version),
            (ADMIN_EMAIL, request.admin_email),
            (REGISTRATION_KEY, request.key),
        ]
    )


def parse_registration_request(pairs: Sequence[tuple[str, str]]) -> RegistrationRequest:
    """Return the request that decoded pairs are; pairs with other names are ignored.

    :param pairs: as :func:`~flask_ibi_archive.protocol.query.decode_query_string` gives them.
    :returns: the IP and the identifier in it are canonical; the key is of the right form, and may
        be wrong.
    :raises UnknownSubject: if servicesubject is neither of the two.
    :raises MissingParameter: if one of the eight pairs is missing or empty.
    :raises RepeatedParameter: if one of them stands more than once.
    :raises BadParameter: if a value is not what Table 5.2 wants; a key is not shown.
    Source: [R] 5.2, Table 5.2.
    """
    values = dict(pairs)
    counts = Counter(name for name, _ in pairs)
    for name in (SERVICE_SUBJECT, *_READERS):
        if counts[name] > 1:
            raise RepeatedParameter(name)
        if not values.get(name):
            raise MissingParameter(name)
        if name == SERVICE_SUBJECT and values[name] not in RESULTS:
            raise UnknownSubject(values[name], tuple(RESULTS))
    read = {name: _read(name, values[name]) for name in _READERS}
    return RegistrationRequest(
        subject=values[SERVICE_SUBJECT],
        address=read[ADDRESS],
        service_ibi=parse_identifier(read[SERVICE_IBI]),
        ip=read[IP],
        platform_version=read[PLATFORM_VERSION],
        admin_email=read[ADMIN_EMAIL],
        key=read[REGISTRATION_KEY],
    )


def _read(name: str, text: str) -> str:
    try:
        if len(text) > MAX_VALUE and name != REGISTRATION_KEY:
            raise ValueError(f"it has {len(text)} characters, more than {MAX_VALUE}")
        return _READERS[name](text)
    except ValueError as error:
        raise BadParameter(name, str(error)) from error


def _which(is_right: Callable[[str], object], expected: str) -> Callable[[str], str]:
    """Return what reads a text that is taken as it is, or refused."""

    def read(text: str) -> str:
        if not is_right(text):
            raise ValueError(f"{text!a} should be {expected}")
        return text

    return read


_READERS: dict[str, Callable[[str], str]] = {
    ADDRESS: _which(is_archive_address, 'host [":" port], as mtc-m16c.sid.inpe.br:8080'),
    SERVICE_IBI: lambda text: parse_identifier(text).text,
    IP: canonical_address,
    PROTOCOL: _which(HTTP.__eq__, HTTP),
    PLATFORM_VERSION: _which(_PRINTABLE.fullmatch, "a text of ASCII, as 2014:11.09.02.16.15"),
    ADMIN_EMAIL: _which(_EMAIL.fullmatch, "an e-mail address, as banon@dpi.inpe.br"),
    REGISTRATION_KEY: parse_key,
}


def parse_registration_answer(subject: str, body: bytes) -> RegistrationStatus:
    """Return the status that an answer holds; pairs with other names are ignored.

    :param subject: that of the request.
    :raises PeerProtocolError: in one line, if it is no list of pairs, holds no status or a repeated
        one, or one that the request can't have.
    Source: [R] 5.2.
    """
    found: dict[str, str] = {}
    for pair in parse_pairs(body.removeprefix(_BYTE_ORDER_MARK)):
        if pair.name not in (ARCHIVE_STATUS, CONFIRMATION_STATUS):
            continue
        if found.setdefault(pair.name, pair.text) != pair.text:
            raise PeerProtocolError(f"{pair.name} is given twice, with different values")
    archive, confirmation = found.get(ARCHIVE_STATUS), found.get(CONFIRMATION_STATUS)
    if archive is None:
        raise PeerProtocolError(f"there is no {ARCHIVE_STATUS} in it")
    if archive != RESULTS[subject]:
        raise PeerProtocolError(
            f"{ARCHIVE_STATUS} is {archive[:80]!a}; after an {subject} it should be {RESULTS[subject]}"
        )
    if subject == EXCLUSION_REQUEST:
        return RegistrationStatus(archive)
    if confirmation not in CONFIRMATIONS:
        shown = "missing" if confirmation is None else repr(confirmation[:80])
        raise PeerProtocolError(
            f"{CONFIRMATION_STATUS} is {shown}; it should be {' or '.join(CONFIRMATIONS)}"
        )
    return RegistrationStatus(archive, confirmation)


def format_registration_status(status: RegistrationStatus) -> str:
    """Return a status as [R] prints it: its pairs on one line.

    Source: [R] 5.2.
    """
    pairs = [format_pairs([(ARCHIVE_STATUS, status.archive)])]
    if status.confirmation is not None:
        pairs.append(format_pairs([(CONFIRMATION_STATUS, status.confirmation)]))
    return " ".join(pairs)
