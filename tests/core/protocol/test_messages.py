from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.vectors import FOLDER, load

from flask_ibi_archive.core.identifiers.grammar import Form
from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.hosts import parse_client_addresses
from flask_ibi_archive.core.protocol.inclusion import InclusionConfirmationRequest
from flask_ibi_archive.core.protocol.messages import (
    MAX_QUERY,
    SUBJECTS,
    Acknowledgment,
    UrlRequest,
    format_request,
    list_ibi_words,
    parse_ibi_forms,
    parse_request,
)
from flask_ibi_archive.core.protocol.pairs import decode_query_string, decode_url
from flask_ibi_archive.core.protocol.relations import parse_verb_list
from flask_ibi_archive.errors import (
    PeerProtocolError,
)

CASES = load("core/protocol_messages.json")

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
    ("source", "url", "ibi"),
    CASES["the acknowledgments of chapter 8 are read and written again"],
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


@pytest.mark.rule("R62-06")
def test_path_and_verbs_are_read():
    request = parse_request(
        pairs_with(
            parsedibiurl__filepath="/data/a b.csv",
            parsedibiurl__verblist="GetLastEdition GetFileList",
        )
    )
    assert request.filepath == "/data/a b.csv"
    assert request.verbs == parse_verb_list("GetLastEdition GetFileList")


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


@for_each(
    ("name", "value"),
    CASES["a value that its grammar refuses is named with the reason"],
)
def test_a_value_that_its_grammar_refuses_is_named_with_the_reason(name, value):
    with pytest.raises(PeerProtocolError) as caught:
        parse_request(pairs_with(**{name.replace(".", "__"): value}))
    assert str(caught.value).startswith(f"{name}: ")
    assert str(caught.value).isprintable()


@for_each(
    ("text", "addresses"),
    CASES["addresses are converted to canonical text"],
)
def test_addresses_are_converted_to_canonical_text(text, addresses):
    assert parse_client_addresses(text) == tuple(addresses)


@for_each(
    ("text", "ibi"),
    [
        (f"rep {REP}", (REP,)),
        (f"ibip {IBIP}", (IBIP,)),
        (f"rep {REP} ibip {IBIP}", (REP, IBIP)),
        (f"ibip {IBIP}  rep {REP}", (REP, IBIP)),
        (f"{{rep {REP} ibip {IBIP}}}", (REP, IBIP)),
        (f"ibip {str(IBIP).lower()}", (IBIP,)),
        (f"ibip {LEGACY}", (LEGACY,)),
        ("", None),
        ("{}", None),
        (f"rep {IBIP}", None),
        (f"ibip {REP}", None),
        (f"rep {LEGACY}", None),
        (f"rep {REP} rep {REP}", None),
        (f"rep {REP} ibip", None),
        (f"legacy {LEGACY}", None),
        (str(REP), None),
        (f"{{rep {REP}", None),
    ],
)
def test_the_forms_of_an_ibi_are_read_from_an_acknowledgment(text, ibi):
    assert parse_request([("servicesubject", "acknowledgment"), ("ibi", text)]).ibi == ibi


@pytest.mark.rule("R72-16")
def test_the_forms_of_an_ibi_are_written_in_their_order():
    assert list_ibi_words(REP.text, IBIP.text) == ("rep", REP.text, "ibip", IBIP.text)
    assert list_ibi_words(ibip=LEGACY.text) == ("ibip", LEGACY.text)
    assert list_ibi_words() == ()
    with pytest.raises(ValueError, match="not a list of forms"):
        parse_ibi_forms(["rep"])
    with pytest.raises(ValueError, match="the list of forms has no identifier"):
        parse_ibi_forms([])


@pytest.mark.rule("R62-14")
@for_each(
    ("name", "field", "wrong"),
    CASES["a missing wrong or repeated pair of an acknowledgment is none"],
)
def test_a_missing_wrong_or_repeated_pair_of_an_acknowledgment_is_none(name, field, wrong):
    query = urlsplit(EXAMPLES["[R] 8.1"]["acknowledgment"]).query
    pairs = decode_query_string(query)
    others = [pair for pair in pairs if pair[0] != name]
    assert getattr(parse_request(pairs), field) is not None
    doubled = [*pairs, next(pair for pair in pairs if pair[0] == name)]
    for changed in (others, [*others, (name, "")], [*others, (name, wrong)], doubled):
        assert getattr(parse_request(changed), field) is None


