from __future__ import annotations

from hypothesis import settings

# How long an example takes says nothing on a busy computer; the tests that mind it measure it.
settings.register_profile("identifiers", deadline=None)
settings.load_profile("identifiers")
