"""Apps and Archives for tests."""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from flask import Flask
from sqlalchemy import make_url

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.care.backup import BackupSummary, BackupWriter
from flask_ibi_archive.archive.care.restore import Restorer
from flask_ibi_archive.archive.care.verification import Verification, Verifier
from flask_ibi_archive.archive.items.file_io import ENTRY_NAME
from flask_ibi_archive.archive.items.importing.importer import (
    Importer,
    ImportResult,
    ImportSource,
    open_source,
)
from flask_ibi_archive.errors import IBIError
from support.databases import new_database
from support.loopback import HERE

SERVICE = "sid.inpe.br/mtc-m18@80/2008/03.17.15.17"
#: The service of another Archive.
FAR_SERVICE = "sid.inpe.br/mtc-m19@80/2009/08.21.17.02"


def make_app(uri: str, folder: Path, ibi: IBIArchive | None = None, **config: Any) -> Flask:
    """Return an app with an Archive that is not initialised yet.

    :param ibi: the extension; None: a new one.
    """
    app = Flask("test_app", instance_path=str(folder / "instance"))
    app.config.from_mapping(
        SECRET_KEY="a secret for tests",
        TESTING=True,
        IBI_DATABASE_URI=uri,
        IBI_FILES_FOLDER=str(folder / "files"),
        IBI_ARCHIVE_ADDRESS="mtc-m16c.sid.inpe.br",
        IBI_ARCHIVE_SERVICE_IBI=SERVICE,
        IBI_ARCHIVE_IP="150.163.34.243",
        IBI_INNER_HOSTS=HERE,
    )
    app.config.from_mapping(config)
    (ibi or IBIArchive()).init_app(app)
    return app


def archive_of(app: Flask) -> Archive:
    """Return the Archive of an app."""
    archive: Archive = app.extensions["ibi_archive"].archive
    return archive


def initialise(app: Flask, uri: str) -> None:
    """Initialise the Archive of an app of :func:`make_app` that has no other settings.

    An SQLite file with such an Archive is copied: to initialise it takes longer than most tests.
    """
    url = make_url(uri)
    if url.database is None or url.get_backend_name() != "sqlite":
        archive_of(app).init()
        return
    Path(url.database).write_bytes(initialised_file())
    archive_of(app).files_folder.create()


@lru_cache
def initialised_file() -> bytes:
    """Return the content of an SQLite file with an Archive."""
    with (
        tempfile.TemporaryDirectory() as folder,
        new_database("sqlite", Path(folder), ready=True) as uri,
    ):
        app = make_app(uri, Path(folder))
        archive_of(app).init()
        close(app)
        return Path(str(make_url(uri).database)).read_bytes()


def close(app: Flask) -> None:
    """Close the connections of an app's Archive."""
    archive = archive_of(app)
    archive.database.close()
    if archive.replica is not None:
        archive.replica.close()


def paths_in_store(archive: Archive) -> list[Path]:
    """Return all paths in the folder of files, except the entries of Archives."""
    found = archive.files_folder.folder.rglob("*")
    return sorted(path for path in found if not ENTRY_NAME.fullmatch(path.name))


def import_file(
    archive: Archive, path: Path, files_folder: Path | None = None, **options: Any
) -> ImportResult:
    """Import a file of records."""
    import io

    with open_source(str(path), io.BytesIO(), files_folder) as source:
        return Importer(archive.database, archive.served().id, archive.files_folder, **options).run(
            source
        )


def import_records(
    archive: Archive, records: list[dict[str, Any]], folder: Path = Path(), **options: Any
) -> ImportResult:
    """Import records that are JSON objects."""
    import io

    lines = "".join(json.dumps(record) + "\n" for record in records)
    source = ImportSource("records", io.BytesIO(lines.encode()), folder, Path("/"))
    return Importer(archive.database, archive.served().id, archive.files_folder, **options).run(
        source
    )


def back_up(archive: Archive, path: Path, **options: Any) -> BackupSummary:
    """Back up an Archive as the command does; the options are those of the writer."""
    with suppress(IBIError):
        archive.accesses.store.import_spool()
    return BackupWriter(archive.database, archive.files_folder, **options).write(path)


def restore(archive: Archive, path: Path, **options: Any) -> BackupSummary:
    """Restore a backup; the options are those of the restorer."""
    archive._served = None  # a server has to be restarted
    return Restorer(archive.database, archive.files_folder, **options).run(path)


def verify(archive: Archive, *identifiers: str, **options: Any) -> Verification:
    """Verify the stored files of some items of an Archive, or of all items."""
    words = {name: options.pop(name) for name in ("prune", "dry_run", "yes") if name in options}
    verifier = Verifier(archive.database, archive.served().id, archive.files_folder, **options)
    return verifier.run(identifiers, **words)
