"""Archives in memory that publish claims, and resolutions with the real rounds, without sockets."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flask_ibi_archive.core.identifiers import Identifier, parse_identifier
from flask_ibi_archive.core.protocol.languages import LanguageRange
from flask_ibi_archive.core.protocol.pairs import Pair
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.answer import ArchiveSource
from flask_ibi_archive.core.resolution.asking import Claims
from flask_ibi_archive.core.resolution.outcome import Alert, Redirect
from flask_ibi_archive.core.resolution.persistent_url import PersistentUrl
from flask_ibi_archive.resolver.archive_list import ArchiveList, Knowledge
from flask_ibi_archive.resolver.archive_rows import IncludedArchive
from flask_ibi_archive.resolver.circuit_breaker import CircuitBreaker
from flask_ibi_archive.resolver.claims.tables import CURRENT
from flask_ibi_archive.resolver.concurrent_requests import ArchiveResult, Failure, Reply, Target
from flask_ibi_archive.resolver.resolution_context import ResolutionContext, ResolutionRequest
from flask_ibi_archive.resolver.resolving import Resolution
from support.networks import USER, Archive
from support.registries import a_config
from support.stores import Json, identifiers_of

CONFIG = a_config()


@dataclass
class ClaimedNetwork:
    """Archives in memory, numbered from 1, and the claims of those that publish some.

    :param archives: the source and the answers of each Archive.
    :param parts: the records of each Archive.
    :param states: the state of the log of each Archive. None: it publishes no claims.
    :param dead: the numbers of the Archives that do not answer.
    :param hidden: the identifiers of Originals that are not claimed. Their Archives are known to
        have other items with the same prefix.
    :param order: puts the answers into a random order. None: in the order of the questions.
    :ivar asked: the number of the Archive, for each question that was sent.
    """

    archives: Sequence[tuple[ArchiveSource, Archive]]
    parts: Sequence[Sequence[Json]]
    states: Sequence[str | None]
    dead: frozenset[int] = frozenset()
    hidden: frozenset[str] = frozenset()
    order: random.Random | None = None
    asked: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        numbered = enumerate(zip(self.archives, self.states, strict=True), 1)
        included = {
            number: IncludedArchive(number, source.service, source.address, None, state)
            for number, ((source, _), state) in numbered
        }
        self.list = ArchiveList(1, included)
        self.claims: dict[str, dict[int, State]] = {}
        self.holders: dict[str, set[int]] = {}
        for number, (part, state) in enumerate(zip(self.parts, self.states, strict=True), 1):
            for record in part if state is not None else ():
                for name in identifiers_of(record):
                    ibi = parse_identifier(name)
                    held = State(record.get("state", "Original"))
                    if held is not State.ORIGINAL or name not in self.hidden:
                        self.claims.setdefault(ibi.text, {})[number] = held
                    if held is State.ORIGINAL:
                        self.holders.setdefault(ibi.prefix, set()).add(number)

    def look_up(self, identifiers: Sequence[Identifier]) -> Mapping[Identifier, Claims]:
        """Return what a resolver knows about identifiers."""
        return {
            ibi: Claims(self.claims.get(ibi.text, {}), sorted(self.holders.get(ibi.prefix, ())))
            for ibi in identifiers
        }

    def ask(
        self, targets: Sequence[Target], seconds: float, replies: Replies | None = None
    ) -> Replies:
        """Answer at once, as :meth:`.concurrent_requests.FanOut.ask`."""
        replies = replies or Replies()
        for target in targets:
            number = target.archive.id
            self.asked.append(number)
            if number in self.dead:
                replies.results.append(Failure(target, "is dead", 0.0))
                continue
            answered = self.archives[number - 1][1](target.question)
            pairs = [Pair(name, words) for name, words in answered.items()]
            replies.results.append(Reply(target, pairs, 0.0))
        if self.order is not None:
            self.order.shuffle(replies.results)
        return replies

    def resolve(
        self,
        wanted: PersistentUrl,
        ranges: Sequence[LanguageRange] = (),
        hinted: int | None = None,
    ) -> Redirect | Alert:
        """Resolve a persistent URL with the real rounds."""
        self.asked.clear()
        context = ResolutionContext(
            ResolutionRequest(wanted, "http://urlib.net:80/", (USER,), tuple(ranges)),
            self.list.always.values(),
            hinted,
            CONFIG,
            self,  # type: ignore[arg-type]
            CircuitBreaker(),
            knowledge=Knowledge(self.list, self.look_up([wanted.ibi]), hinted),
            look_up=self.look_up,
        )
        return Resolution(context).run().outcome


class Replies:
    """Results that are already there, as :class:`.concurrent_requests.ReplyQueue`."""

    def __init__(self) -> None:
        self.results: deque[ArchiveResult] = deque()

    @property
    def pending(self) -> int:
        return len(self.results)

    def get(self, seconds: float) -> ArchiveResult | None:
        """Return the next result."""
        return self.results.popleft() if self.results else None

    def abandon(self) -> None:
        """Ignore all further results."""
        self.results.clear()


def publish(count: int, random_: random.Random) -> list[str | None]:
    """Return the states of the logs of some Archives, of which some publish no claims."""
    return [CURRENT if random_.random() < 0.7 else None for _ in range(count)]
