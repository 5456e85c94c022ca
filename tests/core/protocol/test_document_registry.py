"""Tests the requests of the document registry and the text of its answers ([P] 4)."""

from __future__ import annotations

import logging
import re
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import for_each
from support.registry_messages import format_request, requests

from flask_ibi_archive.core.protocol.query_strings import (
    contains_key,
    format_query_string,
    hide_keys,
)
from flask_ibi_archive.core.protocol.registry_2008.model import (
    ChangeActor,
    ChangeEMailAddress,
    ChangePassword,
    Credentials,
    DeleteDocumentRegistration,
    DisplayIDRegistration,
    DocumentLocation,
    DocumentRecord,
    DocumentRegistration,
    MetadataLocation,
    RegisterActor,
    RegisterDocument,
    RegistryRequest,
)
from flask_ibi_archive.core.protocol.registry_2008.registry_messages import (
    MAX_BODY,
    VERBS,
    Confirmation,
    RegisteredActor,
    RegisteredDocument,
    decode_arguments,
    find_verb,
    format_registry_answer,
    parse_registry_request,
)
from flask_ibi_archive.errors import DocumentRegistryError

ACTOR = "dpi.inpe.br/banon/2001/01.11.16.21"
DOCUMENT = "dpi.inpe.br/banon/2002/10.10.08.39"
LATER_ACTOR = "sid.inpe.br/bibdigital@80/2006/04.07.15.50"
LATER_DOCUMENT = "sid.inpe.br/md-m09@80/2008/06.04.14.39"
CREDENTIALS = {"actorID": ACTOR, "password": "12xY3z"}
LATER = {"actorID": LATER_ACTOR, "password": "12xY3z"}
DOCUMENT_URL = (
    "http://mtc-m17.sid.inpe.br/col/sid.inpe.br/mtc-m17%4080/2007/12.07.10.48/doc/paginadeacesso"
)
METADATA_URL = (
    "http://mtc-m17.sid.inpe.br/col/iconet.com.br/banon/2003/11.21.21.08/doc/oai.cgi"
    "?verb=GetRecord&identifier=oai:sid.inpe.br:sid.inpe.br/mtc-m17@80/2007/12.07.10.48.20-0"
    "&metadataPrefix=mtd2-br"
)
URL = {"documentURL": "http://a.br/", "documentLastUpdate": "2008-07-17T17:22:06-03:00"}
METADATA = {"metadataURL": "http://a.br/oai", "metadataLastUpdate": "2008-07-17T17:44:57-03:00"}
UPDATED = datetime(2008, 7, 17, 20, 22, 6, tzinfo=timezone.utc)
METADATA_UPDATED = datetime(2008, 7, 17, 20, 44, 57, tzinfo=timezone.utc)

REGISTER_ACTOR = {
    "verb": "RegisterActor",
    "computerName": "hermes",
    "ip": "150.163.2.14",
    "domainName": "dpi.inpe.br",
    "port": "80",
    "eMailAddress": "banon@dpi.inpe.br",
    "password": "12xY3z",
}
REGISTER = {"verb": "RegisterDocument", **CREDENTIALS, **URL}
DISPLAY = {"verb": "DisplayIDRegistration", **LATER, "documentID": LATER_DOCUMENT}

