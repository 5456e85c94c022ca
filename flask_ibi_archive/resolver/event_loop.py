"""The thread that runs transfers side by side, over connections that are kept."""

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
from flask_ibi_archive.resolver.dns_cache import NO_NAME, Addresses, Names, split_host
from flask_ibi_archive.resolver.http_transfer import LATE, NO_HTTP, Ended, Transfer
from flask_ibi_archive.resolver.poller import READ, WRITE, make_poller

#: Connections that are open at once, to everybody and to one host, and those that are kept for
#: later.
MAX_CONNECTIONS = 512
MAX_HOST_CONNECTIONS = 32
KEPT_CONNECTIONS = 256
#: Errands on the wire at once: not even those to one host keep questions from it.
MAX_ERRANDS = 20
#: Questions that are put before answers are read again.
BATCH = 16

GIVEN_UP = "was given up: the resolver ends"

_logger = logging.getLogger(__name__)


class Job(Protocol):
    """What is to be transferred, and whom to tell of its end.

    The methods are called in the loop's thread: they neither wait nor raise.
    """

    @property
    def url(self) -> str:
        """What to ask for (:func:`is_askable`)."""

    @property
    def milliseconds(self) -> int:
        """How long it may take."""

    @property
    def headers(self) -> Mapping[str, str]:
        """What goes with it."""

    def ended(self, ended: Ended, seconds: float) -> None:
        """Take its end, at once."""

    def after_turn(self) -> None:
        """Do what had time until all was done that could be done without waiting."""


@dataclass(frozen=True, slots=True)
class _Awaiting:
    """A job that waits for the addresses of its host, and till when."""

    job: Job
    is_errand: bool
    host: str
    begun: float
    due: float


