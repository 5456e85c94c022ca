"""Hosts with models of their own: Flask-SQLAlchemy, plain SQLAlchemy, and dataclass models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import Engine, ForeignKey, text
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    MappedAsDataclass,
    Session,
    mapped_column,
    relationship,
    scoped_session,
    sessionmaker,
)

from flask_ibi_archive import IBIArchive, IdentifiedItem, ItemRecord, Tombstone
from flask_ibi_archive.archive.archive import Archive
from support.archives import SERVICE
from support.databases import make_host_engine


def describe(row: Any) -> ItemRecord | None:
    """Return the description of a row of any of the models below."""
    if row.state == "Draft":
        return None
    record = ItemRecord(
        title=row.title,
        language=row.language,
        previous_edition=row.previous,
        translation_of=row.translated,
        state=row.state,
        files=[] if row.pdf is None else [Path(row.pdf)],
    )
    if row.state == "Deleted":
        record["tombstone"] = Tombstone("withdrawn by the author")
    return record


class Base(DeclarativeBase):
    """The base class of the plain models."""


class DataclassBase(MappedAsDataclass, DeclarativeBase):
    """The base class of the dataclass models."""


db = SQLAlchemy()


class Thesis(IdentifiedItem, Base):
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
        return describe(self)


class FlaskThesis(IdentifiedItem, db.Model):  # type: ignore[name-defined, misc]
    __tablename__ = "host_thesis"

    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    language: Mapped[str | None]
    state: Mapped[str | None] = mapped_column(default="Original")
    pdf: Mapped[str | None]
    views: Mapped[int] = mapped_column(default=0)
    previous_id: Mapped[int | None] = mapped_column(ForeignKey("host_thesis.id"))
    translated_id: Mapped[int | None] = mapped_column(ForeignKey("host_thesis.id"))
    previous: Mapped[FlaskThesis | None] = relationship(
        foreign_keys=[previous_id], remote_side=[id]
    )
    translated: Mapped[FlaskThesis | None] = relationship(
        foreign_keys=[translated_id], remote_side=[id]
    )

    def ibi_record(self) -> ItemRecord | None:
        return describe(self)


class DataclassThesis(IdentifiedItem, DataclassBase):
    __tablename__ = "host_thesis"

    id: Mapped[int] = mapped_column(primary_key=True, init=False)
    title: Mapped[str]
    language: Mapped[str | None] = mapped_column(default=None)
    state: Mapped[str | None] = mapped_column(default="Original")
    pdf: Mapped[str | None] = mapped_column(default=None)
    views: Mapped[int] = mapped_column(default=0)
    previous_id: Mapped[int | None] = mapped_column(
        ForeignKey("host_thesis.id"), default=None, init=False
    )
    translated_id: Mapped[int | None] = mapped_column(
        ForeignKey("host_thesis.id"), default=None, init=False
    )
    previous: Mapped[DataclassThesis | None] = relationship(
        foreign_keys=[previous_id], remote_side=[id], default=None, repr=False
    )
    translated: Mapped[DataclassThesis | None] = relationship(
        foreign_keys=[translated_id], remote_side=[id], default=None, repr=False
    )

    def ibi_record(self) -> ItemRecord | None:
        return describe(self)


MODELS: dict[str, Any] = {
    "plain": Thesis,
    "flask-sqlalchemy": FlaskThesis,
    "dataclass": DataclassThesis,
}


class Host:
    """An app with a model of its own, in the database of the Archive.

    The app context of the host is open until :meth:`close`.

    :param engine: the engine of the host, if it is a special one.
    """

    def __init__(
        self,
        uri: str,
        folder: Path,
        kind: str = "plain",
        engine: Engine | None = None,
        **config: object,
    ) -> None:
        self.Thesis = MODELS[kind]
        self.folder = folder
        self.engine = engine or make_host_engine(uri)
        self.Thesis.metadata.create_all(self.engine)
        self.app = Flask("host", instance_path=str(folder / "instance"))
        self.app.config.update(
            SECRET_KEY="a secret for tests",
            SQLALCHEMY_DATABASE_URI=uri,
            IBI_FILES_FOLDER=str(folder / "files"),
            IBI_ARCHIVE_ADDRESS="mtc-m16c.sid.inpe.br",
            IBI_ARCHIVE_SERVICE_IBI=SERVICE,
            IBI_ARCHIVE_IP="150.163.34.243",
            **config,
        )
        self.session: scoped_session[Session]
        if kind == "flask-sqlalchemy":
            db.init_app(self.app)
            self.session = db.session  # type: ignore[assignment]
        else:
            self.session = scoped_session(sessionmaker(self.engine))
        self.ibi = IBIArchive(session=self.session)
        self.ibi.init_app(self.app)
        self.context = self.app.app_context()
        self.context.push()
        self.archive: Archive = self.ibi.archive
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
        return sorted(
            self.archive.files_folder.path(file.sha256).read_text()
            for file in self.archive.files_folder.walk()
        )

    def close(self) -> None:
        """Close all connections, and drop the table of the model in a shared database."""
        self.session.remove()
        if self.Thesis is FlaskThesis:
            db.engine.dispose()
        self.context.pop()
        self.archive.database.close()
        if self.engine.dialect.name == "postgresql":  # slow on SQLite, which checks each row
            with self.engine.begin() as connection:
                connection.execute(text("DROP TABLE host_thesis"))
        self.engine.dispose()
