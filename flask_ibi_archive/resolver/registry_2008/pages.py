"""The pages of the document registry: what the registry is, and the records of documents."""

from __future__ import annotations

from flask import Response, request

from flask_ibi_archive.core.identifiers import parse_identifier
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.query import decode_query_string
from flask_ibi_archive.core.protocol.registry_2008 import VERBS, DocumentRecord, list_arguments
from flask_ibi_archive.core.protocol.registry_2008.arguments import Arguments
from flask_ibi_archive.core.resolution.persistent_url import read_persistent_url
from flask_ibi_archive.errors import (
    DocumentRegistryError,
    IdentifierError,
    MalformedPersistentUrl,
    NotReady,
)
from flask_ibi_archive.reasons import translatable
from flask_ibi_archive.resolver.front_page import MAX_SHOWN, InputFault
from flask_ibi_archive.resolver.registry_2008 import responses
from flask_ibi_archive.server.pages.alerts import VARY
from flask_ibi_archive.server.pages.requests import request_root
from flask_ibi_archive.server.pages.responses import render_page, set_headers
from flask_ibi_archive.server.pages.texts import gettext, translate_reason

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


def show_registry(arguments: Arguments) -> Response | None:
    """Return the page of the registry, or the redirect of its form.

    :param arguments: the arguments in the URL. Without arguments, browsers get the page. The form
        sends only the argument ``ibi``.
    :returns: None if the request should have a verb.
    """
    if not arguments and responses.negotiate_format(responses.FORMATS) == "html":
        return _registry_page("")
    if [name for name, _ in arguments] != ["ibi"]:
        return None
    text = arguments[0][1].strip()
    if not text:
        return _registry_page("", 400, InputFault(gettext("Enter the IBI of a document.")))
    try:
        wanted = read_persistent_url(text)
    except MalformedPersistentUrl as error:
        fault = InputFault(gettext("The text has an error"), error.reason, error.suggestion)
        return _registry_page(text, 400, fault)
    location = f"{request_root()}{PATH}/{wanted.ibi.text}"
    return set_headers(Response(status=302, headers={"Location": location}))


def show_record(word: str, ibi: str) -> Response:
    """Show the record of a document as page, XML or text.

    :param word: the fixed word of the path.
    :param ibi: the identifier of the document in the path.
    """
    name = ""
    try:
        responses.check_method("GET", "HEAD")
        name = responses.read_format(decode_query_string(request.query_string))
        identifier = parse_identifier(ibi)
        record = responses.current_registry().find_record(identifier.text)
    except IdentifierError as error:
        if name != "html":
            return responses.data_response(DocumentRegistryError("unknown", str(error)), None, name)
        fault = InputFault(gettext("The text has an error"), error.reason, error.suggestion)
        return _registry_page(ibi, 404, fault)
    except DocumentRegistryError as error:
        return responses.data_response(error)
    except NotReady as error:
        return _unavailable_response(error, name)
    if name == "html":
        if record is not None:
            return _record_page(record)
        fault = InputFault(gettext("No actor has registered this document"))
        return _registry_page(ibi, 404, fault, identifier.text)
    answer = record or DocumentRegistryError(
        "unknown", f"no actor has registered the document {identifier.text}"
    )
    return responses.data_response(answer, None, name)


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
        verbs=[(verb, VERB_TEXTS[verb], list_arguments(verb)) for verb in VERBS],
    )


def _record_page(record: DocumentRecord) -> Response:
    base = responses.resolver_config().base_url or f"{request.scheme}://{request.host}"
    return _page("registry_record", 200, record=record, base=base, iso_moment=format_timestamp)


def _unavailable_response(error: NotReady, name: str) -> Response:
    refusal = responses.unavailable(error)
    if name != "html":
        return responses.data_response(refusal, None, name)
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
    response = render_page(template, status, root=root, registry_path=f"{root}{PATH}", **values)
    response.headers["Vary"] = VARY
    return response
