"""A process that imports a file, for tests that kill it.

::

    python import_process.py URI FOLDER STATEMENT WORD...

It is killed before the SQL statement with this number. The words are those after ``import``.
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

from flask_ibi_archive.archive.items import import_export as importer


def main(uri: str, folder: str, last: str, *words: str) -> None:
    """Import, and write what the command writes."""
    importer.BATCH = 10
    app = make_app(uri, Path(folder))
    numbers = count(1)

    @event.listens_for(Engine, "before_cursor_execute")
    def count_statement(*values: object) -> None:
        if next(numbers) == int(last):
            os.kill(os.getpid(), signal.SIGKILL)

    print(command(app, "import", *words).data)
    close(app)


if __name__ == "__main__":
    main(*sys.argv[1:])
