"""The registry protocol of 2008: the requests of actors, and the answers of a resolver.

Before Archives existed, data providers ("actors") told the resolver where their documents are. An
actor registers itself, and then the URLs of each document. The actor that registers a document
first has the *document*. All later actors have *copies* of the document.

A request is a verb with arguments, in the query of a URL or in the body of a POST request. The
module ``model`` contains the classes. The modules ``requests`` and ``answers`` parse and format the
messages.

Source: [P] 4.
"""

from __future__ import annotations

from flask_ibi_archive.core.protocol.registry_2008.answers import (
    Confirmation,
    RegisteredActor,
    RegisteredDocument,
    RegistryAnswer,
    format_registry_answer,
    list_registration_lines,
    parse_registry_answer,
    quote_message,
)
from flask_ibi_archive.core.protocol.registry_2008.model import (
    MAX_URL,
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
from flask_ibi_archive.core.protocol.registry_2008.requests import (
    MAX_BODY,
    VERBS,
    decode_arguments,
    find_verb,
    format_registry_request,
    list_arguments,
    parse_registry_request,
)

__all__ = [
    "MAX_BODY",
    "MAX_URL",
    "VERBS",
    "ChangeActor",
    "ChangeEMailAddress",
    "ChangePassword",
    "Confirmation",
    "Credentials",
    "DeleteDocumentRegistration",
    "DisplayIDRegistration",
    "DocumentLocation",
    "DocumentRecord",
    "DocumentRegistration",
    "MetadataLocation",
    "RegisterActor",
    "RegisterDocument",
    "RegisteredActor",
    "RegisteredDocument",
    "RegistryAnswer",
    "RegistryRequest",
    "decode_arguments",
    "find_verb",
    "format_registry_answer",
    "format_registry_request",
    "list_arguments",
    "list_registration_lines",
    "parse_registry_answer",
    "parse_registry_request",
    "quote_message",
]
