"""The check of servers under a long load finds what grows."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.gunicorn_servers import Server, wait_for
from benchmarks.soak import report

COUNTS = range(0, 30_000, 500)


def growing(name: str, by: float) -> list[tuple[int, dict[str, float]]]:
    """Return samples of a quantity that grows with each thousand requests, and varies a little."""
    return [
        (count, {name: 100_000 + by * count / 1000 + 8 * (place % 3)})
        for place, count in enumerate(COUNTS)
    ]


@pytest.mark.parametrize(
    ("name", "by", "good"),
    [
        ("resolver 1: memory, KB", 122, False),
        ("resolver 1: memory, KB", 0, True),
        ("archive 1: open files", 1, False),
        ("archive 1: open files", 0, True),
        ("connections to PostgreSQL", 1, False),
    ],
)
def test_growth_is_found(
    name: str, by: float, good: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(growing(name, by)) is good
    assert ("GROWS" in capsys.readouterr().out) is not good


def test_more_files_while_requests_are_answered_are_no_growth() -> None:
    half = len(COUNTS) // 2
    samples = [
        (count, {"archive 1: open files": 40 + (20 if place > half and place % 3 else place % 2)})
        for place, count in enumerate(COUNTS)
    ]
    assert report(samples)


def test_a_server_that_has_ended_is_not_waited_for() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with pytest.raises(RuntimeError, match=r"the server archive at 127\.0\.0\.1:1 has ended"):
        wait_for(Server("archive", "127.0.0.1:1", process))
