"""Inclusion and exclusion requests as a resolver reads them ([R] Table 5.2), and its e-mail."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.vectors import load

from flask_ibi_archive.errors import (
    BadParameter,
    MissingParameter,
    PeerProtocolError,
    RepeatedParameter,
    UnknownSubject,
)
from flask_ibi_archive.identifiers import parse_identifier
from flask_ibi_archive.protocol.hosts import extract_host, is_archive_address
from flask_ibi_archive.protocol.inclusion import (
    format_registration_request,
    parse_registration_request,
)
from flask_ibi_archive.protocol.query import decode_query_string
from flask_ibi_archive.protocol.registration import build_confirmation_email

MESSAGES = load("messages.json")
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


def pairs(**values: str | None) -> list[tuple[str, str]]:
    return [(name, value) for name, value in {**RIGHT, **values}.items() if value is not None]


@pytest.mark.parametrize("subject", ["inclusionRequest", "exclusionRequest"])
def test_what_an_archive_writes_a_resolver_reads(subject: str) -> None:
    request = parse_registration_request(pairs(servicesubject=subject))
    assert (request.subject, request.address) == (subject, "banon-pc2.dpi.inpe.br:8080")
    assert request.service_ibi.text == "dpi.inpe.br/banon/1999/01.09.22.14"
    written = format_registration_request(request)
    assert parse_registration_request(decode_query_string(written)) == request
    assert written.split("&")[1].startswith("archiveaddress=")


@for_each("name", RIGHT)
def test_each_of_the_eight_pairs_is_needed_once(name: str) -> None:
    for empty in (None, ""):
        with pytest.raises(MissingParameter) as missing:
            parse_registration_request(pairs(**{name: empty}))
        assert missing.value.name == name
    for again in (RIGHT[name], ""):
        with pytest.raises(RepeatedParameter) as repeated:
            parse_registration_request([*pairs(), (name, again)])
        assert repeated.value.name == name


def test_other_pairs_and_another_order_mean_nothing() -> None:
    more = [("more", "x"), ("more", "y"), *reversed(pairs())]
    assert parse_registration_request(more) == parse_registration_request(pairs())


@pytest.mark.parametrize("subject", ["urlRequest", "InclusionRequest", "x" * 300])
def test_another_subject_is_none(subject: str) -> None:
    with pytest.raises(UnknownSubject, match="one of inclusionRequest, exclusionRequest"):
        parse_registration_request(pairs(servicesubject=subject))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (
            "archiveaddress",
            [
                "http://a.br", "a.br/path", "user@a.br", "a.br?x", "a.br#x", "a.br:0", "a.br:65536",
                "a.br:", "a b", "a.br\r\n", "[::1", "[x]", "[1:2]", "á.br", "a" * 300, ":80", "a\0b",
            ],
        ),
        ("archiveserviceibi", ["x", "a.br", "dpi.inpe.br/banon/1999/13.09.22.14", "\udcf3"]),
        ("archiveip", ["a.br", "150.163.2", "150.163.2.999", "fe80::1%eth0", "1.2.3.4 5.6.7.8"]),
        ("archiveprotocol", ["http", "HTTPS", "HTTP/1.1"]),
        ("archiveplatformversion", ["versão", "a\nb", "a\0b", "x" * 256]),
        ("archiveadmemailaddress", ["banon", "@a.br", "a@", "a@b@c", "a b@c", "a@b\nTo: c", "ã@b"]),
    ],
)  # fmt: skip
def test_a_wrong_value_is_one_line_that_names_its_pair(name: str, values: list[str]) -> None:
    for value in values:
        with pytest.raises(BadParameter) as refusal:
            parse_registration_request(pairs(**{name: value}))
        assert refusal.value.name == name
        assert str(refusal.value).isprintable()
        assert len(str(refusal.value)) < 1000


@pytest.mark.parametrize("key", ["hush-hush", "123456789", f"{KEY}-1234567890", "1234567890 "])
def test_a_key_that_is_none_is_not_shown(key: str) -> None:
    with pytest.raises(BadParameter) as refusal:
        parse_registration_request(pairs(registrationkey=key))
    assert refusal.value.name == "registrationkey"
    assert key.strip() not in str(refusal.value)
    assert KEY not in repr(parse_registration_request(pairs()))


def test_ip_and_identifier_are_canonical() -> None:
    request = parse_registration_request(
        pairs(archiveip="::FFFF:150.163.2.166", archiveserviceibi="j8lnkb5r7w/3fuqhc5")
    )
    assert (request.ip, request.service_ibi.text) == ("150.163.2.166", "J8LNKB5R7W/3FUQHC5")


@given(st.lists(st.tuples(st.sampled_from([*RIGHT, "more"]), st.text(max_size=20)), max_size=9))
def test_anything_is_a_request_or_a_peers_error(given_pairs: list[tuple[str, str]]) -> None:
    for tried in (given_pairs, list({**RIGHT, **dict(given_pairs)}.items())):
        with suppress(PeerProtocolError):
            assert is_archive_address(parse_registration_request(tried).address)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("urlib.net", "urlib.net"),
        ("localhost:5000", "localhost"),
        ("150.163.2.166:80", "150.163.2.166"),
        ("[2001:db8::1]:8080", "2001:db8::1"),
    ],
)
def test_an_address_has_a_host(address: str, host: str) -> None:
    assert is_archive_address(address)
    assert extract_host(address) == host


def test_the_confirmation_tells_in_both_languages_what_to_do_next() -> None:
    ibi = parse_identifier(MESSAGES["email"]["archiveserviceibi"])
    subject, body = build_confirmation_email(ibi, "http://urlib.net/J8LNKB5R7W/3FUQHC5")
    assert subject == "Confirmação do cadastro de um Arquivo / Archive registered"
    for line in (
        f"archiveserviceibi = {ibi.text}",
        "IBI_RESOLVER_URL = http://urlib.net/J8LNKB5R7W/3FUQHC5",
        "flask ibi register-archive",
    ):
        assert body.splitlines().count(line) == 2
    assert "IBI_RESOLVER_URL" not in build_confirmation_email(ibi, None)[1]
