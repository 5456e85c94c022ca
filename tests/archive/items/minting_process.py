"""A process that mints until it is killed, and reports each identifier as soon as it is issued.

::

    python minting_process.py URI HOST COUNT
"""

from __future__ import annotations

import sys
from fractions import Fraction

from flask_ibi_archive.archive.items.minting import Minter
from flask_ibi_archive.core.identifiers.grammar import build_repository_prefix
from flask_ibi_archive.server.database.database import Database


def main(uri: str, host: str, count: str) -> None:
    """Mint ``count`` identifiers at a time."""
    prefixes = build_repository_prefix(host, 80), "8JMKD3MGP8W"
    minter = Minter(Database(uri), prefixes, Fraction(1, 10**6), 60)
    while True:
        for one in minter.mint(int(count)):
            print(one.rep, one.ibip, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
