"""An import of which nothing is done leaves nothing that would have to be gone on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of, import_file, import_records
from support.operations import dump

from flask_ibi_archive.archive.archive_service import ArchiveService
from flask_ibi_archive.archive.importing import importer
from flask_ibi_archive.errors import RecordError, StorageError

A, B, C = (f"a.br/x/2001/01.01.00.0{number}" for number in range(3))


@pytest.fixture
def archive(app: Flask) -> ArchiveService:
    return archive_of(app)


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_one_that_fails_at_its_beginning_can_begin_otherwise(
    archive: ArchiveService, tmp_path: Path
) -> None:
    import_records(archive, [{"rep": A}])
    path = write(tmp_path / "items.jsonl", {"rep": A}, {"rep": B})
    before = dump(archive.database, ("ibi_import", "ibi_import_line"))
    with pytest.raises(RecordError, match=r"already \(see --on-conflict\)$"):
        import_file(archive, path, resume=True)
    assert dump(archive.database, ("ibi_import", "ibi_import_line")) == before
    result = import_file(archive, path, resume=True, on_conflict="skip")
    assert (result.added, result.skipped) == (1, 1)


def test_one_that_fails_at_its_beginning_does_not_keep_another_file_waiting(
    archive: ArchiveService, tmp_path: Path
) -> None:
    with pytest.raises(RecordError):
        import_file(archive, write(tmp_path / "wrong.jsonl", {"rep": "x"}), resume=True)
    other = write(tmp_path / "other.jsonl", {"rep": C})
    assert import_file(archive, other, resume=True).added == 1


def test_one_that_goes_on_names_the_way_to_begin_otherwise(
    archive: ArchiveService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "BATCH", 1)
    import_records(archive, [{"rep": B}])
    path = write(tmp_path / "items.jsonl", {"rep": A}, {"rep": B})
    with pytest.raises(RecordError, match="the lines up to 1 are done"):
        import_file(archive, path, resume=True)
    with pytest.raises(StorageError, match="--restart begins anew with skip"):
        import_file(archive, path, resume=True, on_conflict="skip")
    result = import_file(archive, path, resume=True, restart=True, on_conflict="skip")
    assert (result.added, result.skipped) == (0, 2)
