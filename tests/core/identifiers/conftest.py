from __future__ import annotations

from hypothesis import settings

# No time limit for an example: its time depends on the load of the computer.
settings.register_profile("identifiers", deadline=None)
settings.load_profile("identifiers")
