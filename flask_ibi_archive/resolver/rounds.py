"""Rounds of a resolution. A round sends questions to the Archives and reads the answers.

What the answers mean is decided in :mod:`flask_ibi_archive.core.resolution.choice`. A round decides
whom to ask, and how long to wait. In a round, an Archive is in one of these states:

- *waiting*: not asked yet. In the *head start*, only the Archive in the hint (hints.py) is asked,
  because this Archive probably has the item. All other Archives wait. They are asked together when
  the head start ends, or when the hinted Archive has answered without a redirect.
- *pending*: asked; ``_pending`` counts the missing answers of each Archive.
- *skipped*: the Archive failed repeatedly, and its circuit is open (circuit_breaker.py). Such an
  Archive is asked only if the Original is required, because it may have the Original. After the
  last answer of the other Archives, the round waits for it only for the grace period.
- *answered* or *failed*. Failed Archives and late Archives are *silent*: they may know the item.

The round ends with the first redirect, when no Archive waits or is pending, at the deadline of the
resolution, or when the *grace period* ends. The grace period begins with an answer that leads to a
follow-up question, because this answer probably shows the way. The grace period is twice as long as
the response time of this answer, so that only a much slower Archive is late. If an Original is
required, no answer begins the grace period.

Both periods only shorten the wait of a reader, and cannot change the result. An Archive that was
not waited for counts as late. If the resolution would then end with an alert, a second attempt
(resolving.py) waits for all Archives, and uses the answers that came (``known``) instead of asking
again. A redirect needs no second attempt, because every acceptable URL is right. Only an Original
is unique, and then the first attempt already waits for all answers. If an Archive is silent to the
end, the alert says so: without its answer, nobody can say that an item does not exist.

The document registry is another source of answers. Anyone can register documents. Therefore the
registry answers only the questions that no Archive can answer: see :meth:`Round._add_registered`.
Source: [R] 6.2.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence, Set
from typing import cast

from flask_ibi_archive.core.protocol.messages import format_request
from flask_ibi_archive.core.protocol.pairs import Pair, pairs_as_dict
from flask_ibi_archive.core.resolution.answer import Answer
from flask_ibi_archive.core.resolution.choice import Analysis
from flask_ibi_archive.core.resolution.outcome import Alert, AlternativesSearch, NextRound, Redirect
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.resolver.archive_rows import IncludedArchive
from flask_ibi_archive.resolver.concurrent_requests import (
    ArchiveResult,
    Failure,
    Reply,
    ReplyQueue,
    Target,
)
from flask_ibi_archive.resolver.resolution_context import (
    Asked,
    OwnArchive,
    ReadDocuments,
    ResolutionContext,
    Skipped,
)

_logger = logging.getLogger(__name__)

#: The length of the head start in seconds.
HEAD_START = 0.25
#: The minimum length of the grace period in seconds.
GRACE = 0.25


class Round:
    """One round of a resolution.

    :param analysis: the object that contains the questions and analyses the answers.
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
        #: The number of pending answers for the id of each Archive. An Archive without pending
        #: answers is removed.
        self._pending: dict[int, int] = {}
        self._failed: set[int] = set()
        #: The number of pending answers for the id of each Archive that failed repeatedly. Such
        #: Archives are asked only if the round waits for all Archives.
        self._skipped: dict[int, int] = {}
        self._waiting = list(archives)
        #: The results of the first attempt that were not processed yet.
        self._known: deque[ArchiveResult] = deque()
        #: The questions to the Archive in this process.
        self._own: deque[Target] = deque()
        #: The end of the grace period. None if the grace period has not started.
        self._grace_ends: float | None = None
        self.late = 0

    def run(self) -> Redirect | NextRound | Alert:
        """Ask the Archives, and return the outcome of the answers."""
        end = self._context.end
        head_start_ends = self._ask_hinted()
        if head_start_ends is None:
            self._ask_waiting()
        while self._known or self._own or self._waiting or self._has_pending():
            result = self._next_result(min(end, head_start_ends or end, self._grace_ends or end))
            if result is None and not self._waiting:
                break
            redirect = None if result is None else self._process(result)
            if redirect is not None:
                self._abandon()
                return redirect
            # the head start has ended, or the hinted Archive has given all its answers
            if self._waiting and (result is None or not self._pending):
                head_start_ends = None
                self._ask_waiting()
        return self._finish()

    def _add_registered(self, read: ReadDocuments, silent: Set[int]) -> Redirect | None:
        """Add the answers of the document registry about items that no Archive knows.

        An Archive that did not answer may have the item: it may have minted the identifier, or the
        item was last found there. Then the answer of the registry about this item is not used.

        :param silent: the ids of the Archives that did not answer.
        """
        context = self._context
        absent = [archive for archive in context.archives if archive.id in silent]
        questions = [
            question
            for question in context.list_unknown(self._analysis.questions)
            if not any(archive.may_mint(question.ibi) for archive in absent)
        ]
        redirect = None
        addresses = context.request.client_addresses
        for answer in read(questions, addresses, silent) if questions else ():
            if context.trace is not None:
                context.trace(answer)
            redirect = redirect or self._analysis.add_answer(answer)
        return redirect

    def _next_result(self, period_end: float) -> ArchiveResult | None:
        """Return the next result, or None if no result arrives before the end of a period."""
        context = self._context
        if self._known:
            return self._known.popleft()
        # a result that arrived in time is used, even if the result is read late
        left = 0.0 if self._own else max(period_end - context.clock(), 0.0)
        result = None if self._replies is None else self._replies.get(left)
        if result is None and self._own:
            result = self._ask_own(self._own.popleft())
        if result is not None:
            context.results.append(result)
            if context.trace is not None:
                context.trace(result)
        return result

    def _has_pending(self) -> bool:
        return self._replies is not None and self._replies.pending > 0

    def _ask_own(self, target: Target) -> ArchiveResult:
        context = self._context
        started = context.clock()
        try:
            answer = cast(OwnArchive, context.own).answer
            pairs = answer(target.question, context.request.client_addresses)
        except NotReady as error:
            return Failure(target, error.summary, context.clock() - started)
        except Exception:  # the other Archives may still answer
            _logger.exception("the Archive of this app can't answer a question of the resolver")
            return Failure(target, "failed with an internal error", context.clock() - started)
        found = [Pair(name, words) for name, words in pairs.items()]
        return Reply(target, found, context.clock() - started)

    def _abandon(self) -> None:
        """Stop waiting for results, and count the Archives that have not answered."""
        if self._replies is not None:
            self._replies.abandon()
        self.late = len(self._pending)

    def _finish(self) -> Redirect | NextRound | Alert:
        context = self._context
        self._abandon()
        silent = self._pending.keys() | self._failed
        # an Archive that was silent in an earlier round may have known the item
        context.silent = max(context.silent, len(silent))
        # after a round that did not wait for all Archives, a second attempt waits for them
        has_waited = not self._pending or context.clock() >= context.end
        if context.documents is not None and has_waited:
            redirect = self._add_registered(context.documents, silent)
            if redirect is not None:
                return redirect
        return self._analysis.finish_round(context.silent, len(context.archives))

    def _ask_hinted(self) -> float | None:
        """Ask the Archive in the hint, and return the time when the head start ends.

        :returns: None if the other Archives must be asked immediately.
        """
        context = self._context
        # if the Original is required, all answers are awaited, so that a hint saves no time
        if context.rounds > 1 or context.hinted_id is None or self._analysis.waits_for_all:
            return None
        first = [archive for archive in self._waiting if archive.id == context.hinted_id]
        self._ask(first, by_hint=True)
        self._waiting = [archive for archive in self._waiting if archive.id != context.hinted_id]
        return context.clock() + HEAD_START if self._pending and self._waiting else None

    def _ask_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._ask(waiting)

    def _ask(self, archives: Sequence[IncludedArchive], by_hint: bool = False) -> None:
        context, addresses = self._context, self._context.request.client_addresses
        questions = [
            (question, format_request(question.create_request(addresses)))
            for question in self._analysis.questions
        ]
        targets: list[Target] = []
        for archive in archives:
            is_own = context.own is not None and archive.service_ibi == context.own.service_ibi
            if not self._decide_to_ask(archive, is_own, len(questions)):
                continue
            url = archive.service_url
            for question, query in questions:
                # hashing a question is slow and not necessary if ``known`` is empty
                known = context.known.get((archive.id, question)) if context.known else None
                if known is not None:
                    self._known.append(known)
                else:
                    target = Target(archive, f"{url}?{query}", question)
                    (self._own if is_own else targets).append(target)
        if context.trace is not None:
            for target in (*self._own, *targets):
                context.trace(Asked(target, by_hint))
        if targets:
            seconds = context.end - context.clock()
            self._replies = context.fan_out.ask(targets, seconds, self._replies)
        if self._skipped and not self._pending:  # all Archives failed repeatedly
            self._grace_ends = context.clock() + GRACE

    def _decide_to_ask(self, archive: IncludedArchive, is_own: bool, questions: int) -> bool:
        """Return True if an Archive must be asked, and store the number of its pending answers.

        The circuit breaker skips Archives that failed repeatedly. But these Archives may have an
        Original. Therefore a round that waits for all Archives asks these Archives too. After all
        other Archives have answered, the round waits for these Archives at most GRACE seconds.
        """
        if is_own or self._context.circuit_breaker.allows_request(archive.id):
            self._pending[archive.id] = questions
            return True
        self._failed.add(archive.id)
        if self._context.trace is not None:
            self._context.trace(Skipped(archive))
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
        pairs = pairs_as_dict(result.pairs)
        answer = Answer(archive.source, result.target.question, pairs)
        redirect = self._analysis.add_answer(answer)
        waits_for_all = self._analysis.waits_for_all or context.is_patient
        waits = redirect is None and self._grace_ends is None and not waits_for_all
        if waits and self._analysis.has_follow_up():
            self._grace_ends = context.clock() + max(GRACE, 2 * result.seconds)
        return redirect

    def _count_down(self, archive_id: int, is_reply: bool) -> None:
        """Count a pending answer of an Archive as received or failed."""
        is_skipped = archive_id in self._skipped
        left = self._skipped if is_skipped else self._pending
        left[archive_id] -= 1
        if not is_reply:
            self._failed.add(archive_id)
        elif is_skipped and not left[archive_id]:
            self._failed.discard(archive_id)
        if not left[archive_id]:
            del left[archive_id]
        if self._skipped and not self._pending and self._grace_ends is None:
            self._grace_ends = self._context.clock() + GRACE
