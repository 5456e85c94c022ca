from __future__ import annotations

import pytest
from support.cases import for_each
from support.vectors import load

from flask_ibi_archive.core.protocol.languages import COUNTRIES, LANGUAGES, parse_language

CASES = load("core/protocol_languages.json")

CODES = load("codes.json")


@pytest.mark.rule("RA-01")
def test_the_codes_are_those_of_appendix_a():
    assert CODES["languages"].split() == sorted(LANGUAGES)
    assert CODES["countries"].split() == sorted(COUNTRIES)


@pytest.mark.parametrize("text", ["pt", "en", "pt-BR", "en-US"])
def test_a_language_is_a_code_with_or_without_a_country(text):
    assert parse_language(text) == text


@pytest.mark.rule("RA-01")
@for_each(
    ("text", "hint"),
    CASES["another text is refused with the right spelling"],
)
def test_another_text_is_refused_with_the_right_spelling(text, hint):
    with pytest.raises(ValueError) as caught:
        parse_language(text)
    message = str(caught.value)
    assert hint in message
    assert message.isprintable()
    assert message.isascii()
