"""The grammars of [G] Tables 6.1 and 7.1, and the generation and decoding of both forms."""

from __future__ import annotations

import ipaddress
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import identifier_strategies as some
from support.vectors import load

from flask_ibi_archive.core.identifiers import grammar
from flask_ibi_archive.core.identifiers.dates import parse_decimal
from flask_ibi_archive.core.identifiers.grammar import IBIP, LEGACY, REPOSITORY, Form
from flask_ibi_archive.core.identifiers.parse import decode_identifier, parse_identifier

VECTORS = load("identifiers.json")
LONGEST_HOST = "a" * (255 - len("/2009/02.16.17.46") - len(".br")) + ".br"
DATE = Fraction(1234806360)


@pytest.mark.rule("G6-02", "G6-03")
@given(some.words, some.last_words)
def test_words_of_the_grammar_have_no_fault(word: str, last_word: str) -> None:
    assert grammar.find_word_fault(word) is None
    assert grammar.find_word_fault(last_word, last=True) is None


@pytest.mark.rule("G6-02")
@given(st.text("aZ9- ſ", max_size=6), st.booleans())
def test_fault_and_pattern_agree_on_a_word(word: str, last: bool) -> None:
    text = f"{word}/b/2010/08.25.12.38" if last else f"b/{word}/2010/08.25.12.38"
    assert (grammar.find_word_fault(word, last=last) is None) == bool(REPOSITORY.fullmatch(text))


@pytest.mark.rule("G7-01")
def test_an_identifier_has_only_the_characters_of_the_tables() -> None:
    for character in map(chr, range(0x250)):
        alphanumeric = character.isascii() and character.isalnum()
        grapheme = character.isascii() and character.upper() in some.GRAPHEMES
        for pattern, text, is_right in (
            (IBIP, f"{character}W/8", grapheme),
            (IBIP, f"8W/{character}", grapheme),
            (IBIP, f"8{character}/8", character in "wWxX"),
            (LEGACY, f"Z{character}/{character}", alphanumeric),
            (REPOSITORY, f"a{character}a/b/2010/08.25.12.38", alphanumeric or character in "-."),
            (REPOSITORY, f"a/b/201{character}/08.25.12.38", character in "0123456789"),
        ):
            assert bool(pattern.fullmatch(text)) == is_right, text


@given(st.text("8WXZaz/", max_size=12))
def test_no_text_is_both_ibip_and_legacy(text: str) -> None:
    assert not (IBIP.fullmatch(text) and LEGACY.fullmatch(text))


@given(some.addresses)
def test_an_address_has_one_canonical_text(text: str) -> None:
    canonical, address = grammar.canonical_address(text), ipaddress.ip_address(text)
    assert ipaddress.ip_address(canonical) == (getattr(address, "ipv4_mapped", None) or address)
    assert grammar.canonical_address(address.exploded.upper()) == canonical == canonical.lower()
    assert ":" not in canonical or "." not in canonical


# --- both forms ----------------------------------------------------------------------------------


@pytest.mark.rule("G5-06", "G5-07", "G7-06")
@pytest.mark.parametrize("row", VECTORS["generated"])
def test_the_identifiers_of_the_documents_are_built(row: dict[str, Any]) -> None:
    date = parse_decimal(row["unix"])
    name = grammar.build_repository_name(row["host"], row["port"], date)
    assert (name.form, name.text) == (Form.REP, row["rep"])
    assert name.prefix == grammar.build_repository_prefix(row["host"], row["port"])
    assert name.suffix == grammar.build_repository_suffix(date)
    assert some.build_ibip(row["ip"], row["ip_port"], date).text == row["ibip"]


@pytest.mark.rule("G5-02", "G7-08")
@given(some.hosts, some.addresses, some.ports, some.dates())
def test_a_built_identifier_is_canonical_and_decodes_to_the_same_values(
    host: str, ip: str, port: int, date: Fraction
) -> None:
    name = grammar.build_repository_name(host, port, date)
    assert parse_identifier(name.text) == name
    found = decode_identifier(name)
    assert (found.host, found.ip, found.port, found.date) == (host.lower(), None, port, date)
    ibip = some.build_ibip(ip, port, date)
    assert parse_identifier(ibip.text) == ibip
    found, address = decode_identifier(ibip), grammar.canonical_address(ip)
    assert (found.host, found.ip, found.port, found.date) == (None, address, port, date)


@pytest.mark.parametrize(("rep", "ibip"), VECTORS["same_item"])
def test_both_forms_of_an_item_have_the_same_date(rep: str, ibip: str) -> None:
    dates = {decode_identifier(parse_identifier(text)).date for text in (rep, ibip)}
    assert len(dates) == 1


def test_a_repository_name_has_at_most_255_characters() -> None:
    assert len(grammar.build_repository_name(LONGEST_HOST, 80, DATE).text) == 255
    with pytest.raises(ValueError, match=r"has 239 characters; .* at most 238 characters"):
        grammar.check_host("a" + LONGEST_HOST)
    for port, date in ((81, DATE), (80, DATE + 1), (80, DATE + Fraction(1, 10))):
        with pytest.raises(ValueError, match=r"^identifier 'br/a{37}'... would have 2(58|60) char"):
            grammar.build_repository_name(LONGEST_HOST, port, date)


@pytest.mark.rule("G5-02")
def test_different_addresses_and_ports_have_different_prefixes() -> None:
    parts = ["0", "1", "10", "100", "255"]
    ips = [".".join(four) for four in product(parts, repeat=4)] + ["::", "::1", "0:1:2:3:4:5:6:7"]
    ports = (1, 80, 800, 801, 65535)
    prefixes = {grammar.build_ibip_prefix(ip, port) for ip in ips for port in ports}
    assert len(prefixes) == len(ips) * len(ports)


# --- numbers in the bases 11, 17 and 27 ----------------------------------------------------------


@pytest.mark.rule("G7-11", "G7-12")
@pytest.mark.parametrize(
    ("text", "base", "number"),
    [
        *((text, {"ipv4": 11, "ipv6": 17}[kind], n) for text, kind, n in VECTORS["to_decimal"]),
        *((text, 27, number) for number, text in VECTORS["from_decimal"]),
    ],
)
def test_the_numbers_of_tables_7_2_and_7_3_are_converted(text: str, base: int, number: int) -> None:
    assert grammar.convert_to_decimal(text, base) == number
    assert grammar.convert_from_decimal(number, base) == text


@pytest.mark.rule("G7-04", "G7-12")
def test_graphemes_of_table_7_6_count_from_two_to_u() -> None:
    assert "".join(map(grammar.convert_from_decimal, range(27))) == "23456789ABCDEFGHJKLMNPQRSTU"
    assert [grammar.convert_from_decimal(number) for number in (27, 800)] == ["32", "34K"]


@given(st.integers(0, 10**80), st.sampled_from([11, 17, 27]), st.integers(0, 3))
def test_a_number_is_converted_back_without_leading_zeros(n: int, base: int, zeros: int) -> None:
    text = grammar.convert_from_decimal(n, base)
    zero = grammar.convert_from_decimal(0, base)
    assert grammar.convert_to_decimal(zero * zeros + text, base) == n
    assert n == 0 or not text.startswith(zero)
