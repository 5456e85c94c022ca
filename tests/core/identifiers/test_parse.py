"""Parsing and decoding of identifiers, the reasons of errors, and suggestions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support import identifier_strategies as some
from support.identifier_strategies import get_outcome
from support.vectors import load

from flask_ibi_archive.core.identifiers import grammar
from flask_ibi_archive.core.identifiers.dates import format_date, parse_decimal
from flask_ibi_archive.core.identifiers.grammar import Form, Identifier, build_repository_name
from flask_ibi_archive.core.identifiers.parse import (
    Decoded,
    decode_identifier,
    parse_identifier,
    suggest_identifier,
)
from flask_ibi_archive.errors import IBIError, IdentifierError

VECTORS = load("identifiers.json")


@pytest.mark.rule("G6-02", "G6-07", "G7-03", "G7-04", "P3-01")
@pytest.mark.parametrize("form", Form)
def test_the_identifiers_of_the_documents_have_a_form_and_a_canonical_case(form: Form) -> None:
    for text in VECTORS[{"rep": "valid_rep", "ibip": "valid_ibip"}.get(form.value, "legacy")]:
        canonical = {Form.REP: text.lower(), Form.IBIP: text.upper(), Form.LEGACY: text}[form]
        assert parse_identifier(text) == Identifier(form, canonical)
        assert suggest_identifier(text) is None
        if form is Form.LEGACY:
            assert decode_identifier(parse_identifier(text)) == Decoded(Form.LEGACY)


@pytest.mark.rule("G7-02")
@pytest.mark.parametrize("text", VECTORS["invalid"])
def test_a_text_outside_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(IdentifierError) as caught:
        parse_identifier(text)
    assert (caught.value.text, caught.value.suggestion) == (text, None)
    assert isinstance(caught.value, (IBIError, ValueError))
    assert caught.value.rule.isprintable()


@pytest.mark.rule("G6-06")
def test_three_spellings_of_port_80_are_three_prefixes() -> None:
    words = ("mtc-m18@80", "mtc-m18.80", "mtc-m18")
    assert len({parse_identifier(f"sid.inpe.br/{word}/2009/02.16.17.46") for word in words}) == 3


@pytest.mark.rule("G6-05", "G6-07", "G7-02", "G7-03")
@given(some.repository_names() | some.ibips, some.legacies)
def test_case_matters_only_for_legacy_identifiers(text: str, legacy: str) -> None:
    assume(len(text) <= 255 and not text.startswith("0000"))
    identifier = parse_identifier(text)
    assert identifier.form is (Form.REP if text.count("/") == 3 else Form.IBIP)
    assert identifier == parse_identifier(text.swapcase()) == parse_identifier(str(identifier))
    assert hash(identifier) == hash(parse_identifier(text.upper()))
    assert parse_identifier(legacy) == Identifier(Form.LEGACY, legacy)
    first, _, second = legacy.partition("/")
    other = f"{first}/{second.swapcase()}"
    assert (parse_identifier(other) == parse_identifier(legacy)) == (other == legacy)


@given(
    some.repository_names() | some.ibips | some.legacies | st.text("aZw28B5SV0./@-", max_size=40),
    st.integers(0, 60),
    st.characters(),
)
def test_any_text_is_read_or_refused_with_a_reason(text: str, place: int, sign: str) -> None:
    changed = text[:place] + sign + text[place + 1 :]
    outcome = get_outcome(parse_identifier, changed)
    assert outcome.text.lower() == changed.lower()
    if isinstance(outcome, IdentifierError):
        assert outcome.rule
        assert "\n" not in str(outcome)
        assert outcome.suggestion is None or parse_identifier(outcome.suggestion)
    else:
        assert changed.isascii()


@pytest.mark.rule("G5-01")
@pytest.mark.parametrize(
    ("prefix", "suffix"),
    [
        ("sid.inpe.br/mtc-m18@80", "2009/02.16.17.46"),
        ("8JMKD3MGP8W34M", "34PGRC4WT"),
        ("83LX3pFwXQZeBBx", "hwiTk"),
    ],
)
def test_prefix_and_suffix_are_found_in_each_form(prefix: str, suffix: str) -> None:
    identifier = parse_identifier(f"{prefix}/{suffix}")
    assert (identifier.prefix, identifier.suffix) == (prefix, suffix)


# --- decoding ------------------------------------------------------------------------------------


@pytest.mark.rule("G7-08")
@pytest.mark.parametrize("row", VECTORS["generated"])
def test_the_generated_identifiers_of_the_documents_are_decoded(row: dict[str, str]) -> None:
    date = parse_decimal(row["unix"])
    rep, ibip = (decode_identifier(parse_identifier(row[form])) for form in ("rep", "ibip"))
    assert rep == Decoded(Form.REP, row["host"], None, int(row["port"]), date)
    assert ibip == Decoded(Form.IBIP, None, row["ip"], int(row["ip_port"]), date)


@given(some.repository_names())
def test_a_repository_name_decodes_to_its_date_or_has_a_wrong_port(text: str) -> None:
    identifier = parse_identifier(text)
    decoded = get_outcome(decode_identifier, identifier)
    if isinstance(decoded, IdentifierError):
        assert decoded.rule.startswith("the port, ")
    else:
        fields = identifier.suffix.replace("/", ".").split(".")
        year, month, day, hour, minute, second = [*fields, "00"][:6]
        assert decoded.date is not None
        shown = f"{year}-{month}-{day}T{hour}:{minute}:{second}"
        assert format_date(decoded.date).startswith(shown)


@given(some.ibips)
def test_a_decoded_ibip_can_be_built_again(text: str) -> None:
    identifier = parse_identifier(text)
    decoded = get_outcome(decode_identifier, identifier)
    if isinstance(decoded, IdentifierError):
        assert decoded.text == identifier.text
        assert decoded.rule.startswith(("the first part does not", "the second part does not"))
    else:
        assert some.build_ibip(decoded.ip, decoded.port, decoded.date) == identifier  # type: ignore[arg-type]


# --- suggestions ---------------------------------------------------------------------------------


def test_only_a_limited_number_of_repairs_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def refuse(prefix: str) -> None:
        tried.append(prefix)
        raise ValueError(prefix)

    monkeypatch.setattr(grammar, "decode_ibip_prefix", refuse)
    assert suggest_identifier("8" * 200 + "W/34PGRBV") is None
    assert len(set(tried)) == len(tried) <= 200


@given(some.hosts, some.ports, some.dates(), st.data())
def test_confused_characters_in_the_date_of_a_repository_name_are_repaired(
    host: str, port: int, date: Fraction, data: st.DataObject
) -> None:
    name = build_repository_name(host, port, date)
    letters = {"0": "Oo", "1": "Ii", "8": "Bb", "5": "Ss"}
    places = [at for at in range(len(name.prefix), len(name.text)) if name.text[at] in letters]
    assume(places)
    characters = list(name.text)
    for place in data.draw(st.sets(st.sampled_from(places), min_size=1)):
        characters[place] = data.draw(st.sampled_from(letters[characters[place]]))
    assert suggest_identifier("".join(characters)) == name.text


@given(some.addresses, some.ports, some.dates())
def test_each_v_of_an_ibip_is_repaired_to_u(ip: str, port: int, date: Fraction) -> None:
    ibip = some.build_ibip(ip, port, date)
    assume("U" in ibip.text)
    assert suggest_identifier(ibip.text.replace("U", "V")) == ibip.text
    assert suggest_identifier(ibip.text.replace("U", "v", 1).lower()) == ibip.text


@given(
    st.text("8B5SVUWX2/", max_size=60)
    | st.text("0O1I8B5SVU2./@-", max_size=60)
    | some.ibips
    | some.repository_names()
)
def test_a_suggestion_can_be_decoded_and_differs_from_the_text(text: str) -> None:
    suggestion = suggest_identifier(text)
    if suggestion is not None:
        identifier = parse_identifier(suggestion)
        assert identifier.text == suggestion
        assert decode_identifier(identifier).date is not None
        assert len(suggestion) == len(text)
        assert suggestion.lower() != text.lower()
