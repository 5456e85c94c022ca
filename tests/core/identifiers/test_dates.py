from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.identifier_strategies import END, dates
from support.vectors import load

from flask_ibi_archive.core.identifiers.dates import format_date, format_decimal, parse_decimal

CASES = load("core/dates.json")


@for_each(("decimal", "text"), CASES["a date is written in utc"])
def test_a_date_is_written_in_utc(decimal: str, text: str) -> None:
    assert format_date(parse_decimal(decimal)) == text


@pytest.mark.parametrize("date", [Fraction(END), Fraction(-62135596801), Fraction(10) ** 90])
def test_a_date_outside_the_years_is_not_written(date: Fraction) -> None:
    with pytest.raises(ValueError, match="years 0001 to 9999"):
        format_date(date)


@for_each(
    ("date", "text"),
    [
        (Fraction(12875876464, 10), "1287587646.4"),
        (Fraction(1287587646), "1287587646"),
        (Fraction(0), "0"),
        (Fraction(-1, 2), "-0.5"),
        (Fraction(1, 8), "0.125"),
        (Fraction(1, 10**9), "0.000000001"),
    ],
)
def test_the_decimal_text_is_exact_and_short(date: Fraction, text: str) -> None:
    assert format_decimal(date) == text
    assert parse_decimal(text) == date


@pytest.mark.rule("G6-14")
@given(st.integers(), st.integers(0, 40))
def test_the_decimal_text_of_a_date_is_parsed_to_the_date(number: int, places: int) -> None:
    date = Fraction(number, 10**places)
    text = format_decimal(date)
    assert parse_decimal(text) == date
    assert Fraction(text) == date
    assert "." not in text or not text.endswith("0")


@given(dates())
def test_the_text_for_people_contains_the_fraction(date: Fraction) -> None:
    digits = format_decimal(date).partition(".")[2]
    assert format_date(date)[19:] == (f".{digits}Z" if digits else "Z")


@pytest.mark.parametrize(
    "date",
    [Fraction(1, 3), Fraction(1, 10**9 * 7), Fraction(1, 2**256), Fraction(1, 10**5000)],
    ids=["1/3", "1/(7e9)", "1/2**256", "1/1e5000"],
)
def test_a_fraction_with_too_many_digits_is_refused(date: Fraction) -> None:
    for write in (format_decimal, format_date):
        with pytest.raises(ValueError, match="cannot be written with"):
            write(date)


@pytest.mark.parametrize("places", [254, 255])
def test_a_fraction_of_255_places_is_written(places: int) -> None:
    for date in (Fraction(1, 10**places), Fraction(1, 2**places), Fraction(1, 5**places)):
        text = format_decimal(date)
        assert len(text) == len("0.") + places
        assert parse_decimal(text) == date


@for_each("text", CASES["a text that is not a decimal number is refused"])
def test_a_text_that_is_not_a_decimal_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a decimal number such as"):
        parse_decimal(text)


def test_zeros_that_a_database_adds_change_nothing() -> None:
    assert parse_decimal("1287587646.4000000") == parse_decimal("1287587646.4")


def test_the_error_names_the_limit_of_a_fraction() -> None:
    with pytest.raises(ValueError, match="cannot be written with 255 decimal digits"):
        format_decimal(Fraction(1, 3))


def test_a_decimal_text_has_at_most_510_characters() -> None:
    assert parse_decimal("0" * 509 + "7") == 7
    with pytest.raises(ValueError, match=r"^'0{80}' is not a decimal number such as"):
        parse_decimal("0" * 510 + "7")
