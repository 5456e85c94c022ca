"""Whether a folder can be written, and its disk has room."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from flask_ibi_archive.errors import NotReady

#: Bytes that are written for a test: what a small write needs.
ROOM = 65536


def check_room(name: str, folder: Path, setting: str) -> None:
    """Check that a small file can be written in a folder; it is gone afterwards.

    :param folder: the nearest folder above it is checked where it is made when it is needed.
    :param name: what is kept in it.
    :param setting: the key that names it.
    :raises NotReady: if not.
    """
    place = folder.absolute()
    while not os.path.lexists(place):
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(bytes(ROOM))
            file.flush()
    except OSError as error:
        detail = f"{place}: {error.strerror or error}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NotReady(f"the disk of {name} is full", "make room", detail) from error
        advice = f"see that {setting} names a folder that this process may write"
        raise NotReady(f"{name} can't be written", advice, detail) from error
