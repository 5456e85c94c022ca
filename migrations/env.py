"""Run the migrations on the connection that :mod:`flask_ibi_archive.storage.migrate` passes."""

from __future__ import annotations

from flask_ibi_archive.storage.migrate import run_environment
from flask_ibi_archive.storage.models import metadata

run_environment(metadata)
