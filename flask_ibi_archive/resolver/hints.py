"""What a resolver learns on the way, written down now and then: no reader waits for a database."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from threading import Event, Lock, Thread
from time import monotonic

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.archive_rows import ArchiveCounts, add_metrics
from flask_ibi_archive.resolver.tables import Hint, RegisteredArchive
from flask_ibi_archive.storage.database import Database

#: Seconds between two times of writing.
PAUSE = 5.0
#: Hints that wait to be written at most; further ones are let go.
MOST_WAITING = 10_000
#: How long a hint is kept.
KEPT = timedelta(days=90)
#: Seconds till old ones are looked for, which a command hardly lives, and between two times of it.
TIDY_FIRST, TIDY_PAUSE = 60.0, 3600.0

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Counts:
    """What came of questions to an Archive, so far."""

    answers: int = 0
    failures: int = 0
    seconds: float = 0.0
    last_failure: str | None = None

    def add(self, earlier: _Counts) -> None:
        self.answers += earlier.answers
        self.failures += earlier.failures
        self.seconds += earlier.seconds
        self.last_failure = self.last_failure or earlier.last_failure

    def as_counts(self) -> ArchiveCounts:
        milliseconds = round(self.seconds * 1000)
        return ArchiveCounts(self.answers, self.failures, milliseconds, self.last_failure)


class HintWriter:
    """Gathers where IBIs are found and how Archives answer. Threads may share it.

    What was gathered is written by a thread of its own, which begins with the first note. A process
    that is killed loses what it gathered in the last seconds, and nothing else.

    :param clock: gives seconds; ``now`` gives the date.
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
        self._tidy_at = clock() + TIDY_FIRST
        self._begin_anew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_Anew(self))

    def _begin_anew(self) -> None:
        self._lock = Lock()
        self._ending = Event()
        self._thread: Thread | None = None
        self._hints: dict[str, int] = {}
        self._counts: dict[int, _Counts] = {}

    def note_found(self, ibi: str, archive_id: int) -> None:
        """Note where an IBI, in canonical text, was found."""
        with self._lock:
            if ibi in self._hints or len(self._hints) < MOST_WAITING:
                self._hints[ibi] = archive_id
            self._see_to_thread()

    def note_answer(self, archive_id: int, seconds: float) -> None:
        """Note that an Archive answered."""
        with self._lock:
            counts = self._counts_of(archive_id)
            counts.answers += 1
            counts.seconds += seconds

    def note_failure(self, archive_id: int, reason: str) -> None:
        """Note that an Archive did not answer as it should."""
        with self._lock:
            counts = self._counts_of(archive_id)
            counts.failures += 1
            counts.last_failure = reason

    def flush(self) -> None:
        """Write down what was gathered; where the database is away it stays for the next time."""
        with self._lock:
            hints, self._hints = self._hints, {}
            counts, self._counts = self._counts, {}
        if not hints and not counts:
            return
        now = self._now()
        try:
            with self._database.writing() as connection:
                add_metrics(
                    connection, {number: one.as_counts() for number, one in counts.items()}, now
                )
                remember_hints(connection, hints, now)
                if self._clock() >= self._tidy_at:
                    self._tidy_at = self._clock() + TIDY_PAUSE
                    forget_old_hints(connection, now - KEPT)
        except StorageError as error:
            _logger.warning("what was learnt of Archives can't be written down: %s", error)
            with self._lock:
                room = max(MOST_WAITING - len(self._hints), 0)
                older = [ibi for ibi in hints if ibi not in self._hints]
                self._hints.update((ibi, hints[ibi]) for ibi in older[:room])
                for archive_id, one in counts.items():
                    self._counts_of(archive_id).add(one)

    def close(self, seconds: float = 2.0) -> None:
        """Write down what was gathered, and end the thread."""
        self._ending.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(seconds)
        self.flush()

    def _counts_of(self, archive_id: int) -> _Counts:
        counts = self._counts.get(archive_id)
        if counts is None:
            counts = self._counts[archive_id] = _Counts()
            self._see_to_thread()
        return counts

    def _see_to_thread(self) -> None:
        if self._thread is None and not self._ending.is_set():
            self._thread = Thread(target=self._run, name="ibi-resolver-notebook", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._ending.wait(self._pause):
            try:
                self.flush()
            except Exception:  # the thread goes on: it is the only one
                _logger.exception("what was learnt of Archives can't be written down")


class _Anew:
    """Lets a forked process begin with an empty notebook: its parent writes down what was in it."""

    def __init__(self, notebook: HintWriter) -> None:
        self._notebook = weakref.ref(notebook)

    def __call__(self) -> None:
        found = self._notebook()
        if found is not None:
            found._begin_anew()


#: Hints that are kept at most: the newest ones.
MOST_HINTS = 1_000_000
#: What a column of an IBI takes.
LONGEST_IBI = 255


def remember_hints(connection: Connection, found: Mapping[str, int], now: datetime) -> None:
    """Write down where IBIs were found; what was known of them before is replaced.

    :param found: the number of the Archive, by the IBI in canonical case. One that is not
        registered any more is passed over.
    """
    # the Archives first, and all in one order: so no two that write wait for each other
    wanted = sorted(set(found.values()))
    there = set(
        connection.scalars(
            select(RegisteredArchive.id)
            .where(RegisteredArchive.id.in_(wanted))
            .order_by(RegisteredArchive.id)
            .with_for_update(read=True, key_share=True)
        )
    )
    rows = [
        {"ibi": ibi, "archive_id": archive_id, "found_at": now}
        for ibi, archive_id in sorted(found.items())
        if archive_id in there and len(ibi) <= LONGEST_IBI
    ]
    if rows:
        made = postgresql if connection.dialect.name == "postgresql" else sqlite
        statement = made.insert(Hint)
        newer = {
            "archive_id": statement.excluded.archive_id,
            "found_at": statement.excluded.found_at,
        }
        connection.execute(
            statement.on_conflict_do_update(index_elements=[Hint.ibi], set_=newer), rows
        )


def forget_old_hints(connection: Connection, before: datetime, most: int = MOST_HINTS) -> int:
    """Take out hints that are old, or too many; give how many there were.

    :param before: those found before this moment go.
    :param most: so many of the newest stay.
    """
    gone = connection.execute(delete(Hint).where(Hint.found_at < before)).rowcount
    oldest = (
        select(Hint.found_at).order_by(Hint.found_at.desc()).offset(most).limit(1).scalar_subquery()
    )
    return gone + connection.execute(delete(Hint).where(Hint.found_at <= oldest)).rowcount
