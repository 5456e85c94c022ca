"""IP addresses and ports, as they go into a prefix."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_DOCUMENTATION = tuple(
    map(
        ip_network,
        ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
    )
)


def canonical_address(text: str) -> str:
    """Return the one text of an IP address that is encoded in an IBIp.

    :param text: an IPv4 or IPv6 address in any of its spellings.
    :returns: IPv4 in dots; IPv6 as in RFC 5952 (lower case, ``::``), never with a dotted tail; an
        IPv6 address that maps an IPv4 address counts as the IPv4 address.
    :raises ValueError: if the text is no address or has a zone.
    Source: RFC 5952; [G] 7, Algorithm 5.
    """
    return str(_read_address(text))


def is_private_address(text: str) -> bool:
    """Return whether many networks use an address at the same time (127.0.0.1, 192.168.1.100).

    Addresses of documentation are not private: they stand for a public one in an example.

    :raises ValueError: if the text is no address.
    Source: RFC 5737, RFC 3849, RFC 9637.
    """
    address = _read_address(text)
    return not address.is_global and not any(address in network for network in _DOCUMENTATION)


def check_port(port: int) -> None:
    """Refuse a number that is no port.

    :raises ValueError: if it is not a number from 1 to 65535.
    """
    if not 1 <= port <= 65535:
        raise ValueError(f"port {port} is not a number from 1 to 65535")


def _read_address(text: str) -> IPv4Address | IPv6Address:
    if "%" in text:
        raise ValueError(
            f"address {text[:80]!r} has a zone, which means nothing elsewhere; "
            "write the address without '%' and what follows"
        )
    try:
        address = ip_address(text)
    except ValueError as exc:
        raise ValueError(
            f"{text[:80]!r} is no IP address such as 150.163.34.243 or 2001:252:0:1::2008:6"
        ) from exc
    # Newer versions of ipaddress write mapped addresses, and only those, with a dotted tail.
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
