"""Concurrent requests to many Archives, over persistent connections.

A resolution passes its questions to :class:`FanOut`, and reads the results from a
:class:`ReplyQueue`. The thread that waits for results drives the requests itself: during this time
it has an *engine* of its own, a multi handle of libcurl with open connections (engine.py). Later
resolutions use the engine again.

A resolution often ends before all Archives have answered. A background thread completes such
requests, because their connections can then be used again, and because the circuit breaker and the
metrics must know the results. The same thread sends acknowledgments, and ends when there is nothing
to do.
"""

from __future__ import annotations

import logging
import os
import re
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock, Thread
from time import monotonic, sleep
from typing import NamedTuple, TypeAlias

from flask_ibi_archive.core.protocol.hosts import NO_INNER_HOSTS, InnerHosts
from flask_ibi_archive.core.protocol.pairs import ALERT, Pair, parse_pairs
from flask_ibi_archive.core.resolution.answer import Question
from flask_ibi_archive.errors import PeerProtocolError
from flask_ibi_archive.resolver.acknowledgments import Acknowledgments
from flask_ibi_archive.resolver.archives import Archive
from flask_ibi_archive.resolver.config import MAX_CONNECTIONS
from flask_ibi_archive.resolver.engine import STOPPED, Engine, Request
from flask_ibi_archive.resolver.host_names import HostNames, is_valid_url
from flask_ibi_archive.resolver.http_transfer import INVALID_URL, TransferResult
from flask_ibi_archive.server.http.transport import HEADERS

#: The maximum number of acknowledgments that are sent at the same time, by the engine for
#: acknowledgments, and by each engine for questions, which also needs connections to the Archive.
MAX_ACKNOWLEDGMENTS, MAX_BESIDE_QUESTIONS = 20, 4
#: The pause of the background thread in seconds.
PAUSE = 0.01

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


@dataclass(eq=False, slots=True)
class Target:
    """A request to an Archive. Two requests are never equal, so that sets of them are fast.

    :param url: the complete URL with its query.
    :param question: the question that the query contains.
    """

    archive: Archive
    url: str
    question: Question