#: The arguments of each section of [P] 4 with the values of its examples, and the request.
EXAMPLES: list[tuple[str, dict[str, str], RegistryRequest]] = [
    (
        "4.1",
        {**REGISTER_ACTOR, "actorID": ACTOR},
        RegisterActor(
            "hermes", "150.163.2.14", "dpi.inpe.br", 80, "banon@dpi.inpe.br", "12xY3z", ACTOR
        ),
    ),
    (
        "4.2",
        {"verb": "ChangePassword", **CREDENTIALS, "newPassword": "a2xY3z"},
        ChangePassword(Credentials(ACTOR, "12xY3z"), "a2xY3z"),
    ),
    (
        "4.3",
        {"verb": "ChangeEMailAddress", **CREDENTIALS, "newEmailAddress": "banon@iconet.com.br"},
        ChangeEMailAddress(Credentials(ACTOR, "12xY3z"), "banon@iconet.com.br"),
    ),
    (
        "4.4",
        {
            "verb": "RegisterDocument",
            **CREDENTIALS,
            "documentID": DOCUMENT,
            "originalDocument": "yes",
            "documentURL": DOCUMENT_URL,
            "documentLastUpdate": "2008-07-17T17:22:06-03:00",
            "metadataURL": METADATA_URL,
            "metadataLastUpdate": "2008-07-17T17:44:57-03:00",
            "metadataFormat": "mtd2-br",
            "metadataLanguage": "pt-BR",
            "previousEditionURL": "http://a.br/1",
            "nextEditionURL": "http://a.br/3",
        },
        RegisterDocument(
            Credentials(ACTOR, "12xY3z"),
            DocumentLocation(
                DOCUMENT_URL,
                UPDATED,
                (MetadataLocation(METADATA_URL, METADATA_UPDATED, "mtd2-br", "pt-BR"),),
                "http://a.br/1",
                "http://a.br/3",
            ),
            DOCUMENT,
            is_original=True,
        ),
    ),
    (
        "4.5",
        {
            "verb": "ChangeActor",
            "actorID": "sid.inpe.br/banon/2001/03.09.09.16",
            "password": "12xY3z",
            "documentID": LATER_DOCUMENT,
            "newActorID": LATER_ACTOR,
        },
        ChangeActor(
            Credentials("sid.inpe.br/banon/2001/03.09.09.16", "12xY3z"),
            LATER_DOCUMENT,
            LATER_ACTOR,
        ),
    ),
    (
        "4.6",
        {"verb": "DeleteDocumentRegistration", **LATER, "documentID": LATER_DOCUMENT},
        DeleteDocumentRegistration(Credentials(LATER_ACTOR, "12xY3z"), LATER_DOCUMENT),
    ),
    (
        "4.7",
        DISPLAY,
        DisplayIDRegistration(Credentials(LATER_ACTOR, "12xY3z"), LATER_DOCUMENT),
    ),
]


def parse(arguments: dict[str, str], *more: tuple[str, str]) -> Any:
    """Parse arguments; arguments that a dictionary cannot repeat follow in ``more``."""
    return parse_registry_request([*arguments.items(), *more])


def refuse(arguments: dict[str, str], *more: tuple[str, str]) -> str:
    """Return the message of the error for arguments that are malformed."""
    with pytest.raises(DocumentRegistryError) as refused:
        parse(arguments, *more)
    assert refused.value.code == "malformed"
    message = str(refused.value)
    assert message.isascii()
    assert "\n" not in message
    return message


def read(arguments: list[tuple[str, str]]) -> RegistryRequest | DocumentRegistryError:
    """Return the request, or the error that the parser raises."""
    try:
        return parse_registry_request(arguments)
    except DocumentRegistryError as error:
        return error


def omit(name: str, arguments: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in arguments.items() if key != name}


# --- requests ------------------------------------------------------------------------------------


@pytest.mark.rule("P4-02")
@for_each(("section", "arguments", "request_"), EXAMPLES)
def test_the_examples_of_the_document(
    section: str, arguments: dict[str, str], request_: RegistryRequest
) -> None:
    assert parse(arguments) == request_
    assert [name for name, _ in format_request(request_)] == list(arguments)


def test_the_examples_contain_all_verbs() -> None:
    assert tuple(arguments["verb"] for _, arguments, _ in EXAMPLES) == VERBS


@given(requests)
def test_a_request_is_read_as_it_was_written(request_: RegistryRequest) -> None:
    body = format_query_string(format_request(request_))
    assert parse_registry_request(decode_arguments(body.encode("ascii"))) == request_


@pytest.mark.rule("P4-09")
@given(requests, st.randoms(use_true_random=False))
def test_only_the_arguments_of_metadata_have_an_order(
    request_: RegistryRequest, random: Any
) -> None:
    arguments = format_request(request_)
    others = [pair for pair in arguments if not pair[0].startswith("metadata")]
    ordered = iter([pair for pair in arguments if pair[0].startswith("metadata")])
    mixed = [pair if pair in others else None for pair in arguments]
    random.shuffle(mixed)
    rest = iter(random.sample(others, len(others)))
    shuffled = [next(ordered) if pair is None else next(rest) for pair in mixed]
    assert parse_registry_request(shuffled) == request_


