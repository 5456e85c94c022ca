"""The document registry over HTTP: the verbs, the schema of their answers, and the pages ([P] 4).

The paths begin with ``/ibi/registry``. Passwords are arguments of the verbs. They must be in the
body of a POST request, unless ``IBI_RESOLVER_REGISTRY_PASSWORDS_IN_URLS`` allows them in URLs.

An answer is XML with the schema ``registry.xsd``, or a list of pairs. The text of the answers for
clients is in :mod:`flask_ibi_archive.core.protocol.registry_2008`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast
from xml.etree import ElementTree

from flask import Response, current_app, request
from flask.blueprints import BlueprintSetupState
from werkzeug.datastructures import Headers
from werkzeug.exceptions import HTTPException

from flask_ibi_archive import errors
from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.messages import MAX_QUERY
from flask_ibi_archive.core.protocol.query_strings import decode_query_string
from flask_ibi_archive.core.protocol.registry_2008 import model, registry_messages
from flask_ibi_archive.core.resolution.persistent_url import read_persistent_url
from flask_ibi_archive.reasons import translatable
from flask_ibi_archive.resolver.front_page import MAX_SHOWN, InputFault
from flask_ibi_archive.resolver.registry_2008.document_registry import DocumentRegistry
from flask_ibi_archive.resolver.resolution_context import open_own_archive
from flask_ibi_archive.server.pages import responses
from flask_ibi_archive.server.pages.alerts import VARY
from flask_ibi_archive.server.pages.app_hooks import OWN_WORD, add_rule_for_all_methods
from flask_ibi_archive.server.pages.requests import RESOLVER_EXTENSION, request_root, user_address
from flask_ibi_archive.server.pages.texts import gettext, translate_reason

#: The file with the schema of all answers.
SCHEMA = Path(__file__).with_name("registry.xsd")


def format_xml_answer(
    verb: str | None, answer: registry_messages.RegistryAnswer | errors.DocumentRegistryError
) -> bytes:
    """Return the XML document of an answer, in UTF-8.

    :param verb: the verb of the request. None if the request has no known verb.
    :param answer: the answer, or the error because of which the request was refused.
    Source: [P] 4.1 to 4.7.
    """
    root = ElementTree.Element("registry", {} if verb is None else {"verb": verb})
    if isinstance(answer, errors.DocumentRegistryError):
        error = _add(root, "error", registry_messages.quote_message(str(answer)))
        error.set("code", answer.code)
        if answer.retry_after is not None:
            error.set("retryAfter", str(answer.retry_after))
    elif isinstance(answer, registry_messages.RegisteredActor):
        _add(root, "actorID", answer.actor_id)
    elif isinstance(answer, registry_messages.Confirmation):
        _add(root, "confirmation", registry_messages.quote_message(answer.text))
    else:
        _add(root, "documentID", answer.document_id)
        if isinstance(answer, model.DocumentRecord):
            _add_registrations(root, answer)
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, "utf-8", xml_declaration=True)
    return document + b"\n"


def _add(parent: ElementTree.Element, name: str, text: str) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, name)
    element.text = text
    return element


def _add_registrations(root: ElementTree.Element, record: model.DocumentRecord) -> None:
    for registration in record.registrations:
        element = ElementTree.SubElement(root, "registration")
        for line in registry_messages.list_registration_lines(registration):
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


class HttpRefusal(errors.DocumentRegistryError):
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


def check_method(*allowed: str) -> None:
    """Check the method of the request.

    :raises HttpRefusal: if the method is not allowed.
    """
    if request.method not in allowed:
        choice = " or ".join([", ".join(allowed[:-1]), allowed[-1]])
        raise HttpRefusal(
            405, f"the method {request.method[:80]!a} is not allowed; use {choice}", allowed
        )


def unavailable(error: errors.NotReady) -> errors.DocumentRegistryError:
    """Return the error for a database that is not available, and log the details."""
    current_app.logger.error("the document registry can't answer: %s", error)
    return errors.DocumentRegistryError("unavailable", error.summary, int(responses.RETRY_AFTER))


def read_format(arguments: Sequence[tuple[str, str]]) -> str:
    """Return the format of a record: the value of ``format``, or the format of the Accept header.

    :raises DocumentRegistryError: if the format in the URL is unknown.
    """
    named = dict(arguments).get("format")
    if named is None:
        return negotiate_format(FORMATS)
    if named not in FORMATS:
        raise errors.DocumentRegistryError(
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
    answer: registry_messages.RegistryAnswer | errors.DocumentRegistryError,
    verb: str | None = None,
    name: str = "",
) -> Response:
    """Return an answer or an error as XML or as a list of pairs.

    :param verb: the verb of the request. None if the request has no known verb.
    :param name: the format. "" selects the format that the client prefers.
    """
    headers = Headers([*responses.PAIRS_HEADERS, ("Vary", "Accept")])
    status = 200
    if isinstance(answer, errors.DocumentRegistryError):
        status = answer.status
        if answer.retry_after is not None:
            headers.add("Retry-After", str(answer.retry_after))
        if isinstance(answer, HttpRefusal) and answer.allow:
            headers.add("Allow", ", ".join(answer.allow))
    if (name or negotiate_format(DATA)) == "xml":
        body, kind = format_xml_answer(verb, answer), "text/xml; charset=utf-8"
    else:
        body, kind = registry_messages.format_registry_answer(answer).encode(), "text/plain"
    return Response(body, status, headers, content_type=kind)


#: The path of the registry.
PATH = "/ibi/registry"
#: The verbs, each with the English text that says what the verb does.
VERB_TEXTS = {
    "RegisterActor": translatable("Registers an actor and returns its IBI"),
    "ChangePassword": translatable("Replaces the actor's password"),
    "ChangeEMailAddress": translatable("Replaces the actor's e-mail address"),
    "RegisterDocument": translatable("Registers a document and returns its IBI"),
    "ChangeActor": translatable("Hands the registration of a document over to another actor"),
    "DeleteDocumentRegistration": translatable("Deletes the actor's registration of a document"),
    "DisplayIDRegistration": translatable("Shows the record of a document"),
}


def show_registry(arguments: model.Arguments) -> Response | None:
    """Return the page of the registry, or the redirect of its form.

    :param arguments: the arguments in the URL. Without arguments, browsers get the page. The form
        sends only the argument ``ibi``.
    :returns: None if the request should have a verb.
    """
    if not arguments and negotiate_format(FORMATS) == "html":
        return _registry_page("")
    if [name for name, _ in arguments] != ["ibi"]:
        return None
    text = arguments[0][1].strip()
    if not text:
        return _registry_page("", 400, InputFault(gettext("Enter the IBI of a document.")))
    try:
        wanted = read_persistent_url(text)
    except errors.MalformedPersistentUrl as error:
        fault = InputFault(gettext("The text has an error"), error.reason, error.suggestion)
        return _registry_page(text, 400, fault)
    location = f"{request_root()}{PATH}/{wanted.ibi.text}"
    return responses.set_headers(Response(status=302, headers={"Location": location}))


def show_record(word: str, ibi: str) -> Response:
    """Show the record of a document as page, XML or text.

    :param word: the fixed word of the path.
    :param ibi: the identifier of the document in the path.
    """
    name = ""
    try:
        check_method("GET", "HEAD")
        name = read_format(decode_query_string(request.query_string))
        identifier = parse_identifier(ibi)
        record = current_registry().find_record(identifier.text)
    except errors.IdentifierError as error:
        if name != "html":
            return data_response(errors.DocumentRegistryError("unknown", str(error)), None, name)
        fault = InputFault(gettext("The text has an error"), error.reason, error.suggestion)
        return _registry_page(ibi, 404, fault)
    except errors.DocumentRegistryError as error:
        return data_response(error)
    except errors.NotReady as error:
        return _unavailable_response(error, name)
    if name == "html":
        if record is not None:
            return _record_page(record)
        fault = InputFault(gettext("No actor has registered this document"))
        return _registry_page(ibi, 404, fault, identifier.text)
    answer = record or errors.DocumentRegistryError(
        "unknown", f"no actor has registered the document {identifier.text}"
    )
    return data_response(answer, None, name)


def _registry_page(
    text: str, status: int = 200, fault: InputFault | None = None, unknown: str = ""
) -> Response:
    """Return the page of the registry, with the form to look up a document.

    :param text: the text in the form.
    :param fault: what is wrong with the text. None if the page was opened without a text.
    :param unknown: the identifier of a document that is not registered.
    """
    return _page(
        "registry",
        status,
        text=text[:MAX_SHOWN].encode("utf-8", "replace").decode("utf-8"),
        fault=fault,
        reason=translate_reason(fault.reason) if fault else "",
        unknown=unknown,
        verbs=[
            (verb, VERB_TEXTS[verb], registry_messages.list_arguments(verb))
            for verb in registry_messages.VERBS
        ],
    )


def _record_page(record: model.DocumentRecord) -> Response:
    base = current_registry().config.base_url or f"{request.scheme}://{request.host}"
    return _page("registry_record", 200, record=record, base=base, iso_moment=format_timestamp)


def _unavailable_response(error: errors.NotReady, name: str) -> Response:
    refusal = unavailable(error)
    if name != "html":
        return data_response(refusal, None, name)
    response = _page(
        "message",
        503,
        heading=gettext("No answer is possible at the moment"),
        advice=gettext("Try again in a moment."),
    )
    response.headers["Retry-After"] = str(refusal.retry_after)
    return response


def _page(template: str, status: int, **values: object) -> Response:
    root = request_root()
    response = responses.render_page(
        template, status, root=root, registry_path=f"{root}{PATH}", **values
    )
    response.headers["Vary"] = VARY
    return response


#: The media type of the arguments in the body of a POST request.
FORM = "application/x-www-form-urlencoded"
#: The arguments that contain passwords.
PASSWORDS = ("password", "newPassword")


def add_document_registry(state: BlueprintSetupState) -> None:
    """Add the routes of the document registry to an app.

    No rule leads to a redirect, because its Location would contain the query, in which a password
    may be.
    """
    for name, rest, view in (
        ("registry", "", answer_verb),
        ("registry_schema", "/schema.xsd", send_schema),
        ("registry_record", "/<path:ibi>", show_record),
    ):
        path = f"/ibi/<{OWN_WORD}('registry'):word>{rest}"
        add_rule_for_all_methods(state, name, path, view, strict_slashes=False, merge_slashes=False)


def answer_verb(word: str) -> Response:
    """Answer a verb, or show the page of the registry.

    :param word: the fixed word of the path.
    """
    arguments: model.Arguments = ()
    answer: registry_messages.RegistryAnswer | errors.DocumentRegistryError
    try:
        check_method("GET", "HEAD", "POST")
        arguments = _read_query()
        if request.method == "POST":
            arguments = [*arguments, *_read_body()]
        elif page := show_registry(arguments):
            return page
        answer = _evaluate(registry_messages.parse_registry_request(arguments))
    except errors.DocumentRegistryError as error:
        answer = error
    except errors.NotReady as error:
        answer = unavailable(error)
    return data_response(answer, registry_messages.find_verb(arguments))


def send_schema(word: str) -> Response:
    """Send the XML schema of the answers.

    :param word: the fixed word of the path.
    """
    try:
        check_method("GET", "HEAD")
    except HttpRefusal as error:
        return data_response(error)
    return responses.set_headers(
        Response(SCHEMA.read_bytes(), content_type="text/xml; charset=utf-8")
    )


def _read_query() -> model.Arguments:
    """Return the arguments in the URL.

    :raises DocumentRegistryError: if the query is too long or contains a password.
    """
    query = request.query_string
    if len(query) > MAX_QUERY:
        raise HttpRefusal(414, f"the query has {len(query)} bytes; at most {MAX_QUERY} are allowed")
    arguments = registry_messages.decode_arguments(query)
    allowed = current_registry().config.registry_passwords_in_urls
    if not allowed and any(name in PASSWORDS for name, _ in arguments):
        raise errors.DocumentRegistryError(
            "malformed",
            "the URL contains a password, which logs may show; send the password in the body of a "
            "POST request, and change the password if the URL was not sent with https",
        )
    return arguments


def _read_body() -> model.Arguments:
    """Return the arguments in the body of a POST request.

    :raises DocumentRegistryError: if the body is too long, incomplete or of another media type.
    """
    body = b""
    try:
        while len(body) <= registry_messages.MAX_BODY and (
            part := request.stream.read(registry_messages.MAX_BODY + 1 - len(body))
        ):
            body += part
    except HTTPException as error:  # the body is incomplete, or longer than the app allows
        raise HttpRefusal(error.code or 400, f"the body cannot be read: {error.name}") from None
    if len(body) > registry_messages.MAX_BODY:
        raise HttpRefusal(
            413, f"the body has more than {registry_messages.MAX_BODY} bytes, which is the maximum"
        )
    if body and request.mimetype != FORM:
        raise HttpRefusal(415, f"the Content-Type is {request.mimetype[:80]!a}; it must be {FORM}")
    return registry_messages.decode_arguments(body)


def _evaluate(wanted: model.RegistryRequest) -> registry_messages.RegistryAnswer:
    """Process a request, and return the answer. A HEAD request changes nothing (RFC 9110, 9.3.2).

    :raises DocumentRegistryError: if the request is refused.
    :raises NotReady: if the database is not available.
    """
    if request.method == "HEAD":
        return registry_messages.Confirmation("the request is well-formed")
    registry, sender, own = current_registry(), user_address(), open_own_archive()
    match wanted:
        case model.RegisterActor():
            return registry_messages.RegisteredActor(registry.register_actor(wanted, sender, own))
        case model.RegisterDocument():
            return registry_messages.RegisteredDocument(
                registry.register_document(wanted, sender, own)
            )
        case model.DisplayIDRegistration():
            return registry.display(wanted, sender)
        case model.ChangePassword():
            registry.change_password(wanted, sender)
            return registry_messages.Confirmation("the password was changed")
        case model.ChangeEMailAddress():
            registry.change_email(wanted, sender)
            return registry_messages.Confirmation("the e-mail address was changed")
        case model.ChangeActor():
            registry.change_actor(wanted, sender)
            return registry_messages.Confirmation(
                f"the document {wanted.document_id} is now registered by {wanted.new_actor_id}"
            )
        case model.DeleteDocumentRegistration():
            registry.delete_registration(wanted, sender)
            return registry_messages.Confirmation(
                f"the registration of {wanted.document_id} was deleted"
            )
