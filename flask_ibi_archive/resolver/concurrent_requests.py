"""Concurrent requests to many Archives, over persistent connections.

A resolution passes its questions to :class:`FanOut`. This class sends the questions to all Archives
at the same time. A background thread, the *event loop* (event_loop.py), runs the requests and puts
the results into a :class:`ReplyQueue`. The resolution reads the results in its own thread.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock
from time import monotonic
from typing import NamedTuple, TypeAlias

from flask_ibi_archive.archive.transport import HEADERS
from flask_ibi_archive.errors import PeerProtocolError
from flask_ibi_archive.protocol.hosts import NO_INNER_HOSTS, InnerHosts
from flask_ibi_archive.protocol.pairs import ALERT, Pair, parse_pairs
from flask_ibi_archive.resolver.acknowledgments import AcknowledgmentSender
from flask_ibi_archive.resolver.archive_rows import IncludedArchive
from flask_ibi_archive.resolver.dns_cache import is_valid_url
from flask_ibi_archive.resolver.event_loop import STOPPED, EventLoop, Job
from flask_ibi_archive.resolver.http_transfer import INVALID_URL, TransferResult

#: Maximum seconds that an ending process waits for pending acknowledgments.
EXIT_SECONDS = 1.0

TEXT_PLAIN = "text/plain"
OK = 200
BAD_REQUEST = 400
REDIRECTS = range(300, 400)
REFUSALS = range(400, 500)
#: The statuses Request Timeout and Too Many Requests, which mean that the server is overloaded.
OVERLOADED = (408, 429)
#: Matches a content type that may be shown in messages. Other values are not shown, because they
#: may contain text of the request. The request must not be logged.
_is_content_type = re.compile(r"[a-z]{1,20}/[a-z0-9.+-]{1,40}").fullmatch

_logger = logging.getLogger(__name__)


# Each request creates these objects. A named tuple is created faster than a dataclass.


class Target(NamedTuple):
    """A request to an Archive.

    :param url: the complete URL with its query.
    :param tag: any value. The result contains this object, so the caller can read the value there.
    """

    archive: IncludedArchive
    url: str
    tag: object = None


class Reply(NamedTuple):
    """An Archive's answer.

    :param pairs: the pair list. The list is empty if the Archive does not know the item.
    :param seconds: the response time in seconds.
    """

    target: Target
    pairs: list[Pair]
    seconds: float


class Failure(NamedTuple):
    """A request that an Archive did not answer correctly.

    :param reason: the reason in one line, such as "took too long". In messages, the reason follows
        the address of the Archive.
    :param seconds: the time in seconds until the failure.
    :param is_refusal: whether the Archive refused only this request. The Archive may answer other
        requests.
    """

    target: Target
    reason: str
    seconds: float
    is_refusal: bool = False


ArchiveResult: TypeAlias = Reply | Failure


class ReplyQueue:
    """The results of the requests of one caller, in the order of arrival.

    The thread of the caller adds requests and reads results. The thread of the event loop adds
    results.

    :param seconds: the time limit in seconds. After this time, :meth:`get` no longer waits.
    """

    __slots__ = ("_abandoned", "_batch", "_batches", "_end", "_received", "pending")

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds
        #: Results that are handed over together, because waking the caller for each result is slow.
        self._batch: list[ArchiveResult] = []
        self._batches: SimpleQueue[list[ArchiveResult]] = SimpleQueue()
        self._received: deque[ArchiveResult] = deque()
        self._abandoned = False
        #: The number of requests for which :meth:`get` has not returned a result yet.
        self.pending = 0

    def get(self, seconds: float) -> ArchiveResult | None:
        """Return the next result.

        :param seconds: how long to wait for the result.
        :returns: the result. None if no result arrives in this time, or if no request is pending.
        """
        if not self.pending:
            return None
        if not self._received:
            seconds = max(min(seconds, self._end - monotonic()), 0.0)
            try:
                self._received.extend(self._batches.get(timeout=seconds))
            except Empty:
                return None
        self.pending -= 1
        return self._received.popleft()

    def fail(self, targets: Sequence[Target], reason: str) -> None:
        """Add a failure for each request that cannot be sent. Called in the caller's thread."""
        self._batches.put([Failure(target, reason, 0.0) for target in targets])

    def abandon(self) -> None:
        """Ignore all further results.

        The running requests are not cancelled, because their connections can then be used again.
        """
        self._abandoned = True
        self.pending = 0

    def put(self, result: ArchiveResult) -> None:
        """Add a result. Called in the thread of the event loop.

        If the Archive knows the item, the result is handed over to the caller immediately.
        """
        if not self._abandoned:
            self._batch.append(result)
            if isinstance(result, Reply) and result.pairs:
                self.flush()

    def flush(self) -> None:
        """Hand over the results of the batch to the caller. Called in the event loop's thread."""
        if self._batch:
            batch, self._batch = self._batch, []
            self._batches.put(batch)


