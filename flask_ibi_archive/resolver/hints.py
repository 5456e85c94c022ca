"""Hints and metrics, which a background thread writes into the database.

A *hint* records in which Archive an IBI was last found; the resolver asks this Archive first. The
*metrics* of an Archive are the numbers of its answers and failures.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from functools import partial
from threading import Event, Lock, Thread
from time import monotonic

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.archive_rows import ArchiveMetrics, add_metrics
from flask_ibi_archive.resolver.tables import Hint, RegisteredArchive
from flask_ibi_archive.storage.database import Database

#: Seconds between two writes.
PAUSE = 5.0
#: Maximum number of hints that wait to be written; further ones are discarded.
MAX_WAITING = 10_000
#: How long a hint is stored.
MAX_AGE = timedelta(days=90)
#: Maximum number of hints that are stored; the oldest are deleted first.
MAX_HINTS = 1_000_000
#: Maximum length of an IBI in the table; hints for longer ones are not stored.
MAX_IBI = 255
#: Seconds until old hints are deleted for the first time, and between two deletions. Short commands
#: end before the first deletion.
FIRST_CLEANUP, CLEANUP_PAUSE = 60.0, 3600.0

_logger = logging.getLogger(__name__)


def store_hints(connection: Connection, found: Mapping[str, int], now: datetime) -> None:
    """Store where IBIs were found, replacing their earlier hints.

    :param found: the id of the Archive for each IBI in canonical case. Hints for an Archive that is
        no longer registered are ignored.
    """
    # lock the Archives first and always in the same order: no deadlocks between writers
    archive_ids = set(
        connection.scalars(
            select(RegisteredArchive.id)
            .where(RegisteredArchive.id.in_(sorted(set(found.values()))))
            .order_by(RegisteredArchive.id)
            .with_for_update(read=True, key_share=True)
        )
    )
    rows = [
        {"ibi": ibi, "archive_id": archive_id, "found_at": now}
        for ibi, archive_id in sorted(found.items())
        if archive_id in archive_ids and len(ibi) <= MAX_IBI
    ]
    if rows:
        dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
        statement = dialect.insert(Hint)
        newer = {name: statement.excluded[name] for name in ("archive_id", "found_at")}
        connection.execute(
            statement.on_conflict_do_update(index_elements=[Hint.ibi], set_=newer), rows
        )


def delete_old_hints(connection: Connection, before: datetime, most: int = MAX_HINTS) -> int:
    """Delete old hints and those that exceed the maximum number; return how many were deleted.

    :param before: hints found before this date are deleted.
    :param most: the maximum number of hints that remain; the newest are preserved.
    """
    deleted = connection.execute(delete(Hint).where(Hint.found_at < before)).rowcount
    oldest = (
        select(Hint.found_at).order_by(Hint.found_at.desc()).offset(most).limit(1).scalar_subquery()
    )
    return deleted + connection.execute(delete(Hint).where(Hint.found_at <= oldest)).rowcount


class HintWriter:
    """Collects hints and metrics, and writes them in a background thread. Thread-safe.

    The resolution of a persistent URL does not wait for these writes. The thread starts with the
    first entry. A process that is killed loses only the entries of the last seconds.

    :param pause: seconds between two writes.
    :param clock: returns the time in seconds.
    :param now: returns the date.
    """

    def __init__(
        self,
        database: Database,
        pause: float = PAUSE,
        clock: Callable[[], float] = monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self._database = database
        self._pause = pause
        self._clock = clock
        self._now = now
        self._cleanup_at = clock() + FIRST_CLEANUP
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_reset_after_fork, weakref.ref(self)))

    def _reset(self) -> None:
        self._lock = Lock()
        self._closing = Event()
        self._thread: Thread | None = None
        self._hints: dict[str, int] = {}
        self._metrics: dict[int, ArchiveMetrics] = {}

    def add_hint(self, ibi: str, archive_id: int) -> None:
        """Record in which Archive an IBI, in canonical case, was found."""
        with self._lock:
            if ibi in self._hints or len(self._hints) < MAX_WAITING:
                self._hints[ibi] = archive_id
            self._start_thread()

    def add_answer(self, archive_id: int, seconds: float) -> None:
        """Count an answer of an Archive."""
        with self._lock:
            metrics = self._get_metrics(archive_id)
            metrics.answers += 1
            metrics.milliseconds += seconds * 1000

    def add_failure(self, archive_id: int, reason: str) -> None:
        """Count a failure of an Archive."""
        with self._lock:
            metrics = self._get_metrics(archive_id)
            metrics.failures += 1
            metrics.last_failure = reason

    def flush(self) -> None:
        """Write all entries; if the database is not available, keep them for the next time."""
        with self._lock:
            hints, self._hints = self._hints, {}
            metrics, self._metrics = self._metrics, {}
        if not hints and not metrics:
            return
        try:
            self._write(hints, metrics)
        except StorageError as error:
            _logger.warning("hints and metrics of Archives can't be stored: %s", error)
            with self._lock:
                room = max(MAX_WAITING - len(self._hints), 0)
                older = [ibi for ibi in hints if ibi not in self._hints]
                self._hints.update((ibi, hints[ibi]) for ibi in older[:room])
                for archive_id, one in metrics.items():
                    self._get_metrics(archive_id).add(one)

    def close(self, seconds: float = 2.0) -> None:
        """Stop the thread and write all entries.

        :param seconds: how long to wait for the thread.
        """
        self._closing.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(seconds)
        self.flush()

    def _write(self, hints: dict[str, int], metrics: dict[int, ArchiveMetrics]) -> None:
        now = self._now()
        with self._database.writing() as connection:
            add_metrics(connection, metrics, now)
            store_hints(connection, hints, now)
            if self._clock() >= self._cleanup_at:
                self._cleanup_at = self._clock() + CLEANUP_PAUSE
                delete_old_hints(connection, now - MAX_AGE)

    def _get_metrics(self, archive_id: int) -> ArchiveMetrics:
        metrics = self._metrics.get(archive_id)
        if metrics is None:
            metrics = self._metrics[archive_id] = ArchiveMetrics()
            self._start_thread()
        return metrics

    def _start_thread(self) -> None:
        if self._thread is None and not self._closing.is_set():
            self._thread = Thread(target=self._run, name="ibi-resolver-hint-writer", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._closing.wait(self._pause):
            try:
                self.flush()
            except Exception:  # the thread must continue, because no other thread writes
                _logger.exception("hints and metrics of Archives can't be stored")


def _reset_after_fork(reference: weakref.ref[HintWriter]) -> None:
    """Clear the entries in a forked process, because the parent process writes them."""
    writer = reference()
    if writer is not None:
        writer._reset()
