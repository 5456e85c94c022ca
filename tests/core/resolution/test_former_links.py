"""The meanings of a requested URL that is no persistent URL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vectors import load

from flask_ibi_archive.core.resolution.former_links import MAX_ENDS, find_former_links, is_named
from flask_ibi_archive.core.resolution.persistent_url import parse_persistent_target

#: The cases of the tests below.
CASES = load("resolution/former_links.json")

BASE = "http://old.example.org"


def meanings(target: str, *bases: str) -> list[list[str]]:
    """Return the alias and the rest of each meaning."""
    return [[link.alias.text, link.rest] for link in find_former_links(target, bases)]


@pytest.mark.rule("FI-3")
@pytest.mark.parametrize(
    ("target", "expected"), CASES["the longest identifier is the first meaning"]
)
def test_the_longest_identifier_is_the_first_meaning(
    target: str, expected: list[list[str]]
) -> None:
    assert meanings(target) == expected


@pytest.mark.parametrize(("target", "expected"), CASES["the whole url may be an address"])
def test_the_whole_url_may_be_an_address(target: str, expected: list[list[str]]) -> None:
    assert meanings(target, BASE) == expected


def test_each_base_is_tried() -> None:
    bases = (BASE, f"{BASE}/repository")
    assert meanings("/1?x", *bases) == [
        [f"{BASE}/1?x", ""],
        [f"{BASE}/repository/1?x", ""],
        [f"{BASE}/1", "?x"],
        [f"{BASE}/repository/1", "?x"],
    ]


def test_a_modifier_stands_for_a_persistent_url() -> None:
    link = find_former_links("/hdl:1/2!:(oai_dc)/a.xml?x=1", [])[-1]
    read = parse_persistent_target(f"/{link.wanted.ibi}!:(oai_dc)/a.xml?x=1")
    assert link.wanted == read
    # whatever follows, the placeholder is not read as a part of a repository name
    link = find_former_links("/hdl:1/2/2009/02.16.17.46", [])[-1]
    assert (link.rest, link.wanted.path) == ("/2009/02.16.17.46", "/2009/02.16.17.46")


@pytest.mark.parametrize("sign", ["!", "+", ":", "/"])
def test_the_number_of_meanings_is_limited(sign: str) -> None:
    target = f"/hdl:1/2{f'x{sign}' * 4000}"
    assert len(find_former_links(target, [BASE])) <= 2 * MAX_ENDS


@given(
    st.one_of(st.just("/"), st.sampled_from(["/doi:", "/hdl:1/", "/ark:/12345/", "/urn:nbn:br:"])),
    st.text("aA1/!+:()%?&=#.-é\0\ud800 ", max_size=40),
)
def test_any_target_is_accepted(start: str, rest: str) -> None:
    for link in find_former_links(start + rest, [BASE]):
        assert link.alias.text.startswith(BASE) or is_named(start)
        # a slash at the end of the path belongs to no alias, and may be gone
        path, _, query = link.rest.partition("?")
        assert path in start + rest
        assert (start + rest).endswith(query)
