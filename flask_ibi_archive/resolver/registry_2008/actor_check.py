"""The check of the URLs of all actors. The check cancels actors whose URLs no longer work.

The registration of an actor is cancelled if none of its URLs has worked for two years. The command
``flask ibi-resolver registry check`` requests the URLs of each actor, until one of them works.

If no URL works, the network of the resolver may be down. Therefore the failure of an actor is
stored only after a URL of another actor has worked that was requested later.

Source: [P] 4.1, note 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from itertools import chain, islice
from threading import Event
from typing import Any

from sqlalchemy import Connection, exists, func, select, update

from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.registry_2008.actors import Cancellation, cancel_actor, lock_actor
from flask_ibi_archive.resolver.registry_2008.tables import Actor, RegisteredMetadata, Registration
from flask_ibi_archive.server.database.database import Database
from flask_ibi_archive.server.database.dialects import read_pages
from flask_ibi_archive.server.http.link_check import LinkError, find_link_error

#: An actor is cancelled if its URLs have not worked for this time.
PERIOD = timedelta(days=730)

#: The seconds between two requests for an actor, and the number of actors checked at a time.
DELAY, THREADS = 1.0, 8
#: After so many consecutive failures to reach a host, the actor's other URLs there are not tried.
MAX_HOST_FAILURES = 3

#: The results of the check of an actor.
WORKING, FAILING = "working", "failing"
#: The changes that the check stores, beside :data:`FAILING`.
WORKS_AGAIN, CANCELLED = "works again", "cancelled"


@dataclass(frozen=True, slots=True)
class ActorChange:
    """A change that the check has found.

    :param address: the host name and port of the actor.
    :param state: :data:`FAILING`, :data:`WORKS_AGAIN` or :data:`CANCELLED`.
    :param failing_since: the date of the first check in which no URL worked.
    :param error: the reason why the last URL of the actor does not work. None if a URL works.
    :param cancellation: None if the actor was not cancelled.
    """

    actor_id: str
    address: str
    email: str
    state: str
    failing_since: datetime
    error: str | None = None
    cancellation: Cancellation | None = None


@dataclass(frozen=True, slots=True)
class _Result:
    """The result of the check of one actor.

    :param id: the id of the actor in the table.
    :param failing_since: the date that was stored before the check.
    :param checked_at: the date when the check began.
    :param kind: :data:`WORKING` or :data:`FAILING`.
    :param digest: the hash of all URLs that were checked.
    :param url: the URL that works, or None.
    :param error: the reason why the last URL does not work, or None.
    """

    id: int
    failing_since: datetime | None
    checked_at: datetime
    kind: str
    digest: bytes
    url: str | None
    error: str | None


class ActorChecker:
    """Checks the URLs of all actors that have registrations.

    :ivar results: the number of actors for each result.
    :ivar changes: the number of changes for each state.
    :ivar unconfirmed: the number of failing actors for which nothing was stored, because the
        network of the resolver is probably down.

    :param dry_run: True changes nothing in the database.
    :param delay: seconds between two requests for an actor.
    :param threads: the number of actors that are checked at the same time.
    :param now: returns the current time, which is stored.
    """

    def __init__(
        self,
        database: Database,
        config: ResolverConfig,
        *,
        dry_run: bool = False,
        delay: float = DELAY,
        threads: int = THREADS,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self.database = database
        self.config = config
        self.dry_run = dry_run
        self.delay = delay
        self.threads = threads
        self.results: Counter[str] = Counter()
        self.changes: Counter[str] = Counter()
        self.unconfirmed = 0
        self._now = now
        #: Set when the threads must end.
        self._stop = Event()

    def count(self) -> int:
        """Return the number of actors that :meth:`run` checks."""
        statement = select(func.count()).select_from(_REGISTERED.subquery())
        return int(self.database.read_rows(statement)[0][0])

    def run(self, progress: Callable[[int], object] = lambda done: None) -> Iterator[ActorChange]:
        """Check all actors, and yield each change after the change was stored.

        The failure of an actor is not stored at once, because the network of the resolver may be
        down. When a URL of a later actor works, the network works too. Only then, the failures
        before it are stored. No transaction is open while URLs are requested.

        :param progress: called after the check of each actor with the number of checked actors.
        :raises NotReady: if the database stops responding.
        """
        unconfirmed: list[_Result] = []
        working_url = None
        self._clear_dates()
        for result in self._check_all():
            self.results[result.kind] += 1
            progress(self.results.total())
            if result.kind == FAILING:
                unconfirmed.append(result)
            elif result.kind == WORKING:
                working_url = result.url
                yield from self._store([result])
                yield from self._store(unconfirmed)
                unconfirmed.clear()
        if self._is_network_down(working_url, len(unconfirmed)):
            self.unconfirmed = len(unconfirmed)
        else:
            yield from self._store(unconfirmed)

    def _is_network_down(self, working_url: str | None, failing: int) -> bool:
        """Return whether the network may be the reason why the last actors fail.

        :param working_url: the last URL that worked, or None.
        :param failing: the number of actors that failed after this URL had worked.
        """
        if working_url is None:
            return failing > 1  # a single actor may well be the cause itself
        return failing > 0 and self._find_error(working_url) is not None

    # --- storing ---------------------------------------------------------------------------------

    def _clear_dates(self) -> None:
        """Delete the dates of actors without registrations: they have no URL that could fail."""
        if not self.dry_run:
            unused = Actor.cancelled_at.is_(None) & ~_HAS_REGISTRATIONS
            dated = update(Actor).where(unused, Actor.failing_since.is_not(None))
            with self.database.writing() as connection:
                connection.execute(dated.values(failing_since=None))

    def _store(self, results: Sequence[_Result]) -> Iterator[ActorChange]:
        """Store the results of checks, and yield the changes."""
        for result in results:
            if not _is_change(result):
                continue
            with self.database.writing() as connection:
                change = self._store_one(connection, result)
                if self.dry_run:
                    connection.rollback()
            if change is not None:
                self.changes[change.state] += 1
                yield change

    def _store_one(self, connection: Connection, result: _Result) -> ActorChange | None:
        """Store the result of a check.

        :returns: None if nothing was stored, because the registrations of the actor have changed
            since the check.
        """
        actor = lock_actor(connection, result.id)
        if actor is None or actor.failing_since != result.failing_since:
            return None
        state, cancellation = WORKS_AGAIN, None
        if result.kind == FAILING:
            # the digest shows whether the URLs are still those that were checked
            digest = sha256()
            for _ in _read_urls(lambda page: connection.execute(page).all(), result.id, digest):
                pass
            if digest.digest() != result.digest:
                return None
            state = FAILING if result.failing_since is None else CANCELLED
        if state == CANCELLED:
            cancellation = cancel_actor(connection, result.id, self._now())
        else:
            failing_since = result.checked_at if state == FAILING else None
            connection.execute(
                update(Actor).where(Actor.id == result.id).values(failing_since=failing_since)
            )
        return ActorChange(
            actor.actor_id,
            actor.address,
            actor.email,
            state,
            result.failing_since or result.checked_at,
            result.error,
            cancellation,
        )

    # --- requesting ------------------------------------------------------------------------------

    def _check_all(self) -> Iterator[_Result]:
        """Check all actors, and yield the results. Only few actors are in memory at a time."""
        actors = read_pages(self.database.read_rows, _REGISTERED, Actor.id)
        with ThreadPoolExecutor(self.threads, "check-actors") as pool:

            def start(number: int) -> set[Future[_Result]]:
                return {pool.submit(self._check, *actor) for actor in islice(actors, number)}

            try:
                running = start(self.threads)
                while running:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    running |= start(len(done))
                    for future in done:
                        yield future.result()
            except BaseException:
                # after an interrupt, each thread finishes its current request and then ends
                self._stop.set()
                raise

    def _check(self, actor_row_id: int, failing_since: datetime | None) -> _Result:
        """Check the URLs of an actor until one of them works."""
        checked_at, digest = self._now(), sha256()
        failures: Counter[str] = Counter()  # the consecutive failures to reach each host
        error: str | None = None

        def result(kind: str, url: str | None = None) -> _Result:
            return _Result(
                actor_row_id, failing_since, checked_at, kind, digest.digest(), url, error
            )

        for url in _read_urls(self.database.read_rows, actor_row_id, digest):
            host = url.partition("//")[2].partition("/")[0]
            if failures[host] >= MAX_HOST_FAILURES:
                continue  # the host is down; requests for all URLs could take days
            if error is not None and self._stop.wait(self.delay):
                break
            found = self._find_error(url)
            if found is None:
                error = None
                return result(WORKING, url)
            error = found.reason
            failures[host] = failures[host] + 1 if found.is_of_host else 0
        # without an error, the registrations of the actor were just deleted
        return result(FAILING if error else WORKING)

    def _find_error(self, url: str) -> LinkError | None:
        base_url = self.config.service_url or self.config.service_ibi
        return find_link_error(url, base_url, self.config.inner_hosts)


_HAS_REGISTRATIONS = exists().where(Registration.actor_id == Actor.id)
#: The actors that have registrations, and the date that the earlier checks stored.
_REGISTERED = select(Actor.id, Actor.failing_since).where(_HAS_REGISTRATIONS)


def _read_urls(
    read: Callable[[Any], Sequence[Any]], actor_row_id: int, digest: Any
) -> Iterator[str]:
    """Yield the URLs of an actor, in pages: first of its documents, then of their metadata.

    :param read: a function that executes a statement and returns its rows.
    :param digest: each URL is added to this hash.
    """
    own = Registration.actor_id == actor_row_id
    documents = select(Registration.id, Registration.url).where(own, Registration.url.is_not(None))
    metadata = select(
        RegisteredMetadata.registration_id, RegisteredMetadata.number, RegisteredMetadata.url
    ).join(Registration, Registration.id == RegisteredMetadata.registration_id)
    key = (RegisteredMetadata.registration_id, RegisteredMetadata.number)
    for row in chain(
        read_pages(read, documents, Registration.id),
        # the condition on Registration.id is not necessary, but PostgreSQL is faster with it
        read_pages(read, metadata.where(own), *key, start=Registration.id),
    ):
        digest.update(f"{row.url}\n".encode())
        yield row.url


def _is_change(result: _Result) -> bool:
    """Return whether the result of a check must be stored."""
    if result.failing_since is None:
        return result.kind == FAILING
    return result.kind == WORKING or result.checked_at - result.failing_since >= PERIOD
