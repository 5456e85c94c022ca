"""A process that stores accesses, or records a pickled acknowledgment in four threads at once.

::

    python access_process.py URI FOLDER SEED
    python access_process.py URI FOLDER FILE
"""

from __future__ import annotations

import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.accesses import store_accesses
from support.archives import archive_of, make_app


def main(uri: str, folder: str, work: str) -> None:
    """Print "ready", wait for a line, then store the accesses."""
    archive = archive_of(make_app(uri, Path(folder)))
    archive.served()
    print("ready", flush=True)
    sys.stdin.readline()
    if work.isdecimal():
        store_accesses(archive, int(work))
    else:
        acknowledgment = pickle.loads(Path(work).read_bytes())
        with ThreadPoolExecutor(4) as pool:
            print(*pool.map(archive.take_acknowledgment, [acknowledgment] * 4))
    archive.database.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
