"""IBI_REGISTER_ON_START: one process of a server includes the Archive when the server starts.

This is the moment when an Archive is "switched on" ([R] 5.2).

A server has many processes, which start at any time and are replaced. Two lock files elect the
first one. While it holds the *election* lock, for a moment, each process tries to get an exclusive
lock on the *alive* file. The process that gets it is the first; then all of them hold a shared lock
as long as they run (a forked child inherits the lock of its parent). So the next first process is
elected only when no process is left.
"""

from __future__ import annotations

import hashlib
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.archive.registration.confirmation import call_own_address
from flask_ibi_archive.archive.registration.inclusion import Registrar, backoff, build_request
from flask_ibi_archive.archive.registration.state import INCLUDE
from flask_ibi_archive.config import ArchiveConfig
from flask_ibi_archive.errors import IBIError, RegistrationError, TransportError
from flask_ibi_archive.protocol.inclusion import INCLUSION_REQUEST, format_registration_status

try:
    import fcntl
except ImportError:  # Windows: every process is the first
    fcntl = None  # type: ignore[assignment]

#: The timeout in seconds for one answer of the Archive itself.
OWN_TIMEOUT = 5
#: Seconds before the next call to the Archive's own address, at first and at most.
FIRST_DELAY, LONGEST_DELAY = 0.1, 2.0

#: The alive files that this process has locked, open until it ends.
_alive_files: list[int] = []


def register_on_start(archive: ArchiveService, folder: Path, logger: logging.Logger) -> bool:
    """Start a thread that includes the Archive, if this is the first process of its server.

    :param folder: the instance folder of the app, for the lock files.
    :returns: whether it is the first process.
    """
    try:
        first = is_first(folder, lock_name(archive.config))
    except OSError as error:
        logger.warning(
            "the Archive is not included on start: no lock file can be created in %s (%s); %s",
            folder,
            error.strerror,
            INCLUDE,
        )
        return False
    if first:
        Thread(target=Starter(archive, logger).run, name="ibi-register", daemon=True).start()
    return first


# --- election ------------------------------------------------------------------------------------


def lock_name(config: ArchiveConfig) -> str:
    """Return the name of an Archive's lock files: several Archives may use the same folder."""
    archive = f"{config.archive_address.lower()} {config.archive_service_ibi}"
    return f"ibi_archive_{hashlib.sha256(archive.encode()).hexdigest()[:12]}"


def is_first(folder: Path, name: str) -> bool:
    """Return whether this is the first process of a running server, and lock its alive file.

    :param folder: of the lock files; created if it does not exist.
    :param name: the beginning of their names.
    :raises OSError: if they can't be created.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        return True
    election = os.open(folder / f"{name}.election", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        alive = os.open(folder / f"{name}.alive", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(election, fcntl.LOCK_EX)
            try:
                fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                first = False
            else:
                first = True
            fcntl.flock(alive, fcntl.LOCK_SH)
        except OSError:
            os.close(alive)
            raise
        _alive_files.append(alive)
        return first
    finally:
        os.close(election)  # releases its lock


# --- inclusion -----------------------------------------------------------------------------------


@dataclass
class Starter:
    """Waits until the Archive answers at its own address, then includes it.

    A server inside a local network may not reach its own public address although the resolver does.
    Then the Archive is included anyway, after IBI_REGISTRATION_DEADLINE.

    :param registrar: sends the request; its clock and wait are used here as well.
    """

    archive: ArchiveService
    logger: logging.Logger
    registrar: Registrar = field(init=False)

    def __post_init__(self) -> None:
        self.registrar = Registrar(self.archive)

    def run(self) -> None:
        """Include the Archive and log the result in one line; never raise."""
        try:
            # reports a missing setting before anything else
            build_request(self.archive, INCLUSION_REQUEST)
            self._wait_for_own_address()
            status = self.registrar.include().status
            text = format_registration_status(status)
            if status.confirmed:
                self.logger.info("the Archive is included on start: %s", text)
            else:
                self.logger.warning("the Archive is included on start, but not confirmed: %s", text)
        except IBIError as error:
            self.logger.warning("the Archive is not included on start: %s", error)
        except Exception as error:  # noqa: BLE001 - a traceback could contain the key
            self.logger.error("the Archive is not included on start: %s", type(error).__name__)

    def _wait_for_own_address(self) -> None:
        """Wait until the server is up: the resolver calls the Archive back before it answers.

        :raises RegistrationError: if something else still answers at the address at the deadline.
        """
        registrar = self.registrar
        deadline = registrar.clock() + self.archive.config.registration_deadline
        for delay in backoff(registrar.chance, FIRST_DELAY, LONGEST_DELAY):
            failure: TransportError | RegistrationError
            try:
                call_own_address(self.archive, min(deadline - registrar.clock(), OWN_TIMEOUT))
                return
            except (TransportError, RegistrationError) as error:
                failure = error
            if registrar.clock() + delay >= deadline:
                break
            registrar.wait(delay)
        if isinstance(failure, RegistrationError):
            raise RegistrationError(f"{failure}; {INCLUDE}")
        self.logger.info("%s; inclusion is requested anyway", failure)
