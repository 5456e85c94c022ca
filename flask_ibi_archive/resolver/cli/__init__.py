"""The commands ``flask ibi-resolver ...``; as cheap to import as those of ``flask ibi``."""

from __future__ import annotations

from flask_ibi_archive.resolver.cli.group import ibi_resolver

__all__ = ["ibi_resolver"]
