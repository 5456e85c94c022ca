"""The registration, inclusion and exclusion of an Archive ([R] 5.1 and 5.2)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vectors import load

from flask_ibi_archive.core.identifiers.parse import parse_identifier
from flask_ibi_archive.core.protocol import inclusion
from flask_ibi_archive.core.protocol.inclusion import (
    EXCLUSION_REQUEST,
    INCLUSION_REQUEST,
    RegistrationStatus,
    format_registration_request,
    parse_registration_answer,
    parse_registration_request,
)
from flask_ibi_archive.core.protocol.pairs import decode_query_string
from flask_ibi_archive.errors import PeerProtocolError

VECTORS = load("messages.json")
SERVICE = parse_identifier(VECTORS["email"]["archiveserviceibi"])
#: The queries of the examples, by their sources.
EXAMPLES = {case["source"]: case["url"].partition("?")[2] for case in VECTORS["requests"]}
REQUEST = inclusion.RegistrationRequest(
    subject=INCLUSION_REQUEST,
    address="mtc-m21.sid.inpe.br",
    service_ibi=parse_identifier("sid.inpe.br/mtc-m21/2012/06.05.15.34.39"),
    ip="150.163.34.239",
    platform_version="2014:11.09.02.16.15",
    admin_email="banon@dpi.inpe.br",
    key="1234567890",
)
PAIRS = decode_query_string(format_registration_request(REQUEST))


def change(**values: str) -> list[tuple[str, str]]:
    """Return the pairs of a request with other values."""
    return [*{**dict(PAIRS), **values}.items()]


@pytest.mark.rule("R5-02", "R5-04")
def test_the_emails_are_that_of_the_example_and_one_in_both_languages() -> None:
    example = VECTORS["email"]
    email = inclusion.build_registration_email(SERVICE, example["registrationkey"])
    assert email == (example["subject"], example["body"])
    url = "http://urlib.net/J8LNKB5R7W/3FUQHC5"
    subject, body = inclusion.build_confirmation_email(SERVICE, url)
    assert subject == "Confirmação do cadastro de um Arquivo / Archive registered"
    setting = f"IBI_RESOLVER_URL = {url}"
    for line in (f"archiveserviceibi = {SERVICE}", setting, "flask ibi register-archive"):
        assert body.splitlines().count(line) == 2
    without = inclusion.build_confirmation_email(SERVICE, None)[1]
    assert without == body.replace(f"{setting}\n", "")


@pytest.mark.rule("R5-06", "R5-08")
@pytest.mark.parametrize(
    ("example", "subject"), [("5.2", INCLUSION_REQUEST), ("5.3", EXCLUSION_REQUEST)]
)
def test_a_request_is_that_of_the_example_byte_for_byte(example: str, subject: str) -> None:
    request, query = replace(REQUEST, subject=subject), EXAMPLES[f"[R] Example {example}"]
    assert format_registration_request(request) == query
    assert len(decode_query_string(query)) == 8
    assert parse_registration_request(decode_query_string(query)) == request


@given(st.from_regex(r"[ -~]{1,255}", fullmatch=True), st.randoms())
def test_a_request_is_read_as_it_was_written_in_any_order(version: str, random: object) -> None:
    request = replace(REQUEST, platform_version=version)
    query = format_registration_request(request)
    assert query.isascii()
    assert " " not in query
    pairs = [("more", "x"), *decode_query_string(query), ("more", "y")]
    random.shuffle(pairs)  # type: ignore[attr-defined]
    assert parse_registration_request(pairs) == request


@pytest.mark.parametrize("name", dict(PAIRS))
def test_a_repeated_pair_is_refused(name: str) -> None:
    for again in (dict(PAIRS)[name], ""):
        with pytest.raises(PeerProtocolError, match=f"^{name} appears more than once"):
            parse_registration_request([*PAIRS, (name, again)])


def test_the_prefixes_and_the_database_of_an_archive_are_further_pairs() -> None:
    request = replace(REQUEST, mints="sid.inpe.br/mtc-m21 8JMKD3MGP3W", database="b8f1")
    written = format_registration_request(request)
    assert written.endswith("&mints=sid.inpe.br/mtc-m21%208JMKD3MGP3W&database=b8f1")
    assert parse_registration_request(decode_query_string(written)) == request
    for wrong in ("", "a\0b", "é", "a\nb"):
        assert parse_registration_request(change(mints=wrong)).mints == ""


@pytest.mark.parametrize("key", ["hush-hush", "123456789", "1234567890-1-1", "1234567890 "])
def test_a_key_is_not_shown(key: str) -> None:
    with pytest.raises(PeerProtocolError, match=r"^registrationkey: ") as refusal:
        parse_registration_request(change(registrationkey=key))
    assert key.strip() not in str(refusal.value)
    assert REQUEST.key not in repr(REQUEST)


def test_ip_and_identifier_are_canonical() -> None:
    request = parse_registration_request(
        change(archiveip="::FFFF:150.163.2.166", archiveserviceibi="j8lnkb5r7w/3fuqhc5")
    )
    assert (request.ip, request.service_ibi.text) == ("150.163.2.166", "J8LNKB5R7W/3FUQHC5")


@pytest.mark.rule("R5-12", "R5-13")
@pytest.mark.parametrize(
    ("name", "subject", "status"),
    [
        ("included", INCLUSION_REQUEST, RegistrationStatus("included", "successful")),
        ("included, not confirmed", INCLUSION_REQUEST,
         RegistrationStatus("included", "unsuccessful")),
        ("excluded", EXCLUSION_REQUEST, RegistrationStatus("excluded")),
    ],
)  # fmt: skip
def test_the_answers_of_the_document_are_read_and_written(
    name: str, subject: str, status: RegistrationStatus
) -> None:
    text = VECTORS["answers"][name]
    assert parse_registration_answer(subject, text.encode()) == status
    assert inclusion.format_registration_status(status) == text
    assert status.confirmed == (name == "included")


def test_an_answer_may_tell_of_a_clash() -> None:
    status = RegistrationStatus("included", "successful", "A and B mint with {one} prefix")
    text = inclusion.format_registration_status(status)
    assert text.endswith(" clash {A and B mint with %7Bone%7D prefix}")
    found = parse_registration_answer(INCLUSION_REQUEST, text.encode())
    assert found.clash == "A and B mint with %7Bone%7D prefix"
