"""The health check: whether this computer and the database are ready for requests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flask_ibi_archive.archive.items.archives import find_archives, find_served
from flask_ibi_archive.errors import NotReady
from flask_ibi_archive.server.database.database import check_writable_folder

if TYPE_CHECKING:
    from flask_ibi_archive.archive.archive import Archive


def check_ready(archive: Archive) -> None:
    """Check that the Archive exists, and that the database and the folders can be written.

    :raises NotReady: if a check fails. The message contains the reason and advice.
    :raises ConfigError: if the database contains several Archives and the settings do not name one
        of them.
    """
    archive.database.check()
    _check_served(archive)
    check_replica(archive)
    check_files(archive.config.files_folder)
    check_writable_folder("the spool", archive.config.spool_folder, "IBI_SPOOL_FOLDER")


def check_files(folder: Path) -> None:
    """Check that the folder of files exists and can be written.

    The command ``flask ibi init`` creates this folder.

    :raises NotReady: if the folder cannot be written or does not exist.
    """
    if not folder.is_dir():
        raise NotReady(
            "the folder of files is missing",
            "set IBI_FILES_FOLDER to the right folder, or create the folder: flask ibi init",
            str(folder.absolute()),
        )
    check_writable_folder("the folder of files", folder, "IBI_FILES_FOLDER")


def _check_served(archive: Archive) -> None:
    """Check that the database still contains the Archive that this process serves.

    :raises NotReady: if the database contains another Archive.
    """
    served = archive.served()
    wanted = archive.config.archive_service_ibi
    found = archive.database.read(lambda connection: find_served(connection, wanted))
    if found != served:
        raise NotReady(
            f"the database was replaced: it contains the Archive {found.service_ibi} now, but this "
            f"server serves {served.service_ibi}",
            "restart the server",
        )


def check_replica(archive: Archive) -> None:
    """Check that the replica, if there is one, has the tables and the Archive of the database.

    :raises NotReady: if the replica does not answer, or is a copy of another database.
    """
    replica = archive.replica
    if replica is None:
        return
    replica.check_revision()
    if archive.served() not in replica.read(find_archives):
        raise NotReady(
            "the replica does not contain the Archive of the database",
            "set IBI_READ_DATABASE_URI to a replica of the database of the Archive",
        )
