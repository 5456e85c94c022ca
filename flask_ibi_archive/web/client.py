"""Who asks: the address of the user behind trusted proxies."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

from flask_ibi_archive.config import Network

#: The most proxies that a request is believed to have come through.
MAX_HOPS = 100


def client_addresses(
    peer: str | None, forwarded_for: Sequence[str], trusted: Sequence[Network]
) -> tuple[str, ...]:
    """Return the addresses that a request came through: the user's first, then the proxies'.

    :param peer: the address that the connection came from.
    :param forwarded_for: the values of X-Forwarded-For, in the order of the headers.
    :param trusted: the networks of the proxies that are believed. What anybody else says is passed
        over.
    :returns: canonical addresses; none where the user's is not known: the connection has no address
        (a Unix socket), what a trusted proxy says can't be read, or there are too many proxies.
    """
    current = read_address(peer)
    if current is None:
        return ()
    found = [current]
    claims = [claim for value in forwarded_for for claim in value.split(",")]
    while claims and any(current in network for network in trusted):
        claimed = read_address(claims.pop().strip())
        if claimed is None or len(found) > MAX_HOPS:
            return ()
        found.append(claimed)
        current = claimed
    return tuple(str(address) for address in reversed(found))


def read_address(text: str | None) -> IPv4Address | IPv6Address | None:
    """Return the address that a text is (perhaps with a port behind it), None where it is none."""
    if not text:
        return None
    host = text
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
