"""Tests the parsing and decoding of identifiers, and the errors and suggestions."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.cases import for_each
from support.identifier_strategies import (
    addresses,
    build_ibip,
    dates,
    get_outcome,
    hosts,
    ibips,
    legacies,
    ports,
    repository_names,
)
from support.vectors import load

from flask_ibi_archive.core.identifiers import parse
from flask_ibi_archive.core.identifiers.dates import format_date, parse_decimal
from flask_ibi_archive.core.identifiers.grammar import (
    Form,
    Identifier,
    build_repository_name,
    convert_from_decimal,
    match_identifier,
)
from flask_ibi_archive.core.identifiers.parse import (
    Decoded,
    decode_identifier,
    explain_refusal,
    parse_identifier,
    suggest_identifier,
)
from flask_ibi_archive.errors import IBIError, IdentifierError

CASES = load("core/parse.json")

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
@for_each("text", CASES["a text of the grammar is an identifier"])
def test_a_text_of_the_grammar_is_an_identifier(text: str) -> None:
    assert parse_identifier(text).text == text


@pytest.mark.rule("G6-06")
def test_three_spellings_of_port_80_are_three_prefixes() -> None:
    words = ("mtc-m18@80", "mtc-m18.80", "mtc-m18")
    assert len({parse_identifier(f"sid.inpe.br/{word}/2009/02.16.17.46") for word in words}) == 3


@for_each("text", CASES["a legacy identifier has an upper case z in its first word"])
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
    ("front", "end"), CASES["255 characters are an identifier and 256 are not"]
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


@pytest.mark.rule("G5-01")
@pytest.mark.parametrize(
    ("text", "prefix", "suffix"),
    [
        ("sid.inpe.br/mtc-m18@80/2009/02.16.17.46", "sid.inpe.br/mtc-m18@80", "2009/02.16.17.46"),
        ("8JMKD3MGP8W34M/34PGRC4WT", "8JMKD3MGP8W34M", "34PGRC4WT"),
        ("83LX3pFwXQZeBBx/hwiTk", "83LX3pFwXQZeBBx", "hwiTk"),
    ],
)
def test_prefix_and_suffix_are_found_in_each_form(text: str, prefix: str, suffix: str) -> None:
    identifier = parse_identifier(text)
    assert (identifier.prefix, identifier.suffix) == (prefix, suffix)
    assert f"{identifier}" == f"{identifier.prefix}/{identifier.suffix}" == text


@pytest.mark.rule("G6-07", "G7-03")
@given(st.one_of(repository_names(), ibips))
def test_case_does_not_matter_for_repository_names_and_ibips(text: str) -> None:
    identifier = parse_identifier(text)
    assert identifier == parse_identifier(text.swapcase())
    assert hash(identifier) == hash(parse_identifier(text.upper()))
    assert parse_identifier(identifier.text) == identifier


@pytest.mark.rule("G7-04")
@given(legacies)
def test_case_matters_for_legacy_identifiers(text: str) -> None:
    identifier = parse_identifier(text)
    assert identifier == Identifier(Form.LEGACY, text)
    other = text.partition("/")[0] + "/" + text.partition("/")[2].swapcase()
    assert (parse_identifier(other) == identifier) == (other == text)


def test_the_text_of_a_form_is_its_short_name() -> None:
    assert [str(form) for form in Form] == ["rep", "ibip", "legacy"]
    assert f"{Form.REP}" == "rep"
    assert Form("ibip") is Form.IBIP


def test_an_identifier_does_not_change() -> None:
    identifier = parse_identifier("8JMKD3MGP8W/34PGRBS")
    with pytest.raises(FrozenInstanceError):
        identifier.text = "other"  # type: ignore[misc]
    assert copy.deepcopy(identifier) == pickle.loads(pickle.dumps(identifier)) == identifier


def test_identifiers_of_different_forms_are_different() -> None:
    assert Identifier(Form.LEGACY, "A/B") != Identifier(Form.IBIP, "A/B")


@pytest.mark.rule("G5-06", "P3-01")
@for_each(("text", "host", "port", "date"), CASES["a repository name contains host port and date"])
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
@for_each(("text", "rule"), CASES["the part that cannot be decoded is named"])
def test_the_part_that_cannot_be_decoded_is_named(text: str, rule: str) -> None:
    identifier = parse_identifier(text)
    with pytest.raises(IdentifierError) as caught:
        decode_identifier(identifier)
    assert caught.value.text == text
    assert caught.value.rule.startswith(rule)


def test_only_the_code_of_port_800_is_omitted() -> None:
    assert convert_from_decimal(800) == "34K"


@pytest.mark.rule("G6-02", "G6-03", "G6-04", "G6-05", "G6-08")
@for_each(("text", "rule"), CASES["the part that is wrong is named"])
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


REP = "sid.inpe.br/mtc-m19/2010/08.25.12.38"


@for_each(("text", "suggestion"), CASES["letters for digits in a repository name are repaired"])
def test_letters_for_digits_in_a_repository_name_are_repaired(text: str, suggestion: str) -> None:
    assert suggest_identifier(text) == suggestion


@for_each(("text", "suggestion"), CASES["wrong graphemes of an ibip are repaired"])
def test_wrong_graphemes_of_an_ibip_are_repaired(text: str, suggestion: str) -> None:
    assert suggest_identifier(text) == suggestion


@for_each("text", VECTORS["invalid"])
def test_other_errors_have_no_suggestion(text: str) -> None:
    assert suggest_identifier(text) is None


@for_each(
    "text",
    [
        *VECTORS["valid_rep"],
        *VECTORS["valid_ibip"],
        *VECTORS["legacy"],
        # none of 0, O, 1 and I is a grapheme
        "8JMKD3MGP8W/34PGRBO",
        "8JMKD3MGP8W/34PGRB1",
        "IJMKD3MGP8W/34PGRBS",
        # the repaired text is not a date or not a port
        "sid.inpe.br/mtc-m19/2010/O0.25.12.38",
        "sid.inpe.br/mtc-m19/2010/02.3O.12.38",
        "sid.inpe.br/mtc-m19/OOOO/08.25.12.38",
        "sid.inpe.br/mtc-m19.O/2010/08.25.12.38",
        "sid.inpe.br/mtc-m19.BBBBB/2010/08.25.12.38",
        # the text has another error too
        "sid.inpe.br/mtc-m19/2O10/08.25.12",
        "sid.inpe.br/-m19/2O10/08.25.12.38",
        "sid.inpe.9r/mtc-m19/2O10/08.25.12.38",
        "sid.inpe.br/mtc-m19/2Q10/08.25.12.38",
        "/m/2O10/08.25.12.38",
        "sid.inpe.br/mtc-m19/2O10/08.25.12.38\n",
        "ſid.inpe.br/mtc-m19/2O10/08.25.12.38",
        "\u212aid.inpe.br/mtc-m19/2O10/08.25.12.38",
        "a" * 250 + ".br/m/2O10/08.25.12.38",
        # can be decoded, but is longer than an identifier
        f"8JMKD3MGP8W/34PGRBVW{'2' * 235}3",
        # three replacements are necessary
        "KUA6JR7JLT3SFLEQKDEEU2GAA5E5U8X/34PGRBS",
    ],
)
def test_these_texts_have_no_suggestion(text: str) -> None:
    assert suggest_identifier(text) is None


def test_two_possible_repairs_lead_to_no_suggestion() -> None:
    for seconds in ("5S222222", "S5222222"):
        assert decode_identifier(parse_identifier(f"8JMKD3MGP8W/{seconds}")).date
    undated = parse_identifier("8JMKD3MGP8W/SS222222")
    assert isinstance(get_outcome(decode_identifier, undated), IdentifierError)
    assert suggest_identifier("8JMKD3MGP8W/SS222222") is None
    assert suggest_identifier("8JMKD3MGP8W/SS22222V") is None


def test_only_a_limited_number_of_repairs_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def refuse(prefix: str) -> None:
        tried.append(prefix)
        raise ValueError(prefix)

    monkeypatch.setattr(parse, "decode_ibip_prefix", refuse)
    assert suggest_identifier("8" * 200 + "W/34PGRBV") is None
    assert len(set(tried)) == len(tried) <= 200


def test_the_repair_with_fewer_changes_is_suggested() -> None:
    """The first text is right: "B" ends an address with 246, and "8" an address with 243."""
    assert decode_identifier(parse_identifier("8JMKD3MGPBW/34PGRBS")).ip == "150.163.34.246"
    assert suggest_identifier("8JMKD3MGPBW/34PGRBV") == "8JMKD3MGPBW/34PGRBU"


@given(hosts, ports, dates(), st.data())
def test_confused_characters_in_the_date_of_a_repository_name_are_repaired(
    host: str, port: int, date: Fraction, data: st.DataObject
) -> None:
    name = build_repository_name(host, port, date)
    letters = {"0": "Oo", "1": "Ii", "8": "Bb", "5": "Ss"}
    start = len(name.prefix)
    places = [at for at in range(start, len(name.text)) if name.text[at] in letters]
    assume(places)
    characters = list(name.text)
    for place in data.draw(st.sets(st.sampled_from(places), min_size=1)):
        characters[place] = data.draw(st.sampled_from(letters[characters[place]]))
    text = "".join(characters)
    assert suggest_identifier(text) == name.text
    with pytest.raises(IdentifierError) as caught:
        parse_identifier(text)
    assert caught.value.suggestion == name.text


@given(addresses, ports, dates())
def test_each_v_of_an_ibip_is_repaired_to_u(ip: str, port: int, date: Fraction) -> None:
    ibip = build_ibip(ip, port, date)
    assume("U" in ibip.text)
    assert suggest_identifier(ibip.text.replace("U", "V")) == ibip.text
    assert suggest_identifier(ibip.text.replace("U", "v", 1).lower()) == ibip.text


@given(addresses, ports, dates())
def test_one_wrong_grapheme_in_an_address_is_repaired_or_nothing_is_suggested(
    ip: str, port: int, date: Fraction
) -> None:
    ibip = build_ibip(ip, port, date)
    place = next((at for at, character in enumerate(ibip.prefix) if character in "8B5S"), None)
    assume(place is not None)
    assert place is not None
    broken = ibip.text[:place] + ibip.text[place].translate(str.maketrans("8B5S", "B8S5"))
    broken += ibip.text[place + 1 :]
    if isinstance(get_outcome(decode_identifier, parse_identifier(broken)), IdentifierError):
        assert suggest_identifier(broken) in (ibip.text, None)
    else:
        assert suggest_identifier(broken) is None


@given(
    st.one_of(
        st.text("8B5SVUWX2/", max_size=60),
        st.text("0O1I8B5SVU2./@-", max_size=60),
        ibips,
        repository_names(),
    )
)
def test_a_suggestion_can_be_decoded_and_differs_from_the_text(text: str) -> None:
    suggestion = suggest_identifier(text)
    if suggestion is not None:
        identifier = parse_identifier(suggestion)
        assert identifier.text == suggestion
        assert decode_identifier(identifier).date is not None
        assert len(suggestion) == len(text)
        assert suggestion.lower() != text.lower()
