"""Resolvers with Archives on loopback, which answer from tables and record the requests."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeAlias

from flask import Flask
from sqlalchemy import event

from flask_ibi_archive.core.protocol.inclusion import InclusionConfirmationRequest
from flask_ibi_archive.core.protocol.languages import parse_accept_language
from flask_ibi_archive.core.protocol.messages import Acknowledgment, UrlRequest, parse_request
from flask_ibi_archive.core.protocol.pairs import Pair, decode_query_string, parse_pairs
from flask_ibi_archive.core.protocol.relations import format_verb_list
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.core.resolution.persistent_url import ResolutionRequest, read_persistent_url
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.resolver.archives import Archive, ArchiveList, Claimant, Known, Registry
from flask_ibi_archive.resolver.asking import ArchiveResult, CircuitBreaker, Failure, Reply, Target
from flask_ibi_archive.resolver.resolving import (
    ReadDocuments,
    Resolution,
    ResolverService,
    TraceEvent,
)
from flask_ibi_archive.server.database.database import Database
from support.archive_servers import Servers, http
from support.loopback import HERE, PATIENCE
from support.registries import (
    KEY,
    a_config,
    a_registry,
    a_request,
    copy_tables,
    resolver_database,
)

X, Y, Z = (f"a.br/{letter}/2001/01.01.00.00" for letter in "xyz")
USER = "150.163.2.175"
URL_KEY = "1234567890-0123456789"
ORIGINAL = "?ibiurl.requireditemstatus=Original"
SIGNS = {"GetLastEdition": "!", "GetTranslation": "+", "GetMetadata": ":", " ": ""}

#: The answer of an Archive to each question, which is written as a persistent URL
#: (``IBI!:(oai_dc)/path``). Other items are unknown. None: no response; bytes: a whole response.
Table: TypeAlias = Mapping[str, "str | bytes | None"]


#: Creates Archives that answer from tables, and a resolver that has included them.
Run: TypeAlias = "Callable[..., tuple[ResolverService, list[TableArchive]]]"


def leads(url: str, state: str = "Original", relation: str = "", key: str = URL_KEY) -> str:
    """Return the answer of an Archive that has the item."""
    return "\r\n".join(
        [
            f"contenttype{relation} Data",
            f"state{relation} {state}",
            f"url{relation} {url}",
            *([f"urlkey {key}"] if key else []),
        ]
    )


def goes_on(ibi: str) -> str:
    """Return the answer of an Archive that only knows the next edition of the item."""
    return f"ibi.nextedition {{rep {ibi}}}"


class TableArchive:
    """An Archive on loopback.

    :param table: the answers.
    :param number: a number that makes the IBI of its service unique.
    """

    def __init__(self, hosts: Servers, number: int, table: Table) -> None:
        self.table = dict(table)
        self.service = f"a.br/service/2000/01.01.00.{number:02}"
        self.server = hosts.add(self)
        self.address = self.server.address
        self.thanks: SimpleQueue[Acknowledgment] = SimpleQueue()

    def __call__(self, target: str, head: str) -> bytes | None:
        """Answer a request."""
        path, _, query = target.partition("?")
        if path != f"/{self.service}":
            return http("alert {no such path}", "404 Not Found")
        request = parse_request(decode_query_string(query))
        if isinstance(request, Acknowledgment):
            self.thanks.put(request)
            return http("notice {acknowledgment received}")
        if isinstance(request, InclusionConfirmationRequest):
            return http("confirmation yes")
        found = self.table.get(name_of(request), "")
        return http(found) if isinstance(found, str) else found

    @property
    def questions(self) -> list[str]:
        """The questions received so far."""
        requests = (parse_request(decode_query_string(one.partition("?")[2])) for one in self.asked)
        return [name_of(request) for request in requests if isinstance(request, UrlRequest)]

    @property
    def asked(self) -> list[str]:
        """The targets of all requests received so far."""
        return list(self.server.asked)

    def was_thanked(self) -> Acknowledgment:
        """Return the next acknowledgment that was received."""
        return self.thanks.get(timeout=PATIENCE)


def name_of(request: UrlRequest) -> str:
    """Return a question in the notation of the tables."""
    verbs = format_verb_list(request.verbs)
    for verb, sign in SIGNS.items():
        verbs = verbs.replace(verb, sign)
    return f"{request.ibi.text}{verbs}{request.filepath}"


def archives_of(hosts: Servers, *tables: Table) -> list[TableArchive]:
    """Start an Archive for each table."""
    return [TableArchive(hosts, number, table) for number, table in enumerate(tables, 1)]


def include(registry: Registry, archives: Sequence[TableArchive]) -> None:
    """Register and include Archives."""
    for archive in archives:
        registry.register(archive.service, KEY)
        registry.process(a_request(service_ibi=archive.service, address=archive.address))


@contextmanager
def resolver_over(
    archives: Sequence[TableArchive], uri: str = "sqlite://", **config: Any
) -> Iterator[ResolverService]:
    """Yield a resolver with included Archives; its default time limits are very long."""
    patient = {"IBI_RESOLVER_ARCHIVE_TIMEOUT": PATIENCE, "IBI_RESOLVER_DEADLINE": PATIENCE}
    with resolver_database(uri) as database:
        include(a_registry(database), archives)
        resolver = ResolverService(a_config(**{**patient, **config}), database)
        try:
            yield resolver
        finally:
            resolver.close()


@contextmanager
def app_over(
    archives: Sequence[TableArchive], folder: Path, app: Flask | None = None, **config: Any
) -> Iterator[Flask]:
    """Yield an app with a resolver that has included Archives.

    :param app: an existing app to use.
    """
    app = app or Flask("resolver", instance_path=str(folder))
    app.config.from_mapping(
        TESTING=True,
        PROPAGATE_EXCEPTIONS=True,
        IBI_RESOLVER_DATABASE_URI="sqlite://",
        IBI_RESOLVER_INNER_HOSTS=HERE,
        IBI_RESOLVER_ARCHIVE_TIMEOUT=PATIENCE,
        IBI_RESOLVER_DEADLINE=PATIENCE,
    )
    app.config.from_mapping(config)
    IBIResolver(app)
    resolver = resolver_of(app)
    try:
        if app.config["IBI_RESOLVER_DATABASE_URI"] == "sqlite://":
            copy_tables(resolver.database)
        resolver.init()
        include(a_registry(resolver.database), archives)
        yield app
    finally:
        resolver.close()


def resolver_of(app: Flask) -> ResolverService:
    """Return the resolver of an app."""
    found: ResolverService = app.extensions["ibi_resolver"].resolver
    return found


def wants(
    text: str, language: str | None = None, user_agent: str | None = "Mozilla/5.0"
) -> ResolutionRequest:
    """Return the request of a reader for a persistent URL."""
    return ResolutionRequest(
        read_persistent_url(text),
        f"http://urlib.net:80/{text}",
        (USER,),
        parse_accept_language(language),
        user_agent,
    )


@contextmanager
def statements_of(*databases: Database) -> Iterator[list[str]]:
    """Yield a list that receives the statements sent to some databases."""
    sent: list[str] = []

    def record(connection: Any, cursor: Any, statement: str, *more: Any) -> None:
        sent.append(statement)

    engines = [engine for one in databases for engine in (one.engine, one.reader)]
    for engine in engines:
        event.listen(engine, "before_cursor_execute", record)
    try:
        yield sent
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", record)


#: The seconds after which a resolution ends.
DEADLINE = 20.0
#: The time of an answer that never arrives, and the text of an answer that is a failure.
NEVER, NONSENSE = 1e9, None

#: The answers of an Archive: for each question the seconds until the answer, and its text. The
#: Archive answers other questions at once with an empty list.
Habits: TypeAlias = Mapping[str, "tuple[float, str | None]"]


class Network:
    """A simulated network: Archives, numbered from 1, that answer some seconds later."""

    def __init__(self, *archives: Habits) -> None:
        self.habits = dict(enumerate(archives, 1))
        self.archives = [
            Archive(number, f"a.br/service/2000/01.01.00.{number:02}", f"a{number}.br")
            for number in self.habits
        ]
        self.now = 0.0
        #: The questions that were sent: the time, the number of the Archive, and the question.
        self.asked: list[tuple[float, int, str]] = []

    def ask(
        self, targets: Sequence[Target], seconds: float, onto: SimulatedReplies | None
    ) -> SimulatedReplies:
        """Send requests, as :meth:`.asking.FanOut.ask`."""
        replies = onto or SimulatedReplies(self)
        for target in targets:
            request = parse_request(decode_query_string(target.url.partition("?")[2]))
            assert isinstance(request, UrlRequest)
            number = target.archive.id
            self.asked.append((round(self.now, 6), number, name_of(request)))
            took, pairs = self.answer(number, request)
            ended: ArchiveResult = Failure(target, "answers nonsense", took)
            if pairs is not None:
                ended = Reply(target, pairs, took)
            replies.add(took, partial(_return, ended))
        return replies

    def answer(self, number: int, request: UrlRequest) -> tuple[float, list[Pair] | None]:
        """Return the seconds until the answer of an Archive, and the answer."""
        took, text = self.habits[number].get(name_of(request), (0.0, ""))
        return took, None if text is None else parse_pairs(text)

    def resolve(
        self,
        text: str,
        hinted: int | None = None,
        breaker: CircuitBreaker | None = None,
        trace: Callable[[TraceEvent], None] | None = None,
        max_rounds: int = 16,
        language: str | None = None,
        documents: ReadDocuments | None = None,
        claimants: Sequence[Claimant] = (),
        claiming: Collection[int] = (),
    ) -> Redirect | Alert:
        """Resolve a persistent URL. Archives with claims are asked about nothing else.

        :param claimants: the Archives that claim the item.
        :param claiming: further Archives that publish claims.
        """
        fan_out: Any = self

        def clock() -> float:
            return self.now

        included = {archive.id: archive for archive in self.archives}
        request = wants(text, language)
        resolution = Resolution(
            request,
            ArchiveList(
                0, included, included.keys() - {one.archive_id for one in claimants} - set(claiming)
            ),
            {request.wanted.ibi.text: Known(tuple(claimants), (), (hinted,) if hinted else ())},
            a_config(IBI_RESOLVER_DEADLINE=DEADLINE, IBI_RESOLVER_MAX_ROUNDS=max_rounds),
            fan_out,
            breaker or CircuitBreaker(clock),
            trace=trace,
            documents=documents,
            clock=clock,
        )
        return resolution.run().outcome

    def times(self, name: str) -> dict[int, float]:
        """Return when each Archive received a question."""
        return {number: moment for moment, number, asked in self.asked if asked == name}


class SimulatedReplies:
    """The results that will arrive, in simulated time, as :class:`.asking.ReplyQueue`.

    :param network: has the present time as ``now``.
    """

    def __init__(self, network: Any) -> None:
        self.network = network
        #: The time, the place among those of the same time, a number, and the result.
        self.coming: list[tuple[float, float, int, Callable[[], ArchiveResult]]] = []
        self._numbers = count()

    def add(self, seconds: float, result: Callable[[], ArchiveResult], place: float = 0.0) -> None:
        """Let a result arrive after some seconds."""
        row = self.network.now + seconds, place, next(self._numbers), result
        heapq.heappush(self.coming, row)

    @property
    def pending(self) -> int:
        """The number of questions without a result."""
        return len(self.coming)

    def get(self, seconds: float) -> ArchiveResult | None:
        """Return the next result and advance the clock; None: there is none so soon."""
        if not self.coming or self.coming[0][0] > self.network.now + seconds:
            self.network.now += seconds
            return None
        moment, _, _, result = heapq.heappop(self.coming)
        self.network.now = max(self.network.now, moment)
        return result()

    def abandon(self) -> None:
        """Ignore all further results."""
        self.coming.clear()


def _return(result: ArchiveResult) -> ArchiveResult:
    return result


def url_of(outcome: Redirect | Alert) -> str:
    assert isinstance(outcome, Redirect), outcome
    return outcome.url


def silence_of(outcome: Redirect | Alert) -> tuple[AlertKind, int, int]:
    assert isinstance(outcome, Alert), outcome
    return outcome.kind, outcome.silent, outcome.asked
