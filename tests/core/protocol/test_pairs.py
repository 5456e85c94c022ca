from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.vectors import FOLDER, load

from flask_ibi_archive.core.protocol.pairs import (
    MAX_DEPTH,
    Pair,
    encode_word,
    format_pairs,
    pairs_as_dict,
    parse_pairs,
)
from flask_ibi_archive.errors import PeerProtocolError

ANSWERS = load("messages.json")["answers"]
FILES = sorted((FOLDER / "archive").glob("*/answer*.txt"))
WORD_CHARACTERS = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in "{}")
LEGAL_WORDS = st.text(alphabet=WORD_CHARACTERS, min_size=1)
LEGAL_PAIRS = st.lists(st.tuples(LEGAL_WORDS, st.lists(LEGAL_WORDS)))
TEXTS = st.one_of(st.text(), st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))


@for_each("path", FILES)
def test_an_answer_of_the_document_is_read_and_written_again(path):
    answer = path.read_bytes()
    pairs = parse_pairs(answer)
    assert format_pairs(pairs).encode("ascii") == answer
    assert format_pairs(reversed(pairs)).encode("ascii") == answer


@pytest.mark.rule("R4-15")
def test_example_4_2_has_nine_pairs():
    pairs = pairs_as_dict(parse_pairs((FOLDER / "archive/example_4_2/answer1.txt").read_bytes()))
    assert len(pairs) == 9
    assert pairs["state"] == ("Original",)
    assert pairs["ibi"] == (
        "rep",
        "sid.inpe.br/mtc-m19/2013/09.04.12.27.57",
        "ibip",
        "8JMKD3MGP7W/3EPGUE5",
    )


@pytest.mark.rule("R72-32")
@pytest.mark.parametrize("answer", ANSWERS.values())
def test_a_short_answer_of_the_document_is_read_and_written_again(answer):
    pairs = parse_pairs(answer)
    assert " ".join([format_pairs([pair]) for pair in pairs]) == answer


def test_the_acknowledgment_is_a_notice():
    assert format_pairs([("notice", "acknowledgment received")]) == ANSWERS["acknowledgment"]
    assert parse_pairs(ANSWERS["acknowledgment"])[0].text == "acknowledgment received"


@pytest.mark.rule("R4-12", "R4-13")
@for_each(
    ("pairs", "text"),
    [
        ([], ""),
        ([("b", "2"), ("a", "1")], "a 1\r\nb 2"),
        ([("a", ["x", "y"])], "a {x y}"),
        ([("a", ("x",))], "a x"),
        ([("a", ())], "a {}"),
        ([("a", "")], "a {}"),
        ([("a", ["", "x", ""])], "a x"),
        ([("alert", "gone")], "alert {gone}"),
        ([("alert", ["gone"])], "alert {gone}"),
        ([("alert", "")], "alert {}"),
        ([("notice", " a\tb\r\n c ")], "notice {a b c}"),
        ([("a", "x y")], "a x%20y"),
        ([("a", "{x}")], "a %7Bx%7D"),
        ([("a", "é")], "a %C3%A9"),
        ([("a", "\udcf3")], "a %F3"),
        ([("a", "\x00\x7f\n")], "a %00%7F%0A"),
        ([("a", "100%")], "a 100%"),
        ([("a", "Relat%f3rio%20Final.pdf")], "a Relat%f3rio%20Final.pdf"),
        ([("é", "1"), ("z", "2")], "%C3%A9 1\r\nz 2"),
        ([("x", "2"), ("x", "1")], "x 2\r\nx 1"),
        (
            [("ibi.a", "3"), ("ibi", "1"), ("ibi(", "2"), ("Z", "0")],
            "Z 0\r\nibi 1\r\nibi( 2\r\nibi.a 3",
        ),
    ],
)
def test_a_list_is_written_sorted_and_encoded(pairs, text):
    assert format_pairs(pairs) == text
    assert format_pairs(iter(pairs)) == text


@pytest.mark.rule("R4-14")
@for_each(
    ("text", "pairs"),
    [
        ("", []),
        (" \r\n\t", []),
        ("a 1 b 2", [("a", ("1",)), ("b", ("2",))]),
        ("a   1\r\nb 2\n\nc\t3\r\n", [("a", ("1",)), ("b", ("2",)), ("c", ("3",))]),
        ("a\r\n1", [("a", ("1",))]),
        ("a {}", [("a", ())]),
        ("a { }", [("a", ())]),
        ("a {x}", [("a", ("x",))]),
        ("a { x\r\n y }", [("a", ("x", "y"))]),
        ("a {x {y  z} {}}", [("a", ("x", "y  z", ""))]),
        ("a {{x y}}", [("a", ("x y",))]),
        ("a {{{x} y}}", [("a", ("{x} y",))]),
        # inner groups do not change how the pairs after them are read
        ("a {{x y}} b {u  v} c {}", [("a", ("x y",)), ("b", ("u", "v")), ("c", ())]),
        ("a {{x y}} b u{v} c {u}v", [("a", ("x y",)), ("b", ("u{v}",)), ("c", ("{u}v",))]),
        ("a {the {x}, of {y}{z}}", [("a", ("the", "{x},", "of", "{y}{z}"))]),
        ("a http://x/{id}/", [("a", ("http://x/{id}/",))]),
        ("a {x}{y}", [("a", ("{x}{y}",))]),
        ("a {x}{{}y}", [("a", ("{x}{{}y}",))]),
        ("a {}{}{ b{}}", [("a", ("{}{}{ b{}}",))]),
        ("{a} 1", [("a", ("1",))]),
        ("x 1 x 2", [("x", ("1",)), ("x", ("2",))]),
        ("any.name(of-ours) é", [("any.name(of-ours)", ("é",))]),
    ],
)
def test_the_parser_accepts_more_than_the_formatter_writes(text, pairs):
    assert parse_pairs(text) == pairs
    assert parse_pairs(text.encode()) == pairs


