"""Ask many Archives at the same time, with limits of time and size.

Theory. An *engine* is a multi handle of libcurl: open connections, and the requests that run on
them. It has no thread: it sends and receives only while somebody drives it. An engine belongs to
one thread at a time. Therefore it needs no lock, and nothing is handed over to another thread. 128
answers cost a third of the CPU time that a pool of threads needs.

The thread that resolves *takes* an engine, adds questions to it, and drives it while waiting in
:meth:`ReplyQueue.get`. When all results are there, or the queue is abandoned, the engine is *free*.
The engine that became free last is taken next, because it has open connections. A resolution often
ends before all Archives have answered. Their requests are not cancelled: the connections can be
used again, and the circuit breaker and the metrics must know the results. The thread that takes the
engine next also drives these requests. Until then, the *finisher* drives them: one thread of the
process, which borrows each free engine with unfinished requests for a short step. It ends when all
engines are free and have nothing to do.

Acknowledgments wait in a queue. An engine sends a few of them together with the questions; the
finisher sends the others over a free engine. The number at one time is so small that an Archive
that does not answer them cannot delay questions. A forked process must not use the connections of
the parent process. Therefore each process, identified by its id, has its own engines, queue and
finisher.

These rules make requests secure:

- Time: the limit includes the look-up of the name, the wait for a free connection, and the answer.
- Size: the head (by libcurl) and the body of an answer are limited. Compression is refused, unless
  the headers accept it; then libcurl expands the body piece by piece, until the limit.
- Target: no redirect is followed, no proxy is used, no password is sent. libcurl looks up the name,
  and asks :meth:`_Transfer._open_socket` for a socket for the address to which it connects. For an
  internal address, it gets a socket that cannot connect, unless the settings allow the address. A
  second answer of the DNS cannot deceive this check, because it checks the address of the
  connection itself.
- Text: the reason of a failure contains neither the question nor any text that an Archive sent.

The *circuit breaker* skips an Archive after some failures in sequence. After a pause, one request
is a *probe*: if it is answered, the Archive is asked again; if it fails, a pause begins that is
twice as long. Most statuses 4xx count neither as an answer nor as a failure: a server in front of
an Archive may refuse a path that is too long or looks like an attack, and authors of persistent
URLs must not be able to make the resolver skip an Archive.
"""

from __future__ import annotations

import logging
import os
import re
import selectors
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from math import inf
from threading import Lock, Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pycurl

from flask_ibi_archive.core.protocol.hosts import InnerHosts
from flask_ibi_archive.core.protocol.pairs import Pair
from flask_ibi_archive.core.resolution.answer import Question, read_answer
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.server.http.transport import (
    COMPRESSIONS,
    CUT_OFF,
    HEADERS,
    INTERNAL_REASON,
)

if TYPE_CHECKING:
    from flask_ibi_archive.resolver.archives import Archive

#: The maximum number of connections of a process, and of an engine to one host. A process may often
#: open 1024 files.
MAX_CONNECTIONS, MAX_HOST_CONNECTIONS = 512, 8
#: The pause of the finisher in seconds.
PAUSE = 0.01
#: The maximum number of characters in the value of a sent header. Further ones are cut off.
MAX_HEADER = 1000
#: The maximum number of acknowledgments that wait, and of those that an engine sends at once.
MAX_WAITING, MAX_ACKNOWLEDGMENTS = 1000, 4
#: How often one acknowledgment is sent. The Archive accepts its URL key only once, so a second
#: attempt does not count an access twice.
MAX_TRIES = 2
#: Number of failures in sequence after which an Archive is skipped, and the pauses in seconds.
MAX_FAILURES, FIRST_PAUSE, MAX_PAUSE = 3, 10.0, 300.0

STOPPED = "did not get the complete request, because the resolver is stopping"
NO_HTTP = "does not send valid HTTP"
TIMED_OUT = "took too long"
INVALID_URL = "has an invalid address"
NOT_DELIVERED = "an acknowledgment was not delivered: %s"