VALUES = sorted({pair for _, arguments, _ in EXAMPLES for pair in arguments.items()})
FUZZED = st.lists(
    st.sampled_from(VALUES)
    | st.tuples(st.sampled_from([name for name, _ in VALUES]), st.text(max_size=8)),
    max_size=8,
)


@given(st.sampled_from(EXAMPLES), FUZZED, st.booleans())
def test_a_request_is_malformed_or_read_again_as_it_was_read(
    example: Any, fuzzed: list[tuple[str, str]], replaces: bool
) -> None:
    right = example[1]
    arguments = [*({**right, **dict(fuzzed)}).items()] if replaces else [*right.items(), *fuzzed]
    outcome = read(arguments)
    if isinstance(outcome, DocumentRegistryError):
        assert outcome.code == "malformed"
        assert "\n" not in str(outcome)
    else:
        assert parse_registry_request(format_request(outcome)) == outcome


@pytest.mark.rule("P4-10")
def test_optional_arguments() -> None:
    assert parse(REGISTER_ACTOR).actor_id is None
    request = parse(REGISTER)
    assert (request.document_id, request.is_original) == (None, False)
    assert request.location == DocumentLocation("http://a.br/", UPDATED)


@pytest.mark.rule("P4-09")
def test_arguments_of_metadata_belong_to_the_metadata_url_before_them() -> None:
    """[P] 4.4, note 5."""
    second = {"metadataURL": "http://a.br/2", "metadataLastUpdate": "2008-07-17T00:00:00Z"}
    request = parse(
        {"verb": "RegisterDocument", **CREDENTIALS},
        *METADATA.items(),
        ("metadataLanguage", "pt"),
        *second.items(),
        ("previousEditionURL", "http://a.br/1"),
        ("metadataFormat", "oai_dc"),
    )
    first, other = request.location.metadata
    assert (first.url, first.format, first.language) == ("http://a.br/oai", None, "pt")
    assert (other.url, other.format, other.language) == ("http://a.br/2", "oai_dc", None)


