from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.identifier_strategies import ibips, legacies, repository_names

from flask_ibi_archive.core.identifiers.grammar import Form, Identifier
from flask_ibi_archive.core.identifiers.parse import parse_identifier


@pytest.mark.rule("G5-01")
@pytest.mark.parametrize(
    ("text", "prefix", "suffix"),
    [
        ("sid.inpe.br/mtc-m18@80/2009/02.16.17.46", "sid.inpe.br/mtc-m18@80", "2009/02.16.17.46"),
        ("8JMKD3MGP8W34M/34PGRC4WT", "8JMKD3MGP8W34M", "34PGRC4WT"),
        ("83LX3pFwXQZeBBx/hwiTk", "83LX3pFwXQZeBBx", "hwiTk"),
    ],
)
def test_prefix_and_suffix_are_found_in_each_form(text: str, prefix: str, suffix: str) -> None:
    identifier = parse_identifier(text)
    assert (identifier.prefix, identifier.suffix) == (prefix, suffix)
    assert f"{identifier}" == f"{identifier.prefix}/{identifier.suffix}" == text


@pytest.mark.rule("G6-07", "G7-03")
@given(st.one_of(repository_names(), ibips))
def test_case_does_not_matter_for_repository_names_and_ibips(text: str) -> None:
    identifier = parse_identifier(text)
    assert identifier == parse_identifier(text.swapcase())
    assert hash(identifier) == hash(parse_identifier(text.upper()))
    assert parse_identifier(identifier.text) == identifier


@pytest.mark.rule("G7-04")
@given(legacies)
def test_case_matters_for_legacy_identifiers(text: str) -> None:
    identifier = parse_identifier(text)
    assert identifier == Identifier(Form.LEGACY, text)
    other = text.partition("/")[0] + "/" + text.partition("/")[2].swapcase()
    assert (parse_identifier(other) == identifier) == (other == text)


def test_the_text_of_a_form_is_its_short_name() -> None:
    assert [str(form) for form in Form] == ["rep", "ibip", "legacy"]
    assert f"{Form.REP}" == "rep"
    assert Form("ibip") is Form.IBIP


def test_an_identifier_does_not_change() -> None:
    identifier = parse_identifier("8JMKD3MGP8W/34PGRBS")
    with pytest.raises(FrozenInstanceError):
        identifier.text = "other"  # type: ignore[misc]
    assert copy.deepcopy(identifier) == pickle.loads(pickle.dumps(identifier)) == identifier


def test_identifiers_of_different_forms_are_different() -> None:
    assert Identifier(Form.LEGACY, "A/B") != Identifier(Form.IBIP, "A/B")
