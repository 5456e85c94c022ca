"""The figures that this package should reach. Rates depend on the machine: two cores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: The name of this package in the figures, and that of several of its processes.
OURS = "flask_ibi_archive"
TOGETHER = f"{OURS}, 3 processes"
#: At least so many for "per_second", at most so many for all others.
TARGETS: Mapping[tuple[str, str], Mapping[str, float]] = {
    ("url_request", "sqlite"): {"ratio": 4.2},
    ("url_request", "postgresql"): {"ratio": 7},
    ("metadata_request", "sqlite"): {"ratio": 5.5},
    ("metadata_request", "postgresql"): {"ratio": 8.5},
    ("url_list", "sqlite"): {"ratio": 12},
    ("url_list", "postgresql"): {"ratio": 13},
    # minting is only ranked, see RANKS
    ("minting", "sqlite"): {},
    ("minting", "postgresql"): {},
    ("deposits", "sqlite"): {"per_second": 1000},
    ("deposits", "postgresql"): {"per_second": 350},
    ("import", "sqlite"): {"per_second": 4000, "megabytes": 200},
    ("import", "postgresql"): {"per_second": 3500, "megabytes": 200},
    ("acknowledgments", "sqlite"): {"per_second": 350},
    ("acknowledgments", "postgresql"): {"per_second": 350},
    ("resolution", "sqlite"): {"per_second": 350},
    ("resolution", "postgresql"): {"per_second": 350},
    ("growth", "sqlite"): {"instruction_ratio": 1.03},
    ("growth", "postgresql"): {"instruction_ratio": 1.03},
    ("editions", "sqlite"): {"instruction_ratio": 1.03},
    ("editions", "postgresql"): {"instruction_ratio": 1.03},
    ("longer_chain", "sqlite"): {"instruction_ratio": 1.03},
    ("longer_chain", "postgresql"): {"instruction_ratio": 1.03},
    ("former_links", "sqlite"): {"instruction_ratio": 1.03},
    ("former_links", "postgresql"): {"instruction_ratio": 1.03},
    ("named_items", "sqlite"): {"instruction_ratio": 1.03},
    ("named_items", "postgresql"): {"instruction_ratio": 1.03},
}
#: In these rows, the first system does at least as many per second as the second, in the same run.
RANKS: Sequence[tuple[str, str, str]] = (
    ("minting", OURS, "arklet"),
    ("minting", TOGETHER, OURS),
)


@dataclass(frozen=True)
class Verdict:
    """A target, and whether a run reached it.

    :param name: the name of the figure.
    :param target: the limit, or the system that is the standard.
    :param value: what was measured; None if it was not.
    :param limit: the measured figure of that system; None if it was not measured.
    """

    row: str
    database: str
    system: str
    name: str
    target: float | str
    value: float | None
    limit: float | None

    @property
    def word(self) -> str:
        """Whether the target was reached."""
        if self.value is None or self.limit is None:
            return "not measured"
        good = self.value >= self.limit if self.least else self.value <= self.limit
        return "reached" if good else "missed"

    @property
    def least(self) -> bool:
        """Whether more is better."""
        return self.name == "per_second"


def judge(figures: Sequence[Mapping[str, Any]]) -> Iterator[Verdict]:
    """Yield a verdict on each target of the rows that were measured."""
    found = {(one["row"], one["database"], one["system"]): one for one in figures}

    def find(row: str, database: str, system: str, name: str) -> float | None:
        return found.get((row, database, system), {}).get(name)

    for (row, database), limits in TARGETS.items():
        if (row, database, OURS) not in found:
            continue
        for name, limit in limits.items():
            value = find(row, database, OURS, name)
            yield Verdict(row, database, OURS, name, limit, value, limit)
        for ranked, first, second in RANKS:
            if ranked == row:
                rates = (find(row, database, one, "per_second") for one in (first, second))
                yield Verdict(row, database, first, "per_second", second, *rates)


def check(figures: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each target of the rows that were measured."""
    for one in judge(figures):
        system = "" if one.system == OURS else f" of {one.system}"
        value, limit = ("?" if n is None else f"{n:g}" for n in (one.value, one.limit))
        standard = f" of {one.target}" if isinstance(one.target, str) else ""
        yield (
            f"{one.word:12}  {one.database:10}  {one.row}, {one.name}{system}: {value}, "
            f"at {'least' if one.least else 'most'} {limit}{standard}"
        )


#: The targets of ``python -m benchmarks.federation``: at least so many for "per second" and shares,
#: at most so many for all others.
FEDERATION: Mapping[tuple[str, str], float] = {
    ("follow", "CPU ms for an unchanged log"): 1,
    ("follow", "s of a pass"): 60,
    ("follow with failures", "s of a pass"): 60,
    ("asked", "mean"): 1.02,
    ("asked", "99th percentile"): 2,
    ("asked for an Original", "mean"): 1.1,
    ("asked for an Original", "99th percentile"): 3,
    ("rate", "per second"): 1500,
    ("added", "median ms"): 1,
    ("added", "99th percentile ms"): 5,
    ("unknown", "share that is said to be unknown"): 1,
    ("unknown", "99th percentile ms"): 5,
    ("rivals", "share of alerts about two Originals"): 1,
    ("conflicts", "maximum s"): 60,
    ("mirrors", "readers who fail"): 0,
}


def check_federation(figures: Iterable[tuple[str, str, float]]) -> Iterator[str]:
    """Yield a line for each figure: its row, name and value, and its target if there is one."""
    for row, name, value in figures:
        limit = FEDERATION.get((row, name))
        if limit is None:
            yield f"{'':8}{row}, {name}: {value:.4g}"
            continue
        least = name == "per second" or name.startswith("share")
        good = value >= limit if least else value <= limit
        word, bound = "reached" if good else "missed", "least" if least else "most"
        yield f"{word:8}{row}, {name}: {value:.4g}, at {bound} {limit:g}"