@pytest.mark.rule("P4-02", "P4-04", "P4-07", "P4-08", "P4-10")
@for_each(
    ("arguments", "message"),
    [
        (omit("verb", DISPLAY), "verb is missing; it must be one of RegisterActor, "),
        ({**DISPLAY, "verb": ""}, "verb is missing; it must be one of RegisterActor, "),
        (
            {**DISPLAY, "verb": "RegisterDocuments"},
            "verb 'RegisterDocuments' is unknown; did you mean RegisterDocument?; it must be one",
        ),
        ({**DISPLAY, "verb": "\xe9"}, r"verb '\xe9' is unknown; it must be one of RegisterActor, "),
        (
            {**DISPLAY, "documentId": "1"},
            "'documentId' is not an argument of DisplayIDRegistration; did you mean documentID?; "
            "the arguments are actorID, password, documentID",
        ),
        ({**DISPLAY, "\xe9" * 100: "1"}, "'" + r"\xe9" * 80 + "' is not an argument of Display"),
        ({**DISPLAY, "documentURL": "http://a.br"}, "'documentURL' is not an argument of Display"),
        ({**DISPLAY, "documentID": ""}, "documentID is empty; enter a value"),
        (
            {**REGISTER, "nextEditionURL": ""},
            "nextEditionURL is empty; enter a value, or omit the argument",
        ),
        (
            omit("port", REGISTER_ACTOR),
            "port is missing; RegisterActor requires computerName, ip, domainName, port, ",
        ),
        (omit("password", REGISTER), "password is missing; RegisterDocument requires actorID, "),
        (
            omit("documentLastUpdate", REGISTER),
            "documentLastUpdate is missing; it is required with",
        ),
        (omit("documentURL", REGISTER), "documentLastUpdate is the date of the documentURL, which"),
        (
            omit("documentURL", omit("documentLastUpdate", REGISTER)),
            "documentURL and metadataURL are missing; one of them is required",
        ),
        (
            {**REGISTER, "metadataFormat": "oai_dc", **METADATA},
            "metadataFormat must follow the metadataURL to which it belongs",
        ),
        (
            {**REGISTER, "metadataURL": "http://a.br/"},
            "metadata 1: metadataLastUpdate is missing; it is required with metadataURL",
        ),
        ({**REGISTER, "originalDocument": "Yes"}, "originalDocument: 'Yes' should be yes or no"),
        ({**REGISTER, "actorID": "a"}, "actorID: 'a' is not an IBI: "),
        ({**REGISTER, "documentID": "a/b/c/d"}, "documentID: 'a/b/c/d' is not an IBI: "),
        ({**REGISTER_ACTOR, "port": "0"}, "port: '0' should be a number from 1 to 65535"),
        ({**REGISTER_ACTOR, "port": "65536"}, "port: '65536' should be a number from 1 to 65535"),
        (
            {**REGISTER_ACTOR, "port": "\u0661"},
            r"port: '\u0661' should be a number from 1 to 65535",
        ),
        ({**REGISTER_ACTOR, "ip": "1.2.3"}, "ip: '1.2.3' is not an IP address such as "),
        (
            {**REGISTER_ACTOR, "eMailAddress": "a"},
            "eMailAddress: 'a' should be an e-mail address, ",
        ),
        ({**REGISTER_ACTOR, "domainName": "a..b"}, "domainName: 'a..b' should be a part of a host"),
        (
            {**REGISTER_ACTOR, "computerName": "a:1"},
            "computerName: 'a:1' should be a part of a host",
        ),
        ({**REGISTER_ACTOR, "domainName": "2.3.4"}, "computerName and domainName: 'hermes.2.3.4' "),
        (
            {**REGISTER_ACTOR, "computerName": "-a"},
            "computerName and domainName: '-a.dpi.inpe.br' ",
        ),
        ({**REGISTER_ACTOR, "computerName": "a" * 64}, "computerName and domainName: 'aaaaaaa"),
        ({**REGISTER_ACTOR, "domainName": "a" * 256}, "domainName: the value has 256 characters; "),
        (
            {**REGISTER, "password": "a" * 256},
            "password: the value has 256 characters; at most 255",
        ),
        ({**REGISTER, "password": "a\x85"}, "password: the value contains a control character or"),
        ({**REGISTER, "password": "\ud800"}, "password: the value contains a control character or"),
        ({**REGISTER, **METADATA, "metadataFormat": "a b"}, "metadata 1: metadataFormat: 'a b' "),
        (
            {**REGISTER, **METADATA, "metadataLanguage": "pt-br"},
            "metadata 1: metadataLanguage: 'pt-br' ",
        ),
    ],
)
def test_an_error_names_the_argument_and_what_would_be_right(
    arguments: dict[str, str], message: str
) -> None:
    assert refuse(arguments).startswith(message)


@for_each(
    ("arguments", "more", "message"),
    [
        (DISPLAY, ("verb", "ChangeActor"), "verb appears more than once; it must appear once"),
        (DISPLAY, ("password", "1"), "password appears more than once; it must appear once"),
        (REGISTER, ("documentURL", "http://a.br/"), "documentURL appears more than once; it must"),
        (
            {**REGISTER, **METADATA},
            ("metadataLastUpdate", METADATA["metadataLastUpdate"]),
            "metadata 1: metadataLastUpdate appears more than once; it must appear once",
        ),
    ],
)
def test_a_repeated_argument_is_refused(
    arguments: dict[str, str], more: tuple[str, str], message: str
) -> None:
    assert refuse(arguments, more).startswith(message)


@pytest.mark.rule("P4-09")
def test_a_request_has_at_most_100_metadata() -> None:
    more = [*METADATA.items()] * 100
    assert len(parse(REGISTER, *more).location.metadata) == 100
    message = refuse(REGISTER, *more, *METADATA.items())
    assert message == "metadataURL appears 101 times; at most 100 are allowed"


# --- values --------------------------------------------------------------------------------------


def read_date(text: str) -> datetime:
    date: datetime = parse({**REGISTER, "documentLastUpdate": text}).location.updated_at
    assert date.tzinfo is timezone.utc
    return date


