"""The rule of access: who may read the files of an item, and who may see its description.

All users may read the files of an item without an access rule and without an embargo. During an
embargo, nobody may read the files. Otherwise, users whose IP address is in a network of the access
rule may. The description of the item is hidden from the other users if the rule says so
(:data:`HIDDEN`). A host's access policy (:mod:`flask_ibi_archive.archive.items.access`) may decide
otherwise for the pages of the Archive.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from ipaddress import IPv6Address, ip_address, ip_network

#: The value of ``AccessRule.others`` that hides the description of an item.
HIDDEN = "none"


def may_read(
    networks: Iterable[str] | None, embargo: date | None, address: str, today: date
) -> bool:
    """Return whether a user may read the files of an item.

    :param networks: the networks of the access rule, in CIDR form; None: there is no access rule.
    :param embargo: the first day (UTC) on which users may read the files, or None.
    :param address: the IP address of the user.
    :param today: the current day (UTC).
    """
    return not is_closed(embargo, today) and networks_allow(networks, address)


def is_closed(embargo: date | None, today: date) -> bool:
    """Return whether an embargo closes the files of an item to all users."""
    return embargo is not None and today < embargo


def networks_allow(networks: Iterable[str] | None, address: str) -> bool:
    """Return whether an IP address is in one of the networks; None means all networks."""
    if networks is None:
        return True
    user = ip_address(address)
    # a socket for both IPv4 and IPv6 shows an IPv4 address as an IPv6 address
    if isinstance(user, IPv6Address) and user.ipv4_mapped is not None:
        user = user.ipv4_mapped
    return any(user in ip_network(network) for network in networks)
