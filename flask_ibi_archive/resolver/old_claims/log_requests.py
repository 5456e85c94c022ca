"""Reads many logs at the same time, with the HTTP engine of the resolver."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from threading import Lock, Thread
from time import monotonic, sleep

from flask_ibi_archive.core.claims.keys import PLAIN, VerifierKey
from flask_ibi_archive.resolver.asking import (
    INVALID_URL,
    MAX_HOST_CONNECTIONS,
    TIMED_OUT,
    Engine,
    TransferResult,
    is_valid_url,
)
from flask_ibi_archive.resolver.config import ResolverConfig
from flask_ibi_archive.resolver.old_claims.log_reader import CHECKPOINT, Fetch, Reading, Requests
from flask_ibi_archive.server.http.transport import HEADERS

#: The maximum size of an answer in bytes: a bundle with entries of 16 KiB on average.
MAX_ANSWER = 4 << 20
#: The time limit in seconds for a file that is not a checkpoint, and for reading a log once.
FILE_TIMEOUT, READING_TIMEOUT = 30.0, 60.0
#: The pause in seconds of the thread that receives answers while the caller does something else.
PAUSE = 0.01


@dataclass(eq=False, slots=True)
class _Job:
    """A log that is being read.

    :param query: the query string for the files of the log, except the checkpoint.
    :param is_slow: whether reading will probably take long.
    :param end: when the reading must end. None: no request was sent yet.
    :param results: the results of the present requests. None for those that have none yet.
    :param waiting: the indexes of the requests that are not sent yet.
    :param pending: the number of requests without a result.
    """

    archive_id: int
    base: str
    query: str
    requests: Requests[Reading]
    is_slow: bool
    end: float | None = None
    fetches: list[Fetch] = field(default_factory=list)
    results: list[TransferResult | None] = field(default_factory=list)
    waiting: deque[int] = field(default_factory=deque)
    pending: int = 0


class LogRequests:
    """Reads logs. Only one thread uses the methods.

    Answers are received even while the caller stores what was read. Otherwise Archives would seem
    to be silent whenever this takes long.

    Slow logs share half of the connections. Otherwise, some hundreds of Archives that do not answer
    would delay all others, because each of them holds a connection until its time is over.
    """

    def __init__(self, config: ResolverConfig) -> None:
        self._limit = config.follow_connections
        self._slow_limit = max(self._limit // 2, 1)
        self._checkpoint_timeout = config.archive_timeout
        self._engine = Engine(MAX_ANSWER, config.inner_hosts)
        self._engine.limit_connections(self._limit)
        #: Held by the thread that uses the engine.
        self._lock = Lock()
        self._closed = False
        #: The requests that may be sent next: of each job as many as its host may have connections.
        self._ready: deque[tuple[_Job, int]] = deque()
        self._slow: deque[tuple[_Job, int]] = deque()
        #: The results that have arrived. The engine adds them in either thread.
        self._arrived: deque[tuple[_Job, int, TransferResult]] = deque()
        self._sent = self._sent_slow = 0
        self._thread: Thread | None = None

    def start(
        self,
        archive_id: int,
        base: str,
        key: VerifierKey,
        requests: Requests[Reading],
        is_slow: bool = False,
    ) -> None:
        """Begin to read the log of an Archive.

        Caches may keep tiles and entries for ever, and a log that began anew has the same paths.
        Therefore the number of the key is added as a query string, which the Archive ignores.

        :param base: the URL of the folder of the log, which ends with "/".
        :param key: the pinned key of the log.
        :param requests: the generator of :func:`.log_reader.read_log`.
        :param is_slow: whether reading will probably take long.
        """
        job = _Job(archive_id, base, f"?key={key.find_id(PLAIN):08x}", requests, is_slow)
        self._put(job, next(requests))

    def wait(self, seconds: float) -> Iterator[tuple[int, Reading]]:
        """Send and receive until a log was read, or for some seconds. Yield what was read."""
        self._send()
        left, end = seconds, monotonic() + seconds
        while left > 0 and not self._arrived:
            with self._lock:
                self._engine.step(min(left, PAUSE))
            left = end - monotonic()
        while self._arrived:
            job, index, result = self._arrived.popleft()
            self._sent -= 1
            self._sent_slow -= job.is_slow
            job.results[index] = result
            job.pending -= 1
            if job.waiting:  # before other logs, because its results stay in memory until its end
                self._queue(job).appendleft((job, job.waiting.popleft()))
            if not job.pending:
                try:
                    fetches = job.requests.send([one for one in job.results if one is not None])
                except StopIteration as finished:
                    yield job.archive_id, finished.value
                else:
                    self._put(job, fetches)
            self._send()

    def close(self) -> None:
        """Close all connections. Logs that are being read are abandoned."""
        self._closed = True
        with self._lock:
            self._engine.close()

    def _put(self, job: _Job, fetches: list[Fetch]) -> None:
        job.fetches = fetches
        job.results = [None] * len(fetches)
        job.pending = len(fetches)
        job.waiting = deque(range(len(fetches)))
        for _ in range(min(len(fetches), MAX_HOST_CONNECTIONS)):
            self._queue(job).append((job, job.waiting.popleft()))

    def _queue(self, job: _Job) -> deque[tuple[_Job, int]]:
        return self._slow if job.is_slow else self._ready

    def _take(self) -> tuple[_Job, int] | None:
        """Return the next request; None if there is none, or if no connection is free for it."""
        if self._sent < self._limit:
            if self._slow and self._sent_slow < self._slow_limit:
                return self._slow.popleft()
            if self._ready:
                return self._ready.popleft()
        return None

    def _send(self) -> None:
        """Send requests as long as connections are free."""
        while (next_request := self._take()) is not None:
            job, index = next_request
            self._sent += 1
            self._sent_slow += job.is_slow
            if job.end is None:  # many logs may have waited for a free connection before
                job.end = monotonic() + READING_TIMEOUT
            fetch = job.fetches[index]
            if fetch.path == CHECKPOINT:
                url, timeout = job.base + fetch.path, self._checkpoint_timeout
            else:
                url, timeout = job.base + fetch.path + job.query, FILE_TIMEOUT
            milliseconds = int(min(timeout, job.end - monotonic()) * 1000)
            if milliseconds <= 0 or not is_valid_url(url):
                reason = TIMED_OUT if milliseconds <= 0 else INVALID_URL
                self._arrived.append((job, index, TransferResult(reason=reason)))
                continue
            headers = HEADERS if fetch.etag is None else {**HEADERS, "If-None-Match": fetch.etag}
            with self._lock:
                self._engine.add(url, milliseconds, partial(self._finish, job, index), headers)
        if self._sent and (self._thread is None or not self._thread.is_alive()):
            self._thread = Thread(target=self._drive, name="ibi-resolver-logs", daemon=True)
            self._thread.start()

    def _drive(self) -> None:
        """Send and receive as long as requests are running, whenever :meth:`wait` does not."""
        while self._sent and not self._closed:
            with self._lock:
                if not self._closed:
                    self._engine.step(0.0)
            sleep(PAUSE)

    def _finish(self, job: _Job, index: int, result: TransferResult) -> None:
        self._arrived.append((job, index, result))
