"""Write files completely or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from flask_ibi_archive.errors import StorageError


def sync_folder(folder: Path) -> None:
    """Call fsync on a folder, if the system can, so that new files in it survive a crash."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # on Windows, or if the process may not read the folder
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(handle)


@contextmanager
def new_file(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Yield a temporary file, which is renamed to ``path`` when the ``with`` block ends.

    If there is a file at ``path``, the new file replaces it and gets its permissions. The data is
    on the disk before the file is renamed.

    :param mode: the permissions if there is no old file. The umask can remove permissions.
    :raises StorageError: if the file cannot be written. In this case the old file is unchanged.
    """
    temporary = path.with_name(f".new-{secrets.token_hex(8)}")
    try:
        replaces = path.exists()
        if replaces and not path.is_file():
            raise StorageError(f"{path} can't be written: a folder or a special file has this name")
        permissions = stat.S_IMODE(path.stat().st_mode) if replaces else mode
        try:
            with open(
                temporary, "x+b", opener=lambda name, flags: os.open(name, flags, permissions)
            ) as new:
                if replaces:
                    temporary.chmod(permissions)
                yield new
                new.flush()
                os.fsync(new.fileno())
            temporary.replace(path)
            sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{path} can't be written: {error.strerror or error}") from error
