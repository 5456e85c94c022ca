"""Tests the XML of the answers of the document registry against its schema."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree
from support.cases import for_each
from support.registry_messages import format_request, ids, records, requests

from flask_ibi_archive.core.protocol.registry_2008.model import (
    Credentials,
    DocumentRecord,
    DocumentRegistration,
    RegisterDocument,
    RegistryRequest,
)
from flask_ibi_archive.core.protocol.registry_2008.registry_messages import (
    VERBS,
    Confirmation,
    RegisteredActor,
    RegisteredDocument,
    list_registration_lines,
    parse_registry_request,
    quote_message,
)
from flask_ibi_archive.errors import DocumentRegistryError
from flask_ibi_archive.resolver.registry_2008.views import SCHEMA, format_xml_answer

XS = "{http://www.w3.org/2001/XMLSchema}"
DOCUMENT = "sid.inpe.br/md-m09@80/2008/06.04.14.39"
ANY_TEXT = st.text(st.characters(exclude_categories=[]))
CODES = sorted(DocumentRegistryError.STATUSES)
VALIDATOR = etree.XMLSchema(etree.parse(str(SCHEMA)))


def read(verb: str | None, answer: Any) -> Any:
    """Return the root of the XML document of an answer, which must be valid."""
    root = etree.fromstring(format_xml_answer(verb, answer))
    VALIDATOR.assertValid(root)
    assert (root.tag, root.get("verb")) == ("registry", verb)
    return root


def list_elements(root: Any) -> list[tuple[str, str]]:
    """Return the name and the text of each element without children."""
    return [(one.tag, one.text or "") for one in root.iter() if not len(one)]


@given(st.sampled_from([None, *VERBS]), ids)
def test_answers_with_an_identifier(verb: str | None, ibi: str) -> None:
    assert list_elements(read(verb, RegisteredActor(ibi))) == [("actorID", ibi)]
    assert list_elements(read(verb, RegisteredDocument(ibi))) == [("documentID", ibi)]


@given(ANY_TEXT)
@example("the password was changed")
@example("<&>\"']]>\r\n\t\0\ud800\ufffe\U0001f600")
def test_a_confirmation_is_well_formed_for_any_unicode(text: str) -> None:
    root = read("ChangePassword", Confirmation(text))
    assert list_elements(root) == [("confirmation", quote_message(text))]


@given(ANY_TEXT, st.sampled_from(CODES), st.none() | st.integers(0, 99))
@example("<&>\"']]>\r\n\t\0\ud800\ufffe\U0001f600", "denied", None)
def test_an_error_is_well_formed_for_any_unicode(
    message: str, code: str, retry_after: int | None
) -> None:
    root = read(None, DocumentRegistryError(code, message, retry_after))
    assert list_elements(root) == [("error", quote_message(message))]
    assert root[0].get("code") == code
    assert root[0].get("retryAfter") == (None if retry_after is None else str(retry_after))


@given(requests, st.data(), ANY_TEXT)
def test_a_request_with_any_unicode_has_a_valid_answer(
    request_: RegistryRequest, data: st.DataObject, text: str
) -> None:
    arguments = format_request(request_)
    number = data.draw(st.integers(0, len(arguments) - 1))
    name, value = arguments[number]
    arguments[number] = (name, data.draw(st.sampled_from([text, value + text])))
    try:
        parsed = parse_registry_request(arguments)
    except DocumentRegistryError as error:
        read(None, error)
    else:
        if isinstance(parsed, RegisterDocument):
            registration = DocumentRegistration(
                parsed.credentials.actor_id, False, parsed.is_original, parsed.location
            )
            read("DisplayIDRegistration", DocumentRecord(DOCUMENT, (registration,)))


@pytest.mark.rule("P4-01")
@given(records())
def test_a_record_has_the_elements_of_its_text(record: DocumentRecord) -> None:
    """[P] 4.7."""
    root = read("DisplayIDRegistration", record)
    assert list_elements(root) == [
        ("documentID", record.document_id),
        *(
            argument
            for registration in record.registrations
            for line in list_registration_lines(registration)
            for argument in line
        ),
    ]
    assert len(root.findall("registration")) == len(record.registrations)
    assert [len(one.findall("metadata")) for one in root.findall("registration")] == [
        len(registration.location.metadata) for registration in record.registrations
    ]


@for_each(("type_", "values"), [("verb", VERBS), ("code", CODES)])
def test_the_schema_has_all_verbs_and_codes(type_: str, values: list[str]) -> None:
    schema = etree.parse(str(SCHEMA))
    found = schema.iterfind(f"{XS}simpleType[@name='{type_}']//{XS}enumeration")
    assert sorted(one.get("value") for one in found) == sorted(values)


@for_each(
    "text",
    [
        "<registry/>",
        "<registry verb='Nothing'><actorID>a/b</actorID></registry>",
        "<registry><actorID>a b</actorID></registry>",
        "<registry><error>no</error></registry>",
        f"<registry><documentID>{DOCUMENT}</documentID><error code='denied'/></registry>",
        f"<registry><documentID>{DOCUMENT}</documentID><registration><actorID>{DOCUMENT}</actorID>"
        "</registration></registry>",
    ],
)
def test_the_schema_refuses_other_documents(text: str) -> None:
    with pytest.raises(etree.DocumentInvalid):
        VALIDATOR.assertValid(etree.fromstring(text))


def test_a_password_is_not_in_the_answer() -> None:
    arguments = [("verb", "ChangePassword"), ("actorID", DOCUMENT), ("password", "12xY3z\0")]
    with pytest.raises(DocumentRegistryError) as refused:
        parse_registry_request([*arguments, ("newPassword", "12xY3z")])
    assert b"12xY3z" not in format_xml_answer("ChangePassword", refused.value)
    assert "12xY3z" not in repr(Credentials(DOCUMENT, "12xY3z"))
