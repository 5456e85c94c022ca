"""Applications of hosts that embed the extension: their routes, templates and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flask import Flask

from flask_ibi_archive import IBIArchive
from support.archives import SERVICE

#: What a host does with its app before or after it adds the extension.
Step = Callable[[Flask], object]


def make_host(
    uri: str,
    folder: Path,
    *,
    before: Step | None = None,
    after: Step | None = None,
    templates: Mapping[str, str] | None = None,
    place: Path = Path(),
    ibi: IBIArchive | None = None,
    **config: Any,
) -> Flask:
    """Return the app of a host with the Archive in a database.

    :param folder: the folder of the Archive. Its subfolder ``files`` contains the stored files.
    :param before: what the host does before it adds the extension, such as to register routes.
    :param after: what the host does after it has added the extension.
    :param templates: the names and texts of the templates of the host.
    :param place: a folder for the templates.
    """
    app = Flask("host", instance_path=str(folder / "instance"), static_folder=None)
    if templates is not None:
        for name, text in templates.items():
            path = place / "templates" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        app.template_folder = str(place / "templates")
    app.config.from_mapping(
        SECRET_KEY="a secret for tests",
        TESTING=True,
        PROPAGATE_EXCEPTIONS=True,
        IBI_DATABASE_URI=uri,
        IBI_FILES_FOLDER=str(folder / "files"),
        IBI_ARCHIVE_ADDRESS="mtc-m16c.sid.inpe.br",
        IBI_ARCHIVE_SERVICE_IBI=SERVICE,
        IBI_ARCHIVE_IP="150.163.34.243",
    )
    app.config.from_mapping(config)
    if before is not None:
        before(app)
    (ibi or IBIArchive()).init_app(app)
    if after is not None:
        after(app)
    return app
