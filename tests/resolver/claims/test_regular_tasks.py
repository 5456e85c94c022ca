"""What the process that follows also does at intervals."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from threading import Event

import pytest
from support.loopback import PATIENCE

from flask_ibi_archive.resolver.claims.regular_tasks import RegularTasks, Task

NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)


def test_each_task_runs_at_its_interval_though_another_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ran: list[str] = []

    def fail(now: datetime) -> None:
        raise ValueError("broken")

    tasks = RegularTasks(
        [
            Task(60 * SECOND, fail),
            Task(60 * SECOND, lambda now: ran.append("minute")),
            Task(3600 * SECOND, lambda now: ran.append("hour")),
        ]
    )
    for seconds in (0, 59, 60, 100, 3599, 3600):
        tasks.run_due(NOON + seconds * SECOND)
    assert ran == ["minute", "hour", "minute", "minute", "hour"]
    assert len(caplog.records) == 3


def test_tasks_that_take_long_run_in_one_thread() -> None:
    begun, end = Event(), Event()
    ran: list[datetime] = []

    def wait(now: datetime) -> None:
        ran.append(now)
        begun.set()
        assert end.wait(PATIENCE)

    tasks = RegularTasks([Task(SECOND, wait)])
    tasks.start_due(NOON)
    assert begun.wait(PATIENCE)
    tasks.start_due(NOON + 10 * SECOND)
    assert ran == [NOON]
    end.set()
    tasks.close(PATIENCE)
    tasks.start_due(NOON + 20 * SECOND)
    tasks.close(PATIENCE)
    assert ran == [NOON, NOON + 20 * SECOND]
