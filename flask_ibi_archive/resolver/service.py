"""The resolver of an app. The blueprint and the commands use the resolver."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Sequence
from dataclasses import replace
from random import random
from typing import TYPE_CHECKING

from flask_ibi_archive.core.identifiers.grammar import Identifier
from flask_ibi_archive.core.protocol.messages import MAX_QUERY, format_request
from flask_ibi_archive.core.resolution.answer import is_same_address
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.resolver import claims
from flask_ibi_archive.resolver.archives import (
    Archive,
    ArchiveList,
    ArchiveListReader,
    Known,
    Registry,
)
from flask_ibi_archive.resolver.asking import ArchiveResult, CircuitBreaker, FanOut, Reply
from flask_ibi_archive.resolver.claims import Follower, FollowerThread, OnProgress
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.hints import HintWriter
from flask_ibi_archive.resolver.resolving import (
    Acknowledged,
    LocalArchive,
    Resolution,
    ResolutionRequest,
    Trace,
)
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database, lock_table_setup
from flask_ibi_archive.server.database.migrate import RESOLVER
from flask_ibi_archive.signals import NOBODY, Notifier

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from flask_ibi_archive.resolver.registry_2008.operations import DocumentRegistry

#: KiB of the file that each SQLite connection caches. Each resolution reads another hint, so the
#: cached pages are hardly ever used again. Without this limit, the cache of each connection would
#: fill up to SQLite's default of 2000 KiB.
PAGE_CACHE = 64


class ResolverService:
    """The resolver of an app. The class is thread-safe.

    :ivar registry: registers, includes and excludes Archives.
    :ivar document_registry: registers actors and documents. None if the resolver does not do this.
    :ivar circuit_breaker: skips Archives that failed repeatedly.
    :ivar fan_out: sends requests to Archives.
    :ivar hint_writer: stores hints, metrics and failed URLs.
    :ivar follower_thread: reads these claims if IBI_RESOLVER_FOLLOW is set.
    """

    def __init__(
        self, config: ResolverConfig, database: Database, notifier: Notifier = NOBODY
    ) -> None:
        self.config = config
        self.database = database
        database.limit_page_cache(PAGE_CACHE)
        self.registry = Registry(database, config, notifier=notifier)
        self.circuit_breaker = CircuitBreaker()
        self.hint_writer = HintWriter(database)
        self.follower_thread = FollowerThread(self.make_follower)
        self.archive_list = ArchiveListReader(config.claims_max_age)
        self.fan_out = FanOut(config, self._record_result)
        self.document_registry = self._create_document_registry() if config.registry else None
        atexit.register(_close_at_exit, weakref.ref(self))

    def _create_document_registry(self) -> DocumentRegistry:
        """Return the document registry. Resolvers without IBI_RESOLVER_REGISTRY don't load it."""
        from flask_ibi_archive.resolver.registry_2008.operations import DocumentRegistry

        return DocumentRegistry(self.database, self.config, self._find_claimant)

    def _find_claimant(self, connection: Connection, ibi: Identifier) -> str | None:
        """Return the service IBI of an included Archive that claims an identifier, or None.

        An Archive where an item with the identifier was last found counts as such an Archive.
        """
        archives, known = self.archive_list.read(connection, [ibi.text], [ibi.prefix])
        claimants, hinted = known[ibi.text].claimants, known[ibi.text].hinted
        holder = claimants[0].archive_id if claimants else hinted
        return None if holder is None else archives.archives[holder].service_ibi

    def make_follower(self, on_progress: OnProgress = lambda pages, claims: None) -> Follower:
        """Return a follower of the claims of the included Archives.

        :param on_progress: see :class:`Follower`.
        """
        return Follower(self.config, self.database, self.registry.notifier, on_progress=on_progress)

    def resolve(
        self,
        request: ResolutionRequest,
        trace: Trace | None = None,
        *,
        acknowledges: bool = True,
        own: LocalArchive | None = None,
    ) -> Redirect | Alert:
        """Return a redirect or an alert for a persistent URL.

        The acknowledgment is sent in the background. This method executes only one SELECT, and one
        more for each round if the resolver has a document registry. Hints are read and written only
        if the claims of the Archive do not tell the same. Metrics are written later.

        :param trace: a function that receives each trace event (resolving.py).
        :param acknowledges: True sends an acknowledgment to the Archive that has the item.
        :param own: the Archive in this process. None if this process has no Archive.
        :raises NotReady: if the database is not available.
        Source: [R] 6.2.
        """
        ibi = request.wanted.ibi
        archives, known = self._look_up([ibi])
        resolution = Resolution(
            request,
            archives,
            known,
            self.config,
            self.fan_out,
            self.circuit_breaker,
            own,
            None if self.document_registry is None else self.document_registry.list_answers,
            trace,
            look_up=(lambda further: self._look_up(further)[1]) if archives.has_claims else None,
        )
        outcome, archive = resolution.run()
        if archives.has_claims and random() < claims.SHARE:
            self._audit(ibi, archives, known[ibi.text], own)
        if isinstance(outcome, Redirect) and is_same_address(outcome.url, request.persistent_url):
            return Alert(AlertKind.LOOP, ibi)
        if archive is not None:
            self._add_hints(outcome, archive, archives, known[ibi.text], ibi)
            if isinstance(outcome, Redirect) and acknowledges:
                self._acknowledge(request, outcome, archive, trace)
        return outcome

    def _audit(
        self, ibi: Identifier, archives: ArchiveList, known: Known, own: LocalArchive | None
    ) -> None:
        trusted = [
            archive
            for archive in archives.archives.values()
            if archive.id not in archives.always
            and not (own and archive.service_ibi == own.find_service())  # can't be asked by HTTP
        ]
        claimed = {one.archive_id: one.state for one in known.claimants}
        claims.audit_claims(
            self.database, self.fan_out, ibi, trusted, claimed, self.config.claims_max_age
        )

    def _look_up(self, identifiers: Sequence[Identifier]) -> tuple[ArchiveList, dict[str, Known]]:
        names, prefixes = [ibi.text for ibi in identifiers], [ibi.prefix for ibi in identifiers]
        return self.database.read(
            lambda connection: self.archive_list.read(connection, names, prefixes)
        )

    def _add_hints(
        self,
        outcome: Redirect | Alert,
        archive: Archive,
        archives: ArchiveList,
        known: Known,
        wanted: Identifier,
    ) -> None:
        """Remember where an item was found, unless a hint or the claims of the Archive tell it."""
        found = _list_found(outcome)
        is_claimed = archive.id not in archives.always and self.document_registry is None
        is_hinted = known.hinted == archive.id and wanted in found
        self.hint_writer.add_hints(
            archive.id,
            [] if is_claimed or is_hinted else [ibi.text for ibi in found],
            [ibi.prefix for ibi in found if isinstance(outcome, Redirect)],
        )

    def _acknowledge(
        self,
        request: ResolutionRequest,
        redirect: Redirect,
        archive: Archive,
        trace: Trace | None,
    ) -> None:
        """Notify an Archive that a user was redirected to its URL ([R] 6.2, Table 6.11)."""
        message = redirect.create_acknowledgment(request.client_addresses, request.persistent_url)
        if message is None:
            return
        query = format_request(message)
        if len(query) > MAX_QUERY:  # the query is too long: omit the query of the persistent URL
            shorter = request.persistent_url.partition("?")[0]
            query = format_request(replace(message, persistent_url=shorter))
        url = f"{archive.service_url}?{query}"
        # the Archive recognises robots by the User-Agent header of the user
        agent = request.user_agent
        headers = {} if agent is None else {"X-Forwarded-User-Agent": agent}
        if self.fan_out.send_acknowledgment(url, headers) and trace is not None:
            trace(Acknowledged(archive, url))

    def _record_result(self, result: ArchiveResult) -> None:
        """Update the circuit breaker and the metrics of an Archive."""
        archive_id = result.target.archive.id
        failure = None if isinstance(result, Reply) else result.reason
        if isinstance(result, Reply) or not result.is_refusal:
            self.circuit_breaker.record_result(archive_id, failure is None)
        self.hint_writer.add_result(archive_id, result.seconds, failure)

    def init(self) -> None:
        """Create or upgrade the tables of the resolver.

        :raises NotReady: if the database is not available.
        """
        self.database.create()
        with self.database.writing() as connection:
            lock_table_setup(connection)
            migrate.upgrade(connection, history=RESOLVER)

    def close(self, seconds: float = 2.0) -> None:
        """Wait for pending acknowledgments, store metrics, and close the connections.

        :param seconds: the maximum time to wait for each of the background threads.
        """
        self.follower_thread.close(seconds)
        self.fan_out.close(seconds)
        self.hint_writer.flush()
        self.database.close()


def _list_found(outcome: Redirect | Alert) -> tuple[Identifier, ...]:
    """Return the identifiers of the item that an Archive has or had."""
    if isinstance(outcome, Redirect):
        return (outcome.question.ibi, *outcome.ibi)
    return () if outcome.ibi is None else (outcome.ibi,)


def _close_at_exit(reference: weakref.ref[ResolverService]) -> None:
    resolver = reference()
    if resolver is not None:
        resolver.close(1.0)
