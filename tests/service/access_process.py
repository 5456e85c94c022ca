"""A process that acknowledges with one key, by four threads: ``access_process.py URI FOLDER KEY IBI``."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.accesses import acknowledge
from support.archives import archive_of, make_app


def main(uri: str, folder: str, key: str, ibi: str) -> None:
    """Say that it is ready, wait for a line, then acknowledge."""
    archive = archive_of(make_app(uri, Path(folder)))
    acknowledgment = acknowledge(archive, ibi, url_key=key)
    print("ready", flush=True)
    sys.stdin.readline()
    with ThreadPoolExecutor(4) as pool:
        outcomes = pool.map(archive.take_acknowledgment, [acknowledgment] * 4)
        print(*[outcome.name for outcome in outcomes])
    archive.database.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
