"""Tests the generation and the decoding of repository names and IBIps."""

from __future__ import annotations

import ipaddress
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.identifier_strategies import END, addresses, build_ibip, dates, hosts, ports
from support.vectors import load

from flask_ibi_archive.core.identifiers.dates import parse_decimal
from flask_ibi_archive.core.identifiers.grammar import (
    Form,
    build_ibip_prefix,
    build_ibip_suffix,
    build_repository_name,
    build_repository_prefix,
    build_repository_suffix,
    canonical_address,
    check_host,
    convert_from_decimal,
    convert_to_decimal,
    decode_ibip_prefix,
    decode_ibip_suffix,
    is_private_address,
)
from flask_ibi_archive.core.identifiers.parse import decode_identifier, parse_identifier

CASES = load("core/forms.json")


@pytest.mark.rule("G7-07")
@for_each(("text", "canonical"), CASES["every spelling has one canonical text"])
def test_every_spelling_has_one_canonical_text(text: str, canonical: str) -> None:
    assert canonical_address(text) == canonical


@given(addresses)
def test_the_canonical_text_of_canonical_text_is_the_same(text: str) -> None:
    canonical = canonical_address(text)
    assert canonical_address(canonical) == canonical
    assert canonical == canonical.lower()
    assert ":" not in canonical or "." not in canonical
    address = ipaddress.ip_address(text)
    mapped = getattr(address, "ipv4_mapped", None)
    assert ipaddress.ip_address(canonical) == (mapped or address)


@given(st.integers(0, 2**128 - 1))
def test_a_long_spelling_has_the_canonical_text_of_a_short_one(number: int) -> None:
    address = ipaddress.IPv6Address(number)
    assert canonical_address(address.exploded.upper()) == canonical_address(str(address))


