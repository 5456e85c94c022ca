"""A process that adopts the rows of a host, and reports its progress after each batch.

::

    python adopting_process.py URI FOLDER RESUME BATCH [STATEMENT]

It is killed before the SQL statement with this number.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from itertools import count
from pathlib import Path

from sqlalchemy import Engine, event
from support.host_models import Host

from flask_ibi_archive.archive.hosts import adopting


def main(uri: str, folder: str, resume: str, batch: str, last: str = "0") -> None:
    """Adopt, and write the number of rows after each batch; at the end, the counts."""
    adopting.BATCH = int(batch)
    host = Host(uri, Path(folder))

    def progress(done: int, total: int) -> None:
        print("progress", done, total, flush=True)

    numbers = count(1)

    @event.listens_for(Engine, "before_cursor_execute")
    def count_statement(*values: object) -> None:
        if next(numbers) == int(last):
            os.kill(os.getpid(), signal.SIGKILL)

    before, start = _peak(), time.perf_counter()
    result = adopting.Adopter(
        host.archive, host.session(), host.Thesis, resume=resume == "yes", progress=progress
    ).run()
    seconds, used = time.perf_counter() - start, _peak() - before
    print("adopted", result.adopted, result.refused, f"{seconds:.1f} s", f"{used} KiB", flush=True)


def _peak() -> int:
    """Return the largest memory of this process so far, in KiB."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
