"""Checks of URLs, of hosts, and of the IP addresses of clients.

An internal host is not on the public Internet, such as ``localhost`` or ``192.168.1.1``. An
archiveaddress is the host of an Archive. A port may follow the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from flask_ibi_archive.core.identifiers.grammar import canonical_address, unmap

IP = IPv4Address | IPv6Address

#: Maximum length of a host name and maximum length of a label, in characters (RFC 1035, 2.3.4).
MAX_NAME, MAX_LABEL = 253, 63
MAX_PORT = 65535

# If the last label of a host is a decimal or hexadecimal number, browsers read the host as an IPv4
# address. A label is the text between two dots.
_NUMBER = re.compile("[0-9]+|0[xX][0-9A-Fa-f]*")
#: Top-level names that do not exist on the Internet (RFC 6761, RFC 6762, RFC 8375 and others).
_INNER_NAMES = frozenset(
    [
        *("arpa", "corp", "home", "internal", "intranet", "invalid"),
        *("lan", "local", "localdomain", "localhost", "private", "test"),
    ]
)
#: The range from which IPv6 addresses of the Internet are allocated (RFC 4291, 2.4).
GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_USER = re.compile("[^/?#]*//[^/?#]*@")
_PORT = re.compile(r":[0-9]*\Z")
_NOT_IN_URL = re.compile(r"[\x00-\x20\x7f<>\"{}\\^`|]")
_DEFAULT_PORT = re.compile(r":(?:80|443)?\Z")
_HOST_AND_PORT = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?")
# host [":" port] of RFC 3986. The host name begins and ends with a letter or digit.
_ARCHIVE_ADDRESS = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?"
)


def is_host(text: str) -> bool:
    """Return True if a text may be the host of a URL.

    A host is a name, an IPv4 address, or an IPv6 address in brackets. A name must be in ASCII, such
    as ``xn--bcher-kva.example``. A name may end with a dot.
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


def is_host_and_port(text: str) -> bool:
    """Return True if a text is a host, or a host and a port, as in a Host header.

    Source: RFC 9110, 7.2.
    """
    found = _HOST_AND_PORT.fullmatch(text)
    return found is not None and is_host(found[1]) and int(found[2] or 80) <= MAX_PORT


def check_url(text: str) -> None:
    """Check that a text is an absolute http or https URL without a user name or password.

    Other characters than ASCII are allowed after the host.

    :raises ValueError: if the text is not such a URL. The message does not show a password.
    """
    if _USER.match(text):  # The message must not show the password.
        raise ValueError(
            "the URL has a user name or password, which every reader could see; remove that part"
        )
    try:
        parts = urlsplit(text)
        right = parts.scheme in ("http", "https") and is_host(_PORT.sub("", parts.netloc))
        right = right and parts.port != 0  # ``port`` raises ValueError if it is not a number.
    except ValueError:
        right = False
    if not right or _NOT_IN_URL.search(text):
        raise ValueError(
            f"{text[:80]!a} is not a URL such as https://host/path (with the host in ASCII, as "
            "xn--bcher-kva.example, and spaces as %20)"
        )


def is_archive_address(text: str) -> bool:
    """Return True if a text is an archiveaddress: a host, or a host and a port.

    Source: [R] Table 5.2; RFC 3986, 3.2.2 and 3.2.3.
    """
    found = _ARCHIVE_ADDRESS.fullmatch(text)
    return found is not None and is_host(found[1]) and 0 < int(found[2] or 80) < 65536


def extract_host(address: str) -> str:
    """Return the host of an archiveaddress, without the port and without brackets."""
    found = _ARCHIVE_ADDRESS.fullmatch(address)
    return found[1].strip("[]") if found else address


def extract_port(address: str) -> int | None:
    """Return the port of an archiveaddress; None if it has no port."""
    found = _ARCHIVE_ADDRESS.fullmatch(address)
    return int(found[2]) if found and found[2] else None


def is_like_ipv4(host: str) -> bool:
    """Return True if browsers read a host as an IPv4 address, because its last label is a number.

    :param host: a name or an IPv4 address, without a dot at the end.
    """
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None


def is_public_host(host: str) -> bool:
    """Return True if a host is on the public Internet, as far as the text of the host shows.

    The function does not query the DNS. Therefore a host with a public name may still have an
    internal IP address.

    :param host: a name, an IPv4 address, or an IPv6 address in brackets.
    """
    name = host.rstrip(".").lower()
    if not name.startswith("[") and not is_like_ipv4(name):
        return "." in name and name.rpartition(".")[2] not in _INNER_NAMES
    try:
        return is_public_ip(ip_address(name.strip("[]")))
    except ValueError:
        return False


