"""A process that edits an item and asks as a harvester, until it is killed.

It prints the number in each title after the commit: ``python changing_process.py URI FOLDER IBI``.
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

from support.archives import archive_of, make_app


def main(uri: str, folder: str, ibi: str) -> None:
    """Change the title and number the change, for ever."""
    app = make_app(uri, Path(folder))
    for number in count():
        archive_of(app).edit(ibi, title=f"Rain {number}")
        print(number, flush=True)
        app.test_client().get("/ibi/oai?verb=Identify")


if __name__ == "__main__":
    main(*sys.argv[1:])
