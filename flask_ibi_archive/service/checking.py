"""Looks whether everything is as it should be for an Archive to be found by readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import requests
from urllib3.exceptions import HTTPError, TimeoutError

from flask_ibi_archive.errors import IBIError
from flask_ibi_archive.protocol.response import CONFIRMATION
from flask_ibi_archive.service.archive import ArchiveService

TIMEOUT = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one look: what was looked at, whether it is right, and a line about it."""

    name: str
    ok: bool
    text: str


def check_archive(archive: ArchiveService) -> Iterator[Finding]:
    """Look at the configuration, the database, the Archive's own address and the resolver's."""
    yield _look("configuration", lambda: _check_configuration(archive))
    database = _look("database", lambda: _check_database(archive))
    yield database
    if database.ok:
        yield _look("address", lambda: _check_address(archive))
    else:
        yield Finding("address", False, "not tried: the Archive can't answer without its database")
    yield _look("resolver", lambda: _check_resolver(archive))


class _Fault(Exception):
    """Something is not as it should be."""


def _look(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, check())
    except (_Fault, IBIError) as error:
        return Finding(name, False, str(error))


def _check_configuration(archive: ArchiveService) -> str:
    archive.config.check_minting()
    return f"the Archive is at {archive.config.archive_address}, and can give identifiers"


def _check_database(archive: ArchiveService) -> str:
    archive.database.check()
    return f"up to date; the service is {archive.served().service_ibi}"


def _check_address(archive: ArchiveService) -> str:
    url = archive.addresses.service(archive.served())
    query = "servicesubject=inclusionConfirmationRequest"
    answer = _get(f"{url}?{query}", "see that IBI_ARCHIVE_ADDRESS is right and the server runs")
    text = answer.text[:200]
    if text != CONFIRMATION:
        raise _Fault(
            f"{url} answers {answer.status_code} {text[:60]!a} instead of {CONFIRMATION!r}; "
            "another program may be at that address"
        )
    return f"{url} answers"


def _check_resolver(archive: ArchiveService) -> str:
    url = archive.config.resolver_url
    answer = _get(url, "see that IBI_RESOLVER_URL is right and the Internet can be reached")
    if answer.status_code >= 500:
        raise _Fault(f"{url} answers with status {answer.status_code}; try again later")
    return f"{url} answers"


def _get(url: str, advice: str) -> requests.Response:
    try:
        with requests.get(url, timeout=TIMEOUT, allow_redirects=False, stream=True) as answer:
            # no more than what is looked at: it may be anything
            answer._content = answer.raw.read(4096, decode_content=True)
            return answer
    except (requests.RequestException, HTTPError) as error:
        # the second while its content is read
        late = isinstance(error, requests.Timeout | TimeoutError)
        reason = "took too long" if late else "can't be reached"
        raise _Fault(f"{url} {reason}; {advice}") from error
