"""Languages, and the choice among them by Accept-Language (RFC 4647, RFC 9110)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vectors import load

from flask_ibi_archive.core.protocol.languages import (
    COUNTRIES,
    LANGUAGES,
    MAX_RANGES,
    LanguageRange,
    find_language,
    is_first_choice,
    parse_accept_language,
)

CODES = load("codes.json")
PREFERRED = st.sampled_from(["pt", "en", "es"])
OFFERED = st.builds("{}{}".format, PREFERRED, st.sampled_from(["", "", "-BR", "-PT", "-GB", "-US"]))
TAGS = OFFERED | OFFERED.map(str.upper) | st.sampled_from(["*", "pt-Latn-BR", "en-x-a"])
RANGES = st.lists(
    st.builds(LanguageRange, TAGS, st.sampled_from([0.0, 0.1, 0.5, 1.0])), max_size=5
).map(lambda ranges: tuple(sorted(ranges, key=lambda language: -language.quality)))
OFFERS = st.frozensets(OFFERED, max_size=5)


@pytest.mark.rule("RA-01")
def test_the_codes_are_those_of_appendix_a() -> None:
    assert CODES["languages"].split() == sorted(LANGUAGES)
    assert CODES["countries"].split() == sorted(COUNTRIES)


def test_the_number_of_ranges_is_limited() -> None:
    for count in (MAX_RANGES + 20, 3 * MAX_RANGES):
        tags = [f"en-{number:03}" for number in range(count)]
        found = [language.tag for language in parse_accept_language(",".join(tags))]
        assert found == tags[:MAX_RANGES]
    assert len(parse_accept_language("pt," * 100_000)) == MAX_RANGES
    assert parse_accept_language("," * 100_000 + "pt") == ()


@pytest.mark.rule("R61-06")
@pytest.mark.parametrize("example", load("resolution/examples.json"))
def test_the_readers_of_section_8_get_portuguese(example: dict[str, str]) -> None:
    ranges = parse_accept_language(example["accept_language"])
    assert find_language(ranges, ["en", "pt"]) == "pt"


@given(RANGES)
def test_formatted_ranges_are_parsed_again(ranges: tuple[LanguageRange, ...]) -> None:
    header = ", ".join(f"{language.tag};q={language.quality:g}" for language in ranges)
    assert parse_accept_language(header) == ranges


@given(RANGES, OFFERS, OFFERED)
def test_a_found_language_is_available_wanted_and_not_refused(
    ranges: tuple[LanguageRange, ...], available: frozenset[str], other: str
) -> None:
    found = find_language(ranges, available)
    if found is not None:
        wanted = {language.tag.lower()[:2] for language in ranges if language.quality > 0}
        assert found in available
        assert found[:2] in wanted
        weights = {each.quality for each in ranges if each.tag.lower() == found.lower()}
        assert weights != {0.0}
    if other != found:
        assert find_language(ranges, available - {other}) == found
    for tag in available:
        if is_first_choice(ranges, tag):
            assert found == tag


@given(st.lists(OFFERED, min_size=1, max_size=3), OFFERS)
def test_another_language_is_only_found_without_the_preferred_one(
    tags: list[str], available: frozenset[str]
) -> None:
    if any(tag.startswith(tags[0][:2]) for tag in available):
        found = find_language([LanguageRange(tag) for tag in tags], available)
        assert found is not None
        assert found.startswith(tags[0][:2])
