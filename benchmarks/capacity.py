"""Derive from the figures what a large system needs, and show the formulas."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, log10

from .figures import Figures, format_number
from .targets import OURS

#: The system whose needs are derived.
ITEMS = 10**8
RATE = 10**4
#: The part of a core that may be busy, so that requests do not wait for each other.
BUSY = 0.7

TEXT = """\
Scaling out
-----------

What {items:,} items and {rate:,} requests per second need, derived from the figures above.
:doc:`Several servers <howto/scaling>` run the same app with one PostgreSQL database. A urlRequest
reads and never writes, so replicas of the database can answer it (``IBI_READ_DATABASE_URI``); what
is written (acknowledgments, new identifiers) goes to the primary server. Cores may be busy for
{busy:.0%} of the time.

"""


def describe_capacity(figures: Figures) -> Iterator[str]:
    """Yield the lines of the section; a formula whose figures were not measured is omitted."""
    yield from TEXT.format(items=ITEMS, rate=RATE, busy=BUSY).splitlines()
    for database, name in (("postgresql", "PostgreSQL"), ("sqlite", "SQLite")):
        lines = [*derive(figures, database)]
        if lines:
            yield f"**{name}**"
            yield ""
            for line in lines:
                yield f"- {line}"
            yield ""


def derive(figures: Figures, database: str) -> Iterator[str]:
    """Yield what a database of one kind needs, with the formulas."""

    def find(row: str, name: str) -> float | None:
        return figures.find(row, OURS, database, name)

    cpu = find("server", "microseconds")
    if cpu is not None:
        yield f"Processes of the app: {needed(RATE, cpu, 'urlRequest, with gunicorn')}."
    cpu = find("server", "database_microseconds")
    if cpu is not None:
        yield f"The database, with its replicas: {needed(RATE, cpu, 'urlRequest')}."
    ratio, few, many = (find("growth", name) for name in ("instruction_ratio", "few", "many"))
    if ratio is not None and few is not None and many is not None:
        steps = log10(ITEMS / few) / log10(many / few)
        yield (
            f"A urlRequest with {ITEMS:,} items instead of {few:,.0f}: "
            f"{ratio:.3f} ** (log({ITEMS:,} / {few:,.0f}) / log({many:,.0f} / {few:,.0f})) = "
            f"{ratio**steps:.3f} times the instructions."
        )
    size = find("size", "bytes")
    if size is not None:
        yield (
            f"Size of the database: {ITEMS:,} items * {size:,.0f} bytes for an item with its "
            f"identifiers, metadata and two files = {ITEMS * size / 1e9:,.0f} GB."
        )
    rate = find("import", "per_second")
    if rate is not None:
        hours = ITEMS / rate / 3600
        yield f"To import them: {ITEMS:,} / {format_number(rate)} per second = {hours:,.1f} hours."
    rate = find("acknowledgments", "per_second")
    if rate is not None:
        yield (
            f"One database stores {format_number(rate)} acknowledgments per second with three "
            f"processes: {format_number(100 * rate / RATE)} % of {RATE:,} requests may be the "
            "resolution of a persistent URL."
        )
    cpu = find("resolution", "microseconds")
    if cpu is not None:
        yield f"Processes of a resolver: {needed(RATE, cpu, 'resolution with 32 Archives')}."


def needed(rate: float, microseconds: float, what: str) -> str:
    """Return how many cores a rate needs, with the formula."""
    cores = ceil(rate * microseconds / 1e6 / BUSY)
    return (
        f"{rate:,} per second * {format_number(microseconds)} microseconds of CPU per {what} "
        f"/ {BUSY} = {cores:,} cores"
    )
