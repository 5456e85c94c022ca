"""Tests the registration, inclusion and exclusion of an Archive ([R] 5.1 and 5.2)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.vectors import load

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol.hosts import is_archive_address
from flask_ibi_archive.core.protocol.inclusion import (
    EXCLUSION_REQUEST,
    INCLUSION_REQUEST,
    RegistrationRequest,
    RegistrationStatus,
    build_confirmation_email,
    build_registration_email,
    format_registration_request,
    format_registration_status,
    is_key,
    parse_key,
    parse_registration_answer,
    parse_registration_request,
)
from flask_ibi_archive.core.protocol.pairs import decode_query_string
from flask_ibi_archive.errors import (
    PeerProtocolError,
)

CASES = load("core/inclusion.json")

VECTORS = load("messages.json")
KEYS = VECTORS["keys"]


@pytest.mark.rule("R5-01")
@pytest.mark.parametrize("text", KEYS["valid"])
def test_a_key_of_table_5_1_is_read(text):
    assert is_key(text)
    assert parse_key(text) == text


@pytest.mark.rule("R5-01")
@for_each(
    "text",
    [
        *KEYS["invalid"],
        "1234567890\n",
        " 1234567890",
        "-1234567890",
        "1234567890--1234567890",
        "١٢٣٤٥٦٧٨٩٠",
    ],
)
def test_a_text_that_is_not_a_key_is_refused_without_being_shown(text):
    assert not is_key(text)
    with pytest.raises(ValueError) as caught:
        parse_key(text)
    assert "ten or more digits" in str(caught.value)
    assert not text or text not in str(caught.value)


def test_a_long_text_is_refused_quickly():
    assert not is_key("1" * 100_000 + "-" + "1" * 9)


@pytest.mark.rule("R5-02")
def test_the_email_is_that_of_the_example_byte_for_byte() -> None:
    example = VECTORS["email"]
    service = parse_identifier(example["archiveserviceibi"])
    subject, body = build_registration_email(service, example["registrationkey"])
    assert subject == example["subject"]
    assert body.encode() == example["body"].encode()


@pytest.mark.rule("R5-04")
def test_the_confirmation_explains_the_next_step_in_both_languages() -> None:
    ibi = parse_identifier(VECTORS["email"]["archiveserviceibi"])
    subject, body = build_confirmation_email(ibi, "http://urlib.net/J8LNKB5R7W/3FUQHC5")
    assert subject == "Confirmação do cadastro de um Arquivo / Archive registered"
    for line in (
        f"archiveserviceibi = {ibi.text}",
        "IBI_RESOLVER_URL = http://urlib.net/J8LNKB5R7W/3FUQHC5",
        "flask ibi register-archive",
    ):
        assert body.splitlines().count(line) == 2
    without = [line for line in body.splitlines() if "IBI_RESOLVER_URL" not in line]
    assert build_confirmation_email(ibi, None)[1].splitlines() == without


EXAMPLES = {case["source"]: case["url"] for case in VECTORS["requests"]}
REQUEST = RegistrationRequest(
    subject=INCLUSION_REQUEST,
    address="mtc-m21.sid.inpe.br",
    service_ibi=parse_identifier("sid.inpe.br/mtc-m21/2012/06.05.15.34.39"),
    ip="150.163.34.239",
    platform_version="2014:11.09.02.16.15",
    admin_email="banon@dpi.inpe.br",
    key="1234567890",
)
INCLUDED = RegistrationStatus("included", "successful")
UNCONFIRMED = RegistrationStatus("included", "unsuccessful")
EXCLUDED = RegistrationStatus("excluded")
KEY = "1234567890-9876543210"
RIGHT = {
    "servicesubject": "inclusionRequest",
    "archiveaddress": "banon-pc2.dpi.inpe.br:8080",
    "archiveserviceibi": "dpi.inpe.br/banon/1999/01.09.22.14",
    "archiveip": "150.163.2.166",
    "archiveprotocol": "HTTP",
    "archiveplatformversion": "2014:11.09.02.16.15",
    "archiveadmemailaddress": "banon@dpi.inpe.br",
    "registrationkey": KEY,
}


@pytest.mark.rule("R5-08")
@pytest.mark.parametrize(
    ("example", "subject"), [("5.2", INCLUSION_REQUEST), ("5.3", EXCLUSION_REQUEST)]
)
def test_a_request_is_that_of_the_example_byte_for_byte(example: str, subject: str) -> None:
    query = EXAMPLES[f"[R] Example {example}"].partition("?")[2]
    assert format_registration_request(replace(REQUEST, subject=subject)) == query


@pytest.mark.rule("R5-06")
def test_a_request_has_eight_pairs() -> None:
    pairs = decode_query_string(format_registration_request(REQUEST))
    assert len(pairs) == 8
    assert pairs[0] == ("servicesubject", "inclusionRequest")
    assert all(value for _, value in pairs)
    assert dict(pairs)["archiveprotocol"] == "HTTP"


@given(st.from_regex(r"[ -~]{1,20}", fullmatch=True))
def test_any_printable_ascii_version_is_read_as_it_was_written(version: str) -> None:
    query = format_registration_request(replace(REQUEST, platform_version=version))
    assert query.isascii()
    assert " " not in query
    assert dict(decode_query_string(query))["archiveplatformversion"] == version


@pytest.mark.rule("R5-12", "R5-13")
@pytest.mark.parametrize(
    ("name", "subject", "status"),
    [
        ("included", INCLUSION_REQUEST, INCLUDED),
        ("included, not confirmed", INCLUSION_REQUEST, UNCONFIRMED),
        ("excluded", EXCLUSION_REQUEST, EXCLUDED),
    ],
)
def test_the_answers_of_the_document_are_read_and_written(
    name: str, subject: str, status: RegistrationStatus
) -> None:
    text = VECTORS["answers"][name]
    assert parse_registration_answer(subject, text.encode()) == status
    assert format_registration_status(status) == text
    assert status.confirmed == (name == "included")


@for_each(
    "body",
    [
        b"status.archive included\r\nstatus.confirmation successful",
        b"status.confirmation successful status.archive included",
        b"\xef\xbb\xbfstatus.archive included\nstatus.confirmation successful\n",
        b"status.archive {included} status.confirmation {successful}",
        b"notice {bem-vindo \xe0 rede} status.archive included status.confirmation successful",
        b"status.archive included status.archive included status.confirmation successful",
    ],
)
def test_an_answer_may_have_any_form_of_a_list_of_pairs(body: bytes) -> None:
    assert parse_registration_answer(INCLUSION_REQUEST, body) == INCLUDED


@for_each(
    ("subject", "body", "said"),
    [
        (INCLUSION_REQUEST, b"", "status.archive is missing"),
        (INCLUSION_REQUEST, b"confirmation yes", "status.archive is missing"),
        (INCLUSION_REQUEST, b"status.archive", "has no value"),
        (INCLUSION_REQUEST, b"status.archive {included", "an opening brace"),
        (INCLUSION_REQUEST, b"status.archive included", "status.confirmation is missing"),
        (
            INCLUSION_REQUEST,
            b"status.archive included status.confirmation maybe",
            "status.confirmation is 'maybe'; it should be successful or unsuccessful",
        ),
        (
            INCLUSION_REQUEST,
            b"status.archive excluded",
            "status.archive is 'excluded'; after an inclusionRequest it should be included",
        ),
        (
            EXCLUSION_REQUEST,
            b"status.archive included status.confirmation successful",
            "status.archive is 'included'; after an exclusionRequest it should be excluded",
        ),
        (
            INCLUSION_REQUEST,
            b"status.archive included status.archive excluded status.confirmation successful",
            "status.archive appears twice with different values; status.archive should appear once",
        ),
    ],
)
def test_an_answer_without_a_status_is_an_error(subject: str, body: bytes, said: str) -> None:
    with pytest.raises(PeerProtocolError) as caught:
        parse_registration_answer(subject, body)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_status_or_an_error(body: bytes) -> None:
    for subject in (INCLUSION_REQUEST, EXCLUSION_REQUEST):
        said = ""
        try:
            parse_registration_answer(subject, body)
        except PeerProtocolError as error:
            said = str(error)
        assert "\n" not in said


def pairs(**values: str | None) -> list[tuple[str, str]]:
    return [(name, value) for name, value in {**RIGHT, **values}.items() if value is not None]


@pytest.mark.parametrize("subject", ["inclusionRequest", "exclusionRequest"])
def test_a_request_of_an_archive_is_read_by_a_resolver(subject: str) -> None:
    request = parse_registration_request(pairs(servicesubject=subject))
    assert (request.subject, request.address) == (subject, "banon-pc2.dpi.inpe.br:8080")
    assert request.service_ibi.text == "dpi.inpe.br/banon/1999/01.09.22.14"
    written = format_registration_request(request)
    assert parse_registration_request(decode_query_string(written)) == request
    assert written.split("&")[1].startswith("archiveaddress=")


@for_each("name", RIGHT)
def test_each_of_the_eight_pairs_is_required_once(name: str) -> None:
    for empty in (None, ""):
        with pytest.raises(PeerProtocolError) as missing:
            parse_registration_request(pairs(**{name: empty}))
        assert str(missing.value) == f"{name} is missing"
    for again in (RIGHT[name], ""):
        with pytest.raises(PeerProtocolError) as repeated:
            parse_registration_request([*pairs(), (name, again)])
        assert str(repeated.value).startswith(f"{name} appears more than once")


def test_the_prefixes_and_the_database_of_an_archive_are_further_pairs() -> None:
    request = replace(REQUEST, mints="sid.inpe.br/mtc-m21 8JMKD3MGP3W", database="b8f1")
    written = format_registration_request(request)
    assert written.endswith("&mints=sid.inpe.br/mtc-m21%208JMKD3MGP3W&database=b8f1")
    assert parse_registration_request(decode_query_string(written)) == request
    for wrong in ("", "a\0b", "é", "a\nb"):
        assert parse_registration_request(pairs(mints=wrong)).mints == ""


def test_an_answer_may_tell_of_a_clash() -> None:
    status = replace(INCLUDED, clash="A and B mint with {one} prefix")
    text = format_registration_status(status)
    assert text == (
        "status.archive included status.confirmation successful "
        "clash {A and B mint with %7Bone%7D prefix}"
    )
    found = parse_registration_answer(INCLUSION_REQUEST, text.encode())
    assert found.clash == "A and B mint with %7Bone%7D prefix"


def test_other_pairs_and_another_order_are_ignored() -> None:
    more = [("more", "x"), ("more", "y"), *reversed(pairs())]
    assert parse_registration_request(more) == parse_registration_request(pairs())


@pytest.mark.parametrize("subject", ["urlRequest", "InclusionRequest", "x" * 300])
def test_another_subject_is_an_error(subject: str) -> None:
    with pytest.raises(PeerProtocolError, match="one of inclusionRequest, exclusionRequest"):
        parse_registration_request(pairs(servicesubject=subject))


@pytest.mark.rule("R5-07")
@for_each(("name", "values"), CASES["a wrong value is one line that names its pair"])  # fmt: skip
def test_a_wrong_value_is_one_line_that_names_its_pair(name: str, values: list[str]) -> None:
    for value in values:
        with pytest.raises(PeerProtocolError) as refusal:
            parse_registration_request(pairs(**{name: value}))
        assert str(refusal.value).startswith(f"{name}: ")
        assert str(refusal.value).isprintable()
        assert len(str(refusal.value)) < 1000


@for_each(("name", "value", "message"), CASES["the error says how a value should be"])
def test_the_error_says_how_a_value_should_be(name: str, value: str, message: str) -> None:
    with pytest.raises(PeerProtocolError) as refusal:
        parse_registration_request(pairs(**{name: value}))
    assert message in str(refusal.value)


def test_a_value_has_at_most_255_characters() -> None:
    version = "x" * 255
    request = parse_registration_request(pairs(archiveplatformversion=version))
    assert request.platform_version == version


@pytest.mark.parametrize("key", ["hush-hush", "123456789", f"{KEY}-1234567890", "1234567890 "])
def test_a_wrong_key_is_not_shown(key: str) -> None:
    with pytest.raises(PeerProtocolError) as refusal:
        parse_registration_request(pairs(registrationkey=key))
    assert str(refusal.value).startswith("registrationkey: ")
    assert key.strip() not in str(refusal.value)
    assert KEY not in repr(parse_registration_request(pairs()))


def test_ip_and_identifier_are_canonical() -> None:
    request = parse_registration_request(
        pairs(archiveip="::FFFF:150.163.2.166", archiveserviceibi="j8lnkb5r7w/3fuqhc5")
    )
    assert (request.ip, request.service_ibi.text) == ("150.163.2.166", "J8LNKB5R7W/3FUQHC5")


@given(st.lists(st.tuples(st.sampled_from([*RIGHT, "more"]), st.text(max_size=20)), max_size=9))
def test_any_pairs_are_a_request_or_a_peer_error(given_pairs: list[tuple[str, str]]) -> None:
    for tried in (given_pairs, list({**RIGHT, **dict(given_pairs)}.items())):
        with suppress(PeerProtocolError):
            assert is_archive_address(parse_registration_request(tried).address)