class _ArchiveJob:
    """A request to an Archive, as a job of the event loop."""

    __slots__ = ("_on_result", "_replies", "_target", "headers", "milliseconds", "url")

    def __init__(
        self,
        target: Target,
        replies: ReplyQueue,
        milliseconds: int,
        on_result: Callable[[ArchiveResult], None] | None,
    ) -> None:
        self._target = target
        self._replies = replies
        self._on_result = on_result
        self.url = target.url
        self.milliseconds = milliseconds
        self.headers: Mapping[str, str] = HEADERS

    def finish(self, transfer: TransferResult, seconds: float) -> None:
        """Hand over the result to the caller, then update the metrics."""
        try:
            found = read_answer(transfer)
        except Exception:  # the caller waits, so it must get a result
            _logger.exception("the answer of an Archive can't be read")
            found = "answers with a text that can't be read"
        result: ArchiveResult
        if isinstance(found, str):
            result = Failure(self._target, found, seconds, refuses_request(transfer.status))
        else:
            result = Reply(self._target, found, seconds)
        self._replies.put(result)
        if self._on_result is not None and transfer.reason is not STOPPED:
            try:
                self._on_result(result)
            except Exception:
                _logger.exception("the result of a request can't be counted")

    def flush(self) -> None:
        """Hand over the results that arrived in this cycle of the event loop."""
        self._replies.flush()


def read_answer(result: TransferResult) -> list[Pair] | str:
    """Return the pairs of an answer, or the reason why the answer is not accepted.

    An answer with status 200 is accepted. An answer with status 400 is accepted if the answer
    contains an ``alert`` pair: the Archive has rejected the question. Then the result is an empty
    list. An answer without a content type is read as text.
    Source: [R] 6.2, Tables 6.5 and 4.2.
    """
    if result.reason is not None:
        return result.reason
    if result.status in REDIRECTS:
        return f"redirects (status {result.status})"
    if result.status not in (OK, BAD_REQUEST):
        return f"answers with status {result.status}"
    pairs = _read_pairs(result)
    if result.status == OK:
        return pairs
    if isinstance(pairs, list) and any(pair.name == ALERT for pair in pairs):
        return []
    return f"answers with status {result.status}"


def refuses_request(status: int) -> bool:
    """Return whether a status means that only this request was refused.

    A server in front of an Archive may reject a path because the path is too long or looks like an
    attack. The answer may have any 4xx status. Such answers do not open the circuit of the Archive.
    Otherwise, authors of persistent URLs could cause failures until the Archive is skipped.
    """
    return status in REFUSALS and status not in OVERLOADED


def _read_pairs(result: TransferResult) -> list[Pair] | str:
    if result.content_type is not None and result.content_type != TEXT_PLAIN:
        kind = result.content_type.partition(";")[0].strip().lower()
        if kind not in ("", TEXT_PLAIN):
            shown = kind if _is_content_type(kind) else "another content type"
            return f"answers with {shown} instead of {TEXT_PLAIN}"
    if not result.body:
        return []
    try:
        return parse_pairs(result.body)
    except PeerProtocolError as error:
        return f"answers with a malformed pair list (at position {error.position})"


