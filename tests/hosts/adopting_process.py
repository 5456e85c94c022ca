"""A process that adopts the rows of a host, and reports its progress after each batch.

::

    python adopting_process.py URI FOLDER RESUME BATCH
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

from support.hosts import Host

from flask_ibi_archive.archive.host_rows import adopting


def main(uri: str, folder: str, resume: str, batch: str) -> None:
    """Adopt, and write the number of rows after each batch; at the end, the counts."""
    adopting.BATCH = int(batch)
    host = Host(uri, Path(folder))

    def progress(done: int, total: int) -> None:
        print("progress", done, total, flush=True)

    before, start = _peak(), time.perf_counter()
    result = adopting.Adopter(
        host.archive, host.session(), host.Thesis, resume=resume == "yes", progress=progress
    ).run()
    seconds, used = time.perf_counter() - start, _peak() - before
    print("adopted", result.adopted, result.refused, f"{seconds:.1f} s", f"{used} KiB", flush=True)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main(*sys.argv[1:])
