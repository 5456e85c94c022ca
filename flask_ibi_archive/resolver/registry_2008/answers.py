"""The XML of the answers of the document registry.

The schema of the XML is ``registry.xsd``. The text of the answers for clients is in
:mod:`flask_ibi_archive.core.protocol.registry_2008`.

Source: [P] 4.1 to 4.7.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from flask_ibi_archive.core.protocol.registry_2008 import (
    Confirmation,
    DocumentRecord,
    RegisteredActor,
    RegistryAnswer,
    list_registration_lines,
    quote_message,
)
from flask_ibi_archive.errors import DocumentRegistryError

#: The file with the schema of all answers.
SCHEMA = Path(__file__).with_name("registry.xsd")


def format_xml_answer(verb: str | None, answer: RegistryAnswer | DocumentRegistryError) -> bytes:
    """Return the XML document of an answer, in UTF-8.

    :param verb: the verb of the request. None if the request has no known verb.
    :param answer: the answer, or the error because of which the request was refused.
    Source: [P] 4.1 to 4.7.
    """
    root = ElementTree.Element("registry", {} if verb is None else {"verb": verb})
    if isinstance(answer, DocumentRegistryError):
        error = _add(root, "error", quote_message(str(answer)))
        error.set("code", answer.code)
        if answer.retry_after is not None:
            error.set("retryAfter", str(answer.retry_after))
    elif isinstance(answer, RegisteredActor):
        _add(root, "actorID", answer.actor_id)
    elif isinstance(answer, Confirmation):
        _add(root, "confirmation", quote_message(answer.text))
    else:
        _add(root, "documentID", answer.document_id)
        if isinstance(answer, DocumentRecord):
            _add_registrations(root, answer)
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, "utf-8", xml_declaration=True)
    return document + b"\n"


def _add(parent: ElementTree.Element, name: str, text: str) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, name)
    element.text = text
    return element


def _add_registrations(root: ElementTree.Element, record: DocumentRecord) -> None:
    for registration in record.registrations:
        element = ElementTree.SubElement(root, "registration")
        for line in list_registration_lines(registration):
            is_metadata = line[0][0] == "metadataURL"
            parent = ElementTree.SubElement(element, "metadata") if is_metadata else element
            for name, value in line:
                _add(parent, name, value)
