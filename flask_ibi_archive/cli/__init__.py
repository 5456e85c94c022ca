"""The commands ``flask ibi ...``.

Every ``flask`` command imports this package. Therefore the import must be fast. A command imports
other modules only when the command runs.
"""

from __future__ import annotations

from flask_ibi_archive.cli.group import ibi

__all__ = ["ibi"]
