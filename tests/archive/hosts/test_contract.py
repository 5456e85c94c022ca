"""The contract of a correct Archive, for each kind of host."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from flask import Flask, abort, request
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import JSON, or_, select
from sqlalchemy.orm import Mapped, mapped_column

from flask_ibi_archive import (
    CatalogueRecord,
    FileRecord,
    IBIArchive,
    IdentifiedItem,
    ItemRecord,
    RecordCatalogue,
    Tombstone,
)
from flask_ibi_archive.testing import CatalogueContract


class TestPlainFlask(CatalogueContract):
    """A host without a database of its own, which deposits its items."""

    def create_app(self, settings: dict[str, Any]) -> Flask:
        app = Flask("plain", instance_path=str(self.folder / "instance"))
        app.config.from_mapping(settings)
        IBIArchive(app, clock=self.clock)
        return app


db = SQLAlchemy()


class Thesis(IdentifiedItem, db.Model):  # type: ignore[name-defined, misc]
    __tablename__ = "thesis"

    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    #: The other fields of the description.
    details: Mapped[dict[str, Any]] = mapped_column(JSON)

    def ibi_record(self) -> ItemRecord:
        record = ItemRecord(title=self.title)
        record.update(self.details)  # type: ignore[typeddict-item]
        return record


class TestModels(CatalogueContract):
    """A host whose items are the rows of a model with IdentifiedItem."""

    def create_app(self, settings: dict[str, Any]) -> Flask:
        app = Flask("models", instance_path=str(self.folder / "instance"))
        uri = settings.pop("IBI_DATABASE_URI")
        app.config.from_mapping(settings, SQLALCHEMY_DATABASE_URI=uri)
        db.init_app(app)
        self.ibi = IBIArchive(app, session=db.session, clock=self.clock)
        return app

    def prepare_app(self, app: Flask) -> None:
        db.create_all()

    def close_app(self, app: Flask) -> None:
        db.session.remove()
        db.drop_all()
        db.engine.dispose()

    def add_item(self, record: ItemRecord) -> Thesis:
        details = {**record, "files": [str(path) for path in record.get("files", ())]}
        row = Thesis(title=details.pop("title"), details=details)
        db.session.add(row)
        db.session.commit()
        return row

    def remove_item(self, ibi: str, reason: str) -> None:
        row = db.session.scalars(select(Thesis).where(Thesis.ibi_ibip == ibi)).one()
        self.ibi.removing(row, reason=reason)
        db.session.delete(row)
        db.session.commit()


tables = SQLAlchemy()


class Document(tables.Model):  # type: ignore[name-defined, misc]
    """A row of a host that keeps all data about its items in its own table."""

    __tablename__ = "document"

    id: Mapped[int] = mapped_column(primary_key=True)
    rep: Mapped[str] = mapped_column(unique=True)
    ibip: Mapped[str] = mapped_column(unique=True)
    changed_at: Mapped[datetime]
    details: Mapped[dict[str, Any]] = mapped_column(JSON)
    removal_reason: Mapped[str | None]
    #: The identifier of the earlier edition, and that of the first of several translations.
    replaces: Mapped[str | None]
    work: Mapped[str | None]


class Documents(RecordCatalogue):
    """Describes the rows."""

    def record(self, ibi: str) -> CatalogueRecord | None:
        is_named = or_(Document.rep == ibi, Document.ibip == ibi)
        row = tables.session.scalar(select(Document).where(is_named))
        if row is None:
            return None
        record = CatalogueRecord(
            rep=row.rep, ibip=row.ibip, timestamp=row.changed_at.replace(tzinfo=timezone.utc)
        )
        record.update(row.details)  # type: ignore[typeddict-item]
        if row.removal_reason is not None:
            del record["files"]
            return {**record, "state": "Deleted", "tombstone": Tombstone(row.removal_reason)}
        following = select(Document.ibip).where(Document.replaces == row.ibip)
        record["next_edition"] = tables.session.scalar(following)
        others = select(Document).where(Document.work == row.work, Document.id != row.id)
        record["translations"] = {
            other.details["language"]: other.ibip for other in tables.session.scalars(others)
        }
        return record

    def records(self) -> Iterator[CatalogueRecord]:
        for ibip in tables.session.scalars(select(Document.ibip).order_by(Document.id)):
            record = self.record(ibip)
            assert record is not None
            yield record


class TestOwnTables(CatalogueContract):
    """A host whose items are in its own tables."""

    def create_app(self, settings: dict[str, Any]) -> Flask:
        app = Flask("tables", instance_path=str(self.folder / "instance"))
        app.config.from_mapping(settings, SQLALCHEMY_DATABASE_URI=settings["IBI_DATABASE_URI"])
        tables.init_app(app)
        self.ibi = IBIArchive(app, catalogue=Documents(), clock=self.clock)
        return app

    def prepare_app(self, app: Flask) -> None:
        tables.create_all()

    def close_app(self, app: Flask) -> None:
        tables.session.remove()
        tables.drop_all()
        tables.engine.dispose()

    def add_item(self, record: ItemRecord) -> str:
        [minted] = self.ibi.archive.mint()
        details: dict[str, Any] = {**record}
        replaces, translated = (
            details.pop("previous_edition", None),
            details.pop("translation_of", None),
        )
        details["files"] = [str(path) for path in record.get("files", ())]
        if "access" in details:
            details["access"] = {"networks": ["150.163.0.0/16"]}
        row = Document(
            rep=minted.rep,
            ibip=minted.ibip,
            changed_at=datetime.now(timezone.utc).replace(tzinfo=None),
            details=details,
            replaces=replaces,
            work=minted.ibip,
        )
        if translated is not None:
            is_translated = Document.ibip == translated
            row.work = tables.session.scalar(select(Document.work).where(is_translated))
        tables.session.add(row)
        tables.session.commit()
        return minted.ibip

    def remove_item(self, ibi: str, reason: str) -> None:
        row = tables.session.scalars(select(Document).where(Document.ibip == ibi)).one()
        row.removal_reason = reason
        row.changed_at = datetime.now(timezone.utc).replace(tzinfo=None)
        tables.session.commit()


class TestHostSendsFiles(TestPlainFlask):
    """A host that sends the files of its items itself, and refuses those of removed items."""

    without = ("access", "embargo")

    def create_app(self, settings: dict[str, Any]) -> Flask:
        app = super().create_app(settings)
        self.sent: dict[str | None, bytes] = {}

        @app.get("/download/<int:number>")
        def download(number: int) -> bytes:
            return self.sent.get(request.base_url) or abort(403)

        return app

    def add_item(self, record: ItemRecord) -> str:
        files = []
        for path in record.get("files", ()):
            host = self.archive.config.archive_address
            files.append(FileRecord(path.name, url=f"http://{host}/download/{len(self.sent)}"))
            self.sent[files[-1].url] = path.read_bytes()
        return self.archive.deposit({**record, "files": files}).ibi

    def remove_item(self, ibi: str, reason: str) -> None:
        for file in self.get(ibi).record.files:
            self.sent[file.url] = b""
        super().remove_item(ibi, reason)
