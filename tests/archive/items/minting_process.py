"""A process that mints in rounds, and reports each identifier as soon as it is issued.

::

    python minting_process.py URI HOST COUNT
"""

from __future__ import annotations

import sys
from fractions import Fraction

from flask_ibi_archive.archive.items.minting import Minter, Subsystem
from flask_ibi_archive.server.database.database import Database


def main(uri: str, host: str, count: str) -> None:
    """Mint ``count`` identifiers at a time, five times in each round."""
    minter = Minter(Database.at(uri), Subsystem(host, "150.163.34.243"), Fraction(1, 10**6), 60)
    for _ in sys.stdin:
        for _ in range(5):
            for one in minter.mint(int(count)):
                print(one.rep, one.ibip, flush=True)
        print(".", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
