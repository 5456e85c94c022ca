"""The confirmation call of an Archive to its own address.

When a resolver receives an inclusion request, it first sends an inclusionConfirmationRequest to the
Archive: the Archive must confirm that it wants to be included ([R] 5.2, Example 5.4). The function
:func:`~flask_ibi_archive.protocol.messages.build_response` answers this request. In this module the
Archive sends the same request to its own address, to check whether a resolver would get an answer.
"""

from __future__ import annotations

from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.archive.transport import fetch
from flask_ibi_archive.errors import RegistrationError
from flask_ibi_archive.protocol.inclusion import CONFIRMATION, InclusionConfirmationRequest
from flask_ibi_archive.protocol.messages import format_request

#: Bytes of an answer that are read.
MAX_ANSWER = 4096


def call_own_address(archive: ArchiveService, seconds: float) -> str:
    """Send the confirmation call to the Archive's own address, and return the URL of its service.

    :param seconds: the timeout for the whole answer.
    :raises TransportError: if there is no answer in time.
    :raises RegistrationError: if the answer is not that of an Archive.
    """
    url = archive.addresses.service(archive.served())
    query = format_request(InclusionConfirmationRequest())
    answer = fetch(url, query, seconds=seconds, limit=MAX_ANSWER, inner_hosts=None)
    if answer.text != CONFIRMATION:
        raise RegistrationError(
            f"{url} answers {answer.status} {answer.text[:60]!a} instead of {CONFIRMATION!r}"
        )
    return url
