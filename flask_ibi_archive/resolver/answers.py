"""What an Archive's answer to a question is worth: its pairs, or why it counts as none."""

from __future__ import annotations

import re

from flask_ibi_archive.errors import PeerProtocolError
from flask_ibi_archive.protocol.pairs import ALERT, Pair, parse_pairs
from flask_ibi_archive.resolver.transfer import Ended

TEXT_PLAIN = "text/plain"
OK = 200
BAD_REQUEST = 400
REDIRECTS = range(300, 400)
REFUSALS = range(400, 500)
#: Request Timeout, Too Many Requests: it wants to be left alone for a while.
BUSY = (408, 429)
#: A type that is shown: what else stands there may be what was asked, said back.
_is_type = re.compile(r"[a-z]{1,20}/[a-z0-9.+-]{1,40}").fullmatch


def read_answer(ended: Ended) -> list[Pair] | str:
    """Return the pairs of an answer (none: what was asked for is unknown there), or what is wrong
    with it.

    An answer counts with status 200, or with status 400 and an ``alert``, where the Archive finds
    fault with the question. One without a type counts as text.
    Source: [R] 6.2, Tables 6.5 and 4.2.
    """
    if ended.reason is not None:
        return ended.reason
    if ended.status in REDIRECTS:
        return f"redirects (status {ended.status})"
    if ended.status not in (OK, BAD_REQUEST):
        return f"answers with status {ended.status}"
    found = _read_pairs(ended)
    if ended.status == OK:
        return found
    if isinstance(found, list) and any(pair.name == ALERT for pair in found):
        return []
    return f"answers with status {ended.status}"


def refuses_question(status: int) -> bool:
    """Tell whether a status finds fault with the question, not with the server: it says nothing of
    others.

    A server in front of an Archive may take a path for an attack, or for too long, and say so by
    any status of this kind. Whoever writes persistent URLs must not be able to have an Archive
    skipped by them.
    """
    return status in REFUSALS and status not in BUSY


def _read_pairs(ended: Ended) -> list[Pair] | str:
    if ended.content_type is not None and ended.content_type != TEXT_PLAIN:
        named = ended.content_type.partition(";")[0].strip().lower()
        if named not in ("", TEXT_PLAIN):
            shown = named if _is_type(named) else "another type"
            return f"answers {shown} where {TEXT_PLAIN} is right"
    if not ended.body:
        return []
    try:
        return parse_pairs(ended.body)
    except PeerProtocolError as error:
        return f"answers what is no list of pairs (at position {error.position})"
