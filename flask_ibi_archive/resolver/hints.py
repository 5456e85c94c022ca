"""What a resolver remembers of its resolutions: hints, metrics of Archives, and failed URLs.

A *hint* names the Archive where an IBI was last found. The resolver asks this Archive first. It
also asks the Archives where IBIs with the same *prefix* were found lately, if nobody claims an IBI
(resolving.py). Hints and prefixes are written at the end of a resolution, but only if
they are new or have changed.

The *metrics* of an Archive are the number of answers, the number of failures and the response
times. The *failed URLs* are the persistent URLs that led readers nowhere, counted by day,
identifier and reason; nothing about the readers is stored. Both change with each resolution.
Therefore they wait in memory: at the end of a request, all of them are written, if the last write
is :data:`PAUSE` ago. No thread is needed. If the process is killed, what waits is lost.
"""

from __future__ import annotations

import logging
import os
from calendar import monthrange
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import date, datetime, timezone
from itertools import groupby
from time import monotonic
from typing import NamedTuple, TypeAlias

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.core.identifiers.grammar import MAX_LENGTH
from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.archives import lock_rows
from flask_ibi_archive.resolver.tables import FailedUrl, Hint, PrefixHolder, RegisteredArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import UTCDateTime, insert_or_update
from flask_ibi_archive.server.http.transport import make_printable

#: Seconds between two writes of metrics and failed URLs, and before a write that failed is tried
#: again, so that not every reader waits for the database.
PAUSE, RETRY_PAUSE = 5.0, 30.0
#: The maximum number of answers, failures and failed URLs that wait. The oldest are discarded.
MAX_WAITING = 50_000
#: The maximum number of prefixes that a process knows as stored.
MAX_KNOWN = 10_000
#: The maximum number of seconds for which a reader waits until another process has written.
MAX_WAIT = 0.5
#: The maximum number of stored hints. The oldest hints are deleted first.
MAX_HINTS = 1_000_000
#: Seconds until the first deletion of old hints, and seconds between two later deletions. The first
#: deletion is late, so that short commands end before the deletion.
FIRST_CLEANUP, CLEANUP_PAUSE = 60.0, 3600.0
#: Maximum number of characters that are stored of the description of a failure.
MAX_FAILURE = 300
#: The maximum number of different rows of a day. All days together then take at most about 600 MB
#: (with the longest identifiers).
MAX_ROWS = 2000
#: The identifier in the rows that count what exceeds the maximum.
OTHERS = ""
#: The counts of the current month, and of the twelve months before it, are kept.
MONTHS_KEPT = 13
#: The table of the document registry, which exists even if the registry is not enabled and loaded.
DOCUMENT = sa.table("ibi_registry_registration", sa.column("document_id"))

#: The parameters of :meth:`HintWriter.add_result`.
Result: TypeAlias = "tuple[int, float, str | None]"

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


# --- metrics and hints ---------------------------------------------------------------------------


def add_metrics(connection: sa.Connection, results: Iterable[Result], now: datetime) -> None:
    """Add results to the stored metrics of the Archives.

    Results of Archives that are no longer registered are ignored.

    :param now: the current time, which is stored as the date of the results.
    """
    by_archive: dict[int, list[Result]] = {}
    for result in results:
        by_archive.setdefault(result[0], []).append(result)
    lock_rows(connection, by_archive)
    rows = []
    for archive_id, some in by_archive.items():
        times = [seconds for _, seconds, failure in some if failure is None]
        reasons = [failure for _, _, failure in some if failure is not None]
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


def store_hints(connection: sa.Connection, found: Mapping[str, int], now: datetime) -> None:
    """Store hints. A new hint replaces the earlier hint for the same IBI.

    :param found: the id of the Archive for each IBI. The IBIs are in canonical case.
    :param now: the date when the IBIs were found.
    """
    rows = [
        {"ibi": ibi, "archive_id": archive_id, "found_at": now}
        for ibi, archive_id in sorted(found.items())  # the same order avoids deadlocks
    ]
    if rows:
        statement = insert_or_update(connection, Hint)
        newer = {name: statement.excluded[name] for name in ("archive_id", "found_at")}
        connection.execute(
            statement.on_conflict_do_update(index_elements=[Hint.ibi], set_=newer), rows
        )


