"""The file of an SQLite database: created with the tables, never by a connection."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from sqlalchemy import Engine, event

from flask_ibi_archive.errors import NotReady, StorageError


def guard_file(engine: Engine, file: Path, advice: str) -> None:
    """Refuse connections while the file is missing, because SQLite would create an empty one.

    :param advice: what creates it.
    :raises NotADirectoryError: if something else is where its folder should be.
    """
    if not next(folder for folder in file.absolute().parents if folder.exists()).is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(file.parent))

    def refuse_missing(*connecting: object) -> None:
        if not file.exists():
            raise NotReady("the database file is missing", advice, str(file))

    event.listen(engine, "do_connect", refuse_missing)


def create_file(file: Path, setting: str) -> None:
    """Create the file, empty, and its folder where they are missing.

    :param setting: the key that names it.
    :raises StorageError: if they can't be created.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(0o644)
    except OSError as error:
        raise StorageError(
            f"the database file {file} can't be created: {error.strerror}; see that {setting} names a file "
            "in a folder that is writable"
        ) from error
