"""One round of a resolution: its questions are sent to the Archives, its answers read ([R] 6.2)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.protocol.messages import format_request
from flask_ibi_archive.protocol.pairs import Pair, pairs_as_dict
from flask_ibi_archive.resolution.answer import Answer, ArchiveSource, Question
from flask_ibi_archive.resolution.choice import AlternativesSearch, Analysis
from flask_ibi_archive.resolution.outcome import Alert, NextRound, Redirect
from flask_ibi_archive.resolver.archive_rows import IncludedArchive
from flask_ibi_archive.resolver.circuit_breaker import CircuitBreaker
from flask_ibi_archive.resolver.concurrent_requests import (
    ArchiveResult,
    Failure,
    FanOut,
    Reply,
    ReplyQueue,
    Target,
)
from flask_ibi_archive.resolver.trace import Answered, Asked, Failed, Skipped, Trace

_logger = logging.getLogger(__name__)

#: Seconds that the Archive of the hint is asked before the others.
HEAD_START = 0.25
#: Least seconds that the other Archives are waited for when follow-up questions are known.
GRACE = 0.25


@dataclass(frozen=True, slots=True)
class OwnArchive:
    """An Archive in this process: an HTTP request to it could wait for this very process.

    :param service_ibi: it is asked if this service is included.
    :param answer: returns the pairs of the answer to a question of a client; may raise NotReady.
    """

    service_ibi: str
    answer: Callable[[Question, tuple[str, ...]], Mapping[str, tuple[str, ...]]]


@dataclass(slots=True)
class ResolutionContext:
    """What the rounds of a resolution share.

    :param hinted_id: the id of the Archive that is asked before the others, or None.
    :param end: when the resolution must end, by ``clock``.
    :param rounds: the number of rounds so far.
    :param silent: the highest number of Archives that did not answer in a round.
    :param is_patient: whether each round waits for all Archives until ``end``.
    :param results: all results so far, except those of abandoned requests.
    :param known: results of an earlier attempt; these questions are not sent again.
    """

    client_addresses: tuple[str, ...]
    archives: Sequence[IncludedArchive]
    hinted_id: int | None
    fan_out: FanOut
    circuit_breaker: CircuitBreaker
    end: float
    own: OwnArchive | None
    trace: Trace | None
    clock: Callable[[], float]
    rounds: int = 0
    silent: int = 0
    is_patient: bool = False
    results: list[ArchiveResult] = field(default_factory=list)
    known: dict[tuple[int, Question], ArchiveResult] = field(default_factory=dict)


class Round:
    """One round of a resolution.

    :param analysis: has the questions, and reads the answers.
    :param archives: the Archives that are asked.
    :ivar late: the number of Archives whose answers were not waited for.
    """

    def __init__(
        self,
        analysis: Analysis | AlternativesSearch,
        context: ResolutionContext,
        archives: Sequence[IncludedArchive],
    ) -> None:
        self._analysis = analysis
        self._context = context
        self._replies: ReplyQueue | None = None
        #: The number of pending answers by Archive; Archives without pending answers are removed.
        self._open: dict[int, int] = {}
        self._failed: set[int] = set()
        #: The same for Archives that the circuit breaker skips but that are asked nevertheless.
        self._skipped: dict[int, int] = {}
        self._waiting = list(archives)
        #: Results of an earlier attempt, and questions to the Archive in this process.
        self._known: deque[ArchiveResult] = deque()
        self._own: deque[Target] = deque()
        self._settles_at: float | None = None
        self.late = 0

    def run(self) -> Redirect | NextRound | Alert:
        """Ask the Archives and return the outcome of their answers."""
        end = self._context.end
        head_start_ends = self._ask_hinted()
        if head_start_ends is None:
            self._ask_waiting()
        while self._known or self._own or self._waiting or self._has_pending():
            result = self._next(min(end, head_start_ends or end, self._settles_at or end))
            if result is None and not self._waiting:
                break
            redirect = None if result is None else self._process(result)
            if redirect is not None:
                self._abandon()
                return redirect
            if self._waiting and (result is None or not self._open):
                head_start_ends = None
                self._ask_waiting()
        return self._conclude()

    def _next(self, until: float) -> ArchiveResult | None:
        """Return the next result, None if there is none before this time."""
        context = self._context
        if self._known:
            return self._known.popleft()
        # a result that arrived in time counts, even if it is read late
        left = 0.0 if self._own else max(until - context.clock(), 0.0)
        result = None if self._replies is None else self._replies.get(left)
        if result is None and self._own:
            result = self._ask_own(self._own.popleft())
        if result is not None:
            context.results.append(result)
            if context.trace is not None:
                context.trace(_event_of(result))
        return result

    def _has_pending(self) -> bool:
        return self._replies is not None and self._replies.pending > 0

    def _ask_own(self, target: Target) -> ArchiveResult:
        context = self._context
        started = context.clock()
        try:
            answer = cast(OwnArchive, context.own).answer
            pairs = answer(cast(Question, target.tag), context.client_addresses)
        except NotReady as error:
            return Failure(target, error.summary, context.clock() - started)
        except Exception:  # as if it answered with status 500; the other Archives may answer
            _logger.exception("the Archive of this app can't answer a question of the resolver")
            return Failure(target, "fails", context.clock() - started)
        found = [Pair(name, words) for name, words in pairs.items()]
        return Reply(target, found, context.clock() - started)

    def _abandon(self) -> None:
        """Stop waiting for results."""
        if self._replies is not None:
            self._replies.abandon()
        self.late = len(self._open)

    def _conclude(self) -> Redirect | NextRound | Alert:
        context = self._context
        self._abandon()
        silent = len(self._open.keys() | self._failed)
        # an Archive that was silent in an earlier round may have known more
        context.silent = max(context.silent, silent)
        return self._analysis.finish_round(context.silent, len(context.archives))

    def _ask_hinted(self) -> float | None:
        """Ask the Archive of the hint first; return when to ask the others, None for at once."""
        context = self._context
        if context.rounds > 1 or context.hinted_id is None:
            return None
        first = [one for one in self._waiting if one.id == context.hinted_id]
        self._ask(first, by_hint=True)
        self._waiting = [one for one in self._waiting if one.id != context.hinted_id]
        return context.clock() + HEAD_START if self._open and self._waiting else None

    def _ask_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._ask(waiting)

    def _ask(self, archives: Sequence[IncludedArchive], by_hint: bool = False) -> None:
        context = self._context
        questions = [
            (question, format_request(question.create_request(context.client_addresses)))
            for question in self._analysis.questions
        ]
        targets: list[Target] = []
        for archive in archives:
            is_own = context.own is not None and archive.service_ibi == context.own.service_ibi
            if not self._open_archive(archive, is_own, len(questions)):
                continue
            url = archive.service_url
            for question, query in questions:
                # tested first: hashing a question is slow, and mostly there are no known results
                known = context.known.get((archive.id, question)) if context.known else None
                if known is not None:
                    self._known.append(known)
                else:
                    target = Target(archive, f"{url}?{query}", question)
                    (self._own if is_own else targets).append(target)
        if context.trace is not None:
            for target in (*self._own, *targets):
                context.trace(Asked(get_source(target.archive), target.url, by_hint))
        if targets:
            seconds = context.end - context.clock()
            self._replies = context.fan_out.ask(targets, seconds, self._replies)
        if self._skipped and not self._open:
            self._settles_at = context.clock() + GRACE

    def _open_archive(self, archive: IncludedArchive, is_own: bool, questions: int) -> bool:
        """Return whether to ask an Archive, and count its pending answers.

        An Archive that the circuit breaker skips is asked nevertheless if all are waited for, since
        it may have an Original too; but it is not waited for longer than GRACE.
        """
        if is_own or self._context.circuit_breaker.allows_request(archive.id):
            self._open[archive.id] = questions
            return True
        self._failed.add(archive.id)
        if self._context.trace is not None:
            self._context.trace(Skipped(get_source(archive)))
        if self._analysis.waits_for_all:
            self._skipped[archive.id] = questions
        return self._analysis.waits_for_all

    def _process(self, result: ArchiveResult) -> Redirect | None:
        context = self._context
        archive = result.target.archive
        self._count_down(archive.id, isinstance(result, Reply))
        if isinstance(result, Failure):
            return None
        if not result.pairs:  # most Archives do not know the item
            return None
        question = cast(Question, result.target.tag)
        pairs = pairs_as_dict(result.pairs)
        redirect = self._analysis.add_answer(Answer(get_source(archive), question, pairs))
        waits_for_all = self._analysis.waits_for_all or context.is_patient
        waits = redirect is None and self._settles_at is None and not waits_for_all
        if waits and self._analysis.has_follow_up():
            self._settles_at = context.clock() + max(GRACE, 2 * result.seconds)
        return redirect

    def _count_down(self, archive_id: int, is_reply: bool) -> None:
        """Record that a pending answer of an Archive arrived or failed."""
        is_skipped = archive_id in self._skipped
        left = self._skipped if is_skipped else self._open
        left[archive_id] -= 1
        if not is_reply:
            self._failed.add(archive_id)
        elif is_skipped and not left[archive_id]:
            self._failed.discard(archive_id)
        if not left[archive_id]:
            del left[archive_id]
        if self._skipped and not self._open and self._settles_at is None:
            self._settles_at = self._context.clock() + GRACE


def get_source(archive: IncludedArchive) -> ArchiveSource:
    """Return the service and address of an Archive as registered, not as its answers claim."""
    return ArchiveSource(archive.service_ibi, archive.address)


def _event_of(result: ArchiveResult) -> Answered | Failed:
    source = get_source(result.target.archive)
    if isinstance(result, Failure):
        return Failed(source, result.reason, result.seconds)
    return Answered(source, tuple(result.pairs), result.seconds)
