"""Repository names: Algorithms 1 to 3 of [G], and the hosts that can have them."""

from __future__ import annotations

from fractions import Fraction

from flask_ibi_archive.identifiers.abnf import MAX_LENGTH, find_word_fault
from flask_ibi_archive.identifiers.addresses import canonical_address, check_port
from flask_ibi_archive.identifiers.dates import get_calendar_date, split_seconds
from flask_ibi_archive.identifiers.identifier import Form, Identifier

DEFAULT_PORT = 80
"""The port that a prefix does not contain ([G] 6, Algorithm 1, line 12)."""

_SHORTEST_SUFFIX = len("/2009/02.16.17.46")


def check_host(host: str) -> None:
    """Check that a host can have a prefix.

    :param host: a domain name of two or more words in any case, possibly with a dot at the end.
    :raises ValueError: with what is wrong and what would be right.
    Source: [G] Table 6.1 and 6, Algorithm 1.
    """
    if len(host) + _SHORTEST_SUFFIX > MAX_LENGTH:
        raise ValueError(
            f"host {host[:40]!r}... has {len(host)} characters; at most "
            f"{MAX_LENGTH - _SHORTEST_SUFFIX} leave room for a date"
        )
    if _is_address(host):
        raise ValueError(
            f"host {host!r} is an IP address; it should be a domain name such as "
            "mtc-m18.sid.inpe.br"
        )
    words = host.removesuffix(".").split(".")
    for place, word in enumerate(words, 1):
        fault = find_word_fault(word, last=place == len(words) > 1)
        if fault:
            raise ValueError(
                f"host {host!r}: word {place}, {word!r}, {fault}; it should be a domain name such "
                "as mtc-m18.sid.inpe.br"
            )
    if len(words) == 1:
        raise ValueError(
            f"host {host!r} has one word only; it should be a full domain name such as "
            "mtc-m18.sid.inpe.br"
        )


def build_repository_prefix(host: str, port: int) -> str:
    """Return the prefix of the repository names of a server.

    :param host: its domain name, in either case.
    :param port: 1 to 65535; 80 is omitted.
    :returns: as in ``sid.inpe.br/mtc-m18`` or ``sid.inpe.br/mtc-m18.8080``, lower case.
    :raises ValueError: if the host cannot have a prefix or the port is wrong.
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
    :returns: as in ``2009/02.16.17.46``; with seconds if they are not 00 (``.05``); with seconds
        and fraction if there is a fraction (``.00.5``).
    :raises RefusedText: if the year is not in 0001 to 9999 or the fraction is too long.
    Source: [G] 6, Algorithm 2 (MOUNTSUFFIXOFNAMEOFUNIFORMREPOSITORY).
    """
    seconds, digits = split_seconds(date)
    calendar_date = get_calendar_date(seconds)
    # Not strftime: on some systems its %Y has no leading zeros.
    suffix = (
        f"{calendar_date.year:04}/{calendar_date.month:02}.{calendar_date.day:02}"
        f".{calendar_date.hour:02}.{calendar_date.minute:02}"
    )
    if digits:
        return f"{suffix}.{calendar_date.second:02}.{digits}"
    return f"{suffix}.{calendar_date.second:02}" if calendar_date.second else suffix


def build_repository_name(host: str, port: int, date: Fraction) -> Identifier:
    """Return the repository name for an assignment.

    :param host: domain name of the server.
    :param port: its port, 1 to 65535.
    :param date: date of the assignment, POSIX seconds (UTC), exact.
    :returns: the identifier, of the form rep.
    :raises ValueError: if the host, the port or the date is wrong, or the name would have more
        than 255 characters.
    Source: [G] 6, Algorithm 3 (MOUNTNAMEOFUNIFORMREPOSITORY).
    """
    text = f"{build_repository_prefix(host, port)}/{build_repository_suffix(date)}"
    check_length(text)
    return Identifier(Form.REP, text)


def check_length(text: str) -> None:
    """Check the length of a generated identifier.

    :raises ValueError: if it has more than 255 characters.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(
            f"identifier {text[:40]!r}... would have {len(text)} characters; at most {MAX_LENGTH} "
            "are allowed: use a shorter host name or a coarser granularity"
        )


def _is_address(host: str) -> bool:
    try:
        canonical_address(host)
    except ValueError:
        return False
    return True
