from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.identifier_strategies import last_words, words

from flask_ibi_archive.core.identifiers.grammar import IBIP, LEGACY, REPOSITORY, find_word_fault


@pytest.mark.rule("G6-03")
@given(words)
def test_words_of_the_grammar_have_no_fault(word: str) -> None:
    assert find_word_fault(word) is None


@pytest.mark.rule("G6-02")
@given(last_words)
def test_last_words_of_the_grammar_have_no_fault(word: str) -> None:
    assert find_word_fault(word, last=True) is None


@pytest.mark.rule("G6-02")
@given(st.text("aZ9-. @ſ", max_size=6), st.booleans())
def test_fault_and_pattern_agree_on_a_word(word: str, last: bool) -> None:
    text = f"{word}/b/2010/08.25.12.38" if last else f"b/{word}/2010/08.25.12.38"
    if "." not in word and "@" not in word:
        assert (find_word_fault(word, last=last) is None) == bool(REPOSITORY.fullmatch(text))


@pytest.mark.rule("G7-01")
@for_each("code", range(0x250))
def test_an_identifier_has_only_the_characters_of_the_tables(code: int) -> None:
    character = chr(code)
    alphanumeric = character.isascii() and character.isalnum()
    grapheme = character.upper() in "23456789ABCDEFGHJKLMNPQRSTU" and character.isascii()
    assert bool(IBIP.fullmatch(f"{character}W/8")) == grapheme
    assert bool(IBIP.fullmatch(f"8W/{character}")) == grapheme
    assert bool(IBIP.fullmatch(f"8{character}/8")) == (character in "wWxX")
    assert bool(LEGACY.fullmatch(f"Z{character}/{character}")) == alphanumeric
    assert bool(REPOSITORY.fullmatch(f"a{character}a/b/2010/08.25.12.38")) == (
        alphanumeric or character in "-."
    )
    assert bool(REPOSITORY.fullmatch(f"a/b/201{character}/08.25.12.38")) == (
        character in "0123456789"
    )


@given(st.text("8WXZaz/", max_size=12))
def test_no_text_is_both_ibip_and_legacy(text: str) -> None:
    assert not (IBIP.fullmatch(text) and LEGACY.fullmatch(text))
