"""Theses of Invenio follow the rules of an Archive."""

from __future__ import annotations

from typing import Any

from flask import Flask
from installed_hosts.invenio_site.repository import Site, end_https
from invenio_db import db
from invenio_pidstore.resolver import Resolver
from my_site import theses

from flask_ibi_archive import ItemRecord
from flask_ibi_archive.testing import CatalogueContract


class TestTheses(CatalogueContract):
    """The contract; https ends at a proxy, and readers use it."""

    def create_app(self, settings: dict[str, Any]) -> Flask:
        self.site = Site(settings)
        theses.ibi.clock = self.clock
        app = self.site.create_app()
        end_https(app)
        self.site.create_tables(app)
        return app

    def add_item(self, record: ItemRecord) -> theses.ThesisMetadata:
        data = {**record, "files": [str(path) for path in record.get("files", ())]}
        thesis = theses.Thesis.create(data)
        theses.mint_ibi(thesis.id, thesis)
        db.session.commit()
        return thesis.model

    def remove_item(self, ibi: str, reason: str) -> None:
        _, thesis = Resolver("ibi", getter=theses.Thesis.get_record).resolve(ibi)
        theses.ibi.removing(thesis.model, reason=reason)
        thesis.delete(force=True)
        db.session.commit()

    def close_app(self, app: Flask) -> None:
        self.site.close()
