"""Answers the Archives to which this Archive has offered items, at ``/ibi/offers``.

The secret of an offer is in the header Authorization alone: URLs are in logs. An unknown offer and
a wrong secret have the same answer. Errors are problem details (RFC 9457).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from flask import Response, current_app, jsonify, request
from werkzeug.exceptions import PreconditionFailed

from flask_ibi_archive.archive.moving import giving, switching
from flask_ibi_archive.archive.moving.giving import KnownOffer
from flask_ibi_archive.archive.service.downloads import send_content
from flask_ibi_archive.archive.service.problems import (
    WRONG_KEYS,
    Problem,
    count_request,
    explain,
    finish,
    read_json_body,
)
from flask_ibi_archive.core.protocol.hosts import group_sender
from flask_ibi_archive.core.records.offer_messages import (
    MAX_BODY,
    MAX_ITEMS,
    format_answers,
    format_offer,
    parse_switch,
)
from flask_ibi_archive.core.records.values import FieldError, quoted
from flask_ibi_archive.errors import IBIError
from flask_ibi_archive.server.web.requests import current_archive, user_address

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

_NUMBER = re.compile("[0-9]{1,9}")
#: A function that answers a request of the taker of an offer.
Answer = Callable[["Archive", KnownOffer], Response]


def answer_offer(offer: str) -> Response:
    """Answer a request for ``/ibi/offers/<offer>``."""
    return _answer(offer, "GET", _describe)


def answer_items(offer: str) -> Response:
    """Answer a request for ``/ibi/offers/<offer>/items``."""
    return _answer(offer, "GET", _list_items)


def answer_file(offer: str, number: int, path: str) -> Response:
    """Answer a request for ``/ibi/offers/<offer>/files/<number>/<path>``."""
    return _answer(offer, "GET", lambda archive, known: _send(archive, known, number, path))


def answer_switch(offer: str) -> Response:
    """Answer a request for ``/ibi/offers/<offer>/switch``.

    It is also answered after the offer has ended: the answer to an earlier request may be lost.
    """
    return _answer(offer, "POST", _switch, is_open=False)


def _answer(public_id: str, method: str, answer: Answer, is_open: bool = True) -> Response:
    """Answer a request with a function, or with a problem.

    :param method: the method that is allowed.
    :param is_open: whether the offer must be open.
    """
    try:
        if request.method.replace("HEAD", "GET") != method:
            text = f"the method {request.method} is not allowed; use {method}"
            raise Problem(405, text, Allow=method)
        # each operation is committed at once
        archive = current_archive().without_session()
        offer = _authenticate(archive, public_id)
        end = offer.find_end(archive.clock()) if is_open else None
        if end is not None:
            raise Problem(410, f"{end}; ask the administrator of the other Archive for a new one")
        return finish(answer(archive, offer))
    except Problem as problem:
        return problem.answer()
    except FieldError as error:
        return Problem(400, error.reason, error.field or None).answer()
    except IBIError as error:
        return explain(error, "the offer has no such item").answer()


def _authenticate(archive: Archive, public_id: str) -> KnownOffer:
    """Return the offer whose secret is in the request.

    :raises Problem: 401 if there is no such offer; 429 if there were too many such requests.
    """
    scheme, _, text = request.headers.get("Authorization", "").partition(" ")
    secret = text.strip() if scheme.lower() == "bearer" else ""
    offer = giving.find_offer(archive, public_id, secret)
    if offer is None:
        sender, reason = group_sender(user_address()), "requests with wrong secrets"
        count_request(archive.database, sender, WRONG_KEYS, reason, archive.clock())
        raise Problem(
            401,
            "there is no such offer, or the secret is wrong; send the secret of the offer in the "
            "header Authorization: Bearer SECRET",
            WWW_Authenticate='Bearer realm="offers"',
        )
    return offer


def _describe(archive: Archive, offer: KnownOffer) -> Response:
    return jsonify(format_offer(giving.describe_offer(archive, offer)))


def _list_items(archive: Archive, offer: KnownOffer) -> Response:
    parsers: Mapping[str, Callable[[str], list[bytes]]] = {
        "after": lambda text: giving.read_page(archive, offer, _parse_number("after", text)),
        "numbers": lambda text: giving.read_numbers(archive, offer, _parse_numbers(text)),
    }
    stated = list(request.args.items(multi=True)) or [("after", "0")]
    if len(stated) > 1 or stated[0][0] not in parsers:
        raise FieldError("", "the query must be after=NUMBER, or numbers=NUMBER,NUMBER")
    [(name, text)] = stated
    body = b"".join(parsers[name](text))
    return Response(body, content_type="application/x-ndjson")


def _parse_numbers(text: str) -> list[int]:
    numbers = [_parse_number("numbers", part) for part in text.split(",")]
    if len(numbers) > MAX_ITEMS:
        raise FieldError("numbers", f"the list has {len(numbers)} numbers, instead of {MAX_ITEMS}")
    return numbers


def _parse_number(name: str, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise FieldError(name, f"{quoted(text)} is not a whole number")
    return int(text)


def _send(archive: Archive, offer: KnownOffer, number: int, path: str) -> Response:
    content = giving.find_content(archive, offer, number, path)
    if content is None:
        raise Problem(404, "the item has no such stored file, or is not in the offer")
    try:
        return send_content(content[0], path.rpartition("/")[2], content[1], None, restricted=True)
    except PreconditionFailed as error:
        raise Problem(412, "the file has changed since") from error
    except OSError as error:
        current_app.logger.error("a file of an offer can't be read: %s", error)
        raise Problem(503, "the file can't be read now; try again later") from error


def _switch(archive: Archive, offer: KnownOffer) -> Response:
    asked = parse_switch(read_json_body(MAX_BODY))
    return jsonify(format_answers(switching.switch_items(archive, offer.public_id, asked)))
