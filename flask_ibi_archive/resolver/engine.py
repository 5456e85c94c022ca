"""An HTTP engine: a multi handle of libcurl with its open connections.

A thread that waits for answers drives an engine itself: it calls :meth:`Engine.run_until` until the
answers have arrived. Between two calls nothing happens. Therefore a thread must call the method as
long as requests are running (concurrent_requests.py).
"""

from __future__ import annotations

import logging
import selectors
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from threading import Lock
from time import monotonic
from typing import NamedTuple

import pycurl

from flask_ibi_archive.resolver.host_names import UNKNOWN_NAME, Addresses, HostNames, split_host
from flask_ibi_archive.resolver.http_transfer import NO_HTTP, TIMED_OUT, Transfer, TransferResult
from flask_ibi_archive.server.http.transport import HEADERS

#: The maximum number of connections of one engine to one host.
MAX_HOST_CONNECTIONS = 8
#: The maximum number of curl handles that an engine keeps for later requests.
MAX_IDLE_HANDLES = 512
#: The maximum seconds of one wait, after which an engine notices that it must stop.
MAX_WAIT = 0.05
#: The seconds between two checks whether a DNS lookup has ended.
PAUSE = 0.002

#: libcurl starts and stops watching a socket for each answer. With epoll, this would be two system
#: calls, each of which lets another thread run.
POLLER: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.DefaultSelector)

STOPPED = "did not get the complete request, because the resolver is stopping"

_logger = logging.getLogger(__name__)


class Request(NamedTuple):
    """An HTTP request.

    :param url: a URL for which :func:`.host_names.is_valid_url` returns True.
    :param milliseconds: the time limit of the lookup and the transfer together.
    :param finish: receives the result, and the seconds until the result. It must not wait and must
        not raise exceptions. It may be called in another thread.
    """

    url: str
    milliseconds: int
    finish: Callable[[TransferResult, float], None]
    headers: Mapping[str, str] = HEADERS


