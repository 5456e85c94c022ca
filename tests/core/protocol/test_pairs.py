"""Query strings, lists of pairs, and the secrets that logs must not show ([R] 4.1 and 4.2)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vectors import FOLDER, load

from flask_ibi_archive.core.protocol import pairs as module
from flask_ibi_archive.core.protocol.pairs import (
    decode_query_string,
    decode_url,
    encode_url,
    encode_word,
    format_pairs,
    format_query_string,
    parse_pairs,
)
from flask_ibi_archive.errors import PeerProtocolError

VECTORS = load("messages.json")
URL_NAMES = frozenset({"url", "url.persistent"})
QUERIES = [
    urlsplit(url).query
    for url in [
        *(request["url"] for request in VECTORS["requests"]),
        *(url for each in load("resolution/examples.json") for url in each["url_requests"]),
        *(each["acknowledgment"] for each in load("resolution/examples.json")),
    ]
]
LEGAL_WORDS = st.text(
    [chr(code) for code in range(0x21, 0x7F) if chr(code) not in "{}"], min_size=1
)
#: Every text that a parsed query can contain; bytes that are not UTF-8 are surrogate escapes.
TEXTS = st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape"))


# --- lists of pairs ------------------------------------------------------------------------------


@pytest.mark.rule("R4-12", "R4-15")
@pytest.mark.parametrize("path", sorted((FOLDER / "archive").glob("*/answer*.txt")))
def test_an_answer_of_the_document_is_read_and_written_again(path: Path) -> None:
    answer = path.read_bytes()
    pairs = parse_pairs(answer)
    assert format_pairs(pairs).encode("ascii") == answer
    assert format_pairs(reversed(pairs)).encode("ascii") == answer
    if path.parent.name == "example_4_2":
        assert len(pairs) == 9
        assert module.pairs_as_dict(pairs)["state"] == ("Original",)


@pytest.mark.rule("R72-32")
@pytest.mark.parametrize("answer", VECTORS["answers"].values())
def test_a_short_answer_of_the_document_is_read_and_written_again(answer: str) -> None:
    assert " ".join([format_pairs([pair]) for pair in parse_pairs(answer)]) == answer


@pytest.mark.rule("R4-14")
def test_bytes_of_another_encoding_are_written_as_the_same_bytes() -> None:
    pairs = parse_pairs(b"url http://x/Relat\xf3rio\xa0\x85.pdf")
    assert pairs == [module.Pair("url", ("http://x/Relat\udcf3rio\udca0\udc85.pdf",))]
    assert format_pairs(pairs) == "url http://x/Relat%F3rio%A0%85.pdf"


def test_the_first_pair_of_a_repeated_name_is_used() -> None:
    assert module.pairs_as_dict(parse_pairs("x 1 y 2 x 3")) == {"x": ("1",), "y": ("2",)}


@pytest.mark.rule("R4-11")
@given(st.lists(st.tuples(LEGAL_WORDS, st.lists(LEGAL_WORDS))))
def test_pairs_written_are_read_again(pairs: list[tuple[str, list[str]]]) -> None:
    expected = sorted(((name, tuple(words)) for name, words in pairs), key=lambda pair: pair[0])
    text = format_pairs(pairs)
    assert parse_pairs(text) == parse_pairs(text.encode("ascii")) == expected
    assert format_pairs(parse_pairs(text)) == text


@pytest.mark.rule("R4-13")
@given(st.lists(st.tuples(TEXTS.filter(bool), TEXTS | st.lists(TEXTS))), TEXTS)
def test_every_formatted_list_follows_the_grammar(
    pairs: list[tuple[str, str | list[str]]], alert: str
) -> None:
    text = format_pairs(pairs)
    assert all(" " <= sign <= "~" for line in text.split("\r\n") for sign in line)
    found = parse_pairs(text)
    assert format_pairs(found) == text
    assert sorted(pair.name for pair in found) == sorted(encode_word(name) for name, _ in pairs)
    line = format_pairs([("alert", alert)])
    assert parse_pairs(line) == [("alert", tuple(encode_word(word) for word in alert.split()))]
    assert line.isprintable()


@given(TEXTS | st.binary() | st.text(alphabet="{} \r\na"))
def test_any_text_is_a_list_or_an_error_with_a_position(data: str | bytes) -> None:
    position: int | None = 0
    try:
        written = format_pairs([pair for pair in parse_pairs(data) if pair.name])
        assert format_pairs(parse_pairs(written)) == written
    except PeerProtocolError as error:
        position = error.position
    assert position is not None
    assert 0 <= position <= len(data)


# --- query strings -------------------------------------------------------------------------------


@pytest.mark.rule("R4-07", "R61-09")
def test_table_4_1_is_followed() -> None:
    table = VECTORS["special_characters"]
    for character, encoded in {**table["table"], table["decoded"]: table["encoded"]}.items():
        assert module.encode_value(character) == encoded
        assert decode_query_string(f"a={encoded}") == [("a", character)]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_of_the_document_is_read_and_written_again(query: str) -> None:
    pairs = decode_query_string(query)
    assert decode_query_string(format_query_string(pairs)) == pairs
    assert decode_query_string(query.encode("ascii")) == pairs
    # the sender does not encode %XX in a URL again, so URLs are not decoded here
    pieces = [piece.partition("=") for piece in query.split("&")]
    pairs = [(name, value if name in URL_NAMES else decode_url(value)) for name, _, value in pieces]
    assert format_query_string(pairs, URL_NAMES) == query


@pytest.mark.rule("R4-08")
def test_a_byte_of_another_encoding_is_preserved() -> None:
    pairs = decode_query_string(b"url=http://x/Relat%f3rio%20Final.pdf")
    assert pairs == [("url", "http://x/Relat\udcf3rio Final.pdf")]
    assert module.to_bytes(pairs[0][1]) == b"http://x/Relat\xf3rio Final.pdf"
    assert format_query_string(pairs) == "url=http://x/Relat%F3rio%20Final.pdf"


def test_only_the_escapes_of_urls_are_not_encoded_again() -> None:
    pairs = [("ibi", "a%20b"), ("url", "a%20b")]
    assert format_query_string(pairs, URL_NAMES) == "ibi=a%2520b&url=a%20b"


@given(st.lists(st.tuples(TEXTS, TEXTS)))
def test_a_query_string_that_was_written_is_read_again(pairs: list[tuple[str, str]]) -> None:
    text = format_query_string(pairs)
    assert text.isascii()
    assert not set(text) & set(" #?+\r\n")
    assert decode_query_string(text) == decode_query_string(text.encode("ascii")) == pairs


@given(TEXTS, st.binary())
def test_a_url_written_is_read_decoded_and_any_bytes_are_decoded(url: str, raw: bytes) -> None:
    [(_, value)] = decode_query_string(format_query_string([("url", url)], URL_NAMES))
    assert module.to_bytes(value) == unquote_to_bytes(module.to_bytes(url))
    assert value == decode_url(url)
    assert encode_url(encode_url(url)) == encode_url(url)
    for name, text in decode_query_string(raw):
        module.to_bytes(name + text)


# --- the path of a file --------------------------------------------------------------------------


@given(
    st.text(st.characters(max_codepoint=0xD7FF, exclude_characters="\0"), min_size=1).filter(
        lambda path: path[0] != "/"
    ),
    st.sampled_from(["", "/"]),
)
def test_every_path_is_found_encoded_and_not_encoded(path: str, slash: str) -> None:
    assert module.list_candidate_paths(slash + path)[0] == path
    assert path in module.list_candidate_paths(slash + quote(path))[:2]


@given(st.binary(min_size=1).filter(lambda raw: raw[:1] != b"/"))
def test_any_bytes_in_a_query_are_a_path_that_a_database_can_store(raw: bytes) -> None:
    [(_, value)] = decode_query_string(b"parsedibiurl.filepath=" + quote(raw, safe="").encode())
    candidates = module.list_candidate_paths(value)
    stored = raw.replace(b"\0", b"%00")
    assert candidates[0].encode("utf-8") == stored or candidates[0].encode("iso-8859-1") == stored
    assert all(candidate and "\0" not in candidate for candidate in candidates)


# --- secrets -------------------------------------------------------------------------------------


@pytest.fixture
def log() -> Iterator[tuple[logging.Logger, list[str]]]:
    """A logger that hides secrets, and the messages that it writes."""
    messages: list[str] = []
    logger, handler = logging.getLogger("a.logger.of.urls"), logging.Handler(logging.INFO)
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    module.hide_keys([logger.name])
    module.hide_keys([logger.name])  # a second call has no effect
    yield logger, messages
    logger.removeHandler(handler)
    for one in logger.filters[:]:
        logger.removeFilter(one)


def test_the_logger_writes_the_text_without_the_secret(
    log: tuple[logging.Logger, list[str]],
) -> None:
    logger, messages = log
    for text, written in load("core/secrets.json"):
        logger.info("GET %s %d", text, 200)
        assert messages.pop() == f"GET {written} 200"
    wrong = logger.makeRecord(logger.name, logging.INFO, "", 0, "%d", ("a",), None)
    assert logger.filter(wrong)
    assert (wrong.msg, wrong.args) == ("%d", ("a",))


@pytest.mark.parametrize("name", ["registrationkey", "REGISTRATIONKEY", "password", "Password"])
def test_each_letter_of_the_name_may_be_percent_encoded(
    name: str, log: tuple[logging.Logger, list[str]]
) -> None:
    logger, messages = log
    for place, letter in enumerate(name):
        for code in (f"%{ord(letter):x}", f"%{ord(letter):X}"):
            coded = name[:place] + code + name[place + 1 :]
            logger.info(f"/?{coded}=1398434126-9174368274&x=1")
            assert messages.pop() == f"/?{coded}=***&x=1"
            is_key = name.lower() == "registrationkey"
            assert module.contains_key(f"{coded}=1398434126") is is_key
