"""Send the signals about requests, accesses and new identifiers (:mod:`..signals`)."""

from __future__ import annotations

from collections.abc import Sequence

from flask_ibi_archive.archive.accesses.acknowledgments import Outcome
from flask_ibi_archive.archive.accesses.visitors import anonymise
from flask_ibi_archive.archive.minting import Minted
from flask_ibi_archive.protocol.messages import Acknowledgment, UrlRequest
from flask_ibi_archive.signals import (
    Notice,
    Notifier,
    access_acknowledged,
    item_minted,
    url_requested,
)


def announce_minted(notifier: Notifier, minted: Sequence[Minted], service_ibi: str) -> None:
    """Send item_minted for each of new identifiers.

    :param service_ibi: the service IBI of the Archive.
    """
    for one in minted:
        values = {"ibi": one.ibi, "rep": one.rep, "ibip": one.ibip, "archive": service_ibi}
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
        "client_address": _find_client(request.client_addresses, anonymises),
        "filepath": request.filepath,
        "urls": urls,
    }
    notifier.send([Notice(url_requested, values)])


def announce_access(
    notifier: Notifier, acknowledgment: Acknowledgment, outcome: Outcome, anonymises: bool = True
) -> None:
    """Send access_acknowledged if the access was stored.

    :param anonymises: whether IP addresses of users are anonymised.
    """
    if outcome is Outcome.REFUSED or not access_acknowledged.receivers:
        return
    values = {
        "ibi": acknowledgment.ibi[0].text if acknowledgment.ibi else None,
        "client_address": _find_client(acknowledgment.client_addresses, anonymises),
        "url": acknowledgment.url,
        "persistent_url": acknowledgment.persistent_url,
        "content_type": acknowledgment.content_type,
        "stored": "database" if outcome is Outcome.COUNTED else "spool",
    }
    notifier.send([Notice(access_acknowledged, values)])


def _find_client(addresses: tuple[str, ...] | None, anonymises: bool) -> str | None:
    """Return the address of the user, which is the first of the addresses, or None."""
    if not addresses:
        return None
    return anonymise(addresses[0]) if anonymises else addresses[0]
