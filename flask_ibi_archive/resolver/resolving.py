"""The resolution of a persistent URL: which Archives to ask, when, and how long to wait.

Theory. The class :class:`.choice.Analysis` decides what answers mean, but knows nothing of delays
and claims. It has *questions*, takes the answers, and ends the *round* with a redirect, an alert,
or the questions of the next round. In this module, :func:`plan` says which Archives get a question,
and after which delay. All results are kept. Whenever something new may change the outcome,
:meth:`Resolution._decide` replays the analysis from the beginning with all that is known by now.
Therefore no answer comes too late: if a round ended without an answer, the next replay contains it.

An Archive of a plan is *ranked* if it claims the item, or if a claim names it as the Archive of the
Original. The answers of ranked Archives are used in the order of the claims, not in the order of
arrival: a URL is the outcome when all Archives that precede it in this order have answered or
failed. So neither the speed of an Archive nor a rival that claims later changes the outcome. The
answers of other Archives follow, in the order of arrival.

An answer of an Archive is *needed* if, without it, the resolver cannot say that there is no item:
the Archive claims the item; or its claims are not sufficient, because there are none, because they
were not read lately, or because the Archive hides items with the prefix. The other Archives are
asked only because they may have got the item seconds ago. If they do not answer, nothing follows
from this.

The reader waits for the first redirect that nothing can precede. If there is none, a round ends

- when all Archives have answered; answers that are not needed, and Archives that failed repeatedly
  before, are awaited only for :data:`GRACE` after the others;
- or some time after an answer that leads to a further question, because this answer probably shows
  the way; but not while a ranked Archive has not answered. Later answers to this round still count.
  At the end, a reader gets an alert only if no answer is missing, or if the deadline has passed.

Usually only one Archive is asked, and has the URL: the first ranked one, or the one that lately
gave an item with the prefix. The others are asked when this Archive has answered without a URL, or
after :data:`HEAD_START`. Before an alert, Archives are asked that mint with the same prefix or
lately gave items with it; and after a tombstone all Archives, because the item may have moved. If
the Original is required, all Archives that may have it are asked at once and awaited. If one of
them does not answer, its claim replaces the answer: two claims of an Original lead to an alert.

Archives that failed repeatedly are skipped (asking.py), unless the Original is required. The
document registry answers only what no Archive can answer: see :meth:`Resolution._add_registered`.

:class:`ResolverService` is the resolver of an app: it reads what is known, runs a resolution, and
sends the acknowledgment. Source: [R] 6.2; federation CL-8 to CL-12.
"""

from __future__ import annotations

import atexit
import logging
import weakref
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from math import inf
from random import random
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from flask import Response

from flask_ibi_archive.core.identifiers.grammar import Identifier
from flask_ibi_archive.core.protocol.messages import MAX_QUERY, format_request
from flask_ibi_archive.core.protocol.pairs import Pair, pairs_as_dict
from flask_ibi_archive.core.protocol.states import State
from flask_ibi_archive.core.resolution.answer import Answer, Question, is_same_address
from flask_ibi_archive.core.resolution.choice import Analysis
from flask_ibi_archive.core.resolution.outcome import (
    Alert,
    AlertKind,
    NextRound,
    Redirect,
    add_alternatives,
    ask_for_alternatives,
)
from flask_ibi_archive.core.resolution.persistent_url import ResolutionRequest
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.resolver import asking, claims
from flask_ibi_archive.resolver.archives import (
    Archive,
    ArchiveList,
    ArchiveListReader,
    Known,
    Registry,
)
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.metrics import MetricsWriter
from flask_ibi_archive.server.database import migrate
from flask_ibi_archive.server.database.database import Database, lock_table_setup
from flask_ibi_archive.signals import NOBODY, Notifier

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from flask_ibi_archive.resolver.registry_2008.operations import DocumentRegistry

_logger = logging.getLogger(__name__)

#: The seconds after which the other Archives are asked if the first one has not answered.
HEAD_START = 0.25
#: The minimum of the seconds for which an answer is awaited that is probably not needed.
GRACE = 0.25

# --- what the resolver is asked, and whom it can ask ---------------------------------------------


