"""The form of an archiveaddress: where an Archive is reached."""

from __future__ import annotations

import re

from flask_ibi_archive.protocol.hosts import is_host

# host [":" port] of RFC 3986; a name begins and ends with a letter or digit
_ADDRESS = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?"
)


def is_archive_address(text: str) -> bool:
    """Tell whether a text is an archiveaddress: a host, and a port where it has one; nothing else.

    Source: [R] Table 5.2; RFC 3986, 3.2.2 and 3.2.3.
    """
    found = _ADDRESS.fullmatch(text)
    return found is not None and is_host(found[1]) and 0 < int(found[2] or 80) < 65536


def host_of(address: str) -> str:
    """Return the host of an archiveaddress, without its port and without brackets."""
    found = _ADDRESS.fullmatch(address)
    return found[1].strip("[]") if found else address