@for_each(("text", "reason"), CASES["other texts are not addresses"])
def test_other_texts_are_not_addresses(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        canonical_address(text)


@for_each(("text", "is_private"), CASES["addresses of local networks are private"])
def test_addresses_of_local_networks_are_private(text: str, is_private: bool) -> None:
    assert is_private_address(text) is is_private


@pytest.mark.parametrize("port", [-1, 0, 65536])
def test_a_port_outside_its_range_is_refused(port: int) -> None:
    for build, server in ((build_repository_prefix, HOST), (build_ibip_prefix, IP)):
        with pytest.raises(ValueError, match=f"^port {port} is not a number from 1 to 65535$"):
            build(server, port)


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
@for_each(("host", "port", "prefix"), CASES["the first word of the host follows the others"])
def test_the_first_word_of_the_host_follows_the_others(host: str, port: int, prefix: str) -> None:
    assert build_repository_prefix(host, port) == prefix


@pytest.mark.rule("G6-12", "G6-13", "G6-14")
@for_each(("decimal", "suffix"), CASES["a suffix omits zero seconds"])
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
@for_each(("host", "reason"), CASES["a host that cannot have a prefix is refused"])
def test_a_host_that_cannot_have_a_prefix_is_refused(host: str, reason: str) -> None:
    for call in (
        lambda: check_host(host),
        lambda: build_repository_prefix(host, 80),
        lambda: build_repository_name(host, 80, DATE),
    ):
        with pytest.raises(ValueError, match=f"(?s)^host .*{reason}.* such as mtc-m18") as caught:
            call()
        assert "\n" not in str(caught.value)


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


def test_a_date_without_a_suffix_is_refused() -> None:
    with pytest.raises(ValueError, match="years 0001 to 9999"):
        build_repository_suffix(Fraction(253402300800))
    with pytest.raises(ValueError, match="cannot be written with"):
        build_repository_suffix(Fraction(1, 3))


BASES = {"ipv4": 11, "ipv6": 17}
IP = "150.163.34.243"
ZERO = Fraction(807235200)


def encode(address: str, base: int) -> str:
    """Convert a text of digits from another base to base 27."""
    return convert_from_decimal(convert_to_decimal(address, base))


@pytest.mark.rule("G5-07", "G7-06")
@pytest.mark.parametrize("row", VECTORS["generated"])
def test_the_ibips_of_the_documents_are_built(row: dict[str, Any]) -> None:
    date = parse_decimal(row["unix"])
    assert build_ibip(row["ip"], row["ip_port"], date).text == row["ibip"]


@for_each(("rep", "ibip"), VECTORS["same_item"])
def test_both_forms_of_an_item_have_the_same_date(rep: str, ibip: str) -> None:
    name, opaque = parse_identifier(rep), parse_identifier(ibip)
    decoded = decode_identifier(opaque)
    assert decode_identifier(name).date == decoded.date
    assert decoded.ip is not None
    assert decoded.port is not None
    assert decoded.date is not None
    assert build_ibip(decoded.ip, decoded.port, decoded.date) == opaque


@pytest.mark.rule("G5-02", "G7-08")
@given(addresses, ports, dates())
def test_a_built_ibip_is_canonical_and_decodes_to_the_same_values(
    ip: str, port: int, date: Fraction
) -> None:
    ibip = build_ibip(ip, port, date)
    assert parse_identifier(ibip.text) == ibip
    decoded = decode_identifier(ibip)
    assert (decoded.form, decoded.host) == (Form.IBIP, None)
    assert (decoded.ip, decoded.port, decoded.date) == (canonical_address(ip), port, date)


@for_each("ip", CASES["a leading zero of an address is decoded"])
def test_a_leading_zero_of_an_address_is_decoded(ip: str) -> None:
    canonical = canonical_address(ip)
    assert decode_ibip_prefix(build_ibip_prefix(ip, 800)) == (canonical, 800)


@pytest.mark.rule("G5-02")
def test_different_addresses_and_ports_have_different_prefixes() -> None:
    parts = ["0", "1", "10", "100", "255"]
    ips = [".".join(four) for four in product(parts, repeat=4)] + ["::", "::1", "0:1:2:3:4:5:6:7"]
    prefixes = {build_ibip_prefix(ip, port) for ip in ips for port in (1, 80, 800, 801, 65535)}
    assert len(prefixes) == len(ips) * 5


@pytest.mark.rule("G7-05", "G7-06", "G7-07")
@for_each(("ip", "port", "prefix"), CASES["port 800 is omitted and port 80 is not"])
def test_port_800_is_omitted_and_port_80_is_not(ip: str, port: int, prefix: str) -> None:
    assert build_ibip_prefix(ip, port) == prefix


@pytest.mark.rule("G7-09", "G7-10")
@for_each(("decimal", "suffix"), CASES["the zeros of a fraction are encoded"])
def test_the_zeros_of_a_fraction_are_encoded(decimal: str, suffix: str) -> None:
    date = parse_decimal(decimal)
    assert build_ibip_suffix(date) == suffix
    assert decode_ibip_suffix(suffix) == date


@pytest.mark.rule("G7-09")
def test_a_date_before_august_1995_has_no_ibip() -> None:
    for date in (ZERO - Fraction(1, 10), ZERO - 1, Fraction(0), -(Fraction(10) ** 12)):
        with pytest.raises(ValueError, match="before 1995-08-01T00:00:00Z"):
            build_ibip_suffix(date)


def test_a_date_without_an_ibip_suffix_is_refused() -> None:
    assert decode_ibip_suffix(build_ibip_suffix(Fraction(END - 1))) == END - 1
    with pytest.raises(ValueError, match="years 0001 to 9999"):
        build_ibip_suffix(Fraction(END))
    with pytest.raises(ValueError, match="cannot be written with"):
        build_ibip_suffix(DATE + Fraction(1, 3))


@for_each(("prefix", "reason"), CASES["a prefix without an address is refused"])
def test_a_prefix_without_an_address_is_refused(prefix: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_ibip_prefix(prefix)


@for_each(("suffix", "reason"), CASES["a suffix without a date is refused"])
def test_a_suffix_without_a_date_is_refused(suffix: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_ibip_suffix(suffix)


@for_each(("part", "message"), CASES["the error names the wrong part and the right text"])
def test_the_error_names_the_wrong_part_and_the_right_text(part: str, message: str) -> None:
    decode = decode_ibip_prefix if {"W", "X"} & set(part) else decode_ibip_suffix
    with pytest.raises(ValueError) as caught:
        decode(part)
    assert str(caught.value) == message


# --- numbers in the bases 11, 17 and 27


@pytest.mark.rule("G7-11")
@pytest.mark.parametrize(("text", "kind", "number"), VECTORS["to_decimal"])
def test_addresses_of_table_7_2_become_their_numbers(text: str, kind: str, number: int) -> None:
    assert convert_to_decimal(text, BASES[kind]) == number
    assert convert_from_decimal(number, BASES[kind]) == text


@pytest.mark.rule("G7-12")
@pytest.mark.parametrize(("number", "text"), VECTORS["from_decimal"])
def test_numbers_of_table_7_3_become_their_graphemes(number: int, text: str) -> None:
    assert convert_from_decimal(number) == text
    assert convert_to_decimal(text, 27) == number


@pytest.mark.rule("G7-04", "G7-12")
def test_graphemes_of_table_7_6_count_from_two_to_u() -> None:
    assert "".join(map(convert_from_decimal, range(27))) == "23456789ABCDEFGHJKLMNPQRSTU"
    assert convert_from_decimal(27) == "32"


@given(st.integers(0, 10**80), st.sampled_from([11, 17, 27]))
def test_the_text_of_a_number_is_converted_to_the_number(number: int, base: int) -> None:
    text = convert_from_decimal(number, base)
    assert convert_to_decimal(text, base) == number


@given(st.text("23456789ABCDEFGHJKLMNPQRSTU", min_size=1, max_size=40))
def test_a_converted_text_loses_only_its_leading_zeros(text: str) -> None:
    assert convert_from_decimal(convert_to_decimal(text, 27)) == (text.lstrip("2") or "2")
