"""Run the migrations of the resolver on the connection that :mod:`..storage.migrate` passes."""

from __future__ import annotations

from flask_ibi_archive.resolver.document_registry.tables import ResolverBase
from flask_ibi_archive.storage.migrate import run_environment

run_environment(ResolverBase.metadata)
