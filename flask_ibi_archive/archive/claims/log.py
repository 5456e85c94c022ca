"""The log of claims that an Archive publishes.

The time of a checkpoint says that all changes that were committed before it are in the log. While a
log is behind, the checkpoint is therefore not signed again. Its readers see that it becomes older,
and ask the Archive itself.

Source: federation CL-3 and CL-4; C2SP tlog-tiles.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from threading import Lock, Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Connection, func, insert, select

from flask_ibi_archive.archive.claims import log_tables
from flask_ibi_archive.archive.claims.log_tables import Log
from flask_ibi_archive.archive.claims.sequencer import SHARE_FOLDER, Sequencer, find_break
from flask_ibi_archive.archive.claims.signing import KeyFolder, SignedTree
from flask_ibi_archive.archive.claims.verification import verify_log
from flask_ibi_archive.archive.items.identifiers import find_owners
from flask_ibi_archive.archive.items.tables import ClaimLogRow, ClaimNote, Item, Registration
from flask_ibi_archive.core.claims.checkpoint import Checkpoint, OpenedCheckpoint, open_checkpoint
from flask_ibi_archive.core.claims.keys import SigningKey, VerifierKey
from flask_ibi_archive.core.claims.merkle import EMPTY_ROOT
from flask_ibi_archive.core.claims.tiles import WIDTH, Tile, find_width
from flask_ibi_archive.errors import ClaimError, IBIError, NotReady, StorageError
from flask_ibi_archive.server.database.database import lock_table_setup

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

Found = TypeVar("Found")

#: A checkpoint is used for this number of seconds without a look at the database.
LOOK_INTERVAL = 1
#: A checkpoint is signed again when its time is this number of seconds ago.
MAX_AGE = 60
#: The share of the time for the database in which a request extends the log.
EXTENDING_SHARE = 0.5

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A signed checkpoint.

    :param text: the signed note.
    :param etag: a text without quotation marks that is different for each other text.
    :param size: the number of entries in the tree.
    """

    text: str
    etag: str
    size: int