#: The errors of libcurl after which a request may be sent again.
_NO_CONNECTION = (pycurl.E_COULDNT_CONNECT, pycurl.E_COULDNT_RESOLVE_HOST)
_LOST_CONNECTION = (pycurl.E_GOT_NOTHING, pycurl.E_RECV_ERROR, pycurl.E_SEND_ERROR)
#: The beginning of an allowed URL, up to the path: no user and no password.
_match_host = re.compile(r"http://(\[[\da-fA-F:.]+\]|[\w.-]+)(?::\d{1,5})?(?![^/?])").match
_find_fields = re.compile(rb"(?im)^(content-type|content-encoding|etag):[ \t]*(.*?)\s*$").findall
#: Replaces what is not printable ASCII. Such a character could end a header line.
_clean = partial(re.compile(r"[^ -~]").sub, "?")

_logger = logging.getLogger(__name__)


# --- questions and their results -----------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Target:
    """A question to an Archive. Two objects are never equal, which makes sets of them fast.

    :param url: the complete URL with its query.
    :param question: the question that the query contains.
    """

    archive: Archive
    url: str
    question: Question


class Reply(NamedTuple):
    """An Archive's answer.

    :param pairs: the pair list. The list is empty if the Archive does not know the item.
    :param seconds: the response time in seconds.
    """

    target: Target
    pairs: list[Pair]
    seconds: float


class Failure(NamedTuple):
    """A question that an Archive did not answer correctly.

    :param reason: the reason in one line, such as "took too long". In messages, the reason follows
        the address of the Archive.
    :param seconds: the time in seconds until the failure.
    :param is_refusal: whether the Archive refused only this question.
    """

    target: Target
    reason: str
    seconds: float
    is_refusal: bool = False


ArchiveResult: TypeAlias = Reply | Failure


Headers: TypeAlias = Mapping[str, str]


class TransferResult(NamedTuple):
    """The result of a request.

    :param status: the HTTP status of the answer. 0 if the request failed.
    :param reason: why the request failed, in one line without the query of the URL. None if the
        answer is complete.
    :param is_retryable: whether the connection failed, so that the request may be sent again.
    :param seconds: the time until the result.
    """

    status: int = 0
    content_type: str = ""
    body: bytes = b""
    reason: str | None = None
    is_retryable: bool = False
    etag: str | None = None
    seconds: float = 0.0


#: Receives the result of a request. It must not wait, and must not raise exceptions.
Finish: TypeAlias = Callable[[TransferResult], None]


def is_valid_url(url: str) -> bool:
    """Return True if a URL is an http URL of printable ASCII, without spaces and fragment."""
    # the methods of str read a long query ten times as fast as a regular expression
    is_plain = url.isascii() and url.isprintable() and " " not in url and "#" not in url
    return is_plain and _match_host(url) is not None


# --- requests with libcurl -----------------------------------------------------------------------


class _Socket(socket.socket):
    """A socket that is closed without a warning, because pycurl gives libcurl a duplicate."""

    __del__ = socket.socket.close


