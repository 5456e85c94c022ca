"""The resolution of a persistent URL, in one or more rounds.

In a *round* (rounds.py) the resolver sends questions to the Archives that claim the items, and to
those that publish no claims. Then the resolver analyses all answers together. The outcome of a
round is a redirect, an alert, or follow-up questions for the next round. An example is a question
about the next edition of the item. Source: [R] 6.2.
"""

from __future__ import annotations

from typing import NamedTuple

from flask_ibi_archive.core.resolution.answer import Question
from flask_ibi_archive.core.resolution.asking import NOTHING, Asking, choose_archives
from flask_ibi_archive.core.resolution.choice import Analysis
from flask_ibi_archive.core.resolution.outcome import (
    Alert,
    AlertKind,
    AlternativesSearch,
    NextRound,
    Redirect,
)
from flask_ibi_archive.resolver.archives import Archive
from flask_ibi_archive.resolver.asking import Reply
from flask_ibi_archive.resolver.resolution_context import Decided, ResolutionContext
from flask_ibi_archive.resolver.rounds import Round


class ResolutionResult(NamedTuple):
    """The outcome of a resolution.

    :param archive: the Archive that returned the URL of the redirect, or that removed the item.
        None for another alert, and for the URL of a registered document.
    """

    outcome: Redirect | Alert
    archive: Archive | None = None


class Resolution:
    """The resolution of one persistent URL."""

    def __init__(self, context: ResolutionContext) -> None:
        self._context = context
        self._has_late_answers = False
        self._is_in_time = True

    def run(self) -> ResolutionResult:
        """Return the outcome: a redirect, or an alert with the available alternatives.

        :raises NotReady: if no Archive has the item, and the database of the document registry does
            not answer.
        """
        result = self._run_attempts()
        if isinstance(result.outcome, Alert) and result.outcome.kind is AlertKind.MISSING:
            return ResolutionResult(self._add_alternatives(result.outcome))
        return result

    def _add_alternatives(self, alert: Alert) -> Alert:
        """Ask the Archives that know the item for alternatives, and return an alert with them."""
        context = self._context
        known = {
            result.target.archive.id
            for result in context.results
            if isinstance(result, Reply) and result.pairs
        }
        search = AlternativesSearch(alert, context.config.inner_hosts)
        context.rounds += 1
        asking = Asking(others=sorted(known), asks_always=False)
        Round(search, context, [(question, asking) for question in search.questions]).run()
        return search.finish_round()

    def _run_attempts(self) -> ResolutionResult:
        """Try to find the URL. Try a second time if some answers of the first attempt were missing.

        In the second attempt, each round waits for all Archives, because a missing answer may
        contain the URL. Questions that were answered in the first attempt are not sent again.
        """
        context = self._context
        result = self._run_attempt()
        is_alert = isinstance(result.outcome, Alert)
        if self._has_late_answers and is_alert and context.clock() < context.end:
            context.is_patient = True
            context.silent = 0
            # questions that were answered are not sent again
            context.known = {
                (known.target.archive.id, known.target.question): known for known in context.results
            }
            second = self._run_attempt()
            # the first alert is more precise than the alert about a timeout
            return second if self._is_in_time else result
        return result

    def _run_attempt(self) -> ResolutionResult:
        context, config = self._context, self._context.config
        analysis = Analysis(
            context.request.wanted, context.request.ranges, config.max_rounds, config.inner_hosts
        )
        while True:
            context.rounds += 1
            current = Round(analysis, context, self._choose_archives(analysis))
            outcome = current.run()
            if context.trace is not None:
                context.trace(Decided(context.rounds, outcome, current.late))
            self._has_late_answers = self._has_late_answers or current.late > 0
            if not isinstance(outcome, NextRound):
                return ResolutionResult(outcome, self._find_archive(outcome))
            if context.clock() >= context.end:
                self._is_in_time = False
                number = len(context.always_ids)  # the last questions were not sent to anyone
                return ResolutionResult(analysis.create_alert(AlertKind.SILENT, number, number))

    def _choose_archives(self, analysis: Analysis) -> list[tuple[Question, Asking]]:
        """Return the questions of the round, and whom to ask each of them."""
        context = self._context
        context.find_claims(analysis.questions)
        hinted = context.knowledge.hinted if context.rounds == 1 else None
        hints = () if hinted is None else (hinted,)
        asking = []
        for question in analysis.questions:
            claims = context.claims.get(question.ibi, NOTHING)
            chosen = choose_archives(
                claims,
                context.always_ids,
                context.list_silent((*hints, *claims.states, *claims.holders)),
                hinted,
                analysis.waits_for_all,
                analysis.names_item(question),
            )
            asking.append((question, chosen))
        return asking

    def _find_archive(self, outcome: Redirect | Alert) -> Archive | None:
        if isinstance(outcome, Redirect):
            return self._context.sources.get(outcome.source)
        if outcome.kind is AlertKind.REMOVED:
            return self._context.sources.get(outcome.sources[0])
        return None
