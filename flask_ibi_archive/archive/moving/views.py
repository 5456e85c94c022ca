"""Answers the Archives to which this Archive has offered items, at ``/ibi/offers``.

The secret of an offer is in the header Authorization alone: URLs are in logs. An unknown offer and
a wrong secret have the same answer. Errors are problem details (RFC 9457).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from flask import Response, current_app, jsonify, request
from werkzeug.exceptions import PreconditionFailed

from flask_ibi_archive.archive.moving import offers, switching
from flask_ibi_archive.archive.moving.offers import StoredOffer
from flask_ibi_archive.archive.service import problems
from flask_ibi_archive.archive.service.downloads import send_content
from flask_ibi_archive.core.records import offer_messages as messages
from flask_ibi_archive.core.records.values import FieldError, quoted
from flask_ibi_archive.server.web.requests import current_archive

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

_NUMBER = re.compile("[0-9]{1,9}")
#: A function that answers a request of the taker of an offer.
Answer = Callable[["Archive", StoredOffer], Response]


def answer_offer(offer: str) -> Response:
    """Answer a request for ``/ibi/offers/<offer>``."""
    return _answer(offer, "GET", _describe)


def answer_items(offer: str) -> Response:
    """Answer a request for ``/ibi/offers/<offer>/items``."""
    return _answer(offer, "GET", _list_items)


def answer_file(offer: str, number: int, path: str) -> Response:
    """Answer a request for ``/ibi/offers/<offer>/files/<number>/<path>``."""
    return _answer(offer, "GET", lambda archive, found: _send(archive, found, number, path))


def answer_switch(offer: str) -> Response:
    """Answer a request for ``/ibi/offers/<offer>/switch``.

    This also works after the end of the offer, because the answer to an earlier request may be
    lost.
    """
    return _answer(offer, "POST", _switch, is_open=False)


def _answer(public_id: str, method: str, answer: Answer, is_open: bool = True) -> Response:
    """Answer a request with the result of a function, or with a problem (an error).

    :param method: the HTTP method that is allowed.
    :param is_open: whether the offer must be open.
    """

    def answer_taker() -> Response:
        # each operation is committed at once
        archive = current_archive().without_session()
        offer = _authenticate(archive, public_id)
        end = offer.find_end(archive.clock())
        # what has moved can be read later: the taker may not know yet that it has
        if is_open and end is not None and not offer.moved:
            raise problems.Problem(
                410, f"{end}; ask the administrator of the other Archive for a new one"
            )
        return answer(archive, offer)

    return problems.answer_program({method: answer_taker}, "the offer has no such item")


def _authenticate(archive: Archive, public_id: str) -> StoredOffer:
    """Return the offer whose secret is in the request.

    :raises Problem: 401 if there is no such offer.
    """
    offer = offers.find_offer(archive, public_id, problems.read_bearer())
    if offer is None:
        raise problems.Problem(
            401,
            "there is no such offer, or the secret is wrong; send the secret of the offer in the "
            "header Authorization: Bearer SECRET",
            WWW_Authenticate='Bearer realm="offers"',
        )
    return offer


def _describe(archive: Archive, offer: StoredOffer) -> Response:
    return jsonify(messages.format_offer(offers.describe_offer(archive, offer)))


def _list_items(archive: Archive, offer: StoredOffer) -> Response:
    after = request.args.get("after", "0")
    if not _NUMBER.fullmatch(after):
        raise FieldError("after", f"{quoted(after)} is not a whole number")
    body = b"".join(offers.read_page(archive, offer, int(after)))
    return Response(body, content_type="application/x-ndjson")


def _send(archive: Archive, offer: StoredOffer, number: int, path: str) -> Response:
    content = offers.find_content(archive, offer, number, path)
    if content is None:
        raise problems.Problem(404, "the item has no such stored file, or is not in the offer")
    try:
        return send_content(content[0], path.rpartition("/")[2], content[1], None, restricted=True)
    except PreconditionFailed as error:
        raise problems.Problem(412, "the file has changed since") from error
    except OSError as error:
        current_app.logger.error("a file of an offer can't be read: %s", error)
        raise problems.Problem(503, "the file can't be read now; try again later") from error


def _switch(archive: Archive, offer: StoredOffer) -> Response:
    asked = messages.parse_switch(problems.read_json_body(messages.MAX_BODY))
    return jsonify(messages.format_answers(switching.switch_items(archive, offer.public_id, asked)))