class Engine:
    """A multi handle. Several threads may call the methods; one of them works at a time.

    :param max_answer: the maximum size of an answer in bytes.
    :param names: finds the IP addresses of hosts.
    """

    def __init__(self, max_answer: int, names: HostNames) -> None:
        self._max_answer = max_answer
        self._names = names
        self._lock = Lock()
        self._idle: list[Transfer] = []
        self._running: dict[pycurl.Curl, tuple[Transfer, Request, float]] = {}
        self._lookups: list[tuple[Request, float, Future[Addresses]]] = []
        self._timer: float | None = None
        self._selector = POLLER()
        self._watched: set[int] = set()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, MAX_HOST_CONNECTIONS)
        self._limit = 0
        self._is_stopping = False
        #: True if the engine has stopped. It then accepts no requests.
        self.has_stopped = False

    @property
    def running(self) -> int:
        """The number of unfinished requests."""
        return len(self._running) + len(self._lookups)

    def limit_connections(self, number: int) -> None:
        """Set the maximum number of open connections."""
        if number == self._limit:
            return
        with self._lock:
            if not self.has_stopped:
                self._limit = number
                self._multi.setopt(pycurl.M_MAXCONNECTS, number)
                self._multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, number)

    def add(self, *requests: Request) -> None:
        """Add requests."""
        with self._lock:
            for request in requests:
                if self.has_stopped:
                    request.finish(TransferResult(reason=STOPPED), 0.0)
                    continue
                lookup, started = self._names.find(split_host(request.url)[0]), monotonic()
                if lookup.done():
                    self._start(request, started, lookup.result())
                else:
                    self._lookups.append((request, started, lookup))

    def run_until(self, is_done: Callable[[], object], end: float) -> None:
        """Send and receive until a condition is true.

        Data that have already arrived are received even if the time is over.

        :param is_done: the condition. The method calls this function between two steps.
        :param end: the time at which the method returns, as ``monotonic`` returns the time.
        """
        with self._lock:
            while not is_done() and not self.has_stopped:
                left = end - monotonic()
                self._run(left)
                if left <= 0:
                    return

    def run_if_free(self) -> None:
        """Send and receive what is possible now, unless another thread does this."""
        if self._lock.acquire(blocking=False):
            try:
                self._run(0.0)
            finally:
                self._lock.release()

    def stop(self) -> None:
        """Fail all requests, and close all connections."""
        self._is_stopping = True  # a thread that waits releases the lock
        with self._lock:
            self._stop()

    def _run(self, seconds: float) -> None:
        """Send and receive what is possible within some seconds, which may be 0."""
        try:
            if self._is_stopping:
                self._stop()
            if not self.has_stopped:
                if self._lookups:
                    self._start_found()
                self._process_sockets(min(seconds, PAUSE if self._lookups else MAX_WAIT))
        except Exception:
            _logger.exception("requests to Archives failed; the resolver opens new connections")
            self._stop()

    def _process_sockets(self, seconds: float) -> None:
        """Let libcurl process a timer that has ended, and the sockets that are ready in time.

        The timer comes first: it has ended if requests were added, which are sent then.
        """
        running = len(self._running)
        if self._timer is not None and self._timer <= monotonic():
            self._timer = None
            _, running = self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        if running < len(self._running):  # a request has failed at once
            seconds = 0.0
        elif self._timer is not None:
            seconds = min(seconds, self._timer - monotonic())
        for key, events in self._selector.select(max(seconds, 0.0)):
            _, running = self._multi.socket_action(key.fd, events)
        left = 1 if running < len(self._running) else 0
        while left:
            left, succeeded, failed = self._multi.info_read()
            for curl in succeeded:
                self._finish(curl, 0)
            for curl, error, _ in failed:
                self._finish(curl, error)

    def _watch(self, events: int, fd: int, multi: object, data: object) -> None:
        """Watch a socket, or stop watching it, as libcurl requests."""
        if fd in self._watched:
            self._watched.remove(fd)
            self._selector.unregister(fd)
        # the numbers of libcurl for reading and writing are those of the selector
        if events & (selectors.EVENT_READ | selectors.EVENT_WRITE):
            self._selector.register(fd, events)
            self._watched.add(fd)

    def _set_timer(self, milliseconds: int) -> None:
        self._timer = None if milliseconds < 0 else monotonic() + milliseconds / 1000

    def _start_found(self) -> None:
        """Start the requests whose lookups have ended, and fail those that waited too long."""
        now = monotonic()
        lookups, self._lookups = self._lookups, []
        for request, started, lookup in lookups:
            if now - started >= request.milliseconds / 1000:
                request.finish(TransferResult(reason=TIMED_OUT), now - started)
            elif lookup.done():
                self._start(request, started, lookup.result())
            else:
                self._lookups.append((request, started, lookup))

    def _start(self, request: Request, started: float, addresses: Addresses) -> None:
        now = monotonic()
        if isinstance(addresses, str):
            result = TransferResult(reason=addresses, is_retryable=addresses is UNKNOWN_NAME)
            request.finish(result, now - started)
            return
        left = max(request.milliseconds - int((now - started) * 1000), 1)
        transfer = self._idle.pop() if self._idle else Transfer(self._max_answer)
        transfer.prepare(request.url, addresses, left, request.headers)
        self._running[transfer.curl] = transfer, request, started
        self._multi.add_handle(transfer.curl)

    def _finish(self, curl: pycurl.Curl, error: int) -> None:
        transfer, request, started = self._running.pop(curl)
        try:
            result = transfer.read_result(error)
        except Exception:  # an error in one answer must not affect the others
            _logger.exception("the answer of an Archive can't be read")
            result = TransferResult(reason=NO_HTTP)
        self._multi.remove_handle(curl)
        if len(self._idle) < MAX_IDLE_HANDLES:
            self._idle.append(transfer)
        else:
            transfer.close()
        request.finish(result, monotonic() - started)

    def _stop(self) -> None:
        if self.has_stopped:
            return
        self.has_stopped = True
        now = monotonic()
        ended = [(request, started) for request, started, _ in self._lookups]
        for transfer, request, started in self._running.values():
            self._multi.remove_handle(transfer.curl)
            transfer.close()
            ended.append((request, started))
        self._running, self._lookups = {}, []
        for transfer in self._idle:
            transfer.close()
        self._multi.close()
        self._selector.close()
        for request, started in ended:
            request.finish(TransferResult(reason=STOPPED), now - started)
