"""The requests to an Archive, and the text of the answer ([R] 7.2, Algorithm 1)."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import identifier_strategies as some
from support.vectors import load
from support.verb_lists import VERB_LISTS

from flask_ibi_archive.core.identifiers.grammar import Form, canonical_address
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.inclusion import InclusionConfirmationRequest
from flask_ibi_archive.core.protocol.messages import (
    Acknowledgment,
    Request,
    UrlRequest,
    build_response,
    format_request,
    parse_request,
)
from flask_ibi_archive.core.protocol.pairs import decode_query_string, decode_url
from flask_ibi_archive.core.protocol.relations import NO_VERBS
from flask_ibi_archive.errors import PeerProtocolError

VECTORS = load("core/messages.json")
REQUESTS = {
    request["source"].split(":")[0]: urlsplit(request["url"]).query
    for request in load("messages.json")["requests"]
}
EXAMPLES = {example["source"]: example for example in load("resolution/examples.json")}
REP = parse_identifier("sid.inpe.br/mtc-m19/2013/09.04.12.27.57")
IBIP = parse_identifier("8JMKD3MGP7W/3EPGUE5")
LEGACY = parse_identifier("83LX3pFwXQZeBBx/hwiTk")
CONFIRMATION = "servicesubject=inclusionConfirmationRequest"
URL_REQUEST = (
    f"servicesubject=urlRequest&parsedibiurl.ibi={IBIP}&clientinformation.ipaddress=1.2.3.4"
)


def read(query: str | bytes) -> Request:
    return parse_request(decode_query_string(query))


# --- the examples of the document ----------------------------------------------------------------


@pytest.mark.rule("R4-09", "R72-01")
def test_examples_4_1_and_5_4_are_read_and_written_again() -> None:
    query = REQUESTS["[R] Example 4.1"]
    assert read(query) == UrlRequest(IBIP, ("150.163.2.175",))
    assert set(format_request(read(query)).split("&")) == set(query.split("&"))
    assert REQUESTS["[R] Example 5.4"] == CONFIRMATION
    assert read(CONFIRMATION) == InclusionConfirmationRequest()
    assert format_request(InclusionConfirmationRequest()) == CONFIRMATION


@pytest.mark.rule("R62-15")
def test_example_6_9_is_read_although_its_state_is_missing_and_written_again() -> None:
    item = "http://mtc-m16d.sid.inpe.br/col/sid.inpe.br/mtc-m19/2013/09.04.12.27.57/doc/"

    def acknowledge(name: str, *ibi: Any) -> Acknowledgment:
        persistent = "http://mtc-m16d.sid.inpe.br:80/8JMKD3MGP7W/3EPGUE5"
        key, user = "1424636122-5331490054869684", ("150.163.2.175",)
        return Acknowledgment(user, "Data", None, item + name, persistent, key, ibi)

    query = REQUESTS["[R] Example 6.9"]
    assert read(query) == acknowledge("Relat\udcf3rio Final.pdf", REP, IBIP)
    written = format_request(acknowledge("Relat%f3rio%20Final.pdf", IBIP, REP))
    assert set(written.split("&")) == set(query.split("&"))


@pytest.mark.rule("R62-06", "R62-07", "R62-14", "R8-04")
@pytest.mark.parametrize("case", VECTORS["acknowledgments"])
def test_the_requests_of_chapter_8_are_read_and_written_again(case: dict[str, Any]) -> None:
    example = EXAMPLES[case["source"]]
    for url in example["url_requests"]:
        request = read(urlsplit(url).query)
        assert isinstance(request, UrlRequest)
        assert request.client_addresses == ("172.16.44.200", "150.163.68.1")
        assert format_request(request) == urlsplit(url).query
    query = urlsplit(example["acknowledgment"]).query
    found = read(query)
    assert isinstance(found, Acknowledgment)
    assert found == Acknowledgment(
        ("172.16.44.200", "150.163.68.1"),
        "Metadata" if case["source"] == "[R] 8.2" else "Data",
        "Original",
        decode_url(case["url"]),
        example["persistent_url"].replace("urlib.net", "urlib.net:80"),
        found.url_key,
        tuple(map(parse_identifier, case["ibi"])),
    )
    assert f"urlkey={found.url_key}" in query.split("&")
    assert format_request(found) == query


# --- reading and writing -------------------------------------------------------------------------


@pytest.mark.rule("R72-03")
def test_empty_optional_pairs_and_pairs_with_other_names_are_ignored() -> None:
    plain = read(URL_REQUEST)
    assert isinstance(plain, UrlRequest)
    assert (plain.filepath, plain.verbs) == ("", NO_VERBS)
    assert read(f"{URL_REQUEST}&parsedibiurl.filepath=&parsedibiurl.verblist=") == plain
    assert read(f"x=1&x=2&{URL_REQUEST}&state=?&urlkey=&state=!") == plain
    others = URL_REQUEST.partition("&")[2]
    assert read(f"{CONFIRMATION}&{others}&{others}") == InclusionConfirmationRequest()


@pytest.mark.parametrize("name", ["servicesubject", "parsedibiurl.ibi", "parsedibiurl.verblist"])
def test_a_pair_that_is_repeated_is_named(name: str) -> None:
    with pytest.raises(PeerProtocolError) as caught:
        read(f"{URL_REQUEST}&{name}=&{name}=")
    assert str(caught.value) == f"{name} appears more than once; it must appear once"


@pytest.mark.rule("R62-14")
@pytest.mark.parametrize(("name", "field", "wrong"), VECTORS["acknowledged pairs"])
def test_a_missing_wrong_or_repeated_pair_of_an_acknowledgment_is_none(
    name: str, field: str, wrong: str
) -> None:
    acknowledged = VECTORS["acknowledged"]
    assert getattr(parse_request([*acknowledged.items()]), field) is not None
    others = [pair for pair in acknowledged.items() if pair[0] != name]
    for pairs, names in (
        (others, set()),
        ([*others, (name, "")], set()),
        ([*others, (name, wrong)], {name}),
        ([*others, (name, "\0")], {name}),
        ([*acknowledged.items(), (name, acknowledged[name])], {name}),
        ([*acknowledged.items(), (name, "")], {name}),
    ):
        found = parse_request(pairs)
        assert isinstance(found, Acknowledgment)
        assert (getattr(found, field), found.wrong) == (None, names)
        assert found == parse_request(others)


def test_the_escapes_of_a_path_are_not_encoded_again() -> None:
    query = format_request(UrlRequest(IBIP, ("::1",), "/Relat%f3rio 100%.pdf"))
    assert "parsedibiurl.filepath=/Relat%f3rio%20100%25.pdf" in query.split("&")


ADDRESSES = st.lists(some.addresses.map(canonical_address), min_size=1, max_size=4).map(tuple)
IDENTIFIERS = st.sampled_from([REP, IBIP, LEGACY])
# No percent signs here: another test has percent signs in URLs and paths.
PATHS = st.text(alphabet=st.characters(exclude_characters="%", exclude_categories=["Cs"]))
URLS = PATHS.map("http://archive.example/".__add__)
FORMS = st.lists(IDENTIFIERS, max_size=2, unique_by=lambda ibi: ibi.form is Form.REP).map(
    lambda found: tuple(sorted(found, key=lambda ibi: ibi.form is not Form.REP)) or None
)


@given(
    st.builds(UrlRequest, IDENTIFIERS, ADDRESSES, PATHS, VERB_LISTS)
    | st.builds(
        Acknowledgment,
        st.none() | ADDRESSES,
        st.sampled_from([None, "Data", "Metadata"]),
        st.sampled_from([None, "Original", "Copy"]),
        st.none() | URLS,
        st.none() | URLS,
        st.none() | st.from_regex("[0-9]{10,14}(-[0-9]{10,14})?", fullmatch=True),
        FORMS,
    )
)
def test_requests_written_are_read_again(request: Request) -> None:
    query = format_request(request)
    assert read(query) == read(query.encode("ascii")) == request


# --- the answer ----------------------------------------------------------------------------------


@pytest.mark.rule("R62-08", "R72-02")
def test_each_request_has_its_answer_and_only_acknowledgments_are_taken() -> None:
    taken: list[Acknowledgment] = []
    acknowledged = [
        "servicesubject=acknowledgment",
        "servicesubject=acknowledgment&urlkey=x&urlkey=y",
        "servicesubject=acknowledgment&contenttype=Data&url=http://a.b/&urlkey=1234567890",
    ]
    for query, answer in (
        (CONFIRMATION, "confirmation yes"),
        (URL_REQUEST, ""),
        *((query, "notice {acknowledgment received}") for query in acknowledged),
    ):
        assert build_response(read(query), lambda _: [], taken.append) == answer
    assert taken == [*map(read, acknowledged)]
