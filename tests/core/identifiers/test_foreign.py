"""Identifiers of other systems, and former addresses (FI-1)."""

from __future__ import annotations

import string
from contextlib import suppress

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from support.identifier_strategies import ibips, legacies, repository_names
from support.vectors import load

from flask_ibi_archive.core.identifiers.foreign import (
    MAX_FOREIGN,
    ForeignIdentifier,
    ForeignKind,
    parse_foreign,
    parse_foreign_path,
)
from flask_ibi_archive.errors import IdentifierError

PRINTED = load("foreign_identifiers.json")
SCHEMES = {
    ForeignKind.HANDLE: "hdl:",
    ForeignKind.DOI: "doi:10.",
    ForeignKind.ARK: "ark:",
    ForeignKind.URN: "urn:",
    ForeignKind.ADDRESS: "http",
}

_rest = st.text(string.ascii_letters + string.digits + ".-_/:()<>;%?é", min_size=1, max_size=12)
_naans = st.text("0123456789bcdfghjkmnpqrstvwxz", min_size=5, max_size=9)
_names = st.text(string.ascii_letters + string.digits + "=~*+@_$./-", min_size=1, max_size=12)
_numbers = st.from_regex(r"\A[0-9]{1,5}(\.[0-9]{1,5}){0,2}\Z")
_registrants = st.from_regex(r"\A[1-9][0-9]{3,5}(\.[0-9]{1,3})?\Z")
_paths = st.text(string.ascii_letters + string.digits + "/-._~!$'()*,;:@&=+%é[]", max_size=15)

#: Texts of each kind in the spellings that people write.
spellings = st.one_of(
    st.builds("{}{}/{}".format, st.sampled_from(["hdl:", "HDL:"]), _numbers, _rest),
    st.builds(
        "{}10.{}/{}".format,
        st.sampled_from(["", "doi:", "DOI ", "hdl:", "https://doi.org/", "dx.doi.org/"]),
        _registrants,
        _rest,
    ),
    st.builds(
        "{}{}/{}".format,
        st.sampled_from(["ark:", "ark:/", "ARK:/", "https://n2t.net/ark:", "http://x.org/ark:/"]),
        _naans,
        _names,
    ),
    st.builds("{}:nbn:{}-{}".format, st.sampled_from(["urn", "URN"]), st.just("br"), _rest),
    st.builds(
        "{}://{}/{}".format,
        st.sampled_from(["http", "https", "HTTP"]),
        st.sampled_from(["old.example.org", "Old.Example.org:80", "x:8080", "[::1]", "bücher.de"]),
        st.builds("{}{}".format, _paths, st.one_of(st.just(""), _paths.map("?{}".format))),
    ),
)


def read(text: str) -> ForeignIdentifier:
    """Return the identifier in a text; skip examples that are none."""
    try:
        return parse_foreign(text)
    except IdentifierError:
        assume(False)
        raise


@pytest.mark.rule("FI-1")
@pytest.mark.parametrize("row", PRINTED)
def test_each_printed_spelling_is_read(row: dict[str, str]) -> None:
    identifier = parse_foreign(row["spelling"])
    assert identifier.text == row["canonical"]
    assert parse_foreign(row["canonical"]) == identifier
    assert row["canonical"].startswith(SCHEMES[identifier.kind])


def test_a_text_that_is_too_long_is_refused() -> None:
    longest = "hdl:1/" + "x" * (MAX_FOREIGN - 6)
    assert parse_foreign(longest).text == longest
    for text in (f"{longest}x", "http://x/" + "é" * 500, "x" * 1_000_000, "10.1000/" * 100_000):
        with pytest.raises(IdentifierError, match="at most 2048 are allowed"):
            parse_foreign(text)


@pytest.mark.rule("FI-1")
@given(spellings)
def test_the_canonical_text_parses_to_itself(text: str) -> None:
    identifier = read(text)
    assert parse_foreign(identifier.text) == identifier
    assert identifier.text.startswith(SCHEMES[identifier.kind])
    assert identifier.text.isprintable()
    assert " " not in identifier.text


@given(spellings, spellings)
@example("hdl:1/a", "doi:10.1000/a")
def test_digests_are_equal_if_and_only_if_the_folded_texts_are(one: str, other: str) -> None:
    first, second = read(one), read(other)
    # Only these changes of a text keep the identifier.
    same = first.kind is second.kind and _loose(first) == _loose(second)
    if first.digest == second.digest:
        assert same
    if first == second:
        assert first.digest == second.digest


def _loose(identifier: ForeignIdentifier) -> str:
    """Return a text that is the same for all spellings, and for some other identifiers too."""
    text = identifier.text.lower().removeprefix("https:").removeprefix("http:")
    return "".join(one for one in text if one.isalnum())


@pytest.mark.rule("FI-1")
@given(st.sampled_from(["", "doi:", "hdl:", "ark:", "urn:", "http://"]), st.text(max_size=40))
@example("", "10.1000/182")
def test_a_random_text_never_becomes_an_identifier_of_a_wrong_kind(scheme: str, rest: str) -> None:
    with suppress(IdentifierError):
        assert parse_foreign(scheme + rest).kind is _find_kind(scheme + rest)


def _find_kind(text: str) -> ForeignKind:
    """Return the only kind that a text without the host of a resolver can have."""
    lower = text.lower()
    if lower.startswith(("http://", "https://")):
        return ForeignKind.ARK if "/ark:" in lower else ForeignKind.ADDRESS
    if lower.startswith(("doi", "10.", "hdl:10.")):
        return ForeignKind.DOI
    return ForeignKind(lower[:3])


@given(st.one_of(repository_names(), ibips, legacies))
def test_an_ibi_is_no_foreign_identifier(text: str) -> None:
    with pytest.raises(IdentifierError):
        parse_foreign(str(text))


@given(st.one_of(st.text(max_size=40), spellings))
def test_a_random_path_is_never_an_address(text: str) -> None:
    with suppress(IdentifierError):
        assert parse_foreign_path(text).kind is not ForeignKind.ADDRESS
