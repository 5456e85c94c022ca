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
    [
        ("mtc-m18.sid.inpe.br", 80, "sid.inpe.br/mtc-m18"),
        ("mtc-m18.sid.inpe.br", 8080, "sid.inpe.br/mtc-m18.8080"),
        ("mtc-m18.sid.inpe.br", 800, "sid.inpe.br/mtc-m18.800"),
        ("MTC-m18.sid.INPE.br", 80, "sid.inpe.br/mtc-m18"),
        ("inpe.br", 80, "br/inpe"),
        ("mtc-m18.sid.inpe.br.", 80, "sid.inpe.br./mtc-m18"),
        ("9.br", 1, "br/9.1"),
    ],
)
def test_the_first_word_of_the_host_follows_the_others(host: str, port: int, prefix: str) -> None:
    assert build_repository_prefix(host, port) == prefix


@pytest.mark.rule("G6-12", "G6-13", "G6-14")
@for_each(
    ("decimal", "suffix"),
    [
        ("1234806360", "2009/02.16.17.46"),
        ("1234806365", "2009/02.16.17.46.05"),
        ("1234806360.5", "2009/02.16.17.46.00.5"),
        ("1234806365.25", "2009/02.16.17.46.05.25"),
        ("-62135596800", "0001/01.01.00.00"),
        ("253402300799", "9999/12.31.23.59.59"),
    ],
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
    [
        ("", "'', is empty"),
        ("localhost", "one word only"),
        ("localhost.", "one word only"),
        ("9", "one word only"),
        ("150.163.34.243", "is an IP address"),
        ("2001:252:0:1::2008:6", "is an IP address"),
        ("a..br", "word 2, '', is empty"),
        (".a.br", "word 1, '', is empty"),
        ("a.br..", "word 3, '', is empty"),
        ("-a.br", "word 1, '-a', begins or ends with a hyphen"),
        ("a-.br", "word 1, 'a-', begins or ends with a hyphen"),
        ("a.-", "word 2, '-', begins or ends with a hyphen"),
        ("a_b.br", "word 1, 'a_b', has '_'"),
        ("a b.br", "has ' '"),
        ("a.br\n", r"has '\\n'"),
        ("a.br:80", "word 2, 'br:80', has ':'"),
        ("http://a.br", "has ':'"),
        ("a/b.br", "has '/'"),
        ("ação.br", "has 'ç'"),
        ("a.9r", "word 2, '9r', is the last word of the domain name and must begin with a letter"),
        ("a.\u212ar", "has '\u212a'"),
    ],
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
