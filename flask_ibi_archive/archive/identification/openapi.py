"""The description of the interface for programs, in OpenAPI 3.1.

Source: https://spec.openapis.org/oas/v3.1.1. The schema of a record describes the form of its
fields; :mod:`flask_ibi_archive.core.records.parse` also checks what a schema cannot say.
"""

from __future__ import annotations

from typing import Any

from flask_ibi_archive.archive.identification.api_keys import PATH
from flask_ibi_archive.core.records.format_description import LISTS
from flask_ibi_archive.core.records.parse_description import WORK_FIELDS

#: The largest number of identifiers in a request, and in a part of a list.
MAX_COUNT, MAX_LIST = 1000, 1000

Schema = dict[str, Any]


def _ref(kind: str, name: str) -> Schema:
    return {"$ref": f"#/components/{kind}/{name}"}


def _object(properties: Schema, *required: str, **others: Any) -> Schema:
    closed = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**closed, **({"required": list(required)} if required else {}), **others}


def _json(schema: Schema, description: str) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


_TEXT: Schema = {"type": "string", "minLength": 1}
_IBI: Schema = {"type": "string", "minLength": 3, "examples": ["8JMKD3MGP8W/35MME4E"]}
_URL: Schema = {"type": "string", "format": "uri", "pattern": "^https?://"}
_TIME: Schema = {"type": "string", "format": "date-time", "examples": ["2009-07-21T13:23:45Z"]}
_LANGUAGE: Schema = {"type": "string", "pattern": "^[a-z]{2}(-[A-Z]{2})?$", "examples": ["pt"]}
_FLAG: Schema = {"type": "boolean"}
_FORMATS: Schema = {"type": "object", "additionalProperties": _URL}
_DUBLIN_CORE: Schema = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {
        "type": "array",
        "items": {
            "oneOf": [_TEXT, _object({"value": _TEXT, "lang": _TEXT}, "value")],
        },
    },
}
#: The values are checked when a record is parsed, and errors name the field.
_WORK: Schema = {
    "type": "object",
    "description": "A complete description, as in the import format.",
    "properties": {
        name: {"type": "array"} if name in LISTS else {"type": ["string", "object"]}
        for name in WORK_FIELDS
    },
    "required": ["titles"],
    "additionalProperties": False,
}
_FILE = _object(
    {
        "path": {"type": "string", "minLength": 1, "maxLength": 1024, "examples": ["report.pdf"]},
        "url": {**_URL, "description": "Where the file is."},
        "sha256": {"type": "string", "pattern": "^[0-9A-Fa-f]{64}$"},
    },
    "path",
)
_RECORD: Schema = _object(
    {
        "rep": _IBI,
        "ibip": _IBI,
        "key": {**_TEXT, "description": "The key of the item in the repository itself."},
        "aliases": {"type": "array", "items": _IBI, "description": "Further identifiers."},
        "same_as": {
            "type": "array",
            "items": {"type": "string", "examples": ["doi:10.5281/zenodo.1234567"]},
            "description": "Identifiers in other systems (Handle, DOI, ARK, URN) and former "
            "addresses, whose links lead to the item.",
        },
        "state": {"enum": ["Original", "Copy", "Deleted"]},
        "original_archive": _IBI,
        "timestamp": _TIME,
        "content_type": {"enum": ["Data", "Metadata"]},
        "language": _LANGUAGE,
        "transferable": _FLAG,
        "next_edition": _IBI,
        "translations": {"type": "object", "additionalProperties": _IBI},
        "metadata": {
            "oneOf": [
                _object({"dc": _DUBLIN_CORE}, "dc"),
                _object({"work": _WORK}, "work"),
                _object({"ibi": _IBI}, "ibi"),
                _object({"url": _URL, "formats": _FORMATS, "timestamp": _TIME}, "url"),
            ],
            "examples": [{"dc": {"title": ["On rain"], "creator": ["Silva, Ana"]}}],
        },
        "formats": _FORMATS,
        "files": {"type": "array", "items": _FILE},
        "target_file": {"type": "string", "minLength": 1, "maxLength": 1024},
        "list_files": _FLAG,
        "access": _object(
            {
                "networks": {"type": "array", "minItems": 1, "items": _TEXT},
                "others": {"enum": ["metadata", "none"]},
            },
            "networks",
        ),
        "embargo": {"type": "string", "format": "date"},
        "tombstone": _object(
            {"reason": _TEXT, "citation": _TEXT, "successor": _IBI, "original_archive": _IBI},
            "reason",
        ),
    },
    description="An item, as in the import format. The Archive sets the identifiers, the state and "
    "the timestamp. All other fields that are omitted get their defaults.",
)
_NAMES: Schema = {"rep": _IBI, "ibip": _IBI, "persistent_url": {"type": "string", "format": "uri"}}
_SCHEMAS: Schema = {
    "Record": _RECORD,
    "Identifier": _object(_NAMES, *_NAMES),
    "Identification": _object(
        {
            **_NAMES,
            "status": {
                "enum": [
                    *("issued", "held", "used", "released", "Original", "Copy", "Deleted"),
                ],
                "description": "issued: minted only; held, used, released: of a reservation; or "
                "the state of the item.",
            },
            "record": _ref("schemas", "Record"),
        },
        *(*_NAMES, "status"),
    ),
    "Problem": _object(
        {
            "type": {"const": "about:blank"},
            "title": _TEXT,
            "status": {"type": "integer"},
            "detail": {**_TEXT, "description": "What is wrong, and what would be right."},
            "field": {**_TEXT, "description": "The wrong field, such as record.files[0].url."},
        },
        *("type", "title", "status", "detail"),
    ),
}
_NEW: Schema = {
    "oneOf": [
        _object(
            {"count": {"type": "integer", "minimum": 1, "maximum": MAX_COUNT}},
            title="Issue identifiers",
        ),
        _object({"reserve": {"const": True}, "note": _TEXT}, "reserve", title="Reserve one"),
        _object({"record": _ref("schemas", "Record")}, "record", title="Deposit an item"),
    ]
}
_PROBLEMS = {
    400: "The body is not JSON.",
    401: "The key is missing or wrong.",
    403: "The key may not do this.",
    404: "The program has requested no such identifier.",
    409: "A rule, or the state of the item, does not allow the request.",
    413: "The body is too long.",
    415: "The body is not application/json.",
    422: "A field is wrong; or the Idempotency-Key was used for another request.",
    429: "Too many requests; Retry-After says when to try again.",
    503: "The Archive cannot answer now; Retry-After says when to try again.",
}


