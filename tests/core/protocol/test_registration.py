"""Tests the registration key and the e-mails about the registration ([R] 5.1)."""

from __future__ import annotations

import pytest
from support.cases import for_each
from support.vectors import load

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.inclusion import (
    build_confirmation_email,
    build_registration_email,
    is_key,
    parse_key,
)

VECTORS = load("messages.json")
KEYS = VECTORS["keys"]


@pytest.mark.rule("R5-01")
@pytest.mark.parametrize("text", KEYS["valid"])
def test_a_key_of_table_5_1_is_read(text):
    assert is_key(text)
    assert parse_key(text) == text


@pytest.mark.rule("R5-01")
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
def test_a_text_that_is_not_a_key_is_refused_without_being_shown(text):
    assert not is_key(text)
    with pytest.raises(ValueError) as caught:
        parse_key(text)
    assert "ten or more digits" in str(caught.value)
    assert not text or text not in str(caught.value)


def test_a_long_text_is_refused_quickly():
    assert not is_key("1" * 100_000 + "-" + "1" * 9)


@pytest.mark.rule("R5-02")
def test_the_email_is_that_of_the_example_byte_for_byte() -> None:
    example = VECTORS["email"]
    service = parse_identifier(example["archiveserviceibi"])
    subject, body = build_registration_email(service, example["registrationkey"])
    assert subject == example["subject"]
    assert body.encode() == example["body"].encode()


@pytest.mark.rule("R5-04")
def test_the_confirmation_explains_the_next_step_in_both_languages() -> None:
    ibi = parse_identifier(VECTORS["email"]["archiveserviceibi"])
    subject, body = build_confirmation_email(ibi, "http://urlib.net/J8LNKB5R7W/3FUQHC5")
    assert subject == "Confirmação do cadastro de um Arquivo / Archive registered"
    for line in (
        f"archiveserviceibi = {ibi.text}",
        "IBI_RESOLVER_URL = http://urlib.net/J8LNKB5R7W/3FUQHC5",
        "flask ibi register-archive",
    ):
        assert body.splitlines().count(line) == 2
    without = [line for line in body.splitlines() if "IBI_RESOLVER_URL" not in line]
    assert build_confirmation_email(ibi, None)[1].splitlines() == without
