"""The app of a host: Flask-SQLAlchemy, Flask-Migrate, Flask-Login, and a model with identifiers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flask import Flask
from flask_login import LoginManager, UserMixin
from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Connection, ForeignKey, event, text
from sqlalchemy.orm import Mapped, Session, mapped_column, relationship, scoped_session

from flask_ibi_archive import IBIArchive, IdentifiedItem, ItemRecord, Tombstone
from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.operations import Clock, read_utc_clock
from flask_ibi_archive.resolver import IBIResolver
from support.archives import SERVICE, archive_of

db = SQLAlchemy()


class Thesis(IdentifiedItem, db.Model):  # type: ignore[name-defined, misc]
    __tablename__ = "host_thesis"

    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    language: Mapped[str | None]
    state: Mapped[str | None] = mapped_column(default="Original")
    pdf: Mapped[str | None]
    views: Mapped[int] = mapped_column(default=0)
    changes: Mapped[int] = mapped_column(default=0, onupdate=1)
    previous_id: Mapped[int | None] = mapped_column(ForeignKey("host_thesis.id"))
    translated_id: Mapped[int | None] = mapped_column(ForeignKey("host_thesis.id"))
    previous: Mapped[Thesis | None] = relationship(foreign_keys=[previous_id], remote_side=[id])
    translated: Mapped[Thesis | None] = relationship(foreign_keys=[translated_id], remote_side=[id])

    def ibi_record(self) -> ItemRecord | None:
        if self.state == "Draft":
            return None
        record = ItemRecord(
            title=self.title,
            language=self.language,
            previous_edition=self.previous,
            translation_of=self.translated,
            state=self.state,  # type: ignore[typeddict-item]
            files=[] if self.pdf is None else [Path(self.pdf)],
        )
        if self.state == "Deleted":
            record["tombstone"] = Tombstone("withdrawn by the author")
        return record


class User(UserMixin):  # type: ignore[misc]
    """A user of the host."""

    def __init__(self, name: str) -> None:
        self.id = name


class HostApp:
    """An app without models; each test adds those that it needs.

    :param uri: the database of the host's models, and of our tables.
    :param db: the models. None: the app has an object of its own.
    :param has_archive: whether the app embeds an Archive.
    :param has_resolver: whether the app also has a resolver.
    :param before: whether the host initialises Flask-Migrate before the Archive.
    :param options: the filters that the host passes to Flask-Migrate.
    :param ibi: the extension. None: the app has an object of its own.
    :param session: the session of that object. None: the session of ``db``.
    :param clock: the clock of that object.
    :param config: further settings.
    """

    def __init__(
        self,
        uri: str,
        folder: Path,
        *,
        db: SQLAlchemy | None = None,
        has_archive: bool = True,
        has_resolver: bool = False,
        before: bool = True,
        options: dict[str, Any] | None = None,
        ibi: IBIArchive | None = None,
        session: Any = None,
        clock: Clock = read_utc_clock,
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
        self.db = db or SQLAlchemy()
        self.db.init_app(self.app)
        self.login = LoginManager(self.app)
        self.login.user_loader(User)
        self.session: scoped_session[Session] = self.db.session  # type: ignore[assignment]
        self.ibi = ibi or IBIArchive(session=session or self.session, clock=clock)
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
        self.archive: Archive = archive_of(self.app) if has_archive else None  # type: ignore[assignment]

    def close(self) -> None:
        """Close all connections."""
        with self.app.app_context():
            self.session.remove()
            for engine in self.db.engines.values():
                engine.dispose()
        if "ibi_archive" in self.app.extensions:
            self.archive.database.close()
        if "ibi_resolver" in self.app.extensions:
            self.app.extensions["ibi_resolver"].resolver.close()


class Host(HostApp):
    """An app with the model Thesis. Its app context is open until :meth:`close`.

    :param savepoints: whether SQLAlchemy begins the transactions on SQLite, as its documentation
        advises for savepoints; otherwise the driver does.
    """

    def __init__(self, uri: str, folder: Path, savepoints: bool = True, **config: object) -> None:
        super().__init__(uri, folder, db=db, **config)
        self.Thesis = Thesis
        self.context = self.app.app_context()
        self.context.push()
        self.engine = db.engine
        if savepoints and self.engine.dialect.name == "sqlite":
            event.listen(self.engine, "connect", _leave_transactions_to_sqlalchemy)
            event.listen(self.engine, "begin", _begin)
        db.metadata.create_all(self.engine, [Thesis.__table__])
        self.archive.init()

    def add(self, title: str = "On rain", **values: Any) -> Any:
        """Add a row and commit."""
        row = self.Thesis(title=title, **values)
        self.session.add(row)
        self.session.commit()
        return row

    def write(self, name: str, content: str) -> str:
        """Write an upload and return its path."""
        path = self.folder / name
        path.write_text(content)
        return str(path)

    def stored(self) -> list[str]:
        """Return the contents of the files in the store."""
        files = self.archive.files_folder
        return sorted(files.path(file.sha256).read_text() for file in files.walk())

    def close(self) -> None:
        """Close all connections, and drop the table of the model in a shared database."""
        self.session.remove()
        self.context.pop()
        if self.engine.dialect.name == "postgresql":  # slow on SQLite, which checks each row
            with self.engine.begin() as connection:
                connection.execute(text("DROP TABLE host_thesis"))
        super().close()


def _leave_transactions_to_sqlalchemy(connection: Any, record: object) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode = DELETE")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")