def is_public_ip(ip: IP) -> bool:
    """Return True if an IP address is a unicast address of the public Internet.

    Loopback, private, link-local, shared (RFC 6598), documentation, multicast and unspecified
    addresses are not public. An IPv6 address that contains such an IPv4 address is not public
    either.
    """
    ip = unmap(ip)
    if isinstance(ip, IPv6Address):
        if ip.sixtofour is not None:  # versions of Python differ about is_global of these addresses
            return is_public_ip(ip.sixtofour)
        # This check also excludes the addresses of NAT64.
        if ip not in GLOBAL_UNICAST:
            return False
    return ip.is_global and not ip.is_multicast


def is_loopback(host: str | None) -> bool:
    """Return whether a host is the computer itself: ``localhost`` or a loopback IP address."""
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def normalize_host(host: str) -> str:
    """Return a host in lower case, without port 80 or 443.

    The result is for comparing hosts of http URLs with hosts of https URLs.
    """
    return _DEFAULT_PORT.sub("", host.lower())


@dataclass(frozen=True, slots=True)
class InnerHosts:
    """The internal hosts that are allowed in requests and redirects.

    :param names: host names in lower case. The name ".corp" allows all names that end with ".corp".
    :param networks: the networks of the allowed IP addresses.
    """

    names: frozenset[str] = frozenset()
    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    def __contains__(self, host: str) -> bool:
        """Return True if the host of a URL is an allowed internal host."""
        name = host.rstrip(".").lower()
        try:
            ip = ip_address(name.strip("[]"))
        except ValueError:
            endings = tuple([inner for inner in self.names if inner.startswith(".")])
            is_known = name in self.names or name.endswith(endings)
            return is_known and len(name) <= MAX_NAME
        return self._contains_ip(ip)

    def allow(self, host: str, ip: IP) -> bool:
        """Return True if a request to a host may connect to an IP address of the host."""
        return is_public_ip(ip) or self._contains_ip(ip) or host in self

    def _contains_ip(self, ip: IP) -> bool:
        return any(unmap(ip) in network for network in self.networks)


NO_INNER_HOSTS = InnerHosts()


def parse_inner_hosts(items: Iterable[str]) -> InnerHosts:
    """Parse host names, IP addresses and networks (CIDR).

    A name such as ``.corp`` matches all names that end with ``.corp``.

    :raises ValueError: if an item is neither a host name, nor an IP address, nor a network.
    """
    names: set[str] = set()
    networks: list[IPv4Network | IPv6Network] = []
    for item in items:
        try:
            networks.append(ip_network(item.strip("[]")))
        except ValueError:
            name = item.rstrip(".").lower()
            # a last label without letters is the number of a malformed IP address
            is_name = is_host(name.removeprefix(".")) and re.search(
                "[a-z]", name.rpartition(".")[2]
            )
            if not is_name or "/" in item:
                raise ValueError(
                    f"{item!r} is not a host name, an IP address or a network"
                ) from None
            names.add(name)
    return InnerHosts(frozenset(names), tuple(networks))


CLIENT_ADDRESSES = "clientinformation.ipaddress"


@lru_cache(maxsize=256)  # a reader follows several links
def parse_client_addresses(text: str) -> tuple[str, ...]:
    """Parse a list of IP addresses.

    :param text: IPv4 or IPv6 addresses separated by spaces.
    :returns: one or more addresses in canonical text
        (:func:`~flask_ibi_archive.core.identifiers.grammar.canonical_address`).
    :raises ValueError: if the list is empty, or if a word of the list is not an IP address. An IPv4
        address with leading zeros and an address with a zone are also wrong.
    Source: [R] Table 6.10.
    """
    words = [word for word in text.split(" ") if word]
    if not words:
        raise ValueError("the list of IP addresses is empty; the IP address of the user is missing")
    return tuple(map(canonical_address, words))


def anonymise(address: str) -> str:
    """Return an IP address without the part that identifies its user.

    The last octet of an IPv4 address and the last 80 bits of an IPv6 address become zero.

    :param address: an IPv4 or IPv6 address. An IPv4-mapped IPv6 address is treated as IPv4 address.
    :raises ValueError: if the text is not an IP address.
    """
    found = unmap(ip_address(address.partition("%")[0]))
    network = ip_network((found, 24 if found.version == 4 else 48), strict=False)
    return str(network.network_address)


def find_client(addresses: tuple[str, ...] | None, anonymises: bool) -> str | None:
    """Return the address of the user: the first of the addresses; None if there are none.

    :param anonymises: True removes the part of the address that identifies the user.
    """
    if not addresses:
        return None
    return anonymise(addresses[0]) if anonymises else addresses[0]


def group_sender(ip: str) -> str:
    """Return the text under which requests from an IP address are counted.

    This is the IPv4 address, or the IPv6 network of the address.

    One customer usually has a whole /64 network of IPv6. Therefore all addresses of such a network
    count as one sender.
    """
    parsed = ip_address(ip)
    return str(parsed) if parsed.version == 4 else str(IPv6Network((int(parsed), 64), strict=False))
