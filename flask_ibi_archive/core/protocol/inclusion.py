"""The registration of an Archive with a resolver: keys, e-mails, and the messages of inclusion.

The administrators of the Archive and of the resolver agree on a registration key by e-mail. The key
proves that a later inclusion request comes from the Archive. A URL key (see the module
``messages``) has the same syntax as a registration key.

Source: [R] 5.1, Table 5.1, Example 5.1.

A resolver sends requests only to included Archives. An Archive sends an inclusionRequest or an
exclusionRequest to the resolver. The request contains the registration key of the Archive. After an
inclusionRequest, the resolver sends an inclusionConfirmationRequest to the Archive. The answer of
the resolver contains the new status of the Archive.

Source: [R] 5.2, Table 5.2, Examples 5.2 to 5.4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flask_ibi_archive.core.identifiers.grammar import Identifier, canonical_address
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.hosts import is_archive_address
from flask_ibi_archive.core.protocol.pairs import (
    REPEATED,
    SERVICE_SUBJECT,
    find_repeated,
    format_pairs,
    format_query_string,
    parse_pairs,
    refuse_subject,
)
from flask_ibi_archive.errors import PeerProtocolError

# number = 10*DIGIT
# key    = number ["-" number]
_NUMBER = "[0-9]{10,}"
_KEY = re.compile(rf"{_NUMBER}(?:-{_NUMBER})?")

_EMAIL_BODY = """\
IBI do serviço de Arquivo:
archiveserviceibi = {service_ibi}

Chave de cadastro:
registrationkey = {key}"""

_CONFIRMATION_BODY = """\
O serviço de Arquivo com este IBI está cadastrado:
archiveserviceibi = {service_ibi}

O resolvedor passa a consultá-lo assim que receber dele um pedido de inclusão com a chave de
cadastro informada. No flask_ibi_archive, com o servidor em funcionamento:
{settings}flask ibi register-archive

--

The Archive service with this IBI is registered:
archiveserviceibi = {service_ibi}

