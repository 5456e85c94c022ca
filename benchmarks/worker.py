"""The process of one system that is measured.

``python -m benchmarks.worker MODULE:FUNCTION ARGUMENTS`` calls the function with the
arguments, which prepares the work and returns a function that does it a number of times. The
process then reads such numbers, one on each line of its standard input, and prints how long the
work took. This module and ``comparable`` need no other module of the project, because comparable
systems may be installed in another virtual environment.
"""

from __future__ import annotations

import gc
import json
import resource
import select
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

#: Does the prepared work a number of times.
Work: TypeAlias = Callable[[int], object]


def repeated(call: Callable[[], object]) -> Work:
    """Return the work that consists of calls of a function."""

    def work(count: int) -> None:
        for _ in range(count):
            call()

    return work


def requests_to(
    app: Any, path: str, query: str = "", status: str = "200", **variables: str
) -> Work:
    """Return the work that consists of requests to a WSGI application.

    :param status: the status of the right answer.
    :param variables: variables of the WSGI environment.
    """
    environment = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "wsgi.url_scheme": "http",
        "wsgi.input": sys.stdin.buffer,
        "wsgi.errors": sys.stderr,
        "wsgi.version": (1, 0),
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        **variables,
    }

    def start_response(found: str, headers: Any, error: Any = None) -> Callable[[bytes], object]:
        if not found.startswith(status):
            raise SystemExit(f"{path}?{query}: status {found} instead of {status}")
        return lambda data: None

    def call() -> None:
        body = app(dict(environment), start_response)
        b"".join(body)
        getattr(body, "close", lambda: None)()

    return repeated(call)


def measure(work: Work, count: int) -> dict[str, float]:
    """Return the seconds of CPU in this process and of the clock."""
    cpu, clock = time.process_time(), time.perf_counter()
    work(count)
    return {"cpu": time.process_time() - cpu, "clock": time.perf_counter() - clock}


def wait_for_line() -> str:
    """Return the next line of the standard input.

    The process never waits longer than a moment in the kernel: under valgrind it could not be told
    to begin to count.
    """
    while not select.select([sys.stdin], [], [], 0.01)[0]:
        pass
    return sys.stdin.readline()


def main(name: str, *arguments: str) -> None:
    """Prepare the work, then do it as often as the lines of the standard input say."""
    module, _, function = name.partition(":")
    work: Work = getattr(import_module(module), function)(*arguments)
    # what was created until now is not searched for garbage during the work
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    while line := wait_for_line():
        result = measure(work, int(line))
        # kilobytes, on Linux
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({**result, "peak": peak}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
