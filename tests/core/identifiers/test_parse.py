from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.identifier_strategies import get_outcome, ibips, legacies, repository_names
from support.vectors import load

from flask_ibi_archive.core.identifiers.grammar import Form, Identifier
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.errors import IBIError, IdentifierError

CASES = load("core/identifiers_parse.json")

VECTORS = load("identifiers.json")


@pytest.mark.rule("G6-02", "G6-07", "P3-01")
@for_each("text", VECTORS["valid_rep"])
def test_repository_names_are_read_in_lower_case(text: str) -> None:
    assert parse_identifier(text) == Identifier(Form.REP, text.lower())


@pytest.mark.rule("G7-03")
@pytest.mark.parametrize("text", VECTORS["valid_ibip"])
def test_ibips_are_read_in_upper_case(text: str) -> None:
    assert parse_identifier(text) == Identifier(Form.IBIP, text.upper())


@pytest.mark.rule("G7-04")
@pytest.mark.parametrize("text", VECTORS["legacy"])
def test_legacy_identifiers_are_not_changed(text: str) -> None:
    assert parse_identifier(text) == Identifier(Form.LEGACY, text)


@pytest.mark.rule("G7-02")
@for_each("text", VECTORS["invalid"])
def test_a_text_outside_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(IdentifierError) as caught:
        parse_identifier(text)
    assert caught.value.text == text
    assert caught.value.suggestion is None
    assert isinstance(caught.value, (IBIError, ValueError))


@for_each("row", VECTORS["same_item"])
def test_both_forms_of_one_item_are_read(row: list[str]) -> None:
    assert [parse_identifier(text).form for text in row] == [Form.REP, Form.IBIP]


@pytest.mark.rule("G6-04", "G6-06")
@for_each(
    "text",
    CASES["a text of the grammar is an identifier"],
)
def test_a_text_of_the_grammar_is_an_identifier(text: str) -> None:
    assert parse_identifier(text).text == text


@pytest.mark.rule("G6-06")
def test_three_spellings_of_port_80_are_three_prefixes() -> None:
    words = ("mtc-m18@80", "mtc-m18.80", "mtc-m18")
    assert len({parse_identifier(f"sid.inpe.br/{word}/2009/02.16.17.46") for word in words}) == 3


@for_each(
    "text",
    CASES["a legacy identifier has an upper case z in its first word"],
)
def test_a_legacy_identifier_has_an_upper_case_z_in_its_first_word(text: str) -> None:
    with pytest.raises(IdentifierError):
        parse_identifier(text)


LOOK_ALIKES = [
    ("ſid.inpe.br/mtc-m18/2009/02.16.17.46", "ſ"),
    ("sid.inpe.br/mtc\u2010m18/2009/02.16.17.46", "\u2010"),
    ("sid.inpe.br/mtc-m18/٢009/02.16.17.46", "٢"),
    ("sid.inpe.br/mtc-m18/2009/02.16.17.4６", "６"),
    ("sid.inpe.br/mtc-m18@8０/2009/02.16.17.46", "０"),
    ("8JM\u212aD3MGP8W/34PGRBS", "\u212a"),
    ("8JMKD3MGP8W/34PGRBſ", "ſ"),
    ("8JMKD3MGP8Ｗ/34PGRBS", "Ｗ"),
    ("kLwpN6zＺ/kfnE", "Ｚ"),
    ("kLwpN6zZ/kfné", "é"),
    ("sid.ınpe.br/mtc-m18/2009/02.16.17.46", "ı"),
    ("sid.inpe.br∕mtc-m18/2009/02.16.17.46", "∕"),
]


@for_each(("text", "character"), LOOK_ALIKES)
def test_look_alikes_outside_ascii_are_refused_and_named(text: str, character: str) -> None:
    with pytest.raises(IdentifierError) as caught:
        parse_identifier(text)
    position = text.index(character) + 1
    assert caught.value.rule.startswith(
        f"{character!r} at position {position} is not an ASCII character"
    )
    assert caught.value.suggestion is None


