"""The form of a host in a URL."""

from __future__ import annotations

import re
from ipaddress import IPv6Address

#: Characters of the longest name, and of its longest label (RFC 1035, 2.3.4).
MAX_NAME, MAX_LABEL = 253, 63

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def is_host(text: str) -> bool:
    """Tell whether a text is a host as it stands in a URL: a name or address, that of IPv6 in brackets.

    A name in another script is written in ASCII, as ``xn--bcher-kva.example``; a dot may end a name.
    Source: RFC 3986, 3.2.2.
    """
    if text.startswith("["):
        try:
            IPv6Address(text[1:-1])
        except ValueError:
            return False
        return text.endswith("]") and "%" not in text
    name = text[:-1] if text.endswith(".") else text
    return (
        _NAME.fullmatch(name) is not None
        and len(name) <= MAX_NAME
        and all(0 < len(label) <= MAX_LABEL for label in name.split("."))
    )
