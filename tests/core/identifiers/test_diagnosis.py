from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.vectors import load

from flask_ibi_archive.core.identifiers.grammar import match_identifier
from flask_ibi_archive.core.identifiers.parse import explain_refusal

CASES = load("core/identifiers_diagnosis.json")


@pytest.mark.rule("G6-02", "G6-03", "G6-04", "G6-05", "G6-08")
@for_each(
    ("text", "rule"),
    CASES["the part that is wrong is named"],
)
def test_the_part_that_is_wrong_is_named(text: str, rule: str) -> None:
    assert match_identifier(text) is None
    assert str(explain_refusal(text)).startswith(rule)


@for_each("text", load("identifiers.json")["invalid"])
def test_each_refusal_of_the_vectors_is_one_line(text: str) -> None:
    rule = str(explain_refusal(text))
    assert rule
    assert "\n" not in rule


@given(
    st.lists(st.text("aZwW2-.@", max_size=6), min_size=1, max_size=5).map("/".join)
    | st.lists(st.from_regex(r"\A[0-9]{1,3}\Z"), max_size=8).map(
        lambda fields: "a/b/2010/" + ".".join(fields)
    )
)
def test_every_refused_text_has_a_reason(text: str) -> None:
    if match_identifier(text) is None:
        assert explain_refusal(text)
