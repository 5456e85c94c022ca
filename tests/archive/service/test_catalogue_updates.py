"""Random updates: the last record of an item counts, and an export describes the Archive."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import SERVICE, archive_of, close, import_records, make_app
from support.databases import new_database
from support.stores import MemoryCatalogue, StoreMaker, identifiers_of, make_facts, make_request

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items import import_export as importing
from flask_ibi_archive.archive.items.import_export import export_records
from flask_ibi_archive.archive.service.catalogue import StoredCatalogue
from flask_ibi_archive.core.protocol.url_list import answer_url_request
from flask_ibi_archive.core.records.lines import format_line
from flask_ibi_archive.errors import RecordError

KEY = "1234567890-0"
SIZE = 40


def export(archive: Archive) -> list[str]:
    found = export_records(archive.database, archive.served().id, archive.files_folder)
    return [format_line(record) for record in found]


def check_answers(archive: Archive, records: list[dict[str, Any]]) -> None:
    """Check that the answers for every item of an Archive match the records."""
    memory = MemoryCatalogue(records)
    facts = make_facts("archive.example", SERVICE, None, filter_url_list=False)
    random_ = random.Random(1)
    with archive.database.reading() as connection:
        catalogue = StoredCatalogue(connection, archive.served().id, archive.today)
        for record in records:
            request = make_request(random_, random_.choice(identifiers_of(record)))
            stored = answer_url_request(catalogue, request, facts, lambda item: KEY)
            expected = answer_url_request(memory, request, facts, lambda item: KEY)
            assert sorted(stored) == sorted(expected), request


def test_the_last_record_of_every_item_counts(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "BATCH", 13)
    archive = archive_of(app)
    import_records(archive, StoreMaker(0, SIZE).records)
    records = StoreMaker(1, SIZE).records
    random.Random(0).shuffle(records)
    result = import_records(archive, records, on_conflict="update", take_back=True)
    assert (result.added, result.updated) == (0, SIZE)
    check_answers(archive, records)


def test_a_store_can_be_imported_in_parts_in_any_order(app: Flask) -> None:
    archive = archive_of(app)
    records = StoreMaker(50, SIZE).records
    random.Random(0).shuffle(records)
    for start in range(0, SIZE, 15):
        import_records(archive, records[start : start + 15])
    check_answers(archive, records)


@pytest.mark.slow
@pytest.mark.postgresql
def test_after_random_updates_the_export_describes_the_archive(
    app: Flask, backend: str, tmp_path: Path
) -> None:
    archive = archive_of(app)
    import_records(archive, StoreMaker(80, SIZE).records)
    updated = 0
    refusals: set[str | None] = set()
    for record in StoreMaker(81, SIZE).records:
        before = export(archive) if updated % 10 == 0 else None
        try:
            import_records(archive, [record], on_conflict="update", take_back=True)
            updated += 1
        except RecordError as error:
            refusals.add(error.field)
            assert before in (None, export(archive))
    assert refusals <= {"next_edition", "translations", "language"}
    assert updated > SIZE / 4
    lines = export(archive)
    check_answers(archive, [json.loads(line) for line in lines])
    with new_database(backend, tmp_path, ready=True) as uri:
        other = make_app(uri, tmp_path / "other")
        try:
            archive_of(other).init()
            import_records(archive_of(other), [json.loads(line) for line in lines])
            assert export(archive_of(other)) == lines
        finally:
            close(other)
