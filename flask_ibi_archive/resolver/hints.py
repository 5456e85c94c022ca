"""Hints, metrics and failed URLs. A background thread writes them into the database.

A *hint* names the Archive where an IBI was last found. The resolver asks this Archive first. It
also asks the Archives where IBIs with the same *prefix* were found lately, if nobody claims an IBI
(core/resolution/asking.py). The *metrics* of an Archive are the number of answers, the number of
failures and the response times. The *failed URLs* are the persistent URLs that led readers nowhere
(failed_urls.py).
"""

from __future__ import annotations

import logging
import os
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta, timezone
from functools import partial
from threading import Event, Lock, Thread
from time import monotonic

from sqlalchemy import Connection, column, delete, select, table

from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.archive_rows import ArchiveMetrics, add_metrics
from flask_ibi_archive.resolver.claims.tables import PrefixHolder
from flask_ibi_archive.resolver.failed_urls import (
    OTHERS,
    FailedName,
    clean_name,
    delete_old_counts,
    store_counts,
)
from flask_ibi_archive.resolver.tables import Hint, RegisteredArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import insert_or_update

#: Seconds between two writes.
PAUSE = 5.0
#: The maximum number of hints that wait to be written. Additional hints are discarded.
MAX_WAITING = 10_000
#: The maximum number of failed URLs that wait. The others are counted without their identifiers.
MAX_FAILED = 1000
#: Hints that are older are deleted.
MAX_AGE = timedelta(days=90)
#: The maximum number of stored hints. The oldest hints are deleted first.
MAX_HINTS = 1_000_000
#: The maximum length of an IBI in the table. Hints for longer IBIs are not stored.
MAX_IBI = 255
#: Seconds until the first deletion of old hints, and seconds between two later deletions. The first
#: deletion is late, so that short commands end before the deletion.
FIRST_CLEANUP, CLEANUP_PAUSE = 60.0, 3600.0
#: The table of the document registry, which exists even if the registry is not enabled and loaded.
DOCUMENT = table("ibi_registry_registration", column("document_id"))

_logger = logging.getLogger(__name__)


def store_hints(connection: Connection, found: Mapping[str, int], now: datetime) -> None:
    """Store hints. A new hint replaces the earlier hint for the same IBI.

    :param found: the id of the Archive for each IBI. The IBIs are in canonical case. Hints for an
        Archive that is no longer registered are ignored.
    :param now: the date when the IBIs were found.
    """
    archive_ids = _lock_archives(connection, set(found.values()))
    rows = [
        {"ibi": ibi, "archive_id": archive_id, "found_at": now}
        for ibi, archive_id in sorted(found.items())
        if archive_id in archive_ids and len(ibi) <= MAX_IBI
    ]
    if rows:
        statement = insert_or_update(connection, Hint)
        newer = {name: statement.excluded[name] for name in ("archive_id", "found_at")}
        connection.execute(
            statement.on_conflict_do_update(index_elements=[Hint.ibi], set_=newer), rows
        )


def store_prefixes(
    connection: Connection, found: Collection[tuple[str, int]], now: datetime
) -> None:
    """Store where items with some prefixes were found.

    :param found: pairs of a prefix and the id of an Archive. Archives that are no longer registered
        are ignored.
    """
    archive_ids = _lock_archives(connection, {archive_id for _, archive_id in found})
    rows = [
        {"prefix": prefix, "archive_id": archive_id, "seen_at": now}
        for prefix, archive_id in sorted(found)
        if archive_id in archive_ids and len(prefix) <= MAX_IBI
    ]
    if rows:
        statement = insert_or_update(connection, PrefixHolder)
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=[PrefixHolder.prefix, PrefixHolder.archive_id],
                set_={"seen_at": statement.excluded.seen_at},
            ),
            rows,
        )


def _lock_archives(connection: Connection, archive_ids: Collection[int]) -> set[int]:
    """Return those of some Archives that are registered, and keep them until the commit."""
    # all writers lock the Archives in the same order, which prevents deadlocks
    return set(
        connection.scalars(
            select(RegisteredArchive.id)
            .where(RegisteredArchive.id.in_(sorted(archive_ids)))
            .order_by(RegisteredArchive.id)
            .with_for_update(read=True, key_share=True)
        )
    )


def delete_old_hints(connection: Connection, before: datetime, maximum: int = MAX_HINTS) -> int:
    """Delete old hints and surplus hints, and return the number of deleted hints.

    The hints for registered documents remain: a document that an Archive had is not resolved while
    this Archive does not answer.

    :param before: hints that were found before this date are deleted.
    :param maximum: the maximum number of hints that remain. The oldest hints are deleted first.
    """
    surplus = delete(Hint).where(Hint.ibi.not_in(select(DOCUMENT.c.document_id)))
    deleted = connection.execute(surplus.where(Hint.found_at < before)).rowcount
    oldest = (
        select(Hint.found_at)
        .order_by(Hint.found_at.desc())
        .offset(maximum)
        .limit(1)
        .scalar_subquery()
    )
    return deleted + connection.execute(surplus.where(Hint.found_at <= oldest)).rowcount


