"""IBI_REGISTER_ON_START: the Archive is included once per start of its server ([R] 5.2, "switched
on").
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.archive.checking import ask_own_address, confirms
from flask_ibi_archive.archive.registration.election import is_first
from flask_ibi_archive.archive.registration.registrar import Registrar, backoff, build_request
from flask_ibi_archive.config import ArchiveConfig
from flask_ibi_archive.errors import IBIError, RegistrationError, TransportError
from flask_ibi_archive.protocol.inclusion import (
    CONFIRMATION,
    INCLUSION_REQUEST,
    format_registration_status,
)

#: Seconds for one answer of the Archive itself.
OWN_TIMEOUT = 5
#: Seconds that are waited before it is asked again, at first and at most.
FIRST_DELAY, LONGEST_DELAY = 0.1, 2.0
ADVICE = "run: flask ibi register-archive"


def lock_name(config: ArchiveConfig) -> str:
    """Return a name for the lock files of an Archive: others may have the same folder."""
    which = f"{config.archive_address.lower()} {config.archive_service_ibi}"
    return f"ibi_archive_{hashlib.sha256(which.encode()).hexdigest()[:12]}"


def register_on_start(archive: ArchiveService, folder: Path, logger: logging.Logger) -> bool:
    """Include the Archive, in a thread, if this is the first process of its server.

    :param folder: the app's instance folder.
    :returns: whether it is.
    """
    try:
        first = is_first(folder, lock_name(archive.config))
    except OSError as error:
        logger.warning(
            "the Archive is not included on start: no lock file can be kept in %s (%s); %s",
            folder,
            error.strerror,
            ADVICE,
        )
        return False
    if first:
        Thread(target=Starter(archive, logger).run, name="ibi-register", daemon=True).start()
    return first


@dataclass
class Starter:
    """Waits until the Archive answers at its own address, then includes it.

    A server behind a router may not reach its own address, though the resolver does: then the
    resolver is asked all the same, when the time is over.

    :param registrar: what asks the resolver; its clock and wait are used here as well.
    """

    archive: ArchiveService
    logger: logging.Logger
    registrar: Registrar = field(init=False)

    def __post_init__(self) -> None:
        self.registrar = Registrar(self.archive)

    def run(self) -> None:
        """Include the Archive, and log what came of it in one line; nothing is raised."""
        try:
            build_request(self.archive, INCLUSION_REQUEST)  # what is missing is told at once
            self._wait_until_it_answers()
            status = self.registrar.include().status
            said = format_registration_status(status)
            if status.confirmed:
                self.logger.info("the Archive is included on start: %s", said)
            else:
                self.logger.warning("the Archive is included on start, but not confirmed: %s", said)
        except IBIError as error:
            self.logger.warning("the Archive is not included on start: %s", error)
        except Exception as error:  # noqa: BLE001 - a thread; a traceback could show the key
            self.logger.error("the Archive is not included on start: %s", type(error).__name__)

    def _wait_until_it_answers(self) -> None:
        """Come back when the server is up: the resolver will ask it before it answers.

        :raises RegistrationError: if something else answers at its address until
            IBI_REGISTRATION_DEADLINE.
        """
        registrar = self.registrar
        end = registrar.clock() + self.archive.config.registration_deadline
        for delay in backoff(registrar.chance, FIRST_DELAY, LONGEST_DELAY):
            left = end - registrar.clock()
            refusal: RegistrationError | None = None
            try:
                url, answer = ask_own_address(self.archive, min(left, OWN_TIMEOUT))
            except TransportError as error:
                said = str(error)
            else:
                if confirms(answer):
                    return
                said = f"{url} answers {answer.status} {answer.text[:60]!a}"
                refusal = RegistrationError(f"{said} instead of {CONFIRMATION!r}; {ADVICE}")
            if registrar.clock() + delay < end:
                registrar.wait(delay)
            elif refusal is not None:
                raise refusal
            else:
                self.logger.info("%s; the resolver is asked to include the Archive anyway", said)
                return
