"""Tests relations and verb lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.vectors import load
from support.verb_lists import VERB_LISTS

from flask_ibi_archive.core.protocol.languages import COUNTRIES, LANGUAGES
from flask_ibi_archive.core.protocol.relations import (
    NO_VERBS,
    SHAPES,
    Relation,
    RelationPattern,
    Step,
    StepKind,
    format_verb,
    format_verb_list,
    parse_relation,
    parse_relation_pattern,
    parse_verb,
    parse_verb_list,
)

CASES = load("core/relations.json")

LAST_EDITION = Step(StepKind.LAST_EDITION)
LANGUAGE = st.builds(
    lambda language, country: f"{language}-{country}" if country else language,
    st.sampled_from(sorted(LANGUAGES)),
    st.sampled_from(["", *sorted(COUNTRIES)]),
)
FORMAT = st.from_regex(r"[A-Za-z0-9_-]+", fullmatch=True)
STEPS = {
    "u": st.just(LAST_EDITION),
    "t": st.builds(Step, st.just(StepKind.TRANSLATION), st.none() | LANGUAGE),
    "m": st.builds(Step, st.just(StepKind.METADATA), st.none() | FORMAT),
}
RELATIONS = st.sampled_from(sorted(SHAPES)).flatmap(
    lambda shape: st.tuples(*[STEPS[letter] for letter in shape]).map(Relation)
)

# [R] Example 7.5
EXAMPLE_7_5 = [
    ".lastedition",
    ".translation",
    ".translation(pt-BR)",
    ".metadata",
    ".metadata(oai_dc)",
    ".lastedition.translation",
    ".lastedition.translation(pt-BR)",
    ".lastedition.metadata",
    ".lastedition.metadata(oai_dc)",
    ".translation(pt-BR).lastedition",
    ".translation(en).metadata",
    ".metadata.translation(en)",
]


@pytest.mark.rule("R72-17", "R72-18")
@for_each(
    "text",
    [*EXAMPLE_7_5, "", ".translation(en).lastedition.metadata(BibINPE).translation(pt)"],
)
def test_a_relation_of_the_grammar_is_read_and_written_again(text):
    relation = parse_relation(text)
    assert relation.name == text
    assert bool(relation.steps) is bool(text)


@pytest.mark.rule("R72-17")
def test_the_grammar_allows_fifteen_orders():
    assert len(SHAPES) == 15
    assert {"", "u", "t", "m", "ut", "tu", "mt", "utmt", "tumt"} <= SHAPES
    assert all(shape[:length] in SHAPES for shape in SHAPES for length in range(len(shape)))


def test_a_relation_has_kinds_and_parameters_of_steps():
    relation = parse_relation(".lastedition.metadata(oai_dc)")
    assert relation.steps == (LAST_EDITION, Step(StepKind.METADATA, "oai_dc"))
    assert relation.shape == "um"
    assert relation == Relation(relation.steps)
    assert hash(relation) == hash(Relation(relation.steps))
    assert relation != parse_relation(".lastedition.metadata")
    assert relation != ".lastedition.metadata(oai_dc)"


@pytest.mark.rule("R72-17")
@for_each(("text", "reason"), CASES["an error about a relation names the wrong step"])
def test_an_error_about_a_relation_names_the_wrong_step(text, reason):
    for parse in (parse_relation, parse_relation_pattern):
        if "(*)" in text and parse is parse_relation_pattern:
            continue
        with pytest.raises(ValueError) as caught:
            parse(text)
        assert reason in str(caught.value)
        assert str(caught.value).isprintable()


def test_an_illegal_relation_cannot_be_created():
    with pytest.raises(ValueError, match="no parameter"):
        Step(StepKind.LAST_EDITION, "pt")
    with pytest.raises(ValueError, match="is not a language"):
        Step(StepKind.TRANSLATION, "xx")
    with pytest.raises(ValueError, match="may not follow"):
        Relation((LAST_EDITION, LAST_EDITION))


@for_each(
    ("pattern", "matching", "others"), CASES["a star matches every parameter but not a missing one"]
)
def test_a_star_matches_every_parameter_but_not_a_missing_one(pattern, matching, others):
    found = parse_relation_pattern(pattern)
    assert all(found.matches(parse_relation(text)) for text in matching)
    assert not any(found.matches(parse_relation(text)) for text in others)
    assert {parse_relation(text).shape for text in matching} == {found.shape}


@pytest.mark.parametrize(
    "text", [".lastedition(*)", ".metadata(**)", ".translation(*-BR)", "*", ".metadata(*).metadata"]
)
def test_a_star_at_another_position_is_refused(text):
    with pytest.raises(ValueError):
        parse_relation_pattern(text)


@given(RELATIONS)
def test_relations_written_are_read_again(relation):
    assert parse_relation(relation.name) == relation
    assert parse_relation(relation.name).steps == relation.steps


@given(RELATIONS, RELATIONS)
def test_a_relation_is_a_pattern_that_matches_only_itself(relation, other):
    pattern = parse_relation_pattern(relation.name)
    assert isinstance(pattern, RelationPattern)
    assert pattern.matches(relation)
    assert pattern.matches(other) is (relation == other)


@given(st.one_of(st.text(), st.text(alphabet=".()*-adeilmnorst")))
def test_any_text_is_a_relation_or_a_refusal_of_one_line(text):
    for parse in (parse_relation, parse_relation_pattern):
        message = ""
        try:
            parse(text)
        except ValueError as error:
            message = str(error)
        assert message.isprintable()


@pytest.mark.rule("R61-14")
@for_each(("text", "relation", "file_list"), CASES["a verb list has a relation"])
def test_a_verb_list_has_a_relation(text, relation, file_list):
    verbs = parse_verb_list(text)
    assert verbs.relation.name == relation
    assert verbs.file_list is file_list
    assert bool(verbs) is (bool(relation) or file_list)


def test_a_verb_list_has_its_single_verbs():
    verbs = parse_verb_list("GetFileList+GetLastEdition+GetMetadata(oai_dc)")
    assert format_verb_list(verbs) == "GetLastEdition GetMetadata(oai_dc) GetFileList"
    assert format_verb(parse_verb("GetTranslation(pt-BR)")) == "GetTranslation(pt-BR)"
    assert format_verb_list(NO_VERBS) == ""


@for_each(("text", "reason"), CASES["an error about a verb list names the wrong verb"])
def test_an_error_about_a_verb_list_names_the_wrong_verb(text, reason):
    with pytest.raises(ValueError) as caught:
        parse_verb_list(text)
    assert reason in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


@given(VERB_LISTS)
def test_verb_lists_written_are_read_again(verbs):
    assert parse_verb_list(format_verb_list(verbs)) == verbs
    assert parse_verb_list(format_verb_list(verbs).replace(" ", "+")) == verbs


@given(
    st.one_of(
        st.text(), st.lists(st.sampled_from(["GetMetadata", "(", ")", " ", "+"])).map("".join)
    )
)
def test_any_text_is_a_verb_list_or_a_refusal_of_one_line(text):
    message = ""
    try:
        parse_verb_list(text)
    except ValueError as error:
        message = str(error)
    assert message.isprintable()
