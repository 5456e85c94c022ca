"""Tests the requests to an Archive, and the text of the answer ([R] 7.2, Algorithm 1)."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.stores import MemoryCatalogue, make_facts, moment_of, rep_of
from support.vectors import FOLDER, load

from flask_ibi_archive.core.identifiers.grammar import Form
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.inclusion import InclusionConfirmationRequest
from flask_ibi_archive.core.protocol.messages import (
    SUBJECTS,
    Acknowledgment,
    UrlRequest,
    build_response,
    format_request,
    list_ibi_words,
    parse_ibi_forms,
    parse_request,
)
from flask_ibi_archive.core.protocol.pairs import (
    decode_query_string,
    decode_url,
    parse_pairs,
)
from flask_ibi_archive.core.protocol.relations import NO_VERBS, parse_verb_list
from flask_ibi_archive.core.protocol.url_list import UrlPair, answer_url_request
from flask_ibi_archive.errors import (
    PeerProtocolError,
)

CASES = load("core/messages.json")

REQUESTS = {
    request["source"].split(":")[0]: urlsplit(request["url"]).query
    for request in load("messages.json")["requests"]
}
EXAMPLES = {example["source"]: example for example in load("resolution/examples.json")}
CASE_QUERIES = sorted(
    request["query"]
    for path in FOLDER.glob("archive/*/case.json")
    for request in load(f"archive/{path.parent.name}/case.json")["requests"]
)
REP = parse_identifier("sid.inpe.br/mtc-m19/2013/09.04.12.27.57")
IBIP = parse_identifier("8JMKD3MGP7W/3EPGUE5")
LEGACY = parse_identifier("83LX3pFwXQZeBBx/hwiTk")

URL_REQUEST = {
    "servicesubject": "urlRequest",
    "parsedibiurl.ibi": "8JMKD3MGP7W/3EPGUE5",
    "clientinformation.ipaddress": "150.163.2.175",
}
ACKNOWLEDGED = {
    "servicesubject": "acknowledgment",
    "clientinformation.ipaddress": "150.163.2.175",
    "contenttype": "Data",
    "state": "Original",
    "url": "http://a.br/x",
    "url.persistent": "http://urlib.net/8JMKD3MGP7W/3EPGUE5",
    "urlkey": "1424636122-1234567890",
    "ibi": f"rep {REP.text} ibip {IBIP.text}",
}


def read(query):
    return parse_request(decode_query_string(query))


def pairs_with(**changes):
    """Return the pairs of a urlRequest with other values; None omits a pair."""
    values = URL_REQUEST | {name.replace("__", "."): value for name, value in changes.items()}
    return [(name, value) for name, value in values.items() if value is not None]


@pytest.mark.rule("R4-09", "R72-01")
def test_example_4_1_is_read_and_written_again():
    query = REQUESTS["[R] Example 4.1"]
    request = read(query)
    assert request == UrlRequest(IBIP, ("150.163.2.175",))
    assert set(format_request(request).split("&")) == set(query.split("&"))


def test_example_5_4_is_read_and_written_again():
    query = REQUESTS["[R] Example 5.4"]
    assert read(query) == InclusionConfirmationRequest()
    assert format_request(InclusionConfirmationRequest()) == query


@pytest.mark.rule("R62-15")
def test_example_6_9_is_read_although_its_state_is_missing():
    request = read(REQUESTS["[R] Example 6.9"])
    assert request == Acknowledgment(
        client_addresses=("150.163.2.175",),
        content_type="Data",
        url="http://mtc-m16d.sid.inpe.br/col/sid.inpe.br/mtc-m19/2013/09.04.12.27.57/doc/"
        "Relat\udcf3rio Final.pdf",
        persistent_url="http://mtc-m16d.sid.inpe.br:80/8JMKD3MGP7W/3EPGUE5",
        url_key="1424636122-5331490054869684",
        ibi=(REP, IBIP),
    )


def test_example_6_9_is_formatted_as_in_the_document():
    url = (
        "http://mtc-m16d.sid.inpe.br/col/sid.inpe.br/mtc-m19/2013/09.04.12.27.57/doc/"
        "Relat%f3rio%20Final.pdf"
    )
    request = Acknowledgment(
        client_addresses=("150.163.2.175",),
        content_type="Data",
        url=url,
        persistent_url="http://mtc-m16d.sid.inpe.br:80/8JMKD3MGP7W/3EPGUE5",
        url_key="1424636122-5331490054869684",
        ibi=(IBIP, REP),
    )
    written = set(format_request(request).split("&"))
    assert written == set(REQUESTS["[R] Example 6.9"].split("&"))


@pytest.mark.rule("R62-06", "R62-07")
@pytest.mark.parametrize("source", EXAMPLES)
def test_the_url_requests_of_chapter_8_are_read_and_written_again(source):
    for url in EXAMPLES[source]["url_requests"]:
        query = urlsplit(url).query
        request = read(query)
        assert isinstance(request, UrlRequest)
        assert request.client_addresses == ("172.16.44.200", "150.163.68.1")
        assert format_request(request) == query


@pytest.mark.rule("R62-14", "R8-04")
@pytest.mark.parametrize(
    ("source", "url", "ibi"), CASES["the acknowledgments of chapter 8 are read and written again"]
)
def test_the_acknowledgments_of_chapter_8_are_read_and_written_again(source, url, ibi):
    query = urlsplit(EXAMPLES[source]["acknowledgment"]).query
    found = read(query)
    assert found == Acknowledgment(
        client_addresses=("172.16.44.200", "150.163.68.1"),
        content_type="Metadata" if source == "[R] 8.2" else "Data",
        state="Original",
        url=decode_url(url),
        persistent_url=EXAMPLES[source]["persistent_url"].replace("urlib.net", "urlib.net:80"),
        url_key=found.url_key,
        ibi=tuple(map(parse_identifier, ibi)),
    )
    assert found.url_key in query
    assert format_request(found) == query


@for_each("query", CASE_QUERIES)
def test_the_requests_of_the_reference_answers_are_written_and_read_again(query):
    request = read(query)
    assert isinstance(request, UrlRequest)
    assert read(format_request(request)) == request


def test_an_optional_pair_that_is_empty_counts_as_absent():
    absent = parse_request(pairs_with())
    empty = pairs_with(parsedibiurl__filepath="", parsedibiurl__verblist="")
    assert parse_request(empty) == absent


def test_pairs_with_other_names_are_ignored_even_when_repeated():
    pairs = [("x", "1"), ("x", "2"), *pairs_with(state="?"), ("urlkey", ""), ("state", "!")]
    assert parse_request(pairs) == parse_request(pairs_with())
    confirmation = [("servicesubject", "inclusionConfirmationRequest"), *pairs_with()[1:] * 2]
    assert parse_request(confirmation) == InclusionConfirmationRequest()


@pytest.mark.rule("R62-06")
@pytest.mark.parametrize("missing", [None, ""])
@for_each("name", URL_REQUEST)
def test_a_required_pair_that_is_missing_or_empty_is_named(name, missing):
    with pytest.raises(PeerProtocolError) as caught:
        parse_request(pairs_with(**{name: missing}))
    assert str(caught.value) == f"{name} is missing"


@pytest.mark.parametrize("name", [*URL_REQUEST, "parsedibiurl.filepath", "parsedibiurl.verblist"])
def test_a_pair_that_is_repeated_is_named(name):
    pairs = [*pairs_with(), (name, URL_REQUEST.get(name, ""))]
    if name not in URL_REQUEST:
        pairs.append((name, ""))
    with pytest.raises(PeerProtocolError) as caught:
        parse_request(pairs)
    assert str(caught.value) == f"{name} appears more than once; it must appear once"


@for_each(
    "subject",
    ["inclusionRequest", "exclusionRequest", "urlrequest", " urlRequest", "x\r\ny", "\udcf3"],
)
def test_a_subject_that_an_archive_does_not_answer_is_named(subject):
    with pytest.raises(PeerProtocolError) as caught:
        parse_request(pairs_with(servicesubject=subject))
    assert str(caught.value).startswith(f"servicesubject {subject!r} is unknown")
    assert str(caught.value).isprintable()
    assert all(known in str(caught.value) for known in SUBJECTS)


@for_each(("name", "value"), CASES["a value that its grammar refuses is named with the reason"])
def test_a_value_that_its_grammar_refuses_is_named_with_the_reason(name, value):
    with pytest.raises(PeerProtocolError) as caught:
        parse_request(pairs_with(**{name.replace(".", "__"): value}))
    assert str(caught.value).startswith(f"{name}: ")
    assert str(caught.value).isprintable()


@for_each(("text", "ibi"), CASES["the forms of an ibi are read from an acknowledgment"])
def test_the_forms_of_an_ibi_are_read_from_an_acknowledgment(text, ibi):
    found = parse_request([("servicesubject", "acknowledgment"), ("ibi", text)]).ibi
    assert (found and list(map(str, found))) == ibi


@pytest.mark.rule("R72-16")
def test_the_forms_of_an_ibi_are_written_in_their_order():
    assert list_ibi_words(REP.text, IBIP.text) == ("rep", REP.text, "ibip", IBIP.text)
    assert list_ibi_words(ibip=LEGACY.text) == ("ibip", LEGACY.text)
    assert list_ibi_words() == ()


@pytest.mark.rule("R62-14")
@for_each(
    ("name", "field", "wrong"),
    CASES["a missing wrong or repeated pair of an acknowledgment is none"],
)
def test_a_missing_wrong_or_repeated_pair_of_an_acknowledgment_is_none(
    name: str, field: str, wrong: str
) -> None:
    assert getattr(parse_request(list(ACKNOWLEDGED.items())), field) is not None
    others = [pair for pair in ACKNOWLEDGED.items() if pair[0] != name]
    for pairs, names in (
        (others, set()),
        ([*others, (name, "")], set()),
        ([*others, (name, wrong)], {name}),
        ([*others, (name, "\0")], {name}),
        ([*ACKNOWLEDGED.items(), (name, ACKNOWLEDGED[name])], {name}),
        ([*ACKNOWLEDGED.items(), (name, "")], {name}),
    ):
        found = parse_request(pairs)
        assert isinstance(found, Acknowledgment)
        assert (getattr(found, field), found.wrong) == (None, names)
        assert found == parse_request(others)


def test_the_escapes_of_a_path_are_not_encoded_again():
    query = format_request(UrlRequest(IBIP, ("::1",), "/Relat%f3rio 100%.pdf"))
    assert "parsedibiurl.filepath=/Relat%f3rio%20100%25.pdf" in query.split("&")


ADDRESSES = st.one_of(
    st.builds(IPv4Address, st.integers(0, 2**32 - 1)),
    # A mapped address becomes an IPv4 address, so its text changes.
    st.builds(IPv6Address, st.integers(2**64, 2**128 - 1)),
).map(str)
ADDRESS_LISTS = st.lists(ADDRESSES, min_size=1, max_size=4).map(tuple)
IDENTIFIERS = st.sampled_from([REP, IBIP, LEGACY])
VERBS = st.sampled_from(
    ["", "GetLastEdition", "GetMetadata(oai_dc) GetFileList", "GetTranslation(pt-BR) GetMetadata"]
).map(parse_verb_list)
# No percent signs here: another test has percent signs in URLs and paths.
PATHS = st.text(alphabet=st.characters(exclude_characters="%", exclude_categories=["Cs"]))
URLS = PATHS.map("http://archive.example/".__add__)
FORMS = st.lists(IDENTIFIERS, max_size=2, unique_by=lambda ibi: ibi.form is Form.REP).map(
    lambda found: tuple(sorted(found, key=lambda ibi: ibi.form is not Form.REP)) or None
)


@given(st.builds(UrlRequest, IDENTIFIERS, ADDRESS_LISTS, PATHS, VERBS))
def test_url_requests_written_are_read_again(request):
    assert read(format_request(request)) == request
    assert read(format_request(request).encode("ascii")) == request


@given(
    st.builds(
        Acknowledgment,
        st.none() | ADDRESS_LISTS,
        st.sampled_from([None, "Data", "Metadata"]),
        st.sampled_from([None, "Original", "Copy"]),
        st.none() | URLS,
        st.none() | URLS,
        st.none() | st.from_regex("[0-9]{10,14}(-[0-9]{10,14})?", fullmatch=True),
        FORMS,
    )
)
def test_acknowledgments_written_are_read_again(request):
    assert read(format_request(request)) == request


NAMES = st.sampled_from(
    [*URL_REQUEST, "parsedibiurl.filepath", "parsedibiurl.verblist", "ibi", "url"]
)
VALUES = st.one_of(
    st.sampled_from([*URL_REQUEST.values(), *SUBJECTS, "rep", "{}", ""]),
    st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")),
)


@given(st.lists(st.tuples(NAMES, VALUES)))
def test_any_pairs_are_a_request_or_an_error_of_the_sender(pairs):
    message = ""
    try:
        parse_request(pairs)
    except PeerProtocolError as error:
        message = str(error)
    assert message.isprintable()


@for_each(("words", "message"), CASES["the error says how a list of forms is written"])
def test_the_error_says_how_a_list_of_forms_is_written(words: list[str], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_ibi_forms(words)
    assert str(caught.value) == message


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