class HintWriter:
    """Collects hints, metrics and failed URLs. A background thread writes them into the database.

    The class is thread-safe. The resolution of a persistent URL does not wait for the database. The
    background thread starts when the first entry is added. If the process is killed, the entries
    that were not yet written are lost.

    :param pause: seconds between two writes.
    :param clock: returns the time in seconds.
    :param now: returns the current date.
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
        #: The prefixes that wait to be written, and those that were written lately.
        self._prefixes: set[tuple[str, int]] = set()
        self._known_prefixes: set[tuple[str, int]] = set()
        self._metrics: dict[int, ArchiveMetrics] = {}
        self._failed: Counter[FailedName] = Counter()

    def add_hint(self, ibi: str, archive_id: int) -> None:
        """Add a hint: an IBI was found in an Archive.

        :param ibi: the IBI in canonical case.
        """
        with self._lock:
            if ibi in self._hints or len(self._hints) < MAX_WAITING:
                self._hints[ibi] = archive_id
            self._start_thread()

    def add_prefix(self, prefix: str, archive_id: int) -> None:
        """Add where an IBI with a prefix was found."""
        found = prefix, archive_id
        if found in self._known_prefixes:
            return
        with self._lock:
            if len(self._known_prefixes) < MAX_WAITING:
                self._known_prefixes.add(found)
                self._prefixes.add(found)
                self._start_thread()

    def add_answer(self, archive_id: int, seconds: float) -> None:
        """Count an answer of an Archive.

        :param seconds: the response time of the Archive.
        """
        with self._lock:
            metrics = self._get_metrics(archive_id)
            metrics.answers += 1
            metrics.milliseconds += seconds * 1000

    def add_failure(self, archive_id: int, reason: str) -> None:
        """Count a failure of an Archive.

        :param reason: the reason of the failure, which continues a sentence about the Archive.
        """
        with self._lock:
            metrics = self._get_metrics(archive_id)
            metrics.failures += 1
            metrics.last_failure = reason

    def add_failed_url(self, ibi: str, reason: str) -> None:
        """Count a persistent URL that led a reader nowhere.

        :param ibi: the identifier in canonical case, or the text that was requested in its place.
        :param reason: the kind of the alert, such as "unknown".
        """
        name = FailedName(self._now().date(), clean_name(ibi), reason)
        with self._lock:
            self._count_failed(name)
            self._start_thread()

    def flush(self) -> None:
        """Write all entries.

        If the database is not available, the entries are kept and written later.
        """
        with self._lock:
            hints, self._hints = self._hints, {}
            prefixes, self._prefixes = self._prefixes, set()
            metrics, self._metrics = self._metrics, {}
            failed, self._failed = self._failed, Counter()
        if not hints and not prefixes and not metrics and not failed:
            return
        try:
            self._write(hints, prefixes, metrics, failed)
        except StorageError as error:
            _logger.warning("hints and metrics of Archives can't be stored: %s", error)
            with self._lock:
                self._prefixes |= prefixes
                for name, count in failed.items():
                    self._count_failed(name, count)
                room = max(MAX_WAITING - len(self._hints), 0)
                older = [ibi for ibi in hints if ibi not in self._hints]
                self._hints.update((ibi, hints[ibi]) for ibi in older[:room])
                for archive_id, earlier in metrics.items():
                    self._get_metrics(archive_id).add(earlier)

    def close(self, seconds: float = 2.0) -> None:
        """Stop the thread and write all entries.

        :param seconds: the maximum time to wait for the end of the thread.
        """
        self._closing.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(seconds)
        self.flush()

    def _write(
        self,
        hints: dict[str, int],
        prefixes: set[tuple[str, int]],
        metrics: dict[int, ArchiveMetrics],
        failed: Counter[FailedName],
    ) -> None:
        now = self._now()
        with self._database.writing() as connection:
            add_metrics(connection, metrics, now)
            store_hints(connection, hints, now)
            store_prefixes(connection, prefixes, now)
            store_counts(connection, failed)
            if self._clock() >= self._cleanup_at:
                self._cleanup_at = self._clock() + CLEANUP_PAUSE
                delete_old_hints(connection, now - MAX_AGE)
                delete_old_counts(connection, now.date())

    def _count_failed(self, name: FailedName, count: int = 1) -> None:
        if name not in self._failed and len(self._failed) >= MAX_FAILED:
            name = name._replace(ibi=OTHERS)
        self._failed[name] += count

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
            # the thread must continue, because no other thread writes the entries
            except Exception:
                _logger.exception("hints and metrics of Archives can't be stored")


def _reset_after_fork(reference: weakref.ref[HintWriter]) -> None:
    """Delete the entries in a forked process. The parent process writes these entries."""
    writer = reference()
    if writer is not None:
        writer._reset()