@pytest.mark.rule("P4-07")
@for_each(
    "text",
    [
        "2008-07-17T17:22:06-03:00",
        "2008-07-17T20:22:06Z",
        "2008-07-17T20:22:06+00:00",
        "2008-07-17T17:22:06-0300",
        "2008-07-17T17:22:06-03",
        "2008-07-18T01:52:06+05:30",
        "2008-07-17T17:22:06.999-03:00",
        "2008-07-17T20:22:06,5Z",
    ],
)
def test_a_date_has_any_offset_and_is_kept_in_utc(text: str) -> None:
    assert read_date(text) == UPDATED


@for_each(
    "text",
    [
        "2008-07-17T17:22:06",
        "2008-07-17",
        "2008-07-17 17:22:06Z",
        "2008-07-17T17:22Z",
        "2008-02-30T17:22:06Z",
        "2008-07-17T24:22:06Z",
        "2008-07-17T17:22:60Z",
        "2008-07-17T17:22:06+24:00",
        "2008-07-17T17:22:06+03:60",
        "2008-07-17T17:22:06z",
        "0001-01-01T00:00:00+01:00",
        "0999-12-31T23:59:59Z",
        "9998-12-31T23:59:59-00:01",
        "9999-12-31T23:59:59-01:00",
        "\u0662008-07-17T17:22:06Z",
        "now",
    ],
)
def test_these_are_not_dates(text: str) -> None:
    message = refuse({**REGISTER, "documentLastUpdate": text})
    assert message.startswith(f"documentLastUpdate: {text!a} should be a date with a time and an")
    assert "%2B" not in message


def test_the_error_explains_a_plus_that_arrived_as_a_space() -> None:
    message = refuse({**REGISTER, "documentLastUpdate": "2008-07-17T17:22:06 03:00"})
    assert message.endswith('; encode "+" as %2B')


@for_each(
    ("text", "url"),
    [
        ("HTTPS://A.br", "HTTPS://A.br"),
        ("http://[2001:db8::1]:8080/a?b=c&d#e", "http://[2001:db8::1]:8080/a?b=c&d#e"),
        ("http://a.br/%e9%41%", "http://a.br/%e9%41%"),
        (
            "http://a.br/m\xe9tadados?t=\u4e2d#\U0001f600",
            "http://a.br/m%C3%A9tadados?t=%E4%B8%AD#%F0%9F%98%80",
        ),
        ("http://a.br//b@c", "http://a.br//b@c"),
        ("http://a.br/" + "a" * 2036, "http://a.br/" + "a" * 2036),
    ],
)
def test_these_are_urls(text: str, url: str) -> None:
    assert parse({**REGISTER, "documentURL": text}).location.url == url


@for_each(
    "text",
    [
        "a.br/doc",
        "ftp://a.br/",
        "http:///doc",
        "http://a.br:0/",
        "http://a.br:65536/",
        "http://b\xfccher.example/",
        "http://a.br/a b",
        "http://a.br/<b>",
        "http://[::1/",
        "javascript:alert(1)",
    ],
)
def test_these_are_not_urls(text: str) -> None:
    message = refuse({**REGISTER, "documentURL": text})
    assert message.startswith(f"documentURL: {text!a} is not a URL such as https://host/path")


def test_a_url_has_at_most_2048_characters_after_encoding() -> None:
    message = refuse({**REGISTER, "documentURL": "http://a.br/" + "\xe9" * 340})
    assert message == "documentURL: the URL has 2052 characters; at most 2048 are allowed"


@for_each("url", ["http://u:12xY3z@a.br/", "http://u:12xY3z@[::1/", "ftp://12xY3z@a.br"])
def test_the_password_of_a_url_is_not_shown(url: str) -> None:
    message = refuse({**REGISTER, "nextEditionURL": url})
    assert message.startswith("nextEditionURL: the URL has a user name or password")
    assert "12xY3z" not in message


@pytest.mark.rule("P4-04")
@for_each(
    ("text", "actor_id"),
    [
        ("DPI.inpe.br/Banon/2001/01.11.16.21", ACTOR),
        ("8jmkd3mgp8w/34pgrbs", "8JMKD3MGP8W/34PGRBS"),
    ],
)
def test_identifiers_become_canonical(text: str, actor_id: str) -> None:
    assert parse({**REGISTER, "actorID": text}).credentials.actor_id == actor_id


