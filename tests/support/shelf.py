"""The catalogue of a host, in memory."""

from __future__ import annotations

from collections.abc import Iterator

from flask_ibi_archive import CatalogueRecord, RecordCatalogue


class Shelf(RecordCatalogue):
    """A catalogue in memory."""

    def __init__(self, *records: CatalogueRecord) -> None:
        self.shelf = list(records)

    def record(self, ibi: str) -> CatalogueRecord | None:
        """Return the record with an identifier."""
        return next((one for one in self.shelf if ibi in (one.get("rep"), one.get("ibip"))), None)

    def records(self) -> Iterator[CatalogueRecord]:
        """Return all records."""
        return iter(self.shelf)

    def put(self, record: CatalogueRecord) -> None:
        """Add a record, or replace the record with the same Rep."""
        self.shelf = [one for one in self.shelf if one["rep"] != record["rep"]] + [record]
