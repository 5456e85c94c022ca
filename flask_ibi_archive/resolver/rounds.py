"""Rounds of a resolution. A round sends questions to the Archives and reads the answers.

What the answers mean is decided in :mod:`flask_ibi_archive.core.resolution.choice`. Whom to ask is
decided in :mod:`flask_ibi_archive.core.resolution.asking`. A round decides when to ask, and how
long to wait. The questions are asked in two steps. Usually the first step is one Archive: the one
that claims the item, or where the item was last found. The second step follows when the answers of
the first are there and contain no redirect, or at the end of the *head start*.

In a round, a request is *pending* until its result is there. An Archive is *late* if a request to
it is pending when the round ends. It is *silent* if it is late, or if one of its answers was wrong
or did not come: then it may know the item. The round waits for each pending request, except those
to these Archives, for which it waits only for the *grace period* after the last result of the
others:

- Archives that are only hinted, which never count as silent;
- Archives whose claims can stand in for their answers;
- Archives that failed repeatedly, so that their circuit is open (asking.py). They are
  asked only if the Original is required, because they may have it.

The round ends with the first redirect, when nothing is awaited, or at the deadline of the
resolution. There is another grace period: it begins with an answer that leads to a follow-up
question, because this answer probably shows the way. It is twice as long as the response time of
this answer, so that only a much slower Archive is late. If an Original is required, no answer
begins it.

The periods only shorten the wait of a reader, and cannot change the result. If the resolution would
end with an alert although an Archive was late, a second attempt (resolving.py) waits for all
Archives, and uses the answers that came (``known``) instead of asking again. A redirect needs no
second attempt, because every acceptable URL is right. Only an Original is unique, and then the
first attempt already waits for all answers. If an Archive is silent to the end, the alert says so:
without its answer, nobody can say that an item does not exist.

The document registry is another source of answers. Anyone can register documents. Therefore the
registry answers only the questions that no Archive can answer: see :meth:`Round._add_registered`.
Source: [R] 6.2; federation CL-8 to CL-10.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence, Set
from math import inf
from typing import cast

from flask_ibi_archive.core.protocol.messages import format_request
from flask_ibi_archive.core.protocol.pairs import Pair, pairs_as_dict
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.answer import Answer, Question
from flask_ibi_archive.core.resolution.asking import Asking
from flask_ibi_archive.core.resolution.choice import Analysis
from flask_ibi_archive.core.resolution.outcome import Alert, AlternativesSearch, NextRound, Redirect
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.resolver.archives import Archive
from flask_ibi_archive.resolver.asking import (
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
    :param asking: the questions, and whom to ask each of them.
    :ivar late: the number of Archives that had not answered when the round ended.
    """

    def __init__(
        self,
        analysis: Analysis | AlternativesSearch,
        context: ResolutionContext,
        asking: Sequence[tuple[Question, Asking]],
    ) -> None:
        self._analysis = analysis
        self._context = context
        self._asking = asking
        self._replies: ReplyQueue | None = None
        #: The requests without a right answer, also those that were skipped.
        self._unanswered: set[Target] = set()
        #: Those whose results are awaited for longer than the grace period, and the other ones.
        self._pending: set[Target] = set()
        self._graced: set[Target] = set()
        self._has_second_step = True
        #: The results of the first attempt that were not processed yet.
        self._known: deque[ArchiveResult] = deque()
        #: The requests to the Archive in this process.
        self._own: deque[Target] = deque()
        #: The ends of the head start, of the grace period after a follow-up, and of the one after
        #: the last awaited result. Infinite if there is no such period now.
        self._head_start_ends = self._follow_up_ends = self._grace_ends = inf
        self.late = 0

    def run(self) -> Redirect | NextRound | Alert:
        """Ask the Archives, and return the outcome of the answers."""
        self._ask(is_first=True)
        if not self._analysis.waits_for_all:
            head_start = 0.0 if self._context.is_patient else HEAD_START
            self._head_start_ends = self._context.clock() + head_start
        while True:
            result = self._next_result()
            if result is not None:
                redirect = self._process(result)
                if redirect is not None:
                    self._abandon()
                    return redirect
            elif self._has_second_step:  # nothing is open, or the head start has ended
                self._has_second_step = False
                self._head_start_ends = inf
                # the Original is the answer, whatever the others have
                if not self._analysis.waits_for_all or not self._analysis.has_redirect():
                    self._ask(is_first=False)
            else:
                return self._finish()

    # --- asking ----------------------------------------------------------------------------------

    def _ask(self, is_first: bool) -> None:
        """Ask the Archives of a step."""
        context, addresses = self._context, self._context.request.client_addresses
        waits_for_all = self._analysis.waits_for_all
        targets: list[Target] = []
        #: Whether the circuit of an Archive is open: it gets all questions of the step, or none.
        decided: dict[int, bool] = {}
        for question, asking in self._asking:
            query = ""
            for archive_id in asking.list_step(is_first, waits_for_all, context.always_ids):
                archive = context.included[archive_id]
                query = query or format_request(question.create_request(addresses))
                target = Target(archive, f"{archive.service_url}?{query}", question)
                self._unanswered.add(target)
                is_open = decided.get(archive_id)
                if is_open is None:
                    is_open = decided[archive_id] = self._has_open_circuit(archive)
                if is_open and not waits_for_all:
                    continue
                if not is_open:
                    is_awaited = asking.needs_answer(archive_id)
                    (self._pending if is_awaited else self._graced).add(target)
                # hashing a question is slow and not necessary if ``known`` is empty
                known = context.known.get((archive_id, question)) if context.known else None
                if known is not None:
                    self._known.append(known._replace(target=target))
                elif context.is_own(archive):
                    self._own.append(target)
                else:
                    targets.append(target)
        if context.trace is not None:
            is_by_hint = is_first and not waits_for_all
            for target in (*self._own, *targets):
                context.trace(Asked(target, is_by_hint))
        if targets:
            seconds = context.end - context.clock()
            self._replies = context.fan_out.ask(targets, seconds, self._replies)

    def _has_open_circuit(self, archive: Archive) -> bool:
        """Return whether an Archive failed repeatedly, so that usually it is not asked."""
        context = self._context
        if context.is_own(archive) or context.circuit_breaker.allows_request(archive.id):
            return False
        if context.trace is not None:
            context.trace(Skipped(archive))
        return True

    # --- answers ---------------------------------------------------------------------------------

    def _next_result(self) -> ArchiveResult | None:
        """Return the next result. None if no result is open, or arrives before a period ends."""
        if self._known:
            return self._known.popleft()
        result, context = None, self._context
        if self._replies is not None and self._replies.pending:
            # a result that arrived in time is used, even if the result is read late
            left = 0.0 if self._own else max(self._find_period_end() - context.clock(), 0.0)
            result = self._replies.get(left)
        else:
            self._grace_ends = inf  # the next step has a grace period of its own
        if result is None and self._own:
            result = self._ask_own(self._own.popleft())
        if result is not None:
            context.results.append(result)
            if context.trace is not None:
                context.trace(result)
        return result

    def _find_period_end(self) -> float:
        """Return the end of the period that ends first."""
        if self._pending:
            self._grace_ends = inf
        elif self._grace_ends == inf:
            self._grace_ends = self._context.clock() + GRACE
        return min(self._context.end, self._head_start_ends, self._follow_up_ends, self._grace_ends)

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

    def _process(self, result: ArchiveResult) -> Redirect | None:
        target = result.target
        self._pending.discard(target)
        self._graced.discard(target)
        if isinstance(result, Reply):
            self._unanswered.discard(target)
        redirect = self._add_answer(result)
        if redirect is None:
            self._await_last_claimant(target)
        return redirect

    def _add_answer(self, result: ArchiveResult) -> Redirect | None:
        context, target = self._context, result.target
        if isinstance(result, Failure) or not result.pairs:  # the Archive does not know the item
            return None
        source = context.name_source(target.archive)
        answer = Answer(source, target.question, pairs_as_dict(result.pairs))
        redirect = self._analysis.add_answer(answer)
        waits_for_all = self._analysis.waits_for_all or context.is_patient
        waits = redirect is None and self._follow_up_ends == inf and not waits_for_all
        if waits and self._analysis.has_follow_up():
            self._follow_up_ends = context.clock() + max(GRACE, 2 * result.seconds)
        return redirect

    def _await_last_claimant(self, target: Target) -> None:
        """Wait longer for the last Archive that claims the Original, if the others don't have it.

        As long as two of them may have it, their claims are enough for an alert.

        :param target: the request whose result was processed. Most are not to such an Archive.
        """
        for question, asking in self._asking:
            claimants = {id for id, state in asking.stand_ins.items() if state is State.ORIGINAL}
            if question is not target.question or target.archive.id not in claimants:
                continue
            waiting = [
                other
                for other in self._unanswered
                if other.question is question and other.archive.id in claimants
            ]
            number = len(waiting) + len(claimants.intersection(asking.silent))
            if waiting and number == 1 and not self._analysis.has_redirect():
                self._pending.update(self._graced.intersection(waiting))

    # --- the end ---------------------------------------------------------------------------------

    def _abandon(self) -> None:
        """Stop waiting for results, and count the Archives that have not answered."""
        if self._replies is not None:
            self._replies.abandon()
        self.late = len({target.archive.id for target in self._pending})

    def _finish(self) -> Redirect | NextRound | Alert:
        context = self._context
        self._abandon()
        silent = self._find_silent()
        # an Archive that was silent in an earlier round may have known the item
        context.silent = max(context.silent, len(silent))
        # after a round that did not wait for all Archives, a second attempt waits for them
        has_waited = not self._pending or context.clock() >= context.end
        if context.documents is not None and has_waited:
            redirect = self._add_registered(context.documents, silent)
            if redirect is not None:
                return redirect
        asked = set(context.always_ids)
        for _, asking in self._asking:
            asked.update(asking.first, asking.others, asking.silent)
        return self._analysis.finish_round(context.silent, len(asked))

    def _find_silent(self) -> set[int]:
        """Return the Archives that did not answer and may know the item, and use their claims."""
        silent: set[int] = set()
        for question, asking in self._asking:
            unanswered = {
                target.archive.id for target in self._unanswered if target.question is question
            }
            unanswered.update(asking.silent)
            for archive_id in sorted(unanswered.difference(asking.optional)):
                state = asking.stand_ins.get(archive_id)
                if isinstance(self._analysis, Analysis):
                    source = self._context.name_source(self._context.included[archive_id])
                    self._analysis.add_silence(source, question, state)
                if state is not State.DELETED:
                    silent.add(archive_id)
        return silent

    def _add_registered(self, read: ReadDocuments, silent: Set[int]) -> Redirect | None:
        """Add the answers of the document registry about items that no Archive knows.

        An Archive that did not answer may have the item: it may have minted the identifier, or the
        item was last found there. Then the answer of the registry about this item is not used.

        :param silent: the ids of the Archives that did not answer.
        """
        context = self._context
        absent = [context.included[archive_id] for archive_id in silent]
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
