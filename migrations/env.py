"""Run the migrations on the connection that :mod:`flask_ibi_archive.server.database.migrate` passes."""

from __future__ import annotations

import flask_ibi_archive.archive.archive  # noqa: F401 - imports the tables of all subjects
from flask_ibi_archive.archive.items.tables import metadata
from flask_ibi_archive.server.database.migrate import run_environment

run_environment(metadata)
