"""import, export."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import archive_of, paths_in_store
from support.commands import Outcome, command

from flask_ibi_archive.archive.items import import_export as importing
from flask_ibi_archive.archive.items.item_record import ItemRecord
from flask_ibi_archive.core.records.description import WORK_FIELDS
from flask_ibi_archive.core.records.record import FIELDS

NewApp = Callable[..., Flask]

FIRST = {"rep": "sid.inpe.br/mtc-m18@80/2009/07.21.13.23", "timestamp": "2009-07-21T13:23:45Z"}
SECOND = {"rep": "sid.inpe.br/mtc-m18@80/2009/07.21.13.24", "timestamp": "2009-07-21T13:24:45Z"}


def lines(*records: dict[str, Any]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def counts(added: int = 0, updated: int = 0, skipped: int = 0, would: str = "") -> str:
    return f"{would}added {added}, {would}updated {updated}, {would}skipped {skipped}\n"


def test_a_dry_run_finds_the_same_and_changes_nothing(app: Flask, items: Path) -> None:
    for name in ("none.jsonl", "."):
        assert " can't be read: " in command(app, "import", items.parent / name).error
    count = len(items.read_bytes().splitlines())
    would = counts(added=count, would="would be ")
    for _ in range(2):
        assert command(app, "import", items, "--dry-run").data == would
    assert command(app, "list").lines[1:] == []
    assert command(app, "export").data == ""
    assert paths_in_store(archive_of(app)) == []
    assert command(app, "import", items).data == counts(added=count)
    before = command(app, "export").raw
    listed = command(app, "import", items, "--dry-run")
    assert listed.status == 1
    assert listed.out.count("; see the option --on-conflict") == count
    assert listed.err == f"Error: {items} has {count} errors; nothing was changed\n"
    for conflict, would in (("update", "would be "), ("skip", "")):
        words = ("--on-conflict", conflict, *(["--dry-run"] if would else []))
        assert command(app, "import", items, *words).data == counts(skipped=count, would=would)
    assert command(app, "export").raw == before


def places(outcome: Outcome, name: object) -> list[str]:
    """Return the line and the field of each error that a dry run prints."""
    count = outcome.out.count("\n")
    errors = "errors" if count > 1 else "error"
    assert outcome.status == 1
    assert outcome.err == f"Error: {name} has {count} {errors}; nothing was changed\n"
    return [line.removeprefix(f"{name}, line ").split(": ")[0] for line in outcome.out.splitlines()]


def test_a_dry_run_lists_every_error_and_counts_them(
    app: Flask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command(app, "import", "-", stdin=lines(FIRST))
    before = command(app, "export").raw
    good, other, edition, last = ({"rep": f"a.br/x/2010/01.01.00.0{n}"} for n in range(4))
    (tmp_path / "b.pdf").write_text("b")
    files = [
        {"path": "a", "source": "none.pdf"},
        {"path": "b", "source": "b.pdf", "sha256": "0" * 64},
    ]
    translations = {"pt": FIRST["rep"], "en": good["rep"]}
    path = tmp_path / "wrong.jsonl"
    path.write_bytes(
        lines(good, {**SECOND, "state": "?", "language": "english", "colour": "red"})
        + b"{\n\n[]\n"
        + lines(
            {**SECOND, "files": files},
            {**SECOND, "state": "Copy", "target_file": "a"},
            FIRST,
            good,
            {**other, "translations": translations, "next_edition": good["rep"]},
            {**edition, "next_edition": good["rep"]},
            {**last, "next_edition": edition["rep"]},
        )
    )
    assert places(command(app, "import", path, "--dry-run"), path) == [
        "2, state", "2, language", "2, colour", "3", "5", "6, files[0].source",
        "6, files[1].sha256",
        "7, original_archive", "7, target_file", "8, rep", "9, rep", "11, next_edition",
    ]  # fmt: skip
    # a line that is too long is the end
    monkeypatch.setattr(importing, "MAX_LINE", 200)
    endless = {**SECOND, "metadata": {"dc": {"title": ["x" * 300]}}}
    text = lines({**FIRST, "state": "?"}, endless)
    outcome = command(app, "import", "-", "--dry-run", stdin=text)
    assert places(outcome, "standard input") == ["1, state", "2"]
    assert command(app, "export").raw == before


def test_an_export_is_the_same_wherever_it_is_written(filled: Flask, tmp_path: Path) -> None:
    expected = command(filled, "export").raw
    assert expected
    assert command(filled, "export", "-").raw == expected
    old, link = tmp_path / "old.jsonl", tmp_path / "link.jsonl"
    old.write_text("old")
    link.symlink_to(old)
    assert command(filled, "export", link).data == ""
    assert link.is_symlink()
    assert old.read_bytes() == expected
    path = tmp_path / "out.jsonl"
    path.touch()
    path.chmod(0o664)
    for target, found in ((path, 0o664), (tmp_path / "new.jsonl", 0o600)):
        before = os.umask(0o077)
        try:
            assert command(filled, "export", target).data == ""
        finally:
            os.umask(before)
        assert target.stat().st_mode & 0o7777 == found, target
        assert target.read_bytes() == expected, target


def test_an_export_with_its_files_is_imported_elsewhere(
    filled: Flask, new_app: NewApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, moved = tmp_path / "out", tmp_path / "moved"
    out.mkdir()
    monkeypatch.chdir(out)
    # the paths in standard output are relative to the current folder
    written = command(filled, "export", "--files", "files/of items").data
    (out / "items.jsonl").write_text(written, encoding="utf-8")
    before = records_in(filled)
    assert command(filled, "downgrade", "base", "--yes").status == 0
    shutil.rmtree(archive_of(filled).config.files_folder)
    out.rename(moved)
    monkeypatch.chdir(tmp_path)
    elsewhere = new_app(IBI_FILES_FOLDER=str(tmp_path / "elsewhere"))
    command(elsewhere, "init")
    items, files = moved / "items.jsonl", moved / "files" / "of items"
    assert command(elsewhere, "import", items).status == 0
    assert records_in(elsewhere) == before
    assert command(elsewhere, "verify").data == ""
    # a second export does not write existing copies again
    copies = {path: path.stat().st_mtime_ns for path in files.iterdir()}
    assert command(elsewhere, "export", items, "--files", files).data == ""
    assert {path: path.stat().st_mtime_ns for path in files.iterdir()} == copies


def records_in(app: Flask) -> str:
    """Return what an export says, without the places of the files."""
    return re.sub(r'"source": "[^"]*/', '"source": "', command(app, "export").data)


def test_an_export_that_fails_keeps_the_older_export(filled: Flask, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "file").touch()
    kept = next(path for path in paths_in_store(archive_of(filled)) if path.is_file())
    content = kept.read_bytes()

    out = tmp_path / "out"
    (out / "items.jsonl").write_text("an older export")

    def fail(folder: Path) -> str:
        error = command(filled, "export", out / "items.jsonl", "--files", folder).error
        assert (out / "items.jsonl").read_text() == "an older export"
        return error

    kept.write_bytes(content + b"!")
    assert re.fullmatch("file .* of .* is damaged; run flask ibi verify", fail(out))
    kept.unlink()
    assert re.fullmatch("file .* of .* can't be copied to .*", fail(out))
    kept.write_bytes(content)
    assert re.fullmatch("file .* of .* can't be copied to .*", fail(tmp_path / "file" / "x"))
    assert not any(path.name.startswith(".new") for path in out.iterdir())


def test_the_fields_of_hosts_are_those_of_records_and_descriptions() -> None:
    of_hosts = {"title", "previous_edition", "translation_of"}
    of_archives = {"rep", "ibip", "original_archive", "timestamp"}
    assert set(ItemRecord.__annotations__) - of_hosts == {*FIELDS, *WORK_FIELDS} - of_archives
