"""The contract of a correct Archive, for each kind of host."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from flask import Flask, abort, request
from flask_migrate import Migrate
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import JSON, select
from sqlalchemy.orm import Mapped, mapped_column
from support import library

from flask_ibi_archive import FileRecord, IBIArchive, IdentifiedItem, ItemRecord
from flask_ibi_archive.resolver import IBIResolver
from flask_ibi_archive.testing import CatalogueContract, Reader

OTHER_SERVICE = "sid.inpe.br/mtc-m19@80/2009/08.21.17.02"


class TestPlainFlask(CatalogueContract):
    """A host without a database of its own, which deposits its items."""

    def create_app(self, settings: dict[str, Any]) -> Flask:
        app = Flask("plain", instance_path=str(self.folder / "instance"))
        app.config.from_mapping(settings)
        IBIArchive(app, clock=self.clock)
        return app


class TestFlaskSQLAlchemy(CatalogueContract):
    """A host that deposits its items in the transactions of its Flask-SQLAlchemy session."""

    def create_app(self, settings: dict[str, Any]) -> Flask:
        app = Flask("host", instance_path=str(self.folder / "instance"))
        uri = settings.pop("IBI_DATABASE_URI")
        app.config.from_mapping(settings, SQLALCHEMY_DATABASE_URI=uri)
        self.db = SQLAlchemy(app)
        Migrate(app, self.db)
        IBIArchive(app, session=self.db.session, clock=self.clock)
        return app

    def add_item(self, record: ItemRecord) -> str:
        minted = self.archive.deposit(record)
        self.db.session.commit()
        return minted.ibi

    def remove_item(self, ibi: str, reason: str) -> None:
        self.archive.delete(ibi, reason)
        self.db.session.commit()

    def close_app(self, app: Flask) -> None:
        self.db.session.remove()
        self.db.engine.dispose()


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


reports = SQLAlchemy()


class Report(IdentifiedItem, reports.Model):  # type: ignore[name-defined, misc]
    __tablename__ = "report"

    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    pdf: Mapped[str | None]

    def ibi_record(self) -> ItemRecord:
        return ItemRecord(title=self.title, files=[self.pdf] if self.pdf else [])


class TestOneFileForEachItem(CatalogueContract):
    """A host whose items have a title and at most one file."""

    without = ("editions", "translations", "access", "embargo", "several files")

    def create_app(self, settings: dict[str, Any]) -> Flask:
        app = Flask("one_file", instance_path=str(self.folder / "instance"))
        uri = settings.pop("IBI_DATABASE_URI")
        app.config.from_mapping(settings, SQLALCHEMY_DATABASE_URI=uri)
        reports.init_app(app)
        self.ibi = IBIArchive(app, session=reports.session)
        return app

    def prepare_app(self, app: Flask) -> None:
        reports.create_all()

    def close_app(self, app: Flask) -> None:
        reports.session.remove()
        reports.engine.dispose()

    def add_item(self, record: ItemRecord) -> Report:
        files: Any = record.get("files", ())
        [pdf] = map(str, files) if files else [None]
        row = Report(title=str(record["title"]), pdf=pdf)
        reports.session.add(row)
        reports.session.commit()
        return row

    def remove_item(self, ibi: str, reason: str) -> None:
        row = reports.session.scalars(select(Report).where(Report.ibi_ibip == ibi)).one()
        self.ibi.removing(row, reason=reason)
        reports.session.delete(row)
        reports.session.commit()


class TestOwnTables(CatalogueContract):
    """A host whose items are in its own tables (:mod:`support.library`)."""

    def create_app(self, settings: dict[str, Any]) -> Flask:
        app, self.ibi = library.create_library(settings, self.folder, clock=self.clock)
        return app

    def prepare_app(self, app: Flask) -> None:
        library.db.create_all()

    def close_app(self, app: Flask) -> None:
        library.db.session.remove()
        library.db.drop_all()
        library.db.engine.dispose()

    def add_item(self, record: ItemRecord) -> str:
        document = library.add_document(
            self.ibi,
            str(record["title"]),
            record["creators"],
            record.get("files", ()),
            replaces=record.get("previous_edition"),
            translates=record.get("translation_of"),
            language=record["language"],
            campus_only="access" in record,
            closed_until=date.fromisoformat(record["embargo"]) if "embargo" in record else None,
        )
        return document.ibip

    def remove_item(self, ibi: str, reason: str) -> None:
        library.remove_document(ibi, reason)


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


@pytest.mark.slow
class TestTwoArchivesInOneDatabase(TestPlainFlask):
    """Two Archives in one database; each is served by its own app."""

    def create_app(self, settings: dict[str, Any]) -> Flask:
        changes = {
            "IBI_ARCHIVE_SERVICE_IBI": OTHER_SERVICE,
            "IBI_ARCHIVE_ADDRESS": "other.example.org",
            "IBI_MINT_HOST": "other.example.org",
        }
        self.other = super().create_app({**settings, **changes})
        with self.other.app_context():
            self.other.extensions["ibi_archive"].archive.init()
        return super().create_app(settings)

    def close_app(self, app: Flask) -> None:
        self.other.extensions["ibi_archive"].archive.database.close()

    def test_each_app_has_only_its_own_items(self) -> None:
        other = Reader(self.other)
        with self.other.app_context():
            theirs = other.archive.deposit(title="Theirs").ibi
        ours = self.add(title="Ours")
        assert self.ask(theirs) == other.request_urls(ours) == {}
        assert other.request_urls(theirs)["state"] == ("Original",)
        other.acknowledge(other.request_urls(theirs))
        assert (self.count(None), self.count(ours)) == (0, 0)


@pytest.mark.slow
class TestArchiveAndResolverInOneApp(TestPlainFlask):
    """An app with an Archive and a resolver, which both answer at the same address."""

    def create_app(self, settings: dict[str, Any]) -> Flask:
        app = super().create_app({**settings, "IBI_RESOLVER_DATABASE_URI": "sqlite://"})
        IBIResolver(app)
        app.extensions["ibi_resolver"].resolver.init()
        return app

    def close_app(self, app: Flask) -> None:
        app.extensions["ibi_resolver"].resolver.close()

    def test_the_app_resolves_persistent_urls_of_its_own_items(self) -> None:
        ibi = self.add(files=[self.write_file()])
        [redirect] = Reader(self.app).open(f"/{ibi}").history
        assert (redirect.status_code, redirect.location) == (302, self.ask(ibi)["url"][0])
        assert self.count(ibi) == 1
