"""The IP addresses in a request: of the user, then of the proxies ([R] Table 6.10)."""

from __future__ import annotations

import re

from flask_ibi_archive.errors import LocalProtocolError
from flask_ibi_archive.identifiers import canonical_address

CLIENT_ADDRESSES = "clientinformation.ipaddress"

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
# This pattern makes the usual case fast: nearly all addresses are IPv4 addresses in canonical text.
_IPV4 = re.compile(rf"{_OCTET}\.{_OCTET}\.{_OCTET}\.{_OCTET}")


def parse_client_addresses(text: str) -> tuple[str, ...]:
    """Parse a list of IP addresses.

    :param text: IPv4 or IPv6 addresses separated by spaces.
    :returns: one or more addresses in canonical text
        (:func:`~flask_ibi_archive.identifiers.canonical_address`).
    :raises ValueError: if the list is empty, or if a word of the list is not an IP address. An IPv4
        address with leading zeros and an address with a zone are also wrong.
    Source: [R] Table 6.10.
    """
    if _IPV4.fullmatch(text):
        return (text,)
    words = [word for word in text.split(" ") if word]
    if not words:
        raise ValueError("the list of IP addresses is empty; the IP address of the user is missing")
    return tuple([word if _IPV4.fullmatch(word) else canonical_address(word) for word in words])


def format_client_addresses(addresses: tuple[str, ...]) -> str:
    """Return the text of a list of IP addresses, separated by spaces.

    :raises LocalProtocolError: if the list is empty or contains a text that is not an IP address.
    Source: [R] Table 6.10.
    """
    text = " ".join(addresses)
    try:
        parse_client_addresses(text)
    except ValueError as error:
        raise LocalProtocolError(f"{CLIENT_ADDRESSES}: {error}") from error
    return text
