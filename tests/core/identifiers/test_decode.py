from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from support.cases import for_each
from support.identifier_strategies import build_ibip, get_outcome, ibips, repository_names
from support.vectors import load

from flask_ibi_archive.core.identifiers.dates import format_date, parse_decimal
from flask_ibi_archive.core.identifiers.forms import convert_from_decimal
from flask_ibi_archive.core.identifiers.grammar import Form
from flask_ibi_archive.core.identifiers.parse import Decoded, decode_identifier, parse_identifier
from flask_ibi_archive.errors import IdentifierError

CASES = load("core/identifiers_decode.json")

VECTORS = load("identifiers.json")


@pytest.mark.rule("G5-06", "P3-01")
@for_each(
    ("text", "host", "port", "date"),
    CASES["a repository name contains host port and date"],
)
def test_a_repository_name_contains_host_port_and_date(
    text: str, host: str, port: int, date: str
) -> None:
    decoded = decode_identifier(parse_identifier(text))
    assert (decoded.form, decoded.host, decoded.ip, decoded.port) == (Form.REP, host, None, port)
    assert decoded.date is not None
    assert format_date(decoded.date) == date


@pytest.mark.rule("G7-08")
@pytest.mark.parametrize("row", VECTORS["generated"])
def test_the_generated_identifiers_of_the_documents_are_decoded(row: dict[str, str]) -> None:
    date = parse_decimal(row["unix"])
    assert decode_identifier(parse_identifier(row["rep"])) == Decoded(
        Form.REP, host=row["host"], port=int(row["port"]), date=date
    )
    assert decode_identifier(parse_identifier(row["ibip"])) == Decoded(
        Form.IBIP, ip=row["ip"], port=int(row["ip_port"]), date=date
    )


@pytest.mark.parametrize("text", VECTORS["legacy"])
def test_a_legacy_identifier_has_no_address_and_no_date(text: str) -> None:
    assert decode_identifier(parse_identifier(text)) == Decoded(Form.LEGACY)


@given(repository_names())
def test_a_repository_name_decodes_to_its_date_or_has_a_wrong_port(text: str) -> None:
    identifier = parse_identifier(text)
    decoded = get_outcome(decode_identifier, identifier)
    if isinstance(decoded, IdentifierError):
        assert decoded.rule.startswith("the port, ")
    else:
        assert isinstance(decoded.date, Fraction)
        fields = identifier.suffix.replace("/", ".").split(".")
        year, month, day, hour, minute, second = [*fields, "00"][:6]
        shown = f"{year}-{month}-{day}T{hour}:{minute}:{second}"
        assert format_date(decoded.date).startswith(shown)


@given(ibips)
def test_a_decoded_ibip_can_be_built_again(text: str) -> None:
    identifier = parse_identifier(text)
    decoded = get_outcome(decode_identifier, identifier)
    if isinstance(decoded, IdentifierError):
        assert decoded.text == identifier.text
        assert decoded.rule.startswith(("the first part does not", "the second part does not"))
    else:
        assert decoded.ip is not None
        assert decoded.port is not None
        assert decoded.date is not None
        assert build_ibip(decoded.ip, decoded.port, decoded.date) == identifier


@pytest.mark.rule("G7-02")
@for_each(
    ("text", "rule"),
    CASES["the part that cannot be decoded is named"],
)
def test_the_part_that_cannot_be_decoded_is_named(text: str, rule: str) -> None:
    identifier = parse_identifier(text)
    with pytest.raises(IdentifierError) as caught:
        decode_identifier(identifier)
    assert caught.value.text == text
    assert caught.value.rule.startswith(rule)


def test_only_the_code_of_port_800_is_omitted() -> None:
    assert convert_from_decimal(800) == "34K"
