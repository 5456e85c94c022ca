"""The course of one resolution: rounds of questions to all Archives, till one answer settles it ([R] 6.2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import cast

from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.protocol.analysis import (
    Alert,
    AlertKind,
    Analysis,
    Answer,
    Ask,
    Question,
    Redirect,
    Source,
)
from flask_ibi_archive.protocol.hosts import NO_INNER_HOSTS, InnerHosts
from flask_ibi_archive.protocol.language_ranges import LanguageRange
from flask_ibi_archive.protocol.messages import format_request
from flask_ibi_archive.protocol.pairs import Pair, pairs_as_dict
from flask_ibi_archive.protocol.persistent_url import PersistentUrl
from flask_ibi_archive.service.resolver.fan_out import Exchange, Failure, FanOut, Reply, Target
from flask_ibi_archive.service.resolver.health import Health
from flask_ibi_archive.service.resolver.trace import (
    Answered,
    Asked,
    Decided,
    Failed,
    Skipped,
    Trace,
    TraceEvent,
)
from flask_ibi_archive.storage.resolver.directory import IncludedArchive

#: Seconds that the Archive where an item was found last is asked before the others.
HEAD_START = 0.25
#: Seconds at least that the other Archives are waited for when one has named an IBI to go on with.
GRACE = 0.25


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
class OwnArchive:
    """An Archive that runs in this very process: to ask it by HTTP could be to wait for oneself.

    :param service_ibi: it is asked if that is included.
    :param ask: takes the query of a urlRequest and gives the URL list; raises NotReady.
    """

    service_ibi: str
    ask: Callable[[str], list[Pair]]


@dataclass(frozen=True, slots=True)
class Result:
    """What a resolution came to.

    :param archive: the one that gave the URL, None for an alert.
    """

    outcome: Redirect | Alert
    archive: IncludedArchive | None = None


def source_of(archive: IncludedArchive) -> Source:
    """Give an Archive as it was included, whatever its answers claim."""
    return Source(archive.service_ibi, archive.address)


def service_url(archive: IncludedArchive) -> str:
    """Give the base URL of an Archive's service ([R] 4.1)."""
    return f"http://{archive.address}/{archive.service_ibi}"


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
        health: Health,
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
        self._was_hurried = False
        self._is_in_time = True

    def run(self) -> Result:
        """Give what the persistent URL leads to.

        What leads nowhere when some were not waited for is asked once more, and they are: what they know may
        be what the reader wants.
        """
        result = self._run()
        if self._was_hurried and isinstance(result.outcome, Alert) and self.clock() < self.end:
            self.is_patient = True
            self.silent = 0
            again = self._run()
            # when the time ran out, what was known before says more
            return again if self._is_in_time else result
        return result

    def _run(self) -> Result:
        asked = self.request
        analysis = Analysis(asked.wanted, asked.ranges, self.max_rounds, self.inner_hosts)
        while True:
            self.rounds += 1
            one = _Round(analysis, self)
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


