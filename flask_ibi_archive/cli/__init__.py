"""The commands ``flask ibi ...``.

Every ``flask`` command imports this package, so the import must be fast: each command imports the
modules that it needs only when it runs.
"""

from __future__ import annotations

from flask_ibi_archive.cli.group import ibi

__all__ = ["ibi"]
