"""A simulated network and clock for resolutions."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from flask_ibi_archive.core.protocol.messages import UrlRequest, parse_request
from flask_ibi_archive.core.protocol.pairs import Pair, parse_pairs
from flask_ibi_archive.core.protocol.query import decode_query_string
from flask_ibi_archive.core.resolution.outcome import Alert, AlertKind, Redirect
from flask_ibi_archive.resolver.archive_rows import IncludedArchive
from flask_ibi_archive.resolver.circuit_breaker import CircuitBreaker
from flask_ibi_archive.resolver.concurrent_requests import ArchiveResult, Failure, Reply, Target
from flask_ibi_archive.resolver.resolution_context import ReadDocuments, TraceEvent
from flask_ibi_archive.resolver.resolving import Resolution
from support.resolving import name_of, wants

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
            IncludedArchive(number, f"a.br/service/2000/01.01.00.{number:02}", f"a{number}.br")
            for number in self.habits
        ]
        self.now = 0.0
        #: The questions that were sent: the time, the number of the Archive, and the question.
        self.asked: list[tuple[float, int, str]] = []

    def ask(self, targets: Sequence[Target], seconds: float, onto: ReplyQueue | None) -> ReplyQueue:
        """Send requests, as :meth:`.concurrent_requests.FanOut.ask`."""
        replies = onto or ReplyQueue(self)
        for target in targets:
            request = parse_request(decode_query_string(target.url.partition("?")[2]))
            assert isinstance(request, UrlRequest)
            number = target.archive.id
            self.asked.append((round(self.now, 6), number, name_of(request)))
            took, pairs = self.answer(number, request)
            ended: ArchiveResult = Failure(target, "answers nonsense", took)
            if pairs is not None:
                ended = Reply(target, pairs, took)
            heapq.heappush(replies.coming, (self.now + took, len(self.asked), ended))
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
    ) -> Redirect | Alert:
        """Resolve a persistent URL."""
        fan_out: Any = self

        def clock() -> float:
            return self.now

        resolution = Resolution(
            wants(text, language),
            self.archives,
            hinted,
            fan_out,
            breaker or CircuitBreaker(clock),
            deadline=DEADLINE,
            max_rounds=max_rounds,
            trace=trace,
            documents=documents,
            clock=clock,
        )
        return resolution.run().outcome

    def times(self, name: str) -> dict[int, float]:
        """Return when each Archive received a question."""
        return {number: moment for moment, number, asked in self.asked if asked == name}


class ReplyQueue:
    """The results that will arrive, as :class:`.concurrent_requests.ReplyQueue`."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.coming: list[tuple[float, int, ArchiveResult]] = []

    @property
    def pending(self) -> int:
        return len(self.coming)

    def get(self, seconds: float) -> ArchiveResult | None:
        """Return the next result and advance the clock."""
        if not self.coming:
            return None
        until = self.network.now + seconds
        if self.coming[0][0] > until:
            self.network.now = until
            return None
        moment, _, ended = heapq.heappop(self.coming)
        self.network.now = max(self.network.now, moment)
        return ended

    def abandon(self) -> None:
        """Ignore all further results."""
        self.coming.clear()


def url_of(outcome: Redirect | Alert) -> str:
    assert isinstance(outcome, Redirect), outcome
    return outcome.url


def silence_of(outcome: Redirect | Alert) -> tuple[AlertKind, int, int]:
    assert isinstance(outcome, Alert), outcome
    return outcome.kind, outcome.silent, outcome.asked
