"""Request inclusion when a server starts, if the setting IBI_REGISTER_ON_START is true.

According to the standard, an Archive sends this request when it is "switched on" ([R] 5.2).

A server has several processes, which may start and end at any time. Only the first process sends
the request. Two lock files show which process is the first:

1. Each new process locks the *election* file for a moment.
2. During this moment the process tries to get an exclusive lock on the *alive* file. A process that
   gets this lock is the first process.
3. Then each process holds a shared lock on the *alive* file until the process ends. A forked child
   process inherits this lock.

Therefore a new first process can appear only after all processes of the server have ended. The
library filelock is not used, because forked children must inherit the lock.
"""

from __future__ import annotations

import hashlib
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from flask_ibi_archive.archive.joining.registrar import Registrar, backoff, build_request
from flask_ibi_archive.archive.joining.registration_state import INCLUDE, call_own_address
from flask_ibi_archive.core.protocol.inclusion import INCLUSION_REQUEST, format_registration_status
from flask_ibi_archive.errors import IBIError, RegistrationError, TransportError
from flask_ibi_archive.server.config import ArchiveConfig

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

try:
    import fcntl
except ImportError:  # on Windows, every process counts as the first process
    fcntl = None  # type: ignore[assignment]

#: The timeout in seconds for one answer from the Archive's own address.
OWN_TIMEOUT = 5
#: The first and the longest delay in seconds between two calls to the Archive's own address.
FIRST_OWN_DELAY, LONGEST_OWN_DELAY = 0.1, 2.0

#: The alive files that this process has locked. These files stay open until the process ends.
_alive_files: list[int] = []


def register_on_start(archive: Archive, folder: Path, logger: logging.Logger) -> bool:
    """Start a thread that requests inclusion, if this is the first process of the server.

    :param folder: the instance folder of the app. The lock files are created in this folder.
    :returns: whether this is the first process.
    """
    try:
        first = is_first(folder, lock_name(archive.config))
    except OSError as error:
        logger.warning(
            "the Archive is not included on start: lock files cannot be created in %s (%s); %s",
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
    """Return the name of the lock files of an Archive. Different Archives have different names."""
    archive = f"{config.archive_address.lower()} {config.archive_service_ibi}"
    return f"ibi_archive_{hashlib.sha256(archive.encode()).hexdigest()[:12]}"


def is_first(folder: Path, name: str) -> bool:
    """Lock the alive file, and return whether this is the first process of a running server.

    :param folder: the folder of the lock files. The folder is created if it does not exist.
    :param name: the name of the lock files, without the endings.
    :raises OSError: if the lock files can't be created.
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
    """Waits until the Archive answers at its own address, and then requests its inclusion.

    In some local networks a server cannot reach its own public address, but the resolver can reach
    this address. In this case the Starter requests inclusion after IBI_REGISTRATION_DEADLINE.

    :ivar registrar: sends the request. The Starter also uses its clock and its wait function.
    """

    archive: Archive
    logger: logging.Logger
    registrar: Registrar = field(init=False)

    def __post_init__(self) -> None:
        self.registrar = Registrar(self.archive)

    def run(self) -> None:
        """Request inclusion, and log the result in one line. This method raises no exceptions."""
        try:
            # A missing setting is reported at once, before the wait.
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
        """Wait until the Archive answers at its own address, or until the deadline.

        The resolver will call the Archive back at this address.

        :raises RegistrationError: if another program still answers at the address when the
            deadline is near.
        """
        registrar = self.registrar
        deadline = registrar.clock() + self.archive.config.registration_deadline
        for delay in backoff(registrar.chance, FIRST_OWN_DELAY, LONGEST_OWN_DELAY):
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
        self.logger.info("%s; the Archive requests inclusion nevertheless", failure)
