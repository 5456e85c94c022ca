"""The answer to a request ([R] 7.2, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable

from flask_ibi_archive.protocol.messages import Acknowledgment, Request, UrlRequest
from flask_ibi_archive.protocol.pairs import format_notice, format_pairs
from flask_ibi_archive.protocol.url_list import UrlPair

CONFIRMATION = "confirmation yes"
RECEIVED = format_notice("acknowledgment received")


def build_response(
    request: Request,
    list_urls: Callable[[UrlRequest], list[UrlPair]],
    take_acknowledgment: Callable[[Acknowledgment], object] = lambda acknowledgment: None,
) -> str:
    """Return the list of pairs that answers a request, as text.

    :param list_urls: gives the URL list, filtered unless the Archive is told not to.
    :param take_acknowledgment: is told of an acknowledgment; the answer never tells what became of
        it.
    Source: [R] 7.2, Algorithm 1 (MONTARRESPOSTA).
    """
    if isinstance(request, UrlRequest):
        return format_pairs(list_urls(request))
    if isinstance(request, Acknowledgment):
        take_acknowledgment(request)
        return RECEIVED
    return CONFIRMATION
