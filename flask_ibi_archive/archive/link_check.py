"""Looks whether the addresses elsewhere that items lead to still answer, and tells those that
failed often.

A look that fails is no news: servers are down now and then. An address is told after it failed as
many looks in a row as the settings say (``IBI_LINK_FAILURES``); one good look, and it begins anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from threading import Event, Lock
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.archive.link_requests import (
    DEADLINE,
    HostLimits,
    LinkClient,
    LinkStatus,
    clean_url,
    host_of,
)
from flask_ibi_archive.storage.link_list import LinkList, Listed
from flask_ibi_archive.storage.link_rows import LinkNotes, Note, Use, read_uses

#: Hosts that are asked side by side.
THREADS = 8
#: Seconds between two requests to one host.
DELAY = 1.0
#: Connections to a host that fail, one after the other, before it is taken to be down.
DOWN_AFTER = 3
#: Places of an address that are told.
USES_SHOWN = 100
#: Notes that are marked or forgotten at a time.
BATCH = 500


@dataclass(frozen=True, slots=True)
class LinkFailure:
    """An address that failed often.

    :param used: in how many places it stands.
    :param uses: the first of them.
    """

    note: Note
    used: int
    uses: tuple[Use, ...]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        note = self.note
        return {
            "url": note.url,
            "error": note.error,
            "failures": note.failures,
            "failing_since": note.failing_since and _iso(note.failing_since),
            "checked_at": _iso(note.checked_at),
            "noticed_at": note.noticed_at and _iso(note.noticed_at),
            "used": self.used,
            "uses": [
                {"ibi": use.ibi, "path": use.path}
                if use.relation is None
                else {"ibi": use.ibi, "relation": use.relation}
                for use in self.uses
            ],
        }


def _iso(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class _Stopped(Exception):
    """The run is over before its end."""


class LinkChecker:
    """One run over the addresses of an Archive's items; a context manager.

    :param delay: seconds between two requests to one host.
    :param threads: hosts that are asked side by side.
    :param older_than: leave out what was looked at since then.
    :param host: look at the addresses of this host alone, and tell those alone.
    :param deadline: seconds for an address.
    :param now: gives the time that is noted.
    :param clock: gives the seconds that delays are counted in.
    :param pause: waits some seconds; None: until they are over, or the run is.
    """

    def __init__(
        self,
        archive: ArchiveService,
        *,
        delay: float = DELAY,
        threads: int = THREADS,
        older_than: timedelta | None = None,
        host: str | None = None,
        deadline: float = DEADLINE,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        clock: Callable[[], float] = monotonic,
        pause: Callable[[float], object] | None = None,
    ) -> None:
        self.archive = archive
        self.threads = threads
        self.older_than = older_than
        self.host = None if host is None else host.lower().rstrip(".")
        self._now = now
        self._pause = pause
        #: How many addresses answered, failed, or were put off because their hosts asked for it.
        self.found: Counter[str] = Counter()
        self._stop = Event()
        self._lock = Lock()
        self._notes = LinkNotes(archive.database, archive.served().id)
        self._limits = HostLimits(delay, clock, self._wait)
        config = archive.config
        self._client = LinkClient(
            self._limits, user_agent(config.base_url), config.inner_hosts, deadline
        )
        # last: what fails above leaves nothing open
        self._links = LinkList()

    def __enter__(self) -> LinkChecker:
        return self

    def __exit__(self, *error: object) -> None:
        self._links.close()

    def collect(self) -> int:
        """Gather the addresses, and forget those that no item has any longer.

        :returns: how many are to be looked at.
        """
        for url, use in read_uses(self.archive.database, self.archive.served().id):
            cleaned = clean_url(url)
            if cleaned is not None and not self._is_ours(cleaned):
                self._links.add(cleaned, host_of(cleaned), use)
        self._links.complete()
        gone = self._mark_known()
        while batch := list(islice(gone, BATCH)):
            self._notes.forget(batch)
        if self.host is not None:
            self._links.keep_host(self.host)
        return self._links.count_due()

    def _is_ours(self, url: str) -> bool:
        ours = urlsplit(self.archive.config.base_url)
        parts = urlsplit(url)
        if parts.hostname != ours.hostname:
            return False
        return parts.port == ours.port or {parts.port, ours.port} <= {None, 80, 443}

    def _mark_known(self) -> Iterator[str]:
        """Mark what was looked at before; give what no item has any longer."""
        limit = None if self.older_than is None else self._now() - self.older_than
        for note in self._notes.read():
            due = limit is None or note.checked_at <= limit
            if not self._links.set_checked(note.digest, note.checked_at.isoformat(), due=due):
                yield note.digest

    def look(self, progress: Callable[[int], object] = lambda count: None) -> None:
        """LinkStatus at all that was gathered; each look is stored as it comes.

        :param progress: called with the number of addresses that are done with, by one thread at a
            time.
        :raises NotReady: if the database goes away.
        """
        hosts = self._links.hosts()
        with ThreadPoolExecutor(self.threads, "check-links") as pool:
            working = [pool.submit(self._work, hosts, progress) for _ in range(self.threads)]
            try:
                wait(working, return_when=FIRST_EXCEPTION)
            finally:
                # also when the run is interrupted: the others end with what they are at
                self._stop.set()
        errors = [error for error in (work.exception() for work in working) if error is not None]
        for error in errors:
            if not isinstance(error, _Stopped):
                raise error

    def failures(self) -> Iterator[LinkFailure]:
        """Return the addresses that failed so often that it is told, and note that it was."""
        told: list[str] = []
        for note in self._notes.read(self.archive.config.link_failures):
            if self.host is not None and self._links.host_of(note.digest) != self.host:
                continue
            yield LinkFailure(note, *self._links.uses(note.digest, USES_SHOWN))
            told.append(note.digest)
            if len(told) == BATCH:
                self._notes.notice(told, self._now())
                told.clear()
        if told:
            self._notes.notice(told, self._now())

    # --- in the threads --------------------------------------------------------------------------

    def _wait(self, seconds: float) -> None:
        if self._pause is not None:
            self._pause(seconds)
        elif self._stop.wait(seconds):
            raise _Stopped

    def _work(self, hosts: Iterator[str], progress: Callable[[int], object]) -> None:
        while not self._stop.is_set():
            with self._lock:
                host = next(hosts, None)
            if host is None:
                return
            self._look_at(host, progress)

    def _look_at(self, host: str, progress: Callable[[int], object]) -> None:
        """LinkStatus at the addresses of a host, one after the other."""
        down = 0
        look = LinkStatus()
        for link in self._links.due(host):
            if self._stop.is_set():
                raise _Stopped
            if self._limits.leaves_alone(host):
                look = LinkStatus(not_now=True)
            elif down < DOWN_AFTER:
                look = self._client.look(link.url)
                down = down + 1 if look.unreachable == host else 0
            # else the host is down, and fails all its addresses alike; to ask for each would take
            # days
            self._note(link, look)
            with self._lock:
                progress(1)

    def _note(self, link: Listed, look: LinkStatus) -> None:
        with self._lock:
            self.found["put off" if look.not_now else "failed" if look.error else "answered"] += 1
        if look.not_now:
            return
        seen = datetime.fromisoformat(link.checked_at) if link.checked_at else None
        with self._lock:
            self._notes.write(link.url, seen, self._now(), look.error)


def user_agent(address: str) -> str:
    """Return what the requests say of who asks: the program, and the Archive that it asks for."""
    try:
        number = version("flask_ibi_archive")
    except PackageNotFoundError:
        number = "unknown"
    return f"flask_ibi_archive/{number} (+{address})"
