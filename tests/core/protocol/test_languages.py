"""Tests languages, and the choice among them by Accept-Language (RFC 4647, RFC 9110)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.vectors import load

from flask_ibi_archive.core.protocol.languages import (
    COUNTRIES,
    LANGUAGES,
    MAX_RANGES,
    LanguageRange,
    find_language,
    is_first_choice,
    parse_accept_language,
    parse_language,
)

CASES = load("core/languages.json")

CODES = load("codes.json")


@pytest.mark.rule("RA-01")
def test_the_codes_are_those_of_appendix_a():
    assert CODES["languages"].split() == sorted(LANGUAGES)
    assert CODES["countries"].split() == sorted(COUNTRIES)


@pytest.mark.parametrize("text", ["pt", "en", "pt-BR", "en-US"])
def test_a_language_is_a_code_with_or_without_a_country(text):
    assert parse_language(text) == text


@pytest.mark.rule("RA-01")
@for_each(("text", "hint"), CASES["another text is refused with the right spelling"])
def test_another_text_is_refused_with_the_right_spelling(text, hint):
    with pytest.raises(ValueError) as caught:
        parse_language(text)
    message = str(caught.value)
    assert hint in message
    assert message.isprintable()
    assert message.isascii()


EXAMPLES = load("resolution/examples.json")


def read(header: str | None) -> list[list[str | float]]:
    return [[language.tag, language.quality] for language in parse_accept_language(header)]


def find(header: str, available: str) -> str | None:
    return find_language(parse_accept_language(header), available.split())


@pytest.mark.rule("R62-03")
def test_the_ranges_of_a_header_are_sorted_by_weight():
    for header, ranges in CASES["the ranges of a header are sorted by weight"]:
        assert read(header) == ranges, header


def test_a_malformed_range_is_ignored():
    for part in CASES["a malformed range is ignored"]:
        assert read(part) == [], part
        assert read(f"en;q=0.5,{part},fr") == [["fr", 1], ["en", 0.5]], part


def test_the_number_of_ranges_is_limited():
    header = ",".join(f"en-{number:03}" for number in range(MAX_RANGES + 20))
    assert [tag for tag, _ in read(header)] == header.split(",")[:MAX_RANGES]
    header = ",".join(f"en-{number:03}" for number in range(3 * MAX_RANGES))
    assert [tag for tag, _ in read(header)] == header.split(",")[:MAX_RANGES]
    assert len(read("pt," * 100_000)) == MAX_RANGES
    assert read("," * 100_000 + "pt") == []


@pytest.mark.rule("R61-06")
def test_the_language_that_suits_best_is_found():
    for header, available, found in CASES["the language that suits best is found"]:
        assert find(header, available) == found, (header, available)
        assert find(header, " ".join(reversed(available.split()))) == found, (header, available)


@pytest.mark.rule("R61-06")
def test_the_readers_of_section_8_get_portuguese():
    for example in EXAMPLES:
        assert find(example["accept_language"], "en pt") == "pt"


def test_the_first_choice_is_exactly_the_first_range():
    for header, tag, best in CASES["the first choice is exactly the first range"]:
        assert is_first_choice(parse_accept_language(header), tag) is best, (header, tag)


# --- properties ----------------------------------------------------------------------------------

PREFERRED = st.sampled_from(["pt", "en", "es"])
OFFERED = st.builds(
    "".join, st.tuples(PREFERRED, st.sampled_from(["", "", "-BR", "-PT", "-GB", "-US"]))
)
TAGS = st.one_of(OFFERED, OFFERED.map(str.upper), st.sampled_from(["*", "pt-Latn-BR", "en-x-a"]))
QUALITIES = st.sampled_from([0.0, 0.1, 0.5, 1.0])
RANGES = st.lists(st.builds(LanguageRange, TAGS, QUALITIES), max_size=5).map(
    lambda ranges: tuple(sorted(ranges, key=lambda language: -language.quality))
)
OFFERS = st.frozensets(OFFERED, max_size=5)


@given(RANGES)
def test_formatted_ranges_are_parsed_again(ranges):
    header = ", ".join(f"{language.tag};q={language.quality:g}" for language in ranges)
    assert parse_accept_language(header) == ranges


@given(
    st.text()
    | st.lists(st.sampled_from(["pt", "-", "BR", ";", "q=", "0.5", ",", "*"])).map("".join)
)
def test_every_header_is_accepted(header):
    ranges = parse_accept_language(header)
    qualities = [language.quality for language in ranges]
    assert qualities == sorted(qualities, reverse=True)
    assert all(0 <= quality <= 1 for quality in qualities)


@given(RANGES, OFFERS)
def test_a_found_language_is_available_and_wanted(ranges, available):
    found = find_language(ranges, available)
    if found is not None:
        wanted = {language.tag.lower()[:2] for language in ranges if language.quality > 0}
        assert found in available
        assert found[:2] in wanted


@given(st.lists(OFFERED, min_size=1, max_size=3), OFFERS)
def test_another_language_is_only_found_without_the_preferred_one(tags, available):
    best = tags[0][:2]
    if any(tag.startswith(best) for tag in available):
        assert find_language([LanguageRange(tag) for tag in tags], available).startswith(best)


@given(RANGES, OFFERS)
def test_the_first_choice_is_found_whatever_else_is_available(ranges, available):
    for tag in available:
        if is_first_choice(ranges, tag):
            assert find_language(ranges, available) == tag


@given(RANGES, OFFERS, OFFERED)
def test_removing_another_language_changes_nothing(ranges, available, other):
    found = find_language(ranges, available)
    if other != found:
        assert find_language(ranges, available - {other}) == found


@given(RANGES, OFFERS)
def test_a_refused_language_is_never_found(ranges, available):
    found = find_language(ranges, available)
    qualities = {
        language.quality for language in ranges if language.tag.lower() == (found or "").lower()
    }
    assert qualities != {0.0}
