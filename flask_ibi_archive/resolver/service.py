"""A resolver at work: what web and command line ask of it."""

from __future__ import annotations

import atexit
import weakref
from dataclasses import replace

from sqlalchemy import Connection

from flask_ibi_archive.protocol.messages import MAX_QUERY, format_request
from flask_ibi_archive.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.resolution.redirect_target import is_same_address
from flask_ibi_archive.resolver.circuit_breaker import CircuitBreaker
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.directory import IncludedArchive, read_directory
from flask_ibi_archive.resolver.fan_out import FanOut, Reply
from flask_ibi_archive.resolver.fan_out import Result as Ended
from flask_ibi_archive.resolver.hint_writer import HintWriter
from flask_ibi_archive.resolver.registry import Registry
from flask_ibi_archive.resolver.resolving import Resolution, ResolutionRequest
from flask_ibi_archive.resolver.rounds import OwnArchive, service_url
from flask_ibi_archive.resolver.trace import Acknowledged, Trace
from flask_ibi_archive.storage import migrate
from flask_ibi_archive.storage.database import Database, lock_out_others
from flask_ibi_archive.storage.migrate import RESOLVER


class ResolverService:
    """The resolver that an app runs. Threads may share it.

    :ivar registry: registers Archives, and includes and excludes them.
    :ivar health: knows which Archives are skipped for a while.
    :ivar fan_out: asks the Archives.
    :ivar notebook: gathers what is learnt on the way.
    """

    def __init__(self, config: ResolverConfig, database: Database) -> None:
        self.config = config
        self.database = database
        self.registry = Registry(database, config)
        self.health = CircuitBreaker()
        self.notebook = HintWriter(database)
        self.fan_out = FanOut(
            config.archive_timeout, config.max_answer, self._take_note, config.inner_hosts
        )
        atexit.register(_close_at_exit, weakref.ref(self))

    def resolve(
        self,
        request: ResolutionRequest,
        trace: Trace | None = None,
        *,
        acknowledges: bool = True,
        own: OwnArchive | None = None,
    ) -> Redirect | Alert:
        """Return what a persistent URL leads to; the Archive that it leads to is told of it.

        One statement is read from the database, and nothing written; the acknowledgment is on its
        way when this returns, and not waited for.

        :param trace: is told of each message and decision, as it happens.
        :param acknowledges: whether the Archive is told, since somebody reads what it is about.
        :param own: the Archive that runs in this process, if one does.
        :raises NotReady: if the database does not answer.
        Source: [R] 6.2.
        """
        archives, hinted = self._read_directory(request.wanted.ibi.text)
        resolution = Resolution(
            request,
            archives,
            hinted,
            self.fan_out,
            self.health,
            deadline=self.config.deadline,
            max_rounds=self.config.max_rounds,
            inner_hosts=self.config.inner_hosts,
            own=own,
            trace=trace,
        )
        result = resolution.run()
        outcome, archive = result.outcome, result.archive
        if isinstance(outcome, Redirect) and is_same_address(outcome.url, request.persistent_url):
            return Alert(AlertKind.LOOP, request.wanted.ibi)
        if isinstance(outcome, Redirect) and archive is not None:
            self.notebook.note_found(outcome.question.ibi.text, archive.id)
            if acknowledges:
                self._acknowledge(request, outcome, archive, trace)
        return outcome

    def _read_directory(self, ibi: str) -> tuple[list[IncludedArchive], int | None]:
        def read(connection: Connection) -> tuple[list[IncludedArchive], int | None]:
            return read_directory(connection, ibi)

        return self.database.read(read)

    def _acknowledge(
        self,
        request: ResolutionRequest,
        redirect: Redirect,
        archive: IncludedArchive,
        trace: Trace | None,
    ) -> None:
        """Tell an Archive that its URL was given to a reader ([R] 6.2, Table 6.11)."""
        message = redirect.create_acknowledgment(request.client_addresses, request.persistent_url)
        if message is None:
            return
        query = format_request(message)
        if len(query) > MAX_QUERY:  # it would be refused; the item was read all the same
            shorter = request.persistent_url.partition("?")[0]
            query = format_request(replace(message, persistent_url=shorter))
        url = f"{service_url(archive)}?{query}"
        # by the reader's program the Archive tells robots from people
        agent = request.user_agent
        headers = {} if agent is None else {"X-Forwarded-User-Agent": agent}
        if self.fan_out.send(url, headers) and trace is not None:
            trace(Acknowledged(redirect.source, url))

    def _take_note(self, ended: Ended) -> None:
        archive_id = ended.target.archive.id
        if isinstance(ended, Reply) or not ended.refuses:
            self.health.took(archive_id, isinstance(ended, Reply))
        if isinstance(ended, Reply):
            self.notebook.note_answer(archive_id, ended.seconds)
        else:
            self.notebook.note_failure(archive_id, ended.reason)

    # --- what an administrator does --------------------------------------------------------------

    def init(self) -> None:
        """Bring the tables up to date.

        :raises NotReady: if the database does not answer.
        """
        self.database.create()
        with self.database.writing() as connection:
            lock_out_others(connection)
            migrate.upgrade(connection, history=RESOLVER)

    def close(self, seconds: float = 2.0) -> None:
        """Wait for acknowledgments that are under way, and write down what was learnt."""
        self.fan_out.close(seconds)
        self.notebook.close(seconds)
        self.database.close()


def _close_at_exit(resolver: weakref.ref[ResolverService]) -> None:
    found = resolver()
    if found is not None:
        found.close(1.0)
