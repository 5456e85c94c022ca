"""Rounds of a resolution. A round sends questions to the Archives and reads the answers.

What the answers mean is decided in :mod:`flask_ibi_archive.core.resolution.choice`. Whom to ask is
decided in :mod:`flask_ibi_archive.core.resolution.asking`. A round decides when to ask, and how
long to wait. The questions are asked in two steps. Usually the first step is one Archive: the one
that claims the item, or where the item was last found. The second step follows when the answers of
the first are there and contain no redirect, or at the end of the *head start*.

In a round, an Archive is *pending* as long as answers are missing, and *failed* if one of its
answers was wrong or did not come. It is *late* if it is pending when the round ends. Failed and
late Archives are *silent*: they may know the item. The round waits for each pending Archive, except
these, for which it waits only for the *grace period* after the last answer of the others:

- Archives that are only hinted, which never count as silent;
- Archives whose claims can stand in for their answers;
- Archives that failed repeatedly, so that their circuit is open (circuit_breaker.py). They are
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
from collections.abc import Collection, Iterable, Sequence, Set
from itertools import chain, filterfalse
from typing import cast

from flask_ibi_archive.core.protocol.messages import format_request
from flask_ibi_archive.core.protocol.pairs import Pair, pairs_as_dict
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.answer import Answer, Question
from flask_ibi_archive.core.resolution.asking import Asking
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
        #: The questions that an Archive must answer and has not answered yet. An Archive without
        #: such questions is removed. In ``_graced``, they are awaited for the grace period only.
        self._pending: dict[int, list[Question]] = {}
        self._graced: dict[int, list[Question]] = {}
        self._failed: dict[int, list[Question]] = {}
        self._has_second_step = True
        #: The results of the first attempt that were not processed yet.
        self._known: deque[ArchiveResult] = deque()
        #: The questions to the Archive in this process.
        self._own: deque[Target] = deque()
        #: The ends of the head start, of the grace period after a follow-up, and of the one after
        #: the last awaited answer. None if there is no such period now.
        self._head_start_ends: float | None = None
        self._follow_up_ends: float | None = None
        self._grace_ends: float | None = None
        self.late = 0

    def run(self) -> Redirect | NextRound | Alert:
        """Ask the Archives, and return the outcome of the answers."""
        self._ask_first()
        while True:
            if self._has_second_step and not self._is_open():
                self._ask_others()
            if not self._is_open():
                break
            result = self._next_result(self._find_period_end())
            if result is not None:
                redirect = self._process(result)
                if redirect is not None:
                    self._abandon()
                    return redirect
            elif self._has_second_step:  # the head start has ended
                self._ask_others()
            else:
                break
        return self._finish()

    def _find_period_end(self) -> float:
        """Return the end of the period that ends first."""
        ends = [self._context.end, self._follow_up_ends, self._grace_ends]
        if self._has_second_step:
            ends.append(self._head_start_ends)
        return min(end for end in ends if end is not None)

    # --- asking ----------------------------------------------------------------------------------

    def _ask_first(self) -> None:
        """Ask the Archives of the first step."""
        if not self._analysis.waits_for_all:
            self._ask([(question, asking.first) for question, asking in self._asking], True)
            head_start = 0.0 if self._context.is_patient else HEAD_START
            self._head_start_ends = self._context.clock() + head_start
            return
        self._ask(
            [
                (question, [*asking.first, *self._list_always(asking, asking.first)])
                for question, asking in self._asking
            ]
        )

    def _ask_others(self) -> None:
        """Ask the Archives of the second step, unless the Original was found."""
        self._has_second_step = False
        if self._analysis.waits_for_all:
            if not self._analysis.has_redirect():
                self._ask([(question, asking.others) for question, asking in self._asking])
            return
        self._ask(
            [
                (
                    question,
                    [*asking.others, *self._list_always(asking, (*asking.first, *asking.others))],
                )
                for question, asking in self._asking
            ]
        )

    def _list_always(self, asking: Asking, asked: Collection[int]) -> Iterable[int]:
        """Return the Archives that are always asked, and the optional ones."""
        if not asking.asks_always:
            return asking.optional
        always = self._context.always_ids
        return chain(filterfalse(asked.__contains__, always) if asked else always, asking.optional)

    def _ask(self, steps: Iterable[tuple[Question, Iterable[int]]], is_first: bool = False) -> None:
        """Ask some questions, each of some Archives.

        :param is_first: whether claims or a hint are the reason to ask these Archives first.
        """
        context, addresses = self._context, self._context.request.client_addresses
        included = context.included
        targets: list[Target] = []
        decided: dict[int, bool] = {}
        for (question, archive_ids), (_, asking) in zip(steps, self._asking, strict=True):
            query = ""
            for archive_id in archive_ids:
                archive = included[archive_id]
                is_own = context.own is not None and archive.service_ibi == context.own.service_ibi
                is_asked = decided.get(archive_id)
                if is_asked is None:
                    is_asked = decided[archive_id] = self._decide_to_ask(archive, is_own)
                if not is_asked:
                    self._failed.setdefault(archive_id, []).append(question)
                    if not self._analysis.waits_for_all:
                        continue
                is_awaited = is_asked and not _may_stand_in(archive_id, asking)
                waiting = self._pending if is_awaited else self._graced
                waiting.setdefault(archive_id, []).append(question)
                # hashing a question is slow and not necessary if ``known`` is empty
                known = context.known.get((archive_id, question)) if context.known else None
                if known is not None:
                    self._known.append(known)
                    continue
                query = query or format_request(question.create_request(addresses))
                target = Target(archive, f"{archive.service_url}?{query}", question)
                (self._own if is_own else targets).append(target)
        if context.trace is not None:
            for target in (*self._own, *targets):
                context.trace(Asked(target, is_first))
        if targets:
            seconds = context.end - context.clock()
            self._replies = context.fan_out.ask(targets, seconds, self._replies)
        self._set_grace()

    def _decide_to_ask(self, archive: IncludedArchive, is_own: bool) -> bool:
        """Return whether an Archive is asked as usual: unless it failed repeatedly."""
        if is_own or self._context.circuit_breaker.allows_request(archive.id):
            return True
        if self._context.trace is not None:
            self._context.trace(Skipped(archive))
        return False

    def _set_grace(self) -> None:
        """Begin the grace period if only Archives are left that are not waited for longer."""
        if self._pending or not self._graced:
            self._grace_ends = None
        elif self._grace_ends is None:
            self._grace_ends = self._context.clock() + GRACE

    # --- answers ---------------------------------------------------------------------------------

    def _is_open(self) -> bool:
        has_replies = self._replies is not None and self._replies.pending > 0
        return bool(self._known or self._own or has_replies)

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
        archive, question = result.target.archive, result.target.question
        for waiting in (self._pending, self._graced):
            _remove(waiting, archive.id, question)
        if isinstance(result, Failure):
            self._failed.setdefault(archive.id, []).append(question)
        else:
            _remove(self._failed, archive.id, question)
        redirect = self._add_answer(result)
        self._await_last_claimant()
        self._set_grace()
        return redirect

    def _add_answer(self, result: ArchiveResult) -> Redirect | None:
        context = self._context
        archive, question = result.target.archive, result.target.question
        if isinstance(result, Failure) or not result.pairs:  # the Archive does not know the item
            return None
        answer = Answer(context.name_source(archive), question, pairs_as_dict(result.pairs))
        redirect = self._analysis.add_answer(answer)
        waits_for_all = self._analysis.waits_for_all or context.is_patient
        waits = redirect is None and self._follow_up_ends is None and not waits_for_all
        if waits and self._analysis.has_follow_up():
            self._follow_up_ends = context.clock() + max(GRACE, 2 * result.seconds)
        return redirect

    def _await_last_claimant(self) -> None:
        """Wait longer for the last Archive that claims the Original, if the others don't have it.

        As long as two of them may have it, their claims are enough for an alert.
        """
        for question, asking in self._asking:
            claimants = [
                archive_id
                for archive_id, state in asking.stand_ins.items()
                if state is State.ORIGINAL
                and (archive_id in asking.silent or self._is_unanswered(archive_id, question))
            ]
            if len(claimants) == 1 and not self._analysis.has_redirect():
                [last] = claimants
                is_open = question not in self._failed.get(last, ())
                if is_open and question in self._graced.get(last, ()):
                    _remove(self._graced, last, question)
                    self._pending.setdefault(last, []).append(question)

    def _is_unanswered(self, archive_id: int, question: Question) -> bool:
        """Return whether an Archive was asked a question and has not answered it."""
        return any(
            question in waiting.get(archive_id, ())
            for waiting in (self._pending, self._graced, self._failed)
        )

    # --- the end ---------------------------------------------------------------------------------

    def _abandon(self) -> None:
        """Stop waiting for results, and count the Archives that have not answered."""
        if self._replies is not None:
            self._replies.abandon()
        self.late = len(self._pending)

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
            unanswered = set(asking.silent)
            for waiting in (self._pending, self._graced, self._failed):
                unanswered.update(
                    archive_id for archive_id, open_ in waiting.items() if question in open_
                )
            for archive_id in sorted(unanswered.difference(asking.optional)):
                state = asking.stand_ins.get(archive_id)
                if state is not None and isinstance(self._analysis, Analysis):
                    source = self._context.name_source(self._context.included[archive_id])
                    self._analysis.add_claim(source, question, state)
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


def _may_stand_in(archive_id: int, asking: Asking) -> bool:
    """Return whether an answer is not worth a long wait: a claim, or nothing, may stand for it."""
    state = asking.stand_ins.get(archive_id)
    if state is State.ORIGINAL:  # of two claimants of the Original, none has it for sure
        return list(asking.stand_ins.values()).count(state) > 1
    return state is State.DELETED or archive_id in asking.optional


def _remove(waiting: dict[int, list[Question]], archive_id: int, question: Question) -> None:
    questions = waiting.get(archive_id)
    if questions is not None and question in questions:
        questions.remove(question)
        if not questions:
            del waiting[archive_id]
