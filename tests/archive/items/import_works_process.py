"""A process that imports works with new identifiers, for tests that kill it.

::

    python import_works_process.py URI FOLDER FILE BATCH [STATEMENT]

It is killed before the SQL statement with this number.
"""

from __future__ import annotations

import os
import signal
import sys
from itertools import count
from pathlib import Path

from sqlalchemy import Engine, event
from support.archives import close, make_app
from support.commands import command

from flask_ibi_archive.archive.items.importing import works


def main(uri: str, folder: str, file: str, batch: str, last: str = "0") -> None:
    """Import, and write what the command writes."""
    works.WORKS_PER_BATCH = int(batch)
    app = make_app(uri, Path(folder))
    numbers = count(1)

    @event.listens_for(Engine, "before_cursor_execute")
    def count_statement(*values: object) -> None:
        if next(numbers) == int(last):
            os.kill(os.getpid(), signal.SIGKILL)

    print(command(app, "import", file, "--mint").data)
    close(app)


if __name__ == "__main__":
    main(*sys.argv[1:])
