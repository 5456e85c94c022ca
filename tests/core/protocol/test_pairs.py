from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.vectors import FOLDER, load

from flask_ibi_archive.core.protocol.pairs import (
    Pair,
    encode_word,
    format_pairs,
    pairs_as_dict,
    parse_pairs,
)
from flask_ibi_archive.errors import PeerProtocolError

CASES = load("core/protocol_pairs.json")

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
    CASES["a list is written sorted and encoded"],
)
def test_a_list_is_written_sorted_and_encoded(pairs, text):
    assert format_pairs(pairs) == text
    assert format_pairs(iter(pairs)) == text


@pytest.mark.rule("R4-14")
@for_each(
    ("text", "pairs"),
    CASES["the parser accepts more than the formatter writes"],
)
def test_the_parser_accepts_more_than_the_formatter_writes(text, pairs):
    expected = [(name, tuple(words)) for name, words in pairs]
    assert parse_pairs(text) == expected
    assert parse_pairs(text.encode()) == expected


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
    CASES["an error about a list has its position"],
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
    CASES["the error says what is wrong with a list"],
)
def test_the_error_says_what_is_wrong_with_a_list(text: str, message: str) -> None:
    with pytest.raises(PeerProtocolError) as caught:
        parse_pairs(text)
    assert caught.value.text == message


def test_the_error_says_that_a_pair_to_write_has_no_name() -> None:
    with pytest.raises(ValueError) as caught:
        format_pairs([("", "a")])
    assert str(caught.value) == "a pair has an empty name; a name must have at least one character"
