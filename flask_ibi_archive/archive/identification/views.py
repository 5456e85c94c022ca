"""Answers programs that need identifiers, at ``/ibi/identifiers``.

Errors are problem details (RFC 9457). ``openapi.json`` describes the requests and the answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flask import Response, jsonify, request

from flask_ibi_archive.archive.identification.api_keys import PATH, KnownKey, find_key
from flask_ibi_archive.archive.identification.issued import KeyReused, Repeatable
from flask_ibi_archive.archive.identification.server import (
    Identification,
    IdentificationServer,
)
from flask_ibi_archive.archive.items.minting import Minted
from flask_ibi_archive.archive.service.problems import (
    WRONG_KEYS,
    Problem,
    count_request,
    explain,
    finish,
    read_json_body,
)
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.hosts import group_sender
from flask_ibi_archive.core.protocol.messages import list_ibi_words
from flask_ibi_archive.core.protocol.pairs import format_pairs
from flask_ibi_archive.core.records import values as fields
from flask_ibi_archive.core.records.record import format_record
from flask_ibi_archive.core.records.values import FieldError, quoted
from flask_ibi_archive.errors import (
    IBIError,
)
from flask_ibi_archive.server.web.requests import current_archive, user_address
from flask_ibi_archive.server.web.responses import pairs_response

#: The maximum number of requests with a key in a minute.
RATE = 600
#: The largest number of identifiers in a request, and in a part of a list.
MAX_COUNT, MAX_LIST = 1000, 1000
#: The largest number of bytes in the body of a request.
MAX_BODY = 1 << 20
#: The text for an identifier that is unknown to the program.
_UNKNOWN = "this program has requested no such identifier"
_KEY = re.compile(r'("?)([!#-~]{1,255})\1')
#: A function that answers a request of a program.
Answer = Callable[..., Response]
#: The parsers of parameters or fields, by name.
Parsers = Mapping[str, Callable[[str, Any], Any]]


def answer_collection() -> Response:
    """Answer a request for ``/ibi/identifiers``."""
    return _answer({"GET": (_list, _LISTING), "POST": (_create, {})})


def answer_identifier(ibi: str) -> Response:
    """Answer a request for ``/ibi/identifiers/<ibi>``."""
    methods = {"GET": (_show, {}), "PUT": (_put, {}), "DELETE": (_withdraw, _WITHDRAWING)}
    return _answer(methods, ibi)


def describe() -> Response:
    """Return the description of the interface (OpenAPI 3.1). It needs no key."""
    text = Path(__file__).with_name("openapi.json").read_text()
    return finish(Response(text, mimetype="application/json"))


def _answer(methods: Mapping[str, tuple[Answer, Parsers]], *parts: str) -> Response:
    """Answer a request with the function of its method, or with a problem.

    :param methods: the function of each method, and the parsers of the parameters in its query.
    :param parts: the variable parts of the path.
    """
    method = "GET" if request.method == "HEAD" else request.method
    try:
        if method not in methods:
            allowed = ", ".join(methods)
            raise Problem(405, f"the method {method} is not allowed; use {allowed}", Allow=allowed)
        server = IdentificationServer(current_archive(), _authenticate())
        answer, parsers = methods[method]
        return answer(server, *parts, **_read_query(parsers))
    except Problem as problem:
        return problem.answer()
    except FieldError as error:
        return Problem(422, error.reason, error.field or None).answer()
    except KeyReused:
        text = "this Idempotency-Key was used for another request; use a new key for each request"
        return Problem(422, text, "Idempotency-Key").answer()
    except IBIError as error:
        return explain(error, _UNKNOWN).answer()


def _authenticate() -> KnownKey:
    """Return the key of the request, and count the request.

    :raises Problem: 401 if there is no right key; 429 if the rate limit is reached.
    """
    archive = current_archive()
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    now, archive_id = archive.clock(), archive.served().id
    if scheme.lower() != "bearer" or not text:
        text = "send the key in the header Authorization: Bearer KEY"
        raise Problem(401, text, WWW_Authenticate='Bearer realm="identifiers"')
    key = find_key(archive.database, archive_id, text.strip(), now)
    if key is None:
        sender, limit = group_sender(user_address()), WRONG_KEYS
    else:
        sender, limit = f"key {key.id}", RATE
    reason = "requests with wrong keys" if key is None else "requests"
    count_request(archive.database, sender, limit, reason, now)
    if key is None:
        raise Problem(
            401,
            "the key is unknown, revoked or expired; ask the administrator of the Archive for one",
            WWW_Authenticate='Bearer realm="identifiers", error="invalid_token"',
        )
    return key


def _require(server: IdentificationServer, scope: str) -> None:
    if not server.key.may(scope):
        raise Problem(403, f"the key may not {scope}; ask the administrator for another key")


# --- the methods ---------------------------------------------------------------------------------


def _create(server: IdentificationServer) -> Response:
    """Issue identifiers, reserve one, or deposit an item."""
    data = read_json_body(MAX_BODY, empty={})
    stated = _parse_members(data, _CREATING)
    kind = next((name for name in ("record", "reserve") if name in stated), "count")
    for name in stated:
        if name not in (kind, "note") or (name == "note" and kind != "reserve"):
            raise FieldError(name, f"the field cannot be used together with {kind}")
    repeatable = _read_repeatable(data)
    _require(server, "deposit" if kind == "record" else "mint")
    if kind == "record":
        issued = server.deposit(stated["record"], repeatable)
    elif kind == "reserve":
        issued = server.reserve(stated.get("note"), repeatable)
    else:
        issued = server.issue(stated.get("count", 1), repeatable)
    return _show_issued(issued)


def _list(server: IdentificationServer, after: int = 0, limit: int = 100) -> Response:
    """Return the identifiers that the program has requested, in parts."""
    rows = server.list_issued(after, limit)
    listed: dict[str, Any] = {
        "identifiers": [
            {**_name(minted), "issued_at": format_timestamp(issued_at)}
            for _, minted, issued_at in rows
        ]
    }
    if len(rows) == limit:
        listed["next"] = f"{_base_url()}?after={rows[-1][0]}&limit={limit}"
    return finish(jsonify(listed))


def _show(server: IdentificationServer, ibi: str) -> Response:
    return finish(jsonify(_describe(server.describe(ibi))))


def _put(server: IdentificationServer, ibi: str) -> Response:
    _require(server, "deposit")
    parsers = {"record": _CREATING["record"]}
    stated = _parse_members(read_json_body(MAX_BODY, empty={}), parsers, required="record")
    minted, is_new = server.put(ibi, stated["record"])
    response = jsonify(_describe(server.describe(minted.rep)))
    response.status_code = 201 if is_new else 200
    return finish(response)


def _withdraw(
    server: IdentificationServer, ibi: str, reason: str | None = None, successor: str | None = None
) -> Response:
    found = server.describe(ibi)
    _require(server, "mint" if found.record is None else "deposit")
    server.withdraw(ibi, reason, successor)
    return finish(jsonify(_describe(server.describe(ibi))))


# --- reading requests ----------------------------------------------------------------------------


def _read_repeatable(data: object) -> Repeatable | None:
    text = request.headers.get("Idempotency-Key")
    if text is None:
        return None
    key = _KEY.fullmatch(text.strip())
    if key is None:
        raise FieldError("Idempotency-Key", "the key must have 1 to 255 visible ASCII characters")
    return Repeatable.from_content(key[2], data)


def _read_query(parsers: Parsers) -> dict[str, Any]:
    """Return the parameters in the query. Others are refused, because they may be misspelt."""
    for name, values in request.args.lists():
        if len(values) > 1:
            raise FieldError(fields.quoted_name(name), "the parameter must appear once")
    return _parse_members(request.args.to_dict(), parsers)


def _parse_members(value: Any, parsers: Parsers, required: str = "") -> dict[str, Any]:
    """Return the parsed fields of an object."""
    members = fields.check_object("", value, parsers)
    if required and required not in members:
        raise FieldError(required, "the field is missing")
    return {name: parse(name, members[name]) for name, parse in parsers.items() if name in members}


def _parse_number(least: int, most: int) -> Callable[[str, str], int]:
    """Return the parser of a parameter that is a whole number."""

    def parse(name: str, text: str) -> int:
        number = int(text) if re.fullmatch(r"[0-9]{1,18}", text) else -1
        if not least <= number <= most:
            raise FieldError(name, f"{quoted(text)} is not a whole number from {least} to {most}")
        return number

    return parse


def _parse_count(name: str, value: Any) -> int:
    if type(value) is not int or not 1 <= value <= MAX_COUNT:
        raise FieldError(name, f"{quoted(value)} is not a whole number from 1 to {MAX_COUNT}")
    return value


def _parse_reserve(name: str, value: Any) -> bool:
    if value is not True:
        raise FieldError(name, f"{quoted(value)} is not true; omit the field to reserve nothing")
    return True


_LISTING: Parsers = {"after": _parse_number(0, 1 << 59), "limit": _parse_number(1, MAX_LIST)}
_WITHDRAWING: Parsers = {"reason": fields.parse_text, "successor": fields.parse_ibi}
#: The parsers of the fields of a request for new identifiers.
_CREATING: Parsers = {
    "count": _parse_count,
    "reserve": _parse_reserve,
    "note": fields.parse_text,
    "record": lambda name, value: value,
}


# --- writing answers -----------------------------------------------------------------------------


def _show_issued(issued: Sequence[Minted]) -> Response:
    """Return new identifiers as JSON, or as a list of pairs if the program prefers plain text."""
    location = f"{_base_url()}/{issued[0].rep}"
    best = request.accept_mimetypes.best_match(["application/json", "text/plain"])
    if best == "text/plain":
        text = format_pairs(("ibi", list_ibi_words(new.rep, new.ibip)) for new in issued)
        return pairs_response(text, 201, Location=location)
    response = jsonify({"identifiers": list(map(_name, issued))})
    response.status_code = 201
    response.headers["Location"] = location
    return finish(response)


def _describe(found: Identification) -> dict[str, Any]:
    described: dict[str, Any] = {**_name(found.minted), "status": found.status}
    if found.record is not None:
        described["record"] = format_record(found.record)
    return described


def _name(minted: Minted) -> dict[str, str]:
    return {
        "rep": minted.rep,
        "ibip": minted.ibip,
        "persistent_url": current_archive().persistent_url(minted),
    }


def _base_url() -> str:
    return f"{current_archive().addresses.base}{PATH}"
