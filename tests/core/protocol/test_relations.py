"""Relations and verb lists ([R] 6.1 and Table 7.5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.verb_lists import VERB_LISTS

from flask_ibi_archive.core.protocol.relations import (
    NO_VERBS,
    SHAPES,
    Relation,
    Step,
    StepKind,
    VerbList,
    format_verb_list,
    parse_relation,
    parse_relation_pattern,
    parse_verb_list,
)

LAST_EDITION = Step(StepKind.LAST_EDITION)


@pytest.mark.rule("R72-17")
def test_the_grammar_allows_fifteen_orders() -> None:
    assert len(SHAPES) == 15
    assert {"", "u", "t", "m", "ut", "tu", "mt", "utmt", "tumt"} <= SHAPES
    assert all(shape[:length] in SHAPES for shape in SHAPES for length in range(len(shape)))


def test_a_relation_has_kinds_and_parameters_of_steps() -> None:
    relation = parse_relation(".lastedition.metadata(oai_dc)")
    assert relation.steps == (LAST_EDITION, Step(StepKind.METADATA, "oai_dc"))
    assert relation.shape == "um"
    assert relation == Relation(relation.steps) != parse_relation(".lastedition.metadata")


def test_an_illegal_relation_cannot_be_created() -> None:
    with pytest.raises(ValueError, match="no parameter"):
        Step(StepKind.LAST_EDITION, "pt")
    with pytest.raises(ValueError, match="is not a language"):
        Step(StepKind.TRANSLATION, "xx")
    with pytest.raises(ValueError, match="may not follow"):
        Relation((LAST_EDITION, LAST_EDITION))


@given(VERB_LISTS, VERB_LISTS)
def test_relations_are_read_again_and_match_only_themselves(one: VerbList, two: VerbList) -> None:
    relation, other = one.relation, two.relation
    assert parse_relation(relation.name) == relation
    pattern = parse_relation_pattern(relation.name)
    assert pattern.matches(relation)
    assert pattern.matches(other) is (relation == other)


@given(VERB_LISTS, st.sampled_from(" +"))
def test_verb_lists_written_are_read_again(verbs: VerbList, separator: str) -> None:
    assert parse_verb_list(format_verb_list(verbs).replace(" ", separator)) == verbs


def test_the_list_of_files_is_the_last_verb() -> None:
    verbs = parse_verb_list("GetFileList+GetLastEdition+GetMetadata(oai_dc)")
    assert format_verb_list(verbs) == "GetLastEdition GetMetadata(oai_dc) GetFileList"
    assert format_verb_list(NO_VERBS) == ""
