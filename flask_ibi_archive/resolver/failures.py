"""What a resolver remembers of its resolutions: failures, metrics of Archives, and prefixes.

The *failed URLs* are the persistent URLs that led readers nowhere, counted by day, identifier and
reason; nothing about the readers is stored. The *metrics* of an Archive are the number of answers,
the number of failures and the response times. The *prefixes* tell which Archive has lately given
items whose identifiers begin with a prefix. It is asked first about others with this prefix, and
also if nobody claims one (resolving.py).

All this changes with each resolution. Therefore it waits in memory: at the end of a request, all of
it is written, if the last write is :data:`PAUSE` ago. No thread is needed. If the process is
killed, what waits is lost.
"""

from __future__ import annotations

import logging
from calendar import monthrange
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime, timezone
from itertools import groupby
from time import monotonic
from typing import NamedTuple

import sqlalchemy as sa

from flask_ibi_archive.core.identifiers.grammar import MAX_LENGTH
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.archives import lock_rows
from flask_ibi_archive.resolver.tables import FailedUrl, PrefixHolder, RegisteredArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import UTCDateTime, insert_or_update
from flask_ibi_archive.server.http.transport import make_printable

#: Seconds between two writes, and before a write that failed is tried again, so that not every
#: reader waits for the database.
PAUSE, RETRY_PAUSE = 5.0, 30.0
#: The maximum number of answers, failures, prefixes and failed URLs that wait. The oldest are
#: discarded.
MAX_WAITING = 50_000
#: The maximum number of prefixes that a process knows as stored.
MAX_KNOWN = 10_000
#: The maximum number of seconds for which a reader waits until another process has written.
MAX_WAIT = 0.5
#: Maximum number of characters that are stored of the description of a failure.
MAX_FAILURE = 300
#: The maximum number of different rows of a day. All days together then take at most about 600 MB
#: (with the longest identifiers).
MAX_ROWS = 2000
#: The identifier in the rows that count what exceeds the maximum.
OTHERS = ""
#: The counts of the current month, and of the twelve months before it, are kept.
MONTHS_KEPT = 13

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


# --- Archives ------------------------------------------------------------------------------------


class Result(NamedTuple):
    """An answer or a failure of an Archive.

    :param seconds: the response time.
    :param failure: the reason of the failure, which continues a sentence about the Archive. None
        for an answer.
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

    What concerns Archives that are no longer registered is ignored.

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


# --- failed URLs ---------------------------------------------------------------------------------


class FailedName(NamedTuple):
    """What failed on a day.

    :param ibi: the identifier, of this system or of others, or the former address, in canonical
        spelling, or the text in its place.
    :param reason: the kind of the alert, such as "unknown".
    """

    day: date
    ibi: str
    reason: str


def clean_name(text: str) -> str:
    """Return a text that a reader requested as an identifier, in a form that can be stored."""
    # a database refuses null characters and lone surrogates
    cleaned = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
    return cleaned[:MAX_LENGTH]


def store_counts(connection: sa.Connection, counts: Mapping[FailedName, int]) -> None:
    """Add new counts to the stored ones."""
    for day, names in groupby(sorted(counts), key=lambda name: name.day):
        of_day = Counter({name: counts[name] for name in names})
        _store_day(connection, day, of_day)


def _store_day(connection: sa.Connection, day: date, counts: Counter[FailedName]) -> None:
    is_of_day = FailedUrl.day == day
    stored = (
        connection.scalar(sa.select(sa.func.count()).select_from(FailedUrl).where(is_of_day)) or 0
    )
    if stored + len(counts) > MAX_ROWS:
        rows = connection.execute(sa.select(FailedUrl.ibi, FailedUrl.reason).where(is_of_day))
        known = {FailedName(day, *row) for row in rows}
        room = max(MAX_ROWS - stored, 0)
        for name in [name for name in sorted(counts) if name not in known][room:]:
            counts[name._replace(ibi=OTHERS)] += counts.pop(name)
    statement = insert_or_update(connection, FailedUrl)
    added = statement.on_conflict_do_update(
        index_elements=[FailedUrl.day, FailedUrl.ibi, FailedUrl.reason],
        set_={"count": FailedUrl.count + statement.excluded.count},
    )
    # all writers lock the rows in the same order, which prevents deadlocks
    new = [{**name._asdict(), "count": counts[name]} for name in sorted(counts)]
    connection.execute(added, new)


def list_counts(connection: sa.Connection, day: date) -> list[tuple[int, str, str]]:
    """Return the counts of the month of a day, with the reasons and the identifiers.

    The most frequent come first.
    """
    last = day.replace(day=monthrange(day.year, day.month)[1])
    count = sa.func.sum(FailedUrl.count)
    rows = connection.execute(
        sa.select(count, FailedUrl.reason, FailedUrl.ibi)
        .where(FailedUrl.day.between(day.replace(day=1), last))
        .group_by(FailedUrl.ibi, FailedUrl.reason)
        .order_by(count.desc(), FailedUrl.ibi, FailedUrl.reason)
    )
    return [(int(total), reason, ibi) for total, reason, ibi in rows]  # PostgreSQL sums to decimals


def delete_old_counts(connection: sa.Connection, today: date) -> int:
    """Delete the counts that are older than thirteen months, and return the number of rows."""
    year, month = divmod(12 * today.year + today.month - 1 - MONTHS_KEPT, 12)
    return connection.execute(
        sa.delete(FailedUrl).where(FailedUrl.day < date(year, month + 1, 1))
    ).rowcount


# --- the writer ----------------------------------------------------------------------------------


class MetricsWriter:
    """Writes metrics, prefixes and failed URLs from time to time. Thread-safe.

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
        self._waiting: deque[Result | GivenPrefix | FailedName] = deque(maxlen=MAX_WAITING)
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

    def add_failed_url(self, ibi: str, reason: str) -> None:
        """Count a persistent URL that led a reader nowhere.

        :param ibi: the identifier in canonical case, or the text that was requested in its place.
        :param reason: the kind of the alert, such as "unknown".
        """
        self._waiting.append(FailedName(self._now().date(), clean_name(ibi), reason))

    def flush_if_due(self) -> None:
        """Write what waits, unless the last write was a short time ago."""
        if self._waiting and self._clock() >= self._write_at:
            self._write_at = self._clock() + PAUSE
            self.flush(MAX_WAIT)

    def flush(self, max_wait: float | None = None) -> None:
        """Write what waits.

        If the database is not available, it is kept and written later.

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
        failed = Counter([event for event in waiting if isinstance(event, FailedName)])
        try:
            with self._database.writing(max_wait) as connection:
                store_results(connection, results, prefixes, now)
                store_counts(connection, failed)
                if failed:
                    delete_old_counts(connection, now.date())
        except StorageError as error:
            self._write_at = self._clock() + RETRY_PAUSE
            _logger.warning("failures and metrics of Archives can't be stored: %s", error)
            self._waiting.extendleft(reversed(waiting))
