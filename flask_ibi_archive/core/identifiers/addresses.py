"""Checks of IP addresses and ports. The prefixes of identifiers contain such values."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_DOCUMENTATION = tuple(
    map(
        ip_network,
        ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
    )
)


def canonical_address(text: str) -> str:
    """Return the canonical text of an IP address.

    An IBIp encodes this text.

    :param text: an IPv4 or IPv6 address in any spelling.
    :returns: an IPv4 address in four decimal numbers, or an IPv6 address in hexadecimal groups. An
        IPv6 address has the form of RFC 5952: lower case, with ``::``. An IPv4-mapped IPv6 address
        becomes the IPv4 address.
    :raises ValueError: if the text is not an IP address, or if the address has a zone.

    Source: RFC 5952; [G] 7, Algorithm 5.
    """
    return str(_read_address(text))


def is_private_address(text: str) -> bool:
    """Return True if an address is private: many networks use the same address.

    An example of a private address is 192.168.1.100. Addresses for documentation are not private
    here, because examples use these addresses as public addresses.

    :raises ValueError: if the text is not an IP address.

    Source: RFC 5737, RFC 3849, RFC 9637.
    """
    address = _read_address(text)
    return not address.is_global and not any(address in network for network in _DOCUMENTATION)


def check_port(port: int) -> None:
    """Check that a port is in the allowed range.

    :raises ValueError: if the port is not a number from 1 to 65535.
    """
    if not 1 <= port <= 65535:
        raise ValueError(f"port {port} is not a number from 1 to 65535")


def _read_address(text: str) -> IPv4Address | IPv6Address:
    if "%" in text:
        raise ValueError(
            f"address {text[:80]!r} has a zone, which has no meaning on other computers; remove "
            "'%' and the zone"
        )
    try:
        address = ip_address(text)
    except ValueError as exc:
        raise ValueError(
            f"{text[:80]!r} is not an IP address such as 150.163.34.243 or 2001:252:0:1::2008:6"
        ) from exc
    # Newer Python versions write the end of an IPv4-mapped address as an IPv4 address. All other
    # IPv6 addresses have the same text in all Python versions.
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