def test_an_acknowledgment_without_pairs_is_read():
    assert parse_request([("servicesubject", "acknowledgment")]) == Acknowledgment()
    assert format_request(Acknowledgment()) == "servicesubject=acknowledgment"


def test_the_escapes_of_a_path_are_not_encoded_again():
    query = format_request(UrlRequest(IBIP, ("::1",), "/Relat%f3rio 100%.pdf"))
    assert "parsedibiurl.filepath=/Relat%f3rio%20100%25.pdf" in query.split("&")


def test_the_longest_query_has_eight_kibibytes():
    assert MAX_QUERY == 8 * 1024


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


@given(st.lists(st.tuples(NAMES, VALUES)))
def test_an_acknowledgment_is_never_refused(pairs):
    others = [pair for pair in pairs if pair[0] != "servicesubject"]
    found = parse_request([*others, ("servicesubject", "acknowledgment")])
    assert isinstance(found, Acknowledgment)


@given(st.binary())
def test_random_bytes_raise_only_the_documented_errors(raw):
    with suppress(PeerProtocolError):
        read(raw)


@for_each(
    ("words", "message"),
    CASES["the error says how a list of forms is written"],
)
def test_the_error_says_how_a_list_of_forms_is_written(words: list[str], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_ibi_forms(words)
    assert str(caught.value) == message


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
NAMES = sorted(ACKNOWLEDGED.keys() - {"servicesubject"})


@for_each("name", NAMES)
@for_each("value", ["a", "{", "\0"])
def test_the_wrong_pairs_of_an_acknowledgment_are_named(name: str, value: str) -> None:
    assert parse_request(list(ACKNOWLEDGED.items())).wrong == frozenset()
    wrong = parse_request(list((ACKNOWLEDGED | {name: value}).items()))
    assert wrong.wrong == {name}
    assert wrong == parse_request([(one, ACKNOWLEDGED[one]) for one in ACKNOWLEDGED if one != name])


@for_each("name", NAMES)
def test_a_repeated_pair_is_wrong_and_a_missing_or_empty_pair_is_not(name: str) -> None:
    repeated = [*ACKNOWLEDGED.items(), (name, ACKNOWLEDGED[name])]
    assert parse_request(repeated).wrong == {name}
    assert parse_request([*repeated, (name, "")]).wrong == {name}
    assert parse_request(list((ACKNOWLEDGED | {name: ""}).items())).wrong == frozenset()
    missing = [pair for pair in ACKNOWLEDGED.items() if pair[0] != name]
    assert parse_request(missing).wrong == frozenset()


@for_each(
    ("text", "ibi"),
    [
        (f"{{ibip {IBIP.text}}}", (IBIP,)),
        (f" ibip  {IBIP.text} rep {REP.text} ", (REP, IBIP)),
        (f"{{ibip {IBIP.text}", None),
        (f"ibip {IBIP.text}}}", None),
        (f"ibip\t{IBIP.text}", None),
    ],
)
def test_braces_around_both_ends_of_the_forms_are_ignored(text: str, ibi: object) -> None:
    assert parse_request(list((ACKNOWLEDGED | {"ibi": text}).items())).ibi == ibi


@for_each(
    ("name", "value", "message"),
    [
        ("parsedibiurl.ibi", "a", "'a' is not an IBI"),
        ("clientinformation.ipaddress", " ", "the list of IP addresses is empty; the IP address"),
        ("parsedibiurl.verblist", "Get", "'Get' is not a verb; the verbs are GetTranslation"),
    ],
)
def test_a_wrong_pair_of_a_url_request_is_explained(name: str, value: str, message: str) -> None:
    with pytest.raises(PeerProtocolError) as caught:
        parse_request(list((URL_REQUEST | {name: value}).items()))
    assert name in str(caught.value)
    assert message in str(caught.value)
