"""Settings for tests that walk at random for minutes."""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, settings

#: A failing walk is reported as it is: to shrink it takes much longer than the whole test.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


def long_walks(**values: Any) -> settings:
    """Return settings for random walks of many steps, each of which takes about a second.

    The report of a failure contains each step, and ``@reproduce_failure(...)``: written above the
    class of the machine, it repeats this walk. Without ``phases``, Hypothesis shrinks the walk.
    """
    return settings(phases=PHASES, print_blob=True, **values)
