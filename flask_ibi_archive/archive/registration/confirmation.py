"""The confirmation call: whether the Archive at an address wants to be included.

When a resolver receives an inclusion request, it calls the Archive back with an
inclusionConfirmationRequest before it answers ([R] 5.2, Example 5.4). The Archive answers it with
:func:`~flask_ibi_archive.protocol.messages.build_response`, as any request to its service. Here the
Archive makes the same call to its own address, to find out whether a resolver would get an answer.
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
    """Make the confirmation call to the Archive's own address, and return the URL of its service.

    :param seconds: the timeout for the whole answer.
    :raises TransportError: if there is no answer in time.
    :raises RegistrationError: if something else answers.
    """
    url = archive.addresses.service(archive.served())
    query = format_request(InclusionConfirmationRequest())
    answer = fetch(url, query, seconds=seconds, limit=MAX_ANSWER, inner_hosts=None)
    if answer.text != CONFIRMATION:
        raise RegistrationError(
            f"{url} answers {answer.status} {answer.text[:60]!a} instead of {CONFIRMATION!r}"
        )
    return url