@dataclass(frozen=True, slots=True)
class ClaimsStatus:
    """What an administrator may want to know about the claims.

    :param number: the number of the log, from 1. A log that had to begin anew has the next number.
    :param origin: the name of the log.
    :param begun_at: the time when the log began; None if there is no log.
    :param key: the public key in one line; None if there is no key.
    :param size: the number of entries.
    :param pending: the number of noted changes that are not in the log yet.
    :param signed_at: the time of the last checkpoint; None if there is none.
    :param folder: the folder of the private key.
    :param disabled: why no claims are to be published; None if they are.
    :param warning: what is wrong and what the administrator must do; None if nothing.
    """

    number: int
    origin: str
    begun_at: datetime | None
    key: str | None
    size: int
    pending: int
    signed_at: datetime | None
    folder: Path
    disabled: str | None
    warning: str | None


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
        self._lock = Lock()
        self._checkpoint: SignedCheckpoint | None = None
        self._looked_at = 0.0
        self._thread: Thread | None = None

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

    # --- the log for readers ---------------------------------------------------------------------

    def checkpoint(self, now: datetime) -> SignedCheckpoint | None:
        """Return the signed checkpoint; None if no claims are published.

        If the last look at the database was more than a second ago, the changes that were
        committed since then are added to the log first. If this takes long, a thread does the rest.
        The checkpoint is signed again when its time is more than a minute before ``now``.

        :raises NotReady: also if the log does not contain all items yet.
        """
        seconds = now.timestamp()
        # a request does not wait for another one that extends the log
        if not self._lock.acquire(blocking=self._checkpoint is None):
            return self._checkpoint
        try:
            if self._checkpoint is None or not 0 <= seconds - self._looked_at <= LOOK_INTERVAL:
                self._checkpoint = self._look(seconds)
                self._looked_at = seconds
            return self._checkpoint
        finally:
            self._lock.release()

    def _look(self, seconds: float) -> SignedCheckpoint | None:
        """Extend the log, and return the checkpoint; see :meth:`checkpoint`."""
        if not self._is_published():
            return None
        deadline = monotonic() + EXTENDING_SHARE * self._archive.config.database_timeout
        has_changes = self._has_changes()
        while has_changes and monotonic() < deadline:
            _, has_changes = self._sequencer.run_batch()
        if not has_changes:
            return self._sign(int(seconds))
        is_running = self._thread is not None and self._thread.is_alive()
        # the catalogue of a host may need the context of the app, which a thread does not have
        if not is_running and self._archive.items.records is None:
            self._thread = Thread(target=self._catch_up, name="ibi-claims", daemon=True)
            self._thread.start()
        return self._find_earlier()

    def _catch_up(self) -> None:
        """Put many changes into the log, such as those of a large import, after a request."""
        is_more = True
        try:
            while is_more:
                begun = monotonic()
                _, is_more = self._sequencer.run_batch()
                sleep(monotonic() - begun)  # others want to write, too
        except IBIError as error:  # the next request goes on
            _logger.error("the log of claims is behind: %s", error)

    def _is_published(self) -> bool:
        if not self.is_enabled:
            return False
        if self._read_log() is not None:
            return self._folder.read_key(1) is not None
        # if a log was signed, the database was restored from a backup without a log
        return self._folder.read_tree() is not None and self._begin()

    def _has_changes(self) -> bool:
        """Return whether there may be something that the log does not contain yet."""
        records = self._archive.items.records
        if records is not None and records.can_list_changes:
            return True
        noted = select(ClaimNote.id).where(ClaimNote.archive_id == self._archive_id).limit(1)
        log = self._read_log()
        return (log is not None and log.covered is not None) or bool(
            self._database.read_rows(noted)
        )

    def _sign(self, seconds: int) -> SignedCheckpoint:
        """Return the checkpoint of the present log; sign it if its time is too long ago."""
        with self._sequencer.locked() as (_, log):
            tree = SignedTree(log.number, log.size, log.root)
            if self._folder.read_tree() != tree:
                self._folder.write_tree(tree)
            key = self._require_key(log)
            stored = self._open_stored(key)
            # Requests may have waited for each other, and the clocks of servers differ a little. A
            # larger tree with an earlier time would make the smaller one look like a fork.
            if stored is not None and stored.seconds <= seconds + MAX_AGE:
                seconds = max(seconds, stored.seconds)
                is_new = seconds - stored.seconds < MAX_AGE
                if is_new and stored.checkpoint == Checkpoint(key.name, tree.size, tree.root):
                    return _describe(stored)
            text = Checkpoint(key.name, tree.size, tree.root).sign(key, seconds)
            self._folder.write_checkpoint(text)
        return _describe(open_checkpoint(text, key.verifier))

    def _open_stored(self, key: SigningKey) -> OpenedCheckpoint | None:
        """Return the stored checkpoint, which another process may have signed."""
        text = self._folder.read_checkpoint()
        try:
            return None if text is None else open_checkpoint(text, key.verifier)
        except ClaimError:  # it is that of an earlier key
            return None

    def _find_earlier(self) -> SignedCheckpoint:
        """Return the last checkpoint of a log that is behind."""
        log = self._read_log()
        stored = None if log is None else self._open_stored(self._require_key(log))
        if stored is None:
            raise NotReady("the log of claims does not contain all items yet", "try again later")
        return _describe(stored)

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

    def read_hash(self, level: int, index: int) -> bytes:
        """Return the hash of a full subtree, for proofs; see :data:`.merkle.ReadHash`.

        The log must contain the subtree.
        """
        found = self._read(
            lambda connection, log: log_tables.open_hashes(connection, log)(level, index)
        )
        assert found is not None
        return found

    def find_last_claim(self, ibi: str) -> tuple[int, bytes] | None:
        """Return the position and the entry of the last claim of an item; None if it has none.

        :param ibi: an identifier of the item in canonical case.
        """

        def find(connection: Connection, log: Log) -> tuple[int, bytes] | None:
            key = self._find_key(connection, ibi)
            return log_tables.find_last_claims(connection, log, [key]).get(key)

        return self._read(find)

    def _find_key(self, connection: Connection, ibi: str) -> str:
        """Return the identifier with which the claims of an item are stored."""
        item_id, _ = find_owners(connection, self._archive_id, [ibi]).get(ibi, (None, ""))
        if item_id is not None:
            forms = select(func.coalesce(Item.ibip, Item.rep)).where(Item.id == item_id)
            return str(connection.execute(forms).scalar_one())
        records = self._archive.items.records
        record = None if records is None else records.find_record(ibi)
        return ibi if record is None else record.ibip or record.rep or ibi

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
        return self._database.read(
            lambda connection: log_tables.find_log(connection, self._archive_id)
        )

    def _require_key(self, log: Log) -> SigningKey:
        key = self._folder.read_key(log.number)
        if key is None:
            raise NotReady(
                "the private key of the claims is missing",
                "restore it, or make a new one: flask ibi init",
                str(self._folder.folder),
            )
        return key

    # --- for the administrator -------------------------------------------------------------------

    def verifier(self) -> VerifierKey | None:
        """Return the public key; None if no claims are published."""
        if not self._is_published():
            return None
        log = self._read_log()
        return None if log is None else self._require_key(log).verifier

    def status(self) -> ClaimsStatus:
        """Return the state of the log. Nothing is written.

        The number of an Archive without a log is 0.
        """
        folder = self._folder
        log = self._read_log()
        key = folder.read_key(log.number if log else 1)
        stored = None if key is None else self._open_stored(key)
        noted = select(func.count()).where(ClaimNote.archive_id == self._archive_id)
        [[pending]] = self._database.read_rows(noted)
        return ClaimsStatus(
            log.number if log else 0,
            folder.name_origin(log.number if log else 1),
            log.begun_at if log else None,
            None if key is None else key.verifier.format(),
            log.size if log else 0,
            pending,
            None if stored is None else datetime.fromtimestamp(stored.seconds, timezone.utc),
            folder.folder,
            self._find_hindrance(),
            self._find_warning(log, key),
        )

    def _find_warning(self, log: Log | None, key: SigningKey | None) -> str | None:
        if not self.is_enabled:
            return None
        if log is None or key is None:
            return "no claims are published; run: flask ibi init"
        with self._database.reading() as connection:
            signed = self._folder.read_tree()
            reason = find_break(connection, log, signed)
            if signed is not None and signed.number < log.number:
                return f"{reason}; {SHARE_FOLDER}"
            if reason is not None:
                return (
                    f"{reason}; at the next request for the claims, a new log begins. Then "
                    "register the Archive again: flask ibi register-archive"
                )
            # the resolver reads the key when it confirms the inclusion
            confirmed_at = connection.scalar(
                select(Registration.confirmed_at).where(Registration.archive_id == log.archive_id)
            )
        if confirmed_at is not None and confirmed_at < log.key_at:
            return (
                "the resolver does not know the present key of the claims; register the Archive "
                "again: flask ibi register-archive"
            )
        return None

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
            new = Log(self._archive_id, number, 0, "", now, now, covered=-1, changes=None)
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
            self._checkpoint = None
            return self._require_key(log).verifier

    def sequence(self) -> int:
        """Add all committed changes to the log, however long it takes.

        :returns: the number of new claims.
        """
        added, is_more = 0, True
        while is_more:
            count, is_more = self._sequencer.run_batch()
            added += count
        self._looked_at = 0.0  # the next checkpoint contains the new claims
        return added

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


def _describe(opened: OpenedCheckpoint) -> SignedCheckpoint:
    text = opened.note.format()
    return SignedCheckpoint(text, sha256(text.encode()).hexdigest()[:32], opened.checkpoint.size)
