from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.vectors import load

from flask_ibi_archive.identifiers import convert_from_decimal, convert_to_decimal

VECTORS = load("identifiers.json")
BASES = {"ipv4": 11, "ipv6": 17}


@pytest.mark.parametrize(("text", "kind", "number"), VECTORS["to_decimal"])
def test_addresses_of_table_7_2_become_their_numbers(text: str, kind: str, number: int) -> None:
    assert convert_to_decimal(text, BASES[kind]) == number
    assert convert_from_decimal(number, BASES[kind]) == text


@pytest.mark.parametrize(("number", "text"), VECTORS["from_decimal"])
def test_numbers_of_table_7_3_become_their_graphemes(number: int, text: str) -> None:
    assert convert_from_decimal(number) == text
    assert convert_to_decimal(text, 27) == number


def test_graphemes_of_table_7_6_count_from_two_to_u() -> None:
    assert "".join(map(convert_from_decimal, range(27))) == "23456789ABCDEFGHJKLMNPQRSTU"
    assert convert_from_decimal(27) == "32"


@given(st.integers(0, 10**80), st.sampled_from([11, 17, 27]))
def test_the_text_of_a_number_is_converted_to_the_number(number: int, base: int) -> None:
    text = convert_from_decimal(number, base)
    assert convert_to_decimal(text, base) == number
    assert convert_to_decimal(text.swapcase(), base) == number


@given(st.text("23456789ABCDEFGHJKLMNPQRSTU", min_size=1, max_size=40))
def test_zeros_in_front_are_all_that_a_text_loses(text: str) -> None:
    assert convert_from_decimal(convert_to_decimal(text, 27)) == (text.lstrip("2") or "2")


@for_each(
    ("text", "base", "character"),
    [
        ("30", 27, "'0'"),
        ("O", 27, "'O'"),
        ("I", 27, "'I'"),
        ("V", 27, "'V'"),
        ("W", 27, "'W'"),
        ("1a", 11, "'a'"),
        ("1g", 17, "'g'"),
        ("1.2", 17, "'.'"),
        ("ſ", 27, "'ſ'"),
        ("\u212a", 27, "'\u212a'"),
        ("٣", 11, "'٣'"),
        ("3\n", 27, r"'\\n'"),
    ],
)
def test_a_character_that_is_not_a_digit_is_named(text: str, base: int, character: str) -> None:
    with pytest.raises(ValueError, match=f"^{character} is not a digit of base {base}"):
        convert_to_decimal(text, base)


def test_an_empty_text_is_not_a_number() -> None:
    with pytest.raises(ValueError, match="empty"):
        convert_to_decimal("", 27)


def test_a_negative_number_has_no_text() -> None:
    with pytest.raises(ValueError, match="-1 is negative"):
        convert_from_decimal(-1)


def test_other_bases_are_refused() -> None:
    with pytest.raises(ValueError, match="base 10 is unknown"):
        convert_to_decimal("1", 10)
    with pytest.raises(ValueError, match="base 16 is unknown"):
        convert_from_decimal(1, 16)
