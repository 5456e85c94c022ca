"""A process that creates an Archive: ``python archive_process.py URI FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

from support.archives import archive_of, make_app


def main(uri: str, folder: str) -> None:
    """Print "ready", wait for a line, then create the Archive."""
    archive = archive_of(make_app(uri, Path(folder), IBI_ARCHIVE_SERVICE_IBI=None))
    print("ready", flush=True)
    sys.stdin.readline()
    served, created = archive.init()
    print(served.service_ibi, served.ibip, created)


if __name__ == "__main__":
    main(*sys.argv[1:])
