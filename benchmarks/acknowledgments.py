"""Count every acknowledgment once although servers are killed.

32 threads send 5,000 acknowledgments to three processes, which are killed and restarted during the
run. Every acknowledgment that gets an answer must be counted once. Run it with
``python -m benchmarks.acknowledgments [--postgresql URL] [--count N] [--kills N]``. With
``--kills 0``, the rate does not include the time to start processes.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from support.resolvers import run


def main() -> None:
    """Run the benchmark on SQLite, or on the database of ``--postgresql``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgresql", metavar="URL", help="an empty database")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--threads", type=int, default=32)
    parser.add_argument("--kills", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        uri = given.postgresql or f"sqlite:///{Path(name) / 'ibi.sqlite'}"
        print(run(uri, Path(name), given.count, given.threads, given.kills))


if __name__ == "__main__":
    main()
