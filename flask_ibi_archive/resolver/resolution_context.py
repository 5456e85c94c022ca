"""The request of a user, the data that all rounds share, and the events of a resolution.

The resolver asks the Archive of its own app without HTTP. The Archive puts the object that answers
(:class:`LocalArchive`) into ``app.extensions``, because a resolver imports nothing of an Archive.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol, TypeAlias, cast

from flask import Response, current_app

from flask_ibi_archive.core.identifiers import Identifier
from flask_ibi_archive.core.protocol.languages import LanguageRange
from flask_ibi_archive.core.resolution.answer import Answer, ArchiveSource, Question
from flask_ibi_archive.core.resolution.asking import Claims
from flask_ibi_archive.core.resolution.outcome import Alert, NextRound, Redirect
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl
from flask_ibi_archive.resolver.archives import Archive, Knowledge
from flask_ibi_archive.resolver.asking import ArchiveResult, CircuitBreaker, FanOut, Reply, Target
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.server.pages.requests import OWN_ARCHIVE

# --- trace events: the command "resolve --trace" prints these events -----------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """A question is sent to an Archive.

    :param by_hint: True if a hint is the reason that this Archive is asked before the others.
    """

    target: Target
    by_hint: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """The circuit breaker skips an Archive, because the Archive failed repeatedly."""

    archive: Archive


@dataclass(frozen=True, slots=True)
class Decided:
    """A round has ended, and the resolver has decided about the next step.

    :param outcome: the decision: a redirect, another round or an alert.
    :param late: the number of Archives that had not answered when the round ended.
    """

    round: int
    outcome: Redirect | NextRound | Alert
    late: int = 0


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """An acknowledgment is sent to an Archive."""

    archive: Archive
    url: str


#: The result of a request to an Archive, and an answer of the document registry, are events too.
TraceEvent: TypeAlias = Asked | ArchiveResult | Skipped | Answer | Decided | Acknowledged
Trace: TypeAlias = Callable[[TraceEvent], None]


# --- the shared data -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ResolutionRequest:
    """A user's request for a persistent URL ([R] 6.2, Table 6.6).

    :param wanted: the parsed persistent URL.
    :param persistent_url: the complete persistent URL that the user requested, with host and port.
        The acknowledgment contains this URL.
    :param client_addresses: the IP address of the user, followed by the addresses of the proxies.
    :param ranges: the languages that the user prefers. These languages are not sent to Archives.
    :param user_agent: the User-Agent header of the user's program.
    """

    wanted: PersistentUrl
    persistent_url: str
    client_addresses: tuple[str, ...]
    ranges: tuple[LanguageRange, ...] = ()
    user_agent: str | None = None


@dataclass(frozen=True, slots=True)
class OwnArchive:
    """The Archive in this process. The resolver asks this Archive without HTTP.

    Some servers answer only one request at a time. On such a server, an HTTP request from the
    resolver to the Archive of the same process would never be answered.

    :param service_ibi: the IBI of the Archive's service. The Archive is asked only if this service
        is included.
    :param answer: a function that answers a question with pairs. Its parameters are the question
        and the IP addresses of the client. The function may raise NotReady.
    """

    service_ibi: str
    answer: Callable[[Question, tuple[str, ...]], Mapping[str, tuple[str, ...]]]


#: Reads the answers of the document registry to some questions. The parameters are the questions,
#: the IP addresses of the client, and the ids of the Archives that did not answer. The function may
#: raise NotReady.
ReadDocuments: TypeAlias = Callable[
    [Sequence[Question], tuple[str, ...], Set[int]], Sequence[Answer]
]

#: Reads what is known about some identifiers. The function may raise NotReady.
LookUp: TypeAlias = Callable[[Sequence[Identifier]], Knowledge]


@dataclass(slots=True)
class ResolutionContext:
    """The data that all rounds of a resolution share.

    :param knowledge: the included Archives, what is known about the requested item, and the hint
        (hints.py). The Archive in the hint is asked before the other Archives.
    :param own: the Archive in this process. None if this process has no Archive.
    :param documents: reads the document registry. None if the resolver has none.
    :param trace: a function that receives each trace event.
    :param clock: returns the time in seconds.
    :param look_up: reads the same for further identifiers. None if no Archive publishes claims.
    :ivar included: the included Archives by their ids.
    :ivar claims: what is known about identifiers so far.
    :ivar sources: the Archives that have answered, or whose claims were used.
    :ivar end: the time at which the resolution must end, as ``clock`` returns the time.
    :param rounds: the number of rounds that have started.
    :param silent: the highest number of Archives that did not answer in a round.
    :param is_patient: True if each round waits for all Archives until ``end``.
    :param results: all results so far. Results of abandoned requests are not included.
    :param known: the results of the first attempt, used only in the second attempt. Questions with
        a known result are not sent again.
    """

    request: ResolutionRequest
    knowledge: Knowledge
    config: ResolverConfig
    fan_out: FanOut
    circuit_breaker: CircuitBreaker
    own: OwnArchive | None = None
    documents: ReadDocuments | None = None
    trace: Trace | None = None
    clock: Callable[[], float] = monotonic
    look_up: LookUp | None = None
    included: Mapping[int, Archive] = field(init=False)
    always_ids: Collection[int] = field(init=False)
    claims: dict[Identifier, Claims] = field(init=False)
    _silent: Collection[int] = field(init=False)
    sources: dict[ArchiveSource, Archive] = field(default_factory=dict)
    end: float = field(init=False)
    rounds: int = 0
    silent: int = 0
    is_patient: bool = False
    results: list[ArchiveResult] = field(default_factory=list)
    known: dict[tuple[int, Question], ArchiveResult] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.end = self.clock() + self.config.deadline
        archives = self.knowledge.archives
        self.included, self._silent = archives.archives, archives.silent
        self.always_ids = archives.always.keys()
        self.claims = dict(self.knowledge.claims)

    def is_own(self, archive: Archive) -> bool:
        """Return whether an Archive runs in this process."""
        return self.own is not None and archive.service_ibi == self.own.service_ibi

    def list_silent(self, archive_ids: Iterable[int]) -> list[int]:
        """Return those of some Archives whose claims count, but which do not answer.

        The Archive in this process answers without HTTP, even if its server is busy.
        """
        silent = filter(self._silent.__contains__, archive_ids)
        return [archive_id for archive_id in silent if not self.is_own(self.included[archive_id])]

    def name_source(self, archive: Archive) -> ArchiveSource:
        """Return an Archive as the source of an answer, for which :attr:`sources` finds it."""
        source = archive.source
        self.sources[source] = archive
        return source

    def find_claims(self, questions: Sequence[Question]) -> None:
        """Read what is known about the items of some questions, unless it was read before.

        :raises NotReady: if the database does not answer.
        """
        missing = [question.ibi for question in questions if question.ibi not in self.claims]
        if missing and self.look_up is not None:
            knowledge = self.look_up(missing)
            self.claims.update(knowledge.claims)
            if not knowledge.archives.has_claims:  # they can't be read any more
                self.always_ids, self._silent = self.included.keys(), ()

    def list_unknown(self, questions: Sequence[Question]) -> list[Question]:
        """Return the questions about items that no Archive has known so far, or claims.

        A claim says nothing more if its Archive has answered. It may have been an old claim.
        """
        replies = [result for result in self.results if isinstance(result, Reply)]
        known = {reply.target.question.ibi for reply in replies if reply.pairs}
        answered = {(reply.target.question.ibi, reply.target.archive.id) for reply in replies}
        for ibi, claims in self.claims.items():
            if any((ibi, archive_id) not in answered for archive_id in claims.states):
                known.add(ibi)
        return [question for question in questions if question.ibi not in known]


class LocalArchive(Protocol):
    """What a resolver asks the Archive of its app."""

    def find_service(self) -> str | None:
        """Return the IBI of the service; None if the Archive is not ready."""

    def answer(
        self, question: Question, client_addresses: tuple[str, ...]
    ) -> Mapping[str, tuple[str, ...]]:
        """Return the pairs that answer a question. The method may raise NotReady."""

    def resolve(
        self,
        wanted: PersistentUrl,
        persistent_url: str,
        addresses: tuple[str, ...],
        ranges: tuple[LanguageRange, ...],
    ) -> Response | None:
        """Return a redirect to an item of the Archive; None if all Archives must be asked."""


def find_own_archive() -> LocalArchive | None:
    """Return the Archive of the current app, or None."""
    return cast("LocalArchive | None", current_app.extensions.get(OWN_ARCHIVE))


def open_own_archive() -> OwnArchive | None:
    """Return the Archive of the current app for questions of the resolver, or None."""
    archive = find_own_archive()
    service_ibi = None if archive is None else archive.find_service()
    if archive is None or service_ibi is None:
        return None
    return OwnArchive(service_ibi, archive.answer)
