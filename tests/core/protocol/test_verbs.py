from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.vectors import load

from flask_ibi_archive.core.protocol.relations import (
    NO_VERBS,
    SHAPES,
    VerbList,
    format_verb,
    format_verb_list,
    parse_relation,
    parse_verb,
    parse_verb_list,
)

CASES = load("core/protocol_verbs.json")

STEPS = {
    "u": st.just(".lastedition"),
    "t": st.sampled_from([".translation", ".translation(pt)", ".translation(pt-BR)"]),
    "m": st.sampled_from([".metadata", ".metadata(oai_dc)", ".metadata(BibINPE)"]),
}
VERB_LISTS = st.builds(
    VerbList,
    st.sampled_from(sorted(SHAPES)).flatmap(
        lambda shape: st.tuples(*[STEPS[letter] for letter in shape]).map(
            lambda steps: parse_relation("".join(steps))
        )
    ),
    st.booleans(),
)


@pytest.mark.rule("R61-14")
@for_each(
    ("text", "relation", "file_list"),
    CASES["a verb list has a relation"],
)
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


@for_each(
    ("text", "reason"),
    CASES["an error about a verb list names the wrong verb"],
)
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
