"""Archives that answer in simulated time, and a resolver that asks them with the real rounds."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias

from flask_ibi_archive.core.protocol.messages import UrlRequest, parse_request
from flask_ibi_archive.core.protocol.pairs import Pair, decode_query_string, parse_pairs
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.core.resolution.persistent_url import ResolutionRequest
from flask_ibi_archive.resolver.archives import Archive, ArchiveList, Claimant, Known
from flask_ibi_archive.resolver.asking import ArchiveResult, CircuitBreaker, Failure, Reply, Target
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.resolving import Resolution
from support.registries import a_config
from support.resolving import name_of, wants

#: The address of an Archive, and the query that was sent to it.
Sent: TypeAlias = tuple[str, str]
#: The seconds until an answer arrives, and its pairs; None instead of pairs is a failure.
TimedAnswer: TypeAlias = "tuple[float, list[Pair] | None]"


class SimulatedReplies:
    """The results that will arrive, in simulated time, as :class:`.asking.ReplyQueue`."""

    def __init__(self, network: SimulatedNetwork) -> None:
        self.network = network
        #: The time, the place among those of the same time, a number, and the result.
        self.coming: list[tuple[float, float, int, Sent, ArchiveResult]] = []
        self._numbers = count()

    def add(self, sent: Sent, result: ArchiveResult) -> None:
        """Let a result arrive."""
        moment, place = self.network.now + result.seconds, self.network.find_place(sent)
        heapq.heappush(self.coming, (moment, place, next(self._numbers), sent, result))

    @property
    def pending(self) -> int:
        """The number of questions without a result."""
        return len(self.coming)

    def get(self, seconds: float) -> ArchiveResult | None:
        """Return the next result and advance the clock; None: there is none so soon."""
        if not self.coming or self.coming[0][0] > self.network.now + seconds:
            self.network.now += seconds
            return None
        moment, _, _, sent, result = heapq.heappop(self.coming)
        self.network.now = max(self.network.now, moment)
        self.network.note_arrival(sent)
        return result

    def abandon(self) -> None:
        """Ignore all further results."""
        self.coming.clear()


class SimulatedNetwork:
    """Archives, numbered from 1, and a resolver that has included them.

    :param archives: the service and the address of each Archive.
    :param answer: returns the answer of an Archive.
    :param always: the numbers of the Archives whose claims do not count.
    :ivar find_place: returns the place of an answer among those that arrive at the same time.
    :ivar asked: the questions that were sent: the time, the number of the Archive, and the query.
    :ivar arrived: the answers that have arrived, by their order.
    """

    def __init__(
        self,
        archives: Sequence[tuple[str, str]],
        answer: Callable[[Sent], TimedAnswer],
        always: Collection[int],
        config: ResolverConfig,
    ) -> None:
        self.archives = [Archive(number, *one) for number, one in enumerate(archives, 1)]
        self.always = always
        self.config = config
        self.get_answer = answer
        self.find_place: Callable[[Sent], float] = lambda sent: 0.0
        self.reset()

    def reset(self) -> None:
        """Begin at the time 0."""
        self.now = 0.0
        self.asked: list[tuple[float, int, str]] = []
        self.arrived: dict[Sent, float] = {}

    def note_arrival(self, sent: Sent) -> None:
        """Note that an answer has arrived, whose order counts from now on."""
        self.arrived.setdefault(sent, len(self.arrived))

    def ask(
        self, targets: Sequence[Target], seconds: float, replies: SimulatedReplies | None = None
    ) -> SimulatedReplies:
        """Send questions, as :meth:`.asking.FanOut.ask`."""
        replies = replies or SimulatedReplies(self)
        for target in targets:
            sent = target.archive.address, target.url.partition("?")[2]
            self.asked.append((round(self.now, 6), target.archive.id, sent[1]))
            took, pairs = self.get_answer(sent)
            result: ArchiveResult = Failure(target, "answers nonsense", took)
            if pairs is not None:
                result = Reply(target, pairs, took)
            replies.add(sent, result)
        return replies

    def run(
        self, request: ResolutionRequest, known: dict[str, Known], **options: Any
    ) -> Redirect | Alert:
        """Resolve a persistent URL with the real rounds."""
        options.setdefault("circuit_breaker", CircuitBreaker(lambda: self.now))
        resolution = Resolution(
            request,
            ArchiveList(0, {one.id: one for one in self.archives}, self.always),
            known,
            self.config,
            self,  # type: ignore[arg-type]
            clock=lambda: self.now,
            **options,
        )
        return resolution.run()


# --- Archives that answer from tables ------------------------------------------------------------

#: The seconds after which a resolution ends.
DEADLINE = 20.0
#: The time of an answer that never arrives, and the text of an answer that is a failure.
NEVER, NONSENSE = 1e9, None

#: The answers of an Archive: for each question the seconds until the answer, and its text. The
#: Archive answers other questions at once with an empty list.
Habits: TypeAlias = Mapping[str, "tuple[float, str | None]"]


class Network(SimulatedNetwork):
    """Archives that answer from tables."""

    def __init__(self, *archives: Habits) -> None:
        names = [
            (f"a.br/service/2000/01.01.00.{number + 1:02}", f"a{number + 1}.br")
            for number in range(len(archives))
        ]
        self.habits = dict(zip((address for _, address in names), archives, strict=True))
        super().__init__(names, self.answer, (), a_config(IBI_RESOLVER_DEADLINE=DEADLINE))

    def answer(self, sent: Sent) -> TimedAnswer:
        """Return the answer of an Archive."""
        took, text = self.habits[sent[0]].get(name_query(sent[1]), (0.0, ""))
        return took, None if text is None else parse_pairs(text)

    def resolve(
        self,
        text: str,
        hinted: int | None = None,
        language: str | None = None,
        claimants: Sequence[Claimant] = (),
        **options: Any,
    ) -> Redirect | Alert:
        """Resolve a persistent URL. Archives with claims are asked about nothing else.

        :param claimants: the Archives that claim the item.
        """
        request = wants(text, language)
        claiming = {one.archive_id for one in claimants}
        self.always = [one.id for one in self.archives if one.id not in claiming]
        known = Known(tuple(claimants), (), (hinted,) if hinted else ())
        return self.run(request, {request.wanted.ibi.text: known}, **options)

    def times(self, name: str) -> dict[int, float]:
        """Return when each Archive received a question."""
        return {number: moment for moment, number, query in self.asked if name_query(query) == name}


def name_query(query: str) -> str:
    """Return the question in a query, in the notation of the tables."""
    request = parse_request(decode_query_string(query))
    assert isinstance(request, UrlRequest)
    return name_of(request)


def url_of(outcome: Redirect | Alert) -> str:
    assert isinstance(outcome, Redirect), outcome
    return outcome.url


def silence_of(outcome: Redirect | Alert) -> tuple[AlertKind, int, int]:
    assert isinstance(outcome, Alert), outcome
    return outcome.kind, outcome.silent, outcome.asked
