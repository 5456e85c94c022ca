"""The commands ``flask ibi ...``.

Every ``flask`` command imports this package, so it must load fast: a command imports what it needs
when it runs.
"""

from __future__ import annotations

from flask_ibi_archive.cli.group import ibi

__all__ = ["ibi"]
