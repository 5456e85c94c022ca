"""Measure what this package costs, and print the table of ``docs/performance.rst``.

All figures of a run are from this computer, in one run: what Flask or a driver of a database
costs alone, this package, and comparable systems (arklet, invenio-pidstore), if the interpreter
that --comparable names has them. The systems work in turn, so that other work of the computer
changes their ratios little.

Example:
  python -m benchmarks                                  everything
  python -m benchmarks url-request --databases sqlite   one benchmark on one database
  python -m benchmarks --items 1200 --rounds 2          a quick run
  python -m benchmarks --comparable .venv-comparable/bin/python --page docs/performance.rst
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sqlalchemy.exc import OperationalError

from .comparable import ARKLET, INVENIO
from .ours import ITEMS
from .processes import ROOT, System, execute, measure

POSTGRESQL = os.environ.get(
    "IBI_TEST_POSTGRESQL", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres"
)
DATABASES = ("sqlite", "postgresql")
PACKAGES = ("Flask", "SQLAlchemy", "psycopg", "flask_ibi_archive")
#: The table is between these lines of the page.
BEGIN, END = ".. begin of the figures", ".. end of the figures"

#: The figures: what the table says of each, and its value if something was done ``count`` times.
FIGURES: Mapping[str, tuple[str, Callable[[Mapping[str, Any], int], Any]]] = {
    "cpu": ("microseconds of CPU time", lambda taken, count: taken["cpu"] / count * 1e6),
    "rate": ("per second", lambda taken, count: count / taken["clock"]),
    "memory": ("maximum memory of the process, MB", lambda taken, count: taken["peak"]),
    "calls": ("calls of functions / modules", lambda taken, count: taken["result"]),
}


@dataclass(frozen=True)
class Benchmark:
    """Systems that are compared with the first one.

    :param count: how often their work is done in a round.
    :param rounds: None: as many as the option says.
    """

    name: str
    title: str
    figures: Sequence[str]
    count: int
    systems: Sequence[System]
    rounds: int | None = None


def create_benchmarks(items: int) -> Iterator[Benchmark]:
    """Yield the benchmarks.

    :param items: the number of items that are imported, and of those in the large Archive.
    """
    many = f"{items:,} items"
    yield Benchmark(
        "url-request",
        "A request to an Archive of 1,000 items",
        ["cpu"],
        200,
        [
            System("bare Flask view", "bare:view"),
            System("Flask view with one SELECT", "bare:select_view"),
            System(f"{ARKLET}, redirect of an ARK", "comparable:arklet_resolution"),
            System(f"{INVENIO}, redirect of a PID", "comparable:invenio_resolution"),
            System("**urlRequest**", "ours:url_request", (ITEMS,)),
            System(f"**urlRequest**, {many}", "ours:url_request", (items,)),
            System("**urlRequest**, two verbs", "ours:two_verbs"),
            System("**urlRequest**, unfiltered list", "ours:unfiltered_list"),
        ],
    )
    yield Benchmark(
        "landing-page",
        "A landing page",
        ["cpu"],
        20,
        [
            System("the same text in a template without logic", "bare:template"),
            System("**landing page**", "ours:landing_page"),
        ],
    )
    yield Benchmark(
        "harvest",
        "The next 100 records of OAI-PMH",
        ["cpu"],
        5,
        [
            System("**1,000 items**", "ours:harvest", (ITEMS,)),
            System(f"**{many}**", "ours:harvest", (items,)),
        ],
    )
    yield Benchmark(
        "deposits",
        "New identifiers or items, a transaction each",
        ["rate"],
        100,
        [
            System("driver, two statements", "bare:two_statements"),
            System(f"{ARKLET}, an ARK", "comparable:arklet_minting"),
            System(f"{INVENIO}, a PID", "comparable:invenio_pids", (1,)),
            System("**minting**", "ours:minting"),
            System("**deposit without files**", "ours:deposits"),
        ],
    )
    yield Benchmark(
        "import",
        f"An import of {items // 3:,} items",
        ["rate", "memory"],
        items // 3,
        [
            System("driver, five rows an item", "bare:five_rows"),
            System(f"{ARKLET}, one row, no checks", "comparable:arklet_import"),
            System(f"{INVENIO}, one row", "comparable:invenio_pids", (1000,)),
            System("**import**", "ours:imports"),
        ],
        rounds=3,
    )
    for archives in (32, 128):
        yield Benchmark(
            "resolution",
            f"A resolution that asks {archives} Archives",
            ["cpu", "rate"],
            100,
            [
                System("the same requests by open sockets", "resolutions:sockets", (archives,)),
                System("**one thread**", "resolutions:resolver", (archives, 1)),
                System("**eight threads**", "resolutions:resolver", (archives, 8)),
            ],
        )
    yield Benchmark(
        "calls",
        "The third operation of a process",
        ["calls"],
        1,
        [
            System("**urlRequest**", "calls:url_request"),
            System("**deposit** with one file", "calls:deposit"),
            System("**edit**", "calls:edit"),
            System("**resolution** with one Archive", "calls:resolution"),
        ],
        rounds=1,
    )


def format_cells(benchmark: Benchmark, name: str, rounds: Sequence[Sequence[Any]]) -> list[str]:
    """Return the median of a figure for each system, and of its ratios to the first system."""
    find = FIGURES[name][1]
    values = [[find(taken, benchmark.count) for taken in one] for one in rounds]
    if name == "calls":
        return values[-1]
    medians = [statistics.median(column) for column in zip(*values, strict=True)]
    ratios = ([value / one[0] for value in one] for one in values)
    middle = [statistics.median(column) for column in zip(*ratios, strict=True)]
    pairs = zip(medians, middle, strict=True)
    return [f"{value:,.0f} ({ratio:#.3g})" for value, ratio in pairs]


def format_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in reStructuredText; a row of one cell is a title."""
    whole = [row for row in rows if len(row) > 1]
    widths = [max(map(len, column)) for column in zip(headings, *whole, strict=True)]
    titles = max(len(row[0]) for row in rows if len(row) == 1)
    width = sum(widths) + 2 * len(widths) - 2
    widths[0] += max(titles - width, 0)
    border = "  ".join("=" * width for width in widths)

    def format_row(cells: Sequence[str]) -> str:
        padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=False))
        return "  ".join(padded).rstrip()

    lines = [border, format_row(headings), border]
    for row in rows:
        lines.append(format_row(row))
        if len(row) == 1:
            lines.append("-" * len(border))
    return [*lines, border]


