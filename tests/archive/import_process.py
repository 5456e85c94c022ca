"""A process that imports a file with --resume, and says after each batch how much of its work is
done.

::

    python import_process.py URI FOLDER FILE ON_CONFLICT BATCH
"""

from __future__ import annotations

import sys
from pathlib import Path

from support.archives import archive_of, close, import_file, make_app

from flask_ibi_archive.archive.importing import importer as importing


def main(uri: str, folder: str, file: str, on_conflict: str, batch: str) -> None:
    """Import, writing lines of so many units of work; in the end what was taken in."""
    importing.BATCH = int(batch)
    app = make_app(uri, Path(folder))
    done = 0

    def progress(units: int) -> None:
        nonlocal done
        done += units
        print(done, flush=True)

    result = import_file(
        archive_of(app), Path(file), on_conflict=on_conflict, resume=True, progress=progress
    )
    close(app)
    print("taken", result.added, result.updated, result.skipped, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
