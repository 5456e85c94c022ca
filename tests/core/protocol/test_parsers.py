"""Tests that no parser fails or needs more than linear time for a hostile text."""

from __future__ import annotations

import time

import pytest
from support.cases import for_each
from support.parsers import PARSERS, Parser, hostile_texts, try_to_parse

SHORT, FACTOR = 1000, 4
#: A time of fewer seconds is too short for a comparison.
TOO_FAST = 0.001
#: Linear time grows by FACTOR, and quadratic time by FACTOR * FACTOR; the limit is in between.
MOST = 9
RUNS = 4


def time_of(parse: Parser, text: str, runs: int = 1) -> float:
    """Return the CPU seconds that a parser needs for a text: the minimum of several runs."""
    taken = []
    for _ in range(runs):
        begun = time.process_time()
        try_to_parse(parse, text)
        taken.append(time.process_time() - begun)
    return min(taken)


def find_steep_text(parse: Parser) -> str | None:
    """Return a text for which a parser needs more than linear time, or None."""
    for short, long in zip(hostile_texts(SHORT), hostile_texts(FACTOR * SHORT), strict=True):
        if time_of(parse, long) > TOO_FAST and (
            time_of(parse, long, RUNS) > MOST * time_of(parse, short, RUNS)
        ):
            return short
    return None


@for_each("name", PARSERS)
def test_a_parser_accepts_a_hostile_text_or_raises_a_value_error(name: str) -> None:
    for text in hostile_texts(200):
        try_to_parse(PARSERS[name], text)


@pytest.mark.slow
@for_each("name", PARSERS)
def test_the_time_of_a_parser_grows_linearly(name: str) -> None:
    assert find_steep_text(PARSERS[name]) is None


@pytest.mark.slow
def test_a_quadratic_parser_is_found() -> None:
    def count_pairs(text: str) -> int:
        return sum(text.count(text[place:]) for place in range(0, len(text), 2))

    assert find_steep_text(count_pairs) is not None
