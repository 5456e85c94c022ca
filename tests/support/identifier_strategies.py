"""Hypothesis strategies for identifiers, hosts, addresses, ports and dates."""

from __future__ import annotations

import ipaddress
import string
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

from hypothesis import strategies as st

from flask_ibi_archive.core.identifiers.grammar import (
    Identifier,
    build_ibip_prefix,
    build_ibip_suffix,
    convert_from_decimal,
)
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.errors import IdentifierError

Argument = TypeVar("Argument")
Result = TypeVar("Result")


def get_outcome(
    function: Callable[[Argument], Result], argument: Argument
) -> Result | IdentifierError:
    """Return the result of a function, or the IdentifierError that the function raises."""
    try:
        return function(argument)
    except IdentifierError as refusal:
        return refusal


def build_ibip(ip: str, port: int, date: Fraction) -> Identifier:
    """Return the IBIp that a server assigns at a date."""
    return parse_identifier(f"{build_ibip_prefix(ip, port)}/{build_ibip_suffix(date)}")


ALPHANUM = string.ascii_letters + string.digits
GRAPHEMES = "23456789ABCDEFGHJKLMNPQRSTU"
GRANULARITIES = [Fraction(60), *(Fraction(1, 10**places) for places in range(7))]

FIRST = 807235200  # 1995-08-01T00:00:00Z
END = 253402300800  # 10000-01-01T00:00:00Z

granularities = st.sampled_from(GRANULARITIES)
ports = st.one_of(st.sampled_from([1, 80, 800, 8080, 65535]), st.integers(1, 65535))


def _words(first: str) -> st.SearchStrategy[str]:
    inside = st.text(ALPHANUM + "-", max_size=6)
    rest = st.tuples(inside, st.sampled_from(ALPHANUM)).map("".join)
    return st.tuples(st.sampled_from(first), st.one_of(st.just(""), rest)).map("".join)


words = _words(ALPHANUM)
last_words = _words(string.ascii_letters)

hosts = st.builds(
    lambda front, last, dot: ".".join([*front, last]) + dot,
    st.lists(words, min_size=1, max_size=4),
    last_words,
    st.sampled_from(["", "."]),
)

ipv4 = st.integers(0, 2**32 - 1).map(lambda number: str(ipaddress.IPv4Address(number)))
ipv6 = st.one_of(
    st.integers(0, 2**128 - 1),
    st.integers(0, 2**112 - 1),  # begins with a zero group
    st.lists(st.sampled_from([0, 0, 1, 0xFFFF]), min_size=8, max_size=8).map(
        lambda groups: int("".join(f"{group:04x}" for group in groups), 16)
    ),
).map(lambda number: str(ipaddress.IPv6Address(number)))
addresses = st.one_of(ipv4, ipv6)


@st.composite
def dates(draw: st.DrawFn, first: int = FIRST, end: int = END) -> Fraction:
    """Return a date that is a multiple of one of the granularities."""
    grid = draw(granularities)
    return draw(st.integers(-(-first // grid), (end - 1) // grid)) * grid


moments = st.integers(FIRST * 10**6, END * 10**6 - 1).map(lambda number: Fraction(number, 10**6))


@st.composite
def repository_names(draw: st.DrawFn) -> str:
    """Return a text that follows the grammar of Table 6.1 and whose date exists."""
    date = draw(st.datetimes())
    front = draw(st.lists(words, max_size=3))
    subdomain = ".".join([*front, draw(last_words)]) + draw(st.sampled_from(["", "."]))
    port = draw(st.one_of(st.just(""), st.from_regex(r"\A[.@][0-9]{1,6}\Z")))
    text = f"{subdomain}/{draw(words)}{port}/{date.year:04}/"
    text += f"{date.month:02}.{date.day:02}.{date.hour:02}.{date.minute:02}"
    second = draw(st.one_of(st.just(""), st.from_regex(r"\A\.[0-5][0-9](\.[0-9]{1,9})?\Z")))
    return text + second


def _in_any_case(text: str) -> st.SearchStrategy[str]:
    return st.sampled_from([text, text.lower(), text.swapcase(), text.title()])


_codes = st.text(GRAPHEMES, min_size=1, max_size=12)
ibips = st.builds(
    lambda address, separator, port, seconds, fraction: (
        f"{address}{separator}{port}/{seconds}{fraction}"
    ),
    _codes,
    st.sampled_from("WX"),
    st.one_of(st.just(""), ports.map(convert_from_decimal)),
    _codes,
    st.one_of(st.just(""), _codes.map(lambda code: f"W{code}")),
).flatmap(_in_any_case)

legacies = st.builds(
    lambda before, after, second: f"{before}Z{after}/{second}",
    st.text(ALPHANUM, max_size=8),
    st.text(ALPHANUM, max_size=8),
    st.text(ALPHANUM, min_size=1, max_size=8),
)
