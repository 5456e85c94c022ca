"""Runs a process that works until it is killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from time import sleep

TESTS = Path(__file__).parents[1]


def kill_while_changing(uri: str, folder: Path, ibi: str | None, changes: int) -> int:
    """Kill a process that edits an item again and again, and return the number of its last edit.

    :param changes: the number of edits after which it is killed, a moment later.
    """
    with subprocess.Popen(
        [sys.executable, TESTS / "archive/items/changing_process.py", uri, folder, str(ibi)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    ) as process:
        assert process.stdout is not None
        numbers = [process.stdout.readline() for _ in range(changes)]
        sleep(random.random() / 50)
        process.kill()
        numbers += process.stdout.read().split()
    return int(numbers[-1])
