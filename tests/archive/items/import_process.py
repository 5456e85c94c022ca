"""A process that imports a file with --resume and reports its progress after each batch.

::

    python import_process.py URI FOLDER FILE ON_CONFLICT BATCH
"""

from __future__ import annotations

import sys
from pathlib import Path

from support.archives import archive_of, close, import_file, make_app

from flask_ibi_archive.archive.items.importing import importer as importing


def main(uri: str, folder: str, file: str, on_conflict: str, batch: str) -> None:
    """Import, and write the part of the work that is done; at the end, the counts."""
    importing.BATCH = int(batch)
    app = make_app(uri, Path(folder))

    def progress(done: int, total: int) -> None:
        print("progress", done / total, flush=True)

    result = import_file(
        archive_of(app), Path(file), on_conflict=on_conflict, resume=True, progress=progress
    )
    close(app)
    print("imported", result.added, result.updated, result.skipped, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