class LocalArchive(Protocol):
    """The Archive in this process, which the resolver asks without HTTP.

    Some servers answer only one request at a time. On such a server, an HTTP request from the
    resolver to the Archive of the same process would never be answered. The extension of the
    Archive puts this object into ``app.extensions``, because modules of a resolver import no
    modules of an Archive.
    """

    def find_service(self) -> str | None:
        """Return the IBI of the service; None if the Archive is not ready."""

    def answer(
        self, question: Question, client_addresses: tuple[str, ...]
    ) -> Mapping[str, tuple[str, ...]]:
        """Return the pairs that answer a question. The method may raise NotReady."""

    def resolve(self, requested: ResolutionRequest) -> Response | None:
        """Return a redirect to an item of the Archive; None if all Archives must be asked."""


#: Reads the answers of the document registry to some questions from the IP addresses of a client.
#: The function may raise NotReady.
ReadDocuments: TypeAlias = Callable[[Sequence[Question], tuple[str, ...]], Sequence[Answer]]
#: Reads what is known about some identifiers. The function may raise NotReady.
LookUp: TypeAlias = Callable[[Sequence[Identifier]], Mapping[str, Known]]

# --- the events that "resolve --trace" prints ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asked:
    """A trace event: a question is sent to an Archive.

    :param is_first: whether this Archive is asked before others.
    """

    target: asking.Target
    is_first: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """A trace event: the circuit breaker skips an Archive that failed repeatedly."""

    archive: Archive


