"""The checkpoints of the log: they say how large the log is, and are signed.

The time of a checkpoint says that all changes that were committed before it are in the log. While a
log is behind, the checkpoint is therefore not signed again. Its readers see that it becomes older,
and ask the Archive itself.

Source: federation CL-3 and CL-4; C2SP tlog-checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from threading import Lock, Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING

from flask_ibi_archive.archive.claims.sequencer import Sequencer
from flask_ibi_archive.archive.claims.signing import SignedTree
from flask_ibi_archive.core.claims.checkpoint import Checkpoint, OpenedCheckpoint, open_checkpoint
from flask_ibi_archive.errors import IBIError, NotReady

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

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


class Checkpoints:
    """Extends the log when a checkpoint is asked for, and signs it. Thread-safe.

    :param open_log: returns what extends the log; None if no claims are published.
    """

    def __init__(self, archive: Archive, open_log: Callable[[], Sequencer | None]) -> None:
        self._archive = archive
        self._open_log = open_log
        self._lock = Lock()
        self._last: SignedCheckpoint | None = None
        self._looked_at = 0.0
        self._thread: Thread | None = None

    def read(self, now: datetime) -> SignedCheckpoint | None:
        """Return the signed checkpoint; see :meth:`.ClaimLog.checkpoint`."""
        seconds = now.timestamp()
        # a request does not wait for another one that extends the log
        if not self._lock.acquire(blocking=self._last is None):
            return self._last
        try:
            if self._last is None or not 0 <= seconds - self._looked_at <= LOOK_INTERVAL:
                self._last = self._look(seconds)
                self._looked_at = seconds
            return self._last
        finally:
            self._lock.release()

    def forget(self) -> None:
        """Forget the last checkpoint, because the key has changed."""
        self._last = None

    def _look(self, seconds: float) -> SignedCheckpoint | None:
        """Extend the log, and return the checkpoint."""
        sequencer = self._open_log()
        if sequencer is None:
            return None
        deadline = monotonic() + EXTENDING_SHARE * self._archive.config.database_timeout
        has_changes = sequencer.has_changes()
        while has_changes and monotonic() < deadline:
            _, has_changes = sequencer.run_batch()
        if not has_changes:
            return _sign(sequencer, int(seconds))
        is_running = self._thread is not None and self._thread.is_alive()
        # the catalogue of a host may need the context of the app, which a thread does not have
        if not is_running and self._archive.items.records is None:
            self._thread = Thread(
                target=_catch_up, args=(sequencer,), name="ibi-claims", daemon=True
            )
            self._thread.start()
        return _find_earlier(sequencer)


def _catch_up(sequencer: Sequencer) -> None:
    """Put many changes into the log, such as those of a large import, after a request."""
    try:
        is_more = True
        while is_more:
            begun = monotonic()
            _, is_more = sequencer.run_batch()
            sleep(monotonic() - begun)  # others want to write, too
    except IBIError as error:  # the next request goes on
        _logger.error("the log of claims is behind: %s", error)


def _sign(sequencer: Sequencer, seconds: int) -> SignedCheckpoint:
    """Return the checkpoint of the present log; sign it if its time is too long ago."""
    folder = sequencer.folder
    with sequencer.locked() as (_, log):
        tree = SignedTree(log.number, log.size, log.root)
        if folder.read_tree() != tree:
            folder.write_tree(tree)
        key = folder.require_key(log.number)
        stored = folder.open_checkpoint(key)
        # Requests may have waited for each other, and the clocks of servers differ a little. A
        # larger tree with an earlier time would make the smaller one look like a fork.
        if stored is not None and stored.seconds <= seconds + MAX_AGE:
            seconds = max(seconds, stored.seconds)
            is_new = seconds - stored.seconds < MAX_AGE
            if is_new and stored.checkpoint == Checkpoint(key.name, tree.size, tree.root):
                return _describe(stored)
        text = Checkpoint(key.name, tree.size, tree.root).sign(key, seconds)
        folder.write_checkpoint(text)
    return _describe(open_checkpoint(text, key.verifier))


def _find_earlier(sequencer: Sequencer) -> SignedCheckpoint:
    """Return the last checkpoint of a log that is behind."""
    log, folder = sequencer.read_log(), sequencer.folder
    stored = None if log is None else folder.open_checkpoint(folder.require_key(log.number))
    if stored is None:
        raise NotReady("the log of claims does not contain all items yet", "try again later")
    return _describe(stored)


def _describe(opened: OpenedCheckpoint) -> SignedCheckpoint:
    text = opened.note.format()
    return SignedCheckpoint(text, sha256(text.encode()).hexdigest()[:32], opened.checkpoint.size)
