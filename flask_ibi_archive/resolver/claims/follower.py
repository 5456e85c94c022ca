"""The follower: reads the logs of the included Archives, and stores what they claim.

Each log is read every 60 s, and at once after a ping. One process follows at a time: it holds a
lease in the database. A transaction stores the new bindings together with the new position of the
log, and only if the position is still the one from which the log was read. Therefore a process that
is killed, or that lost its lease without noticing, can't store anything twice or leave anything
out. Source: federation CL-5, CL-7.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from threading import Event, Thread
from time import monotonic
from typing import TypeAlias

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.core.claims.claim import STATE_NUMBERS, identifier_key
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.claims import followed_logs
from flask_ibi_archive.resolver.claims.conflicts import end_conflicts, note_rival
from flask_ibi_archive.resolver.claims.entry_check import CheckedEntries, check_entries
from flask_ibi_archive.resolver.claims.followed_logs import INTERVAL, DueLog
from flask_ibi_archive.resolver.claims.fork_alert import tell_of_fork
from flask_ibi_archive.resolver.claims.index import ClaimIndex
from flask_ibi_archive.resolver.claims.kept_logs import KeptLogs
from flask_ibi_archive.resolver.claims.log_reader import Reading, read_log
from flask_ibi_archive.resolver.claims.log_requests import LogRequests
from flask_ibi_archive.resolver.claims.regular_tasks import RegularTasks, Task
from flask_ibi_archive.resolver.claims.versions import bump_version
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.server.database.database import Database

#: The seconds between two searches for logs that are due, at most.
PAUSE = 1.0
#: The maximum number of logs that are being read or wait for it.
MAX_LOGS = 1000
#: The time after which the lease and the time of :class:`.tables.ResolverState` are renewed.
RENEWAL = timedelta(seconds=10)

_logger = logging.getLogger(__name__)


OnProgress: TypeAlias = Callable[[int, int], None]


def ignore_progress(logs: int, entries: int) -> None:
    """Show no progress."""


class Follower:
    """Reads logs. Only one thread uses the methods.

    :param now: returns the present time.
    :param on_progress: called after each stored reading with the numbers of logs and entries that
        were read so far.
    :param tasks: what the only follower also does at intervals.
    """

    def __init__(
        self,
        config: ResolverConfig,
        database: Database,
        index: ClaimIndex,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        on_progress: OnProgress = ignore_progress,
        tasks: Sequence[Task] = (),
    ) -> None:
        self._config = config
        self._database = database
        self._index = index
        self._now = now
        self._on_progress = on_progress
        self._tasks = RegularTasks(tasks)
        self._kept = KeptLogs(config.claims_folder / "logs")
        self._requests = LogRequests(config)
        self._logs: dict[int, DueLog] = {}
        #: When it failed last to store what was read of a log; it is not read again at once.
        self._failed: dict[int, datetime] = {}
        self._folding: Thread | None = None
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
        self._tasks.run_due(self._now())  # a mirror first takes over the list
        while not stop.is_set() and self._start_due():
            while self._logs and not stop.is_set():
                self._work()
                self._lead()
        self._index.fold()
        with self._database.writing() as connection:
            followed_logs.set_followed_at(connection, self._now())
        return True

    def run(self, stop: Event) -> None:
        """Follow until an event is set. Errors are logged, and do not end this."""
        while not stop.is_set():
            try:
                if self._lead():
                    self._tasks.start_due(self._now())
                    self._start_due()
                    self._start_folding()
                self._work()
                is_idle = not self._logs
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
        self._tasks.close()
        self._logs.clear()
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

    def _start_folding(self) -> None:
        """Move bindings to files in a thread: reading goes on, however long this takes."""
        if self._folding is None or not self._folding.is_alive():
            self._folding = Thread(target=self._fold, name="ibi-resolver-fold", daemon=True)
            self._folding.start()

    def _fold(self) -> None:
        try:
            self._index.fold()
        except StorageError as error:
            _logger.error("the index of claims can't be written: %s", error)

    def _start_due(self) -> bool:
        """Begin to read the logs that are due, and return whether there are any."""
        now = self._now()
        limit = MAX_LOGS + len(self._logs) + len(self._failed)
        self._failed = {one: at for one, at in self._failed.items() if now - at < INTERVAL}
        due = [
            log
            for log in self._database.read(
                lambda connection: followed_logs.list_due(connection, now, limit)
            )
            if log.archive_id not in self._logs and log.archive_id not in self._failed
        ]
        for log in due[: max(MAX_LOGS - len(self._logs), 0)]:
            self._logs[log.archive_id] = log
            requests = read_log(log.known, now.timestamp(), self._config.claims_max_age)
            self._requests.start(log.archive_id, log.base, requests)
        return bool(due)

    def _work(self) -> None:
        """Read for some time, and store what was read."""
        end = monotonic() + PAUSE
        small: list[tuple[DueLog, Reading]] = []
        while self._logs and (left := end - monotonic()) > 0:
            for archive_id, reading in self._requests.wait(left):
                log = self._logs.pop(archive_id)
                if reading.entries or reading.fork:
                    self._store([(log, reading)])
                else:
                    small.append((log, reading))
        if small:
            self._store(small)

    def _store(self, readings: Sequence[tuple[DueLog, Reading]]) -> None:
        """Store what was read, in one transaction."""
        now = self._now()
        stored: list[tuple[DueLog, Reading]] = []
        try:
            for log, reading in readings:
                for number, entries in reading.bundles.items():
                    self._kept.write_bundle(log.archive_id, log.number, number, entries)
            with self._database.writing() as connection:
                included = followed_logs.lock_archives(
                    connection, [log.archive_id for log, _ in readings]
                )
                changed = []
                for log, reading in readings:
                    if log.archive_id not in included:
                        continue
                    changes_trust = followed_logs.store_reading(connection, log, reading, now)
                    if changes_trust is None:
                        continue
                    stored.append((log, reading))
                    if changes_trust:
                        changed.append(log.archive_id)
                    self._store_content(connection, log, reading, now)
                if changed:
                    bump_version(connection, changed)
        except (IntegrityError, OSError, StorageError) as error:
            names = ", ".join(log.service_ibi for log, _ in readings)
            _logger.error("the claims of %s can't be stored: %s", names, error)
            self._failed.update((log.archive_id, now) for log, _ in readings)
            return
        for log, reading in stored:
            self.read_logs += 1
            self.read_entries += len(reading.entries)
            self._report(log, reading)
        self._on_progress(self.read_logs, self.read_entries)

    def _store_content(
        self, connection: Connection, log: DueLog, reading: Reading, now: datetime
    ) -> None:
        """Store the bindings of new entries, the entries that were kept out, and a fork."""
        if reading.fork is not None:
            followed_logs.store_fork(connection, log, reading, now)
        if not reading.entries:
            return
        services = {log.service_ibi, log.origin.partition("#")[0]}
        checked = check_entries(reading.entries, reading.start, services)
        self._note_conflicts(connection, log.archive_id, checked, now)
        self._index.store(connection, checked.list_holdings(log.archive_id))
        followed_logs.store_prefixes(connection, log.archive_id, checked.find_prefixes(), now)
        if checked.rejected:
            followed_logs.store_rejected(connection, log.archive_id, checked.rejected, now)
            position, reason = min(checked.rejected.items())
            _logger.warning(
                "%d new entries in the log of %s are not valid and were kept out; the first is"
                " entry %d: %s; to list them, run: flask ibi-resolver claims --rejected",
                len(checked.rejected), log.service_ibi, position, reason,
            )  # fmt: skip

    def _note_conflicts(
        self, connection: Connection, archive_id: int, checked: CheckedEntries, now: datetime
    ) -> None:
        """Store new conflicts, and end those whose claims have changed.

        An item with two identifiers has one conflict with each other Archive.
        """
        states = checked.find_states()
        keys = {ibi: identifier_key(ibi) for ibi in states}
        holdings = self._index.find(connection, list(keys.values()))
        original = STATE_NUMBERS[State.ORIGINAL]
        rivals: dict[tuple[int, int], str] = {}
        for ibi, (state, claim) in states.items():
            for holding in holdings.get(keys[ibi], ()):
                if holding.state != original:
                    continue
                if holding.archive_id != archive_id:
                    if state is State.ORIGINAL:
                        rivals.setdefault((id(claim), holding.archive_id), ibi)
                elif state is not State.ORIGINAL:
                    end_conflicts(connection, ibi, archive_id, now)
        if rivals:
            included = followed_logs.list_included(connection, {other_id for _, other_id in rivals})
            for (_, other_id), ibi in rivals.items():
                if other_id in included:
                    note_rival(connection, ibi, archive_id, other_id, now)

    def _report(self, log: DueLog, reading: Reading) -> None:
        """Log a change of the state, and tell the administrators of a fork."""
        if reading.fork is not None:
            tell_of_fork(self._config, log, reading)
        elif reading.state != log.known.state:
            _logger.info(
                "the log of %s at %s is %s%s",
                log.service_ibi, log.address, reading.state,
                "" if reading.reason is None else f": {reading.reason}",
            )  # fmt: skip
