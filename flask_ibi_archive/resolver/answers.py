"""Which answers of an Archive count, and why others do not ([R] 6.2)."""

from __future__ import annotations

import re

from flask_ibi_archive.errors import PeerProtocolError
from flask_ibi_archive.protocol.pairs import ALERT, Pair, parse_pairs
from flask_ibi_archive.resolver.http_transfer import TransferResult

TEXT_PLAIN = "text/plain"
OK = 200
BAD_REQUEST = 400
REDIRECTS = range(300, 400)
REFUSALS = range(400, 500)
#: Request Timeout and Too Many Requests: the server is overloaded.
OVERLOADED = (408, 429)
#: A content type that may be shown. Other values may quote the request, which must not be logged.
_is_content_type = re.compile(r"[a-z]{1,20}/[a-z0-9.+-]{1,40}").fullmatch


def read_answer(result: TransferResult) -> list[Pair] | str:
    """Return the pairs of an answer, or the reason why it does not count.

    An answer counts if its status is 200, or 400 with an ``alert`` pair (the Archive rejects the
    question; no pairs are returned). An answer without a content type is read as text.
    Source: [R] 6.2, Tables 6.5 and 4.2.
    """
    if result.reason is not None:
        return result.reason
    if result.status in REDIRECTS:
        return f"redirects (status {result.status})"
    if result.status not in (OK, BAD_REQUEST):
        return f"answers with status {result.status}"
    pairs = _read_pairs(result)
    if result.status == OK:
        return pairs
    if isinstance(pairs, list) and any(pair.name == ALERT for pair in pairs):
        return []
    return f"answers with status {result.status}"


def refuses_request(status: int) -> bool:
    """Return whether a status refuses one request but says nothing about other requests.

    A server in front of an Archive may reject a path as an attack or as too long, with any 4xx
    status. Such answers do not open the circuit breaker: otherwise the authors of persistent URLs
    could exclude an Archive.
    """
    return status in REFUSALS and status not in OVERLOADED


def _read_pairs(result: TransferResult) -> list[Pair] | str:
    if result.content_type is not None and result.content_type != TEXT_PLAIN:
        kind = result.content_type.partition(";")[0].strip().lower()
        if kind not in ("", TEXT_PLAIN):
            shown = kind if _is_content_type(kind) else "another content type"
            return f"answers with {shown} instead of {TEXT_PLAIN}"
    if not result.body:
        return []
    try:
        return parse_pairs(result.body)
    except PeerProtocolError as error:
        return f"answers with a malformed pair list (at position {error.position})"
