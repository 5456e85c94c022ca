from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from support.cases import for_each
from support.identifier_strategies import dates, hosts, ports
from support.vectors import load

from flask_ibi_archive.core.identifiers.dates import parse_decimal
from flask_ibi_archive.core.identifiers.forms import (
    build_repository_name,
    build_repository_prefix,
    build_repository_suffix,
    check_host,
)
from flask_ibi_archive.core.identifiers.grammar import Form
from flask_ibi_archive.core.identifiers.parse import decode_identifier, parse_identifier

CASES = load("core/identifiers_repository_names.json")

VECTORS = load("identifiers.json")
HOST = "mtc-m18.sid.inpe.br"
DATE = Fraction(1234806360)


@pytest.mark.rule("G5-06")
@pytest.mark.parametrize("row", VECTORS["generated"])
def test_the_names_of_the_documents_are_built(row: dict[str, Any]) -> None:
    date = parse_decimal(row["unix"])
    name = build_repository_name(row["host"], row["port"], date)
    assert (name.form, name.text) == (Form.REP, row["rep"])
    assert name.prefix == build_repository_prefix(row["host"], row["port"])
    assert name.suffix == build_repository_suffix(date)


@pytest.mark.rule("G6-06", "G6-09", "G6-10")
@for_each(
    ("host", "port", "prefix"),
    CASES["the first word of the host follows the others"],
)
def test_the_first_word_of_the_host_follows_the_others(host: str, port: int, prefix: str) -> None:
    assert build_repository_prefix(host, port) == prefix


@pytest.mark.rule("G6-12", "G6-13", "G6-14")
@for_each(
    ("decimal", "suffix"),
    CASES["a suffix omits zero seconds"],
)
def test_a_suffix_omits_zero_seconds(decimal: str, suffix: str) -> None:
    assert build_repository_suffix(parse_decimal(decimal)) == suffix


@pytest.mark.rule("G5-02")
@given(hosts, ports, dates())
def test_a_built_name_is_canonical_and_decodes_to_the_same_values(
    host: str, port: int, date: Fraction
) -> None:
    name = build_repository_name(host, port, date)
    assert parse_identifier(name.text) == name
    decoded = decode_identifier(name)
    assert (decoded.form, decoded.ip) == (Form.REP, None)
    assert (decoded.host, decoded.port, decoded.date) == (host.lower(), port, date)


@pytest.mark.rule("G6-11")
@for_each(
    ("host", "reason"),
    CASES["a host that cannot have a prefix is refused"],
)
def test_a_host_that_cannot_have_a_prefix_is_refused(host: str, reason: str) -> None:
    for call in (
        lambda: check_host(host),
        lambda: build_repository_prefix(host, 80),
        lambda: build_repository_name(host, 80, DATE),
    ):
        with pytest.raises(ValueError, match=f"(?s)^host .*{reason}.* such as mtc-m18") as caught:
            call()
        assert "\n" not in str(caught.value)


def test_a_host_that_can_have_a_prefix_is_accepted() -> None:
    for host in (HOST, "A.B", "a--b.c", "1.2.3.4.com", "xn--ao-zja1m.br"):
        check_host(host)


def test_a_host_name_is_short_enough_for_a_date_to_follow() -> None:
    longest = "a" * (255 - len("/2009/02.16.17.46") - len(".br")) + ".br"
    check_host(longest)
    assert len(build_repository_name(longest, 80, DATE).text) == 255
    with pytest.raises(ValueError, match=r"has 239 characters; .* at most 238 characters"):
        check_host("a" + longest)


def test_a_name_of_more_than_255_characters_is_refused() -> None:
    longest = "a" * (255 - len("/2009/02.16.17.46") - len(".br")) + ".br"
    for port, date in ((81, DATE), (80, DATE + 1), (80, DATE + Fraction(1, 10))):
        with pytest.raises(ValueError, match=r"would have (258|260) characters; ") as caught:
            build_repository_name(longest, port, date)
        assert str(caught.value).startswith(f"identifier 'br/{'a' * 37}'... would have ")
        assert str(caught.value).endswith(
            "at most 255 are allowed; use a shorter host name or a coarser granularity"
        )


@pytest.mark.parametrize("port", [-1, 0, 65536])
def test_a_number_that_is_not_a_port_is_refused(port: int) -> None:
    with pytest.raises(ValueError, match=f"^port {port} is not a number from 1 to 65535$"):
        build_repository_name(HOST, port, DATE)


def test_a_date_without_a_suffix_is_refused() -> None:
    with pytest.raises(ValueError, match="years 0001 to 9999"):
        build_repository_suffix(Fraction(253402300800))
    with pytest.raises(ValueError, match="cannot be written with"):
        build_repository_suffix(Fraction(1, 3))
