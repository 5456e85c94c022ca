"""Count labels that are issued twice although deposits are rolled back; there must be none.

10,000 deposits are rolled back while the clocks are set back. Several processes work at the same
time, and some are killed. Run it with
``python -m benchmarks.rolled_back_deposits [--postgresql URL]`` and the URL of an empty
database.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from support.databases import migrate_to_head
from support.workers import count_issued

PROCESSES = 4
KILLS = 8


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgresql", metavar="URL")
    parser.add_argument("--deposits", type=int, default=10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        uri = options.postgresql or f"sqlite:///{name}/archive.sqlite"
        migrate_to_head(uri)
        rounds = -(-options.deposits // PROCESSES)
        count, twice = count_issued(uri, Path(name), PROCESSES, rounds, KILLS)
    print(f"{count} identifiers issued, {len(twice)} labels issued twice")


if __name__ == "__main__":
    main()
