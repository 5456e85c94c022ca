from __future__ import annotations

import pytest
from support.cases import for_each
from support.vectors import load

from flask_ibi_archive.protocol.registration import is_key, parse_key

KEYS = load("messages.json")["keys"]


@pytest.mark.parametrize("text", KEYS["valid"])
def test_a_key_of_table_5_1_is_read(text):
    assert is_key(text)
    assert parse_key(text) == text


@for_each(
    "text",
    [
        *KEYS["invalid"],
        "1234567890\n",
        " 1234567890",
        "-1234567890",
        "1234567890--1234567890",
        "١٢٣٤٥٦٧٨٩٠",
    ],
)
def test_what_is_no_key_is_refused_without_being_shown(text):
    assert not is_key(text)
    with pytest.raises(ValueError) as caught:
        parse_key(text)
    assert "ten digits" in str(caught.value)
    assert not text or text not in str(caught.value)


def test_a_long_text_is_refused_quickly():
    assert not is_key("1" * 100_000 + "-" + "1" * 9)
