"""Files that are written completely or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.storage.file_store import sync_folder


@contextmanager
def new_file(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Return a new file that replaces another one, whose mode it keeps, when all is written.

    :param mode: the mode if there is no file yet.
    :raises StorageError: if it can't be written; nothing is left of it then.
    """
    try:
        if path.exists() and not path.is_file():
            raise StorageError(f"{path} can't be written: it is no ordinary file")
        if path.exists():
            mode = stat.S_IMODE(path.stat().st_mode)
        temporary = path.with_name(f".new-{secrets.token_hex(8)}")
        try:
            with open(
                temporary, "x+b", opener=lambda name, flags: os.open(name, flags, 0o600)
            ) as new:
                temporary.chmod(mode)
                yield new
                new.flush()
                os.fsync(new.fileno())
            temporary.replace(path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{path} can't be written: {error.strerror or error}") from error
