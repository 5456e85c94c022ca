"""The entries of the Archives that use a folder of stored files.

An entry is a small file in the folder. It contains the service IBI of an Archive and the place of
its database. Therefore the stored files of an Archive are not unneeded files of another database.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from flask_ibi_archive.errors import StorageError

ENTRY_NAME = re.compile("archive-[0-9a-f]{16}[.]txt")


class FolderEntry(NamedTuple):
    """An Archive that uses a folder.

    :param service_ibi: the IBI of the Archive service.
    :param database: where the database of the Archive is, without user and password.
    """

    service_ibi: str
    database: str

    @property
    def text(self) -> str:
        """The content of the file."""
        return f"Archive {self.service_ibi}, database {self.database}"

    @property
    def name(self) -> str:
        """The name of the file. Each entry has another name."""
        return f"archive-{hashlib.sha256(self.text.encode()).hexdigest()[:16]}.txt"


def check_entries(
    folder: Path, others: Iterable[Path], own: FolderEntry, known: Collection[FolderEntry]
) -> None:
    """Check the entries of a folder of stored files.

    :param others: the paths in the folder that are not stored files.
    :param own: the entry that the folder must contain.
    :param known: all entries that the folder may contain.
    :raises StorageError: if an entry is missing or unknown, or a path is not an entry.
    """
    if not (folder / own.name).exists():
        raise StorageError(
            f"the folder of files {folder} has no entry of the {own.text}; if IBI_DATABASE_URI and "
            "IBI_FILES_FOLDER are right, run flask ibi init for each Archive that uses the folder"
        )
    names = {entry.name for entry in known}
    for path in others:
        if path.parent != folder or not ENTRY_NAME.fullmatch(path.name):
            raise StorageError(f"{path} is not a stored file; move it out of the folder of files")
        if path.name not in names:
            user = path.read_text("utf-8", "replace").strip()
            raise StorageError(
                f"the folder of files {folder} is also used by the {user}; delete {path} if this "
                "is no longer true, or else give each database its own IBI_FILES_FOLDER"
            )
