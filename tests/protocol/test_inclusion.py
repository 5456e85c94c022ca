"""Inclusion and exclusion: the requests and the e-mail byte for byte, the answers as they come."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.vectors import load

from flask_ibi_archive.errors import LocalProtocolError, PeerProtocolError
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.protocol.inclusion import (
    EXCLUSION_REQUEST,
    INCLUSION_REQUEST,
    RegistrationRequest,
    RegistrationStatus,
    format_registration_request,
    format_registration_status,
    parse_registration_answer,
)
from flask_ibi_archive.protocol.query import decode_query_string
from flask_ibi_archive.protocol.registration import build_registration_email

VECTORS = load("messages.json")
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


@pytest.mark.parametrize(
    ("example", "subject"), [("5.2", INCLUSION_REQUEST), ("5.3", EXCLUSION_REQUEST)]
)
def test_a_request_is_that_of_the_example_byte_for_byte(example: str, subject: str) -> None:
    query = EXAMPLES[f"[R] Example {example}"].partition("?")[2]
    assert format_registration_request(replace(REQUEST, subject=subject)) == query


def test_a_request_has_the_subject_and_seven_more_pairs() -> None:
    pairs = decode_query_string(format_registration_request(REQUEST))
    assert len(pairs) == 8
    assert pairs[0] == ("servicesubject", "inclusionRequest")
    assert all(value for _, value in pairs)
    assert dict(pairs)["archiveprotocol"] == "HTTP"


@given(st.text(st.characters(codec="ascii"), min_size=1))
def test_any_version_of_ascii_comes_back_as_it_was(version: str) -> None:
    query = format_registration_request(replace(REQUEST, platform_version=version))
    assert query.isascii()
    assert " " not in query
    assert dict(decode_query_string(query))["archiveplatformversion"] == version


@for_each(
    ("wrong", "said"),
    [
        ({"subject": "inclusion"}, "servicesubject: 'inclusion' is none of"),
        ({"address": ""}, "archiveaddress: it is empty"),
        ({"ip": "150.163.34"}, "archiveip: "),
        ({"ip": ""}, "archiveip: "),
        ({"platform_version": ""}, "archiveplatformversion: "),
        ({"platform_version": "versão"}, "archiveplatformversion: "),
        ({"admin_email": "banon"}, "archiveadmemailaddress: 'banon' should be user@host"),
        ({"admin_email": "@dpi.inpe.br"}, "archiveadmemailaddress: "),
        ({"admin_email": "joão@dpi.inpe.br"}, "archiveadmemailaddress: "),
        ({"key": "123456789"}, "registrationkey: it has not the form of a key"),
    ],
)
def test_a_request_that_breaks_table_5_2_is_not_made(wrong: dict[str, str], said: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        replace(REQUEST, **wrong)  # type: ignore[arg-type]
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("ip", ["150.163.34.239", "2001:db8::1"])
def test_both_kinds_of_ip_can_be_sent(ip: str) -> None:
    pairs = decode_query_string(format_registration_request(replace(REQUEST, ip=ip)))
    assert dict(pairs)["archiveip"] == ip


def test_neither_repr_nor_message_shows_the_key() -> None:
    assert REQUEST.key not in repr(REQUEST)
    with pytest.raises(LocalProtocolError) as caught:
        replace(REQUEST, key="12345secret")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "subject", "status"),
    [
        ("included", INCLUSION_REQUEST, INCLUDED),
        ("included, not confirmed", INCLUSION_REQUEST, UNCONFIRMED),
        ("excluded", EXCLUSION_REQUEST, EXCLUDED),
    ],
)
def test_the_answers_of_the_document_are_read_and_written_alike(
    name: str, subject: str, status: RegistrationStatus
) -> None:
    text = VECTORS["answers"][name]
    assert parse_registration_answer(subject, text.encode()) == status
    assert format_registration_status(status) == text
    assert status.confirmed == (name == "included")


@pytest.mark.parametrize(
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
def test_an_answer_is_read_as_wide_as_lists_of_pairs_are(body: bytes) -> None:
    assert parse_registration_answer(INCLUSION_REQUEST, body) == INCLUDED


@for_each(
    ("subject", "body", "said"),
    [
        (INCLUSION_REQUEST, b"", "there is no status.archive in it"),
        (INCLUSION_REQUEST, b"confirmation yes", "there is no status.archive in it"),
        (INCLUSION_REQUEST, b"status.archive", "has no value"),
        (INCLUSION_REQUEST, b"status.archive {included", "a brace is opened"),
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
            "status.archive is given twice",
        ),
    ],
)
def test_an_answer_that_is_no_status_is_an_error(subject: str, body: bytes, said: str) -> None:
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


def test_the_email_is_that_of_the_example_byte_for_byte() -> None:
    example = VECTORS["email"]
    service = parse_identifier(example["archiveserviceibi"])
    subject, body = build_registration_email(service, example["registrationkey"])
    assert subject == example["subject"]
    assert body.encode() == example["body"].encode()
