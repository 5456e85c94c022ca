"""The IP addresses and ports of prefixes."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_DOCUMENTATION = tuple(
    map(
        ip_network,
        ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
    )
)


def canonical_address(text: str) -> str:
    """Return the canonical text of an IP address, which an IBIp encodes.

    :param text: an IPv4 or IPv6 address in any of its spellings.
    :returns: IPv4 with dots; IPv6 as in RFC 5952 (lower case, ``::``), never with a dotted tail. An
        IPv4-mapped IPv6 address becomes the IPv4 address.
    :raises ValueError: if the text is not an address or has a zone.
    Source: RFC 5952; [G] 7, Algorithm 5.
    """
    return str(_read_address(text))


def is_private_address(text: str) -> bool:
    """Return whether many networks use an address at the same time (127.0.0.1, 192.168.1.100).

    Addresses for documentation are not private: examples use them as public ones.

    :raises ValueError: if the text is not an address.
    Source: RFC 5737, RFC 3849, RFC 9637.
    """
    address = _read_address(text)
    return not address.is_global and not any(address in network for network in _DOCUMENTATION)


def check_port(port: int) -> None:
    """Check a port.

    :raises ValueError: if it is not a number from 1 to 65535.
    """
    if not 1 <= port <= 65535:
        raise ValueError(f"port {port} is not a number from 1 to 65535")


def _read_address(text: str) -> IPv4Address | IPv6Address:
    if "%" in text:
        raise ValueError(
            f"address {text[:80]!r} has a zone, which has no meaning on other computers; write the "
            "address without '%' and the zone"
        )
    try:
        address = ip_address(text)
    except ValueError as exc:
        raise ValueError(
            f"{text[:80]!r} is not an IP address such as 150.163.34.243 or 2001:252:0:1::2008:6"
        ) from exc
    # Newer versions of ipaddress write mapped addresses (and only those) with a dotted tail.
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
