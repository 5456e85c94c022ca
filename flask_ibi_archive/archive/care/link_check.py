"""Check the links of items, to find URLs outside the Archive that do not work any more.

A server can be down for a short time. Therefore a link is reported as broken only after
``IBI_LINK_FAILURES`` consecutive failed checks. A successful check resets the count.

The command ``flask ibi check-links`` starts a run. The run finds the links of all items and stores
the links in the table ``ibi_link``. Then the run checks the links, grouped by host. Each result is
stored at once. Each run begins with the links whose last check is oldest. Therefore a new run
continues a run that was stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import islice
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from flask_ibi_archive.archive.items import link_rows
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.server.http import link_requests

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive

#: A report lists at most this number of uses of a link (files and relations of items).
MAX_USES = 100
#: The largest number of uses of a link in one line of the report.
SHOWN_USES = 3
#: The number of links that are stored in one transaction.
BATCH = 500
#: One scan of all items finds the uses of this number of broken links.
REPORT_BATCH = 1000


@dataclass(slots=True)
class LinkFailure:
    """A broken link in a report.

    :param used: the number of uses of the link: files and relations of items.
    :param uses: the first :data:`MAX_USES` of these uses.
    """

    link: link_rows.BrokenLink
    used: int = 0
    uses: list[link_rows.LinkUse] = field(default_factory=list)

    def add(self, use: link_rows.LinkUse) -> None:
        """Add a use of the link."""
        self.used += 1
        if len(self.uses) < MAX_USES:
            self.uses.append(use)

    def to_json(self) -> dict[str, Any]:
        """Return the link and its uses as a JSON object."""
        link = self.link
        return {
            "url": link.url,
            "error": link.error,
            "failures": link.failures,
            "failing_since": format_timestamp(link.failing_since),
            "checked_at": format_timestamp(link.checked_at),
            "noticed_at": format_timestamp(link.noticed_at),
            "used": self.used,
            "uses": [
                {"ibi": use.ibi, "path": use.path}
                if use.relation is None
                else {"ibi": use.ibi, "relation": use.relation}
                for use in self.uses
            ],
        }

    def format(self) -> str:
        """Return the line of the report for the link. Tabs separate its fields."""
        uses = [
            f"{use.ibi} {' '.join((use.path or use.relation or '').split())}"
            for use in self.uses[:SHOWN_USES]
        ]
        if self.used > SHOWN_USES:
            uses.append(f"and {self.used - SHOWN_USES} more")
        since = format_timestamp(self.link.failing_since)
        return "\t".join([self.link.url, since, self.link.error, ", ".join(uses)])


class LinkChecker:
    """Finds, checks and reports the links of all items in one run.

    Call :meth:`find_links` first, then :meth:`check`, then :meth:`report`.

    :param delay: seconds between two requests to one host.
    :param threads: the number of hosts that are checked at the same time.
    :param older_than: check only links whose last check is at least this time ago.
    :param host: check and report only the links to this host.
    :param timeout: the timeout in seconds for a URL, including all redirects of the URL.
    :param now: returns the current time, which is stored with each result.
    :param clock: returns the time in seconds, for the delays.
    :param pause: waits for a number of seconds. None: the default, a wait that ends early when the
        run is stopped.
    """

    def __init__(
        self,
        archive: Archive,
        *,
        delay: float = link_requests.DELAY,
        threads: int = link_requests.THREADS,
        older_than: timedelta = timedelta(0),
        host: str | None = None,
        timeout: float = link_requests.TIMEOUT,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        clock: Callable[[], float] = monotonic,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self.archive = archive
        self.threads = threads
        self._now = now
        self._begin = now()
        #: Links that were last checked before this time are due.
        self._limit = self._begin - older_than
        #: The number of links for each result: answered, failed, put off.
        self.results: Counter[str] = Counter()
        self._host = None if host is None else host.lower().rstrip(".")[: link_rows.MAX_HOST]
        self._rows = link_rows.LinkRows(archive.database, archive.served().id, self._host)
        self._stop = link_requests.StopEvent()
        self._lock = Lock()
        self._limits = link_requests.HostLimits(delay, clock, pause or self._stop.pause)
        config = archive.config
        self._client = link_requests.LinkClient(
            self._limits, link_requests.user_agent(config.base_url), config.inner_hosts, timeout
        )

    def find_links(self) -> int:
        """Store the links of all items, and return the number of links that must be checked."""
        uses = self._read_uses()
        while batch := list(islice(uses, BATCH)):
            self._rows.store_links(
                {url: link_requests.host_of(url) for url, _ in batch}.items(), self._begin
            )
        self._rows.delete_unused(self._begin)
        return self._rows.count_due(self._limit)

    def _read_uses(self) -> Iterator[tuple[str, link_rows.LinkUse]]:
        """Yield the cleaned URL of each link, and the item that uses the link."""
        for url, use in link_rows.read_uses(self.archive.database, self.archive.served().id):
            cleaned = link_requests.clean_url(url)
            if cleaned is None or self._is_own(cleaned):
                continue
            if (
                self._host is None
                or link_requests.host_of(cleaned)[: link_rows.MAX_HOST] == self._host
            ):
                yield cleaned, use

    def _is_own(self, url: str) -> bool:
        """Return whether a URL belongs to the Archive: it has the same host and port."""
        own = urlsplit(self.archive.config.base_url)
        parts = urlsplit(url)
        if parts.hostname != own.hostname:
            return False
        return parts.port == own.port or {parts.port, own.port} <= {None, 80, 443}

    def check(self, progress: Callable[[int], object] = lambda count: None) -> None:
        """Check all links that are due, and store the result of each link at once.

        :param progress: called after each check with the number 1. Only one thread calls the
            function at a time.
        :raises NotReady: if the database stops responding.
        """
        hosts = self._rows.read_due_hosts(self._limit)
        with ThreadPoolExecutor(self.threads, "check-links") as pool:
            workers = [pool.submit(self._work, hosts, progress) for _ in range(self.threads)]
            try:
                wait(workers, return_when=FIRST_EXCEPTION)
            finally:
                # After an interrupt, too, each thread finishes its current link and then ends.
                self._stop.set()
        for error in filter(None, [worker.exception() for worker in workers]):
            if not isinstance(error, link_requests.Stopped):
                raise error

    def report(self) -> Iterator[LinkFailure]:
        """Yield the broken links, and store the time of the report."""
        links = self._rows.read_broken(self.archive.config.link_failures)
        while batch := {link.digest: LinkFailure(link) for link in islice(links, REPORT_BATCH)}:
            for url, use in self._read_uses():
                failure = batch.get(link_rows.compute_digest(url))
                if failure is not None:
                    failure.add(use)
            yield from batch.values()
            self._rows.store_report_time(list(batch), self._now())

    # --- in the threads --------------------------------------------------------------------------

    def _work(self, hosts: Iterator[str], progress: Callable[[int], object]) -> None:
        """Check one host after the other, until all hosts are checked or the run is stopped.

        :param hosts: the hosts that are left. All threads share this iterator.
        """
        while not self._stop.is_set():
            with self._lock:
                host = next(hosts, None)
            if host is None:
                return
            self._check_host(host, progress)

    def _check_host(self, host: str, progress: Callable[[int], object]) -> None:
        """Check the links to one host, one link after the other."""
        failures = 0
        status = link_requests.LinkStatus()
        for link in self._rows.read_due_links(host, self._limit):
            if self._stop.is_set():
                raise link_requests.Stopped
            if self._limits.is_excluded(host):
                status = link_requests.LinkStatus(postponed=True)
            elif failures < link_requests.MAX_HOST_FAILURES:
                status = self._client.check(link.url)
                failures = failures + 1 if status.failed_host == host else 0
            # Otherwise the host is down. The next links to the host get the same status without a
            # request, because requests for all links could take days.
            if not status.postponed:
                self._rows.store_check(link, self._now(), status.error)
            with self._lock:
                works = "answered" if status.error is None else "failed"
                self.results["put off" if status.postponed else works] += 1
                progress(1)
