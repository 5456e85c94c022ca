"""Tests query strings, lists of pairs, and the secrets that logs must not show."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from urllib.parse import quote, unquote_to_bytes, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.vectors import FOLDER, load

from flask_ibi_archive.core.protocol.pairs import (
    Pair,
    contains_key,
    decode_query_string,
    decode_url,
    encode_url,
    encode_value,
    encode_word,
    format_pairs,
    format_query_string,
    hide_keys,
    list_candidate_paths,
    pairs_as_dict,
    parse_pairs,
    to_bytes,
)
from flask_ibi_archive.errors import PeerProtocolError

CASES = load("core/pairs.json")

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
@for_each(("pairs", "text"), CASES["a list is written sorted and encoded"])
def test_a_list_is_written_sorted_and_encoded(pairs, text):
    assert format_pairs(pairs) == text
    assert format_pairs(iter(pairs)) == text


@pytest.mark.rule("R4-14")
@for_each(("text", "pairs"), CASES["the parser accepts more than the formatter writes"])
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
@for_each(("text", "position"), CASES["an error about a list has its position"])
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


@for_each(("text", "message"), CASES["the error says what is wrong with a list"])
def test_the_error_says_what_is_wrong_with_a_list(text: str, message: str) -> None:
    with pytest.raises(PeerProtocolError) as caught:
        parse_pairs(text)
    assert caught.value.text == message


def test_the_error_says_that_a_pair_to_write_has_no_name() -> None:
    with pytest.raises(ValueError) as caught:
        format_pairs([("", "a")])
    assert str(caught.value) == "a pair has an empty name; a name must have at least one character"


MESSAGES = load("messages.json")
URL_NAMES = frozenset({"url", "url.persistent"})

# Every text that a parsed query can contain; bytes that are not UTF-8 are surrogate escapes.


def document_queries():
    for request in MESSAGES["requests"]:
        yield urlsplit(request["url"]).query
    for example in load("resolution/examples.json"):
        for url in [*example["url_requests"], example["acknowledgment"]]:
            yield urlsplit(url).query


QUERIES = list(document_queries())


@pytest.mark.rule("R4-07", "R61-09")
def test_table_4_1_is_followed():
    table = MESSAGES["special_characters"]
    for character, encoded in table["table"].items():
        assert encode_value(character) == encoded
        assert decode_query_string(f"a={encoded}") == [("a", character)]
    assert encode_value(table["decoded"]) == table["encoded"]
    assert decode_query_string("t=" + table["encoded"]) == [("t", table["decoded"])]


def test_a_hash_is_encoded_and_the_characters_of_urls_are_not():
    assert encode_value("#") == "%23"
    assert encode_value("/:@!()") == "/:@!()"
    assert encode_value("az-AZ_09.~") == "az-AZ_09.~"


@for_each("query", QUERIES)
def test_a_query_is_written_as_in_the_document(query):
    # The sender does not encode %XX in a URL again, so URLs are not decoded here.
    pairs = []
    for piece in query.split("&"):
        name, _, value = piece.partition("=")
        pairs.append((name, value if name in URL_NAMES else decode_url(value)))
    assert format_query_string(pairs, URL_NAMES) == query


@for_each("query", QUERIES)
def test_a_query_of_the_document_does_not_change_by_reading_and_writing(query):
    pairs = decode_query_string(query)
    assert decode_query_string(format_query_string(pairs)) == pairs
    assert decode_query_string(query.encode("ascii")) == pairs


@pytest.mark.rule("R4-08")
def test_a_byte_of_another_encoding_is_preserved():
    pairs = decode_query_string(b"url=http://x/Relat%f3rio%20Final.pdf")
    assert pairs == [("url", "http://x/Relat\udcf3rio Final.pdf")]
    assert to_bytes(pairs[0][1]) == b"http://x/Relat\xf3rio Final.pdf"
    assert format_query_string(pairs) == "url=http://x/Relat%F3rio%20Final.pdf"
    assert encode_url("http://x/Relat%f3rio%20Final.pdf") == "http://x/Relat%f3rio%20Final.pdf"


@pytest.mark.rule("R4-07")
@for_each(("url", "encoded"), CASES["the escapes of a url are not encoded again"])
def test_the_escapes_of_a_url_are_not_encoded_again(url, encoded):
    assert encode_url(url) == encoded


@pytest.mark.rule("R4-05", "R72-01")
@for_each(
    ("raw", "pairs"),
    [
        ("", []),
        ("&&", []),
        ("&a=1&&b=2&", [("a", "1"), ("b", "2")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("=a", [("", "a")]),
        ("a=b=c", [("a", "b=c")]),
        ("a=1&a=2", [("a", "1"), ("a", "2")]),
        ("a=GetLastEdition+GetFileList", [("a", "GetLastEdition GetFileList")]),
        ("a=%2B", [("a", "+")]),
        ("a=%252B", [("a", "%2B")]),
        ("a=%&b=%4&c=%zz&d=%%34", [("a", "%"), ("b", "%4"), ("c", "%zz"), ("d", "%4")]),
        ("a%3Db=c%26d", [("a=b", "c&d")]),
        ("a=%C3%A9", [("a", "é")]),
        ("a=%0d%0a%00", [("a", "\r\n\x00")]),
        ("a=é+%C3%A9", [("a", "é é")]),
        (b"a=\xc3%A9", [("a", "é")]),
        (b"a=\xf3", [("a", "\udcf3")]),
        ("a=1;b=2", [("a", "1;b=2")]),
    ],
)
def test_a_query_string_is_decoded_once(raw, pairs):
    assert decode_query_string(raw) == pairs


def test_lone_surrogates_can_be_written():
    assert encode_value("a\ud800") == "a%EF%BF%BD"
    assert encode_value("\udcf3\ud800") == "%F3%EF%BF%BD"


def test_only_the_escapes_of_urls_are_not_encoded_again() -> None:
    pairs = [("ibi", "a%20b"), ("url", "a%20b")]
    assert format_query_string(pairs, URL_NAMES) == "ibi=a%2520b&url=a%20b"


@given(st.lists(st.tuples(TEXTS, TEXTS)))
def test_a_query_string_that_was_written_is_read_again(pairs):
    text = format_query_string(pairs)
    assert text.isascii()
    assert not set(text) & set(" #?+\r\n")
    assert decode_query_string(text) == pairs
    assert decode_query_string(text.encode("ascii")) == pairs


@given(TEXTS)
def test_a_url_written_is_read_decoded(url):
    [(_, value)] = decode_query_string(format_query_string([("url", url)], URL_NAMES))
    assert to_bytes(value) == unquote_to_bytes(to_bytes(url))
    assert value == decode_url(url)


@given(TEXTS)
def test_encoding_a_url_twice_changes_nothing(url):
    assert encode_url(encode_url(url)) == encode_url(url)


@given(st.binary())
def test_any_bytes_are_decoded(raw):
    for name, value in decode_query_string(raw):
        to_bytes(name + value)


# --- the path of a file


@for_each(("filepath", "expected"), CASES["the candidate paths are decoded once and twice"])
def test_the_candidate_paths_are_decoded_once_and_twice(filepath: str, expected: list[str]) -> None:
    assert list_candidate_paths(filepath) == tuple(expected)


paths = st.text(min_size=1).filter(lambda path: not path.startswith("/") and "\0" not in path)


@given(paths.filter(lambda path: max(path) < "\udc80"), st.sampled_from(["", "/"]))
def test_every_path_is_found_encoded_and_not_encoded(path: str, slash: str) -> None:
    assert list_candidate_paths(slash + path)[0] == path
    assert list_candidate_paths(slash + quote(path))[-1] == path


@given(st.binary(min_size=1).filter(lambda raw: b"\0" not in raw and raw[:1] != b"/"))
def test_any_bytes_in_a_query_are_a_path(raw: bytes) -> None:
    [(_, value)] = decode_query_string(b"parsedibiurl.filepath=" + quote(raw, safe="").encode())
    candidates = list_candidate_paths(value)
    assert candidates
    assert candidates[0].encode("utf-8") == raw or candidates[0].encode("iso-8859-1") == raw


@given(st.text(st.characters(codec=None)))
def test_a_candidate_path_can_be_sent_to_any_database(filepath: str) -> None:
    for candidate in list_candidate_paths(filepath.encode("utf-8", "replace").decode("utf-8")):
        candidate.encode("utf-8")
        assert "\0" not in candidate
        assert candidate


def test_a_nul_does_not_become_another_path() -> None:
    assert list_candidate_paths("a\0") == ("a%00",)


SECRET = "1398434126-9174368274"


@pytest.fixture
def log() -> Iterator[tuple[logging.Logger, list[str]]]:
    """A logger that hides secrets, and the messages that it writes."""
    messages: list[str] = []

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger, handler = logging.getLogger("a.logger.of.urls"), Notes()
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    hide_keys([logger.name])
    hide_keys([logger.name])  # a second call has no effect
    yield logger, messages
    logger.removeHandler(handler)
    for one in logger.filters[:]:
        logger.removeFilter(one)


def encode_letters(name: str, form: str) -> str:
    return "".join(form.format(ord(letter)) for letter in name)


@for_each(("text", "written"), CASES["the logger writes the text without the secret"])
def test_the_logger_writes_the_text_without_the_secret(
    text: str, written: str, log: tuple[logging.Logger, list[str]]
) -> None:
    logger, messages = log
    logger.info("GET %s %d", text, 200)
    assert messages.pop() == f"GET {written} 200"


@for_each("form", ["%{:x}", "%{:X}"])
@for_each("name", ["registrationkey", "REGISTRATIONKEY", "password", "Password"])
def test_each_letter_of_the_name_may_be_percent_encoded(
    form: str, name: str, log: tuple[logging.Logger, list[str]]
) -> None:
    logger, messages = log
    for place in range(len(name)):
        coded = name[:place] + encode_letters(name[place], form) + name[place + 1 :]
        logger.info(f"/?{coded}={SECRET}&x=1")
        assert messages.pop() == f"/?{coded}=***&x=1"
        assert contains_key(f"{coded}={SECRET}") is name.lower().startswith("registration")


def test_a_wrong_log_message_is_still_given_to_the_logger(
    log: tuple[logging.Logger, list[str]],
) -> None:
    logger, _ = log
    record = logger.makeRecord(logger.name, logging.INFO, "", 0, "%d", ("a",), None)
    assert logger.filter(record)
    assert (record.msg, record.args) == ("%d", ("a",))
