"""What the process that follows also does at intervals: reports.

The tasks wait for other servers. Therefore they run in a thread of their own, one after another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from threading import Thread
from typing import NamedTuple

_logger = logging.getLogger(__name__)


class Task(NamedTuple):
    """A task.

    :param interval: the time between the starts of two runs.
    :param run: does the task at the present time. It may be run by several processes.
    """

    interval: timedelta
    run: Callable[[datetime], object]


class RegularTasks:
    """Tasks and the times when they ran last. One thread uses the methods."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        self._started: dict[int, datetime] = {}
        self._thread: Thread | None = None

    def start_due(self, now: datetime) -> None:
        """Start the tasks that are due in a thread, unless the thread is still running."""
        if self._thread is not None and self._thread.is_alive():
            return
        due = self._take_due(now)
        if due:
            self._thread = Thread(
                target=_run, args=(due, now), name="ibi-resolver-tasks", daemon=True
            )
            self._thread.start()

    def run_due(self, now: datetime) -> None:
        """Do the tasks that are due."""
        _run(self._take_due(now), now)

    def close(self, seconds: float = 2.0) -> None:
        """Wait for the thread.

        :param seconds: the maximum time to wait.
        """
        if self._thread is not None:
            self._thread.join(seconds)

    def _take_due(self, now: datetime) -> list[Task]:
        due = []
        for number, task in enumerate(self._tasks):
            started = self._started.get(number)
            if started is None or now - started >= task.interval:
                self._started[number] = now
                due.append(task)
        return due


def _run(tasks: Sequence[Task], now: datetime) -> None:
    for task in tasks:
        try:
            task.run(now)
        except Exception:  # the other tasks must still be done
            _logger.exception("a regular task of the resolver failed")
