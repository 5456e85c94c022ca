"""A process that mints until it is told to stop: each label is written down when it is handed out.

::

    python minting_process.py URI FILE HOST COUNT
"""

from __future__ import annotations

import os
import sys
from fractions import Fraction

from flask_ibi_archive.archive.minting import Minter, Subsystem
from flask_ibi_archive.storage.database import Database


def main(uri: str, path: str, host: str, count: str) -> None:
    """Mint till standard input ends, ``count`` labels at a time."""
    minter = Minter(Database.at(uri), Subsystem(host, "150.163.34.243"), Fraction(1, 10**6), 60)
    os.set_blocking(sys.stdin.fileno(), False)
    with open(path, "a", encoding="ascii", buffering=1) as file:  # noqa: PTH123
        while sys.stdin.buffer.read(1) is None:
            for one in minter.mint(int(count)):
                file.write(f"{one.rep}\t{one.ibip}\n")
    print("stopped")


if __name__ == "__main__":
    main(*sys.argv[1:])
