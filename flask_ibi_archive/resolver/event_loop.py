"""The event loop: a background thread that runs HTTP transfers concurrently.

A *transfer* is an HTTP request and its answer (http_transfer.py). A *job* is a transfer and the
object that is notified of its result. In each *turn* the thread waits until some sockets are ready
and processes them. Connections are persistent. :class:`.concurrent_requests.FanOut` adds the jobs.
"""

from __future__ import annotations

import logging
import socket
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Thread
from time import monotonic
from typing import Protocol

import pycurl

from flask_ibi_archive.archive.guarded_http import look_up
from flask_ibi_archive.protocol.hosts import InnerHosts
from flask_ibi_archive.resolver.dns_cache import UNKNOWN_NAME, Addresses, DnsCache, split_host
from flask_ibi_archive.resolver.http_transfer import NO_HTTP, TIMED_OUT, Transfer, TransferResult
from flask_ibi_archive.resolver.poller import READ, WRITE, create_poller

#: Maximum number of open connections in total and to one host, and of idle connections that are
#: left open for later requests.
MAX_CONNECTIONS = 512
MAX_HOST_CONNECTIONS = 32
MAX_IDLE_CONNECTIONS = 256
#: Maximum number of background jobs that run at once. It is less than MAX_HOST_CONNECTIONS, so that
#: connections remain for questions to the same host.
MAX_BACKGROUND = 20
#: Maximum number of jobs that are started before results are read again.
BATCH = 16

STOPPED = "got no complete request: the resolver is stopping"

_logger = logging.getLogger(__name__)


class Job(Protocol):
    """A transfer and the object that is notified of its result.

    The methods are called in the event loop's thread: they must neither wait nor raise exceptions.
    """

    @property
    def url(self) -> str:
        """The URL to request (see :func:`.dns_cache.is_valid_url`)."""

    @property
    def milliseconds(self) -> int:
        """The time limit."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the request."""

    def finish(self, transfer: TransferResult, seconds: float) -> None:
        """Process the result at once."""

    def flush(self) -> None:
        """Do the work that can be done after all results of this turn are processed."""


@dataclass(frozen=True, slots=True)
class _Lookup:
    """A job that waits for the addresses of its host."""

    job: Job
    in_background: bool
    host: str
    started: float
    end: float


