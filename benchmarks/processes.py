"""The processes of the systems that are measured, each with a database and a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import NullPool, create_engine, make_url, text

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class System:
    """A system that is measured.

    :param name: as the table shows it.
    :param function: the function that prepares the work, as ``module:function``.
    :param arguments: its arguments after the URL of the database and the folder.
    """

    name: str
    function: str
    arguments: tuple[object, ...] = ()

    @property
    def is_comparable(self) -> bool:
        """Whether the system is one of those that others wrote."""
        return self.function.startswith("comparable:")


class Process:
    """The process of a system."""

    def __init__(self, python: str, system: System, uri: str, folder: str) -> None:
        python = python if system.is_comparable else sys.executable
        words = [f"benchmarks.{system.function}", uri, folder, *map(str, system.arguments)]
        self._name = system.name
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.worker", *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def read(self) -> str:
        """Return the next line that the process prints."""
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._name}: the process failed")
        return line

    def run(self, count: int) -> dict[str, Any]:
        """Let the process do its work a number of times, and return what it took."""
        print(count, file=self._process.stdin, flush=True)
        return json.loads(self.read())

    def close(self) -> None:
        """End the process."""
        self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        finally:
            self._process.kill()
            self._process.stdout.close()


def measure(
    python: str, systems: Sequence[System], server: str | None, rounds: int, count: int
) -> list[list[dict[str, Any]]]:
    """Return what the work of each system took in each round; the systems work in turn.

    :param python: the interpreter of the comparable systems.
    :param server: the URL of a PostgreSQL server. None: SQLite files.
    :param count: how often the work is done in a round.
    """
    with ExitStack() as stack:
        processes = []
        for system in systems:
            uri, folder = stack.enter_context(new_database(server))
            process = Process(python, system, uri, folder)
            processes.append(stack.enter_context(closing(process)))
        for process in processes:
            process.read()
        for process in processes:
            process.run(1 + count // 10)
        return [[process.run(count) for process in processes] for _ in range(rounds)]


@contextmanager
def new_database(server: str | None) -> Iterator[tuple[str, str]]:
    """Yield the URL of a new database, and a new folder."""
    name = f"ibi_benchmark_{uuid.uuid4().hex}"
    with TemporaryDirectory() as folder:
        if server is None:
            yield f"sqlite:///{folder}/{name}.sqlite", folder
            return
        execute(server, f"CREATE DATABASE {name}")
        try:
            yield make_url(server).set(database=name).render_as_string(False), folder
        finally:
            execute(server, f"DROP DATABASE {name} WITH (FORCE)")


def execute(server: str, statement: str) -> Any:
    """Execute a statement on a server, and return the first value of its result, if any."""
    engine = create_engine(server, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        result = connection.execute(text(statement))
        return result.scalar() if result.returns_rows else None
