"""No parser takes more than linear time for any text (tests/benchmarks/parsers.py has figures)."""

from __future__ import annotations

import time

from support.cases import for_each
from support.parsers import PARSERS, Parser, hostile_texts, try_to_parse

SHORT, FACTOR = 1000, 4
#: Seconds below which a long text shows nothing: it is read too fast to be compared.
TOO_FAST = 0.001
#: Linear time grows by the factor, quadratic time by its square.
MOST = 9
RUNS = 4


def time_of(parse: Parser, text: str, runs: int = 1) -> float:
    """Return the CPU seconds of a parser for a text, the least of some runs."""
    taken = []
    for _ in range(runs):
        begun = time.process_time()
        try_to_parse(parse, text)
        taken.append(time.process_time() - begun)
    return min(taken)


def find_steep_text(parse: Parser) -> str | None:
    """Return a text for which the time of a parser grows faster than the text, None where none
    does.
    """
    for short, long in zip(hostile_texts(SHORT), hostile_texts(FACTOR * SHORT), strict=True):
        if time_of(parse, long) > TOO_FAST and (
            time_of(parse, long, RUNS) > MOST * time_of(parse, short, RUNS)
        ):
            return short
    return None


@for_each("name", PARSERS)
def test_the_time_of_a_parser_grows_as_the_text_does(name: str) -> None:
    assert find_steep_text(PARSERS[name]) is None


def test_a_quadratic_parser_is_found() -> None:
    def count_pairs(text: str) -> int:
        return sum(text.count(text[place:]) for place in range(0, len(text), 2))

    assert find_steep_text(count_pairs) is not None
