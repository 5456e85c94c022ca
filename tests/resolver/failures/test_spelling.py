"""The nearest right spelling of an identifier: typical errors, any single error, and no guesses."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.identifier_strategies import ibips, legacies, repository_names

from flask_ibi_archive.core.claims.claim import name_key
from flask_ibi_archive.core.identifiers.grammar import match_identifier
from flask_ibi_archive.resolver.failures.spelling import BATCH, MAX_TRIED, FindKnown, find_nearest

IBIP = "8JMKD3MGP8W/35MMLL8"
REP = "sid.inpe.br/mtc-m18@80/2009/02.16.17.46"
BARE = "dpi.inpe.br/banon/1999/01.09.22.14"
OLD = "6qtX3pFwXQZGivnJSY/Gnpch"
DOI, HANDLE, ARK = "doi:10.5281/zenodo.1234567", "hdl:20.500.12345/678", "ark:12345/x54xz321"
ADDRESS = "http://old.example.org/handle/1/2?x=y"


def known(*ibis: str) -> tuple[list[Sequence[str]], FindKnown]:
    """Return a function that knows some identifiers, and the list of its calls."""
    calls: list[Sequence[str]] = []

    def find(candidates: Sequence[str]) -> set[str]:
        calls.append(candidates)
        return set(candidates) & set(ibis)

    return calls, find


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        # punctuation of the sentence
        ("8JMKD3MGP8W/35MMLL8.", IBIP),
        ("(8JMKD3MGP8W/35MMLL8)", IBIP),
        ("8JMKD3MGP8W/35MMLL8]", IBIP),
        (f"{REP}.", REP),
        # characters that look alike
        ("BJMKD3MGP8W/35MMLL8", IBIP),
        ("8JMKD3MGP8W/3SMMLL8", IBIP),
        ("sid.inpe.br/mtc-m18@80/2OO9/02.16.17.46", REP),
        ("sid.inpe.br/mtc-mI8@80/2009/02.16.17.46", REP),
        ("sid.inpe.br/mtc-m18@80/2009/02.16.l7.46", REP),
        ("dpi.1npe.br/banon/1999/01.09.22.14", BARE),
        # the port
        ("sid.inpe.br/mtc-m18/2009/02.16.17.46", REP),
        ("dpi.inpe.br/banon@80/1999/01.09.22.14", BARE),
        ("dpi.inpe.br/banon.80/1999/01.09.22.14", BARE),
        # slashes
        ("8JMKD3MGP8W35MMLL8", IBIP),
        ("8JMKD3MGP8W//35MMLL8", IBIP),
        ("sid.inpe.brmtc-m18@80/2009/02.16.17.46", REP),
        ("sid.inpe.br/mtc-m18@80/200902.16.17.46", REP),
        # one edit
        ("8JMKD3MGP8W/35MMLL", IBIP),
        ("8JMKD3MGP8W/35MMLL88", IBIP),
        ("8JMKD3MGP8W/35MML8L", IBIP),
        ("8JMKD3MGP8W/35MMKL8", IBIP),
        ("sid.inpe.br/mtc-m18@80/2009/02.16.17.47", REP),
        ("si.inpe.br/mtc-m18@80/2009/02.16.17.46", REP),
        # the case of identifiers from before the standard
        ("6qtX3pFwXQZGivnJSY/GNpch", OLD),
        # identifiers of other systems
        ("doi:10.5281/zenodo.123456", DOI),
        ("doi:10.5281/zenodo.1234576", DOI),
        ("doi:10.5281/zenodo.12345678", DOI),
        ("doi:10.5281/zenodo.I234567", DOI),
        ("doi:10.5281/ZENOD0.1234567).", DOI),
        ("hdl:20.500.12345/679", HANDLE),
        ("ark:12345/x54Xz321", ARK),
        ("http://old.example.org/handle/1/2?x=z", ADDRESS),
        ("http://old.example.org/handel/1/2?x=y", ADDRESS),
        # without the scheme, or as a URL
        ("10.5281/zenodo.1234567", DOI),
        ("20.500.12345/678", HANDLE),
        ("http://doi.org/10.5281/zenodo.1234567", DOI),
        # too different
        ("8JMKD3MGP8W/35MM", None),
        ("8JMKD3MGP8W/53MMKL8", None),
        ("", None),
        ("/", None),
        ("wp-login.php", None),
    ],
)
def test_typical_errors(typed: str, meant: str | None) -> None:
    names = {name_key(name): name for name in (IBIP, REP, BARE, OLD, DOI, HANDLE, ARK, ADDRESS)}
    identifier = match_identifier(typed)

    def find(candidates: Sequence[str]) -> list[str]:
        return [candidate for candidate in candidates if name_key(candidate) in names]

    nearest = find_nearest(typed if identifier is None else identifier.text, find)
    assert (nearest and names[name_key(nearest)]) == meant


def test_likely_errors_are_tried_first() -> None:
    _, find = known("8JMKD3MGP8W/35MMLLB", "8JMKD3MGP8W/35MMLL9", "8JMKD3MGP8W/35MML8L")
    assert find_nearest(IBIP, find) == "8JMKD3MGP8W/35MMLLB"
    _, find = known("8JMKD3MGP8W/35MMLL9", "8JMKD3MGP8W/35MML8L")
    assert find_nearest(IBIP, find) == "8JMKD3MGP8W/35MML8L"


def test_the_identifier_itself_is_no_suggestion() -> None:
    _, find = known(IBIP)
    assert find_nearest(IBIP, find) is None


def test_another_case_of_a_doi_is_no_suggestion() -> None:
    _, find = known("doi:10.5281/zenodO.1", "doi:10.5281/Zenodo.1")
    assert find_nearest("doi:10.5281/zenodo.1", find) is None


@pytest.mark.parametrize(
    "text",
    [
        *(IBIP, REP, OLD, DOI, ADDRESS, f"{ADDRESS}{'a' * 200}"),
        *("a" * 255, "/" * 255, "a.b/" * 60, "doi:" * 60),
    ],
)
def test_the_effort_is_limited(text: str) -> None:
    calls, find = known()
    assert find_nearest(text, find) is None
    assert all(len(call) <= BATCH for call in calls)
    assert sum(map(len, calls)) <= MAX_TRIED
    calls, find = known()
    assert find_nearest(text, find, thorough=False) is None
    assert len(calls) <= 1
    assert sum(map(len, calls)) <= 300


@given(st.one_of(repository_names(), ibips, legacies), st.data())
def test_each_single_error_is_found(ibi: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(ibi) - 1))
    edit = data.draw(st.sampled_from(["lose", "swap", "double"]))
    typed = {
        "lose": ibi[:place] + ibi[place + 1 :],
        "swap": ibi[:place] + ibi[place + 1 : place + 2] + ibi[place] + ibi[place + 2 :],
        "double": ibi[:place] + ibi[place] + ibi[place:],
    }[edit]
    right = match_identifier(ibi)
    wrong = match_identifier(typed)
    assert right is not None
    # as an IBIp, an identifier from before the standard has lost its case, too
    assume(wrong is None or wrong.form is right.form)
    typed = typed if wrong is None else wrong.text
    if len(ibi) < 80 and typed != right.text:
        _, find = known(right.text)
        assert find_nearest(typed, find) == right.text
