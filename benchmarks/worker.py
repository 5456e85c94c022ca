"""The process of one system that is measured.

``python -m benchmarks.worker MODULE:FUNCTION URI FOLDER ARGUMENTS`` calls the function, with the
URL of an empty database and an empty folder. It returns a :data:`Work`. The process then reads
numbers from its standard input, does the work so many times, and prints what it took, as JSON.
This module imports no other one of the project, because comparable systems may be installed in
another virtual environment.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias
from wsgiref.util import setup_testing_defaults

#: Does work that is prepared. A result is printed, if there is one.
Job: TypeAlias = Callable[[], object]
#: Prepares to do something a number of times; the preparation is not measured.
Work: TypeAlias = Callable[[int], Job]
#: The variables of the WSGI environment of a GET request.
ENVIRONMENT: dict[str, Any] = {}
setup_testing_defaults(ENVIRONMENT)


def repeated(call: Callable[[], object]) -> Work:
    """Return the work that consists of calls of a function."""

    def work(count: int) -> Job:
        def job() -> None:
            for _ in range(count):
                call()

        return job

    return work


def batched(store: Callable[[int], object], size: int) -> Work:
    """Return the work that consists of calls of a function, each for so many at most."""

    def work(count: int) -> Job:
        def job() -> None:
            for begin in range(0, count, size):
                store(min(size, count - begin))

        return job

    return work


def get(app: Any, path: str, query: str = "", status: str = "200", **variables: str) -> str:
    """Return the body of the answer of a WSGI application.

    :param status: the status of the right answer.
    :param variables: further variables of the WSGI environment.
    """
    environment = {**ENVIRONMENT, "PATH_INFO": path, "QUERY_STRING": query, **variables}

    def start_response(answered: str, headers: Any, error: Any = None) -> Callable[[bytes], object]:
        if not answered.startswith(status):
            raise SystemExit(f"{path}?{query}: status {answered} instead of {status}")
        return lambda data: None

    body = app(environment, start_response)
    text = b"".join(body).decode()
    getattr(body, "close", lambda: None)()
    return text


def measure(job: Job) -> dict[str, Any]:
    """Return what a job took: seconds of CPU in this process and of the clock, and megabytes."""
    cpu, clock = time.process_time(), time.perf_counter()
    result = job()
    return {
        "cpu": time.process_time() - cpu,
        "clock": time.perf_counter() - clock,
        # getrusage() tells that of the process that started this one, if that is larger
        "peak": int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024,
        "result": result,
    }


def main(name: str, *arguments: str) -> None:
    """Prepare the work, then do it as often as the lines of the standard input say."""
    module, _, function = name.partition(":")
    work: Work = getattr(import_module(module), function)(*arguments)
    # what was created until now is not searched for garbage during the work
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(measure(work(int(line)))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
