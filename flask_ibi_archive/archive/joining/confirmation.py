"""Check whether the Archive answers a confirmation request that is sent to its own address.

After an inclusion request, a resolver first sends an inclusionConfirmationRequest to the Archive.
The answer of the Archive confirms the inclusion request ([R] 5.2, Example 5.4). The function
:func:`~flask_ibi_archive.core.protocol.messages.build_response` returns this answer.

In this module, the Archive sends the same request to its own address. The result shows whether a
resolver would get an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask_ibi_archive.core.protocol.inclusion import CONFIRMATION, InclusionConfirmationRequest
from flask_ibi_archive.core.protocol.messages import format_request
from flask_ibi_archive.errors import RegistrationError
from flask_ibi_archive.server.http.transport import fetch

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: At most this number of bytes of an answer is read.
MAX_ANSWER = 4096


def call_own_address(archive: Archive, seconds: float) -> str:
    """Send a confirmation request to the Archive's own address, and return the URL of the service.

    :param seconds: the timeout for the whole answer.
    :raises TransportError: if no answer arrives in time.
    :raises RegistrationError: if the answer is not the answer of an Archive.
    """
    url = archive.addresses.service(archive.served())
    query = format_request(InclusionConfirmationRequest())
    answer = fetch(url, query, seconds=seconds, limit=MAX_ANSWER, inner_hosts=None)
    if answer.text != CONFIRMATION:
        raise RegistrationError(
            f"{url} answers {answer.status} {answer.text[:60]!a} instead of {CONFIRMATION!r}"
        )
    return url
