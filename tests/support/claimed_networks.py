"""Archives in memory that publish claims, and resolutions with the real rounds, without sockets.

The Archives answer the real queries, and their claims are made and checked as those of real
Archives. The time is simulated: a slow answer takes no time of the test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, TypeAlias

from flask_ibi_archive.core.identifiers.grammar import Identifier
from flask_ibi_archive.core.protocol.languages import LanguageRange
from flask_ibi_archive.core.protocol.messages import UrlRequest, format_request, parse_request
from flask_ibi_archive.core.protocol.pairs import Pair, decode_query_string, pairs_as_dict
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.protocol.url_list import ArchiveFacts, answer_url_request
from flask_ibi_archive.core.resolution.answer import ArchiveSource, Question
from flask_ibi_archive.core.resolution.outcome import Alert, Redirect
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl, ResolutionRequest
from flask_ibi_archive.resolver.archives import Archive, ArchiveList, Claimant, Known
from flask_ibi_archive.resolver.asking import CircuitBreaker, Reply, Target
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.resolving import Resolution
from support.networks import KEY, as_read
from support.resolving import SimulatedReplies
from support.scattered_items import is_hidden
from support.stores import Json, MemoryCatalogue

#: The address of an Archive and the query that was sent to it.
Sent: TypeAlias = tuple[str, str]
#: Returns the place of an answer.
FindPlace: TypeAlias = Callable[[Sent], float]
#: When the services of the Archives were created.
FOUNDED = "2009-01-01T00:00:00Z"
_ORDER = {State.ORIGINAL: 1, State.COPY: 2, State.DELETED: 3}


class Claimed(NamedTuple):
    """What an Archive claims of an item.

    :param original: the service IBI of the Archive that has the Original, or None.
    :param since: the place of the claim in the order in which claims were read first.
    """

    names: Sequence[str]
    state: State
    original: str | None = None
    since: float = 0.0


def read_claims(records: Sequence[Json], service: str) -> list[Claimed]:
    """Return what an Archive claims of its records and of its service."""
    claims = [Claimed([service], State.ORIGINAL)]
    for record in records:
        if is_hidden(record) or record.get("state") == "Reserved":
            continue
        original = record.get("original_archive") or record.get("tombstone", {}).get(
            "original_archive"
        )
        names = [record[name] for name in ("rep", "ibip") if name in record]
        names += record.get("aliases", ())
        claims.append(Claimed(names, State(record.get("state", "Original")), original))
    return claims


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
    :param trusted: for each Archive, whether its claims count.
    :param claims: what the resolver has read of each Archive.
    :param hidden: the Archives with hidden items that have a prefix.
    :param recent: the Archives that lately gave items with a prefix.
    :param delays: after how many seconds each Archive answers. Empty: at once.
    :param own: the number of the Archive in the process of the resolver, or None.
    :param find_place: the place of an answer among those that arrive at the same time.
    :ivar answered: the places of the answers that were used.
    :ivar asked: the number of questions that were sent.
    """

    servers: MemoryServers
    config: ResolverConfig
    trusted: Sequence[bool]
    claims: Sequence[Sequence[Claimed]]
    hidden: Mapping[str, Sequence[int]] = field(default_factory=dict)
    recent: Mapping[str, Sequence[int]] = field(default_factory=dict)
    delays: Sequence[float] = ()
    own: int | None = None
    find_place: FindPlace = lambda sent: 0.0

    def __post_init__(self) -> None:
        sources = self.servers.sources
        archives = {
            number: Archive(number, source.service, source.address)
            for number, source in enumerate(sources, 1)
        }
        always = [number for number, counts in enumerate(self.trusted, 1) if not counts]
        self.list = ArchiveList(1, archives, always)
        self.now = 0.0
        self.asked = 0
        self.answered: dict[Sent, float] = {}
        numbers = {source.service: number for number, source in enumerate(sources, 1)}
        found: dict[str, list[tuple[float, Claimant]]] = {}
        for number, claims in enumerate(self.claims, 1):
            for claim in claims:
                claimant = Claimant(number, claim.state, numbers.get(claim.original or ""))
                for name in {*claim.names}:
                    found.setdefault(name, []).append((claim.since, claimant))
        self._claimants = {
            name: tuple(
                claimant
                for _, claimant in sorted(rows, key=lambda row: (_ORDER[row[1].state], row))
            )
            for name, rows in found.items()
        }

    def look_up(
        self, identifiers: Sequence[Identifier], hinted: int | None = None
    ) -> dict[str, Known]:
        """Return what a resolver knows about identifiers."""
        return {
            ibi.text: Known(
                self._claimants.get(ibi.text, ()),
                tuple(self.hidden.get(ibi.prefix, ())),
                (*([hinted] if hinted else ()), *self.recent.get(ibi.prefix, ())),
            )
            for ibi in identifiers
        }

    def ask_all(self) -> ClaimedNetwork:
        """Return a resolver that knows the same, and always asks all Archives."""
        return replace(self, trusted=[False] * len(self.trusted))

    def ask(
        self, targets: Sequence[Target], seconds: float, replies: SimulatedReplies | None = None
    ) -> SimulatedReplies:
        """Send questions, as :meth:`.asking.FanOut.ask`."""
        replies = replies or SimulatedReplies(self)
        self.asked += len(targets)
        for target in targets:
            delay = self.delays[target.archive.id - 1] if self.delays else 0.0
            sent = target.archive.address, target.url.partition("?")[2]
            result = partial(self._answer, target, sent, delay)
            replies.add(delay, result, self.find_place(sent))
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
        resolution = Resolution(
            ResolutionRequest(wanted, "http://urlib.net:80/", addresses, tuple(ranges)),
            self.list,
            self.look_up([wanted.ibi], hinted),
            self.config,
            self,  # type: ignore[arg-type]
            CircuitBreaker(),
            None if self.own is None else self,  # type: ignore[arg-type]
            clock=lambda: self.now,
            look_up=self.look_up,
        )
        return resolution.run().outcome

    def _answer(self, target: Target, sent: Sent, delay: float) -> Reply:
        return Reply(target, self.use(*sent), delay)

    def use(self, address: str, query: str) -> list[Pair]:
        """Return the answer of an Archive, whose order counts from now on."""
        self.answered.setdefault((address, query), len(self.answered))
        return self.servers.answer(address, query)

    @property
    def _own(self) -> ArchiveSource:
        assert self.own is not None
        return self.servers.sources[self.own - 1]

    def find_service(self) -> str:
        """Return the service of the Archive in this process (:class:`.LocalArchive`)."""
        return self._own.service

    def answer(
        self, question: Question, addresses: tuple[str, ...]
    ) -> Mapping[str, tuple[str, ...]]:
        self.asked += 1
        query = format_request(question.create_request(addresses))
        return pairs_as_dict(self.use(self._own.address, query))
