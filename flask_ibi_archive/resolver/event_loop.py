"""The event loop: a background thread that runs HTTP transfers concurrently.

A *transfer* is an HTTP request and its answer (http_transfer.py). A *job* describes a request and
receives the result of the transfer. In each *turn* the thread waits until some sockets are ready.
Then the thread reads from these sockets or writes to these sockets. Connections stay open for later
requests. :class:`.concurrent_requests.FanOut` adds the jobs.
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

#: The maximum number of open connections to all hosts.
MAX_CONNECTIONS = 512
#: The maximum number of open connections to one host.
MAX_HOST_CONNECTIONS = 32
#: The maximum number of unused connections that stay open for later requests.
MAX_IDLE_CONNECTIONS = 256
#: The maximum number of background jobs that run at the same time. This number is less than
#: MAX_HOST_CONNECTIONS. Therefore background jobs never use all connections to a host.
MAX_BACKGROUND = 20
#: The maximum number of jobs that are started in one turn.
BATCH = 16

STOPPED = "did not get the complete request, because the resolver is stopping"

_logger = logging.getLogger(__name__)


class Job(Protocol):
    """Describes an HTTP request and receives the result of the transfer.

    The thread of the event loop calls the methods. The methods must not wait and must not raise
    exceptions.
    """

    @property
    def url(self) -> str:
        """The URL of the request. :func:`.dns_cache.is_valid_url` returns True for this URL."""

    @property
    def milliseconds(self) -> int:
        """The time limit of the lookup and the transfer together, in milliseconds."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the request."""

    def finish(self, transfer: TransferResult, seconds: float) -> None:
        """Process the result of the transfer immediately.

        :param seconds: the time from the start of the job to the result.
        """

    def flush(self) -> None:
        """Do the work that can wait until all results of this turn are processed."""


@dataclass(frozen=True, slots=True)
class _Lookup:
    """A job that waits for the IP addresses of the host.

    :param started: the time when the job started.
    :param end: the time when the time limit of the job ends.
    """

    job: Job
    in_background: bool
    host: str
    started: float
    end: float


class EventLoop:
    """A daemon thread with an event loop. Any thread may add jobs.

    :param max_answer: the maximum size of an answer in bytes.
    :param inner_hosts: the internal hosts that may receive requests.
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
        #: The jobs that were finished in this turn.
        self._finished: list[Job] = []
        self._timer: float | None = None
        self._stopping = self._is_closed = False
        self._woken = False
        self._poller = create_poller()
        # the thread waits for the second socket; a byte in the first socket wakes the thread
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
        """True if the thread is stopping or has stopped. New jobs then fail immediately."""
        return self._stopping

    def add(self, jobs: Iterable[Job]) -> None:
        """Add jobs. These jobs start before all waiting background jobs."""
        self._jobs.extend(jobs)
        self._wake()

    def add_background(self, job: Job) -> None:
        """Add a background job. At most MAX_BACKGROUND background jobs run at the same time."""
        self._background_jobs.append(job)
        self._wake()

    def stop(self, seconds: float) -> None:
        """Stop the thread. All unfinished jobs fail.

        :param seconds: the maximum time to wait for the end of the thread.
        """
        self._stopping = True
        self._wake()
        self._thread.join(seconds)

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            with suppress(OSError):  # if the socket is full, the thread wakes anyway
                self._waker.send(b"\0")
        if self._is_closed:
            self._fail_waiting_jobs()

    # --- methods that run in the thread -----------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        except Exception:
            _logger.exception(
                "the thread that sends requests failed; the resolver will start a new thread"
            )
        finally:
            self._stopping = True
            self._fail_all()

    def _turn(self) -> None:
        """Wait until sockets are ready or jobs are added, and process the sockets and jobs."""
        for fd, ready in self._poller.wait(self._find_wait_seconds()):
            if fd == self._wakeup_fd:
                with suppress(BlockingIOError):
                    self._wakeups.recv(4096)
                # set before the queues are read, so that later jobs wake the thread again
                self._woken = False
            else:
                self._process_socket(fd, ready)
        if self._lookups or self._dns_cache.finished:
            self._start_jobs_with_addresses()
        self._start_waiting_jobs()
        timer = self._timer
        if timer is not None and timer <= monotonic():
            self._timer = None
            self._process_socket(pycurl.SOCKET_TIMEOUT, 0)
        if self._finished:
            for job in self._finished:
                job.flush()
            self._finished.clear()

    def _find_wait_seconds(self) -> float | None:
        """Return the seconds that the thread may wait for sockets. None means no time limit."""
        if self._jobs or (self._background_jobs and self._background_running < MAX_BACKGROUND):
            return 0.0
        timer = self._timer
        if self._lookups:
            first = min(one.end for one in self._lookups)
            timer = first if timer is None else min(timer, first)
        return None if timer is None else max(timer - monotonic(), 0.0)

    def _start_waiting_jobs(self) -> None:
        """Start at most BATCH waiting jobs, and start background jobs if no other job waits."""
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

    def _start_jobs_with_addresses(self) -> None:
        """Start the jobs whose lookups succeeded, and fail the jobs whose lookups failed.

        A job also fails if its time limit has passed.
        """
        results = self._dns_cache.collect_results()
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
        except Exception:  # an error in one answer must not stop the thread
            _logger.exception("the answer of an Archive can't be read")
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
        """Watch a socket for events, or stop watching the socket, as libcurl requests."""
        events = _EVENTS.get(what)
        if events is None:
            self._poller.unwatch(fd)
        else:
            self._poller.watch(fd, events)

    def _set_timer(self, milliseconds: int) -> None:
        self._timer = None if milliseconds < 0 else monotonic() + milliseconds / 1000

    def _fail_all(self) -> None:
        """Fail all jobs, and close all handles and sockets."""
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
        # set before the queues are emptied; a thread that adds a job later also fails the job
        self._is_closed = True
        self._fail_waiting_jobs()

    def _fail_waiting_jobs(self) -> None:
        """Fail the jobs that have not started."""
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
