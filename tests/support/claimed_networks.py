"""Archives in memory that publish claims, and resolutions with the real rounds, without sockets.

The Archives answer the real queries, and their claims are made and checked as those of real
Archives. The time is simulated: a slow answer takes no time of the test.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from flask_ibi_archive.core.claims.claim import Claim, format_claim, identifier_key
from flask_ibi_archive.core.identifiers import Identifier
from flask_ibi_archive.core.identifiers.dates import format_timestamp
from flask_ibi_archive.core.protocol.archive_urls import ArchiveFacts
from flask_ibi_archive.core.protocol.languages import LanguageRange
from flask_ibi_archive.core.protocol.messages import UrlRequest, format_request, parse_request
from flask_ibi_archive.core.protocol.pairs import Pair, pairs_as_dict
from flask_ibi_archive.core.protocol.query_strings import decode_query_string
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.protocol.url_list import answer_url_request
from flask_ibi_archive.core.records.lines import parse_record
from flask_ibi_archive.core.resolution.answer import Answer, ArchiveSource, Question
from flask_ibi_archive.core.resolution.asking import Claims
from flask_ibi_archive.core.resolution.outcome import Alert, Redirect
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl
from flask_ibi_archive.resolver.archives import STATES, Archive, ArchiveList, Knowledge
from flask_ibi_archive.resolver.asking import ArchiveResult, CircuitBreaker, Reply, Target
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.old_claims.entry_check import CheckedEntries, check_entries
from flask_ibi_archive.resolver.resolution_context import (
    OwnArchive,
    ResolutionContext,
    ResolutionRequest,
)
from flask_ibi_archive.resolver.resolving import Resolution
from support.networks import KEY, as_read
from support.stores import Json, MemoryCatalogue

#: The address of an Archive and the query that was sent to it.
Sent: TypeAlias = tuple[str, str]
#: Returns the place of an answer.
FindPlace: TypeAlias = Callable[[Sent], float]
#: When the services of the Archives were created.
FOUNDED = "2009-01-01T00:00:00Z"


def read_claims(records: Sequence[Json], service: str) -> CheckedEntries:
    """Return what an Archive claims of its records and of its service, as a resolver reads it."""
    own: Json = {"rep": service, "timestamp": FOUNDED, "transferable": False}
    parsed = [parse_record(record) for record in (own, *records)]
    claims = [
        Claim(
            one.rep,
            one.ibip,
            State(one.state),
            str(format_timestamp(one.timestamp)),
            one.original_archive,
            (*one.aliases, *one.same_as),
        )
        for one in parsed
        if not one.is_hidden
    ]
    checked = check_entries([*map(format_claim, claims)], 0, (service,))
    assert not checked.rejected, checked.rejected
    return checked


class MemoryServers:
    """The servers of some Archives. Each different request is computed once.

    :param parts: the records of each Archive.
    :param facts: the settings of each Archive.
    """

    def __init__(self, parts: Sequence[Sequence[Json]], facts: Sequence[ArchiveFacts]) -> None:
        self.sources = [ArchiveSource(one.service[1], one.address) for one in facts]
        self._facts = {one.address: one for one in facts}
        self._catalogues: dict[str, MemoryCatalogue] = {}
        for part, one in zip(parts, facts, strict=True):
            self._catalogues[one.address] = MemoryCatalogue(part)
            self._catalogues[one.address].add_service(one.service[1], FOUNDED)
        self._requests: dict[str, UrlRequest] = {}
        self._answers: dict[tuple[str, str], list[Pair]] = {}

    def answer(self, address: str, query: str) -> list[Pair]:
        """Return the pairs of the answer of an Archive, as the resolver parses them."""
        known = self._answers.get((address, query))
        if known is not None:
            return known
        request = self._requests.get(query)
        if request is None:
            parsed = parse_request(decode_query_string(query.encode()))
            assert isinstance(parsed, UrlRequest)
            request = self._requests[query] = parsed
        listed = answer_url_request(
            self._catalogues[address], request, self._facts[address], lambda item: KEY
        )
        pairs = [Pair(name, words) for name, words in as_read(listed).items()]
        self._answers[address, query] = pairs
        return pairs


@dataclass
class ClaimedNetwork:
    """Archives in memory, numbered from 1, and a resolver that knows the claims of some.

    :param servers: the Archives.
    :param config: the settings of the resolver.
    :param states: the state of the log of each Archive. None: it publishes no claims.
    :param claims: what the resolver has read of each log.
    :param holders: the Archives that hold items with a prefix.
    :param delays: after how many seconds each Archive answers. Empty: at once.
    :param own: the number of the Archive in the process of the resolver, or None.
    :param documents: the server of an actor of the document registry, or None.
    :param find_place: the place of an answer among those that arrive at the same time.
    :ivar answered: the places of the answers that were used.
    :ivar asked: the number of questions that were sent.
    """

    servers: MemoryServers
    config: ResolverConfig
    states: Sequence[str | None]
    claims: Sequence[CheckedEntries]
    holders: Mapping[str, Sequence[int]] = field(default_factory=dict)
    delays: Sequence[float] = ()
    own: int | None = None
    documents: MemoryServers | None = None
    find_place: FindPlace = lambda sent: 0.0

    def __post_init__(self) -> None:
        included = {
            number: Archive(number, source.service, source.address, None, state)
            for number, (source, state) in enumerate(
                zip(self.servers.sources, self.states, strict=True), 1
            )
        }
        self.list = ArchiveList(1, included)
        self.now = 0.0
        self.asked = 0
        self.answered: dict[Sent, float] = {}
        self._index: dict[bytes, dict[int, State]] = {}
        for number, (checked, state) in enumerate(zip(self.claims, self.states, strict=True), 1):
            if state is not None:
                for key, _, held in checked.list_holdings(number):
                    self._index.setdefault(key, {})[number] = STATES[held]

    def look_up(self, identifiers: Sequence[Identifier]) -> Mapping[Identifier, Claims]:
        """Return what a resolver knows about identifiers."""
        return {
            ibi: Claims(
                self._index.get(identifier_key(ibi.text), {}), self.holders.get(ibi.prefix, ())
            )
            for ibi in identifiers
        }

    def ask(
        self, targets: Sequence[Target], seconds: float, replies: Replies | None = None
    ) -> Replies:
        """Send questions, as :meth:`.asking.FanOut.ask`."""
        replies = replies or Replies(self)
        self.asked += len(targets)
        for target in targets:
            delay = self.delays[target.archive.id - 1] if self.delays else 0.0
            replies.send(target, delay)
        return replies

    def resolve(
        self,
        wanted: PersistentUrl,
        ranges: Sequence[LanguageRange],
        addresses: tuple[str, ...],
        hinted: int | None = None,
    ) -> Redirect | Alert:
        """Resolve a persistent URL with the real rounds."""
        self.now, self.asked = 0.0, 0
        self.answered.clear()
        context = ResolutionContext(
            ResolutionRequest(wanted, "http://urlib.net:80/", addresses, tuple(ranges)),
            self._know([wanted.ibi], hinted),
            self.config,
            self,  # type: ignore[arg-type]
            CircuitBreaker(),
            None if self.own is None else OwnArchive(self._own.service, self._answer_own),
            None if self.documents is None else self._read_documents,
            clock=lambda: self.now,
            look_up=self._know if self.list.has_claims else None,
        )
        return Resolution(context).run().outcome

    def _know(self, identifiers: Sequence[Identifier], hinted: int | None = None) -> Knowledge:
        return Knowledge(self.list, self.look_up(identifiers), hinted)

    def use(self, address: str, query: str) -> list[Pair]:
        """Return the answer of an Archive, whose order counts from now on."""
        self.answered.setdefault((address, query), len(self.answered))
        return self.servers.answer(address, query)

    @property
    def _own(self) -> ArchiveSource:
        assert self.own is not None
        return self.servers.sources[self.own - 1]

    def _answer_own(
        self, question: Question, addresses: tuple[str, ...]
    ) -> Mapping[str, tuple[str, ...]]:
        self.asked += 1
        query = format_request(question.create_request(addresses))
        return pairs_as_dict(self.use(self._own.address, query))

    def _read_documents(
        self, questions: Sequence[Question], addresses: tuple[str, ...], silent: Set[int]
    ) -> list[Answer]:
        assert self.documents is not None
        [actor] = self.documents.sources
        source = ArchiveSource(actor.service, actor.address, is_actor=True)
        found = []
        for question in questions:
            query = format_request(question.create_request(addresses))
            pairs = self.documents.answer(actor.address, query)
            if pairs:
                found.append(Answer(source, question, pairs_as_dict(pairs)))
        return found


class Replies:
    """The results of questions in simulated time, as :class:`.asking.ReplyQueue`."""

    def __init__(self, network: ClaimedNetwork) -> None:
        self._network = network
        #: When the answer arrives, its place, a number, the response time, and the request.
        self._sent: list[tuple[float, float, int, float, Target, Sent]] = []
        self._numbers = count()

    def send(self, target: Target, delay: float) -> None:
        """Send a question that is answered after some seconds."""
        network = self._network
        sent = target.archive.address, target.url.partition("?")[2]
        row = (
            network.now + delay,
            network.find_place(sent),
            next(self._numbers),
            delay,
            target,
            sent,
        )
        heapq.heappush(self._sent, row)

    @property
    def pending(self) -> int:
        """The number of questions without a result."""
        return len(self._sent)

    def get(self, seconds: float) -> ArchiveResult | None:
        """Return the next result, or None if there is none before some seconds have passed."""
        network = self._network
        if not self._sent or self._sent[0][0] > network.now + seconds:
            network.now += seconds
            return None
        arrival, _, _, delay, target, sent = heapq.heappop(self._sent)
        network.now = max(network.now, arrival)
        return Reply(target, network.use(*sent), delay)

    def abandon(self) -> None:
        """Ignore all further results."""
        self._sent.clear()
