"""Run the migrations of the resolver on the connection that :mod:`..storage.migrate` passes."""

from __future__ import annotations

from flask_ibi_archive.resolver.registry_2008.tables import ResolverBase
from flask_ibi_archive.server.database.migrate import run_environment

run_environment(ResolverBase.metadata)
