"""Send the signals about requests and new identifiers (:mod:`..signals`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flask_ibi_archive.archive.items.minting import Minted
from flask_ibi_archive.core.protocol.hosts import find_client
from flask_ibi_archive.core.protocol.messages import UrlRequest
from flask_ibi_archive.signals import Notice, Notifier, item_minted, url_requested


def announce_minted(
    notifier: Notifier, minted: Sequence[Minted], get_service_ibi: Callable[[], str]
) -> None:
    """Send item_minted for each of new identifiers.

    :param get_service_ibi: returns the service IBI of the Archive; only called if somebody listens.
    """
    for new in minted if item_minted.receivers else ():
        values = {"ibi": new.ibi, "rep": new.rep, "ibip": new.ibip, "archive": get_service_ibi()}
        notifier.send([Notice(item_minted, values)])


def announce_request(
    notifier: Notifier, request: UrlRequest, urls: int, anonymises: bool = True
) -> None:
    """Send url_requested.

    :param urls: the number of pairs in the answer.
    :param anonymises: whether IP addresses of users are anonymised.
    """
    values = {
        "ibi": request.ibi.text,
        "client_address": find_client(request.client_addresses, anonymises),
        "filepath": request.filepath,
        "urls": urls,
    }
    notifier.send([Notice(url_requested, values)])
