"""Theses: records of Invenio whose rows are items of the Archive."""

from flask_ibi_archive.migrations import include_name
from invenio_db import db
from invenio_pidstore.models import PersistentIdentifier, PIDStatus
from invenio_records.api import Record
from invenio_records.models import RecordMetadataBase

from flask_ibi_archive import IBIArchive, IdentifiedItem, ItemRecord, Tombstone

ibi = IBIArchive(session=db.session)
ibi_of_api = IBIArchive(session=db.session, routes=False)  # for the app under /api


def init_ibi(app):
    ibi.init_app(app)
    app.config["ALEMBIC_CONTEXT"]["include_name"] = include_name  # hides our tables


class ThesisMetadata(IdentifiedItem, db.Model, RecordMetadataBase):
    __tablename__ = "thesis_metadata"
    __versioned__ = {}  # noqa: RUF012 - as Invenio writes it

    def ibi_record(self):
        if self.is_deleted:  # Thesis.delete() keeps the row
            return ItemRecord(state="Deleted", tombstone=Tombstone("removed by its author"))
        names = ItemRecord.__annotations__.keys() & self.json.keys()  # title, creators, ...
        return ItemRecord(**{name: self.json[name] for name in names})


class Thesis(Record):
    model_cls = ThesisMetadata


def mint_ibi(record_uuid, data):
    """Let the PID store resolve the identifier that the row got when it was flushed."""
    ibi = db.session.get(ThesisMetadata, record_uuid).ibi
    return PersistentIdentifier.create(
        "ibi", ibi, object_type="rec", object_uuid=record_uuid, status=PIDStatus.REGISTERED
    )
