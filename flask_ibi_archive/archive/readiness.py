"""Readiness: whether the database, the Archive in it and the folders can be used."""

from __future__ import annotations

from pathlib import Path

from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.archive.archives import find_served
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.storage.database import check_writable_folder


def check_ready(archive: ArchiveService) -> None:
    """Check that the database, the Archive in it and the folders exist and can be written.

    :raises NotReady: if not; it says why and what to do.
    :raises ConfigError: if there are several Archives and the settings name none.
    """
    archive.database.check()
    _check_served(archive)
    check_files(archive.config.files_folder)
    check_writable_folder("the spool", archive.config.spool_folder, "IBI_SPOOL_FOLDER")


def check_files(folder: Path) -> None:
    """Check that the folder of files, which init creates, exists and can be written.

    :raises NotReady: if not.
    """
    if not folder.is_dir():
        raise NotReady(
            "the folder of files is missing",
            "see that IBI_FILES_FOLDER names it, or create it: flask ibi init",
            str(folder.absolute()),
        )
    check_writable_folder("the folder of files", folder, "IBI_FILES_FOLDER")


def _check_served(archive: ArchiveService) -> None:
    """Check that the Archive being served, which is cached, is still the one in the database."""
    served = archive.served()
    wanted = archive.config.archive_service_ibi
    found = archive.database.read(lambda connection: find_served(connection, wanted))
    if found != served:
        raise NotReady(
            f"the database was replaced: it holds the Archive {found.service_ibi} now, while "
            f"{served.service_ibi} is being served",
            "restart the server",
        )
