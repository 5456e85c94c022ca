"""The circuit breaker, which skips Archives that fail repeatedly.

After some consecutive failures of an Archive, its circuit is *open*: the resolver sends no requests
to the Archive for a while. After this pause, one request is sent as a *probe*. If the Archive
answers the probe, its circuit is closed again; otherwise the next pause is twice as long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from time import monotonic

#: Consecutive failures after which the circuit of an Archive is opened.
MAX_FAILURES = 3
#: Seconds until the first probe, and maximum seconds between two probes.
FIRST_PAUSE = 10.0
MAX_PAUSE = 300.0


@dataclass(slots=True)
class _Circuit:
    """The state of an Archive that failed; the circuit is open if ``pause`` is not 0."""

    failures: int = 0
    pause: float = 0.0
    #: When the next request may be sent as a probe.
    probe_at: float = 0.0
    is_probing: bool = False


class CircuitBreaker:
    """Decides which Archives are skipped because they failed repeatedly. Thread-safe.

    Until the result of a probe is recorded, the Archive is skipped by other requests. If the result
    is never recorded, the next probe is sent after another pause.

    :param clock: returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._circuits: dict[int, _Circuit] = {}
        self._lock = Lock()

    def allows_request(self, archive_id: int) -> bool:
        """Return whether a request may be sent to an Archive now.

        If it may, the caller must send the request and call :meth:`record_result`.
        """
        circuit = self._circuits.get(archive_id)
        if circuit is None or not circuit.pause:
            return True
        with self._lock:
            now = self._clock()
            if now < circuit.probe_at:
                return False
            circuit.probe_at = now + circuit.pause
            circuit.is_probing = True
            return True

    def record_result(self, archive_id: int, ok: bool) -> None:
        """Record whether an Archive answered correctly."""
        if ok and archive_id not in self._circuits:
            return
        with self._lock:
            if ok:
                self._circuits.pop(archive_id, None)
                return
            circuit = self._circuits.setdefault(archive_id, _Circuit())
            if not circuit.pause:
                circuit.failures += 1
                if circuit.failures >= MAX_FAILURES:
                    self._open(circuit, FIRST_PAUSE)
            elif circuit.is_probing:
                self._open(circuit, min(2 * circuit.pause, MAX_PAUSE))
            # otherwise the request was sent before the circuit was opened

    def _open(self, circuit: _Circuit, pause: float) -> None:
        circuit.pause = pause
        circuit.probe_at = self._clock() + pause
        circuit.is_probing = False
