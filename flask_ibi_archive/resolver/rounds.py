"""One round of a resolution: its questions to each Archive, its answers as they come ([R] 6.2)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.protocol.messages import format_request
from flask_ibi_archive.protocol.pairs import Pair, pairs_as_dict
from flask_ibi_archive.resolution.alternatives import AlternativesSearch
from flask_ibi_archive.resolution.answer import Answer, ArchiveSource, Question
from flask_ibi_archive.resolution.choice import Analysis
from flask_ibi_archive.resolution.outcome import Alert, Ask, Redirect
from flask_ibi_archive.resolver.directory import IncludedArchive
from flask_ibi_archive.resolver.fan_out import Exchange, Failure, Reply, Target
from flask_ibi_archive.resolver.trace import Answered, Asked, Failed, Skipped, TraceEvent

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.resolving import Resolution

_logger = logging.getLogger(__name__)

#: Seconds that the Archive where an item was found last is asked before the others.
HEAD_START = 0.25
#: Seconds at least that the other Archives are waited for when one has named an IBI to go on with.
GRACE = 0.25


@dataclass(frozen=True, slots=True)
class OwnArchive:
    """An Archive that runs in this very process: to ask it by HTTP could be to wait for oneself.

    :param service_ibi: it is asked if that is included.
    :param ask: takes the query of a urlRequest and gives the URL list; raises NotReady.
    """

    service_ibi: str
    ask: Callable[[str], list[Pair]]


def source_of(archive: IncludedArchive) -> ArchiveSource:
    """Return an Archive as it was included, whatever its answers claim."""
    return ArchiveSource(archive.service_ibi, archive.address)


def service_url(archive: IncludedArchive) -> str:
    """Return the base URL of an Archive's service ([R] 4.1)."""
    return f"http://{archive.address}/{archive.service_ibi}"


class Round:
    """One round of a resolution.

    :param archives: those that are asked.
    """

    def __init__(
        self,
        analysis: Analysis | AlternativesSearch,
        resolution: Resolution,
        archives: Sequence[IncludedArchive],
    ) -> None:
        self._analysis = analysis
        self._whole = resolution
        self._exchange: Exchange | None = None
        #: Answers that are still to come, by Archive; those that failed are taken out.
        self._open: dict[int, int] = {}
        self._failed: set[int] = set()
        #: Likewise of those that are skipped, and asked all the same.
        self._skipped: dict[int, int] = {}
        self._waiting = list(archives)
        #: What is known already, and questions to the Archive of this process.
        self._known: deque[Reply | Failure] = deque()
        self._own: deque[Target] = deque()
        self._settles_at: float | None = None
        self.late = 0

    def run(self) -> Redirect | Ask | Alert:
        """Ask, and give what the answers come to."""
        whole = self._whole
        head_start_ends = self._ask_hinted()
        if head_start_ends is None:
            self._ask_waiting()
        while self._known or self._own or self._waiting or self._is_pending():
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
        """Return what comes next, None where nothing does by a moment."""
        whole = self._whole
        if self._known:
            return self._known.popleft()
        # what has come by then counts, however late it is looked at
        left = 0.0 if self._own else max(until - whole.clock(), 0.0)
        came = None if self._exchange is None else self._exchange.next(left)
        if came is None and self._own:
            came = self._ask_own(self._own.popleft())
        if came is not None:
            whole.heard.append(came)
            if whole.trace is not None:
                whole.trace(_event_of(came))
        return came

    def _is_pending(self) -> bool:
        return self._exchange is not None and self._exchange.pending > 0

    def _ask_own(self, target: Target) -> Reply | Failure:
        whole = self._whole
        begun = whole.clock()
        try:
            pairs = cast(OwnArchive, whole.own).ask(target.url.partition("?")[2])
        except NotReady as error:
            return Failure(target, error.summary, whole.clock() - begun)
        except Exception:  # as one that answers 500: the others are heard all the same
            _logger.exception("the Archive of this app can't answer a resolver's question")
            return Failure(target, "fails", whole.clock() - begun)
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
        return self._analysis.finish_round(whole.silent, len(whole.archives))

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
            (question, format_request(question.create_request(addresses)))
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
                # one that claims the Original as well must not be passed over; but it is hardly
                # waited for
                self._skipped[archive.id] = len(questions)
            base = service_url(archive)
            for question, query in questions:
                # a first run, which a reader mostly has, hashes no questions
                known = whole.known.get((archive.id, question)) if whole.known else None
                if known is not None:
                    self._known.append(known)
                else:
                    target = Target(archive, f"{base}?{query}", question)
                    (self._own if is_own else targets).append(target)
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
        if isinstance(came, Failure):
            return None
        if not came.pairs:  # it is unknown there, as in most
            return None
        source = source_of(archive)
        question = cast(Question, came.target.tag)
        pairs = pairs_as_dict(came.pairs)
        redirect = self._analysis.add_answer(Answer(source, question, pairs))
        waits_for_all = self._analysis.waits_for_all or whole.is_patient
        waits = redirect is None and self._settles_at is None and not waits_for_all
        if waits and self._analysis.has_follow_up():
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
