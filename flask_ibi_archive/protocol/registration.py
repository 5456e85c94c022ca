"""Inclusion and exclusion of an Archive: the requests, the resolver's answers, the e-mail before them.

Source: [R] 5.1, Example 5.1; 5.2, Table 5.2, Examples 5.2 and 5.3.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from flask_ibi_archive.errors import LocalProtocolError, PeerProtocolError
from flask_ibi_archive.identifiers import Identifier, canonical_address
from flask_ibi_archive.protocol.keys import is_key
from flask_ibi_archive.protocol.messages import SERVICE_SUBJECT
from flask_ibi_archive.protocol.pairs import format_pairs, parse_pairs
from flask_ibi_archive.protocol.query import format_query_string

INCLUSION_REQUEST = "inclusionRequest"
EXCLUSION_REQUEST = "exclusionRequest"

#: The only protocol that there is ([R] Table 5.2).
HTTP = "HTTP"
REGISTRATION_KEY = "registrationkey"

ARCHIVE_STATUS = "status.archive"
CONFIRMATION_STATUS = "status.confirmation"
#: What either request makes of an Archive.
RESULTS = {INCLUSION_REQUEST: "included", EXCLUSION_REQUEST: "excluded"}
CONFIRMATIONS = ("successful", "unsuccessful")

EMAIL_SUBJECT = "Cadastro de um novo Arquivo"
_EMAIL_BODY = """\
IBI do serviço de Arquivo:
archiveserviceibi = {service_ibi}

Chave de cadastro:
registrationkey = {key}"""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


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
    """Give the query string of a request, its eight pairs in the order of the examples.

    :returns: ASCII, without the "?". It holds the key.
    Source: [R] 5.2, Table 5.2; Examples 5.2 and 5.3.
    """
    return format_query_string(
        [
            (SERVICE_SUBJECT, request.subject),
            ("archiveaddress", request.address),
            ("archiveserviceibi", request.service_ibi.text),
            ("archiveip", request.ip),
            ("archiveprotocol", HTTP),
            ("archiveplatformversion", request.platform_version),
            ("archiveadmemailaddress", request.admin_email),
            (REGISTRATION_KEY, request.key),
        ]
    )


def parse_registration_answer(subject: str, body: bytes) -> RegistrationStatus:
    """Give the status that an answer holds; pairs with other names are ignored.

    :param subject: that of the request.
    :raises PeerProtocolError: in one line, if it is no list of pairs, holds no status or a repeated one, or
        one that the request can't have.
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
    """Give a status as [R] prints it: its pairs on one line.

    Source: [R] 5.2.
    """
    pairs = [format_pairs([(ARCHIVE_STATUS, status.archive)])]
    if status.confirmation is not None:
        pairs.append(format_pairs([(CONFIRMATION_STATUS, status.confirmation)]))
    return " ".join(pairs)


def build_registration_email(service_ibi: Identifier, key: str) -> tuple[str, str]:
    """Give subject and body of the e-mail that asks the resolver's administrator to register an Archive.

    :param key: the registration key; the body holds it.
    Source: [R] 5.1, Example 5.1.
    """
    return EMAIL_SUBJECT, _EMAIL_BODY.format(service_ibi=service_ibi.text, key=key)
