from __future__ import annotations

import string
from contextlib import suppress
from hashlib import sha256

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from support.cases import for_each
from support.identifier_strategies import ibips, legacies, repository_names
from support.vectors import load

from flask_ibi_archive.core.identifiers.foreign import (
    MAX_FOREIGN,
    ForeignIdentifier,
    ForeignKind,
    parse_address,
    parse_foreign,
    parse_foreign_path,
)
from flask_ibi_archive.errors import IdentifierError

CASES = load("core/foreign.json")

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
@for_each(
    ("source", "spelling", "canonical"),
    [(f"{row['system']}: {row['source']}", row["spelling"], row["canonical"]) for row in PRINTED],
)
def test_each_printed_spelling_is_read(source: str, spelling: str, canonical: str) -> None:
    assert len(PRINTED) >= 60
    identifier = parse_foreign(spelling)
    assert identifier.text == canonical
    assert parse_foreign(canonical) == identifier
    assert canonical.startswith(SCHEMES[identifier.kind])


@pytest.mark.rule("FI-1")
@for_each("same", CASES["spellings of one identifier have one digest"])
def test_spellings_of_one_identifier_have_one_digest(same: list[str]) -> None:
    assert len({parse_foreign(text).digest for text in same}) == 1


@pytest.mark.rule("FI-1")
@for_each(("one", "other"), CASES["different identifiers have different digests"])
def test_different_identifiers_have_different_digests(one: str, other: str) -> None:
    assert parse_foreign(one).digest != parse_foreign(other).digest


@pytest.mark.rule("FI-1")
@for_each("text", CASES["other texts are no foreign identifier"])
def test_other_texts_are_no_foreign_identifier(text: str) -> None:
    with pytest.raises(IdentifierError) as caught:
        parse_foreign(text)
    assert isinstance(caught.value, IdentifierError)
    message = str(caught.value)
    assert "\n" not in message
    assert "secret" not in message
    assert message.startswith(("'", '"'))


@for_each(("text", "right"), CASES["a message says what would be right"])
def test_a_message_says_what_would_be_right(text: str, right: str) -> None:
    with pytest.raises(IdentifierError, match="is not a foreign identifier: ") as caught:
        parse_foreign(text)
    assert right in str(caught.value)


def test_a_text_that_is_too_long_is_refused() -> None:
    longest = "hdl:1/" + "x" * (MAX_FOREIGN - 6)
    assert parse_foreign(longest).text == longest
    for text in (f"{longest}x", "http://x/" + "é" * 500, "x" * 1_000_000, "10.1000/" * 100_000):
        with pytest.raises(IdentifierError, match="at most 2048 are allowed"):
            parse_foreign(text)


@for_each(("text", "url"), CASES["the url at which an identifier is resolved"])
def test_the_url_at_which_an_identifier_is_resolved(text: str, url: str | None) -> None:
    identifier = parse_foreign(text)
    assert identifier.url == url
    if url is not None:
        assert parse_foreign(url) == identifier


@for_each(("path", "text"), CASES["identifiers in paths are decoded"])
def test_identifiers_in_paths_are_decoded(path: str, text: str) -> None:
    assert parse_foreign_path(path).text == text


@for_each("path", ["", "x", "http://x/", "10.1000/182", "doi:10.1000/%FF", "doi:10.1000/%0A"])
def test_other_paths_are_no_identifiers(path: str) -> None:
    with pytest.raises(IdentifierError):
        parse_foreign_path(path)


@for_each("url", ["doi:10.1000/182", "http://x/a b", "http://x/\ud800", "http://x/#a", "x" * 3000])
def test_other_texts_are_no_address(url: str) -> None:
    with pytest.raises(IdentifierError):
        parse_address(url)


def test_the_url_of_a_resolver_can_be_an_address() -> None:
    address = parse_address("https://doi.org/10.1000/182")
    assert address == ForeignIdentifier(ForeignKind.ADDRESS, "https://doi.org/10.1000/182")


def test_the_digest_of_stored_aliases_stays_the_same() -> None:
    # The database contains digests. A change of the folded form would need a migration.
    assert {kind: parse_foreign(text).digest for kind, text in STORED} == {
        kind: sha256(folded.encode()).hexdigest() for kind, folded in FOLDED
    }


STORED = [
    (ForeignKind.HANDLE, "hdl:20.500.12345/ABC"),
    (ForeignKind.DOI, "doi:10.5281/Zenodo.1"),
    (ForeignKind.ARK, "ark:/12345/x5-4/b.c"),
    (ForeignKind.URN, "URN:NBN:BR:bn-1A"),
    (ForeignKind.ADDRESS, "HTTPS://Old.Example.org:443/A%20b?x=%7ey"),
]
FOLDED = [
    (ForeignKind.HANDLE, "hdl:20.500.12345/abc"),
    (ForeignKind.DOI, "doi:10.5281/zenodo.1"),
    (ForeignKind.ARK, "ark:12345/x54/b.c"),
    (ForeignKind.URN, "urn:nbn:br:bn-1A"),
    (ForeignKind.ADDRESS, "url:old.example.org/A%20b?x=~y"),
]


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
@given(st.text(max_size=40))
@example("10.1000/182")
def test_a_random_text_never_becomes_an_identifier_of_a_wrong_kind(text: str) -> None:
    try:
        identifier = parse_foreign(text)
    except IdentifierError:
        return
    assert identifier.kind is _find_kind(text)


@given(st.sampled_from(["doi:", "hdl:", "ark:", "urn:", "http://"]), st.text(max_size=30))
def test_a_scheme_with_a_random_text_has_the_kind_of_the_scheme(scheme: str, rest: str) -> None:
    try:
        identifier = parse_foreign(scheme + rest)
    except IdentifierError:
        return
    assert identifier.kind is _find_kind(scheme + rest)


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
