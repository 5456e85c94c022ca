"""The log of claims that an Archive publishes, for its readers and for the administrator.

Checkpoints are signed in checkpoints.py. The changes of items become claims in sequencer.py.

Source: federation CL-3 and CL-4; C2SP tlog-tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Connection, insert

from flask_ibi_archive.archive.claims import log_tables
from flask_ibi_archive.archive.claims.checkpoints import Checkpoints, SignedCheckpoint
from flask_ibi_archive.archive.claims.log_status import ClaimsStatus, find_status
from flask_ibi_archive.archive.claims.log_tables import WAITING, ClaimLogRow, Log
from flask_ibi_archive.archive.claims.sequencer import Sequencer
from flask_ibi_archive.archive.claims.signing import KeyFolder, SignedTree
from flask_ibi_archive.archive.claims.verification import verify_log
from flask_ibi_archive.core.claims.keys import VerifierKey
from flask_ibi_archive.core.claims.merkle import EMPTY_ROOT
from flask_ibi_archive.core.claims.tiles import WIDTH, Tile, find_width
from flask_ibi_archive.errors import IBIError, StorageError
from flask_ibi_archive.server.database.database import lock_table_setup

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

Found = TypeVar("Found")


class ClaimLog:
    """The log of the claims of an Archive. An object can be used by several threads.

    The setting IBI_CLAIMS can be false, the catalogue of a host may not list its changes, and an
    Archive has no key before ``flask ibi init``. Then no claims are published, and the methods that
    read the log return None.

    All methods raise NotReady if the database does not respond, or if the folder of the key can't
    be used.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._database = archive.database
        self._checkpoints = Checkpoints(archive, self._open)

    @cached_property
    def _folder(self) -> KeyFolder:
        config = self._archive.config
        return KeyFolder(
            config.claims_folder, config.claims_key, self._archive.served().service_ibi
        )

    @cached_property
    def _sequencer(self) -> Sequencer:
        return Sequencer(self._archive, self._folder)

    @property
    def is_enabled(self) -> bool:
        """Whether claims are to be published: all items must be claimed, or none."""
        return self._find_hindrance() is None

    def _find_hindrance(self) -> str | None:
        """Return why no claims are to be published; None if they are."""
        if not self._archive.config.claims:
            return "IBI_CLAIMS is false"
        records = self._archive.items.records
        if records is not None and not records.can_list_changes:
            return "the catalogue of the host has no method changes()"
        return None

    def _is_published(self) -> bool:
        if not self.is_enabled:
            return False
        if self._read_log() is not None:
            return self._folder.read_key(1) is not None
        # if a log was signed, the database was restored from a backup without a log
        return self._folder.read_tree() is not None and self._begin()

    def _open(self) -> Sequencer | None:
        """Return what extends the log; None if no claims are published."""
        if not self.is_enabled:
            with suppress(IBIError):  # the next request tries it again
                self.pause()
        return self._sequencer if self._is_published() else None

    # --- the log for readers ---------------------------------------------------------------------

    def checkpoint(self, now: datetime) -> SignedCheckpoint | None:
        """Return the signed checkpoint; None if no claims are published.

        If the last look at the database was more than a second ago, the changes that were
        committed since then are added to the log first. If this takes long, a thread does the rest.
        The checkpoint is signed again when its time is more than a minute before ``now``.

        :raises NotReady: also if the log does not contain all items yet.
        """
        return self._checkpoints.read(now)

    def read_tile(self, level: int, number: int, width: int) -> bytes | None:
        """Return the content of a tile; None if the log is too short for it.

        :param width: the number of hashes, from 1 to 256.
        """
        tile = Tile(level, number, width)
        return self._read(lambda connection, log: log_tables.read_tile(connection, log, tile))

    def read_entries(self, number: int, width: int) -> list[bytes] | None:
        """Return the entries of a bundle; None if the log is too short for it.

        :param width: the number of entries, from 1 to 256.
        """

        def read(connection: Connection, log: Log) -> list[bytes] | None:
            if not 0 < width <= find_width(None, number, log.size):
                return None
            start = number * WIDTH
            return log_tables.read_entries(connection, log, start, start + width)

        return self._read(read)

    def _read(self, read: Callable[[Connection, Log], Found | None]) -> Found | None:
        """Return what a function reads from the log; None if there is no log."""

        def find(connection: Connection) -> Found | None:
            log = log_tables.find_log(connection, self._archive_id)
            return None if log is None else read(connection, log)

        return self._database.read(find) if self.is_enabled else None

    @property
    def _archive_id(self) -> int:
        return self._archive.served().id

    def _read_log(self) -> Log | None:
        return self._sequencer.read_log()

    # --- for the administrator -------------------------------------------------------------------

    def verifier(self) -> VerifierKey | None:
        """Return the public key; None if no claims are published."""
        if not self._is_published():
            return None
        log = self._read_log()
        return None if log is None else self._folder.require_key(log.number).verifier

    def status(self) -> ClaimsStatus:
        """Return the state of the log. Nothing is written.

        The number of an Archive without a log is 0.
        """
        sequencer, disabled = self._sequencer, self._find_hindrance()
        return self._database.read(lambda connection: find_status(connection, sequencer, disabled))

    def pause(self) -> None:
        """Note no changes as long as no claims are to be published.

        When they are published again, what has changed meanwhile is claimed.
        """
        self._sequencer.pause()

    def create_key(self) -> bool:
        """Create the key, and begin the log with all items, unless both are there.

        :returns: whether something was created.
        """
        is_created = self._begin()
        if is_created:
            with self._sequencer.locked():  # a resolver must not read a key that is replaced again
                pass
        while (log := self._read_log()) is not None and log.covered is not None:
            self._sequencer.run_batch()
        return is_created

    def _begin(self) -> bool:
        """Create the key and an empty log, unless both are there; see :meth:`create_key`."""
        now = self._archive.clock()
        with self._database.writing() as connection:
            lock_table_setup(connection)
            log = log_tables.find_log(connection, self._archive_id, lock=True)
            tree = self._folder.read_tree()
            has_key = self._folder.read_key(1) is not None
            if log is not None and has_key:
                return False
            # a key that has signed a log signs no other one
            if not has_key or tree is not None:
                self._folder.replace_key()
            if log is not None:
                if tree is None and log.size == 0:
                    self._folder.write_tree(SignedTree(log.number, 0, EMPTY_ROOT))
                log_tables.update_log(connection, log._replace(key_at=now))
                return True
            number = 1 if tree is None else tree.number + 1
            self._folder.write_tree(SignedTree(number, 0, EMPTY_ROOT))
            new = Log(self._archive_id, number, 0, "", now, now, WAITING, changes=None)
            connection.execute(insert(ClaimLogRow).values(**new._asdict()))
        return True

    def rotate(self, new_log: bool = False) -> VerifierKey:
        """Replace the key of the log. The resolvers must be told with ``register-archive``.

        :param new_log: whether to begin a new log with the new key. A fork can't be continued.
        :returns: the new public key.
        :raises StorageError: if the key is in the setting IBI_CLAIMS_KEY. A new log has another key
            also in this case.
        """
        if new_log:
            self._folder.forget_tree()  # a new log begins if it is unknown what was signed last
        elif self._folder.is_key_set:
            raise StorageError(
                "the key is in the setting IBI_CLAIMS_KEY; change it there, and then run: flask "
                "ibi register-archive"
            )
        with self._sequencer.locked() as (connection, log):
            self._folder.replace_key()
            log_tables.update_log(connection, log._replace(key_at=self._archive.clock()))
            self._checkpoints.forget()
            return self._folder.require_key(log.number).verifier

    def verify(self, progress: Callable[[int, int], None] = lambda done, total: None) -> list[str]:
        """Compute the whole tree from the entries, and compare it with all that is stored.

        Compared are the stored hashes, the size, the file with the last signed root, and the last
        claims with the current items.

        :param progress: called with the number of entries that were read and the number of all.
        :returns: the errors, each in one sentence.
        """
        with self._database.snapshot() as connection:
            log = log_tables.find_log(connection, self._archive_id)
            if log is None:
                return []
            return verify_log(connection, log, self._folder.read_tree(), progress)
