"""Which Archives are skipped for a while because they fail again and again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from time import monotonic

#: Failures in a row after which an Archive is skipped.
PATIENCE = 3
#: Seconds that it is skipped the first time; each failure of a probe doubles them.
FIRST_PAUSE = 10.0
LONGEST_PAUSE = 300.0


@dataclass(slots=True)
class _Record:
    failures: int = 0
    pause: float = 0.0
    #: When the next question may go to it.
    till: float = 0.0
    #: Whether that question is under way.
    is_probed: bool = False


class CircuitBreaker:
    """Remembers which Archives failed, and when each may be tried again. Threads may share it.

    Once its while is over one question goes to a skipped Archive, and the others go on to skip it
    until that one's end is known - or, where that never comes, for as long a while again.

    :param clock: gives the time, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._records: dict[int, _Record] = {}
        self._lock = Lock()

    def may_ask(self, archive_id: int) -> bool:
        """Tell whether an Archive may be asked now. Who hears yes asks, and says what it
        :meth:`took`.
        """
        record = self._records.get(archive_id)
        if record is None or not record.pause:
            return True
        with self._lock:
            now = self._clock()
            if now < record.till:
                return False
            record.till = now + record.pause
            record.is_probed = True
            return True

    def took(self, archive_id: int, ok: bool) -> None:
        """Note that an Archive answered as it should, or that it failed."""
        if ok and archive_id not in self._records:
            return
        with self._lock:
            if ok:
                self._records.pop(archive_id, None)
                return
            record = self._records.setdefault(archive_id, _Record())
            if not record.pause:
                record.failures += 1
                if record.failures >= PATIENCE:
                    self._skip(record, FIRST_PAUSE)
            elif record.is_probed:
                self._skip(record, min(2 * record.pause, LONGEST_PAUSE))
            # else it was asked before its while began: that is known already

    def _skip(self, record: _Record, pause: float) -> None:
        record.pause = pause
        record.till = self._clock() + pause
        record.is_probed = False
