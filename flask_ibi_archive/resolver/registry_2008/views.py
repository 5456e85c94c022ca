"""The document registry over HTTP: the seven verbs, and a page with a form for each ([P] 4)."""

from __future__ import annotations

from flask import Response, current_app, request

from flask_ibi_archive.core.protocol.messages import MAX_QUERY
from flask_ibi_archive.core.protocol.pairs import decode_query_string
from flask_ibi_archive.core.registry_2008 import (
    VERBS,
    DocumentRegistryError,
    RegistryAnswer,
    format_registry_answer,
    parse_registry_request,
)
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.errors import translatable as _
from flask_ibi_archive.server.web import request_log, responses
from flask_ibi_archive.server.web.requests import current_resolver, request_root

#: The path of the registry.
PATH = "/ibi/registry"
#: The maximum length of the body of a request in bytes.
MAX_BODY = 65536
#: What each verb does, in English.
VERB_TEXTS = {
    "RegisterActor": _("Registers an actor and returns its IBI"),
    "ChangePassword": _("Replaces the actor's password"),
    "ChangeEMailAddress": _("Replaces the actor's e-mail address"),
    "RegisterDocument": _("Registers a document and returns its IBI"),
    "ChangeActor": _("Hands the registration of a document over to another actor"),
    "DeleteDocumentRegistration": _("Deletes the actor's registration of a document"),
    "DisplayIDRegistration": _("Shows the record of a document"),
}


def answer_verb() -> Response:
    """Answer a verb in XML, or show the page of the registry.

    A HEAD request gets the page too, because it must not change anything (RFC 9110, 9.3.2).
    """
    if request.method == "HEAD" or (request.method == "GET" and not request.query_string):
        return responses.render_page(
            "registry", registry_path=f"{request_root()}{PATH}", verbs=VERBS, texts=VERB_TEXTS
        )
    status, retry_after = 200, None
    try:
        answer = _run()
    except DocumentRegistryError as error:
        status, answer = error.status, RegistryAnswer("error", str(error))
    except NotReady as error:
        current_app.logger.error("the document registry can't answer: %s", error)
        status, answer = 503, RegistryAnswer("error", error.summary)
        retry_after = responses.RETRY_AFTER
    response = Response(
        format_registry_answer(answer), status, responses.PAIRS_HEADERS, mimetype="text/xml"
    )
    if retry_after is not None:
        response.headers["Retry-After"] = retry_after
    return response


@request_log.logged(request_log.REGISTRY)
def _run() -> RegistryAnswer:
    """Execute the verb in the URL and the body of the current request."""
    query, body = request.query_string, request.stream.read(MAX_BODY + 1)
    if len(query) > MAX_QUERY or len(body) > MAX_BODY:
        raise DocumentRegistryError(
            f"the URL may have {MAX_QUERY} bytes of arguments, and the body {MAX_BODY} bytes", 413
        )
    verb, values = parse_registry_request([*decode_query_string(query), *decode_query_string(body)])
    registry = current_resolver().document_registry
    assert registry is not None  # otherwise there is no route to this function
    return registry.run(verb, values)
