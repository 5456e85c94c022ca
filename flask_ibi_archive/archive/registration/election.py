"""Which process of a server is the first.

A server has many processes, which begin at any time and are replaced. The first of them is found
with two lock files: under the *election* lock, which is held for a moment, each process tries to
have the *alive* lock for itself alone. Who gets it is the first, and shares it then; the others
share it. All keep their share as long as they live (a forked child has its parent's), so there is a
first one again only when none is left.
"""

from __future__ import annotations

import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: each process is the first there
    fcntl = None  # type: ignore[assignment]

#: The shares of the alive locks of this process, kept till it ends.
_shares: list[int] = []


def is_first(folder: Path, name: str) -> bool:
    """Tell whether this is the first process of a server that runs; take a share in being alive.

    :param folder: where the lock files are; it is made where it is missing.
    :param name: what they begin with: that of the Archive.
    :raises OSError: if they can't be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        return True
    election = os.open(folder / f"{name}.election", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        alive = os.open(folder / f"{name}.alive", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(election, fcntl.LOCK_EX)
            try:
                fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                first = False
            else:
                first = True
            fcntl.flock(alive, fcntl.LOCK_SH)
        except OSError:
            os.close(alive)
            raise
        _shares.append(alive)
        return first
    finally:
        os.close(election)  # unlocks it
