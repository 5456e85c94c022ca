"""Exact dates, their texts, and the dates of new suffixes ([G] 6, Algorithm 4)."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.identifier_strategies import GRANULARITIES, granularities
from support.vectors import load

from flask_ibi_archive.core.identifiers.dates import (
    find_granularity,
    format_decimal,
    next_suffix_dates,
    parse_decimal,
    parse_granularity,
    wait_until,
)
from flask_ibi_archive.core.identifiers.grammar import build_repository_suffix


@pytest.mark.rule("G6-14")
@given(st.integers(), st.integers(0, 40))
def test_the_decimal_text_of_a_date_is_parsed_to_the_date(number: int, places: int) -> None:
    date = Fraction(number, 10**places)
    text = format_decimal(date)
    assert parse_decimal(text) == date
    assert Fraction(text) == date
    assert "." not in text or not text.endswith("0")


@pytest.mark.parametrize("places", [254, 255])
def test_a_fraction_of_255_places_is_written(places: int) -> None:
    for date in (Fraction(1, 10**places), Fraction(1, 2**places), Fraction(1, 5**places)):
        text = format_decimal(date)
        assert len(text) == len("0.") + places
        assert parse_decimal(text) == date


# --- the temporal distributor -------------------------------------------------------------------


def next_suffix_date(
    now: Fraction, last: Fraction | None, granularity: Fraction
) -> tuple[Fraction, Fraction]:
    [date], wait = next_suffix_dates(now, last, granularity, 1)
    return date, wait


TABLE_6_2 = load("distributor.json")

NOW = Fraction(1287588115996, 1000)
lasts = st.one_of(
    st.none(),
    st.builds(
        lambda date, grid: date // grid * grid,
        st.integers(-(10**10), 10**10).map(lambda number: NOW + Fraction(number, 10**6)),
        granularities,
    ),
)
nows = st.integers(0, 120 * 10**6).map(lambda number: NOW + Fraction(number, 10**6))


def follow_algorithm_4(
    now: Fraction, last: Fraction | None, granularity: Fraction
) -> tuple[Fraction, Fraction]:
    """Compute the date with the slow algorithm exactly as it is in the document."""

    def floor(date: Fraction, grid: Fraction) -> Fraction:
        return grid * (date // grid)

    rounded = floor(now, granularity)
    last = rounded - granularity if last is None else floor(last, granularity)
    creation = max(last + granularity, rounded)
    answer, grid = creation, granularity
    while grid < 60:
        grid = Fraction(60) if grid == 1 else grid * 10
        if floor(creation, grid) <= last:
            break
        answer = floor(creation, grid)
    return answer, max(creation - now, Fraction(0))


@pytest.mark.rule("G6-16", "G6-22")
def test_table_6_2_is_reproduced() -> None:
    last = None
    granularity = parse_granularity(TABLE_6_2["granularity"])
    for row in TABLE_6_2["rows"]:
        now = Fraction(row["now"])
        last, wait = next_suffix_date(now, last, granularity)
        assert last == Fraction(row["date"])
        assert wait == max(Fraction(row["creation"]) - now, 0)
        assert build_repository_suffix(last) == row["suffix"]


@pytest.mark.rule("G6-16", "G6-17", "G6-18", "G6-20")
@given(nows, lasts, granularities)
def test_each_date_is_that_of_the_algorithm_in_the_document(
    now: Fraction, last: Fraction | None, granularity: Fraction
) -> None:
    assert next_suffix_date(now, last, granularity) == follow_algorithm_4(now, last, granularity)


@pytest.mark.rule("G5-03", "G6-23")
@given(st.lists(st.tuples(nows, granularities), min_size=2, max_size=30), lasts)
def test_dates_increase_with_any_clock_and_granularity(
    requests: list[tuple[Fraction, Fraction]], last: Fraction | None
) -> None:
    for now, granularity in requests:
        date, wait = next_suffix_date(now, last, granularity)
        assert last is None or date > last
        assert wait >= 0
        assert date <= now + wait, "dated in the future of its hand-out"
        assert date % granularity == 0
        last = date


@pytest.mark.rule("G6-23")
@given(nows, lasts, granularities, st.integers(1, 40))
def test_many_dates_at_once_are_those_of_repeated_calls(
    now: Fraction, last: Fraction | None, granularity: Fraction, count: int
) -> None:
    dates, wait = next_suffix_dates(now, last, granularity, count)
    single_wait = Fraction(0)
    expected: list[Fraction] = []
    for _ in range(count):
        last, single_wait = next_suffix_date(now, last, granularity)
        expected.append(last)
    assert dates == expected
    assert wait == single_wait, "all wait until the last date has come"


def test_the_first_date_of_a_prefix_is_the_present_step() -> None:
    """Without a last date, Algorithm 4 allows no earlier step, even if its suffix is shorter."""
    for granularity in GRANULARITIES:
        now = 600 + granularity
        assert next_suffix_date(now, None, granularity) == (now, 0), granularity


@given(nows, lasts, granularities)
def test_no_date_is_earlier_than_the_present_minute(
    now: Fraction, last: Fraction | None, granularity: Fraction
) -> None:
    """Therefore the last date may be lost with an older database, if it is a minute old."""
    dates, _ = next_suffix_dates(now, last, granularity, 3)
    assert min(dates) >= now // 60 * 60


@given(
    nows,
    st.integers(0, 10**8).map(lambda number: Fraction(number, 10**6)),
    st.integers(1, 60),
    st.integers(1, 10**9).map(lambda number: Fraction(number, 10**6)),
)
def test_the_wait_is_long_enough_with_that_granularity(
    now: Fraction, age: Fraction, count: int, wait: Fraction
) -> None:
    granularity = find_granularity(count, wait)
    assert next_suffix_dates(now, now - age, granularity, count)[1] <= wait
    if granularity < 60:
        coarser = Fraction(60) if granularity == 1 else granularity * 10
        on_the_grid = now // coarser * coarser
        assert next_suffix_dates(on_the_grid, on_the_grid, coarser, count)[1] > wait


@given(st.integers(-(10**8), 10**8).map(lambda number: Fraction(number, 10**6)), st.integers(0, 60))
def test_a_wait_ends_at_the_moment_or_after_the_maximum(ahead: Fraction, max_wait: int) -> None:
    waits: list[float] = []
    wait_until(NOW + ahead, max_wait, lambda: NOW, waits.append)
    expected = min(float(ahead), max_wait)
    assert waits == ([expected] if expected > 0 else [])


@pytest.mark.parametrize(
    ("ahead", "max_wait", "seen", "waits"),
    [
        (8, 10, [7, 7], [8]),  # the clock was set back during the wait
        (8, 10, [-3592, -3592], [8]),
        (8, 10, [7.5, 8 - 1 / 32, 8], [8, 0.5, 1 / 32]),  # the clock is slow
        (10, 20, [9, 10], [10, 1]),  # at most a tenth of the wait is missing
        (8, 8.25, [7.5, 7.75], [8, 0.25]),  # not longer than the maximum
    ],
)
def test_a_slow_clock_is_waited_for_and_one_that_was_set_back_is_not(
    ahead: int, max_wait: float, seen: list[float], waits: list[float]
) -> None:
    times = iter([NOW, *(NOW + Fraction(later) for later in seen)])
    waited: list[float] = []
    wait_until(NOW + ahead, max_wait, lambda: next(times), waited.append)
    assert waited == waits
