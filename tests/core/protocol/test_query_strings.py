"""Tests the query string of a request, and the path of a file in the query string."""

from __future__ import annotations

from urllib.parse import quote, unquote_to_bytes, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.vectors import load

from flask_ibi_archive.core.protocol.pairs import (
    decode_query_string,
    decode_url,
    encode_url,
    encode_value,
    format_query_string,
    list_candidate_paths,
    to_bytes,
)

CASES = load("core/protocol_query_strings.json")

MESSAGES = load("messages.json")
URL_NAMES = frozenset({"url", "url.persistent"})

# Every text that a parsed query can contain; bytes that are not UTF-8 are surrogate escapes.
TEXTS = st.one_of(st.text(), st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))


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
@for_each(
    ("url", "encoded"),
    CASES["the escapes of a url are not encoded again"],
)
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
def test_pairs_written_are_read_again(pairs):
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


@for_each(
    ("filepath", "expected"),
    CASES["the candidate paths are decoded once and twice"],
)
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
