"""One round of a resolution: sends questions to the Archives and reads the answers ([R] 6.2).

Two periods shorten the time that a user waits. During the *head start*, only the Archive of the
hint (hints.py) is asked, because it probably has the item. The *grace period* starts when an answer
contains follow-up questions. When it ends, the round ends too, even if some Archives have not
answered.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

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

_logger = logging.getLogger(__name__)

#: Seconds of the head start.
HEAD_START = 0.25
#: Minimum number of seconds of the grace period.
GRACE = 0.25


# --- trace events: messages and decisions, which the command "resolve --trace" prints ------------


@dataclass(frozen=True, slots=True)
class Asked:
    """A request is sent to an Archive.

    :param url: the complete URL of the request.
    :param by_hint: whether the Archive is asked before the others because of a hint.
    """

    source: ArchiveSource
    url: str
    by_hint: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """An Archive answered.

    :param pairs: the pair list; it is empty if the Archive does not know the item.
    """

    source: ArchiveSource
    pairs: tuple[Pair, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """An Archive did not answer correctly.

    :param reason: one line that follows the Archive's address.
    """

    source: ArchiveSource
    reason: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Skipped:
    """The circuit breaker skips an Archive because it failed repeatedly."""

    source: ArchiveSource


@dataclass(frozen=True, slots=True)
class Decided:
    """A round has ended.

    :param late: the number of Archives that had not answered when the round ended.
    """

    round: int
    outcome: Redirect | NextRound | Alert
    late: int = 0


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """An acknowledgment is sent to an Archive."""

    source: ArchiveSource
    url: str


TraceEvent: TypeAlias = Asked | Answered | Failed | Skipped | Decided | Acknowledged
Trace: TypeAlias = Callable[[TraceEvent], None]


# --- rounds --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OwnArchive:
    """An Archive in this process, which is asked without HTTP.

    An HTTP request could wait for ever, if this process answers only one request at a time.

    :param service_ibi: the IBI of its service; it is asked only if this service is included.
    :param answer: returns the pairs of the answer to a question of a client; it may raise
        NotReady.
    """

    service_ibi: str
    answer: Callable[[Question, tuple[str, ...]], Mapping[str, tuple[str, ...]]]


@dataclass(slots=True)
class ResolutionContext:
    """The data that all rounds of a resolution share.

    :param hinted_id: the id of the Archive that is asked before the others, or None.
    :param end: the time of ``clock`` at which the resolution must end.
    :param rounds: the number of rounds so far.
    :param silent: the highest number of Archives that did not answer in a round.
    :param is_patient: whether each round waits for all Archives until ``end``.
    :param results: all results so far, except those of abandoned requests.
    :param known: results of the first attempt, if this is the second one; these questions are not
        sent again.
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

    :param analysis: contains the questions, and analyses the answers.
    :param archives: the Archives that are asked.
    :ivar late: the number of Archives that had not answered when the round ended.
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
        #: The number of pending answers by Archive, for Archives that the circuit breaker skips but
        #: that are asked nevertheless.
        self._skipped: dict[int, int] = {}
        self._waiting = list(archives)
        #: Results of the first attempt, and questions to the Archive in this process.
        self._known: deque[ArchiveResult] = deque()
        self._own: deque[Target] = deque()
        #: When the grace period ends, None if it has not started.
        self._grace_ends: float | None = None
        self.late = 0

    def run(self) -> Redirect | NextRound | Alert:
        """Ask the Archives and return the outcome of their answers."""
        end = self._context.end
        head_start_ends = self._ask_hinted()
        if head_start_ends is None:
            self._ask_waiting()
        while self._known or self._own or self._waiting or self._has_pending():
            result = self._next(min(end, head_start_ends or end, self._grace_ends or end))
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
        """Return the next result, None if no result arrives before this time."""
        context = self._context
        if self._known:
            return self._known.popleft()
        # a result that arrived in time is used, even if it is read late
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
        except Exception:  # the other Archives may still answer
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
        # an Archive that was silent in an earlier round may have known the item
        context.silent = max(context.silent, silent)
        return self._analysis.finish_round(context.silent, len(context.archives))

    def _ask_hinted(self) -> float | None:
        """Ask the Archive of the hint; return when to ask the others, None for immediately."""
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
                # ``known`` is usually empty; the test avoids hashing the question, which is slow
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
            self._grace_ends = context.clock() + GRACE

    def _open_archive(self, archive: IncludedArchive, is_own: bool, questions: int) -> bool:
        """Return whether to ask an Archive, and count its pending answers.

        If the round waits for all Archives, it also asks those that the circuit breaker skips,
        because they may have an Original too. It waits for these no longer than GRACE.
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
        waits = redirect is None and self._grace_ends is None and not waits_for_all
        if waits and self._analysis.has_follow_up():
            self._grace_ends = context.clock() + max(GRACE, 2 * result.seconds)
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
        if self._skipped and not self._open and self._grace_ends is None:
            self._grace_ends = self._context.clock() + GRACE


def get_source(archive: IncludedArchive) -> ArchiveSource:
    """Return the service and address of an Archive as registered, not as its answers claim."""
    return ArchiveSource(archive.service_ibi, archive.address)


def _event_of(result: ArchiveResult) -> Answered | Failed:
    source = get_source(result.target.archive)
    if isinstance(result, Failure):
        return Failed(source, result.reason, result.seconds)
    return Answered(source, tuple(result.pairs), result.seconds)
