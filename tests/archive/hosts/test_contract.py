"""The contract of a correct Archive, for each kind of host."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from flask import Flask, abort, request
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import JSON, select
from sqlalchemy.orm import Mapped, mapped_column
from support.host_app import HostApp
from support.shelf import Shelf

from flask_ibi_archive import (
    CatalogueRecord,
    FileRecord,
    IBIArchive,
    IdentifiedItem,
    ItemRecord,
    Tombstone,
)
from flask_ibi_archive.testing import CatalogueContract


class TestPlainFlask(CatalogueContract):
    """A host without a database of its own, which deposits its items."""

    catalogue: Shelf | None = None

    def create_app(self, settings: dict[str, Any]) -> Flask:
        app = Flask("plain", instance_path=str(self.folder / "instance"))
        app.config.from_mapping(settings)
        IBIArchive(app, catalogue=self.catalogue, clock=self.clock)
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
        uri = settings.pop("IBI_DATABASE_URI")
        self.host = HostApp(uri, self.folder, db=db, clock=self.clock, **settings)
        return self.host.app

    def prepare_app(self, app: Flask) -> None:
        db.create_all()

    def close_app(self, app: Flask) -> None:
        db.session.remove()
        db.drop_all()
        self.host.close()

    def add_item(self, record: ItemRecord) -> Thesis:
        details = {**record, "files": [str(path) for path in record.get("files", ())]}
        row = Thesis(title=details.pop("title"), details=details)
        db.session.add(row)
        db.session.commit()
        return row

    def remove_item(self, ibi: str, reason: str) -> None:
        row = db.session.scalars(select(Thesis).where(Thesis.ibi_ibip == ibi)).one()
        self.host.ibi.removing(row, reason=reason)
        db.session.delete(row)
        db.session.commit()


class TestOwnTables(TestPlainFlask):
    """A host that keeps all data about its items itself."""

    def create_app(self, settings: dict[str, Any]) -> Flask:
        self.catalogue = self.shelf = Shelf()
        return super().create_app(settings)

    def find(self, ibi: str) -> CatalogueRecord:
        record = self.shelf.record(ibi)
        assert record is not None
        return record

    def add_item(self, record: ItemRecord) -> str:
        [minted] = self.archive.mint()
        fields: dict[str, Any] = {**record, "translations": {}}
        previous, translated = fields.pop("previous_edition", ""), fields.pop("translation_of", "")
        added = CatalogueRecord(rep=minted.rep, ibip=minted.ibip, timestamp=now())
        added.update(fields)  # type: ignore[typeddict-item]
        if previous:
            self.find(previous)["next_edition"] = minted.ibip
        if translated:
            first = self.find(translated)
            for other in (first, *map(self.find, first["translations"].values())):
                other["translations"][added["language"]] = minted.ibip  # type: ignore[index]
                added["translations"][other["language"]] = other["ibip"]  # type: ignore[index]
        self.shelf.put(added)
        return minted.ibip

    def remove_item(self, ibi: str, reason: str) -> None:
        record = self.find(ibi)
        record.pop("files", None)
        record.update(state="Deleted", tombstone=Tombstone(reason), timestamp=now())


def now() -> datetime:
    return datetime.now(timezone.utc)


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