# Each request creates a result. A named tuple is created faster than a frozen dataclass.


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

    Only the thread of the caller uses the methods, except :meth:`put`.

    :param seconds: the time limit in seconds. After this time, :meth:`get` no longer waits.
    :param release: takes back the engine.
    :ivar engine: the engine of the requests. None if no request is pending.
    :ivar pending: the number of requests for which :meth:`get` has not returned a result yet.
    """

    def __init__(self, seconds: float, release: Callable[[Engine], None]) -> None:
        self._end = monotonic() + seconds
        self._release = release
        self._received: deque[ArchiveResult] = deque()
        self._abandoned = False
        self.engine: Engine | None = None
        self.pending = 0

    def get(self, seconds: float) -> ArchiveResult | None:
        """Return the next result.

        :param seconds: how long to wait for the result.
        :returns: the result. None if no result arrives in this time, or if no request is pending.
        """
        if not self.pending:
            return None
        if not self._received and self.engine is not None:
            end = min(monotonic() + seconds, self._end)
            self.engine.run_until(lambda: self._received, end)
        if not self._received:
            return None
        self.pending -= 1
        if not self.pending:
            self._release_engine()
        return self._received.popleft()

    def put(self, result: ArchiveResult) -> None:
        """Add a result. Any thread may call this method."""
        if not self._abandoned:
            self._received.append(result)

    def abandon(self) -> None:
        """Ignore all further results.

        The running requests are not cancelled, because their connections can then be used again.
        """
        self._abandoned = True
        self.pending = 0
        self._release_engine()

    def __del__(self) -> None:
        # an error of the caller must not make an engine useless
        self._release_engine()

    def _release_engine(self) -> None:
        engine, self.engine = self.engine, None
        if engine is not None:
            self._release(engine)


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

    A forked process opens its own connections.

    :param archive_timeout: the time limit in seconds for the answer of one Archive.
    :param max_answer: the maximum size of an answer in bytes.
    :param on_result: a function that is called with each result, including the results of abandoned
        requests, in any thread. The function must not wait and must not raise an exception.
    :param inner_hosts: the internal hosts to which connections are allowed.
    :param max_connections: the maximum number of open connections of all engines together. Each
        thread that resolves has an engine of its own.
    """

    def __init__(
        self,
        archive_timeout: float,
        max_answer: int,
        on_result: Callable[[ArchiveResult], None] | None = None,
        inner_hosts: InnerHosts = NO_INNER_HOSTS,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self._max_connections = max_connections
        self._milliseconds = max(int(archive_timeout * 1000), 1)
        self._max_answer = max_answer
        self._on_result = on_result
        self._inner_hosts = inner_hosts
        self._closed = False
        #: The engines of the parent process. A forked process neither uses nor closes them.
        self._parent_engines: list[Engine] = []
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=partial(_reset_after_fork, weakref.ref(self)))

    def _reset(self) -> None:
        self._lock = Lock()
        self._names = HostNames(self._inner_hosts)
        self._acknowledgments = Acknowledgments()
        self._engines: list[Engine] = []
        #: The engine for acknowledgments that other engines do not send.
        self._sender: Engine | None = None
        #: The engines that no caller uses. The last one was used last.
        self._free: list[Engine] = []
        self._thread: Thread | None = None

    def ask(
        self, targets: Sequence[Target], seconds: float, replies: ReplyQueue | None = None
    ) -> ReplyQueue:
        """Send requests to Archives concurrently and return the queue of their results.

        :param seconds: how long the caller waits for results. The time limit for each Archive does
            not depend on this value: a request does not fail because other Archives are slow.
        :param replies: the queue of earlier requests. The new results are added to this queue. If
            the value is None, a new queue is created.
        """
        replies = replies or ReplyQueue(seconds, self._release)
        replies.pending += len(targets)
        requests = []
        for target in targets:
            if self._closed or not is_valid_url(target.url):
                replies.put(Failure(target, STOPPED if self._closed else INVALID_URL, 0.0))
            else:
                finish = partial(self._finish, target, replies)
                requests.append(Request(target.url, self._milliseconds, finish))
        if requests:
            replies.engine = replies.engine or self._take()
            replies.engine.add(*requests)
            self._start_thread()
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
        added = self._acknowledgments.add(url, self._milliseconds, {**HEADERS, **headers})
        engine = self._pop_free()
        if engine is not None:
            # the engine that was used last has an open connection to the Archive
            if engine.running < MAX_BESIDE_QUESTIONS:
                self._send_acknowledgments(engine, 1)
            self._release(engine)
        self._start_thread()
        return added

    def close(self, seconds: float = 2.0) -> None:
        """Wait for the pending acknowledgments, then close all connections.

        No more requests are sent.

        :param seconds: how long to wait for the acknowledgments.
        """
        self._closed = True
        self._acknowledgments.wait(seconds)
        with self._lock:
            engines, thread = list(self._engines), self._thread
        for engine in engines:
            engine.stop()
        if thread is not None:
            thread.join(max(seconds, 1.0))  # it counts the last results

    def has_work(self) -> bool:
        """Return True if requests are running, or acknowledgments are not delivered yet."""
        is_running = any(engine.running for engine in self._engines)
        return is_running or bool(self._acknowledgments.waiting)

    def _finish(
        self, target: Target, replies: ReplyQueue, transfer: TransferResult, seconds: float
    ) -> None:
        """Hand over the result of a request to the caller, then update the metrics."""
        try:
            answer = read_answer(transfer)
        except Exception:  # the caller waits, so it must get a result
            _logger.exception("the answer of an Archive can't be read")
            answer = "answers with a text that can't be read"
        result: ArchiveResult
        if isinstance(answer, str):
            result = Failure(target, answer, seconds, refuses_request(transfer.status))
        else:
            result = Reply(target, answer, seconds)
        replies.put(result)
        if self._on_result is not None and transfer.reason is not STOPPED:
            try:
                self._on_result(result)
            except Exception:
                _logger.exception("the result of a request can't be counted")

    def _take(self) -> Engine:
        """Return the engine that was used last and is free, or a new one."""
        with self._lock:
            self._engines = [engine for engine in self._engines if not engine.has_stopped]
            engine = self._pop_free()
            if engine is None or engine.has_stopped:
                engine = Engine(self._max_answer, self._names)
                self._engines.append(engine)
            number = len(self._engines)
        engine.limit_connections(max(self._max_connections // number, 1))
        return engine

    def _pop_free(self) -> Engine | None:
        try:
            return self._free.pop()
        except IndexError:  # another thread may take the last one at any time
            return None

    def _release(self, engine: Engine) -> None:
        # no lock: the garbage collector may call this method at any time
        if engine in self._engines:  # not if the engine belongs to the parent process
            self._free.append(engine)

    def _start_thread(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():  # an error may have ended it
                thread = Thread(target=self._work, name="ibi-resolver-requests", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the process has too many threads; a later call tries again
                    _logger.warning("requests to Archives wait: no thread can be started")
                else:
                    self._thread = thread

    def _work(self) -> None:
        """Drive the engines that no caller drives, and send acknowledgments."""
        while True:
            self._send_waiting()
            for engine in list(self._engines):
                if engine.running:
                    engine.run_if_free()
            with self._lock:
                if not self.has_work():
                    self._thread = None
                    return
            sleep(PAUSE)

    def _send_waiting(self) -> None:
        """Send the acknowledgments that no other engine has sent."""
        waiting, sender = self._acknowledgments.waiting, self._sender
        if waiting and (sender is None or (sender.has_stopped and not self._closed)):
            sender = self._sender = Engine(self._max_answer, self._names)
            with self._lock:
                self._engines.append(sender)
        if sender is not None:
            self._send_acknowledgments(sender, MAX_ACKNOWLEDGMENTS - sender.running)

    def _send_acknowledgments(self, engine: Engine, maximum: int) -> None:
        """Send some of the waiting acknowledgments. Any thread may call this method."""
        with suppress(IndexError):
            for _ in range(maximum):
                engine.add(self._acknowledgments.waiting.popleft())


def _reset_after_fork(reference: weakref.ref[FanOut]) -> None:
    """Prepare a forked process: it must open its own connections."""
    fan_out = reference()
    if fan_out is not None:
        fan_out._parent_engines += fan_out._engines
        fan_out._reset()
