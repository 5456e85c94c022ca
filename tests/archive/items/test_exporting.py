"""Export: importing an export creates the same Archive."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from msgspec.structs import replace
from support.accesses import insert_accesses
from support.archives import archive_of, import_file, import_records, open_app
from support.archives import export as export_objects
from support.commands import command
from support.stores import MemoryCatalogue, MemoryItem, make_store, moment_of, rep_of

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.read import export_records
from flask_ibi_archive.core.records.record import Record, format_line

A, B, C, D = (rep_of(number) for number in range(4))


def export(archive: Archive) -> list[Record]:
    return list(export_records(archive.database, archive.served().id, archive.files_folder))


def name_of(item: MemoryItem | None) -> str | None:
    return item and (item.rep or item.ibip)


def meaning(records: list[dict[str, Any]]) -> list[Any]:
    """Return the facts in records, independent of the record and identifier that state them."""
    world = MemoryCatalogue(records)
    found = []
    for item in world.items:
        assert item.record is not None
        metadata = item.metadata()
        target = item.target()
        plain = replace(
            item.record,
            next_edition=None,
            translations={},
            language=item.language,
            metadata=None if isinstance(metadata, MemoryItem) else item.record.metadata,
            target_file=target and target.path,
        )
        group = {(name_of(member), member.language) for member in item.group}
        of_metadata = name_of(metadata) if isinstance(metadata, MemoryItem) else None
        found.append((plain, name_of(item.next_edition()), group, of_metadata))
    return found


@pytest.mark.postgresql
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_an_export_equals_the_import_and_can_be_imported_again(
    app: Flask, backend: str, tmp_path: Path, seed: int
) -> None:
    archive = archive_of(app)
    records = make_store(3000 + seed, 100)
    (tmp_path / "a.txt").write_bytes(b"content")
    for record in records[::10]:
        record["files"] = [{"path": "kept.txt", "source": "a.txt"}, *record.get("files", [])]
    import_records(archive, records, tmp_path)
    for record in records:
        for file in record.get("files", []):
            file.pop("source", None)
    first = export(archive)
    given = [json.loads(format_line(record)) for record in first]
    for number, record in enumerate(given):
        for file in record.get("files", []):
            if number % 10 == 0 and file["path"] == "kept.txt":
                assert Path(file.pop("source")).read_bytes() == b"content"
                del file["sha256"]
            assert "source" not in file
    assert meaning(given) == meaning(records)
    path = tmp_path / "export.jsonl"
    path.write_text("".join(format_line(record) + "\n" for record in first), encoding="utf-8")
    with open_app(backend, tmp_path / "other") as other:
        import_file(archive_of(other), path)
        second = [format_line(record) for record in export(archive_of(other))]
    here, there = (str(folder / "files") for folder in (tmp_path, tmp_path / "other"))
    assert [line.replace(there, here) for line in second] == [format_line(one) for one in first]


def test_defaults_are_omitted_and_paths_of_files_are_absolute(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_bytes(b"content")
    access = {"networks": ["10.0.0.0/8"], "others": "metadata"}
    stated = {"timestamp": moment_of(1), "access": access}
    defaults = {"state": "Original", "content_type": "Data", "transferable": True}
    files = {"files": [{"path": "a", "source": "a.txt"}], "target_file": "a", "list_files": True}
    import_records(archive, [{"rep": A, **stated, **defaults, **files}], tmp_path)
    [line] = export_objects(archive)
    assert sorted(line) == ["access", "files", "rep", "timestamp"]
    assert line["access"] == {"networks": ["10.0.0.0/8"]}
    # the next command may run in another folder
    monkeypatch.chdir(tmp_path)
    archive.files_folder.folder = archive.files_folder.folder.relative_to(tmp_path)
    [line] = export_objects(archive)
    assert Path(line["files"][0]["source"]).is_absolute()


@pytest.mark.postgresql
def test_the_counts_of_an_export_are_imported(app: Flask, backend: str, tmp_path: Path) -> None:
    archive, path = archive_of(app), str(tmp_path / "items.jsonl")
    import_records(archive, [{"rep": A}, {"rep": B}])
    insert_accesses(archive, [{"ibi": A, "second": n * 50_000} for n in (1, 3)])
    before = [archive.statistics(rep, "day") for rep in (A, B, None)]
    assert "counts" not in command(app, "export").data
    assert command(app, "export", path, "--with-counts").data == ""
    counted = [json.loads(line).get("counts") for line in Path(path).read_text().splitlines()]
    assert [counts and len(counts) for counts in counted] == [2, None]
    with open_app(backend, tmp_path / "other") as other:
        insert = partial(insert_accesses, archive_of(other))
        for words in ([], ["--on-conflict", "update"]):
            assert command(other, "import", path, *words).status == 0
            found = [archive_of(other).statistics(rep, "day") for rep in (A, B, None)]
            assert found == before
            insert([{"ibi": A, "second": 9}])
