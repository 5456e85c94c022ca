"""A process that stores accesses: ``python counting_process.py URI FOLDER SEED``."""

from __future__ import annotations

import sys
from pathlib import Path

from support.accesses import store_accesses
from support.archives import archive_of, make_app


def main(uri: str, folder: str, seed: str) -> None:
    """Print "ready", wait for a line, then store accesses."""
    archive = archive_of(make_app(uri, Path(folder)))
    archive.served()
    print("ready", flush=True)
    sys.stdin.readline()
    store_accesses(archive, int(seed))
    archive.database.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
