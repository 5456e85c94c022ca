"""Which URLs of an answer a reader may be sent to: an Archive is a stranger."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote_to_bytes, urlsplit

from flask_ibi_archive.protocol.hosts import (
    MAX_PORT,
    NO_INNER_HOSTS,
    InnerHosts,
    bare_host,
    is_host,
    is_public_host,
)
from flask_ibi_archive.protocol.pairs import encode_word

#: Characters of the longest URL that is passed on.
MAX_URL = 8192

# scheme, host and port of a URL without userinfo
_URL = re.compile(
    r"(https?)://([^\[\]/?#:@]+|\[[^\]]*\])(?::([0-9]{0,5}))?(?=[/?#]|\Z)", re.IGNORECASE
)
_CONTROL = re.compile("[\0-\x1f\x7f]")
_PORTS = {"http": "80", "https": "443"}


def find_usable_url(
    words: Sequence[str], address: str | None, inner_hosts: InnerHosts = NO_INNER_HOSTS
) -> str | None:
    """Return the URL that the words of a value are, None where a reader may not be sent to it.

    :param words: of a pair ``url``; what is no single word is no URL.
    :param address: the archiveaddress that its Archive was included with. A host that is no public
        one is good at that very address alone, so that no Archive leads a reader into a network of
        the reader's or the resolver's own. None: any host is good, since the Archive is no
        stranger.
    :param inner_hosts: those that are good nevertheless, whatever Archive names them.
    :returns: ASCII: everything else is %XX.
    Source: [R] 6.2; RFC 3986, 3.2.
    """
    if len(words) != 1 or len(words[0]) > MAX_URL or _CONTROL.search(words[0]):
        return None
    found = _URL.match(words[0])
    if found is None or not is_host(found[2]):
        return None
    if not 0 < int(found[3] or 80) <= MAX_PORT:
        return None
    host = found[2].rstrip(".").lower()
    if address is not None:
        is_good = is_public_host(host) or host in inner_hosts or _is_at(host, found, address)
        if not is_good:
            return None
    url = encode_word(words[0])
    return url if len(url) <= MAX_URL else None


def _is_at(host: str, url: re.Match[str], address: str) -> bool:
    """Tell whether a URL is at an archiveaddress; one without a port stands for that of the scheme."""
    default = _PORTS[url[1].lower()]
    its_host, colon, its_port = address.lower().rpartition(":")
    if not colon or its_port.endswith("]"):
        its_host, its_port = address.lower(), ""
    return (host, int(url[3] or default)) == (its_host.rstrip("."), int(its_port or default))


def is_same_address(url: str, other: str) -> bool:
    """Tell whether two URLs have the same host and path: from the one to the other nobody gets
    anywhere.

    Default ports, the case of the host, what is written as %XX and the query make no difference.
    """
    parts, others = urlsplit(url), urlsplit(other)
    if bare_host(parts.netloc) != bare_host(others.netloc):
        return False
    return parts.path == others.path or (
        unquote_to_bytes(parts.path) == unquote_to_bytes(others.path)
    )
