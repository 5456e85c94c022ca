from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.vectors import load

from flask_ibi_archive.core.identifiers.grammar import match_identifier
from flask_ibi_archive.core.identifiers.parse import explain_refusal


@pytest.mark.rule("G6-02", "G6-03", "G6-04", "G6-05", "G6-08")
@for_each(
    ("text", "rule"),
    [
        ("", "the text is empty"),
        ("a" * 256, "the text has 256 characters; at most 255 are allowed"),
        ("a" * 255, "the text has no '/' between a prefix and a suffix"),
        ("sid.inpe.br", "the text has no '/' between a prefix and a suffix"),
        ("a b/c", "' ' at position 2 is not allowed in an identifier"),
        ("ab/ç", "'ç' at position 4 is not an ASCII character"),
        ("/", "the first part is empty"),
        ("8JMKD3MGP8W/", "the second part is empty"),
        ("8JMKD3MGP8/34PGRBS", "the first part has no 'W' or 'X'"),
        ("8JMKD3MGP8WW/34PGRBS", "the first part has 'W' or 'X' 2 times"),
        ("8WX8/3", "the first part has 'W' or 'X' 2 times"),
        ("W/34PGRBS", "the first part has no code for an address in front of"),
        ("8JMKD3MGP8W/W7", "the second part has no code for the seconds in front of 'W'"),
        ("8JMKD3MGP8W/34PGRBSW", "the second part has no code of a fraction after 'W'"),
        ("8JMKD3MGP8W/34PGRBSWW", "the second part has more than one 'W'"),
        ("8JMKD3MGP8W/34PXRBS", "the second part has 'X'; only 'W'"),
        ("8JMKD3MGP8W/34PGRB0", "the second part has '0'; an IBIp has only the digits 2 to 9"),
        ("8jmkd3mgp8v/34PGRBS", "the first part has 'v'; an IBIp has only"),
        ("8JMKD3MGP8W/34PGRBZ", "the second part has 'Z'; an IBIp has only"),
        ("8JMKD3MGP8W/34PGRBS/x", "the text has 3 parts separated by '/'"),
        ("sid.inpe.br/mtc-m19", "the text has 2 parts separated by '/'"),
        ("a/b/2010/08/25", "the text has 5 parts separated by '/'"),
        ("/b/2010/08.25.12.38", "word 1 of the subdomain, '', is empty"),
        ("a..b/b/2010/08.25.12.38", "word 2 of the subdomain, '', is empty"),
        ("a../b/2010/08.25.12.38", "word 2 of the subdomain, '', is empty"),
        ("a@b/b/2010/08.25.12.38", "word 1 of the subdomain, 'a@b', has '@'"),
        ("a.-b/b/2010/08.25.12.38", "word 2 of the subdomain, '-b', begins or ends with a hyphen"),
        ("a.9r/b/2010/08.25.12.38", "word 2 of the subdomain, '9r', is the last word"),
        ("a//2010/08.25.12.38", "the word after the subdomain, '', is empty"),
        (
            "a/-b/2010/08.25.12.38",
            "the word after the subdomain, '-b', begins or ends with a hyphen",
        ),
        (
            "a./-b/2010/08.25.12.38",
            "the word after the subdomain, '-b', begins or ends with a hyphen",
        ),
        (
            "a/b-.80/2010/08.25.12.38",
            "the word after the subdomain, 'b-', begins or ends with a hyphen",
        ),
        ("a/b@/2010/08.25.12.38", "the second part ends with '@'; the digits of a port"),
        ("a/b./2010/08.25.12.38", "the second part ends with '.'; the digits of a port"),
        ("a/word@/2010/08.25.12.38", "the second part ends with '@'; the digits of a port"),
        ("a/b.c/2010/08.25.12.38", "the port, 'c', must have digits only"),
        ("a/b.80.1/2010/08.25.12.38", "the port, '80.1', must have digits only"),
        ("a/b@80@/2010/08.25.12.38", "the port, '80@', must have digits only"),
        (
            "a/b/10/08.25.12.38",
            "the year, '10', must be a number from 0001 to 9999 with four digits",
        ),
        ("a/b/02010/08.25.12.38", "the year, '02010', must be a number from 0001 to 9999"),
        ("a/b/0000/08.25.12.38", "the year, '0000', must be a number from 0001 to 9999"),
        ("a/b/2O10/08.25.12.38", "the year, '2O10', must be a number from 0001 to 9999"),
        ("a/b/2010/", "the month, '', must be a number from 01 to 12 with two digits"),
        ("a/b/2010/13.25.12.38", "the month, '13', must be a number from 01 to 12"),
        ("a/b/2010/00.25.12.38", "the month, '00', must be a number from 01 to 12"),
        ("a/b/2010/8.25.12.38", "the month, '8', must be a number from 01 to 12 with two digits"),
        ("a/b/2010/08.32.12.38", "the day, '32', must be a number from 01 to 31"),
        ("a/b/2010/08.00.12.38", "the day, '00', must be a number from 01 to 31"),
        ("a/b/2010/08.25.24.38", "the hour, '24', must be a number from 00 to 23"),
        ("a/b/2010/08.25.12.60", "the minute, '60', must be a number from 00 to 59"),
        ("a/b/2010/08.25.12.38.60", "the second, '60', must be a number from 00 to 59"),
        (
            "a/b/2010/08.25.12.38.5",
            "the second, '5', must be a number from 00 to 59 with two digits",
        ),
        ("a/b/2010/08.25.12", "the date is incomplete: the minute is missing"),
        ("a/b/2010/08", "the date is incomplete: the day is missing"),
        ("a/b/2010/02.30.12.38", "the day, '30', does not exist in month 02 of 2010"),
        ("a/b/2010/02.29.12.38", "the day, '29', does not exist in month 02 of 2010"),
        ("a/b/1900/02.29.12.38", "the day, '29', does not exist in month 02 of 1900"),
        ("a/b/2010/06.31.12.38.01.5", "the day, '31', does not exist in month 06 of 2010"),
        ("a/b/2010/08.25.12.38.05.", "the fraction of the second, '', must have digits only"),
        ("a/b/2010/08.25.12.38.05.-", "the fraction of the second, '-', must have digits"),
        ("a/b/2010/01.01.00.00.00.-", "the fraction of the second, '-', must have digits"),
        ("a/b/2010/08.25.12.38.05.1.2", "the date has too many parts"),
    ],
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