@for_each(
    "text",
    ["sid.inpe.br/mtc-m19/2010/08.25.12.38", "8JMKD3MGP8W/34PGRBS", "kLwpN6zZ/kfnE"],
)
@for_each("extra", ["\n", " ", "\r\n", "\0", "\t", "\x85", "/", "?"])
def test_nothing_may_precede_or_follow_an_identifier(text: str, extra: str) -> None:
    for changed in (text + extra, extra + text):
        with pytest.raises(IdentifierError) as caught:
            parse_identifier(changed)
        assert "\n" not in str(caught.value)
        assert caught.value.text == changed


@pytest.mark.rule("G6-05")
@given(repository_names())
def test_a_text_of_the_grammar_is_a_repository_name(text: str) -> None:
    if len(text) <= 255 and not text.startswith("0000"):
        assert parse_identifier(text) == Identifier(Form.REP, text.lower())


@pytest.mark.rule("G7-02")
@given(ibips)
def test_a_text_of_the_shape_is_an_ibip(text: str) -> None:
    assert parse_identifier(text) == Identifier(Form.IBIP, text.upper())


@given(legacies)
def test_two_words_with_a_z_are_legacy(text: str) -> None:
    assert parse_identifier(text) == Identifier(Form.LEGACY, text)


@given(st.one_of(repository_names(), ibips, legacies))
def test_a_canonical_text_does_not_change(text: str) -> None:
    identifier = parse_identifier(text)
    assert parse_identifier(str(identifier)) == identifier


@given(
    st.one_of(repository_names(), ibips, legacies),
    st.integers(0, 60),
    st.characters(),
)
def test_a_changed_text_is_read_or_refused_with_a_reason(
    text: str, position: int, character: str
) -> None:
    changed = text[:position] + character + text[position + 1 :]
    outcome = get_outcome(parse_identifier, changed)
    if isinstance(outcome, IdentifierError):
        assert outcome.text == changed
        assert outcome.rule
        assert "\n" not in str(outcome)
        assert outcome.suggestion is None or parse_identifier(outcome.suggestion)
    else:
        assert changed.isascii()
        assert outcome.text.lower() == changed.lower()


@given(st.text(st.sampled_from("aZw28B5SV0./@-"), max_size=40))
def test_any_text_is_read_or_refused_with_a_reason(text: str) -> None:
    outcome = get_outcome(parse_identifier, text)
    assert outcome.text.lower() == text.lower()
    assert isinstance(outcome, Identifier) or outcome.rule


@pytest.mark.parametrize(
    ("front", "end"),
    CASES["255 characters are an identifier and 256 are not"],
)
def test_255_characters_are_an_identifier_and_256_are_not(front: str, end: str) -> None:
    text = front + "8" * (255 - len(front + end)) + end
    assert str(parse_identifier(text)) == text
    with pytest.raises(IdentifierError) as caught:
        parse_identifier(f"{front}8{text[len(front) :]}")
    assert caught.value.rule == "the text has 256 characters; at most 255 are allowed"
    assert caught.value.suggestion is None


def test_an_error_suggests_the_identifier_that_was_probably_meant() -> None:
    with pytest.raises(IdentifierError) as caught:
        parse_identifier("sid.inpe.br/mtc-m19/2O10/08.25.12.38")
    assert caught.value.suggestion == "sid.inpe.br/mtc-m19/2010/08.25.12.38"
    assert str(caught.value).endswith("; did you mean sid.inpe.br/mtc-m19/2010/08.25.12.38?")


@for_each("length", [250, 8192, 100_000])
@for_each(
    "piece",
    ["a", "a.", "a-", "-", "8", "8W", "V", "8B5S", "Z", "/", "a/", "0", "é", "O", "\n", "a.a-a@1/"],
)
@for_each("end", ["", "!", "/", "W/34PGRBV"])
def test_a_long_text_is_not_an_identifier(piece: str, length: int, end: str) -> None:
    text = (piece * (length // len(piece) + 1))[:length] + end
    outcome = get_outcome(parse_identifier, text)
    assert outcome.text.lower() == text.lower()
