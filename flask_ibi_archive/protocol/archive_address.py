"""The form of an archiveaddress: where an Archive is reached."""

from __future__ import annotations

import re
from ipaddress import ip_address

# host [":" port] of RFC 3986: a name, an IPv4 address or an IPv6 address in brackets
_ADDRESS = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?"
)


def is_archive_address(text: str) -> bool:
    """Tell whether a text is an archiveaddress: a host, and a port where it has one; nothing else.

    Source: [R] Table 5.2; RFC 3986, 3.2.2 and 3.2.3.
    """
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found[2] or 80) < 65536:
        return False
    if found[1].startswith("["):
        try:
            ip_address(found[1].strip("[]"))
        except ValueError:
            return False
    return True


def host_of(address: str) -> str:
    """Give the host of an archiveaddress, without its port and without brackets."""
    found = _ADDRESS.fullmatch(address)
    return found[1].strip("[]") if found else address
