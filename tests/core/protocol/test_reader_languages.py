"""The choice among available languages by Accept-Language (RFC 4647, RFC 9110)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vectors import load

from flask_ibi_archive.core.protocol.languages import (
    MAX_RANGES,
    LanguageRange,
    find_language,
    is_first_choice,
    parse_accept_language,
)

EXAMPLES = load("resolution/examples.json")


def read(header: str | None) -> list[tuple[str, float]]:
    return [(language.tag, language.quality) for language in parse_accept_language(header)]


def find(header: str, available: str) -> str | None:
    return find_language(parse_accept_language(header), available.split())


@pytest.mark.rule("R62-03")
def test_the_ranges_of_a_header_are_sorted_by_weight():
    for header, ranges in [
        (None, []),
        ("", []),
        ("pt", [("pt", 1)]),
        # RFC 9110, 12.5.4
        ("da, en-gb;q=0.8, en;q=0.7", [("da", 1), ("en-gb", 0.8), ("en", 0.7)]),
        # [R] Table 6.7
        ("pt-br,fr;q=0.8,en;q=0.5,pt;q=0.3", [("pt-br", 1), ("fr", 0.8), ("en", 0.5), ("pt", 0.3)]),
        # by weight, then in their order
        ("en;q=0.5, pt, fr;q=0.5, es", [("pt", 1), ("es", 1), ("en", 0.5), ("fr", 0.5)]),
        ("*, pt;q=0.5", [("*", 1), ("pt", 0.5)]),
        ("pt;q=0, en", [("en", 1), ("pt", 0)]),
        ("pt;q=0.000, en;q=0.001, fr;q=1.000", [("fr", 1), ("en", 0.001), ("pt", 0)]),
        ("pt ; q=0.5 ,\ten\t;\tQ=0.8", [("en", 0.8), ("pt", 0.5)]),
        ("zh-Hant-TW, sr-Latn", [("zh-Hant-TW", 1), ("sr-Latn", 1)]),
        (",, pt ,,", [("pt", 1)]),
        ("pt;q=0.,en;q=1.", [("en", 1), ("pt", 0)]),
    ]:
        assert read(header) == ranges, header


def test_a_malformed_range_is_ignored():
    for part in [
        *(
            "pt;q=2",
            "pt;q=1.001",
            "pt;q=-1",
            "pt;q=0.1234",
            "pt;q=.5",
            "pt;q=",
            "pt;q=a",
            "pt;q=1e0",
        ),
        *("pt;q", "pt;", "pt;level=1", "pt;q=0.5;x=y", "pt q=0.5", "pt;q = 0.5", "pt;q=\u0661"),
        *(
            "p t",
            "pt_BR",
            "-pt",
            "pt-",
            "pt--BR",
            "9",
            "*-BR",
            "pt-*",
            "**",
            "portuguese",
            "p\u00ea",
        ),
        *(
            "pt\n",
            "pt\x00",
            "pt-BR" + "-x" * 20,
            "pt-" + "a" * 9,
            "q=0.5",
            ";q=0.5",
            '"pt"',
            "\udcf3",
        ),
    ]:
        assert read(part) == [], part
        assert read(f"en;q=0.5,{part},fr") == [("fr", 1), ("en", 0.5)], part


def test_the_number_of_ranges_is_limited():
    header = ",".join(f"en-{number:03}" for number in range(MAX_RANGES + 20))
    assert [tag for tag, _ in read(header)] == header.split(",")[:MAX_RANGES]
    header = ",".join(f"en-{number:03}" for number in range(3 * MAX_RANGES))
    assert [tag for tag, _ in read(header)] == header.split(",")[:MAX_RANGES]
    assert len(read("pt," * 100_000)) == MAX_RANGES
    assert read("," * 100_000 + "pt") == []


@pytest.mark.rule("R61-06")
def test_the_language_that_suits_best_is_found():
    for header, available, found in [
        ("pt", "en pt", "pt"),
        ("pt", "en", None),
        ("pt", "", None),
        ("", "pt", None),
        # the order of the ranges counts, not that of the available languages
        ("fr, pt, en", "en pt", "pt"),
        ("en;q=0.5, pt;q=0.9", "en pt", "pt"),
        # a longer range falls back
        ("pt-BR", "en pt", "pt"),
        ("pt-BR", "pt pt-BR", "pt-BR"),
        ("zh-Hant-TW", "en zh", "zh"),
        ("zh-Hant-CN-x-private1-private2", "zh", "zh"),
        ("zh-TW-x-private1", "zh-TW zh", "zh-TW"),
        ("zh-TW-x-private1", "zh-TW-x zh-TW", "zh-TW"),
        # all shorter ranges are tried before the next range
        ("pt-BR, en", "en pt", "pt"),
        # a range accepts longer languages, but the exact language is better
        ("pt", "en pt-BR", "pt-BR"),
        ("pt", "pt-PT pt-BR pt-AO", "pt-AO"),
        ("pt", "pt-BR pt", "pt"),
        ("pt, en", "en pt-BR", "pt-BR"),
        ("p", "pt pt-BR", None),
        # the same language in another country is better than another language
        ("pt-AO", "en pt-BR", "pt-BR"),
        ("pt-AO, en;q=0.9", "en pt-PT", "pt-PT"),
        ("en-US, pt;q=0.5", "pt en-GB", "en-GB"),
        ("es-ES", "es-MX", "es-MX"),
        ("pt-AO", "pt pt-BR pt-PT", "pt"),
        ("en, pt-AO", "en pt-BR", "en"),
        ("pt-AO, en", "es en", "en"),
        # of several countries: that of the range, one that the reader names, the first one
        ("zh-Hant-TW, zh-CN", "zh-CN zh-TW", "zh-TW"),
        ("pt-AO, en, pt-PT;q=0.1", "pt-BR pt-PT", "pt-PT"),
        ("pt, pt-PT;q=0.1", "pt-BR pt-PT", "pt-PT"),
        ("pt-AO", "pt-PT pt-BR", "pt-BR"),
        ("pt-AO, pt-BR;q=0", "pt-PT pt-BR", "pt-PT"),
        ("pt-AO, pt;q=0", "pt-BR en", None),
        # case does not matter
        ("PT-br", "pt-BR", "pt-BR"),
        ("Pt", "pt-BR", "pt-BR"),
        # "*" selects nothing
        ("*", "pt en", None),
        ("*, en;q=0.1", "pt en", "en"),
        ("fr, *;q=0.5", "pt en", None),
        # weight 0
        ("pt;q=0", "pt", None),
        ("pt;q=0", "pt-BR", None),
        ("en;q=0, pt", "en pt", "pt"),
        ("pt-BR;q=0, pt", "pt-BR", None),
        ("pt-BR;q=0, pt", "pt-BR pt-PT", "pt-PT"),
        ("pt-BR;q=0, pt", "pt pt-BR", "pt"),
        ("pt-BR, pt;q=0", "pt pt-BR", "pt-BR"),
        ("pt-BR, pt;q=0", "pt", None),
        ("pt, *;q=0", "pt-BR en", "pt-BR"),
        ("pt, pt;q=0", "pt", "pt"),
        # [R] Table 6.7
        ("pt-br,fr;q=0.8,en;q=0.5,pt;q=0.3", "en pt", "pt"),
        ("pt-br,fr;q=0.8,en;q=0.5,pt;q=0.3", "en fr", "fr"),
        ("pt-br,fr;q=0.8,en;q=0.5,pt;q=0.3", "es", None),
    ]:
        assert find(header, available) == found, (header, available)
        assert find(header, " ".join(reversed(available.split()))) == found, (header, available)


@pytest.mark.rule("R61-06")
def test_the_readers_of_section_8_get_portuguese():
    for example in EXAMPLES:
        assert find(example["accept_language"], "en pt") == "pt"


def test_the_first_choice_is_exactly_the_first_range():
    for header, tag, best in [
        ("pt, en", "pt", True),
        ("pt-br, pt", "pt-BR", True),
        ("en;q=0.5, pt", "pt", True),
        ("*, pt;q=0.5", "pt", True),
        ("pt, en", "en", False),
        ("pt", "pt-BR", False),
        ("pt-BR", "pt", False),
        ("pt;q=0", "pt", False),
        ("*", "pt", False),
        ("", "pt", False),
    ]:
        assert is_first_choice(parse_accept_language(header), tag) is best, (header, tag)


# --- properties ----------------------------------------------------------------------------------

LANGUAGES = st.sampled_from(["pt", "en", "es"])
OFFERED = st.builds(
    "".join, st.tuples(LANGUAGES, st.sampled_from(["", "", "-BR", "-PT", "-GB", "-US"]))
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
