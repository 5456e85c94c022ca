"""The responses of the document registry: answers as XML or as a list of pairs, and errors.

The schema of the XML is ``registry.xsd``. The text of the answers for clients is in
:mod:`flask_ibi_archive.core.protocol.registry_2008`.

Source: [P] 4.1 to 4.7.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast
from xml.etree import ElementTree

from flask import Response, current_app, request
from werkzeug.datastructures import Headers

from flask_ibi_archive.core.protocol.registry_2008.answers import (
    Confirmation,
    RegisteredActor,
    RegistryAnswer,
    format_registry_answer,
    list_registration_lines,
    quote_message,
)
from flask_ibi_archive.core.protocol.registry_2008.model import DocumentRecord
from flask_ibi_archive.errors import DocumentRegistryError, NotReady
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.registry_2008.document_registry import DocumentRegistry
from flask_ibi_archive.server.pages.requests import RESOLVER_EXTENSION
from flask_ibi_archive.server.pages.responses import PAIRS_HEADERS, RETRY_AFTER

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


#: The media types of each format. The first media type is sent.
MEDIA_TYPES = {
    "xml": ("text/xml", "application/xml"),
    "text": ("text/plain",),
    "html": ("text/html",),
}
#: The formats of answers to verbs. If a client accepts both, it gets the first one.
DATA = ("xml", "text")
#: The formats of records.
FORMATS = (*DATA, "html")


class HttpRefusal(DocumentRegistryError):
    """The method, the size or the media type of a request is wrong.

    :param status: the HTTP status of the response.
    :param allow: the allowed methods if the method is wrong.
    """

    def __init__(self, status: int, message: str, allow: Sequence[str] = ()) -> None:
        super().__init__("malformed", message)
        self.status = status
        self.allow = allow


def current_registry() -> DocumentRegistry:
    """Return the document registry of the current app."""
    resolver = current_app.extensions[RESOLVER_EXTENSION].resolver
    return cast(DocumentRegistry, resolver.document_registry)


def resolver_config() -> ResolverConfig:
    """Return the settings of the resolver of the current app."""
    return cast(ResolverConfig, current_app.extensions[RESOLVER_EXTENSION].resolver.config)


def check_method(*allowed: str) -> None:
    """Check the method of the request.

    :raises HttpRefusal: if the method is not allowed.
    """
    if request.method not in allowed:
        choice = " or ".join([", ".join(allowed[:-1]), allowed[-1]])
        raise HttpRefusal(
            405, f"the method {request.method[:80]!a} is not allowed; use {choice}", allowed
        )


def unavailable(error: NotReady) -> DocumentRegistryError:
    """Return the error for a database that is not available, and log the details."""
    current_app.logger.error("the document registry can't answer: %s", error)
    return DocumentRegistryError("unavailable", error.summary, int(RETRY_AFTER))


def read_format(arguments: Sequence[tuple[str, str]]) -> str:
    """Return the format of a record: the value of ``format``, or the format of the Accept header.

    :raises DocumentRegistryError: if the format in the URL is unknown.
    """
    named = dict(arguments).get("format")
    if named is None:
        return negotiate_format(FORMATS)
    if named not in FORMATS:
        raise DocumentRegistryError(
            "malformed", f"format is {named[:80]!a}; it must be one of {', '.join(sorted(FORMATS))}"
        )
    return named


def negotiate_format(formats: Sequence[str]) -> str:
    """Return the format that the client prefers, according to the Accept header.

    A client may prefer several formats equally. Then a format that the header names has precedence
    over a format that ``*/*`` stands for, and then the order of the formats decides.
    """
    accepted = request.accept_mimetypes
    named = {kind.lower() for kind in accepted.values()}

    def rate(name: str) -> tuple[float, bool]:
        kinds = MEDIA_TYPES[name]
        return max(map(accepted.quality, kinds)), not named.isdisjoint(kinds)

    return max(formats, key=rate)


def data_response(
    answer: RegistryAnswer | DocumentRegistryError, verb: str | None = None, name: str = ""
) -> Response:
    """Return an answer or an error as XML or as a list of pairs.

    :param verb: the verb of the request. None if the request has no known verb.
    :param name: the format. "" selects the format that the client prefers.
    """
    headers = Headers([*PAIRS_HEADERS, ("Vary", "Accept")])
    status = 200
    if isinstance(answer, DocumentRegistryError):
        status = answer.status
        if answer.retry_after is not None:
            headers.add("Retry-After", str(answer.retry_after))
        if isinstance(answer, HttpRefusal) and answer.allow:
            headers.add("Allow", ", ".join(answer.allow))
    if (name or negotiate_format(DATA)) == "xml":
        body, kind = format_xml_answer(verb, answer), "text/xml; charset=utf-8"
    else:
        body, kind = format_registry_answer(answer).encode(), "text/plain"
    return Response(body, status, headers, content_type=kind)