@pytest.mark.rule("R4-14")
def test_bytes_of_another_encoding_are_written_as_the_same_bytes():
    pairs = parse_pairs(b"url http://x/Relat\xf3rio\xa0\x85.pdf")
    assert pairs == [Pair("url", ("http://x/Relat\udcf3rio\udca0\udc85.pdf",))]
    assert format_pairs(pairs) == "url http://x/Relat%F3rio%A0%85.pdf"


def test_the_first_pair_of_a_repeated_name_is_used():
    assert pairs_as_dict(parse_pairs("x 1 y 2 x 3")) == {"x": ("1",), "y": ("2",)}


@pytest.mark.rule("R4-11")
@for_each(
    ("text", "position"),
    [
        ("a", 0),
        ("a 1 b", 4),
        ("a 1\r\n b ", 6),
        ("a {x", 2),
        ("a {x {y}", 2),
        ("a }", 2),
        ("a {x}}", 5),
        ("}{", 0),
        ("a http://x/{id", 11),
        ("é 1 {", 4),
        ("a{b c}", 0),
        ("{} x", 0),
        ("a 1 {} x", 4),
        ("a " + "{" * 102 + "x" + "}" * 102, 102),
    ],
)
def test_an_error_about_a_list_has_its_position(text, position):
    for data in (text, text.encode()):
        with pytest.raises(PeerProtocolError) as caught:
            parse_pairs(data)
        assert caught.value.position == position
        assert f"(at position {position})" in str(caught.value)
        assert str(caught.value).isprintable()


@pytest.mark.rule("R4-11")
@given(LEGAL_PAIRS)
def test_pairs_written_are_read_again(pairs):
    expected = sorted(((name, tuple(words)) for name, words in pairs), key=lambda pair: pair[0])
    text = format_pairs(pairs)
    assert parse_pairs(text) == expected
    assert parse_pairs(text.encode("ascii")) == expected
    assert format_pairs(parse_pairs(text)) == text


@pytest.mark.rule("R4-13")
@given(st.lists(st.tuples(TEXTS.filter(bool), st.one_of(TEXTS, st.lists(TEXTS)))))
def test_every_formatted_list_follows_the_grammar(pairs):
    text = format_pairs(pairs)
    assert all(" " <= sign <= "~" for line in text.split("\r\n") for sign in line)
    found = parse_pairs(text)
    assert format_pairs(found) == text
    assert sorted(pair.name for pair in found) == sorted(encode_word(name) for name, _ in pairs)


@given(TEXTS)
def test_an_alert_is_one_line_and_one_pair(text):
    for name in ("alert", "notice"):
        line = format_pairs([(name, text)])
        assert line.isascii()
        assert line.isprintable()
        [pair] = parse_pairs(line)
        assert pair == (name, tuple(encode_word(word) for word in text.split()))


@given(st.one_of(TEXTS, st.binary(), st.text(alphabet="{} \r\na")))
def test_any_text_is_a_list_or_an_error_with_a_position(data):
    pairs: list[Pair] = []
    position: int | None = 0
    try:
        pairs = parse_pairs(data)
    except PeerProtocolError as error:
        position = error.position
    assert position is not None
    assert 0 <= position <= len(data)
    written = format_pairs([pair for pair in pairs if pair.name])
    assert format_pairs(parse_pairs(written)) == written


@for_each(
    ("text", "message"),
    [
        ("{} {a}", "the name of a pair is empty"),
        ("a b c", "the name 'c' has no value"),
        (f"a b {'c' * 90}", f"the name '{'c' * 80}' has no value"),
        ("a }", "a closing brace has no opening brace"),
        ("a " + "{" * 200 + "}" * 200, f"braces are nested more than {MAX_DEPTH} deep"),
    ],
)
def test_the_error_says_what_is_wrong_with_a_list(text: str, message: str) -> None:
    with pytest.raises(PeerProtocolError) as caught:
        parse_pairs(text)
    assert caught.value.text == message


def test_the_error_says_that_a_pair_to_write_has_no_name() -> None:
    with pytest.raises(ValueError) as caught:
        format_pairs([("", "a")])
    assert str(caught.value) == "a pair has an empty name; a name must have at least one character"
