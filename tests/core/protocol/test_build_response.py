"""Tests the text of the answer to a request ([R] 7.2, Algorithm 1)."""

from __future__ import annotations

from typing import Any

import pytest
from support.stores import MemoryCatalogue, make_facts, moment_of, rep_of

from flask_ibi_archive.core.protocol.messages import (
    Acknowledgment,
    UrlRequest,
    build_response,
    parse_request,
)
from flask_ibi_archive.core.protocol.pairs import decode_query_string, format_pairs, parse_pairs
from flask_ibi_archive.core.protocol.relations import NO_VERBS
from flask_ibi_archive.core.protocol.url_list import UrlPair, answer_url_request

X, Y = rep_of(0), rep_of(1)
USER = "clientinformation.ipaddress=150.163.2.174"
REQUEST = f"servicesubject=urlRequest&parsedibiurl.ibi={X}&{USER}"


def respond(query: str, pairs: list[UrlPair] | None = None, **options: Any) -> str:
    """Return the answer to a query; the URL list is a list of pairs."""
    request = parse_request(decode_query_string(query.encode()))
    return build_response(request, lambda _: pairs or [], **options)


def test_the_confirmation_call_is_answered_with_yes() -> None:
    assert respond("servicesubject=inclusionConfirmationRequest") == "confirmation yes"


@pytest.mark.rule("R72-02")
@pytest.mark.parametrize(
    "query",
    [
        "servicesubject=acknowledgment",
        "servicesubject=acknowledgment&urlkey=x&urlkey=y",
        f"servicesubject=acknowledgment&{USER}&contenttype=Data&url=http://a.b/&urlkey=1234567890",
    ],
)
def test_every_acknowledgment_has_the_same_answer(query: str) -> None:
    taken: list[Acknowledgment] = []
    assert respond(query, take_acknowledgment=taken.append) == "notice {acknowledgment received}"
    assert taken == [parse_request(decode_query_string(query.encode()))]


def test_other_requests_are_not_treated_as_acknowledgments() -> None:
    taken: list[Acknowledgment] = []
    respond(REQUEST, take_acknowledgment=taken.append)
    respond("servicesubject=inclusionConfirmationRequest", take_acknowledgment=taken.append)
    assert taken == []


@pytest.mark.rule("R72-03")
@pytest.mark.parametrize("empty", ["", "&parsedibiurl.filepath=&parsedibiurl.verblist="])
def test_a_missing_path_and_verb_list_count_as_empty(empty: str) -> None:
    received: list[UrlRequest] = []
    request = parse_request(decode_query_string((REQUEST + empty).encode()))
    build_response(request, lambda request: received.append(request) or [])  # type: ignore[func-returns-value]
    [request] = received
    assert (request.filepath, request.verbs) == ("", NO_VERBS)


@pytest.mark.rule("R62-08")
def test_an_empty_list_is_an_empty_body() -> None:
    assert respond(REQUEST) == ""


def test_an_empty_list_adds_no_separator() -> None:
    one: list[UrlPair] = [("b", "2")]
    assert format_pairs([*one]) == format_pairs([*one, *[]]) == format_pairs([*[], *one]) == "b 2"
    assert format_pairs([*one, ("a", ("x", "y"))]) == "a {x y}\r\nb 2"


@pytest.mark.rule("R4-12")
def test_the_answer_is_sorted_with_one_pair_per_line() -> None:
    records = [
        {"rep": X, "ibip": "8JMKD3MGP8W/35MME4E", "timestamp": moment_of(1), "next_edition": Y},
        {
            "rep": Y,
            "timestamp": moment_of(2),
            "metadata": {"url": "https://m.example/ü x".replace(" ", "")},
        },
    ]
    world = MemoryCatalogue(records)
    facts = make_facts("a.example", rep_of(9), None, filter_url_list=False)
    request = parse_request(decode_query_string(REQUEST.encode()))
    text = build_response(
        request, lambda asked: answer_url_request(world, asked, facts, lambda item: "1234567890-0")
    )
    lines = text.split("\r\n")
    names = [line.partition(" ")[0] for line in lines]
    assert names == sorted(names)
    assert text.isascii()
    assert not text.endswith("\n")
    assert "ibi {rep sid.inpe.br/mtc-m18@80/2009/07.01.00.00.00 ibip 8JMKD3MGP8W/35MME4E}" in lines
    assert "ibi.platformsoftware {}" in lines
    assert "url.lastedition.metadata https://m.example/%C3%BCx" in lines
    assert [pair.name for pair in parse_pairs(text)] == names
