"""The follower: reads the logs of the included Archives, and stores what they claim.

Each log is read every 60 s. One process follows at a time: it holds a
lease in the database. A transaction stores the new bindings together with the new position of the
log, and only if the position is still the one from which the log was read. Therefore a process that
is killed, or that lost its lease without noticing, can't store anything twice or leave anything
out. Source: federation CL-5, CL-7.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from threading import Event, Thread
from time import monotonic
from typing import TypeAlias

from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.errors import NotReady, StorageError
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.old_claims import followed_logs
from flask_ibi_archive.resolver.old_claims.followed_logs import INTERVAL, DueLog
from flask_ibi_archive.resolver.old_claims.index import ClaimIndex
from flask_ibi_archive.resolver.old_claims.kept_logs import KeptLogs
from flask_ibi_archive.resolver.old_claims.log_reader import Reading, read_log
from flask_ibi_archive.resolver.old_claims.log_requests import LogRequests
from flask_ibi_archive.resolver.old_claims.reading_store import ReadingStore
from flask_ibi_archive.resolver.old_claims.replaced_logs import ReplacedLogs
from flask_ibi_archive.resolver.old_claims.tables import FORKED, FULL
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.signals import NOBODY, Notifier

#: The seconds between two searches for logs that are due, at most.
PAUSE = 1.0
#: The maximum number of logs that are being read or wait for it.
MAX_LOGS = 1000
#: The size of the entries that are stored together. Others must not wait for long meanwhile.
MAX_BYTES = 1 << 20
#: The time after which the lease and the time of :class:`.tables.ResolverState` are renewed.
RENEWAL = timedelta(seconds=10)

#: The number of logs whose entries are written to files at the same time.
WRITERS = 16

_logger = logging.getLogger(__name__)


OnProgress: TypeAlias = Callable[[int, int], None]


def ignore_progress(logs: int, entries: int) -> None:
    """Show no progress."""


class Follower:
    """Reads logs. Only one thread uses the methods.

    :param now: returns the present time.
    :param on_progress: called after each stored reading with the numbers of logs and entries that
        were read so far.
    :param notifier: sends the signal conflict_found.
    """

    def __init__(
        self,
        config: ResolverConfig,
        database: Database,
        index: ClaimIndex,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        on_progress: OnProgress = ignore_progress,
        notifier: Notifier = NOBODY,
    ) -> None:
        self._config = config
        self._database = database
        self._index = index
        self._reading_store = ReadingStore(config, index)
        self._now = now
        self._on_progress = on_progress
        self._notifier = notifier
        self._kept = KeptLogs(config.claims_folder / "logs")
        self._replaced = ReplacedLogs(database, index, self._kept)
        self._requests = LogRequests(config)
        self._logs: dict[int, DueLog] = {}
        #: When it failed last to store what was read of a log; it is not read again at once.
        self._failed: dict[int, datetime] = {}
        self._threads: dict[str, Thread] = {}
        #: A thread waits until its file is on the disk, which takes as long for several files.
        self._writers = ThreadPoolExecutor(WRITERS, "ibi-resolver-logs")
        self._name = secrets.token_hex(16)
        self._renewed_at: datetime | None = None
        #: The numbers of readings and entries that were stored.
        self.read_logs = self.read_entries = 0

    def run_once(self, stop: Event | None = None) -> bool:
        """Read all logs that are due, to their ends.

        :returns: False if another process follows. Then nothing is read.
        :raises StorageError: if the database does not answer, or the index can't be used.
        """
        stop = stop or Event()
        if not self._lead():
            return False
        while not stop.is_set() and self._start_due():
            self._lead()  # to forget many earlier logs takes long
            while self._logs and not stop.is_set():
                self._work()
                self._lead()
        self._fold()
        with self._database.writing() as connection:
            followed_logs.set_followed_at(connection, self._now())
        return True

    def run(self, stop: Event) -> None:
        """Follow until an event is set. Errors are logged, and do not end this."""
        while not stop.is_set():
            try:
                if leads := self._lead():
                    self._start_due()
                    self._start_thread(self._fold)
                self._work()
                is_idle = not self._logs and not (leads and self._replaced.archive_ids)
            except StorageError as error:
                _logger.error("the claims of Archives can't be followed: %s", error)
                is_idle = True
            except Exception:  # no other thread follows
                _logger.exception("the claims of Archives can't be followed")
                is_idle = True
            if is_idle:
                stop.wait(PAUSE)

    def close(self) -> None:
        """Close the connections, and let another process follow."""
        self._requests.close()
        self._writers.shutdown()
        self._logs.clear()
        for thread in self._threads.values():
            thread.join(PAUSE)
        try:
            with self._database.writing() as connection:
                followed_logs.release_lease(connection, self._name)
        except StorageError as error:
            _logger.warning("another process can follow only in some seconds: %s", error)

    def _lead(self) -> bool:
        """Return whether this process is the only follower now."""
        now = self._now()
        if self._renewed_at is not None and now - self._renewed_at < RENEWAL:
            return True
        with self._database.writing() as connection:
            leads = followed_logs.take_lease(connection, self._name, now)
            if leads and self._renewed_at is not None:
                followed_logs.set_followed_at(connection, now)
        self._renewed_at = now if leads else None
        return leads

    def _start_thread(self, work: Callable[[], None]) -> None:
        """Do something in a thread, unless this is being done: reading goes on meanwhile."""
        thread = self._threads.get(work.__name__)
        if thread is None or not thread.is_alive():
            thread = Thread(target=work, name="ibi-resolver-claims", daemon=True)
            self._threads[work.__name__] = thread
            thread.start()

    def _fold(self) -> None:
        """Move bindings from the table to files, which can take minutes."""
        try:
            self._index.fold()
        except StorageError as error:
            _logger.error("the index of claims can't be written: %s", error)

    def _start_due(self) -> bool:
        """Begin to read the logs that are due, and return whether there are any.

        A part of the earlier logs of those that began anew is forgotten.
        """
        now = self._now()
        self._failed = {one: at for one, at in self._failed.items() if now - at < INTERVAL}
        omitted = self._logs.keys() | self._failed.keys() | self._replaced.archive_ids
        room = MAX_LOGS - len(self._logs)
        due = self._database.read(
            lambda connection: followed_logs.list_due(connection, now, room, omitted)
        )
        for log in due:
            if self._replaced.must_wait(log):
                continue
            self._logs[log.archive_id] = log
            requests = read_log(
                log.known,
                now.timestamp(),
                self._config.claims_max_age,
                self._config.claims_max_size,
            )
            self._requests.start(log.archive_id, log.base, log.known.key, requests, log.is_slow)
        is_waiting = bool(self._replaced.archive_ids)
        if failed := self._replaced.forget_part():
            self._fail(*failed, now)
        return bool(due) or is_waiting

    def _work(self) -> None:
        """Read for some time, and store what was read."""
        end = monotonic() + PAUSE
        done: list[tuple[DueLog, Reading]] = []
        size = 0
        while self._logs and (left := end - monotonic()) > 0:
            for archive_id, reading in self._requests.wait(left):
                log = self._logs.pop(archive_id)
                done.append((log, reading))
                size += reading.length - log.known.length
                if size >= MAX_BYTES:
                    self._store(done)
                    done, size = [], 0
        self._store(done)

    def _store(self, readings: Sequence[tuple[DueLog, Reading]]) -> None:
        """Store what was read: first the entries in files, then all logs in one transaction."""
        now = self._now()
        errors = dict(self._writers.map(self._keep, [one for one in readings if one[1].bundles]))
        kept = []
        for log, reading in readings:
            if error := errors.get(log.archive_id):
                self._fail(log, error, now)
            else:
                kept.append((log, reading))
        if not kept:
            return
        try:
            with self._database.writing() as connection:
                stored = self._reading_store.store(connection, kept, now)
        except (IntegrityError, StorageError) as error:
            if len(kept) > 1 and not isinstance(error, NotReady):
                for one in kept:  # the other logs can be stored
                    self._store([one])
                return
            for log, _ in kept:
                self._fail(log, error, now)
            return
        for log, reading in stored:
            self.read_logs += 1
            self.read_entries += len(reading.entries)
            self._report(log, reading)
        self._on_progress(self.read_logs, self.read_entries)

    def _keep(self, read: tuple[DueLog, Reading]) -> tuple[int, OSError | None]:
        """Write the new entries of a log to files.

        :returns: the id of the Archive, and the error if this fails.
        """
        log, reading = read
        try:
            for number, entries in reading.bundles.items():
                self._kept.write_bundle(log.archive_id, log.number, number, entries)
        except OSError as error:
            return log.archive_id, error
        return log.archive_id, None

    def _fail(self, log: DueLog, error: Exception, now: datetime) -> None:
        """Log that what a log claims can't be stored, and try it again later.

        Until then, its claims don't count. Otherwise, those of nobody would count when they are too
        old; see :func:`.followed_logs.set_followed_at`.
        """
        _logger.error("the claims of %s can't be stored: %s", log.service_ibi, error)
        self._failed[log.archive_id] = now
        if not isinstance(error, NotReady):
            with self._database.writing() as connection:
                followed_logs.distrust(connection, log, "has claims that can't be stored")

    def _report(self, log: DueLog, reading: Reading) -> None:
        """Log a change of the state."""
        if reading.state != log.known.state:
            _logger.log(
                logging.WARNING if reading.state in (FORKED, FULL) else logging.INFO,
                "the log of %s at %s is %s%s",
                log.service_ibi, log.address, reading.state,
                "" if reading.reason is None else f": {reading.reason}",
            )  # fmt: skip