@dataclass(frozen=True, slots=True)
class Decided:
    """A trace event: a round has ended, and the resolver has decided about the next step.

    :param outcome: the decision: a redirect, another round or an alert.
    :param late: the number of Archives that have not answered yet.
    """

    round: int
    outcome: Redirect | NextRound | Alert
    late: int = 0


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A trace event: an acknowledgment is sent to an Archive."""

    archive: Archive
    url: str


#: The result of a request to an Archive, and an answer of the document registry, are events too.
TraceEvent: TypeAlias = Asked | asking.ArchiveResult | Skipped | Answer | Decided | Acknowledged
Trace: TypeAlias = Callable[[TraceEvent], None]

# --- whom to ask ---------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Request(asking.Target):
    """A question to an Archive, and its result.

    :param due: when the question is sent, in the time of the clock. Infinite: only before an alert.
    :param is_ranked: whether the answer is used in the order of the claims.
    :param is_needed: whether the answer is needed to say that there is no item.
    :param is_awaited: whether a round waits for the result longer than :data:`GRACE`.
    :param is_open: whether there is no result yet; the request may still have to be sent.
    :param answer: the answer; None if there is none, or if the Archive does not know the item.
    """

    due: float
    is_ranked: bool
    is_needed: bool
    is_awaited: bool = True
    is_sent: bool = False
    is_open: bool = True
    result: asking.ArchiveResult | None = None
    answer: Answer | None = None


def plan(
    known: Known, always: Collection[int], requires_original: bool = False, names_item: bool = True
) -> list[tuple[float, int, bool, bool]]:
    """Choose the Archives that get a question; the ranked ones are first, in the order of claims.

    :param known: what is known about the item of the question.
    :param always: the ids of the Archives whose claims do not count.
    :param requires_original: whether only the Original is acceptable.
    :param names_item: whether the reader wants the item of the question, not a related item. The
        claims say nothing about the state of a related item.
    :returns: for each Archive ``(delay, id, is_ranked, is_needed)``; see :class:`Request`. The
        delay is in seconds; infinite: the Archive is asked only before an alert.
    """
    ranked: dict[int, bool] = {}
    originals = set()
    for claimant in known.claimants:
        ranked[claimant.archive_id] = True
        if claimant.state is State.ORIGINAL:
            originals.add(claimant.archive_id)
        elif claimant.original_id is not None:
            ranked.setdefault(claimant.original_id, claimant.original_id in always)
    others = dict.fromkeys([*always, *known.hidden], True)
    others |= {one: False for one in known.recent if one not in others}
    hinted = next((one for one in known.recent if one in always), None)
    if requires_original:
        claimed = {one.archive_id for one in known.claimants}
        late = claimed - originals if names_item and originals else set()
        delays = {one: inf if one in late else 0.0 for one in (*others, *ranked)}
    elif ranked:
        delays = {one: HEAD_START if needed else inf for one, needed in others.items()}
        delays |= dict.fromkeys(ranked, HEAD_START) | {next(iter(ranked)): 0.0}
    else:
        delays = {one: 0.0 if hinted in (None, one) else HEAD_START for one in others}
    found = [(delays[one], one, True, needed) for one, needed in ranked.items()]
    rest = [(delays[one], one, False, others[one]) for one in others if one not in ranked]
    return found + rest


@dataclass(eq=False, slots=True)
class Poll:
    """A question, and the requests that send it to Archives; those to ranked Archives are first.

    :ivar answered: the answered requests to Archives that are not ranked, in the order of arrival.
    :ivar is_for_all: whether all included Archives are asked.
    """

    question: Question
    query: str
    known: Known
    names_item: bool
    requests: list[Request] = field(default_factory=list)
    answered: list[Request] = field(default_factory=list)
    is_for_all: bool = False

    def add(self, archive: Archive, due: float, is_ranked: bool, is_needed: bool) -> Request:
        """Add a request to an Archive, and return it."""
        url, is_awaited = f"{archive.service_url}?{self.query}", is_ranked or is_needed
        request = Request(archive, url, self.question, due, is_ranked, is_needed, is_awaited)
        self.requests.append(request)
        return request


# --- the resolution ------------------------------------------------------------------------------


@dataclass
class Resolution:
    """The resolution of one persistent URL.

    :param archives: the included Archives.
    :param known: what is known about identifiers, by their texts; it contains at least the
        identifier in the persistent URL.
    :param own: the Archive in this process, which is asked only if its service is included. None if
        this process has no Archive.
    :param documents: returns answers of the document registry. None if there is no registry.
    :param trace: a function that receives each trace event.
    :param look_up: reads what is known about further identifiers.
    :param clock: returns the time in seconds.
    """

    request: ResolutionRequest
    archives: ArchiveList
    known: dict[str, Known]
    config: ResolverConfig
    fan_out: asking.FanOut
    circuit_breaker: asking.CircuitBreaker
    own: LocalArchive | None = None
    documents: ReadDocuments | None = None
    trace: Trace | None = None
    look_up: LookUp = lambda identifiers: {}
    clock: Callable[[], float] = monotonic

    def __post_init__(self) -> None:
        #: The time of the last result, or at which the wait for one has ended.
        self._now = self.clock()
        self._end = self._now + self.config.deadline
        self._own_service = None if self.own is None else self.own.find_service()
        #: When to decide again even if nothing arrives.
        self._wake = self._end
        self._polls: dict[Question, Poll] = {}
        self._replies: asking.ReplyQueue | None = None
        #: The requests to the Archive in this process that are not answered yet.
        self._own_requests: deque[Request] = deque()
        #: The ends of waiting periods, each by what is awaited.
        self._period_ends: dict[tuple[object, ...], float] = {}
        self._last_seconds = 0.0
        self._registered: dict[Question, Sequence[Answer]] = {}
        self._decisions: list[Decided] = []

    def run(self) -> Redirect | Alert:
        """Return the outcome: a redirect, or an alert with the available alternatives.

        :raises NotReady: if no Archive has the item, and the database of the document registry does
            not answer.
        """
        while (outcome := self._decide()) is None:
            self._wait()
        if isinstance(outcome, Alert):
            if outcome.kind is AlertKind.MISSING:
                outcome = self._find_alternatives(outcome)
            outcome = self._add_claimants(outcome)
        if self._replies is not None and self._replies.pending:
            self._replies.abandon()
        return outcome

    # --- deciding --------------------------------------------------------------------------------

    def _decide(self) -> Redirect | Alert | None:
        """Replay the analysis with all results so far; return None if the outcome is still open."""
        now, request, config = self._now, self.request, self.config
        self._wake = self._end
        analysis = Analysis(request.wanted, request.ranges, config.max_rounds, config.inner_hosts)
        used: list[Poll] = []
        silent = number = 0
        while True:
            number += 1
            if new := [one for one in analysis.questions if one not in self._polls]:
                if now >= self._end and self._polls:
                    count = len(self.archives.always)  # the last questions are sent to nobody
                    return analysis.create_alert(AlertKind.SILENT, count, count)
                self._begin(analysis, new, now)
            polls = [self._polls[question] for question in analysis.questions]
            used += polls
            if redirect := self._add_answers(analysis, polls):
                return self._conclude(number, redirect, used)
            self._send(polls, now)
            open_ = [one for one in _list_planned(polls) if one.is_open]
            if open_ and now < self._end and not self._has_waited(analysis, open_, now):
                return None
            unheard, asked = self._add_silence(analysis, polls)
            silent = max(silent, len(unheard))
            outcome: Redirect | NextRound | Alert | None = None
            is_complete = now >= self._end or not any(one.is_awaited for one in open_)
            if self.documents is not None and is_complete:
                outcome = self._add_registered(self.documents, analysis, unheard)
            outcome = outcome or analysis.finish_round(silent, asked)
            if isinstance(outcome, Redirect):
                return self._conclude(number, outcome, used)
            if isinstance(outcome, Alert):
                break
            self._conclude(number, outcome, used)
        is_late = any(one.is_open and one.is_awaited for one in _list_planned(used))
        if now < self._end and (is_late or self._ask_last(outcome, used, now)):
            return None
        return self._conclude(number, outcome, used)

    def _begin(self, analysis: Analysis, questions: Sequence[Question], now: float) -> None:
        """Plan which Archives get new questions, and when.

        :raises NotReady: if the database does not answer.
        """
        missing = [one.ibi for one in questions if one.ibi.text not in self.known]
        if missing:
            self.known.update(self.look_up(missing))
        for question in questions:
            known = self.known.get(question.ibi.text, NOTHING)
            poll = self._create_poll(question, known, analysis.names_item(question))
            planned = plan(known, self.archives.always, analysis.waits_for_all, poll.names_item)
            for delay, archive_id, is_ranked, is_needed in planned:
                poll.add(self.archives.archives[archive_id], now + delay, is_ranked, is_needed)

    def _create_poll(self, question: Question, known: Known, names_item: bool) -> Poll:
        query = format_request(question.create_request(self.request.client_addresses))
        poll = self._polls[question] = Poll(question, query, known, names_item)
        return poll

    def _add_answers(self, analysis: Analysis, polls: Sequence[Poll]) -> Redirect | None:
        """Add all answers of a round, and return a redirect that no later answer can precede."""
        for poll in polls:
            is_preceded = False
            for request in (*[one for one in poll.requests if one.is_ranked], *poll.answered):
                if request.answer is not None:
                    redirect = analysis.add_answer(request.answer)
                    if redirect is not None and not is_preceded:
                        return redirect
                is_preceded = is_preceded or (request.is_open and request.due < inf)
        return None

    def _has_waited(self, analysis: Analysis, open_: Sequence[Request], now: float) -> bool:
        """Return whether a round has waited long enough for the results that are missing.

        :param open_: the requests without a result; there is at least one.
        """
        if not any(one.is_awaited for one in open_):
            # a new period begins when further requests were sent
            what: tuple[object, ...] = analysis.questions, sum(one.is_sent for one in open_)
            seconds = GRACE
        elif analysis.waits_for_all or any(one.is_ranked for one in open_):
            return False
        elif analysis.has_follow_up():
            what, seconds = analysis.questions, max(GRACE, 2 * self._last_seconds)
        else:
            return False
        end = self._period_ends.setdefault(what, now + seconds)
        if now < end:
            self._wake = min(self._wake, end)
        return now >= end

    def _add_silence(self, analysis: Analysis, polls: Sequence[Poll]) -> tuple[set[int], int]:
        """Use the claims of Archives that did not answer.

        :returns: ``(silent, asked)``: the ids of the silent Archives that may have the item, and
            the number of Archives whose answers matter.
        """
        silent, asked = set(), set()
        for poll in polls:
            states = {one.archive_id: one.state for one in poll.known.claimants}
            for request in _list_planned([poll]):
                archive = request.archive
                if request.is_ranked or request.is_needed:
                    asked.add(archive.id)
                if isinstance(request.result, asking.Reply) or not request.is_needed:
                    continue
                state = states.get(archive.id) if poll.names_item else None
                is_enough = state is State.DELETED or analysis.waits_for_all
                if archive.id in self.archives.always or state is State.COPY or not is_enough:
                    state = None
                analysis.add_silence(archive.source, poll.question, state)
                if state is not State.DELETED:
                    silent.add(archive.id)
        return silent, len(asked)

    def _ask_last(self, alert: Alert, polls: Sequence[Poll], now: float) -> bool:
        """Ask the Archives that are asked only before an alert; return whether there are any."""
        if alert.kind is AlertKind.SUSPECTS:
            return False
        further = [one for poll in polls for one in poll.requests if one.due == inf]
        for poll in polls:
            if not poll.is_for_all and any(map(self._may_have_moved, poll.requests)):
                poll.is_for_all = True
                planned = {one.archive.id for one in poll.requests}
                rest = [one for key, one in self.archives.archives.items() if key not in planned]
                further += [poll.add(one, now, False, False) for one in rest]
        for request in further:
            request.due = now
        self._wake = now
        return bool(further)

    def _may_have_moved(self, request: Request) -> bool:
        """Return whether an answer shows that another Archive may have the item now."""
        state = () if request.answer is None else request.answer.pairs.get("state")
        is_copy = self.request.wanted.requires_original and state == (State.COPY.value,)
        return is_copy or state == (State.DELETED.value,)

    def _conclude(
        self, number: int, outcome: Redirect | NextRound | Alert, polls: Sequence[Poll]
    ) -> Redirect | Alert | None:
        """Return a decision (None for a next round), and report it to ``trace``.

        A decision that an earlier replay has reported is not reported again.

        :param number: the number of the round.
        """
        if self.trace is not None:
            late = len({one.archive.id for one in _list_planned(polls) if one.is_open})
            decided = Decided(number, outcome, late)
            known = self._decisions[number - 1 : number]
            if not known or known[0].outcome != outcome:
                self._decisions[number - 1 :] = [decided]
                self.trace(decided)
        return None if isinstance(outcome, NextRound) else outcome

    def _add_registered(
        self, read: ReadDocuments, analysis: Analysis, silent: Set[int]
    ) -> Redirect | None:
        """Add the answers of the document registry about items that no Archive knows.

        The answer of the registry about an item is not used if an Archive that did not answer may
        have the item: the Archive claims it, mints identifiers with the same prefix, or has lately
        given items with this prefix. A claim no longer matters if its Archive has answered, because
        the claim may be old.

        :param silent: the ids of the Archives that did not answer.
        """
        occupied = set()
        for poll in self._polls.values():
            unheard = {
                one.archive.id for one in poll.requests if not isinstance(one.result, asking.Reply)
            }
            is_claimed = any(one.archive_id in unheard for one in poll.known.claimants)
            is_recent = not silent.isdisjoint(poll.known.recent)
            if is_claimed or is_recent or any(one.answer is not None for one in poll.requests):
                occupied.add(poll.question.ibi)
        questions = [
            question
            for question in analysis.questions
            if question.ibi not in occupied and question not in self._registered
        ]
        if questions:
            found = read(questions, self.request.client_addresses)
            self._registered |= {
                one: [answer for answer in found if answer.question == one] for one in questions
            }
            if self.trace is not None:
                for answer in found:
                    self.trace(answer)
        redirects = [
            analysis.add_answer(answer)
            for question in analysis.questions
            if question.ibi not in occupied
            for answer in self._registered.get(question, ())
        ]
        return next(filter(None, redirects), None)

    # --- asking and waiting ----------------------------------------------------------------------

    def _send(self, polls: Sequence[Poll], now: float) -> None:
        """Send the requests that are due; send all if no request is running."""
        planned = _list_planned(polls)
        unsent = [one for one in planned if not one.is_sent]
        if not unsent:
            return
        later = [one for one in unsent if one.due > now]
        self._send_now([one for one in unsent if one.due <= now], bool(later))
        if later:
            end = min(one.due for one in later)
            is_waiting = any(one.is_open and one.is_sent for one in planned)
            if is_waiting and now < min(end, self._end):
                self._wake = min(self._wake, end)
            else:  # the head start is over, or those before have answered
                self._send_now(later)

    def _send_now(self, requests: Sequence[Request], is_first: bool = False) -> None:
        """Send requests.

        :param is_first: whether other Archives are asked later if these do not lead to a redirect.
        """
        targets: list[asking.Target] = []
        # Whether an Archive is skipped: it gets all questions, or none.
        skipped: dict[int, bool] = {}
        waits_for_all = self.request.wanted.requires_original
        for request in requests:
            archive = request.archive
            request.is_sent = True
            is_own = archive.service_ibi == self._own_service
            if archive.id not in skipped:
                is_allowed = is_own or self.circuit_breaker.allows_request(archive.id)
                skipped[archive.id] = not is_allowed
                if not is_allowed and self.trace is not None:
                    self.trace(Skipped(archive))
            if skipped[archive.id]:
                request.is_awaited, request.is_open = False, waits_for_all
                if not waits_for_all:
                    continue
            if self.trace is not None:
                self.trace(Asked(request, is_first))
            if is_own:
                self._own_requests.append(request)
            else:
                targets.append(request)
        if targets:
            seconds = self._end - self.clock()
            self._replies = self.fan_out.ask(targets, seconds, self._replies)

    def _wait(self) -> None:
        """Receive results until one may change the outcome, or until the next time to decide."""
        while (result := self._next_result()) is not None:
            self._now = self.clock()
            if self.trace is not None:
                self.trace(result)
            request = cast(Request, result.target)
            request.result, request.is_open = result, False
            poll = self._polls[request.question]
            if isinstance(result, asking.Reply) and result.pairs:
                found = pairs_as_dict(result.pairs)
                request.answer = Answer(request.archive.source, request.question, found)
                if not request.is_ranked:
                    poll.answered.append(request)
                self._last_seconds = result.seconds
                is_important = True
            else:
                is_last = not any(
                    one.is_open and one.is_sent and one.is_awaited for one in poll.requests
                )
                is_important = request.is_ranked or is_last
            # at the end, all that has arrived is read
            if is_important and self._now < self._end:
                return
        self._now = max(self.clock(), self._wake)

    def _next_result(self) -> asking.ArchiveResult | None:
        """Return the next result; None if no question is open or no result arrives in time."""
        if self._own_requests:
            return self._ask_own(self._own_requests.popleft())
        # a result that arrived in time is used, even if the result is read late
        seconds = max(self._wake - self.clock(), 0.0)
        return None if self._replies is None else self._replies.get(seconds)

    def _ask_own(self, target: asking.Target) -> asking.ArchiveResult:
        started = self.clock()
        try:
            pairs = cast(LocalArchive, self.own).answer(
                target.question, self.request.client_addresses
            )
        except NotReady as error:
            return asking.Failure(target, error.summary, self.clock() - started)
        except Exception:  # the other Archives may still answer
            _logger.exception("the Archive of this app can't answer a question of the resolver")
            return asking.Failure(target, "failed with an internal error", self.clock() - started)
        found = [Pair(name, words) for name, words in pairs.items()]
        return asking.Reply(target, found, self.clock() - started)

    # --- what an alert tells ---------------------------------------------------------------------

    def _find_alternatives(self, alert: Alert) -> Alert:
        """Ask the Archives that know an item for other parts of it, and add these to an alert."""
        known = {
            one.archive.id
            for poll in self._polls.values()
            for one in poll.requests
            if one.answer is not None
        }
        questions, inner_hosts = ask_for_alternatives(alert), self.config.inner_hosts
        if not known and self.documents is not None:
            found = self.documents(questions, self.request.client_addresses)
            return add_alternatives(alert, found, inner_hosts)
        requests: list[Request] = []
        archives = [self.archives.archives[archive_id] for archive_id in sorted(known)]
        for question in questions:
            poll = self._create_poll(question, NOTHING, False)
            requests += [poll.add(archive, self._now, False, True) for archive in archives]
        self._send_now(requests)
        self._wake = self._end
        while any(one.is_open for one in requests) and self._now < self._wake:
            self._wait()
            answers = [one.answer for one in requests if one.answer is not None]
            alert = add_alternatives(alert, answers, inner_hosts)
            if alert.alternatives and self._wake == self._end:
                self._wake = min(self._end, self._now + max(GRACE, 2 * self._last_seconds))
        return alert

    def _add_claimants(self, alert: Alert) -> Alert:
        """Add to an alert what the claims of Archives say about the item."""
        if alert.ibi is None:
            return alert
        claimants = self.known.get(alert.ibi.text, NOTHING).claimants
        if alert.kind is AlertKind.SUSPECTS:
            claimed = [one.state for one in claimants].count(State.ORIGINAL)
            return replace(alert, is_conflict=claimed > 1)
        if alert.kind is not AlertKind.SILENT:
            return alert
        answered = {
            one.archive.id
            for poll in self._polls.values()
            for one in poll.requests
            if isinstance(one.result, asking.Reply)
        }
        silent = [
            self.archives.archives[one.archive_id].source
            for one in claimants
            if one.state is not State.DELETED and one.archive_id not in answered
        ]
        return replace(alert, claimants=tuple(silent))


#: What is known about an item that nobody claims.
NOTHING = Known()


def _list_planned(polls: Sequence[Poll]) -> list[Request]:
    """Return the requests that have a time; the others are sent only if an alert would follow."""
    return [one for poll in polls for one in poll.requests if one.due < inf]


# --- the resolver of an app --------------------------------------------------------------------


class ResolverService:
    """The resolver of an app. The class is thread-safe.

    :ivar registry: registers, includes and excludes Archives.
    :ivar document_registry: registers actors and documents. None without IBI_RESOLVER_REGISTRY.
    :ivar circuit_breaker: skips Archives that failed repeatedly.
    :ivar fan_out: sends requests to Archives.
    :ivar metrics: stores metrics and prefixes.
    :ivar follower_thread: reads claims if IBI_RESOLVER_FOLLOW is set.
    """

    def __init__(
        self, config: ResolverConfig, database: Database, notifier: Notifier = NOBODY
    ) -> None:
        self.config = config
        self.database = database
        self.registry: Registry = Registry(database, config, notifier=notifier)
        self.circuit_breaker: asking.CircuitBreaker = asking.CircuitBreaker()
        self.metrics: MetricsWriter = MetricsWriter(database)
        self.follower_thread: claims.FollowerThread = claims.FollowerThread(self.make_follower)
        self.archive_list: ArchiveListReader = ArchiveListReader(config.claims_max_age)
        self.fan_out: asking.FanOut = asking.FanOut(config, self._record_result)
        self.document_registry: DocumentRegistry | None = None
        if config.registry:
            self.document_registry = self._create_document_registry()
        atexit.register(_close_at_exit, weakref.ref(self))

    def _create_document_registry(self) -> DocumentRegistry:
        """Create the document registry. The import is here, because few resolvers need it."""
        from flask_ibi_archive.resolver.registry_2008.operations import DocumentRegistry

        return DocumentRegistry(self.database, self.config, self._find_claimant)

    def _find_claimant(self, connection: Connection, ibi: Identifier) -> str | None:
        """Return the service IBI of an included Archive that claims an identifier, or None."""
        archives, known = self.archive_list.read(connection, [ibi.text], [ibi.prefix])
        claimants = known[ibi.text].claimants
        return archives.archives[claimants[0].archive_id].service_ibi if claimants else None

    def make_follower(
        self, on_progress: claims.OnProgress = lambda pages, claims: None
    ) -> claims.Follower:
        """Return a follower of the claims of the included Archives.

        :param on_progress: see :class:`.claims.Follower`.
        """
        return claims.Follower(
            self.config, self.database, self.registry.notifier, on_progress=on_progress
        )

    def resolve(
        self,
        request: ResolutionRequest,
        trace: Trace | None = None,
        *,
        acknowledges: bool = True,
        own: LocalArchive | None = None,
    ) -> Redirect | Alert:
        """Resolve a persistent URL: return a redirect or an alert.

        The acknowledgment is sent in the background, and metrics are written later. This method
        executes only one SELECT, and one more for each further round.

        :param trace: a function that receives each trace event.
        :param acknowledges: True sends an acknowledgment to the Archive that has the item.
        :param own: the Archive in this process. None if this process has no Archive.
        :raises NotReady: if the database is not available.
        Source: [R] 6.2.
        """
        ibi = request.wanted.ibi
        archives, known = self._look_up([ibi])
        resolution = Resolution(
            request,
            archives,
            known,
            self.config,
            self.fan_out,
            self.circuit_breaker,
            own,
            None if self.document_registry is None else self.document_registry.list_answers,
            trace,
            look_up=lambda further: self._look_up(further)[1],
        )
        outcome = resolution.run()
        if random() < claims.SHARE:
            self._audit(ibi, archives, known[ibi.text], own)
        if isinstance(outcome, Alert):
            return outcome
        if is_same_address(outcome.url, request.persistent_url):
            return Alert(AlertKind.LOOP, ibi)
        if not outcome.source.is_actor:
            included, service = archives.archives.values(), outcome.source.service
            [archive] = [one for one in included if one.service_ibi == service]
            prefixes = {found.prefix for found in (outcome.question.ibi, *outcome.ibi)}
            self.metrics.add_prefixes(archive.id, prefixes)
            if acknowledges:
                self._acknowledge(request, outcome, archive, trace)
        return outcome

    def _audit(
        self, ibi: Identifier, archives: ArchiveList, known: Known, own: LocalArchive | None
    ) -> None:
        trusted = [
            archive
            for archive in archives.archives.values()
            if archive.id not in archives.always
            and not (own and archive.service_ibi == own.find_service())  # can't be asked by HTTP
        ]
        claimed = {one.archive_id: one.state for one in known.claimants}
        claims.audit_claims(
            self.database, self.fan_out, ibi, trusted, claimed, self.config.claims_max_age
        )

    def _look_up(self, identifiers: Sequence[Identifier]) -> tuple[ArchiveList, dict[str, Known]]:
        names, prefixes = [ibi.text for ibi in identifiers], [ibi.prefix for ibi in identifiers]
        return self.database.read(
            lambda connection: self.archive_list.read(connection, names, prefixes)
        )

    def _acknowledge(
        self, request: ResolutionRequest, redirect: Redirect, archive: Archive, trace: Trace | None
    ) -> None:
        """Notify an Archive that a user was redirected to its URL ([R] 6.2, Table 6.11)."""
        message = redirect.create_acknowledgment(request.client_addresses, request.persistent_url)
        if message is None:
            return
        query = format_request(message)
        if len(query) > MAX_QUERY:  # the query is too long: omit the query of the persistent URL
            shorter = request.persistent_url.partition("?")[0]
            query = format_request(replace(message, persistent_url=shorter))
        url = f"{archive.service_url}?{query}"
        # the Archive recognises robots by the User-Agent header of the user
        agent = request.user_agent
        headers = {} if agent is None else {"X-Forwarded-User-Agent": agent}
        if self.fan_out.send_acknowledgment(url, headers) and trace is not None:
            trace(Acknowledged(archive, url))

    def _record_result(self, result: asking.ArchiveResult) -> None:
        """Update the circuit breaker and the metrics of an Archive."""
        archive_id = result.target.archive.id
        failure = None if isinstance(result, asking.Reply) else result.reason
        if isinstance(result, asking.Reply) or not result.is_refusal:
            self.circuit_breaker.record_result(archive_id, failure is None)
        self.metrics.add_result(archive_id, result.seconds, failure)

    def init(self) -> None:
        """Create or upgrade the tables of the resolver.

        :raises NotReady: if the database is not available.
        """
        self.database.create()
        with self.database.writing() as connection:
            lock_table_setup(connection)
            migrate.upgrade(connection, history=migrate.RESOLVER)

    def close(self, seconds: float = 2.0) -> None:
        """Wait for pending acknowledgments, store metrics, and close the connections.

        :param seconds: the maximum time to wait for each of the background threads.
        """
        self.follower_thread.close(seconds)
        self.fan_out.close(seconds)
        self.metrics.flush()
        self.database.close()


def _close_at_exit(reference: weakref.ref[ResolverService]) -> None:
    resolver = reference()
    if resolver is not None:
        resolver.close(1.0)
