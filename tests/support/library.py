"""A repository with its own tables of documents, authors and files: a library on Flask-SQLAlchemy.

It was built long before it had persistent identifiers. Only the two columns ``rep`` and ``ibip``,
and the class :class:`LibraryCatalogue`, were added for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timezone
from pathlib import Path
from shutil import copyfile
from typing import Any

from flask import Flask, current_app
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import ForeignKey, or_, select
from sqlalchemy.orm import Mapped, mapped_column, relationship

from flask_ibi_archive import (
    AccessRule,
    CatalogueRecord,
    FileRecord,
    IBIArchive,
    RecordCatalogue,
    Tombstone,
)

db = SQLAlchemy()


class Author(db.Model):  # type: ignore[name-defined, misc]
    __tablename__ = "author"

    id: Mapped[int] = mapped_column(primary_key=True)
    document_id: Mapped[int] = mapped_column(ForeignKey("document.id"))
    name: Mapped[str]


class Attachment(db.Model):  # type: ignore[name-defined, misc]
    __tablename__ = "attachment"

    id: Mapped[int] = mapped_column(primary_key=True)
    document_id: Mapped[int] = mapped_column(ForeignKey("document.id"))
    name: Mapped[str]
    #: The name of the file in the folder of the library, or a URL.
    place: Mapped[str]


class Document(db.Model):  # type: ignore[name-defined, misc]
    __tablename__ = "document"

    id: Mapped[int] = mapped_column(primary_key=True)
    rep: Mapped[str] = mapped_column(unique=True)
    ibip: Mapped[str] = mapped_column(unique=True)
    title: Mapped[str]
    language: Mapped[str | None]
    changed_at: Mapped[datetime]
    closed_until: Mapped[date | None]
    campus_only: Mapped[bool] = mapped_column(default=False)
    removal_reason: Mapped[str | None]
    #: The earlier edition.
    replaces_id: Mapped[int | None] = mapped_column(ForeignKey("document.id"))
    #: The document of which this document and others are translations.
    work_id: Mapped[int | None]
    authors: Mapped[list[Author]] = relationship(order_by=Author.id)
    attachments: Mapped[list[Attachment]] = relationship(order_by=Attachment.id)


class LibraryCatalogue(RecordCatalogue):
    """Describes the documents of the library."""

    def record(self, ibi: str) -> CatalogueRecord | None:
        found = db.session.scalar(
            select(Document).where(or_(Document.rep == ibi, Document.ibip == ibi))
        )
        return None if found is None else describe(found)

    def records(self) -> Iterator[CatalogueRecord]:
        return map(describe, db.session.scalars(select(Document).order_by(Document.id)))


def describe(document: Document) -> CatalogueRecord:
    """Return the description of a document for the Archive."""
    record = CatalogueRecord(
        rep=document.rep,
        ibip=document.ibip,
        timestamp=document.changed_at.replace(tzinfo=timezone.utc),
        title=document.title,
        creators=[author.name for author in document.authors],
        language=document.language,
    )
    if document.removal_reason is not None:
        return {**record, "state": "Deleted", "tombstone": Tombstone(document.removal_reason)}
    record["files"] = [find_file(one) for one in document.attachments]
    following = db.session.scalar(select(Document.ibip).where(Document.replaces_id == document.id))
    record["next_edition"] = following
    if document.work_id is not None:
        versions = select(Document).where(Document.work_id == document.work_id)
        record["translations"] = {
            str(one.language): one.ibip for one in db.session.scalars(versions) if one != document
        }
    if document.closed_until is not None:
        record["embargo"] = document.closed_until.isoformat()
    if document.campus_only:
        record["access"] = AccessRule(("150.163.0.0/16",))
    return record


def find_file(attachment: Attachment) -> FileRecord:
    """Return where the content of an attachment is."""
    if attachment.place.startswith("https:"):
        return FileRecord(attachment.name, url=attachment.place)
    return FileRecord(attachment.name, source=str(folder() / attachment.place))


def folder() -> Path:
    """Return the folder of the files of the library."""
    return Path(current_app.config["LIBRARY_FOLDER"])


def add_document(
    ibi: IBIArchive,
    title: str,
    authors: Iterable[str] = (),
    files: Sequence[Path] = (),
    links: Sequence[tuple[str, str]] = (),
    replaces: str | None = None,
    translates: str | None = None,
    **columns: Any,
) -> Document:
    """Add a document, as the form of the library does."""
    minted = ibi.archive.mint()[0]
    document = Document(rep=minted.rep, ibip=minted.ibip, title=title, changed_at=now(), **columns)
    document.authors = [Author(name=name) for name in authors]
    folder().mkdir(exist_ok=True)
    for path in files:
        place = f"{minted.ibip.replace('/', '-')}-{path.name}"
        copyfile(path, folder() / place)
        document.attachments.append(Attachment(name=path.name, place=place))
    document.attachments += [Attachment(name=name, place=url) for name, url in links]
    db.session.add(document)
    if replaces is not None:
        document.replaces_id = find_document(replaces).id
    if translates is not None:
        original = find_document(translates)
        original.work_id = document.work_id = original.work_id or original.id
    db.session.commit()
    return document


def remove_document(ibi: str, reason: str) -> None:
    """Remove a document, but keep its row."""
    document = find_document(ibi)
    document.removal_reason, document.changed_at = reason, now()
    db.session.commit()


def find_document(ibi: str) -> Document:
    """Return the document with an identifier."""
    return db.session.scalars(
        select(Document).where(or_(Document.rep == ibi, Document.ibip == ibi))
    ).one()


def now() -> datetime:
    """Return the current time in UTC, without a time zone, as the column stores it."""
    return datetime.now(timezone.utc).replace(tzinfo=None)


def create_library(
    settings: dict[str, Any], root: Path, **options: Any
) -> tuple[Flask, IBIArchive]:
    """Return the app of the library and its Archive."""
    app = Flask("library", instance_path=str(root / "instance"))
    app.config.from_mapping(
        settings,
        SQLALCHEMY_DATABASE_URI=settings["IBI_DATABASE_URI"],
        LIBRARY_FOLDER=str(root / "library"),
    )
    db.init_app(app)
    return app, IBIArchive(app, catalogue=LibraryCatalogue(), **options)
