"""Tests the requests of the registry protocol of 2008, and its answers in XML ([P] 4)."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from support.cases import for_each

from flask_ibi_archive.core.registry_2008 import (
    VERBS,
    DocumentLocation,
    DocumentRegistration,
    MetadataLocation,
    RegistryAnswer,
    format_registry_answer,
    parse_registry_request,
)
from flask_ibi_archive.errors import DocumentRegistryError

ACTOR = "dpi.inpe.br/banon/2001/01.11.16.21"
DOCUMENT = "dpi.inpe.br/banon/2002/10.10.08.39"
OTHER = "sid.inpe.br/bibdigital@80/2006/04.07.15.50"
CREDENTIALS = {"actorID": ACTOR, "password": "12xY3z"}
VALUES = {"actor_id": ACTOR, "password": "12xY3z"}
URL = {"documentURL": "http://a.br/", "documentLastUpdate": "2008-07-17T17:22:06-03:00"}
METADATA = {"metadataURL": "http://a.br/oai", "metadataLastUpdate": "2008-07-17T17:44:57-03:00"}
UPDATED = datetime(2008, 7, 17, 20, 22, 6, tzinfo=timezone.utc)
LATER = datetime(2008, 7, 17, 20, 44, 57, tzinfo=timezone.utc)
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
DISPLAY = {"verb": "DisplayIDRegistration", **CREDENTIALS, "documentID": DOCUMENT}

#: The arguments of each section of [P] 4 with the values of its examples, and the values.
EXAMPLES: list[tuple[dict[str, str], dict[str, Any]]] = [
    (
        {**REGISTER_ACTOR, "actorID": ACTOR},
        {
            "computer_name": "hermes",
            "ip": "150.163.2.14",
            "domain_name": "dpi.inpe.br",
            "port": 80,
            "email": "banon@dpi.inpe.br",
            **VALUES,
        },
    ),
    (
        {"verb": "ChangePassword", **CREDENTIALS, "newPassword": "a2xY3z"},
        {**VALUES, "new_password": "a2xY3z"},
    ),
    (
        {"verb": "ChangeEMailAddress", **CREDENTIALS, "newEmailAddress": "banon@iconet.com.br"},
        {**VALUES, "new_email": "banon@iconet.com.br"},
    ),
    (
        {
            **REGISTER,
            "documentID": DOCUMENT,
            "originalDocument": "yes",
            **METADATA,
            "metadataFormat": "mtd2-br",
            "metadataLanguage": "pt-BR",
            "previousEditionURL": "http://a.br/1",
            "nextEditionURL": "http://a.br/3",
        },
        {
            **VALUES,
            "document_id": DOCUMENT,
            "is_original": True,
            "location": DocumentLocation(
                "http://a.br/",
                UPDATED,
                (MetadataLocation("http://a.br/oai", LATER, "mtd2-br", "pt-BR"),),
                "http://a.br/1",
                "http://a.br/3",
            ),
        },
    ),
    (
        {"verb": "ChangeActor", **CREDENTIALS, "documentID": DOCUMENT, "newActorID": OTHER},
        {**VALUES, "document_id": DOCUMENT, "new_actor_id": OTHER},
    ),
    (
        {"verb": "DeleteDocumentRegistration", **CREDENTIALS, "documentID": DOCUMENT},
        {**VALUES, "document_id": DOCUMENT},
    ),
    (DISPLAY, {**VALUES, "document_id": DOCUMENT}),
]


def parse(arguments: dict[str, str], *more: tuple[str, str]) -> dict[str, Any]:
    """Return the values; arguments that a dictionary cannot repeat follow in ``more``."""
    return parse_registry_request([*arguments.items(), *more])[1]


def refuse(arguments: dict[str, str], *more: tuple[str, str]) -> str:
    """Return the message of the error for arguments that are malformed."""
    with pytest.raises(DocumentRegistryError) as refused:
        parse(arguments, *more)
    assert refused.value.status == 400
    message = str(refused.value)
    assert message.isascii()
    assert "\n" not in message
    return message


def omit(name: str, arguments: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in arguments.items() if key != name}


@pytest.mark.rule("P4-02", "P4-18")
def test_the_examples_of_the_document() -> None:
    assert [arguments["verb"] for arguments, _ in EXAMPLES] == [*VERBS]
    for arguments, values in EXAMPLES:
        assert parse_registry_request([*arguments.items()]) == (arguments["verb"], values)


@pytest.mark.rule("P4-04", "P4-10")
def test_optional_arguments_may_be_missing_or_empty() -> None:
    assert "actor_id" not in parse(REGISTER_ACTOR)
    expected = {**VALUES, "location": DocumentLocation("http://a.br/", UPDATED)}
    assert parse(REGISTER) == expected
    assert parse(REGISTER, ("documentID", ""), ("metadataURL", "")) == expected
    assert parse({**REGISTER, "originalDocument": "no"})["is_original"] is False
    assert parse({**DISPLAY, "actorID": "8jmkd3mgp8w/35mmll8"})["actor_id"] == "8JMKD3MGP8W/35MMLL8"


@pytest.mark.rule("P4-08", "P4-09")
def test_arguments_of_metadata_belong_to_the_metadata_url_before_them() -> None:
    """[P] 4.4, note 5."""
    second = {"metadataURL": "http://a.br/2", "metadataLastUpdate": "2008-07-17T00:00:00Z"}
    location = parse(
        {"verb": "RegisterDocument", **CREDENTIALS},
        *METADATA.items(),
        ("metadataLanguage", "pt"),
        *second.items(),
        ("previousEditionURL", "http://a.br/1"),
        ("metadataFormat", "oai_dc"),
    )["location"]
    first, other = location.metadata
    assert (first.url, first.format, first.language) == ("http://a.br/oai", None, "pt")
    assert (other.url, other.format, other.language) == ("http://a.br/2", "oai_dc", None)


@pytest.mark.rule("P4-02", "P4-04", "P4-07", "P4-08", "P4-10")
def test_an_error_names_the_argument_and_what_would_be_right() -> None:
    for arguments, message in (
        (omit("verb", DISPLAY), "verb must be one of RegisterActor, "),
        ({**DISPLAY, "verb": "RegisterDocuments"}, "verb must be one of RegisterActor, "),
        (
            {**DISPLAY, "documentURL": "http://a.br"},
            "'documentURL' is not an argument of DisplayIDRegistration; the arguments are actorID ",
        ),
        ({**DISPLAY, "\xe9" * 100: "1"}, "'" + r"\xe9" * 80 + "' is not an argument of Display"),
        ({**DISPLAY, "documentID": ""}, "documentID is missing; DisplayIDRegistration requires it"),
        (omit("port", REGISTER_ACTOR), "port is missing; RegisterActor requires it"),
        (omit("documentLastUpdate", REGISTER), "documentURL and documentLastUpdate must be sent"),
        (omit("documentURL", REGISTER), "documentURL and documentLastUpdate must be sent"),
        (
            {"verb": "RegisterDocument", **CREDENTIALS},
            "documentURL and metadataURL are missing; one of them is required",
        ),
        (
            {**REGISTER, "metadataFormat": "oai_dc", **METADATA},
            "metadataFormat must follow the metadataURL to which it belongs",
        ),
        ({**REGISTER, "metadataURL": "http://a.br/"}, "metadataLastUpdate is missing; each"),
        ({**REGISTER, "originalDocument": "Yes"}, "originalDocument: 'Yes' should be yes or no"),
        ({**REGISTER, "documentID": "a/b/c/d"}, "documentID: 'a/b/c/d' is not an IBI: "),
        ({**REGISTER, "documentURL": "ftp://a.br/"}, "documentURL: 'ftp://a.br/' is not a URL"),
        ({**REGISTER_ACTOR, "port": "65536"}, "port: '65536' should be a number from 1 to 65535"),
        ({**REGISTER_ACTOR, "ip": "1.2.3"}, "ip: '1.2.3' is not an IP address such as "),
        ({**REGISTER_ACTOR, "eMailAddress": "a"}, "eMailAddress: 'a' should be an e-mail address"),
        ({**REGISTER_ACTOR, "domainName": "a.br:80"}, "computerName and domainName: 'hermes.a.br"),
        ({**REGISTER_ACTOR, "domainName": "2.3.4"}, "computerName and domainName: 'hermes.2.3.4' "),
        ({**REGISTER, "password": "a" * 256}, "password: the value has 256 characters; at most"),
        ({**REGISTER, "password": "a\x85"}, "password: the value contains a control character or"),
        ({**REGISTER, **METADATA, "metadataFormat": "a b"}, "metadataFormat: 'a b' should be"),
        ({**REGISTER, **METADATA, "metadataLanguage": "pt-br"}, "metadataLanguage: 'pt-br' "),
    ):
        assert refuse(arguments).startswith(message)


def test_a_repeated_argument_is_refused() -> None:
    assert refuse(DISPLAY, ("verb", "ChangeActor")).startswith("verb must be one of")
    for arguments, more in (
        (DISPLAY, ("password", "1")),
        (REGISTER, ("documentURL", "http://a.br/")),
        ({**REGISTER, **METADATA}, ("metadataLastUpdate", METADATA["metadataLastUpdate"])),
    ):
        message = refuse(arguments, more)
        assert message == f"{more[0]} appears more than once; it must appear once"


@pytest.mark.rule("P4-07")
@for_each(
    "text",
    [
        "2008-07-17T17:22:06-03:00",
        "2008-07-17T17:22:06-03",
        "2008-07-17T17:22:06-0300",
        "2008-07-18T01:52:06+05:30",
        "2008-07-17T17:22:06.999-03:00",
    ],
)
def test_a_date_has_any_offset_and_is_kept_in_utc(text: str) -> None:
    date = parse({**REGISTER, "documentLastUpdate": text})["location"].updated_at
    assert date == UPDATED
    assert date.tzinfo is timezone.utc


def test_these_are_not_dates() -> None:
    for text in (
        "2008-07-17T17:22:06",
        "2008-07-17",
        "2008-07-17T17:22Z",
        "2008-02-30T17:22:06Z",
        "0001-01-01T00:00:00+01:00",
        "9999-12-31T23:59:59-01:00",
        "2008-07-17T17:22:06 03:00",
    ):
        message = refuse({**REGISTER, "documentLastUpdate": text})
        assert message.startswith(f"documentLastUpdate: {text!a} should be a date with a time and")


@given(
    st.sampled_from(EXAMPLES),
    st.lists(st.tuples(st.sampled_from([*REGISTER, *METADATA]), st.text(max_size=8))),
)
def test_every_other_request_is_malformed(example: Any, fuzzed: list[tuple[str, str]]) -> None:
    try:
        parse(example[0], *fuzzed)
    except DocumentRegistryError as error:
        format_registry_answer(RegistryAnswer("error", str(error)))


@pytest.mark.rule("P4-17")
def test_a_record_has_the_lines_of_the_document() -> None:
    metadata = MetadataLocation("http://host/oai", LATER, "mtd2-br", "pt-BR")
    own = DocumentLocation("http://host/", UPDATED, (metadata,), "http://a.br/1", "http://a.br/3")
    record = [
        DocumentRegistration(OTHER, "a.br:80", False, True, own),
        DocumentRegistration(ACTOR, "b.br:80", True, False, DocumentLocation("http://b/", LATER)),
    ]
    root = etree.fromstring(format_registry_answer(RegistryAnswer("documentID", DOCUMENT, record)))
    assert (root.tag, root.findtext("documentID")) == ("registry", DOCUMENT)
    found = [
        [(element.tag, element.text.strip()) for element in registration.iter()][1:]
        for registration in root.findall("registration")
    ]
    assert found == [
        [
            ("actorID", OTHER),
            ("originalDocument", "yes"),
            ("documentURL", "http://host/"),
            ("documentLastUpdate", "2008-07-17T20:22:06Z"),
            ("metadata", ""),
            ("metadataURL", "http://host/oai"),
            ("metadataLastUpdate", "2008-07-17T20:44:57Z"),
            ("metadataFormat", "mtd2-br"),
            ("metadataLanguage", "pt-BR"),
            ("previousEditionURL", "http://a.br/1"),
            ("nextEditionURL", "http://a.br/3"),
        ],
        [
            ("actorID", ACTOR),
            ("documentURL", "http://b/"),
            ("documentLastUpdate", "2008-07-17T20:44:57Z"),
        ],
    ]