The resolver sends requests to the Archive after the Archive has requested its inclusion with the
registration key that was sent by e-mail. In flask_ibi_archive, use this command while the server is
running:
{settings}flask ibi register-archive"""


def is_key(text: str) -> bool:
    """Return True if a text has the syntax of a key: one number of ten or more digits, or two.

    A hyphen separates two numbers.

    Source: [R] Table 5.1.
    """
    return _KEY.fullmatch(text) is not None


def parse_key(text: str) -> str:
    """Check that a text has the syntax of a key, and return the text.

    :param text: such as ``1424636122-5331490054869684``.
    :raises ValueError: if the syntax is wrong. The message does not show the text, because a
        registration key is a secret.
    Source: [R] Table 5.1.
    """
    if not is_key(text):
        raise ValueError(
            "a key must be a number of ten or more digits, or two such numbers joined by a hyphen; "
            f"this text of {len(text)} characters is not a key"
        )
    return text


def build_registration_email(service_ibi: Identifier, key: str) -> tuple[str, str]:
    """Write the e-mail with which an Archive requests its registration at a resolver.

    :param service_ibi: the IBI of the service of the Archive.
    :param key: the registration key. The body contains the key.
    :returns: ``(subject, body)``.
    Source: [R] 5.1, Example 5.1.
    """
    return "Cadastro de um novo Arquivo", _EMAIL_BODY.format(service_ibi=service_ibi.text, key=key)


def build_confirmation_email(service_ibi: Identifier, resolver_url: str | None) -> tuple[str, str]:
    """Write the e-mail that tells an Archive's administrator that the Archive is registered.

    The command ``ibi-resolver register`` sends this e-mail.

    :param service_ibi: the IBI of the service of the Archive.
    :param resolver_url: the URL of the resolver; None if unknown.
    :returns: ``(subject, body)``.
    Source: [R] 5.2.
    """
    settings = "" if resolver_url is None else f"IBI_RESOLVER_URL = {resolver_url}\n"
    body = _CONFIRMATION_BODY.format(service_ibi=service_ibi.text, settings=settings)
    return "Confirmação do cadastro de um Arquivo / Archive registered", body


INCLUSION_REQUEST = "inclusionRequest"
EXCLUSION_REQUEST = "exclusionRequest"

INCLUSION_CONFIRMATION_REQUEST = "inclusionConfirmationRequest"
#: The answer to an inclusionConfirmationRequest.
CONFIRMATION = "confirmation yes"

#: The only value of archiveprotocol ([R] Table 5.2).
HTTP = "HTTP"

ARCHIVE_STATUS = "status.archive"
CONFIRMATION_STATUS = "status.confirmation"
#: The status of the Archive after each request. The keys are the subjects of the requests.
RESULTS = {INCLUSION_REQUEST: "included", EXCLUSION_REQUEST: "excluded"}
CONFIRMATIONS = ("successful", "unsuccessful")

#: The IBI of the service of the standard's resolver, and the URL of this service ([R] 4.1).
RESOLVER_SERVICE_IBI = "J8LNKB5R7W/3FUQHC5"
RESOLVER_URL = f"http://urlib.net/{RESOLVER_SERVICE_IBI}"

SERVICE_IBI = "archiveserviceibi"
REGISTRATION_KEY = "registrationkey"
#: Further pairs of our requests, and of the answers (federation CF-2).
FURTHER, CLASH = ("mints", "database"), "clash"
#: The subject of the question whether an Archive clashes with others.
CLASH_REQUEST = SERVICE_SUBJECT, "clashRequest"
#: The maximum length of a value in characters. The columns of the database have this length.
MAX_VALUE = 255

_PRINTABLE = re.compile("[ -~]+")
# The special characters of a header with several addresses (RFC 5322, 3.2.3) are left out: a quote
# in the address of one recipient would hide the next one.
_EMAIL = re.compile(r"[!#-'*+\--9=?A-Z^-~]+@[!#-'*+\--9=?A-Z^-~]+")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def is_email(text: str) -> bool:
    """Return True if a text may be an e-mail address: ``user@host`` in ASCII."""
    return _EMAIL.fullmatch(text) is not None


def create_parser(
    is_right: Callable[[str], object], expected: str, convert: Callable[[str], Any] = str
) -> Callable[[str], Any]:
    """Return a parser that checks a text and converts it.

    :param is_right: returns a true value if a text is right.
    :param expected: a description of the right texts, for the message of the ValueError that the
        parser raises.
    :param convert: returns the value of a right text.
    """

    def parse(text: str) -> Any:
        if not is_right(text):
            raise ValueError(f"{text[:80]!a} should be {expected}")
        return convert(text)

    return parse


#: The pairs that follow the subject, in the order of the examples ([R] Table 5.2). Each pair has an
#: attribute of :class:`RegistrationRequest`, and a parser of its value.
_PAIRS: dict[str, tuple[str, Callable[[str], object]]] = {
    "archiveaddress": (
        "address",
        create_parser(is_archive_address, "a host or host:port, such as mtc-m16c.sid.inpe.br:8080"),
    ),
    SERVICE_IBI: ("service_ibi", parse_identifier),
    "archiveip": ("ip", canonical_address),
    "archiveprotocol": ("protocol", create_parser(HTTP.__eq__, HTTP)),
    "archiveplatformversion": (
        "platform_version",
        create_parser(_PRINTABLE.fullmatch, "ASCII text, such as 2014:11.09.02.16.15"),
    ),
    "archiveadmemailaddress": (
        "admin_email",
        create_parser(is_email, "an e-mail address, such as banon@dpi.inpe.br"),
    ),
    REGISTRATION_KEY: ("key", parse_key),
}


@dataclass(frozen=True, slots=True)
class InclusionConfirmationRequest:
    """The question of the resolver: does the Archive really want to be included?

    Source: [R] 5.2, Example 5.4.
    """


@dataclass(frozen=True, slots=True)
class RegistrationRequest:
    """An inclusionRequest or exclusionRequest.

    :param subject: inclusionRequest or exclusionRequest.
    :param address: the archiveaddress: a host, or a host and a port.
    :param service_ibi: the IBI of the service of the Archive.
    :param ip: the IPv4 or IPv6 address of the Archive.
    :param platform_version: the version of the software of the Archive, ASCII text.
    :param admin_email: the e-mail address of the administrator, user@host.
    :param key: the registration key. ``repr`` and messages do not show the key.
    :param mints: the prefixes of new identifiers, separated by a space; "" if they are unknown.
    :param database: a random word that the Archives of one database have in common; "" if unknown.
    :param protocol: HTTP, which is the only protocol.
    Source: [R] 5.2, Table 5.2.
    """

    subject: str
    address: str
    service_ibi: Identifier
    ip: str
    platform_version: str
    admin_email: str
    key: str = field(repr=False)
    mints: str = ""
    database: str = ""
    protocol: str = HTTP


@dataclass(frozen=True, slots=True)
class RegistrationStatus:
    """The status of an Archive at a resolver.

    :param archive: ``included`` or ``excluded``.
    :param confirmation: ``successful`` or ``unsuccessful``; None after an exclusion.
    :param clash: a text that names the other Archives that mint identifiers with the same prefixes;
        "" if there are none, or if the resolver does not name them.
    """

    archive: str
    confirmation: str | None = None
    clash: str = ""

    @property
    def confirmed(self) -> bool:
        """True if the Archive answered the inclusionConfirmationRequest."""
        return self.confirmation == CONFIRMATIONS[0]


def format_registration_request(request: RegistrationRequest) -> str:
    """Return the query string of a request: the eight pairs of the examples, then :data:`FURTHER`.

    :returns: ASCII text without the "?". The text contains the key.
    Source: [R] 5.2, Table 5.2; Examples 5.2 and 5.3.
    """
    values = {name: str(getattr(request, attribute)) for name, (attribute, _) in _PAIRS.items()}
    values |= {name: value for name in FURTHER if (value := getattr(request, name))}
    return format_query_string([(SERVICE_SUBJECT, request.subject), *values.items()])


def parse_registration_request(pairs: Sequence[tuple[str, str]]) -> RegistrationRequest:
    """Parse an inclusionRequest or exclusionRequest; pairs with other names are ignored.

    The pairs :data:`FURTHER`, which are not in Table 5.2, are also ignored if they are malformed.

    :param pairs: from :func:`.decode_query_string`.
    :returns: the request. The IP address and the identifier are canonical. The key has the right
        syntax, but the caller must compare it with the registration key of the Archive.
    :raises PeerProtocolError: if servicesubject is neither inclusionRequest nor exclusionRequest,
        if one of the eight pairs is missing, empty or appears more than once, or if a value is not
        as Table 5.2 requires. The message does not show the key.
    Source: [R] 5.2, Table 5.2.
    """
    values, repeated = dict(pairs), find_repeated(pairs)
    for name in (SERVICE_SUBJECT, *_PAIRS):
        if name in repeated:
            raise PeerProtocolError(REPEATED.format(name))
        if not values.get(name):
            raise PeerProtocolError(f"{name} is missing")
        if name == SERVICE_SUBJECT and values[name] not in RESULTS:
            raise refuse_subject(values[name], RESULTS)
    parsed: dict[str, Any] = {
        attribute: _parse_value(name, values[name], parse)
        for name, (attribute, parse) in _PAIRS.items()
    }
    parsed |= {name: values[name] for name in FURTHER if _PRINTABLE.fullmatch(values.get(name, ""))}
    return RegistrationRequest(values[SERVICE_SUBJECT], **parsed)


def _parse_value(name: str, text: str, parse: Callable[[str], object]) -> object:
    try:
        if len(text) > MAX_VALUE and name != REGISTRATION_KEY:
            raise ValueError(
                f"the value has {len(text)} characters; at most {MAX_VALUE} are allowed"
            )
        return parse(text)
    except ValueError as error:
        raise PeerProtocolError(f"{name}: {error}") from error


def parse_registration_answer(subject: str, body: bytes) -> RegistrationStatus:
    """Parse the answer of a resolver to a request; pairs with other names are ignored.

    :param subject: the subject of the request.
    :param body: the bytes of the answer.
    :raises PeerProtocolError: if the body is not a list of pairs, if the status is missing, if two
        pairs contradict each other, or if the status is impossible after this request.
    Source: [R] 5.2.
    """
    found: dict[str, str] = {}
    for pair in parse_pairs(body.removeprefix(_BYTE_ORDER_MARK)):
        if pair.name not in (ARCHIVE_STATUS, CONFIRMATION_STATUS, CLASH):
            continue
        if found.setdefault(pair.name, pair.text) != pair.text:
            raise PeerProtocolError(
                f"{pair.name} appears twice with different values; {pair.name} should appear once"
            )
    archive, confirmation = found.get(ARCHIVE_STATUS), found.get(CONFIRMATION_STATUS)
    if archive is None:
        raise PeerProtocolError(f"{ARCHIVE_STATUS} is missing")
    if archive != RESULTS[subject]:
        raise PeerProtocolError(
            f"{ARCHIVE_STATUS} is {archive[:80]!a}; after an {subject} it should be "
            f"{RESULTS[subject]}"
        )
    if subject == EXCLUSION_REQUEST:
        return RegistrationStatus(archive)
    if confirmation not in CONFIRMATIONS:
        shown = "missing" if confirmation is None else repr(confirmation[:80])
        raise PeerProtocolError(
            f"{CONFIRMATION_STATUS} is {shown}; it should be {' or '.join(CONFIRMATIONS)}"
        )
    return RegistrationStatus(archive, confirmation, found.get(CLASH, ""))


def format_registration_status(status: RegistrationStatus) -> str:
    """Return the text of a status: the pairs of the status on one line.

    Source: [R] 5.2.
    """
    pairs = [(ARCHIVE_STATUS, status.archive), (CONFIRMATION_STATUS, status.confirmation)]
    lists = [format_pairs([(name, value)]) for name, value in pairs if value is not None]
    if status.clash:
        lists.append(format_clash(status.clash))
    return " ".join(lists)


def format_clash(clash: str) -> str:
    """Return the line of an answer that tells an Archive of a clash; "" if there is no clash."""
    return format_pairs([(CLASH, clash.split())]) if clash else ""