@for_each(
    ("name", "text", "field", "value"),
    [
        ("ip", "2001:DB8:0::1", "ip", "2001:db8::1"),
        ("ip", "::ffff:150.163.2.14", "ip", "150.163.2.14"),
        ("port", "00080", "port", 80),
        ("computerName", "hermes.lab", "host", "hermes.lab.dpi.inpe.br"),
        ("domainName", "DPI.INPE.br", "host", "hermes.dpi.inpe.br"),
        ("password", " \xe9\u4e2d&=+%41 ", "password", " \xe9\u4e2d&=+%41 "),
        ("password", "\U0001f600" * 255, "password", "\U0001f600" * 255),
    ],
)
def test_values_of_an_actor(name: str, text: str, field: str, value: object) -> None:
    assert getattr(parse({**REGISTER_ACTOR, name: text}), field) == value


@for_each(("section", "arguments", "request_"), EXAMPLES)
def test_a_password_is_never_shown(
    section: str, arguments: dict[str, str], request_: RegistryRequest
) -> None:
    for name in ("password", "newPassword"):
        if name in arguments:
            assert arguments[name] not in repr(request_)
            for wrong in (arguments[name] + "\0", arguments[name] * 100):
                assert arguments[name] not in refuse({**arguments, name: wrong})


# --- the encoding --------------------------------------------------------------------------------


@for_each(
    ("raw", "arguments"),
    [
        (b"", []),
        (b"verb=a+b&verb=%2B%C3%A9", [("verb", "a b"), ("verb", "+\xe9")]),
        (b"a&=b&&c=d=e", [("a", ""), ("", "b"), ("c", "d=e")]),
        ("a=\xe9".encode(), [("a", "\xe9")]),
    ],
)
def test_arguments_are_decoded_in_their_order(raw: bytes, arguments: list[tuple[str, str]]) -> None:
    assert decode_arguments(raw) == arguments


@for_each("raw", [b"a%E9=1", b"a=%E9", b"a=\xe9", b"a=%ED%A0%80"])
def test_only_utf8_is_accepted(raw: bytes) -> None:
    with pytest.raises(DocumentRegistryError, match=r"^the argument 'a.* is not UTF-8; it must be"):
        decode_arguments(raw)


def test_the_size_of_a_request_is_limited() -> None:
    assert decode_arguments(b"a=" + b"b" * (MAX_BODY - 2))
    with pytest.raises(DocumentRegistryError, match="has 65537 bytes; at most 65536 are allowed"):
        decode_arguments(b"a=" + b"b" * (MAX_BODY - 1))


@for_each(
    ("arguments", "verb"),
    [
        ([("actorID", "a"), ("verb", "ChangeActor")], "ChangeActor"),
        ([("verb", "changeactor")], None),
        ([], None),
    ],
)
def test_the_verb_of_a_malformed_request(
    arguments: list[tuple[str, str]], verb: str | None
) -> None:
    assert find_verb(arguments) == verb


# --- answers -------------------------------------------------------------------------------------

RECORD = DocumentRecord(
    LATER_DOCUMENT,
    (
        DocumentRegistration(
            LATER_ACTOR,
            is_copy=False,
            is_original=True,
            location=DocumentLocation(
                "http://a.br/",
                UPDATED,
                (
                    MetadataLocation("http://a.br/oai", METADATA_UPDATED, "mtd2-br"),
                    MetadataLocation("http://a.br/dc", METADATA_UPDATED, "oai_dc", "pt-BR"),
                ),
                next_edition_url="http://a.br/2",
            ),
        ),
        DocumentRegistration(
            ACTOR,
            is_copy=True,
            is_original=False,
            location=DocumentLocation(
                "http://b.br/", UPDATED, (MetadataLocation("http://b.br/oai", METADATA_UPDATED),)
            ),
        ),
    ),
)
RECORD_TEXT = f"""\
documentID {LATER_DOCUMENT}
	actorID {LATER_ACTOR}
	originalDocument yes
	documentURL http://a.br/ documentLastUpdate 2008-07-17T20:22:06Z
	metadataURL http://a.br/oai metadataLastUpdate 2008-07-17T20:44:57Z metadataFormat mtd2-br
	metadataURL http://a.br/dc metadataLastUpdate 2008-07-17T20:44:57Z metadataFormat oai_dc \
metadataLanguage pt-BR
	nextEditionURL http://a.br/2
	actorID {ACTOR}
	documentURL http://b.br/ documentLastUpdate 2008-07-17T20:22:06Z
	metadataURL http://b.br/oai metadataLastUpdate 2008-07-17T20:44:57Z
"""
#: The record as [P] 4.7 prints it.
PRINTED = """\
documentID
	actorID
	originalDocument
	documentURL documentLastUpdate
	metadataURL metadataLastUpdate metadataFormat
	metadataURL metadataLastUpdate metadataFormat
	actorID
	documentURL documentLastUpdate
	metadataURL metadataLastUpdate
"""


