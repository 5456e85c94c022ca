"""The circuit breaker, which skips Archives that fail repeatedly.

Each Archive has a circuit. After some consecutive failures of the Archive, the circuit is *opened*:
the resolver sends no requests to the Archive during a pause. After this pause, the resolver sends
one request as a *probe*. If the Archive answers the probe, the circuit is closed again. If the
probe fails, another pause begins, which is twice as long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from time import monotonic

#: Number of consecutive failures after which the circuit of an Archive is opened.
MAX_FAILURES = 3
#: Length of the first pause in seconds.
FIRST_PAUSE = 10.0
#: Maximum length of a pause in seconds.
MAX_PAUSE = 300.0


@dataclass(slots=True)
class _Circuit:
    """The circuit of an Archive that failed. The circuit is open if ``pause`` is not 0."""

    failures: int = 0
    pause: float = 0.0
    #: The time after which a request may be sent as a probe.
    probe_at: float = 0.0
    is_probing: bool = False


class CircuitBreaker:
    """Decides which Archives are skipped because they failed repeatedly. Thread-safe.

    While a probe is running, no other requests are sent to the Archive. If the caller never records
    the result of a probe, the next probe is sent after another pause.

    :param clock: a function that returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._circuits: dict[int, _Circuit] = {}
        self._lock = Lock()

    def allows_request(self, archive_id: int) -> bool:
        """Return whether a request may be sent to an Archive now.

        If the result is True, the caller must send the request and call :meth:`record_result`.
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
        """Record whether an Archive answered a request correctly."""
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
            # otherwise, this request was sent before the circuit was opened: its result is ignored

    def _open(self, circuit: _Circuit, pause: float) -> None:
        circuit.pause = pause
        circuit.probe_at = self._clock() + pause
        circuit.is_probing = False
