"""The check of the URLs that Archives return for redirects. Archives are not trusted.

Source: [R] 6.2; RFC 3986, 3.2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote_to_bytes, urlsplit

from flask_ibi_archive.core.protocol.hosts import (
    MAX_PORT,
    NO_INNER_HOSTS,
    InnerHosts,
    is_host,
    is_public_host,
    normalize_host,
)
from flask_ibi_archive.core.protocol.pairs import encode_word

#: Maximum number of characters in a URL.
MAX_URL = 8192

# matches the scheme, host and port of a URL; a URL with a user name or password does not match
_URL = re.compile(
    r"(https?)://([^\[\]/?#:@]+|\[[^\]]*\])(?::([0-9]{0,5}))?(?=[/?#]|\Z)", re.IGNORECASE
)
_CONTROL = re.compile("[\0-\x1f\x7f]")
_PORTS = {"http": "80", "https": "443"}


def find_usable_url(
    words: Sequence[str], address: str | None, inner_hosts: InnerHosts = NO_INNER_HOSTS
) -> str | None:
    """Return the URL in the value of a pair, or None if a redirect to the URL is not allowed.

    :param words: the words in the value of the pair ``url``. A valid value is a single word.
    :param address: the host and port of the Archive, as registered at the resolver. All other
        internal hosts are refused, because an Archive must not redirect readers into the network of
        the reader or of the resolver. If ``address`` is None, the Archive is trusted and every host
        is allowed.
    :param inner_hosts: the internal hosts that are allowed for every Archive.
    :returns: the URL in ASCII. All other characters are percent-encoded.
    """
    if len(words) != 1 or len(words[0]) > MAX_URL or _CONTROL.search(words[0]):
        return None
    match = _URL.match(words[0])
    if match is None or not is_host(match[2]):
        return None
    if not 0 < int(match[3] or 80) <= MAX_PORT:
        return None
    host = match[2].rstrip(".").lower()
    if address is not None:
        is_allowed = (
            is_public_host(host) or host in inner_hosts or _has_address(host, match, address)
        )
        if not is_allowed:
            return None
    url = encode_word(words[0])
    return url if len(url) <= MAX_URL else None


def _has_address(host: str, url: re.Match[str], address: str) -> bool:
    """Return whether a URL has the same host and port as the address of an Archive.

    If the address has no port, the default port for the scheme of the URL is used.
    """
    default = _PORTS[url[1].lower()]
    allowed_host, colon, port = address.lower().rpartition(":")
    if not colon or port.endswith("]"):
        allowed_host, port = address.lower(), ""
    return (host, int(url[3] or default)) == (allowed_host.rstrip("."), int(port or default))


def is_same_address(url: str, other: str) -> bool:
    """Return whether two URLs have the same host and path.

    A redirect from one of these URLs to the other would be a loop. Differences in default ports,
    upper and lower case of the host, percent-encoding and the query are ignored.
    """
    parts, others = urlsplit(url), urlsplit(other)
    if normalize_host(parts.netloc) != normalize_host(others.netloc):
        return False
    return parts.path == others.path or (
        unquote_to_bytes(parts.path) == unquote_to_bytes(others.path)
    )
