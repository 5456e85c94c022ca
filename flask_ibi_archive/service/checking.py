"""Looks whether everything is as it should be for an Archive to be found by readers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic

import requests
from urllib3.exceptions import HTTPError, TimeoutError

from flask_ibi_archive.errors import IBIError
from flask_ibi_archive.protocol.response import CONFIRMATION
from flask_ibi_archive.service.archive import ArchiveService

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
    """Look at configuration, database, folder of files, the Archive's own address and the resolver's."""
    yield _look("configuration", lambda: _check_configuration(archive))
    database = _look("database", lambda: _check_database(archive))
    yield database
    yield _look("files", lambda: _check_files(archive))
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


def _check_files(archive: ArchiveService) -> str:
    folder = archive.config.files_folder.absolute()
    place = folder
    while not os.path.lexists(place):  # it is made when there is a file to keep
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"?")
    except OSError as error:
        raise _Fault(
            f"{folder} can't be {'written' if place == folder else 'made'}: "
            f"{error.strerror or error}; see that IBI_FILES_FOLDER names a folder that can"
        ) from error
    return f"{folder} can be {'written' if place == folder else 'made'}"


def _check_address(archive: ArchiveService) -> str:
    url = archive.addresses.service(archive.served())
    query = "servicesubject=inclusionConfirmationRequest"
    answer = _get(f"{url}?{query}", "see that IBI_ARCHIVE_ADDRESS is right and the server runs")
    if answer.text != CONFIRMATION:
        raise _Fault(
            f"{url} answers {answer.status} {answer.text[:60]!a} instead of {CONFIRMATION!r}; "
            "another program may be at that address"
        )
    return f"{url} answers"


def _check_resolver(archive: ArchiveService) -> str:
    url = archive.config.resolver_url
    answer = _get(url, "see that IBI_RESOLVER_URL is right and the Internet can be reached")
    if answer.status >= 500:
        raise _Fault(f"{url} answers with status {answer.status}; try again later")
    return f"{url} answers"


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    text: str


def _get(url: str, advice: str) -> _Answer:
    """Give the beginning of an answer, if it comes in time.

    It is waited for in a thread that may be left behind: the timeout of requests is for each read alone, and
    a server that sends a byte now and then, be it of a header, never reaches it.
    """
    came: SimpleQueue[_Answer | Exception] = SimpleQueue()
    Thread(target=_fetch, args=(url, came), daemon=True).start()
    try:
        answer = came.get(timeout=TIMEOUT)
    except Empty:
        answer = requests.Timeout()
    if isinstance(answer, _Answer):
        return answer
    if not isinstance(answer, requests.RequestException | HTTPError):
        raise answer
    # requests makes a connection error of a timeout while content is read
    late = any(
        isinstance(error, requests.Timeout | TimeoutError) for error in (answer, answer.__context__)
    )
    reason = "took too long" if late else "can't be reached"
    raise _Fault(f"{url} {reason}; {advice}") from answer


def _fetch(url: str, came: SimpleQueue[_Answer | Exception]) -> None:
    end = monotonic() + TIMEOUT
    try:
        with requests.get(url, timeout=TIMEOUT, allow_redirects=False, stream=True) as answer:
            content = b""
            for byte in answer.iter_content(1):  # more would be waited for
                content += byte
                if len(content) >= MAX_ANSWER:  # no more than what is looked at: it may be anything
                    break
                if monotonic() > end:
                    raise requests.Timeout
        came.put(_Answer(answer.status_code, content.decode(errors="replace")))
    except Exception as error:  # noqa: BLE001 - raised in the other thread
        came.put(error)
