"""Hints, metrics and failed URLs: what a resolver remembers of its resolutions.

A *hint* names the Archive where an IBI was last found. The resolver asks this Archive first. It
also asks the Archives where IBIs with the same *prefix* were found lately, if nobody claims an IBI
(resolving.py). Hints and prefixes are written at the end of a resolution, but only if
they are new or have changed.

The *metrics* of an Archive are the number of answers, the number of failures and the response
times. The *failed URLs* are the persistent URLs that led readers nowhere (failures.py). They
change with each resolution. Therefore they wait in memory: at the end of a request, all of them are
written, if the last write is :data:`PAUSE` ago. No thread is needed. If the process is killed, what
waits is lost.
"""

from __future__ import annotations

import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from time import monotonic
from typing import TypeAlias

from sqlalchemy import Connection, bindparam, column, delete, select, table, update
from sqlalchemy.exc import IntegrityError

from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.resolver.archives import lock_rows
from flask_ibi_archive.resolver.failures import (
    FailedName,
    clean_name,
    delete_old_counts,
    store_counts,
)
from flask_ibi_archive.resolver.tables import Hint, PrefixHolder, RegisteredArchive
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import insert_or_update

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
#: The table of the document registry, which exists even if the registry is not enabled and loaded.
DOCUMENT = table("ibi_registry_registration", column("document_id"))

#: The parameters of :meth:`HintWriter.add_result`.
Result: TypeAlias = "tuple[int, float, str | None]"

_logger = logging.getLogger(__name__)

#: Many Archives answer between two writes, so two statements serve them all.
_ADD_ANSWERS = (
    update(RegisteredArchive)
    .where(RegisteredArchive.id == bindparam("archive"))
    .values(
        answers=RegisteredArchive.answers + bindparam("more"),
        milliseconds=RegisteredArchive.milliseconds + bindparam("took"),
        last_answer_at=bindparam("now"),
    )
)
_ADD_FAILURES = (
    update(RegisteredArchive)
    .where(RegisteredArchive.id == bindparam("archive"))
    .values(
        failures=RegisteredArchive.failures + bindparam("more"),
        last_failure=bindparam("reason"),
        last_failure_at=bindparam("now"),
    )
)


def add_metrics(connection: Connection, results: Iterable[Result], now: datetime) -> None:
    """Add results to the stored metrics of the Archives.

    Results of Archives that are no longer registered are ignored.

    :param now: the current time, which is stored as the date of the results.
    """
    times: dict[int, list[float]] = {}
    reasons: dict[int, list[str]] = {}
    for archive_id, seconds, failure in results:
        if failure is None:
            times.setdefault(archive_id, []).append(seconds)
        else:
            reasons.setdefault(archive_id, []).append(failure)
    lock_rows(connection, times.keys() | reasons.keys())
    if times:
        answers = [
            {"archive": one, "more": len(took), "took": round(sum(took) * 1000), "now": now}
            for one, took in times.items()
        ]
        connection.execute(_ADD_ANSWERS, answers)
    if reasons:
        failures = [
            {
                "archive": one,
                "more": len(texts),
                "reason": _replace_unprintable(texts[-1])[:MAX_FAILURE],
                "now": now,
            }
            for one, texts in reasons.items()
        ]
        connection.execute(_ADD_FAILURES, failures)


def _replace_unprintable(text: str) -> str:
    """Return a text with spaces instead of unprintable characters, which a server may have sent."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


def store_hints(connection: Connection, found: Mapping[str, int], now: datetime) -> None:
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
    connection: Connection, prefixes: Iterable[tuple[str, int]], now: datetime
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


def delete_old_hints(connection: Connection) -> None:
    """Delete the oldest hints, if there are more than :data:`MAX_HINTS`.

    The hints for registered documents remain: a document that an Archive had is not resolved while
    this Archive does not answer.
    """
    oldest = (
        select(Hint.found_at)
        .order_by(Hint.found_at.desc())
        .offset(MAX_HINTS)
        .limit(1)
        .scalar_subquery()
    )
    is_document = Hint.ibi.in_(select(DOCUMENT.c.document_id))
    connection.execute(delete(Hint).where(Hint.found_at <= oldest, ~is_document))


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
                stored = select(Hint.ibi, Hint.archive_id).where(Hint.ibi.in_(ibis))
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
