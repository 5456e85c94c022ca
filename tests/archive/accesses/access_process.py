"""A process that records a pickled acknowledgment in four threads at the same time.

::

    python access_process.py URI FOLDER FILE
"""

from __future__ import annotations

import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.archives import archive_of, make_app


def main(uri: str, folder: str, file: str) -> None:
    """Print "ready", wait for a line, then record the acknowledgment."""
    archive = archive_of(make_app(uri, Path(folder)))
    acknowledgment = pickle.loads(Path(file).read_bytes())
    print("ready", flush=True)
    sys.stdin.readline()
    with ThreadPoolExecutor(4) as pool:
        print(*pool.map(archive.take_acknowledgment, [acknowledgment] * 4))
    archive.database.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
