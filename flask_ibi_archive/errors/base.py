"""The root of all errors."""

from __future__ import annotations


class IBIError(Exception):
    """Anything that flask_ibi_archive refuses."""
