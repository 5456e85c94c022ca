"""The course of one resolution: rounds of questions to all Archives, till one answer settles it
([R] 6.2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import cast

from flask_ibi_archive.protocol.hosts import NO_INNER_HOSTS, InnerHosts
from flask_ibi_archive.resolution.alternatives import AlternativesSearch
from flask_ibi_archive.resolution.answer import Question
from flask_ibi_archive.resolution.choice import Analysis
from flask_ibi_archive.resolution.languages import LanguageRange
from flask_ibi_archive.resolution.outcome import Alert, AlertKind, Ask, Redirect
from flask_ibi_archive.resolution.persistent_url import PersistentUrl
from flask_ibi_archive.resolver.circuit_breaker import CircuitBreaker
from flask_ibi_archive.resolver.directory import IncludedArchive
from flask_ibi_archive.resolver.fan_out import Failure, FanOut, Reply
from flask_ibi_archive.resolver.rounds import OwnArchive, Round
from flask_ibi_archive.resolver.trace import Decided, Trace


@dataclass(frozen=True, slots=True)
class ResolutionRequest:
    """What a reader asks of the resolver ([R] 6.2, Table 6.6).

    :param persistent_url: the text that is acknowledged: as it was asked for, with host and port.
    :param client_addresses: the reader's, then the proxies'.
    :param ranges: the languages that the reader prefers. No Archive is told of them.
    :param user_agent: the reader's program.
    """

    wanted: PersistentUrl
    persistent_url: str
    client_addresses: tuple[str, ...]
    ranges: tuple[LanguageRange, ...] = ()
    user_agent: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What a resolution came to.

    :param archive: the one that gave the URL, None for an alert.
    """

    outcome: Redirect | Alert
    archive: IncludedArchive | None = None


class Resolution:
    """One resolution.

    :param archives: those that are included.
    :param hinted: the number of the one that is asked before the others, None: there is none.
    :param deadline: seconds for the whole.
    :param own: one of them, perhaps, that runs in this process.
    """

    def __init__(
        self,
        request: ResolutionRequest,
        archives: Sequence[IncludedArchive],
        hinted: int | None,
        fan_out: FanOut,
        health: CircuitBreaker,
        *,
        deadline: float,
        max_rounds: int,
        inner_hosts: InnerHosts = NO_INNER_HOSTS,
        own: OwnArchive | None = None,
        trace: Trace | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.request = request
        self.own = own
        self.archives = archives
        self.hinted = None if request.wanted.requires_original else hinted
        self.fan_out = fan_out
        self.health = health
        self.trace = trace
        self.clock = clock
        self.end = clock() + deadline
        self.max_rounds = max_rounds
        self.inner_hosts = inner_hosts
        self.silent = 0
        self.rounds = 0
        #: Whether all are waited for before the next round begins, as long as there is time.
        self.is_patient = False
        #: What came of the questions so far; what was dropped is not in it.
        self.heard: list[Reply | Failure] = []
        #: The same by Archive and question, for a resolution that begins anew: none is put twice.
        self.known: dict[tuple[int, Question], Reply | Failure] = {}
        self._was_hurried = False
        self._is_in_time = True

    def run(self) -> Result:
        """Return what the persistent URL leads to, or why it leads nowhere and what there is
        instead.
        """
        result = self._run_patiently()
        if isinstance(result.outcome, Alert) and result.outcome.kind is AlertKind.MISSING:
            return Result(self._survey(result.outcome))
        return result

    def _survey(self, alert: Alert) -> Alert:
        """Ask the Archives that know something what there is of the item that an alert names."""
        known = {
            one.target.archive.id for one in self.heard if isinstance(one, Reply) and one.pairs
        }
        archives = [archive for archive in self.archives if archive.id in known]
        survey = AlternativesSearch(alert, self.inner_hosts)
        self.rounds += 1
        Round(survey, self, archives).run()
        return survey.finish_round()

    def _run_patiently(self) -> Result:
        """Resolve; where that leads nowhere, once more.

        What leads nowhere when some were not waited for begins anew, and they are asked once more
        and waited for, till the deadline perhaps: what they know may be what the reader wants.
        """
        result = self._run()
        if self._was_hurried and isinstance(result.outcome, Alert) and self.clock() < self.end:
            self.is_patient = True
            self.silent = 0
            self.known = {
                (one.target.archive.id, cast(Question, one.target.tag)): one for one in self.heard
            }
            again = self._run()
            # when the time ran out, what was known before says more
            return again if self._is_in_time else result
        return result

    def _run(self) -> Result:
        asked = self.request
        analysis = Analysis(asked.wanted, asked.ranges, self.max_rounds, self.inner_hosts)
        while True:
            self.rounds += 1
            one = Round(analysis, self, self.archives)
            outcome = one.run()
            if self.trace is not None:
                self.trace(Decided(self.rounds, outcome, one.late))
            if not isinstance(outcome, Ask):
                return Result(outcome, self._find(outcome))
            self._was_hurried = self._was_hurried or one.late > 0
            if self.clock() >= self.end:
                self._is_in_time = False
                return Result(self._too_late(analysis))

    def _find(self, outcome: Redirect | Alert) -> IncludedArchive | None:
        if isinstance(outcome, Alert):
            return None
        service = outcome.source.service
        return next(one for one in self.archives if one.service_ibi == service)

    def _too_late(self, analysis: Analysis) -> Alert:
        # the last questions were put to nobody
        number = len(self.archives)
        return Alert(AlertKind.SILENT, analysis.questions[0].ibi, silent=number, asked=number)
