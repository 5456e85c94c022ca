"""A process that brings an Archive into being: ``python archive_process.py URI FOLDER``, once told
to go.
"""

from __future__ import annotations

import sys
from pathlib import Path

from support.archives import archive_of, make_app


def main(uri: str, folder: str) -> None:
    """Say that it is ready, wait for a line, then init."""
    archive = archive_of(make_app(uri, Path(folder), IBI_ARCHIVE_SERVICE_IBI=None))
    print("ready", flush=True)
    sys.stdin.readline()
    served, created = archive.init()
    print(served.service_ibi, served.ibip, created)


if __name__ == "__main__":
    main(*sys.argv[1:])
