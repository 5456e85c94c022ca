"""Looks whether everything is as it should be for an Archive to be found by readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.archive.readiness import check_files
from flask_ibi_archive.archive.registration.standing import find_standing
from flask_ibi_archive.archive.transport import HttpResponse, fetch, without_password
from flask_ibi_archive.errors import IBIError, TransportError
from flask_ibi_archive.protocol.inclusion import CONFIRMATION, INCLUSION_CONFIRMATION_REQUEST
from flask_ibi_archive.protocol.query import SERVICE_SUBJECT

#: Seconds for a whole answer.
TIMEOUT = 5
#: Bytes of an answer that are looked at.
MAX_ANSWER = 4096


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one look: what was looked at, whether it is right, and a line about it."""

    name: str
    ok: bool
    text: str


def check_archive(archive: ArchiveService) -> Iterator[Finding]:
    """Look at configuration, database, files, the Archive's address, the resolver's, the
    registration.
    """
    yield look("configuration", lambda: _check_configuration(archive))
    database = look("database", lambda: _check_database(archive))
    yield database
    yield look("files", lambda: _check_files(archive))
    if database.ok:
        yield look("address", lambda: _check_address(archive))
    else:
        yield Finding("address", False, "not tried: the Archive can't answer without its database")
    yield look("resolver", lambda: _check_resolver(archive))
    if database.ok:
        yield look("registration", lambda: _check_registration(archive))
    else:
        yield Finding("registration", False, "not known: it is written in the database")


class CheckFailed(Exception):
    """Something is not as it should be."""


def look(name: str, check: Callable[[], str]) -> Finding:
    """Return what a check found; its errors are findings too."""
    try:
        return Finding(name, True, check())
    except (CheckFailed, IBIError) as error:
        return Finding(name, False, str(error))


def _check_configuration(archive: ArchiveService) -> str:
    archive.config.check_minting()
    return f"the Archive is at {archive.config.archive_address}, and can give identifiers"


def _check_database(archive: ArchiveService) -> str:
    archive.database.check()
    return f"up to date; the service is {archive.served().service_ibi}"


def _check_files(archive: ArchiveService) -> str:
    check_files(archive.config.files_folder)
    return f"{archive.config.files_folder} can be written"


def ask_own_address(archive: ArchiveService, seconds: float) -> tuple[str, HttpResponse]:
    """Ask at the Archive's own address whether it wants to be included ([R] 5.2, Example 5.4).

    :returns: the address, and the beginning of what is answered there.
    :raises TransportError: if there is no answer in time.
    """
    url = archive.addresses.service(archive.served())
    query = f"{SERVICE_SUBJECT}={INCLUSION_CONFIRMATION_REQUEST}"
    return url, fetch(url, query, seconds=seconds, limit=MAX_ANSWER, inner_hosts=None)


def confirms(answer: HttpResponse) -> bool:
    """Tell whether an answer is the one that an Archive gives."""
    return answer.text == CONFIRMATION


def _check_address(archive: ArchiveService) -> str:
    try:
        url, answer = ask_own_address(archive, TIMEOUT)
    except TransportError as error:
        raise CheckFailed(
            f"{error}; see that IBI_ARCHIVE_ADDRESS is right and the server runs"
        ) from error
    if not confirms(answer):
        raise CheckFailed(
            f"{url} answers {answer.status} {answer.text[:60]!a} instead of {CONFIRMATION!r}; "
            "another program may be at that address"
        )
    return f"{url} answers"


def _check_resolver(archive: ArchiveService) -> str:
    url = without_password(archive.config.resolver_url)
    try:
        answer = fetch(
            archive.config.resolver_url, seconds=TIMEOUT, limit=MAX_ANSWER, inner_hosts=None
        )
    except TransportError as error:
        raise CheckFailed(
            f"{error}; see that IBI_RESOLVER_URL is right and the Internet can be reached"
        ) from error
    if answer.status >= 500:
        raise CheckFailed(f"{url} answers with status {answer.status}; try again later")
    return f"{url} answers"


def _check_registration(archive: ArchiveService) -> str:
    standing = find_standing(archive)
    if not standing.ok:
        raise CheckFailed(standing.text)
    return standing.text