class _Round:
    """One round: its questions to each Archive, its answers as they come."""

    def __init__(self, analysis: Analysis, resolution: Resolution) -> None:
        self._analysis = analysis
        self._whole = resolution
        self._exchange: Exchange | None = None
        #: Answers that are still to come, by Archive; those that failed are taken out.
        self._open: dict[int, int] = {}
        self._failed: set[int] = set()
        #: Likewise of those that are skipped, and asked all the same.
        self._skipped: dict[int, int] = {}
        self._waiting = list(resolution.archives)
        #: Questions to the Archive of this process.
        self._own: deque[Target] = deque()
        self._settles_at: float | None = None
        self.late = 0

    def run(self) -> Redirect | Ask | Alert:
        whole = self._whole
        head_start_ends = self._ask_hinted()
        if head_start_ends is None:
            self._ask_waiting()
        while self._own or self._waiting or (self._exchange and self._exchange.pending):
            until = min(whole.end, head_start_ends or whole.end, self._settles_at or whole.end)
            came = self._next(until)
            if came is None and not self._waiting:
                break
            redirect = None if came is None else self._take(came)
            if redirect is not None:
                self._drop()
                return redirect
            if self._waiting and (came is None or not self._open):
                head_start_ends = None
                self._ask_waiting()
        return self._conclude()

    def _next(self, until: float) -> Reply | Failure | None:
        """Give what comes next, None where nothing does by a moment."""
        whole = self._whole
        if self._own:
            return self._ask_own(self._own.popleft())
        # what has come by then counts, however late it is looked at
        left = max(until - whole.clock(), 0.0)
        return None if self._exchange is None else self._exchange.next(left)

    def _ask_own(self, target: Target) -> Reply | Failure:
        whole = self._whole
        begun = whole.clock()
        try:
            pairs = cast(OwnArchive, whole.own).ask(target.url.partition("?")[2])
        except NotReady as error:
            return Failure(target, error.summary, whole.clock() - begun)
        return Reply(target, pairs, whole.clock() - begun)

    def _drop(self) -> None:
        """Wait for nobody any longer."""
        if self._exchange is not None:
            self._exchange.drop()
        self.late = len(self._open)

    def _conclude(self) -> Redirect | Ask | Alert:
        whole = self._whole
        self._drop()
        silent = len(self._open.keys() | self._failed)
        # what was not heard in an earlier round may have known more
        whole.silent = max(whole.silent, silent)
        return self._analysis.conclude(whole.silent, len(whole.archives))

    def _ask_hinted(self) -> float | None:
        """Ask the Archive where the item was found last; give when the others are asked."""
        whole = self._whole
        if whole.rounds > 1 or whole.hinted is None:
            return None
        first = [one for one in self._waiting if one.id == whole.hinted]
        self._ask(first, by_hint=True)
        self._waiting = [one for one in self._waiting if one.id != whole.hinted]
        # where nobody else is left to be asked there is no start to give
        return whole.clock() + HEAD_START if self._open and self._waiting else None

    def _ask_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._ask(waiting)

    def _ask(self, archives: Sequence[IncludedArchive], by_hint: bool = False) -> None:
        whole = self._whole
        addresses = whole.request.client_addresses
        questions = [
            (question, format_request(question.request(addresses)))
            for question in self._analysis.questions
        ]
        targets: list[Target] = []
        for archive in archives:
            is_own = whole.own is not None and archive.service_ibi == whole.own.service_ibi
            if is_own or whole.health.may_ask(archive.id):
                self._open[archive.id] = len(questions)
            else:
                self._failed.add(archive.id)
                if whole.trace is not None:
                    whole.trace(Skipped(source_of(archive)))
                if not self._analysis.waits_for_all:
                    continue
                # one that claims the Original as well must not be passed over; but it is hardly waited for
                self._skipped[archive.id] = len(questions)
            base = service_url(archive)
            (self._own if is_own else targets).extend(
                [Target(archive, f"{base}?{query}", question) for question, query in questions]
            )
        if whole.trace is not None:
            for target in (*self._own, *targets):
                whole.trace(Asked(source_of(target.archive), target.url, by_hint))
        if targets:
            seconds = whole.end - whole.clock()
            self._exchange = whole.fan_out.ask(targets, seconds, self._exchange)
        if self._skipped and not self._open:
            self._settles_at = whole.clock() + GRACE

    def _take(self, came: Reply | Failure) -> Redirect | None:
        whole = self._whole
        archive = came.target.archive
        self._count_down(archive.id, isinstance(came, Reply))
        if whole.trace is not None:
            whole.trace(_event_of(came))
        if isinstance(came, Failure):
            return None
        if not came.pairs:  # it is unknown there, as in most
            return None
        source = source_of(archive)
        question = cast(Question, came.target.tag)
        pairs = pairs_as_dict(came.pairs)
        redirect = self._analysis.take(Answer(source, question, pairs))
        waits_for_all = self._analysis.waits_for_all or whole.is_patient
        waits = redirect is None and self._settles_at is None and not waits_for_all
        if waits and self._analysis.can_ask_on():
            self._settles_at = whole.clock() + max(GRACE, 2 * came.seconds)
        return redirect

    def _count_down(self, archive_id: int, is_reply: bool) -> None:
        """Note that an answer of an Archive came, or that it failed."""
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
            self._settles_at = self._whole.clock() + GRACE


def _event_of(came: Reply | Failure) -> TraceEvent:
    source = source_of(came.target.archive)
    if isinstance(came, Failure):
        return Failed(source, came.reason, came.seconds)
    return Answered(source, tuple(came.pairs), came.seconds)