def _answers(right: Schema, *statuses: int) -> Schema:
    """Return the answers of an operation: its own answers, and the answers of all operations."""
    return {**right, **{str(status): _ref("responses", f"P{status}") for status in statuses}}


def _parameter(place: str, name: str, schema: Schema, description: str, **others: Any) -> Schema:
    described = {"in": place, "name": name, "schema": schema, "description": description}
    return {**described, **others}


_ALWAYS = (401, 422, 429, 503)
_BODY = (400, 403, 409, 413, 415)
_ISSUED = _object(
    {"identifiers": {"type": "array", "items": _ref("schemas", "Identifier")}}, "identifiers"
)
_COLLECTION: Schema = {
    "get": {
        "operationId": "listIdentifiers",
        "summary": "List the identifiers that the program has requested.",
        "parameters": [
            _parameter(
                "query",
                "after",
                {"type": "integer", "minimum": 0},
                "The position of the last identifier of the part before; see next.",
            ),
            _parameter(
                "query",
                "limit",
                {"type": "integer", "minimum": 1, "maximum": MAX_LIST, "default": 100},
                "The largest number of identifiers.",
            ),
        ],
        "responses": _answers(
            {
                "200": _json(
                    _object(
                        {
                            "identifiers": {
                                "type": "array",
                                "items": _object(
                                    {**_NAMES, "issued_at": _TIME}, *_NAMES, "issued_at"
                                ),
                            },
                            "next": {
                                "type": "string",
                                "format": "uri",
                                "description": "The URL of the next part, if there may be one.",
                            },
                        },
                        "identifiers",
                    ),
                    "Identifiers in the order of their issue.",
                )
            },
            *_ALWAYS,
        ),
    },
    "post": {
        "operationId": "createIdentifiers",
        "summary": "Issue identifiers, reserve one, or deposit an item whose files are elsewhere.",
        "parameters": [
            _parameter(
                "header",
                "Idempotency-Key",
                {"type": "string", "pattern": '^(?:[!#-~]{1,255}|"[!#-~]{1,255}")$'},
                "A random text. A request that is repeated with it within a day gets the first "
                "answer, and issues nothing new.",
            )
        ],
        "requestBody": {"content": {"application/json": {"schema": _NEW}}},
        "responses": _answers(
            {
                "201": {
                    "description": "The new identifiers.",
                    "headers": {"Location": {"schema": {"type": "string", "format": "uri"}}},
                    "content": {
                        "application/json": {"schema": _ISSUED},
                        "text/plain": {
                            "schema": {"type": "string"},
                            "example": "ibi {rep sid.inpe.br/mtc-m18/2009/07.21.13.23 "
                            "ibip 8JMKD3MGP8W/35MME4E}",
                        },
                    },
                }
            },
            *(*_ALWAYS, *_BODY),
        ),
    },
}
_ONE: Schema = {
    "parameters": [
        _parameter(
            "path",
            "ibi",
            {"type": "string", "minLength": 1},
            "An identifier in any form. Its slashes may be written as / or %2F.",
            required=True,
        )
    ],
    "get": {
        "operationId": "showIdentifier",
        "summary": "Show the status of an identifier, and the record of its item.",
        "responses": _answers(
            {"200": _json(_ref("schemas", "Identification"), "The identifier.")},
            *(*_ALWAYS, 404),
        ),
    },
    "put": {
        "operationId": "putItem",
        "summary": "Replace the record of an item, or deposit the item of a reserved identifier.",
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": _object({"record": _ref("schemas", "Record")}, "record")
                }
            },
        },
        "responses": _answers(
            {
                "200": _json(_ref("schemas", "Identification"), "The item was updated."),
                "201": _json(_ref("schemas", "Identification"), "The item was deposited."),
            },
            *(*_ALWAYS, *_BODY, 404),
        ),
    },
    "delete": {
        "operationId": "withdraw",
        "summary": "Withdraw an item; a tombstone with the reason remains. Or release a reserved "
        "identifier.",
        "parameters": [
            _parameter("query", "reason", _TEXT, "The reason, which the public can read."),
            _parameter("query", "successor", _IBI, "The item that replaces the withdrawn one."),
        ],
        "responses": _answers(
            {"200": _json(_ref("schemas", "Identification"), "The item was withdrawn.")},
            *(*_ALWAYS, 403, 404, 409),
        ),
    },
}


def describe_interface(base_url: str, name: str) -> Schema:
    """Return the description of the interface.

    :param base_url: the scheme and the host of the Archive.
    :param name: the name of the Archive.
    """
    problem = {"application/problem+json": {"schema": _ref("schemas", "Problem")}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"Identifiers of {name}",
            "version": "1",
            "description": "Persistent identifiers (IBI, ABNT NBR 16066) for programs.",
        },
        "servers": [{"url": base_url}],
        "security": [{"key": []}],
        "paths": {PATH: _COLLECTION, f"{PATH}/{{ibi}}": _ONE},
        "components": {
            "schemas": _SCHEMAS,
            "responses": {
                f"P{status}": {"description": text, "content": problem}
                for status, text in _PROBLEMS.items()
            },
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A key that the administrator of the Archive creates.",
                }
            },
        },
    }