class EventLoop:
    """A daemon thread with an event loop. Any thread may add jobs.

    :param max_answer: maximum size of an answer in bytes.
    :param inner_hosts: the internal hosts that may be connected to.
    """

    def __init__(self, max_answer: int, inner_hosts: InnerHosts) -> None:
        self._max_answer = max_answer
        self._jobs: deque[Job] = deque()
        self._background_jobs: deque[Job] = deque()
        self._background_running = 0
        self._running: dict[pycurl.Curl, tuple[Transfer, Job, float, bool]] = {}
        self._idle: list[Transfer] = []
        self._dns_cache = DnsCache(self._wake, partial(look_up, inner_hosts=inner_hosts))
        self._lookups: list[_Lookup] = []
        #: Jobs that were finished in this turn.
        self._finished: list[Job] = []
        self._timer: float | None = None
        self._stopping = self._is_closed = False
        self._woken = False
        self._poller = create_poller()
        # a byte written to the first socket wakes the thread, which waits for the second one
        self._waker, self._wakeups = socket.socketpair()
        self._waker.setblocking(False)
        self._wakeups.setblocking(False)
        self._wakeup_fd = self._wakeups.fileno()
        self._poller.watch(self._wakeup_fd, READ)
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, MAX_IDLE_CONNECTIONS)
        self._multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, MAX_HOST_CONNECTIONS)
        self._multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, MAX_CONNECTIONS)
        self._thread = Thread(target=self._run, name="ibi-resolver-event-loop", daemon=True)
        self._thread.start()

    @property
    def has_stopped(self) -> bool:
        """Whether the thread is stopping: new jobs are finished at once as failed."""
        return self._stopping

    def add(self, jobs: Iterable[Job]) -> None:
        """Start jobs, before all background jobs."""
        self._jobs.extend(jobs)
        self._wake()

    def add_background(self, job: Job) -> None:
        """Start a job when fewer than MAX_BACKGROUND background jobs are running."""
        self._background_jobs.append(job)
        self._wake()

    def stop(self, seconds: float) -> None:
        """Stop the thread; jobs that are not finished fail.

        :param seconds: how long to wait for the thread.
        """
        self._stopping = True
        self._wake()
        self._thread.join(seconds)

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            with suppress(OSError):  # full: the thread wakes anyway; closed: the thread has stopped
                self._waker.send(b"\0")
        if self._is_closed:
            self._fail_waiting()

    # --- methods that run in the thread -----------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        except Exception:
            _logger.exception("the thread that sends requests failed; a new thread will be started")
        finally:
            self._stopping = True
            self._fail_all()

    def _turn(self) -> None:
        """Wait for events and process them."""
        for fd, ready in self._poller.wait(self._find_wait()):
            if fd == self._wakeup_fd:
                with suppress(BlockingIOError):
                    self._wakeups.recv(4096)
                self._woken = False  # before the queues are read: later jobs wake the thread again
            else:
                self._process_socket(fd, ready)
        if self._lookups or self._dns_cache.finished:
            self._start_looked_up()
        self._start_waiting()
        timer = self._timer
        if timer is not None and timer <= monotonic():
            self._timer = None
            self._process_socket(pycurl.SOCKET_TIMEOUT, 0)
        if self._finished:
            for job in self._finished:
                job.flush()
            self._finished.clear()

    def _find_wait(self) -> float | None:
        """Return how many seconds the thread may wait for sockets; None waits without a timeout."""
        if self._jobs or (self._background_jobs and self._background_running < MAX_BACKGROUND):
            return 0.0
        timer = self._timer
        if self._lookups:
            first = min(one.end for one in self._lookups)
            timer = first if timer is None else min(timer, first)
        return None if timer is None else max(timer - monotonic(), 0.0)

    def _start_waiting(self) -> None:
        """Start at most BATCH of the waiting jobs, so that results are read in between."""
        for _ in range(BATCH):
            if not self._jobs:
                break
            self._start(self._jobs.popleft(), False)
        while (
            self._background_jobs and not self._jobs and self._background_running < MAX_BACKGROUND
        ):
            self._background_running += 1
            self._start(self._background_jobs.popleft(), True)

    def _start(self, job: Job, in_background: bool) -> None:
        started, (host, _) = monotonic(), split_host(job.url)
        addresses = self._dns_cache.find(host)
        if addresses:
            self._start_transfer(job, in_background, started, job.milliseconds, addresses)
        else:
            end = started + job.milliseconds / 1000
            self._lookups.append(_Lookup(job, in_background, host, started, end))

    def _start_transfer(
        self,
        job: Job,
        in_background: bool,
        started: float,
        milliseconds: int,
        addresses: Addresses,
    ) -> None:
        transfer = self._idle.pop() if self._idle else Transfer(self._max_answer)
        transfer.prepare(job.url, addresses, milliseconds, job.headers)
        self._running[transfer.curl] = transfer, job, started, in_background
        self._multi.add_handle(transfer.curl)

    def _start_looked_up(self) -> None:
        """Start the jobs whose hosts were looked up; fail those whose time limit has passed."""
        results = self._dns_cache.collect()
        now = monotonic()
        lookups, self._lookups = self._lookups, []
        for one in lookups:
            found = results.get(one.host)
            left = int((one.end - now) * 1000)
            if left <= 0:
                self._fail_lookup(one, TransferResult(reason=TIMED_OUT))
            elif found is None:
                self._lookups.append(one)
            elif found.addresses:
                self._start_transfer(one.job, one.in_background, one.started, left, found.addresses)
            else:
                is_unknown = found.reason is UNKNOWN_NAME
                result = TransferResult(reason=found.reason, is_retryable=is_unknown)
                self._fail_lookup(one, result)

    def _fail_lookup(self, one: _Lookup, result: TransferResult) -> None:
        if one.in_background:
            self._background_running -= 1
        one.job.finish(result, monotonic() - one.started)
        self._finished.append(one.job)

    def _process_socket(self, fd: int, events: int) -> None:
        _, running = self._multi.socket_action(fd, events)
        if running < len(self._running):
            self._finish_transfers()

    def _finish_transfers(self) -> None:
        left = 1
        while left:
            left, succeeded, failed = self._multi.info_read()
            for curl in succeeded:
                self._finish(curl, 0)
            for curl, error, _ in failed:
                self._finish(curl, error)

    def _finish(self, curl: pycurl.Curl, error: int) -> None:
        transfer, job, started, in_background = self._running.pop(curl)
        try:
            result = transfer.read_result(error)
        except Exception:  # one answer must not stop the thread
            _logger.exception("an answer can't be read")
            result = TransferResult(reason=NO_HTTP)
        self._multi.remove_handle(curl)
        if in_background:
            self._background_running -= 1
        if len(self._idle) < MAX_CONNECTIONS:
            self._idle.append(transfer)
        else:
            transfer.close()
        job.finish(result, monotonic() - started)
        self._finished.append(job)

    def _watch(self, what: int, fd: int, multi: object, data: object) -> None:
        """Watch a socket for the events that libcurl waits for."""
        events = _EVENTS.get(what)
        if events is None:
            self._poller.unwatch(fd)
        else:
            self._poller.watch(fd, events)

    def _set_timer(self, milliseconds: int) -> None:
        self._timer = None if milliseconds < 0 else monotonic() + milliseconds / 1000

    def _fail_all(self) -> None:
        """Fail all jobs and close everything."""
        result = TransferResult(reason=STOPPED)
        for transfer, job, started, _ in self._running.values():
            self._multi.remove_handle(transfer.curl)
            transfer.close()
            job.finish(result, monotonic() - started)
            job.flush()
        for one in self._lookups:
            one.job.finish(result, monotonic() - one.started)
            one.job.flush()
        for transfer in self._idle:
            transfer.close()
        self._multi.close()
        self._poller.close()
        self._wakeups.close()
        self._waker.close()
        # set before the queues are emptied: a thread that adds a job later fails the job itself
        self._is_closed = True
        self._fail_waiting()

    def _fail_waiting(self) -> None:
        """Fail the jobs that were not started."""
        result = TransferResult(reason=STOPPED)
        for queue in (self._jobs, self._background_jobs):
            with suppress(IndexError):
                while True:
                    job = queue.popleft()
                    job.finish(result, 0.0)
                    job.flush()


_EVENTS = {
    pycurl.POLL_IN: READ,
    pycurl.POLL_OUT: WRITE,
    pycurl.POLL_INOUT: READ | WRITE,
}