class _Transfer:
    """A curl handle that runs one request after another; a new handle costs 15 us more."""

    def __init__(self, max_answer: int, inner_hosts: InnerHosts) -> None:
        self._max_answer = max_answer
        self._inner_hosts = inner_hosts
        self._headers: Headers | None = None
        self._head, self._body = bytearray(), bytearray()
        self.curl = pycurl.Curl()
        for option, value in (
            (pycurl.PROXY, ""),  # not the proxies of the environment
            (pycurl.PATH_AS_IS, 1),
            (pycurl.NOSIGNAL, 1),
            (pycurl.ACCEPT_ENCODING, "gzip"),  # expands answers; the headers say what is accepted
            (pycurl.OPENSOCKETFUNCTION, self._open_socket),
            (pycurl.HEADERFUNCTION, self._head.extend),
            (pycurl.WRITEFUNCTION, self._read_body),
        ):
            self.curl.setopt(option, value)

    def prepare(self, url: str, milliseconds: int, finish: Finish, headers: Headers) -> None:
        """Set the request that the handle runs next."""
        self.finish, self._url, self._started = finish, url, monotonic()
        self._refusal: str | None = None
        self._head.clear()
        self._body.clear()
        self.curl.setopt(pycurl.URL, url)
        self.curl.setopt(pycurl.TIMEOUT_MS, milliseconds)
        if headers is not self._headers:
            lines = [f"{name}: {_clean(text[:MAX_HEADER])}" for name, text in headers.items()]
            self.curl.setopt(pycurl.HTTPHEADER, lines)
            self._headers = headers
            self._encodings = "", "identity", headers.get("Accept-Encoding")

    def _open_socket(self, purpose: int, address: Any) -> _Socket:
        """Return a socket for an IP address; for an internal address, one that cannot connect."""
        family, kind, protocol, (ip, *_) = address
        host = _match_host(self._url)[1]  # type: ignore[index]
        if not self._inner_hosts.allow(host, ip_address(ip)):
            # this one can't connect to an IP address. Without any, libcurl tries no other address
            self._refusal, family, protocol = INTERNAL_REASON, socket.AF_UNIX, 0
        return _Socket(family, kind, protocol)

    def _read_body(self, piece: bytes) -> int | None:
        self._body += piece
        if len(self._body) <= self._max_answer:
            return None
        self._refusal = f"answers with more than {self._max_answer} bytes"
        return -1  # not the number of received bytes: libcurl ends the request

    def read_result(self, error: int) -> TransferResult:
        """Return the result of the request.

        :param error: the error code of libcurl. 0 means success.
        """
        seconds = monotonic() - self._started
        head = bytes(self._head[self._head.rfind(b"\nHTTP/") + 1 :])  # behind answers 1xx
        fields = {name.lower(): text.decode("latin-1") for name, text in _find_fields(head)}
        encoding = fields.get(b"content-encoding", "").lower()
        refusal = self._refusal if error else None  # another address may have been allowed
        if encoding not in self._encodings:
            # other values are not shown, because they may contain parts of the request
            known = f" ({encoding})" if encoding in COMPRESSIONS else ""
            refusal = f"answers with a content encoding that was not requested{known}"
        elif not error and b"\n\r\n" not in head and b"\n\n" not in head:
            refusal = CUT_OFF
        if error or refusal is not None:
            is_retryable = refusal is None and error in (*_NO_CONNECTION, *_LOST_CONNECTION)
            reason = refusal or self._explain(error)
            return TransferResult(reason=reason, is_retryable=is_retryable, seconds=seconds)
        status, kind = self.curl.getinfo(pycurl.RESPONSE_CODE), fields.get(b"content-type", "")
        body, etag = bytes(self._body), fields.get(b"etag")
        return TransferResult(status, kind, body, etag=etag, seconds=seconds)

    def _explain(self, error: int) -> str:
        """Return the reason for an error; the text of libcurl itself may contain the query."""
        number = self.curl.getinfo(pycurl.OS_ERRNO)
        if error == pycurl.E_OPERATION_TIMEDOUT:
            return TIMED_OUT
        if error == pycurl.E_COULDNT_RESOLVE_HOST:
            return "can't be reached: the host name is unknown"
        if error == pycurl.E_COULDNT_CONNECT:
            return "can't be reached" + (f" ({os.strerror(number)})" if number else "")
        is_lost = error == pycurl.E_PARTIAL_FILE or error in _LOST_CONNECTION
        return CUT_OFF if is_lost and (number or error != pycurl.E_RECV_ERROR) else NO_HTTP


