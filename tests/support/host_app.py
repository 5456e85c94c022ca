"""The app of a host with usual extensions: Flask-SQLAlchemy, Flask-Migrate and Flask-Login."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flask import Flask
from flask_login import LoginManager, UserMixin
from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy

from flask_ibi_archive import IBIArchive
from flask_ibi_archive.resolver import IBIResolver
from support.archives import SERVICE, archive_of


class User(UserMixin):  # type: ignore[misc]
    """A user of the host."""

    def __init__(self, name: str) -> None:
        self.id = name


class HostApp:
    """An app without models; each test adds those that it needs.

    :param uri: the database of the host's models, and of our tables.
    :param has_archive: whether the app embeds an Archive.
    :param has_resolver: whether the app also has a resolver.
    :param before: whether the host initialises Flask-Migrate before the Archive.
    :param options: the filters that the host passes to Flask-Migrate.
    :param config: further settings.
    """

    def __init__(
        self,
        uri: str,
        folder: Path,
        *,
        has_archive: bool = True,
        has_resolver: bool = False,
        before: bool = True,
        options: dict[str, Any] | None = None,
        **config: Any,
    ) -> None:
        self.folder = folder
        self.migrations = folder / "migrations"
        self.app = Flask("host", instance_path=str(folder / "instance"))
        self.app.config.from_mapping(
            SECRET_KEY="a secret for tests",
            SQLALCHEMY_DATABASE_URI=uri,
            IBI_FILES_FOLDER=str(folder / "files"),
            IBI_ARCHIVE_ADDRESS="mtc-m16c.sid.inpe.br",
            IBI_ARCHIVE_SERVICE_IBI=SERVICE,
            IBI_ARCHIVE_IP="150.163.34.243",
        )
        self.app.config.from_mapping(config)
        self.db = SQLAlchemy(self.app)
        self.login = LoginManager(self.app)
        self.login.user_loader(User)
        self.ibi = IBIArchive(session=self.db.session)
        migrate = Migrate(db=self.db, directory=str(self.migrations), **(options or {}))
        if before:
            migrate.init_app(self.app)
        if has_archive:
            self.ibi.init_app(self.app)
        if has_resolver:
            self.app.config["IBI_RESOLVER_DATABASE_URI"] = uri
            IBIResolver(self.app)
        if not before:
            migrate.init_app(self.app)
        self.archive: Any = archive_of(self.app) if has_archive else None

    def close(self) -> None:
        """Close all connections."""
        with self.app.app_context():
            self.db.session.remove()
            for engine in self.db.engines.values():
                engine.dispose()
        if self.archive is not None:
            self.archive.database.close()
        if "ibi_resolver" in self.app.extensions:
            self.app.extensions["ibi_resolver"].resolver.close()
