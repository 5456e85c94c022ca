"""Asks many Archives side by side, over connections that are kept."""

from __future__ import annotations

import atexit
import logging
import os
import re
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

from flask_ibi_archive.archive.transport import HEADERS
from flask_ibi_archive.errors import PeerProtocolError
from flask_ibi_archive.protocol.hosts import NO_INNER_HOSTS, InnerHosts
from flask_ibi_archive.protocol.pairs import ALERT, Pair, parse_pairs
from flask_ibi_archive.resolver.acknowledgments import Acknowledgments, PendingAcknowledgment
from flask_ibi_archive.resolver.dns_cache import is_askable
from flask_ibi_archive.resolver.event_loop import GIVEN_UP, Loop
from flask_ibi_archive.resolver.http_transfer import NO_ADDRESS, Ended

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.archive_rows import IncludedArchive


#: Seconds that the end of the process waits for acknowledgments.
LAST_SECONDS = 1.0

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """A question to an Archive.

    :param url: whole, with its query.
    :param tag: whatever the asker wants back with the answer.
    """

    archive: IncludedArchive
    url: str
    tag: object = None


@dataclass(frozen=True, slots=True)
class Reply:
    """An Archive's answer.

    :param pairs: none: what was asked for is unknown there.
    :param seconds: that it took.
    """

    target: Target
    pairs: list[Pair]
    seconds: float


@dataclass(frozen=True, slots=True)
class Failure:
    """An Archive that did not answer as it should.

    :param reason: one line to be read behind its address, such as "took too long".
    :param refuses: whether it refused this very question: others it may answer.
    """

    target: Target
    reason: str
    seconds: float
    refuses: bool = False


Result: TypeAlias = Reply | Failure


class Exchange:
    """The questions of one asker, and their answers as they come. One thread asks and reads.

    :param seconds: after which nothing is waited for.
    """

    __slots__ = ("_batch", "_came", "_end", "_heard", "_taken", "pending")

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds
        #: Ends that are handed over together: to wake the reader for each would cost more than the
        #: answer.
        self._batch: list[Result] = []
        self._came: SimpleQueue[list[Result]] = SimpleQueue()
        self._taken: deque[Result] = deque()
        self._heard = True
        #: Questions whose end :meth:`next` has not given yet.
        self.pending = 0

    def next(self, seconds: float) -> Result | None:
        """Return what comes next; None where nothing comes in that time, or nothing is left."""
        if not self.pending:
            return None
        if not self._taken:
            seconds = max(min(seconds, self._end - monotonic()), 0.0)
            try:
                self._taken.extend(self._came.get(timeout=seconds))
            except Empty:
                return None
        self.pending -= 1
        return self._taken.popleft()

    def expect(self, more: int) -> None:
        """Count further questions in, before they are asked."""
        self.pending += more

    def refuse(self, targets: Sequence[Target], reason: str) -> None:
        """Take what is not asked at all (in the asker's thread)."""
        self._came.put([Failure(target, reason, 0.0) for target in targets])

    def drop(self) -> None:
        """Hear no more of it. What is under way runs on to its end, so that its connection is kept."""
        self._heard = False
        self.pending = 0

    def take(self, result: Result) -> None:
        """Take an end (in the loop's thread). The reader hears of it at once where it may be all he
        needs.
        """
        if self._heard:
            self._batch.append(result)
            if isinstance(result, Reply) and result.pairs:
                self.hand_over()

    def hand_over(self) -> None:
        """Let the reader have what came (in the loop's thread)."""
        if self._batch:
            batch, self._batch = self._batch, []
            self._came.put(batch)


class _Asked:
    """A question on its way."""

    __slots__ = ("_exchange", "_on_result", "_target", "headers", "milliseconds", "url")

    def __init__(
        self,
        target: Target,
        exchange: Exchange,
        milliseconds: int,
        on_result: Callable[[Result], None] | None,
    ) -> None:
        self._target = target
        self._exchange = exchange
        self._on_result = on_result
        self.url = target.url
        self.milliseconds = milliseconds
        self.headers: Mapping[str, str] = HEADERS

    def ended(self, ended: Ended, seconds: float) -> None:
        """Tell whoever asked, then whoever counts."""
        try:
            found = read_answer(ended)
        except Exception:  # whoever asked must hear of an end
            _logger.exception("an answer can't be read")
            found = "answers what can't be read"
        result: Result
        if isinstance(found, str):
            result = Failure(self._target, found, seconds, refuses_question(ended.status))
        else:
            result = Reply(self._target, found, seconds)
        self._exchange.take(result)
        if self._on_result is not None and ended.reason is not GIVEN_UP:
            try:
                self._on_result(result)
            except Exception:
                _logger.exception("an answer could not be counted")

    def after_turn(self) -> None:
        """Hand over what was not worth an interruption."""
        self._exchange.hand_over()


