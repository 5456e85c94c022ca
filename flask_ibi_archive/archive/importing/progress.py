"""How much of an import's work is done: a number that grows evenly through all its passes."""

from __future__ import annotations

from collections.abc import Callable

from flask_ibi_archive.storage.imports import ImportState, Phase

#: What a byte of the file costs in each pass, roughly.
LOOK = 1
COSTS = {Phase.ITEMS: 12, Phase.LANGUAGES: 1, Phase.TIES: 6}


def work_of(size: int) -> int:
    """Return the work that a file of some bytes makes, all passes together."""
    return size * (LOOK + sum(COSTS.values()))


class Progress:
    """Tells of the work as it is done.

    :param size: the bytes of the file.
    :param tell: told how much was done since it was told last.
    """

    def __init__(self, size: int, tell: Callable[[int], None]) -> None:
        self._size = size
        self._tell = tell
        self._done = 0

    def look(self, position: int) -> None:
        """Say how far the file was looked through for files that it takes in."""
        if position * LOOK - self._done >= 1 << 20 or position == self._size:
            self._reach(position * LOOK)

    def reach(self, state: ImportState) -> None:
        """Say how far an import is."""
        done = self._size * LOOK
        for phase, cost in COSTS.items():
            if phase is state.phase:
                break
            done += self._size * cost
        part = state.position
        if state.phase is Phase.LANGUAGES:
            part = self._size * state.line // (state.lines or 1)
        self._reach(done + part * COSTS[state.phase])

    def finish(self) -> None:
        """Say that all is done."""
        self._reach(work_of(self._size))

    def _reach(self, done: int) -> None:
        step, self._done = done - self._done, done
        self._tell(step)