class FanOut:
    """Sends requests to many Archives concurrently. Thread-safe and fork-safe.

    One background thread runs all transfers. The thread starts with the first request. A forked
    process starts its own thread and opens its own connections.

    :param archive_timeout: the time limit in seconds for the answer of one Archive.
    :param max_answer: the maximum size of an answer in bytes.
    :param on_result: a function that the background thread calls with each result, including the
        results of abandoned requests. The function must not wait and must not raise an exception.
    :param inner_hosts: the internal hosts to which connections are allowed.
    """

    def __init__(
        self,
        archive_timeout: float,
        max_answer: int,
        on_result: Callable[[ArchiveResult], None] | None = None,
        inner_hosts: InnerHosts = NO_INNER_HOSTS,
    ) -> None:
        self._milliseconds = max(int(archive_timeout * 1000), 1)
        self._max_answer = max_answer
        self._on_result = on_result
        self._inner_hosts = inner_hosts
        self._closed = False
        #: The event loops of the parent process. A forked process neither uses nor closes them.
        self._parent_loops: list[EventLoop] = []
        self._reset()
        itself = weakref.ref(self)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_reset_after_fork, itself))
        atexit.register(_close_at_exit, itself)

    def _reset(self) -> None:
        self._lock = Lock()
        self._loop: EventLoop | None = None
        self._acknowledgments = AcknowledgmentSender(self._send_in_background)

    def ask(
        self, targets: Sequence[Target], seconds: float, replies: ReplyQueue | None = None
    ) -> ReplyQueue:
        """Send requests to Archives concurrently and return the queue of their results.

        :param seconds: how long the caller waits for results. The time limit for each Archive does
            not depend on this value: a request does not fail because other Archives are slow.
        :param replies: the queue of earlier requests. The new results are added to this queue. If
            the value is None, a new queue is created.
        """
        replies = replies or ReplyQueue(seconds)
        replies.pending += len(targets)
        valid = [target for target in targets if is_valid_url(target.url)]
        if len(valid) < len(targets):
            replies.fail([one for one in targets if not is_valid_url(one.url)], INVALID_URL)
        loop = self._get_loop() if valid else None
        if loop is not None:
            milliseconds, on_result = self._milliseconds, self._on_result
            loop.add([_ArchiveJob(target, replies, milliseconds, on_result) for target in valid])
        elif valid:
            replies.fail(valid, STOPPED)
        return replies

    def send_acknowledgment(self, url: str, headers: Mapping[str, str]) -> bool:
        """Send an acknowledgment in the background.

        :param headers: additional headers, such as ``X-Forwarded-User-Agent``. Characters that are
            not printable ASCII are replaced by "?".
        :returns: False if the acknowledgment is not sent. The reason is that too many
            acknowledgments are pending, the URL is invalid, or this object is closed.
        """
        if self._closed or not is_valid_url(url):
            return False
        return self._acknowledgments.send(url, self._milliseconds, {**HEADERS, **headers})

    def close(self, seconds: float = 2.0) -> None:
        """Wait for the pending acknowledgments, then stop the background thread.

        No more requests are sent.

        :param seconds: how long to wait for the acknowledgments.
        """
        end = monotonic() + seconds
        self._closed = True
        self._acknowledgments.wait(seconds)
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.stop(max(end - monotonic(), 1.0))

    def _send_in_background(self, job: Job) -> None:
        # the thread of the loop may send a retry, even after close()
        loop = self._loop or self._get_loop()
        if loop is None:
            job.finish(TransferResult(reason=STOPPED), 0.0)
        else:
            loop.add_background(job)

    def _get_loop(self) -> EventLoop | None:
        loop = self._loop
        if loop is not None and not loop.has_stopped:
            return loop
        with self._lock:
            if self._closed:
                return None
            if self._loop is None or self._loop.has_stopped:
                self._loop = EventLoop(self._max_answer, self._inner_hosts)
                # the thread is also stopped if this object is deleted without close()
                weakref.finalize(self, self._loop.stop, 0.0).atexit = False
            return self._loop


def _reset_after_fork(reference: weakref.ref[FanOut]) -> None:
    """Prepare a forked process: it must start its own thread and open its own connections."""
    fan_out = reference()
    if fan_out is not None:
        if fan_out._loop is not None:
            fan_out._parent_loops.append(fan_out._loop)
        fan_out._reset()


def _close_at_exit(reference: weakref.ref[FanOut]) -> None:
    fan_out = reference()
    if fan_out is not None:
        fan_out.close(EXIT_SECONDS)
