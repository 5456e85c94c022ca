"""Data about past resolutions: metrics of Archives, and prefixes.

The *metrics* of an Archive are the number of answers, the number of failures and the response
times. The *prefixes* tell which Archive has lately given items whose identifiers begin with a
prefix. The resolver asks this Archive first about other items with the prefix, also if no Archive
claims the item (resolving.py).

These data change with each resolution. Therefore they are collected in memory. At the end of a
request, all are written to the database, if the last write is :data:`PAUSE` seconds ago. No thread
is needed. If the process is killed, the data in memory are lost.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timezone
from time import monotonic
from typing import NamedTuple

import sqlalchemy as sa

from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.archives import lock_rows
from flask_ibi_archive.resolver.tables import PrefixHolder, RegisteredArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import UTCDateTime, insert_or_update
from flask_ibi_archive.server.http.transport import make_printable

#: Seconds between two writes, and before a write that failed is tried again, so that not every
#: reader waits for the database.
PAUSE, RETRY_PAUSE = 5.0, 30.0
#: The maximum number of answers, failures and prefixes that wait. The oldest are discarded.
MAX_WAITING = 50_000
#: The maximum number of prefixes that a process knows as stored.
MAX_KNOWN = 10_000
#: The maximum number of seconds for which a reader waits until another process has written.
MAX_WAIT = 0.5
#: Maximum number of characters that are stored of the description of a failure.
MAX_FAILURE = 300

_logger = logging.getLogger(__name__)

_ARCHIVE = RegisteredArchive
#: Many Archives answer between two writes, so one statement serves them all.
_ADD_METRICS = (
    sa.update(_ARCHIVE)
    .where(_ARCHIVE.id == sa.bindparam("archive"))
    .values(
        answers=_ARCHIVE.answers + sa.bindparam("answered"),
        milliseconds=_ARCHIVE.milliseconds + sa.bindparam("took"),
        last_answer_at=sa.func.coalesce(
            sa.bindparam("answered_at", type_=UTCDateTime()), _ARCHIVE.last_answer_at
        ),
        failures=_ARCHIVE.failures + sa.bindparam("failed"),
        last_failure=sa.func.coalesce(
            sa.bindparam("reason", type_=sa.Text()), _ARCHIVE.last_failure
        ),
        last_failure_at=sa.func.coalesce(
            sa.bindparam("failed_at", type_=UTCDateTime()), _ARCHIVE.last_failure_at
        ),
    )
)


class Result(NamedTuple):
    """An answer or a failure of an Archive.

    :param seconds: the response time.
    :param failure: the reason of the failure, as the end of a sentence that begins with the
        Archive. None for an answer.
    """

    archive_id: int
    seconds: float
    failure: str | None = None


class GivenPrefix(NamedTuple):
    """An Archive gave an item whose identifier begins with a prefix."""

    prefix: str
    archive_id: int


def store_results(
    connection: sa.Connection,
    results: Iterable[Result],
    prefixes: Iterable[GivenPrefix],
    now: datetime,
) -> None:
    """Add results to the stored metrics of the Archives, and store who gave items with prefixes.

    Data about Archives that are no longer registered are ignored.

    :param now: the current time, which is stored as the date.
    """
    by_archive: dict[int, list[Result]] = {one.archive_id: [] for one in prefixes}
    for result in results:
        by_archive.setdefault(result.archive_id, []).append(result)
    registered = {*lock_rows(connection, by_archive)}
    rows = []
    for archive_id, some in by_archive.items():
        times = [one.seconds for one in some if one.failure is None]
        reasons = [one.failure for one in some if one.failure is not None]
        rows.append(
            {
                "archive": archive_id,
                "answered": len(times),
                "took": round(sum(times) * 1000),
                "answered_at": now if times else None,
                "failed": len(reasons),
                "reason": make_printable(reasons[-1], MAX_FAILURE) if reasons else None,
                "failed_at": now if reasons else None,
            }
        )
    if rows:
        connection.execute(_ADD_METRICS, rows)
    given = [
        {**one._asdict(), "seen_at": now} for one in {*prefixes} if one.archive_id in registered
    ]
    if given:
        statement = insert_or_update(connection, PrefixHolder)
        key, seen_at = ["prefix", "archive_id"], statement.excluded.seen_at
        connection.execute(
            statement.on_conflict_do_update(index_elements=key, set_={"seen_at": seen_at}), given
        )


# --- the writer ----------------------------------------------------------------------------------


class MetricsWriter:
    """Writes metrics and prefixes from time to time. Thread-safe.

    :param clock: returns the time in seconds.
    :param now: returns the current date.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], float] = monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self._database = database
        self._clock = clock
        self._now = now
        self._write_at = clock()
        #: What waits. The methods of a deque need no lock, which a fork could leave locked.
        self._waiting: deque[Result | GivenPrefix] = deque(maxlen=MAX_WAITING)
        self._known: set[GivenPrefix] = set()

    def add_prefixes(self, archive_id: int, prefixes: Iterable[str]) -> None:
        """Note that an Archive gave items with some prefixes."""
        for prefix in prefixes:
            given = GivenPrefix(prefix, archive_id)
            if given not in self._known:
                if len(self._known) >= MAX_KNOWN:
                    self._known = set()
                self._known.add(given)
                self._waiting.append(given)

    def add_result(self, archive_id: int, seconds: float, failure: str | None = None) -> None:
        """Count an answer or a failure of an Archive. See :class:`Result`."""
        self._waiting.append(Result(archive_id, seconds, failure))

    def flush_if_due(self) -> None:
        """Write the collected data, unless the last write was a short time ago."""
        if self._waiting and self._clock() >= self._write_at:
            self._write_at = self._clock() + PAUSE
            self.flush(MAX_WAIT)

    def flush(self, max_wait: float | None = None) -> None:
        """Write the collected data.

        If the database is not available, the data are kept and written later.

        :param max_wait: the maximum number of seconds to wait for other processes.
        """
        waiting = []
        with suppress(IndexError):
            while True:
                waiting.append(self._waiting.popleft())
        if not waiting:
            return
        now = self._now()
        results = [event for event in waiting if isinstance(event, Result)]
        prefixes = [event for event in waiting if isinstance(event, GivenPrefix)]
        try:
            with self._database.writing(max_wait) as connection:
                store_results(connection, results, prefixes, now)
        except StorageError as error:
            self._write_at = self._clock() + RETRY_PAUSE
            _logger.warning("metrics of Archives can't be stored: %s", error)
            self._waiting.extendleft(reversed(waiting))