class Loop:
    """A daemon thread with an event loop. Any thread may hand jobs over.

    :param max_answer: bytes of an answer that are taken.
    :param inner_hosts: the internal hosts that may be asked.
    """

    def __init__(self, max_answer: int, inner_hosts: InnerHosts) -> None:
        self._max_answer = max_answer
        self._questions: deque[Job] = deque()
        self._errands: deque[Job] = deque()
        self._errands_running = 0
        self._running: dict[pycurl.Curl, tuple[Transfer, Job, float, bool]] = {}
        self._idle: list[Transfer] = []
        self._names = Names(self._wake, partial(look_up, inner_hosts=inner_hosts))
        #: Jobs whose hosts are being looked up.
        self._awaiting: list[_Awaiting] = []
        #: Jobs that ended in this turn.
        self._ended: list[Job] = []
        self._due: float | None = None
        self._stopping = self._is_over = False
        self._woken = False
        self._poller = make_poller()
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)
        self._bell_fd = self._bell.fileno()
        self._poller.watch(self._bell_fd, READ)
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, KEPT_CONNECTIONS)
        self._multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, MAX_HOST_CONNECTIONS)
        self._multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, MAX_CONNECTIONS)
        self._thread = Thread(target=self._run, name="ibi-resolver-fan-out", daemon=True)
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        """Whether the thread ends: jobs end at once, as given up."""
        return self._stopping

    def ask(self, jobs: Iterable[Job]) -> None:
        """Begin some jobs, ahead of all errands."""
        self._questions.extend(jobs)
        self._wake()

    def send(self, job: Job) -> None:
        """Begin an errand when there is room for it."""
        self._errands.append(job)
        self._wake()

    def stop(self, seconds: float) -> None:
        """End the thread; what is under way ends as given up."""
        self._stopping = True
        self._wake()
        self._thread.join(seconds)

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            with suppress(OSError):  # full: it wakes anyway; closed: it has ended
                self._ringer.send(b"\0")
        if self._is_over:
            self._drain()

    # --- in the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        except Exception:
            _logger.exception("the thread that asks Archives ends; another one will begin")
        finally:
            self._stopping = True
            self._give_up()

    def _turn(self) -> None:
        """Wait for something to do, and do it."""
        for fd, ready in self._poller.wait(self._find_wait()):
            if fd == self._bell_fd:
                with suppress(BlockingIOError):
                    self._bell.recv(4096)
                self._woken = False  # before the queues are looked at: what comes later rings again
            else:
                self._act(fd, ready)
        if self._awaiting or self._names.found:
            self._begin_looked_up()
        self._begin_some()
        due = self._due
        if due is not None and due <= monotonic():
            self._due = None
            self._act(pycurl.SOCKET_TIMEOUT, 0)
        if self._ended:
            for job in self._ended:
                job.after_turn()
            self._ended.clear()

    def _find_wait(self) -> float | None:
        """Return the seconds that nothing is to be done; None: till somebody comes."""
        if self._questions or (self._errands and self._errands_running < MAX_ERRANDS):
            return 0.0
        due = self._due
        if self._awaiting:
            first = min(one.due for one in self._awaiting)
            due = first if due is None else min(due, first)
        return None if due is None else max(due - monotonic(), 0.0)

    def _begin_some(self) -> None:
        """Begin some of what waits: answers are read in between."""
        for _ in range(BATCH):
            if not self._questions:
                break
            self._begin(self._questions.popleft(), False)
        while self._errands and not self._questions and self._errands_running < MAX_ERRANDS:
            self._errands_running += 1
            self._begin(self._errands.popleft(), True)

    def _begin(self, job: Job, is_errand: bool) -> None:
        begun, (host, _) = monotonic(), split_host(job.url)
        addresses = self._names.find(host)
        if addresses:
            self._start(job, is_errand, begun, job.milliseconds, addresses)
        else:
            due = begun + job.milliseconds / 1000
            self._awaiting.append(_Awaiting(job, is_errand, host, begun, due))

    def _start(
        self, job: Job, is_errand: bool, begun: float, milliseconds: int, addresses: Addresses
    ) -> None:
        transfer = self._idle.pop() if self._idle else Transfer(self._max_answer)
        transfer.begin(job.url, addresses, milliseconds, job.headers)
        self._running[transfer.curl] = transfer, job, begun, is_errand
        self._multi.add_handle(transfer.curl)

    def _begin_looked_up(self) -> None:
        """Begin the jobs whose hosts were looked up; end those that it took too long for."""
        looked_up = self._names.take()
        now = monotonic()
        awaiting, self._awaiting = self._awaiting, []
        for one in awaiting:
            found = looked_up.get(one.host)
            left = int((one.due - now) * 1000)
            if left <= 0:
                self._end_awaiting(one, Ended(reason=LATE))
            elif found is None:
                self._awaiting.append(one)
            elif found.addresses:
                self._start(one.job, one.is_errand, one.begun, left, found.addresses)
            else:
                again = found.reason is NO_NAME
                self._end_awaiting(one, Ended(reason=found.reason, again=again))

    def _end_awaiting(self, one: _Awaiting, ended: Ended) -> None:
        if one.is_errand:
            self._errands_running -= 1
        one.job.ended(ended, monotonic() - one.begun)
        self._ended.append(one.job)

    def _act(self, fd: int, mask: int) -> None:
        _, running = self._multi.socket_action(fd, mask)
        if running < len(self._running):
            self._gather()

    def _gather(self) -> None:
        """End what has ended."""
        left = 1
        while left:
            left, well, failed = self._multi.info_read()
            for curl in well:
                self._end(curl, 0)
            for curl, error, _ in failed:
                self._end(curl, error)

    def _end(self, curl: pycurl.Curl, error: int) -> None:
        transfer, job, begun, is_errand = self._running.pop(curl)
        try:
            ended = transfer.end(error)
        except Exception:  # one answer must not end the others' thread
            _logger.exception("an answer can't be read")
            ended = Ended(reason=NO_HTTP)
        self._multi.remove_handle(curl)
        if is_errand:
            self._errands_running -= 1
        if len(self._idle) < MAX_CONNECTIONS:
            self._idle.append(transfer)
        else:
            transfer.close()
        job.ended(ended, monotonic() - begun)
        self._ended.append(job)

    def _watch(self, what: int, fd: int, multi: object, data: object) -> None:
        """Watch a socket as libcurl wants it."""
        wanted = _WANTED.get(what)
        if wanted is None:
            self._poller.forget(fd)
        else:
            self._poller.watch(fd, wanted)

    def _set_timer(self, milliseconds: int) -> None:
        self._due = None if milliseconds < 0 else monotonic() + milliseconds / 1000

    def _give_up(self) -> None:
        """End what is under way and what waits."""
        ended = Ended(reason=GIVEN_UP)
        for transfer, job, begun, _ in self._running.values():
            self._multi.remove_handle(transfer.curl)
            transfer.close()
            job.ended(ended, monotonic() - begun)
            job.after_turn()
        for one in self._awaiting:
            one.job.ended(ended, monotonic() - one.begun)
            one.job.after_turn()
        for transfer in self._idle:
            transfer.close()
        self._multi.close()
        self._poller.close()
        self._bell.close()
        self._ringer.close()
        self._is_over = (
            True  # before the queues are emptied: whoever comes later empties them himself
        )
        self._drain()

    def _drain(self) -> None:
        """End what waits."""
        ended = Ended(reason=GIVEN_UP)
        with suppress(IndexError):
            while True:
                job = self._questions.popleft()
                job.ended(ended, 0.0)
                job.after_turn()
        with suppress(IndexError):
            while True:
                self._errands.popleft().ended(ended, 0.0)


_WANTED = {
    pycurl.POLL_IN: READ,
    pycurl.POLL_OUT: WRITE,
    pycurl.POLL_INOUT: READ | WRITE,
}
