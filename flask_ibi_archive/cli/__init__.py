"""The commands ``flask ibi ...``.

Importing this is cheap, since every ``flask`` command does it; what a command needs is imported
when it runs.
"""

from __future__ import annotations

from flask_ibi_archive.cli.group import ibi

__all__ = ["ibi"]
