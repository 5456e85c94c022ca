from __future__ import annotations

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
    ports,
    repository_names,
)
from support.vectors import load

from flask_ibi_archive.core.identifiers import parse
from flask_ibi_archive.core.identifiers.forms import build_repository_name
from flask_ibi_archive.core.identifiers.parse import (
    decode_identifier,
    parse_identifier,
    suggest_identifier,
)
from flask_ibi_archive.errors import IdentifierError

CASES = load("core/identifiers_suggest.json")

REP = "sid.inpe.br/mtc-m19/2010/08.25.12.38"
VECTORS = load("identifiers.json")


@for_each(
    ("text", "suggestion"),
    CASES["letters for digits in a repository name are repaired"],
)
def test_letters_for_digits_in_a_repository_name_are_repaired(text: str, suggestion: str) -> None:
    assert suggest_identifier(text) == suggestion


@for_each(
    ("text", "suggestion"),
    CASES["wrong graphemes of an ibip are repaired"],
)
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