class Engine:
    """A multi handle. Only the thread that has taken the engine calls its methods.

    :param max_answer: the maximum size of an answer in bytes.
    :param inner_hosts: the internal hosts to which connections are allowed.
    :ivar running: the unfinished requests.
    :ivar acknowledging: how many unfinished requests are acknowledgments.
    """

    def __init__(self, max_answer: int, inner_hosts: InnerHosts) -> None:
        self._create_transfer = partial(_Transfer, max_answer, inner_hosts)
        self.running: dict[pycurl.Curl, _Transfer] = {}
        self._idle: list[_Transfer] = []
        self.acknowledging = 0
        self._timer = inf
        # libcurl starts and stops watching a socket for each answer. With epoll, this would be two
        # system calls, each of which lets another thread run.
        self._selector = getattr(selectors, "PollSelector", selectors.DefaultSelector)()
        self._multi = pycurl.CurlMulti()
        self.close = self._multi.close
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, MAX_HOST_CONNECTIONS)

    def limit_connections(self, number: int) -> None:
        """Set the maximum number of open connections."""
        self._multi.setopt(pycurl.M_MAXCONNECTS, number)
        self._multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, number)

    def add(self, url: str, milliseconds: int, finish: Finish, headers: Headers = HEADERS) -> None:
        """Add a GET request. The next step sends it.

        :param url: a URL for which :func:`is_valid_url` returns True.
        :param milliseconds: the time limit.
        """
        transfer = self._idle.pop() if self._idle else self._create_transfer()
        transfer.prepare(url, milliseconds, finish, headers)
        self.running[transfer.curl] = transfer
        self._multi.add_handle(transfer.curl)

    def step(self, seconds: float) -> None:
        """Send and receive for at most some seconds."""
        if self._timer <= monotonic():  # requests were added, or have no time left
            self._timer = inf
            _, running = self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
            seconds = seconds if running == len(self.running) else 0.0  # one has failed at once
        seconds = min(seconds, self._timer - monotonic())
        for key, events in self._selector.select(max(seconds, 0.0)):
            self._multi.socket_action(key.fd, events)
        _, succeeded, failed = self._multi.info_read()
        errors = {**dict.fromkeys(succeeded, 0), **{curl: error for curl, error, _ in failed}}
        for curl, error in errors.items():
            transfer = self.running.pop(curl)
            result = transfer.read_result(error)
            self._multi.remove_handle(curl)
            self._idle.append(transfer)
            transfer.finish(result)

    def _watch(self, events: int, fd: int, multi: object, data: object) -> None:
        """Watch a socket, or stop watching it, as libcurl requests."""
        if fd in self._selector.get_map():
            self._selector.unregister(fd)
        # the numbers of libcurl for reading and writing are those of the selector
        if events & (selectors.EVENT_READ | selectors.EVENT_WRITE):
            self._selector.register(fd, events)

    def _set_timer(self, milliseconds: int) -> None:
        self._timer = inf if milliseconds < 0 else monotonic() + milliseconds / 1000


# --- many Archives -------------------------------------------------------------------------------


class ReplyQueue:
    """The results of the questions of one caller, in the order of arrival.

    Only the thread of the caller uses the methods, except :meth:`put`.

    :param seconds: the time limit in seconds. After this time, :meth:`get` no longer waits.
    :param release: called with the engine when the queue no longer needs it.
    :ivar engine: the engine of the questions. None if no question is pending.
    :ivar pending: the number of questions for which :meth:`get` has not returned a result yet.
    """

    def __init__(self, seconds: float, release: Callable[[Engine], None]) -> None:
        self._end = monotonic() + seconds
        self._release = release
        self._received: deque[ArchiveResult] = deque()
        self.put = self._received.append
        self.engine: Engine | None = None
        self.pending: int = 0

    def get(self, seconds: float) -> ArchiveResult | None:
        """Return the next result.

        :param seconds: how long to wait for the result.
        :returns: the result. None if no result arrives in this time, or if no question is pending.
        """
        end = min(monotonic() + seconds, self._end)
        while self.engine is not None and not self._received:
            left = end - monotonic()
            self.engine.step(left)  # what has already arrived is received even if the time is over
            if left <= 0:
                break
        if not self.pending or not self._received:
            return None
        self.pending -= 1
        if not self.pending:
            self.abandon()
        return self._received.popleft()

    def abandon(self) -> None:
        """Ignore all further results. The running requests are not cancelled."""
        self.pending = 0
        engine, self.engine = self.engine, None
        if engine is not None:
            self._release(engine)

    __del__ = abandon  # an error of the caller must not make an engine useless


