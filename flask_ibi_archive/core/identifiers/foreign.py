"""Foreign identifiers: Handles, DOIs, ARKs, URNs, and the addresses at which an item used to be.

A link that was ever printed should lead to the item. Therefore the usual spellings are read, as
other systems print them, and one canonical spelling is stored and shown. Two spellings are the same
identifier if their digests are the same.

==========  ================================  ====================================================
kind        canonical spelling                how two of them are compared
==========  ================================  ====================================================
Handle      ``hdl:20.500.12345/678``          ignoring ASCII case
DOI         ``doi:10.5281/zenodo.1234567``    ignoring ASCII case
ARK         ``ark:12345/x54xz321``            without hyphens, and case-sensitive
URN         ``urn:nbn:br:bn-123``             RFC 8141: the namespace ignoring case, no components
address     ``http://old.example.org/1?x=y``  http = https, the host ignoring case, no default port
==========  ================================  ====================================================

A DOI is a Handle whose prefix begins with ``10.``: no other Handle may have such a prefix (DOI
Handbook, "Numbering" and "Resolution"; ISO 26324), and the proxies ``doi.org`` and
``hdl.handle.net`` resolve the same names. Therefore ``hdl:10.5281/zenodo.1`` is read as
``doi:10.5281/zenodo.1``, and ``https://doi.org/20.500.12345/678`` as ``hdl:20.500.12345/678``. RFC
3651, 3.1 lets each Handle service decide about upper and lower case; the software of handle.net
ignores the case of ASCII letters by default.

Source: DOI Handbook, "Numbering"; RFC 3650 and RFC 3651 (Handle); draft-kunze-ark, "Normalization
and Lexical Equivalence"; RFC 8141 (URN), 2 and 3; RFC 8458 (``urn:nbn``); RFC 3986, 6.2 (address).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from ipaddress import IPv6Address
from string import ascii_lowercase, ascii_uppercase
from urllib.parse import quote, unquote, unquote_to_bytes

from flask_ibi_archive.core.identifiers.grammar import match_identifier
from flask_ibi_archive.errors import IdentifierError
from flask_ibi_archive.errors import translatable as _

MAX_FOREIGN = 2048
"""The maximum length of a foreign identifier in characters."""

# RFC 3986: the characters that a path may contain without percent-encoding. Letters, digits and
# "-._~" are allowed too, and "?" in a query.
_IN_PATH = "/:@!$&'()*+,;="

_SCHEME = re.compile(r"(doi|hdl|ark|urn)(?::|%3A)", re.IGNORECASE)
# How publishers print a DOI: "DOI 10.1000/182", "doi: 10.1000/182", "DOI:https://doi.org/10.1000/182"
_DOI_LABEL = re.compile(r"\Adoi(?:: ?| )(?=10\.[0-9]{4}|https?://)", re.IGNORECASE)
_PRINTED_HOST = re.compile(
    r"(?:(?:dx\.|www\.)?doi\.org/(?=10\.)|hdl\.handle\.net/(?=[0-9])|n2t\.net/(?=ark:))",
    re.IGNORECASE,
)
_DOI = re.compile(r"10\.[0-9]{4,}(?:\.[0-9]+)*/.+")
_HANDLE = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*/.+")
# The proxies have pages too, such as doi.org/the-identifier/what-is-a-doi/.
_PROXIED = re.compile(r"/(?:(?:doi|hdl):)?((?=[^/]*[0-9.])[A-Za-z0-9_.-]+/.+)", re.IGNORECASE)
# NAAN: "betanumeric" characters, at least five. The name has no "?", which begins an inflection.
_ARK = re.compile(
    r"/?([0-9bcdfghjkmnpqrstvwxzBCDFGHJKMNPQRSTVWXZ]{5,})/"
    r"((?:[A-Za-z0-9=~*+@_$./-]|%[0-9A-Fa-f]{2})+)"
)
_ARK_CHARACTERS = re.compile(r"[A-Za-z0-9=~*+@_$./:-]")
# draft-kunze-ark: word processors write other hyphens, which do not count either.
_HYPHENS = dict.fromkeys(range(0x2010, 0x2016), "-")
_STRUCTURE = re.compile(r"([/.])[/.]+")
# RFC 8141, 2: NID ":" NSS
_URN = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9-]{0,30}[A-Za-z0-9]):"
    r"((?!/)(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})+)"
)
_URN_CHARACTERS = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/-]")
_UNRESERVED = re.compile("[A-Za-z0-9._~-]")
_UNKNOWN = (
    "write hdl:20.500.12345/678, doi:10.5281/zenodo.1234567, ark:12345/x54xz321, "
    "urn:nbn:br:bn-123 or an address such as http://old.example.org/handle/1/2"
)
_NO_ADDRESS = (
    "an address is an http or https URL without a user name or password, such as "
    "http://old.example.org/handle/1/2"
)
#: What the text after each scheme should be.
_WRONG = {
    "doi": (
        "a DOI has a prefix that begins with 10. and four digits or more, and a suffix, such as "
        "doi:10.5281/zenodo.1234567"
    ),
    "hdl": "a Handle has a prefix and a suffix, such as hdl:20.500.12345/678",
    "ark": (
        "an ARK has a number of five digits or more and a name of letters, digits and "
        "=~*+@_$./-, such as ark:12345/x54xz321"
    ),
    "urn": (
        "a URN has a namespace and a name of the characters that RFC 8141 allows, such as "
        "urn:nbn:br:bn-123"
    ),
}
_USER = re.compile("//[^/?#]*@")
_TO_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_URL = re.compile(r"(https?)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(#.*)?", re.IGNORECASE)
_LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_HOST_AND_PORT = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]@]+)(?::([0-9]{0,5}))?", re.IGNORECASE)
_DEFAULT_PORTS = {"http": "80", "https": "443"}

#: Hosts that resolve Handles, and therefore DOIs.
HANDLE_PROXIES = frozenset({"doi.org", "dx.doi.org", "www.doi.org", "hdl.handle.net"})
#: Hosts that resolve identifiers which the path or the query contains with their scheme.
RESOLVERS = frozenset(
    [
        *("n2t.net", "www.n2t.net", "identifiers.org", "arks.org"),
        *("nbn-resolving.org", "www.nbn-resolving.org", "nbn-resolving.de", "www.nbn-resolving.de"),
        *("nbn-resolving.com", "urn.fi", "www.urn.fi", "urn.kb.se", "urn.nb.no", "urn.nsk.hr"),
        *("persistent-identifier.nl", "www.persistent-identifier.nl", "resolver.obvsg.at"),
        *("nbn.depositolegale.it", "nbn.urn.hu", "urn.nuk.uni-lj.si", "resolver.nbn.cz"),
    ]
)
_RESOLVED_PATH = re.compile(r"/(?:.*[/:])?((?:doi|hdl|ark|urn)(?::|%3A).+)", re.IGNORECASE)
_RESOLVED_QUERY = re.compile(r"(?:.*[&=])?(urn(?::|%3A)[^&]+).*", re.IGNORECASE)


class ForeignKind(str, Enum):
    """The kind of a foreign identifier."""

    HANDLE = "hdl"
    DOI = "doi"
    ARK = "ark"
    URN = "urn"
    ADDRESS = "url"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class ForeignIdentifier:
    """An identifier of another system, or a former address, with its canonical text.

    The class does not check the text. Therefore use :func:`parse_foreign`.

    :param kind: the kind of the identifier.
    :param text: the canonical spelling, which is stored and shown.
    """

    kind: ForeignKind
    text: str

    @property
    def folded(self) -> str:
        """The text for comparison, which is equal for all spellings of one identifier."""
        return f"{self.kind}:{self._fold()}"

    @property
    def digest(self) -> str:
        """The SHA-256 of the text for comparison, in 64 hexadecimal digits."""
        return sha256(self.folded.encode()).hexdigest()

    @property
    def url(self) -> str | None:
        """The URL that leads to the item; None for a URN, because no server resolves all URNs."""
        if self.kind in (ForeignKind.ADDRESS, ForeignKind.URN):
            return self.text if self.kind is ForeignKind.ADDRESS else None
        if self.kind is ForeignKind.ARK:
            return f"https://n2t.net/{self.text}"
        host = "doi.org" if self.kind is ForeignKind.DOI else "hdl.handle.net"
        return f"https://{host}/{quote(self.text.partition(':')[2], safe=_IN_PATH)}"

    def __str__(self) -> str:
        return self.text

    def _fold(self) -> str:
        """Return the text for comparison, without the scheme."""
        _, _, rest = self.text.partition(":")
        if self.kind is ForeignKind.ARK:
            return _normalize_structure(rest.replace("-", ""))
        if self.kind is ForeignKind.URN:
            # RFC 8458: the prefix of a national bibliography number ends with the first hyphen
            prefix, hyphen, number = rest.partition("-")
            is_nbn = hyphen and rest.startswith("nbn:")
            return f"{prefix.translate(_TO_LOWER)}-{number}" if is_nbn else rest
        if self.kind is ForeignKind.ADDRESS:
            # A web server decodes the path, and no app can tell %2F from "/" in it.
            path, mark, query = rest.removeprefix("//").partition("?")
            path = quote(unquote_to_bytes(path), safe=_IN_PATH + "[]")
            return path + mark + _decode(query, _UNRESERVED)
        return rest.translate(_TO_LOWER)


def parse_foreign(text: str) -> ForeignIdentifier:
    """Parse a foreign identifier in one of the usual spellings.

    :param text: the identifier with its scheme, such as ``doi:10.5281/zenodo.1234567``; a bare DOI;
        the URL of a resolver, such as ``https://hdl.handle.net/20.500.12345/678``, with or without
        ``https://``; or any other http or https URL, which is an address.
    :raises IdentifierError: if the text is not a foreign identifier. An IBI is not a foreign
        identifier.
    """
    return _explain(text, _parse_spelling)


def parse_foreign_path(path: str) -> ForeignIdentifier:
    """Parse a foreign identifier that is part of a URL, such as ``doi:10.5281%2Fzenodo.1``.

    A percent-encoded character is decoded if identifiers of this kind may contain the character.

    :param path: the text with its scheme; not an address.
    :raises IdentifierError: if the text is not such an identifier.
    """
    return _explain(path, _read_path)


def parse_address(url: str) -> ForeignIdentifier:
    """Parse a URL as an address, even if it is a URL of a resolver.

    :raises IdentifierError: if the text is not an http or https URL of a host.
    """
    return _explain(url, _read_address)


def _explain(text: str, read: Callable[[str], ForeignIdentifier]) -> ForeignIdentifier:
    """Return the result of ``read`` for a text; an error becomes an IdentifierError."""
    try:
        _check_length(text)
        identifier = read(text)
        _check_length(identifier.text)
    except ValueError as error:
        # the message must not show a password
        shown = _USER.sub("//***@", text)
        raise IdentifierError(shown, error.args[0], wanted=_("a foreign identifier")) from error
    return identifier


def _check_length(text: str) -> None:
    if len(text) > MAX_FOREIGN:
        raise ValueError(f"the text has {len(text)} characters; at most {MAX_FOREIGN} are allowed")


def _parse_spelling(text: str) -> ForeignIdentifier:
    if match_identifier(text):
        raise ValueError(_UNKNOWN)
    text = _DOI_LABEL.sub("", text)
    _check_characters(text)
    if _PRINTED_HOST.match(text):
        return _parse_url(f"https://{text}")
    if _DOI.match(text):
        return _read("doi", text)
    scheme, _, rest = text.partition(":")
    return _parse_url(text) if scheme.lower() in _DEFAULT_PORTS else _read(scheme.lower(), rest)


def _check_characters(text: str) -> None:
    for character in text:
        if character == " " or not character.isprintable():
            raise ValueError(
                f"{character!a} is not allowed; spaces and control characters are never part of an "
                "identifier"
            )


def _read(scheme: str, rest: str) -> ForeignIdentifier:
    """Return the identifier that consists of a scheme and the text after its colon."""
    if scheme in ("doi", "hdl"):
        if _DOI.fullmatch(rest):
            return ForeignIdentifier(ForeignKind.DOI, f"doi:{rest}")
        if scheme == "hdl" and _HANDLE.fullmatch(rest):
            return ForeignIdentifier(ForeignKind.HANDLE, f"hdl:{rest}")
        raise ValueError(_WRONG[scheme])
    if scheme == "ark":
        return _read_ark(rest)
    if scheme == "urn":
        found = _URN.fullmatch(rest.partition("#")[0].partition("?")[0])
        if found is None:
            raise ValueError(_WRONG["urn"])
        number = _ESCAPE.sub(lambda escape: escape[0].upper(), found[2])
        return ForeignIdentifier(ForeignKind.URN, f"urn:{found[1].lower()}:{number}")
    raise ValueError(_UNKNOWN)


def _read_ark(rest: str) -> ForeignIdentifier:
    plain = _decode(rest.partition("?")[0].translate(_HYPHENS), _ARK_CHARACTERS)
    found = _ARK.fullmatch(plain)
    name = _normalize_structure(found[2]) if found else ""
    if found is None or not name.strip("-./"):
        raise ValueError(_WRONG["ark"])
    return ForeignIdentifier(ForeignKind.ARK, f"ark:{found[1].lower()}/{name}")


def _read_path(path: str) -> ForeignIdentifier:
    found = _SCHEME.match(path)
    if found is None:
        raise ValueError(_UNKNOWN)
    scheme, rest = found[1].lower(), path[found.end() :]
    rest = _decode(rest, _URN_CHARACTERS) if scheme in ("urn", "ark") else _unquote(rest)
    _check_characters(rest)
    return _read(scheme, rest)


def _parse_url(url: str) -> ForeignIdentifier:
    """Return the identifier that a URL of a resolver contains, or the URL as an address."""
    address = _read_address(url)
    _, host, path, query, _ = _split_url(url)
    host = host.lower().partition(":")[0]
    if host in HANDLE_PROXIES and (found := _PROXIED.fullmatch(_unquote(path))):
        _check_characters(found[1])
        return _read("hdl", found[1])
    if host in RESOLVERS:
        found = _RESOLVED_PATH.fullmatch(path) or _RESOLVED_QUERY.fullmatch(query or "")
        if found:
            return _read_path(found[1])
    # draft-kunze-ark: the host is no part of an ARK
    if path[:5].lower() == "/ark:":
        return _read_path(path[1:])
    return address


def _split_url(url: str) -> tuple[str, str, str, str | None, str | None]:
    found = _URL.fullmatch(url)
    if found is None:
        raise ValueError(_NO_ADDRESS)
    scheme, host, path, query, fragment = found.groups()
    return scheme.lower(), host, path or "/", query, fragment


def _read_address(url: str) -> ForeignIdentifier:
    _check_characters(url)
    scheme, authority, path, query, fragment = _split_url(url)
    found = _HOST_AND_PORT.fullmatch(authority)
    if found is None:
        raise ValueError(_NO_ADDRESS)
    host, port = _normalize_host(found[1]), found[2]
    if port and not 0 < int(port) <= 65535:
        raise ValueError(_NO_ADDRESS)
    if port and str(int(port)) != _DEFAULT_PORTS[scheme]:
        host = f"{host}:{int(port)}"
    if fragment:
        raise ValueError(
            f"remove {fragment!a}: a browser does not send it, so that no server can find the item "
            "by it"
        )
    path = quote(path, safe=_IN_PATH + "%")
    if query is not None:
        path = f"{path}?{quote(query, safe=_IN_PATH + '%?')}"
    return ForeignIdentifier(ForeignKind.ADDRESS, f"{scheme}://{host}{path}")


def _normalize_host(host: str) -> str:
    """Return a host in lower case and in ASCII, without a dot at the end."""
    try:
        if host.startswith("["):
            return f"[{IPv6Address(host[1:-1])}]"
        name = host.removesuffix(".").lower()
        if not name.isascii():
            name = name.encode("idna").decode("ascii")
    except ValueError:
        name = ""
    if not _HOST.fullmatch(name):
        raise ValueError(_NO_ADDRESS)
    return name


def _normalize_structure(name: str) -> str:
    """Return the name of an ARK without superfluous structural characters ("/" and ".").

    Superfluous are repeated ones, and those at the beginning and at the end.

    Source: draft-kunze-ark, "Normalization and Lexical Equivalence".
    """
    return _STRUCTURE.sub(r"\1", name).strip("/.")


def _unquote(text: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise ValueError("the characters that %XX stands for must be in UTF-8") from error


def _decode(text: str, plain: re.Pattern[str]) -> str:
    """Decode each %XX that stands for a plain character, and write the others in capitals.

    :param plain: matches the plain characters.
    """

    def decode(escape: re.Match[str]) -> str:
        character = chr(int(escape[1], 16))
        return character if plain.fullmatch(character) else escape[0].upper()

    return _ESCAPE.sub(decode, text)
