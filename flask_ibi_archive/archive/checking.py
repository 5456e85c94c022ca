"""The checks of ``flask ibi check``: whether the Archive works and readers can reach it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.archive.readiness import check_files
from flask_ibi_archive.archive.registration.confirmation import call_own_address
from flask_ibi_archive.archive.registration.state import describe_served
from flask_ibi_archive.archive.transport import fetch, without_password
from flask_ibi_archive.errors import IBIError, RegistrationError, TransportError

#: The timeout in seconds for a whole answer.
TIMEOUT = 5
#: Bytes of an answer that are read.
MAX_ANSWER = 4096


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: its name, whether it passed, and one line of text."""

    name: str
    ok: bool
    text: str


class CheckFailed(Exception):
    """A check failed; the text says why."""


def run_check(name: str, check: Callable[[], str]) -> Finding:
    """Run a check, which returns its text, and return its finding; an error is a finding too."""
    try:
        return Finding(name, True, check())
    except (CheckFailed, IBIError) as error:
        return Finding(name, False, str(error))


def check_archive(archive: ArchiveService) -> Iterator[Finding]:
    """Check configuration, database, files, the Archive's address, the resolver, registration."""
    yield run_check("configuration", lambda: _check_configuration(archive))
    database = run_check("database", lambda: _check_database(archive))
    yield database
    yield run_check("files", lambda: _check_files(archive))
    if database.ok:
        yield run_check("address", lambda: _check_address(archive))
    else:
        yield Finding("address", False, "not tried: the Archive can't answer without its database")
    yield run_check("resolver", lambda: _check_resolver(archive))
    if database.ok:
        yield run_check("registration", lambda: _check_registration(archive))
    else:
        yield Finding("registration", False, "not known: it is stored in the database")


def _check_configuration(archive: ArchiveService) -> str:
    archive.config.check_minting()
    return f"the Archive is at {archive.config.archive_address}, and can give identifiers"


def _check_database(archive: ArchiveService) -> str:
    archive.database.check()
    return f"up to date; the service is {archive.served().service_ibi}"


def _check_files(archive: ArchiveService) -> str:
    check_files(archive.config.files_folder)
    return f"{archive.config.files_folder} can be written"


def _check_address(archive: ArchiveService) -> str:
    try:
        return f"{call_own_address(archive, TIMEOUT)} answers"
    except TransportError as error:
        advice = "see that IBI_ARCHIVE_ADDRESS is right and the server runs"
        raise CheckFailed(f"{error}; {advice}") from error
    except RegistrationError as error:
        raise CheckFailed(f"{error}; another program may be at that address") from error


def _check_resolver(archive: ArchiveService) -> str:
    resolver_url = archive.config.resolver_url
    url = without_password(resolver_url)
    try:
        answer = fetch(resolver_url, seconds=TIMEOUT, limit=MAX_ANSWER, inner_hosts=None)
    except TransportError as error:
        advice = "see that IBI_RESOLVER_URL is right and the Internet can be reached"
        raise CheckFailed(f"{error}; {advice}") from error
    if answer.status >= 500:
        raise CheckFailed(f"{url} answers with status {answer.status}; try again later")
    return f"{url} answers"


def _check_registration(archive: ArchiveService) -> str:
    description = describe_served(archive)
    if not description.ok:
        raise CheckFailed(description.text)
    return description.text