class _Process:
    """The engines of a process, and the work of its finisher (see the theory above).

    :ivar opened: the number of engines.
    :ivar free: the engines that nobody has taken. The last one was used last.
    :ivar waiting: the acknowledgments that are not sent yet: URL, headers, number of the attempt.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.opened = 0
        self.free: list[Engine] = []
        self.waiting: deque[tuple[str, Headers, int]] = deque()
        self.finisher: Thread | None = None


class FanOut:
    """Asks many Archives at the same time. Thread-safe and fork-safe.

    :param on_result: a function that is called with each result, including the results of abandoned
        questions, in any thread. It must not wait, and must not raise exceptions.
    """

    def __init__(self, config: ResolverConfig, on_result: Callable[[ArchiveResult], None]) -> None:
        self._milliseconds = max(int(config.archive_timeout * 1000), 1)
        self._create_engine = partial(Engine, config.max_answer, config.inner_hosts)
        self._on_result = on_result
        self._processes: dict[int, _Process] = {}
        self._closed = False

    def ask(
        self, targets: Sequence[Target], seconds: float, replies: ReplyQueue | None = None
    ) -> ReplyQueue:
        """Send questions to Archives and return the queue of their results.

        :param seconds: how long the caller waits for results. The time limit for each Archive does
            not depend on this value: an Archive does not fail because others are slow.
        :param replies: the queue of earlier questions. The new results are added to this queue. If
            the value is None, a new queue is created.
        """
        process = self._find_process()
        replies = replies or ReplyQueue(seconds, process.free.append)
        replies.pending += len(targets)
        for target in targets:
            if self._closed or not is_valid_url(target.url):
                replies.put(Failure(target, STOPPED if self._closed else INVALID_URL, 0.0))
                continue
            replies.engine = replies.engine or self._take(process)
            finish = partial(self._finish, target, replies.put)
            replies.engine.add(target.url, self._milliseconds, finish)
        return replies

    def send_acknowledgment(self, url: str, headers: Headers) -> bool:
        """Send an acknowledgment in the background ([R] 6.2, Table 6.11).

        :param url: a URL of the Archive that has answered a question; it is not checked again.
        :param headers: additional headers, such as ``X-Forwarded-User-Agent``. Characters that are
            not printable ASCII are replaced by "?".
        :returns: False if the acknowledgment is not sent. The reason is that too many
            acknowledgments wait, or this object is closed.
        """
        process = self._find_process()
        if self._closed:
            return False
        if len(process.waiting) >= MAX_WAITING:
            _logger.warning(NOT_DELIVERED, "too many acknowledgments are pending")
            return False
        process.waiting.append((url, {**HEADERS, **headers}, 1))
        if process.opened:
            self._start_finisher(process)
        else:  # nobody was asked yet
            process.free.append(self._take(process))
        return True

    def close(self, seconds: float = 2.0) -> None:
        """Wait for the acknowledgments for some seconds, then close the connections.

        No more requests are sent.
        """
        self._closed = True
        process = self._find_process()
        if process.finisher is not None:
            process.finisher.join(seconds)
        process.waiting.clear()
        while process.free:
            process.free.pop().close()
            process.opened -= 1

    def _finish(
        self, target: Target, put: Callable[[ArchiveResult], None], transfer: TransferResult
    ) -> None:
        """Hand over the result of a question to the caller, then update the metrics."""
        answer: list[Pair] | str = "answers with a text that can't be read"
        try:
            answer = transfer.reason or read_answer(*transfer[:3])
        except Exception:  # the caller waits, so it must get a result
            _logger.exception("the answer of an Archive can't be read")
        # 408 and 429 mean that the server is overloaded
        is_refusal = 400 <= transfer.status < 500 and transfer.status not in (408, 429)
        result: ArchiveResult = Failure(target, str(answer), transfer.seconds, is_refusal)
        if isinstance(answer, list):
            result = Reply(target, answer, transfer.seconds)
        put(result)
        self._on_result(result)

    def _find_process(self) -> _Process:
        pid = os.getpid()  # several threads of a forked process may come here first
        return self._processes.get(pid) or self._processes.setdefault(pid, _Process())

    def _take(self, process: _Process) -> Engine:
        """Take the free engine that was used last, or create one; add waiting acknowledgments."""
        with process.lock:
            process.opened += not process.free
            engine = process.free.pop() if process.free else self._create_engine()
        engine.limit_connections(max(MAX_CONNECTIONS // process.opened, 1))
        if process.waiting:
            self._send_waiting(process, engine)
        self._start_finisher(process)
        return engine

    def _start_finisher(self, process: _Process) -> None:
        with process.lock:
            if process.finisher is None or not process.finisher.is_alive():
                process.finisher = Thread(target=self._work, args=(process,), daemon=True)
                with suppress(RuntimeError):  # too many threads: a later call tries again
                    process.finisher.start()

    def _work(self, process: _Process) -> None:
        """Drive the free engines, until all engines are free and have nothing to do."""
        while True:
            for engine in list(process.free):
                with process.lock:
                    if engine not in process.free or not (engine.running or process.waiting):
                        continue
                    process.free.remove(engine)
                self._send_waiting(process, engine)
                engine.step(0.0)
                process.free.append(engine)
            with process.lock:
                free = process.free
                is_busy = len(free) < process.opened or any(engine.running for engine in free)
                if not is_busy and not process.waiting:
                    process.finisher = None
                    return
            sleep(PAUSE)

    # --- acknowledgments -------------------------------------------------------------------------

    def _send_waiting(self, process: _Process, engine: Engine) -> None:
        """Move waiting acknowledgments to an engine, up to :data:`MAX_ACKNOWLEDGMENTS`."""

        def finish(url: str, headers: Headers, tries: int, result: TransferResult) -> None:
            engine.acknowledging -= 1
            if result.is_retryable and tries < MAX_TRIES:
                process.waiting.append((url, headers, tries + 1))
            elif result.status != 200:
                status = f"the Archive answered with status {result.status}"
                # the address and the query are not logged, because they reveal what a user reads
                _logger.warning(NOT_DELIVERED, result.reason or status)

        with suppress(IndexError):  # another thread has taken the last one
            while process.waiting and engine.acknowledging < MAX_ACKNOWLEDGMENTS:
                url, headers, tries = process.waiting.popleft()
                engine.acknowledging += 1
                engine.add(url, self._milliseconds, partial(finish, url, headers, tries), headers)


# --- Archives that fail --------------------------------------------------------------------------


class CircuitBreaker:
    """Decides which Archives are skipped because they failed repeatedly. Thread-safe.

    While a probe is running, no other questions are sent to the Archive. If the caller never
    records the result of a probe, the next probe is sent after another pause.

    :param clock: a function that returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        #: Of each Archive that failed: its failures, when it is probed, and if a probe is running.
        self._circuits: dict[int, tuple[int, float, bool]] = {}

    def allows_request(self, archive_id: int) -> bool:
        """Return whether a question may be sent to an Archive now.

        If the result is True, the caller must send the question, and call :meth:`record_result`.
        """
        with self._lock:
            failures, probe_at, _ = self._circuits.get(archive_id, (0, 0.0, False))
            if failures < MAX_FAILURES:
                return True
            now = self._clock()
            if now >= probe_at:
                self._circuits[archive_id] = failures, now + _find_pause(failures), True
            return now >= probe_at

    def record_result(self, archive_id: int, ok: bool) -> None:
        """Record whether an Archive answered a question correctly."""
        if ok:
            self._circuits.pop(archive_id, None)  # without a lock: this is the usual case
            return
        with self._lock:
            failures, _, is_probing = self._circuits.get(archive_id, (0, 0.0, False))
            if failures < MAX_FAILURES or is_probing:  # not sent before the pause began
                probe_at = self._clock() + _find_pause(failures + 1)
                self._circuits[archive_id] = failures + 1, probe_at, False


def _find_pause(failures: int) -> float:
    return min(FIRST_PAUSE * 2.0 ** min(failures - MAX_FAILURES, 9), MAX_PAUSE)