def write_page(path: Path, lines: Sequence[str]) -> None:
    """Write the lines between the marks of a page."""
    text = path.read_text(encoding="utf-8")
    middle = "\n".join(["", "", *lines, "", ""])
    pattern = f"(?<={re.escape(BEGIN)}).*(?={re.escape(END)})"
    text, found = re.subn(pattern, lambda _: middle, text, flags=re.DOTALL)
    if not found:
        raise SystemExit(f"{path}: there are no lines {BEGIN!r} and {END!r}")
    path.write_text(text, encoding="utf-8")


def parse_options(names: Sequence[str]) -> argparse.Namespace:
    """Return the options of the command line.

    :param names: the names of the benchmarks.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"benchmarks: {', '.join(names)}",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="a benchmark (default: all)")
    parser.add_argument("--databases", nargs="+", choices=DATABASES, default=list(DATABASES))
    parser.add_argument(
        "--postgresql", metavar="URL", default=POSTGRESQL, help="a server to create databases on"
    )
    parser.add_argument(
        "--items", type=int, default=100_000, help="items of large Archives (default: 100,000)"
    )
    parser.add_argument("--rounds", type=int, default=15, help="rounds (default: 15)")
    parser.add_argument(
        "--comparable",
        metavar="PYTHON",
        default=sys.executable,
        help="an interpreter with arklet and invenio-pidstore (default: this one)",
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="a page to put the table into")
    options = parser.parse_args()
    for name in options.names:
        if name not in names:
            parser.error(f"there is no benchmark {name!r}; there are {', '.join(names)}")
    if shutil.which(options.comparable) is None:
        parser.error(f"--comparable: {options.comparable} is no program")
    return options


def find_comparable(python: str) -> dict[str, str]:
    """Return the versions of the comparable systems that an interpreter has."""
    words = [python, "-m", "benchmarks.comparable"]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def find_version(server: str) -> str:
    """Return the version of a PostgreSQL server."""
    try:
        return execute(server, "SHOW server_version").split(" ")[0]
    except OperationalError:
        raise SystemExit(f"no PostgreSQL answers at {server}; use --databases sqlite") from None


def main() -> None:
    """Measure, print the table, and write it into a page."""
    options = parse_options(list(dict.fromkeys(one.name for one in create_benchmarks(0))))
    # the processes are started in another folder
    python = str(Path(shutil.which(options.comparable)).absolute())
    versions = find_comparable(python)
    servers: dict[str, str | None] = {}
    if "sqlite" in options.databases:
        servers[f"SQLite {sqlite3.sqlite_version}"] = None
    if "postgresql" in options.databases:
        servers[f"PostgreSQL {find_version(options.postgresql)}"] = options.postgresql
    rows: list[Sequence[str]] = []
    for benchmark in create_benchmarks(options.items):
        if options.names and benchmark.name not in options.names:
            continue
        systems = [
            one
            for one in benchmark.systems
            if not one.is_comparable or one.name.partition(",")[0] in versions
        ]
        cells: dict[str, list[list[str]]] = {name: [] for name in benchmark.figures}
        for database, server in servers.items():
            print(f"{benchmark.title}: {database}", file=sys.stderr, flush=True)
            rounds = benchmark.rounds or options.rounds
            taken = measure(python, systems, server, rounds, benchmark.count)
            for name, columns in cells.items():
                columns.append(format_cells(benchmark, name, taken))
        for name, columns in cells.items():
            rows.append([f"{benchmark.title}: {FIGURES[name][0]}"])
            rows += zip((one.name for one in systems), *columns, strict=True)
    versions = {name: version(name) for name in PACKAGES} | versions
    lines = [
        *format_table(["", *servers], rows),
        "",
        f"{date.today()}, {os.cpu_count()} cores, medians of {options.rounds} rounds; Python "
        f"{platform.python_version()}, {', '.join(map(' '.join, versions.items()))}.",
    ]
    print("\n".join(lines))
    if options.page:
        write_page(options.page, lines)


if __name__ == "__main__":
    main()
