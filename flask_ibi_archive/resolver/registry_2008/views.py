"""The document registry over HTTP: the verbs and the schema of their answers ([P] 4).

The paths begin with ``/ibi/registry``. Passwords are arguments of the verbs. They must be in the
body of a POST request, unless ``IBI_RESOLVER_REGISTRY_PASSWORDS_IN_URLS`` allows them in URLs.
"""

from __future__ import annotations

from flask import Response, request
from flask.blueprints import BlueprintSetupState
from werkzeug.exceptions import HTTPException

from flask_ibi_archive.core.protocol import registry_2008 as document_registry
from flask_ibi_archive.core.protocol.messages import MAX_QUERY
from flask_ibi_archive.core.protocol.registry_2008.arguments import Arguments
from flask_ibi_archive.errors import DocumentRegistryError, NotReady
from flask_ibi_archive.resolver.registry_2008 import responses
from flask_ibi_archive.resolver.registry_2008.pages import show_record, show_registry
from flask_ibi_archive.resolver.registry_2008.responses import SCHEMA
from flask_ibi_archive.resolver.resolution_context import open_own_archive
from flask_ibi_archive.server.pages.app_hooks import OWN_WORD, add_rule_for_all_methods
from flask_ibi_archive.server.pages.requests import user_address
from flask_ibi_archive.server.pages.responses import set_headers

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
    arguments: Arguments = ()
    answer: document_registry.RegistryAnswer | DocumentRegistryError
    try:
        responses.check_method("GET", "HEAD", "POST")
        arguments = _read_query()
        if request.method == "POST":
            arguments = [*arguments, *_read_body()]
        elif page := show_registry(arguments):
            return page
        answer = _evaluate(document_registry.parse_registry_request(arguments))
    except DocumentRegistryError as error:
        answer = error
    except NotReady as error:
        answer = responses.unavailable(error)
    return responses.data_response(answer, document_registry.find_verb(arguments))


def send_schema(word: str) -> Response:
    """Send the XML schema of the answers.

    :param word: the fixed word of the path.
    """
    try:
        responses.check_method("GET", "HEAD")
    except responses.HttpRefusal as error:
        return responses.data_response(error)
    return set_headers(Response(SCHEMA.read_bytes(), content_type="text/xml; charset=utf-8"))


def _read_query() -> Arguments:
    """Return the arguments in the URL.

    :raises DocumentRegistryError: if the query is too long or contains a password.
    """
    query = request.query_string
    if len(query) > MAX_QUERY:
        raise responses.HttpRefusal(
            414, f"the query has {len(query)} bytes; at most {MAX_QUERY} are allowed"
        )
    arguments = document_registry.decode_arguments(query)
    allowed = responses.resolver_config().registry_passwords_in_urls
    if not allowed and any(name in PASSWORDS for name, _ in arguments):
        raise DocumentRegistryError(
            "malformed",
            "the URL contains a password, which logs may show; send the password in the body of a "
            "POST request, and change the password if the URL was not sent with https",
        )
    return arguments


def _read_body() -> Arguments:
    """Return the arguments in the body of a POST request.

    :raises DocumentRegistryError: if the body is too long, incomplete or of another media type.
    """
    body = b""
    try:
        while len(body) <= document_registry.MAX_BODY and (
            part := request.stream.read(document_registry.MAX_BODY + 1 - len(body))
        ):
            body += part
    except HTTPException as error:  # the body is incomplete, or longer than the app allows
        raise responses.HttpRefusal(
            error.code or 400, f"the body cannot be read: {error.name}"
        ) from None
    if len(body) > document_registry.MAX_BODY:
        raise responses.HttpRefusal(
            413, f"the body has more than {document_registry.MAX_BODY} bytes, which is the maximum"
        )
    if body and request.mimetype != FORM:
        raise responses.HttpRefusal(
            415, f"the Content-Type is {request.mimetype[:80]!a}; it must be {FORM}"
        )
    return document_registry.decode_arguments(body)


def _evaluate(wanted: document_registry.RegistryRequest) -> document_registry.RegistryAnswer:
    """Process a request, and return the answer. A HEAD request changes nothing (RFC 9110, 9.3.2).

    :raises DocumentRegistryError: if the request is refused.
    :raises NotReady: if the database is not available.
    """
    if request.method == "HEAD":
        return document_registry.Confirmation("the request is well-formed")
    registry, sender, own = responses.current_registry(), user_address(), open_own_archive()
    match wanted:
        case document_registry.RegisterActor():
            return document_registry.RegisteredActor(registry.register_actor(wanted, sender, own))
        case document_registry.RegisterDocument():
            return document_registry.RegisteredDocument(
                registry.register_document(wanted, sender, own)
            )
        case document_registry.DisplayIDRegistration():
            return registry.display(wanted, sender)
        case document_registry.ChangePassword():
            registry.change_password(wanted, sender)
            return document_registry.Confirmation("the password was changed")
        case document_registry.ChangeEMailAddress():
            registry.change_email(wanted, sender)
            return document_registry.Confirmation("the e-mail address was changed")
        case document_registry.ChangeActor():
            registry.change_actor(wanted, sender)
            return document_registry.Confirmation(
                f"the document {wanted.document_id} is now registered by {wanted.new_actor_id}"
            )
        case document_registry.DeleteDocumentRegistration():
            registry.delete_registration(wanted, sender)
            return document_registry.Confirmation(
                f"the registration of {wanted.document_id} was deleted"
            )
