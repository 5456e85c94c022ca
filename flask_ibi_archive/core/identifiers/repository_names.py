"""Generation of repository names, the identifiers that contain a domain name.

A repository name such as ``sid.inpe.br/mtc-m18.8080/2009/02.16.17.46`` consists of the domain name
of the server (here ``mtc-m18.sid.inpe.br``), the port, and the date of the assignment.
Source: [G] 6, Algorithms 1 to 3.
"""

from __future__ import annotations

from fractions import Fraction
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from flask_ibi_archive.core.identifiers.dates import get_calendar_date, split_seconds
from flask_ibi_archive.core.identifiers.grammar import (
    MAX_LENGTH,
    Form,
    Identifier,
    find_word_fault,
)

_DOCUMENTATION = tuple(
    map(
        ip_network,
        ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
    )
)


def canonical_address(text: str) -> str:
    """Return the canonical text of an IP address.

    An IBIp encodes this text.

    :param text: an IPv4 or IPv6 address in any spelling.
    :returns: an IPv4 address in four decimal numbers, or an IPv6 address in hexadecimal groups. An
        IPv6 address has the form of RFC 5952: lower case, with ``::``. An IPv4-mapped IPv6 address
        becomes the IPv4 address.
    :raises ValueError: if the text is not an IP address, or if the address has a zone.

    Source: RFC 5952; [G] 7, Algorithm 5.
    """
    return str(_read_address(text))


def is_private_address(text: str) -> bool:
    """Return True if an address is private: many networks use the same address.

    An example of a private address is 192.168.1.100. Addresses for documentation are not private
    here, because examples use these addresses as public addresses.

    :raises ValueError: if the text is not an IP address.

    Source: RFC 5737, RFC 3849, RFC 9637.
    """
    address = _read_address(text)
    return not address.is_global and not any(address in network for network in _DOCUMENTATION)


def check_port(port: int) -> None:
    """Check that a port is in the allowed range.

    :raises ValueError: if the port is not a number from 1 to 65535.
    """
    if not 1 <= port <= 65535:
        raise ValueError(f"port {port} is not a number from 1 to 65535")


def _read_address(text: str) -> IPv4Address | IPv6Address:
    if "%" in text:
        raise ValueError(
            f"address {text[:80]!r} has a zone, which has no meaning on other computers; remove "
            "'%' and the zone"
        )
    try:
        address = ip_address(text)
    except ValueError as exc:
        raise ValueError(
            f"{text[:80]!r} is not an IP address such as 150.163.34.243 or 2001:252:0:1::2008:6"
        ) from exc
    # Newer Python versions write the end of an IPv4-mapped address as an IPv4 address. All other
    # IPv6 addresses have the same text in all Python versions.
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


DEFAULT_PORT = 80
"""The default port. A prefix does not contain this port ([G] 6, Algorithm 1, line 12)."""

_SHORTEST_SUFFIX = len("/2009/02.16.17.46")


def check_host(host: str) -> None:
    """Check that a host name can be part of a repository name.

    :param host: a domain name of two or more words. A dot may follow the last word.
    :raises ValueError: if the host name is not such a domain name, or if the name is too long.

    Source: [G] Table 6.1 and 6, Algorithm 1.
    """
    if len(host) + _SHORTEST_SUFFIX > MAX_LENGTH:
        raise ValueError(
            f"host {host[:40]!r}... has {len(host)} characters; a host name may have at most "
            f"{MAX_LENGTH - _SHORTEST_SUFFIX} characters, because a date must follow"
        )
    if _is_address(host):
        raise ValueError(
            f"host {host!r} is an IP address; use a domain name such as mtc-m18.sid.inpe.br"
        )
    words = host.removesuffix(".").split(".")
    for number, word in enumerate(words, 1):
        # a host of one word has a simpler error, which follows
        fault = find_word_fault(word, last=number == len(words) and len(words) > 1)
        if fault:
            raise ValueError(
                f"host {host!r}: word {number}, {word!r}, {fault}; use a domain name such "
                "as mtc-m18.sid.inpe.br"
            )
    if len(words) == 1:
        raise ValueError(
            f"host {host!r} has one word only; use a full domain name such as mtc-m18.sid.inpe.br"
        )


def build_repository_prefix(host: str, port: int) -> str:
    """Return the prefix of the repository names of a server.

    :param host: the domain name of the server, in upper or lower case.
    :param port: the port of the server, 1 to 65535. The prefix does not contain port 80.
    :returns: a text such as ``sid.inpe.br/mtc-m18`` or ``sid.inpe.br/mtc-m18.8080``, in lower case.
    :raises ValueError: if the host or the port is wrong.

    Source: [G] 6, Algorithm 1 (MOUNTPREFIXOFNAMEOFUNIFORMREPOSITORY).
    """
    check_host(host)
    check_port(port)
    word, _, subdomain = host.lower().partition(".")
    prefix = f"{subdomain}/{word}"
    return prefix if port == DEFAULT_PORT else f"{prefix}.{port}"


def build_repository_suffix(date: Fraction) -> str:
    """Return the suffix of a repository name.

    :param date: POSIX seconds (UTC), exact.
    :returns: a text such as ``2009/02.16.17.46``, ``2009/02.16.17.46.05`` or
        ``2009/02.16.17.46.00.5``. The last two texts have seconds, and the last text has a
        fraction of a second.
    :raises RefusedText: if the year is not in 0001 to 9999, or if the fraction is too long.

    Source: [G] 6, Algorithm 2 (MOUNTSUFFIXOFNAMEOFUNIFORMREPOSITORY).
    """
    seconds, digits = split_seconds(date)
    calendar_date = get_calendar_date(seconds)
    # This code does not use strftime, because %Y has no leading zeros on some systems.
    suffix = (
        f"{calendar_date.year:04}/{calendar_date.month:02}.{calendar_date.day:02}"
        f".{calendar_date.hour:02}.{calendar_date.minute:02}"
    )
    if digits:
        return f"{suffix}.{calendar_date.second:02}.{digits}"
    return f"{suffix}.{calendar_date.second:02}" if calendar_date.second else suffix


def build_repository_name(host: str, port: int, date: Fraction) -> Identifier:
    """Return the repository name that a server assigns at a date.

    :param host: the domain name of the server.
    :param port: the port of the server, 1 to 65535.
    :param date: the date of the assignment in exact POSIX seconds (UTC).
    :raises ValueError: if the host, the port or the date is wrong, or if the repository name would
        have more than 255 characters.

    Source: [G] 6, Algorithm 3 (MOUNTNAMEOFUNIFORMREPOSITORY).
    """
    text = f"{build_repository_prefix(host, port)}/{build_repository_suffix(date)}"
    check_length(text)
    return Identifier(Form.REP, text)


def check_length(text: str) -> None:
    """Check the length of a generated identifier.

    :raises ValueError: if the identifier has more than 255 characters.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(
            f"identifier {text[:40]!r}... would have {len(text)} characters; at most {MAX_LENGTH} "
            "are allowed; use a shorter host name or a coarser granularity"
        )


def _is_address(host: str) -> bool:
    try:
        canonical_address(host)
    except ValueError:
        return False
    return True
