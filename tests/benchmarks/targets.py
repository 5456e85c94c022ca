"""The figures that this package should reach. Rates depend on the machine: two cores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: The name of this package in the figures.
OURS = "flask_ibi_archive"
#: At least so many for "per_second", at most so many for all others.
TARGETS: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("url_request", "sqlite"): {"ratio": 4.0, "instruction_ratio": 2.85},
    ("url_request", "postgresql"): {"ratio": 5.5, "instruction_ratio": 2.95},
    ("metadata_request", "sqlite"): {"ratio": 5.3, "instruction_ratio": 3.8},
    ("metadata_request", "postgresql"): {"ratio": 8, "instruction_ratio": 3.6},
    ("url_list", "sqlite"): {"ratio": 8, "instruction_ratio": 7},
    ("url_list", "postgresql"): {"ratio": 9, "instruction_ratio": 8},
    ("minting", "sqlite"): {"per_second": 3500},
    ("minting", "postgresql"): {"per_second": 1600},
    ("deposits", "sqlite"): {"per_second": 1000},
    ("deposits", "postgresql"): {"per_second": 350},
    ("import", "sqlite"): {"per_second": 5000, "megabytes": 200},
    ("import", "postgresql"): {"per_second": 3800, "megabytes": 200},
    ("acknowledgments", "sqlite"): {"per_second": 400},
    ("acknowledgments", "postgresql"): {"per_second": 400},
    ("resolution", "sqlite"): {"per_second": 300},
    ("resolution", "postgresql"): {"per_second": 300},
    ("growth", "sqlite"): {"instruction_ratio": 1.03},
    ("growth", "postgresql"): {"instruction_ratio": 1.03},
    ("editions", "sqlite"): {"instruction_ratio": 1.03},
    ("editions", "postgresql"): {"instruction_ratio": 1.03},
}


def check(figures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each target of a figure that was measured."""
    for (row, database), targets in TARGETS.items():
        for figure in figures:
            if (figure["row"], figure["database"], figure["system"]) != (row, database, OURS):
                continue
            for what, target in targets.items():
                if what in figure:
                    value = figure[what]
                    good = value >= target if what == "per_second" else value <= target
                    verdict = "reached" if good else "missed "
                    yield f"{verdict}  {database:10}  {row}, {what}: {value:g}, target {target:g}"
