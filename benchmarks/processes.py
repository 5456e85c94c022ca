"""Start the processes of the systems that are measured, and measure them in turn."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: The seconds until a process must have ended.
PATIENCE = 60


@dataclass(frozen=True)
class System:
    """A system that is measured.

    :param name: as the page of figures shows it.
    :param function: the function of a module in this folder that prepares the work, as
        ``module:function``.
    :param arguments: the arguments of the function.
    :param python: the interpreter of the environment in which the system is installed.
    """

    name: str
    function: str
    arguments: tuple[str, ...]
    python: str = sys.executable

    @property
    def command(self) -> list[str]:
        """The command line of the process."""
        words = ["-m", "benchmarks.worker", f"benchmarks.{self.function}"]
        return [self.python, *words, *self.arguments]


class Running:
    """The process of a system."""

    def __init__(self, system: System, prefix: Sequence[str] = ()) -> None:
        self.system = system
        self.process = subprocess.Popen(
            [*prefix, *system.command],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONHASHSEED": "0",
                "PYTHONPATH": str(ROOT / "tests"),
                "PYTHONWARNINGS": "ignore",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self) -> str:
        """Return the next line that the process prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.system.name} failed: {' '.join(self.system.command)}")
        return line

    def begin(self, count: int) -> None:
        """Let the process do its work a number of times."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()

    def end(self) -> dict[str, float]:
        """Return what the work took."""
        found: dict[str, float] = json.loads(self.read())
        return found

    def run(self, count: int) -> dict[str, float]:
        """Let the process do its work, and return what it took."""
        self.begin(count)
        return self.end()

    def close(self) -> None:
        """End the process, and the processes that it has started."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.stdout.close()


@contextmanager
def running(systems: Sequence[System], prefix: Sequence[str] = ()) -> Iterator[list[Running]]:
    """Start a process for each system, and yield them as soon as all are ready."""
    with ExitStack() as stack:
        found = []
        for system in systems:
            found.append(Running(system, prefix))
            stack.callback(found[-1].close)
        for one in found:
            one.read()
        yield found


def median(rounds: Sequence[Sequence[Mapping[str, float]]], column: int, what: str) -> float:
    """Return the median of what the work of one system took."""
    return statistics.median(one[column][what] for one in rounds)


def median_ratio(rounds: Sequence[Sequence[Mapping[str, float]]], column: int, what: str) -> float:
    """Return the median of the ratios of one system to the first one."""
    return statistics.median(one[column][what] / one[0][what] for one in rounds)


def can_count_instructions() -> bool:
    """Return whether valgrind is installed."""
    return all(shutil.which(name) for name in ("valgrind", "callgrind_control"))


def count_instructions(system: System, count: int, warming: int) -> float:
    """Return the instructions of the work of a system, counted by callgrind."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind"
        prefix = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no"]
        with running([system], [*prefix, f"--callgrind-out-file={out}"]) as [process]:
            process.run(warming)
            control(process, "--instr=on")
            # each dump contains what was counted since the previous one
            for name, calls in (("begin", 1), ("few", 2), ("many", 2 + count)):
                process.run(calls)
                control(process, f"--dump={name}")
        few, many = (total(Path(f"{out}.{number}")) for number in (2, 3))
    return (many - few) / count


def control(process: Running, word: str) -> None:
    """Send a command to a process under callgrind."""
    done = subprocess.run(
        ["callgrind_control", word, str(process.process.pid)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if "OK" not in done.stdout:
        raise SystemExit(f"callgrind_control: {done.stdout}{done.stderr}")


def total(path: Path) -> int:
    """Return the number of instructions in a file of callgrind."""
    found = re.search(r"^(?:totals|summary): (\d+)", path.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])