@pytest.mark.rule("P4-17")
def test_a_record_has_the_lines_of_the_document() -> None:
    """[P] 4.7."""
    assert format_registry_answer(RECORD) == RECORD_TEXT
    names = re.sub(r"(?m)(\w+) [^ \n]+", r"\1", RECORD_TEXT)
    assert names.replace(" metadataLanguage", "").replace("\tnextEditionURL\n", "") == PRINTED


@for_each(
    ("answer", "text"),
    [
        (RegisteredActor(ACTOR), f"actorID {ACTOR}\n"),
        (RegisteredDocument(DOCUMENT), f"documentID {DOCUMENT}\n"),
        (Confirmation("the password was changed"), "confirmation {the password was changed}\n"),
        (RECORD, RECORD_TEXT),
    ],
)
def test_answers(answer: Any, text: str) -> None:
    assert format_registry_answer(answer) == text


@for_each(
    ("error", "text"),
    [
        (DocumentRegistryError("denied", "a b"), "error {denied a b}\n"),
        (
            DocumentRegistryError("unavailable", "a", 30),
            "error {unavailable a}\nretryAfter 30\n",
        ),
        (
            DocumentRegistryError("conflict", "\xe9\n \0"),
            "error {conflict \\xe9 \\x00}\n",
        ),
        (DocumentRegistryError("conflict", ""), "error conflict\n"),
    ],
)
def test_errors(error: DocumentRegistryError, text: str) -> None:
    assert format_registry_answer(error) == text


# --- logs ----------------------------------------------------------------------------------------


@for_each(
    ("text", "logged"),
    [
        ("GET /?password=12xY3z&a=b HTTP/1.1", "GET /?password=***&a=b HTTP/1.1"),
        ("GET /?newPassword=12xY3z HTTP/1.1", "GET /?newPassword=*** HTTP/1.1"),
        ("GET /?PASSWORD=12xY3z HTTP/1.1", "GET /?PASSWORD=*** HTTP/1.1"),
        ("GET /?p%61ssw%4Frd=12xY3z&a HTTP/1.1", "GET /?p%61ssw%4Frd=***&a HTTP/1.1"),
        ("GET /?%6e%65w%50assword=12xY3z HTTP/1.1", "GET /?%6e%65w%50assword=*** HTTP/1.1"),
        ("GET /?password=a'12xY3z HTTP/1.1", "GET /?password=*** HTTP/1.1"),
        ("GET /?password=a%2612xY3z&b HTTP/1.1", "GET /?password=***&b HTTP/1.1"),
        (
            "GET /?u=http://a%3Fpassword%3D12xY3z%26b HTTP/1.1",
            "GET /?u=http://a%3Fpassword%3D***%26b HTTP/1.1",
        ),
        (
            "GET /?password=1&newPassword=2&registrationkey=3 HTTP/1.1",
            "GET /?password=***&newPassword=***&registrationkey=*** HTTP/1.1",
        ),
    ],
)
def test_passwords_are_hidden_in_logs(text: str, logged: str) -> None:
    logger = logging.getLogger("test_passwords_are_hidden_in_logs")
    hide_keys([logger.name])
    record = logger.makeRecord(logger.name, logging.INFO, "", 0, '"%s"', (text,), None)
    assert logger.filter(record)
    assert record.getMessage() == f'"{logged}"'


def test_a_persistent_url_may_have_a_password() -> None:
    """Only registration keys are refused in persistent URLs."""
    assert not contains_key("password=1")
    assert contains_key("a&registrationk%65y=1")
