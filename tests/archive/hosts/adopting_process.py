"""A process that adopts the rows of a host, and is killed before an SQL statement.

::

    python adopting_process.py URI FOLDER BATCH STATEMENT
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from pathlib import Path

from sqlalchemy import Engine, event
from support.host_app import Host, Thesis

from flask_ibi_archive.archive.hosts import sync


def main(uri: str, folder: str, batch: str, last: str) -> None:
    """Adopt all rows."""
    sync.BATCH = int(batch)
    host = Host(uri, Path(folder))
    numbers = count(1)

    @event.listens_for(Engine, "before_cursor_execute")
    def count_statement(*values: object) -> None:
        if next(numbers) == int(last):
            os.kill(os.getpid(), signal.SIGKILL)

    list(sync.Sync(host.archive, Thesis, adopt=True).run())


if __name__ == "__main__":
    main(*sys.argv[1:])
