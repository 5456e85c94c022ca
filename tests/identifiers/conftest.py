from __future__ import annotations

from hypothesis import settings

# The time of an example depends on the load of the computer.
settings.register_profile("identifiers", deadline=None)
settings.load_profile("identifiers")
