"""Apps and Archives for tests."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from flask import Flask
from sqlalchemy import make_url, select

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items import read
from flask_ibi_archive.archive.items.import_export import (
    Counts,
    Importer,
    ImportSource,
    open_source,
)
from flask_ibi_archive.archive.items.tables import metadata
from flask_ibi_archive.core.records.record import format_record
from support.databases import new_database
from support.loopback import HERE

SERVICE = "sid.inpe.br/mtc-m18@80/2008/03.17.15.17"
#: The service of another Archive.
FAR_SERVICE = "sid.inpe.br/mtc-m19@80/2009/08.21.17.02"
#: What a host does with its app before or after it adds the extension.
Step = Callable[[Flask], object]


def configure(app: Flask, uri: str, folder: Path, **config: Any) -> None:
    """Set the settings of an app with an Archive in a database."""
    app.config.from_mapping(
        SECRET_KEY="a secret for tests",
        TESTING=True,
        IBI_DATABASE_URI=uri,
        IBI_FILES_FOLDER=str(folder / "files"),
        IBI_ARCHIVE_ADDRESS="mtc-m16c.sid.inpe.br",
        IBI_ARCHIVE_SERVICE_IBI=SERVICE,
        IBI_ARCHIVE_IP="150.163.34.243",
        IBI_PERSISTENT_URL_BASE="http://urlib.net",
    )
    app.config.from_mapping(config)


def make_app(
    uri: str,
    folder: Path,
    ibi: IBIArchive | None = None,
    *,
    before: Step = lambda app: None,
    after: Step = lambda app: None,
    templates: Mapping[str, str] | None = None,
    place: Path = Path(),
    **config: Any,
) -> Flask:
    """Return an app with an Archive that is not initialised yet.

    :param folder: the folder of the Archive. Its subfolder ``files`` contains the stored files.
    :param ibi: the extension; None: a new one.
    :param before: what the host does before it adds the extension, such as to register routes.
    :param after: what the host does after it has added the extension.
    :param templates: the names and texts of the templates of the host.
    :param place: a folder for the templates.
    """
    app = Flask("test_app", instance_path=str(folder / "instance"))
    if templates is not None:
        for name, text in templates.items():
            path = place / "templates" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        app.template_folder = str(place / "templates")
    configure(app, uri, folder, **{"IBI_INNER_HOSTS": HERE, **config})
    before(app)
    (ibi or IBIArchive()).init_app(app)
    after(app)
    return app


def archive_of(app: Flask) -> Archive:
    """Return the Archive of an app."""
    archive: Archive = app.extensions["ibi_archive"].archive
    return archive


@contextmanager
def open_app(backend: str, folder: Path, **config: Any) -> Iterator[Flask]:
    """Yield an app with an initialised Archive in a new database."""
    folder.mkdir(exist_ok=True)
    with new_database(backend, folder, ready=True) as uri:
        app = make_app(uri, folder, **config)
        archive_of(app).init()
        yield app
        close(app)


def initialise(app: Flask, uri: str) -> None:
    """Initialise the Archive of an app of :func:`make_app` that has no other settings."""
    url = make_url(uri)
    if url.get_backend_name() == "sqlite" and url.database is not None:
        # to copy a file is faster
        Path(url.database).write_bytes(initialised_file())
        archive_of(app).files_folder.create()
    else:
        archive_of(app).init()


@lru_cache
def initialised_file() -> bytes:
    """Return the content of an SQLite file with an Archive."""
    with tempfile.TemporaryDirectory() as folder, open_app("sqlite", Path(folder)) as app:
        archive_of(app).database.close()
        return Path(str(archive_of(app).database.engine.url.database)).read_bytes()


def close(app: Flask) -> None:
    """Close the connections of an app's Archive."""
    archive = archive_of(app)
    archive.database.close()
    if archive.replica is not None:
        archive.replica.close()


def paths_in_store(archive: Archive) -> list[Path]:
    """Return all paths in the folder of files."""
    return sorted(archive.files_folder.folder.rglob("*"))


def import_file(
    archive: Archive, path: Path, files_folder: Path | None = None, **options: Any
) -> Counts:
    """Import a file of records."""
    import io

    with open_source(str(path), io.BytesIO, files_folder) as source:
        return Importer(archive.own_context, **options).run(source)


def import_records(
    archive: Archive, records: list[dict[str, Any]], folder: Path = Path(), **options: Any
) -> Counts:
    """Import records that are JSON objects."""
    import io

    lines = "".join(json.dumps(record) + "\n" for record in records)
    source = ImportSource("records", io.BytesIO(lines.encode()), folder, Path("/"))
    return Importer(archive.own_context, **options).run(source)


def export(archive: Archive) -> list[dict[str, Any]]:
    """Return the records of the items of an Archive as JSON objects."""
    found = read.export_records(archive.database, archive.served().id, archive.files_folder)
    return [format_record(record) for record in found]


def everything_in(archive: Archive) -> dict[str, Any]:
    """Return all rows of our tables, and the paths of all stored files."""
    with archive.database.reading() as connection:
        rows: dict[str, Any] = {
            name: sorted(map(repr, connection.execute(select(table))))
            for name, table in metadata.tables.items()
        }
    return {**rows, "files": list(map(str, paths_in_store(archive)))}
