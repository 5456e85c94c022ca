"""The IP addresses in a request: of the user, then of the proxies ([R] Table 6.10)."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address, ip_network

from flask_ibi_archive.core.identifiers import canonical_address
from flask_ibi_archive.errors import LocalProtocolError

#: The number of bits of an IPv4 or IPv6 address that are not set to zero.
STORED_BITS = {4: 24, 6: 48}


CLIENT_ADDRESSES = "clientinformation.ipaddress"

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
# This pattern makes the usual case fast: nearly all addresses are IPv4 addresses in canonical text.
_IPV4 = re.compile(rf"{_OCTET}\.{_OCTET}\.{_OCTET}\.{_OCTET}")


def parse_client_addresses(text: str) -> tuple[str, ...]:
    """Parse a list of IP addresses.

    :param text: IPv4 or IPv6 addresses separated by spaces.
    :returns: one or more addresses in canonical text
        (:func:`~flask_ibi_archive.core.identifiers.canonical_address`).
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


def anonymise(address: str) -> str:
    """Return an IP address without the part that identifies its user.

    The last octet of an IPv4 address and the last 80 bits of an IPv6 address become zero.

    :param address: an IPv4 or IPv6 address. An IPv4-mapped IPv6 address is treated as IPv4 address.
    :raises ValueError: if the text is not an IP address.
    """
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    network = ip_network((found, STORED_BITS[found.version]), strict=False)
    return str(network.network_address)


def find_client(addresses: tuple[str, ...] | None, anonymises: bool) -> str | None:
    """Return the address of the user, which is the first of the addresses, or None."""
    if not addresses:
        return None
    return anonymise(addresses[0]) if anonymises else addresses[0]