class FanOut:
    """Asks Archives. Threads may share it; a process that is forked asks with connections of its
    own.

    Its thread begins with the first question.

    :param archive_timeout: seconds for one Archive's answer.
    :param max_answer: bytes of an answer; a longer one is a failure.
    :param on_result: is called with each end of a question, of dropped ones too, in the thread that
        all answers come through: it must neither wait nor raise.
    :param inner_hosts: the internal hosts that may be asked.
    """

    def __init__(
        self,
        archive_timeout: float,
        max_answer: int,
        on_result: Callable[[Result], None] | None = None,
        inner_hosts: InnerHosts = NO_INNER_HOSTS,
    ) -> None:
        self._milliseconds = max(int(archive_timeout * 1000), 1)
        self._max_answer = max_answer
        self._on_result = on_result
        self._inner_hosts = inner_hosts
        self._closed = False
        #: The parent's: a forked process neither uses nor closes them.
        self._parents: list[Loop] = []
        self._begin_anew()
        itself = weakref.ref(self)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_leave_to_parent, itself))
        atexit.register(_close_at_exit, itself)

    def _begin_anew(self) -> None:
        self._lock = Lock()
        self._loop: Loop | None = None
        self._acknowledgments = Acknowledgments(self._send)

    def ask(
        self, targets: Sequence[Target], seconds: float, onto: Exchange | None = None
    ) -> Exchange:
        """Put questions to Archives, side by side.

        :param seconds: that whoever asks has time for the answers. An Archive has its own time
            nevertheless: it does not fail because others were slow before.
        :param onto: questions that were asked before, whose answers these come together with.
        """
        exchange = onto or Exchange(seconds)
        exchange.expect(len(targets))
        good = [target for target in targets if is_askable(target.url)]
        if len(good) < len(targets):
            exchange.refuse([one for one in targets if not is_askable(one.url)], NO_ADDRESS)
        loop = self._get_loop() if good else None
        if loop is not None:
            milliseconds, on_result = self._milliseconds, self._on_result
            loop.ask([_Asked(target, exchange, milliseconds, on_result) for target in good])
        elif good:
            exchange.refuse(good, GIVEN_UP)
        return exchange

    def send(self, url: str, headers: Mapping[str, str]) -> bool:
        """Send an acknowledgment, which nobody waits for.

        :param headers: beside those of every request, such as ``X-Forwarded-User-Agent``; what is
            no printable ASCII in them becomes "?".
        :returns: False: it is not sent, since too many wait already.
        """
        if self._closed or not is_askable(url):
            return False
        return self._acknowledgments.take(url, self._milliseconds, {**HEADERS, **headers})

    def close(self, seconds: float = 2.0) -> None:
        """Wait for the acknowledgments that are under way, then end; nothing is asked any more.

        :param seconds: that they are waited for at most.
        """
        end = monotonic() + seconds
        self._closed = True
        self._acknowledgments.wait(seconds)
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.stop(max(end - monotonic(), 1.0))

    def _send(self, errand: PendingAcknowledgment) -> None:
        # one that is tried again is sent by the loop's thread, after close() too
        loop = self._loop or self._get_loop()
        if loop is None:
            errand.ended(Ended(reason=GIVEN_UP), 0.0)
        else:
            loop.send(errand)

    def _get_loop(self) -> Loop | None:
        loop = self._loop
        if loop is not None and not loop.has_ended:
            return loop
        with self._lock:
            if self._closed:
                return None
            if self._loop is None or self._loop.has_ended:
                self._loop = Loop(self._max_answer, self._inner_hosts)
                # nobody else ends the thread of one that was never closed
                weakref.finalize(self, self._loop.stop, 0.0).atexit = False
            return self._loop


def _leave_to_parent(fan_out: weakref.ref[FanOut]) -> None:
    """Let a forked process ask with connections of its own."""
    found = fan_out()
    if found is not None:
        if found._loop is not None:
            found._parents.append(found._loop)
        found._begin_anew()


def _close_at_exit(fan_out: weakref.ref[FanOut]) -> None:
    found = fan_out()
    if found is not None:
        found.close(LAST_SECONDS)


TEXT_PLAIN = "text/plain"
OK = 200
BAD_REQUEST = 400
REDIRECTS = range(300, 400)
REFUSALS = range(400, 500)
#: Request Timeout, Too Many Requests: it wants to be left alone for a while.
BUSY = (408, 429)
#: A type that is shown: what else stands there may be what was asked, said back.
_is_type = re.compile(r"[a-z]{1,20}/[a-z0-9.+-]{1,40}").fullmatch


def read_answer(ended: Ended) -> list[Pair] | str:
    """Return the pairs of an answer (none: what was asked for is unknown there), or what is wrong
    with it.

    An answer counts with status 200, or with status 400 and an ``alert``, where the Archive finds
    fault with the question. One without a type counts as text.
    Source: [R] 6.2, Tables 6.5 and 4.2.
    """
    if ended.reason is not None:
        return ended.reason
    if ended.status in REDIRECTS:
        return f"redirects (status {ended.status})"
    if ended.status not in (OK, BAD_REQUEST):
        return f"answers with status {ended.status}"
    found = _read_pairs(ended)
    if ended.status == OK:
        return found
    if isinstance(found, list) and any(pair.name == ALERT for pair in found):
        return []
    return f"answers with status {ended.status}"


def refuses_question(status: int) -> bool:
    """Tell whether a status finds fault with the question, not with the server: it says nothing of
    others.

    A server in front of an Archive may take a path for an attack, or for too long, and say so by
    any status of this kind. Whoever writes persistent URLs must not be able to have an Archive
    skipped by them.
    """
    return status in REFUSALS and status not in BUSY


def _read_pairs(ended: Ended) -> list[Pair] | str:
    if ended.content_type is not None and ended.content_type != TEXT_PLAIN:
        named = ended.content_type.partition(";")[0].strip().lower()
        if named not in ("", TEXT_PLAIN):
            shown = named if _is_type(named) else "another type"
            return f"answers {shown} where {TEXT_PLAIN} is right"
    if not ended.body:
        return []
    try:
        return parse_pairs(ended.body)
    except PeerProtocolError as error:
        return f"answers what is no list of pairs (at position {error.position})"