def store_prefixes(
    connection: sa.Connection, prefixes: Iterable[tuple[str, int]], now: datetime
) -> None:
    """Store that Archives gave items with some prefixes.

    :param prefixes: prefixes, each with the id of an Archive.
    """
    rows = [
        {"prefix": prefix, "archive_id": archive_id, "seen_at": now}
        for prefix, archive_id in sorted(prefixes)
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


def delete_old_hints(connection: sa.Connection) -> None:
    """Delete the oldest hints, if there are more than :data:`MAX_HINTS`.

    The hints for registered documents remain: a document that an Archive had is not resolved while
    this Archive does not answer.
    """
    oldest = (
        sa.select(Hint.found_at)
        .order_by(Hint.found_at.desc())
        .offset(MAX_HINTS)
        .limit(1)
        .scalar_subquery()
    )
    is_document = Hint.ibi.in_(sa.select(DOCUMENT.c.document_id))
    connection.execute(sa.delete(Hint).where(Hint.found_at <= oldest, ~is_document))


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


class HintWriter:
    """Writes hints at once, and metrics and failed URLs from time to time. Thread-safe.

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
        self._write_at = self._retry_at = clock()
        self._cleanup_at = clock() + FIRST_CLEANUP
        #: What waits, each with the id of this process: a forked process has a copy, but must not
        #: write it. The methods of a deque need no lock, which a fork could leave locked.
        self._waiting: deque[tuple[int, Result | FailedName]] = deque(maxlen=MAX_WAITING)
        self._known_prefixes: set[tuple[str, int]] = set()

    def add_hints(
        self, archive_id: int, ibis: Collection[str], prefixes: Collection[str] = ()
    ) -> None:
        """Store where items were found, if it is not stored yet. Errors are only logged.

        :param ibis: the IBIs in canonical case.
        :param prefixes: the prefixes of IBIs.
        """
        if self._clock() < self._retry_at:
            return
        now = self._now()
        new = dict.fromkeys(ibis, archive_id)
        new_prefixes = {(prefix, archive_id) for prefix in prefixes} - self._known_prefixes
        try:
            if ibis:
                stored = sa.select(Hint.ibi, Hint.archive_id).where(Hint.ibi.in_(ibis))
                new = dict(new.items() - set(map(tuple, self._database.read_rows(stored))))
            if not new and not new_prefixes:
                return
            with (
                suppress(IntegrityError),  # the Archive was removed
                self._database.writing(MAX_WAIT) as connection,
            ):
                store_hints(connection, new, now)
                store_prefixes(connection, new_prefixes, now)
        except StorageError as error:
            self._report(error)
            return
        if len(self._known_prefixes) > MAX_KNOWN:
            self._known_prefixes = set()
        self._known_prefixes |= new_prefixes

    def add_result(self, archive_id: int, seconds: float, failure: str | None = None) -> None:
        """Count an answer or a failure of an Archive.

        :param seconds: the response time of the Archive.
        :param failure: the reason of the failure, which continues a sentence about the Archive.
        """
        self._waiting.append((os.getpid(), (archive_id, seconds, failure)))

    def add_failed_url(self, ibi: str, reason: str) -> None:
        """Count a persistent URL that led a reader nowhere.

        :param ibi: the identifier in canonical case, or the text that was requested in its place.
        :param reason: the kind of the alert, such as "unknown".
        """
        name = FailedName(self._now().date(), clean_name(ibi), reason)
        self._waiting.append((os.getpid(), name))

    def flush_if_due(self) -> None:
        """Write metrics and failed URLs, unless they were written a short time ago."""
        if self._waiting and self._clock() >= self._write_at:
            self._write_at = self._clock() + PAUSE
            self.flush(MAX_WAIT)

    def flush(self, max_wait: float | None = None) -> None:
        """Write metrics and failed URLs.

        If the database is not available, they are kept and written later.

        :param max_wait: the maximum number of seconds to wait for other processes.
        """
        waiting = []
        with suppress(IndexError):
            while True:
                waiting.append(self._waiting.popleft())
        own = [event for process, event in waiting if process == os.getpid()]
        if not own:
            return
        now = self._now()
        failed = Counter([event for event in own if isinstance(event, FailedName)])
        try:
            with self._database.writing(max_wait) as connection:
                results = [event for event in own if not isinstance(event, FailedName)]
                add_metrics(connection, results, now)
                store_counts(connection, failed)
                if self._clock() >= self._cleanup_at:
                    self._cleanup_at = self._clock() + CLEANUP_PAUSE
                    delete_old_hints(connection)
                    delete_old_counts(connection, now.date())
        except StorageError as error:
            self._report(error)
            self._waiting.extendleft(reversed(waiting))

    def _report(self, error: StorageError) -> None:
        self._retry_at = self._write_at = self._clock() + RETRY_PAUSE
        _logger.warning("hints and metrics of Archives can't be stored: %s", error)
