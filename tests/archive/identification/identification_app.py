"""The app of a real server in the tests; its clock can be set by a file.

The environment names the database, the folder, and the file with the number of seconds by which
the clock is wrong.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from pathlib import Path

from flask import Flask
from support.archives import archive_of, make_app

from flask_ibi_archive.archive.identification import server
from flask_ibi_archive.archive.items.minting import read_clock


def create_app() -> Flask:
    """Return the app."""
    server.RATE = 10**9
    folder = Path(os.environ["TEST_FOLDER"])
    app = make_app(
        os.environ["TEST_URI"], folder, IBI_IDENTIFICATION=True, IBI_GRANULARITY="0.000001"
    )
    archive = archive_of(app)

    def offset() -> Fraction:
        return Fraction((folder / "clock").read_text() or 0)

    archive.minter.clock = lambda: read_clock() + offset()
    archive.clock = lambda: datetime.now(timezone.utc) + timedelta(seconds=float(offset()))
    return app
