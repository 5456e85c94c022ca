"""Import with --resume: after any interruption, it creates the same database."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from support.archives import (
    archive_of,
    close,
    import_file,
    import_records,
    make_app,
    paths_in_store,
)
from support.databases import count_known_rows, new_database
from support.operations import dump
from support.stores import StoreMaker, make_store, moment_of, rep_of
from support.tables import describe_tables

from flask_ibi_archive.archive.archive import Archive
from flask_ibi_archive.archive.items.exporting import export_records
from flask_ibi_archive.archive.items.importing import importer as importing
from flask_ibi_archive.archive.items.importing.importer import Steps
from flask_ibi_archive.archive.items.importing.progress import Phase
from flask_ibi_archive.archive.items.importing.source import open_source
from flask_ibi_archive.core.records.fields import format_record
from flask_ibi_archive.errors import RecordError, StorageError

A, B, C, D, E, F = (rep_of(number) for number in range(6))
WHEN = moment_of(3)
PROGRAM = Path(__file__).with_name("import_process.py")
#: The maximum number of seconds that a process may run.
DEADLINE = 600
#: The number of records of the long test with interruptions, and of the quick one.
SIZE, FEW = 28, 12


class Killed(Exception):
    """Simulates the end of a process."""


def item(rep: str, **fields: Any) -> dict[str, Any]:
    return {"rep": rep, "timestamp": WHEN, **fields}


def write(path: Path, records: list[dict[str, Any]], end: str = "\n") -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records) + end, encoding="utf-8")
    return path


def clock() -> datetime:
    return datetime(2020, 5, 17, tzinfo=timezone.utc)


def resume(archive: Archive, path: Path, **options: Any) -> tuple[int, int, int]:
    found = import_file(archive, path, resume=True, clock=clock, **options)
    return found.added, found.updated, found.skipped


def state_of(archive: Archive) -> dict[str, Any]:
    """Return the contents of an Archive without the IDs of rows."""
    found = export_records(archive.database, archive.served().id, archive.files_folder)
    return {
        "export": [
            {**format_record(record), "files": [(one.path, one.sha256) for one in record.files]}
            for record in found
        ],
        "contents": sorted(path.name for path in paths_in_store(archive) if path.is_file()),
        **describe_tables(archive),
    }


@contextmanager
def another(backend: str, folder: Path) -> Iterator[Archive]:
    """Return a second Archive, in a database of the same kind."""
    with new_database(backend, folder, ready=True) as uri:
        app = make_app(uri, folder / "another")
        try:
            archive_of(app).init()
            yield archive_of(app)
        finally:
            close(app)


def stop_after(steps: int) -> Callable[[int, int], None]:
    """Return a progress hook that ends an import after some steps, unless all work is done."""
    calls = 0

    def hook(done: int, total: int) -> None:
        nonlocal calls
        calls += 1
        if calls > steps and done < total:
            raise Killed

    return hook


def run_until_done(archive: Archive, path: Path, dice: random.Random, **options: Any) -> int:
    """Import, interrupted after each step or before a commit; return the number of runs."""
    runs = 0
    step = Steps.step

    def fail(*arguments: Any) -> Any:
        step(*arguments)
        raise Killed

    while True:
        runs += 1
        try:
            if dice.random() < 0.3:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(Steps, "step", fail)
                    resume(archive, path, **options)
            resume(archive, path, progress=stop_after(1), **options)
        except Killed:
            assert runs < 500
            continue
        return runs


def with_files(records: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    for number, record in enumerate(records[::7]):
        name = f"stored{number % 3}.txt"
        (folder / name).write_text(f"content {number % 3}")
        record["files"] = [{"path": "stored.txt", "source": name}, *record.get("files", [])]
    return records


@pytest.mark.parametrize(
    "size",
    [
        FEW,
        pytest.param(SIZE, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("on_conflict", ["error", "skip", "update"])
def test_an_import_interrupted_at_every_step_ends_in_the_same_database(
    app: Flask,
    backend: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    on_conflict: str,
    size: int,
) -> None:
    batch = 3
    monkeypatch.setattr(importing, "BATCH", batch)
    archive = archive_of(app)
    records = with_files(make_store(61 + batch, size), tmp_path)
    before: list[dict[str, Any]] = []
    if on_conflict == "skip":
        before = records[::2]
    if on_conflict == "update":
        before = StoreMaker(1, size).records
        records = with_files(StoreMaker(2, size).records, tmp_path)
    random.Random(batch).shuffle(records)
    path = write(tmp_path / "items.jsonl", records)
    with another(backend, tmp_path) as whole:
        for one in (archive, whole):
            import_records(one, before, tmp_path, clock=clock)
        runs = run_until_done(
            archive, path, random.Random(batch), on_conflict=on_conflict, take_back=True
        )
        import_file(whole, path, on_conflict=on_conflict, take_back=True, clock=clock)
        assert runs > size / batch
        assert state_of(archive) == state_of(whole)


@pytest.mark.slow
def test_a_killed_import_continues_when_it_is_started_again(
    app: Flask, backend: str, tmp_path: Path, uri: str
) -> None:
    kill_and_restart(app, backend, tmp_path, uri, kills=1, size=120)


@pytest.mark.slow
def test_an_import_killed_many_times_continues_on_each_database(
    app: Flask, backend: str, tmp_path: Path, uri: str
) -> None:
    kill_and_restart(app, backend, tmp_path, uri, kills=6, size=300)


@pytest.mark.slow
def test_a_large_import_killed_many_times_continues_on_each_database(
    app: Flask, backend: str, tmp_path: Path, uri: str
) -> None:
    kill_and_restart(app, backend, tmp_path, uri, kills=5, size=6000, batch=400)


def kill_and_restart(
    app: Flask,
    backend: str,
    tmp_path: Path,
    uri: str,
    kills: int,
    size: int,
    batch: int = 15,
) -> None:
    """Import in a process that is killed at random moments; the result must be the same."""
    records = with_files(make_store(5, size), tmp_path)
    random.Random(2).shuffle(records)
    path = write(tmp_path / "items.jsonl", records)
    dice = random.Random()
    marks = sorted(dice.random() for _ in range(kills))
    killed = 0
    while True:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), uri, str(tmp_path), str(path), "error", str(batch)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            text=True,
        )
        assert process.stdout is not None
        line = ""
        for line in process.stdout:
            if marks and line.startswith("progress") and float(line.split()[1]) >= marks[0]:
                marks.pop(0)
                process.kill()
                killed += 1
                break
        _, errors = process.communicate(timeout=DEADLINE)
        if process.returncode == 0:
            break
        assert process.returncode < 0, errors
    assert killed == kills
    assert line == f"imported {len(records)} 0 0\n"
    with another(backend, tmp_path) as whole:
        import_file(whole, path)
        ours, theirs = state_of(archive_of(app)), state_of(whole)
    for key in ("export", "editions", "translations", "imports", "ibi_identifier", "ibi_file"):
        assert ours[key] == theirs[key]


def test_a_completed_import_is_not_repeated(app: Flask, tmp_path: Path) -> None:
    archive = archive_of(app)
    path = write(tmp_path / "items.jsonl", [item(A, next_edition=C), item(B), item(C)])
    assert resume(archive, path) == (3, 0, 0)
    before = state_of(archive)
    assert resume(archive, path) == (3, 0, 0)
    assert state_of(archive) == before
    assert resume(archive, path, on_conflict="update") == (0, 3, 0)
    assert resume(archive, path, on_conflict="skip") == (0, 0, 3)
    # the last complete import is now another one
    with pytest.raises(RecordError, match="an item of the Archive already has"):
        resume(archive, path)


@pytest.mark.parametrize("change", ["restart", "longer", "other"])
def test_a_completed_import_is_repeated_with_restart_or_if_the_file_was_changed(
    app: Flask, tmp_path: Path, change: str
) -> None:
    archive = archive_of(app)
    path = write(tmp_path / "items.jsonl", [item(A), item(B)])
    resume(archive, path)
    if change == "longer":
        write(path, [item(A), item(B), item(C)])
    if change == "other":
        write(path, [item(A), item(B, language="en")])
    with pytest.raises(RecordError, match="an item of the Archive already has") as refused:
        resume(archive, path, restart=change == "restart")
    assert refused.value.line == 1


# --- what stops an import ------------------------------------------------------------------------


@pytest.fixture
def archive(app: Flask, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """An Archive that imports two lines at a time."""
    monkeypatch.setattr(importing, "BATCH", 2)
    return archive_of(app)


def names(archive: Archive) -> list[str | None]:
    found = export_records(archive.database, archive.served().id, archive.files_folder)
    return [record.rep for record in found]


def begin(archive: Archive, path: Path, steps: int = 1, **options: Any) -> None:
    with pytest.raises(Killed):
        resume(archive, path, progress=stop_after(steps), **options)


def test_an_import_stops_at_a_wrong_line_and_continues_after_its_correction(
    archive: Archive, tmp_path: Path
) -> None:
    records = [item(A, next_edition=D), item(B), item(C), item(D, language="english"), item(E)]
    path = write(tmp_path / "items.jsonl", records)
    with pytest.raises(RecordError, match="is not a language") as refused:
        resume(archive, path)
    assert (refused.value.line, refused.value.field) == (4, "language")
    assert "the lines 1 to 2 are imported" in str(refused.value)
    assert "import --resume" in str(refused.value)
    assert names(archive) == [A, B]
    records[3]["language"] = "en"
    write(path, records)
    assert resume(archive, path) == (5, 0, 0)
    assert names(archive) == [A, B, C, D, E]
    assert describe_tables(archive)["editions"] == [[A, D]]


def test_an_import_stops_at_a_wrong_reference_and_continues_after_its_correction(
    archive: Archive, tmp_path: Path
) -> None:
    records = [item(A, next_edition=C), item(B, next_edition=C), item(C)]
    path = write(tmp_path / "items.jsonl", records)
    with pytest.raises(RecordError, match="already the next edition of another item") as refused:
        resume(archive, path)
    assert (refused.value.line, refused.value.field) == (2, "next_edition")
    assert "all items are imported" in str(refused.value)
    write(path, [records[0], item(A, next_edition=D), records[2]])
    with pytest.raises(RecordError, match="contained another item"):
        resume(archive, path)
    write(path, [records[0], item(B, next_edition=D), records[2]])
    assert resume(archive, path) == (3, 0, 0)
    assert describe_tables(archive)["editions"] == [[A, C], [B, D]]


@pytest.mark.parametrize(
    ("steps", "end"),
    [(1, "\n"), (2, ""), (3, "\n"), (3, ""), (3, "\r\n\n"), (4, ""), (5, "\r\n\n")],
)
def test_lines_added_to_the_file_are_imported_wherever_it_was_interrupted(
    archive: Archive, tmp_path: Path, steps: int, end: str
) -> None:
    records = [item(A, next_edition=B), item(B, next_edition=C), item(C), item(D, next_edition=E)]
    path = write(tmp_path / "items.jsonl", records, end)
    begin(archive, path, steps)
    with path.open("a") as file:
        file.write("\n" * (not end) + json.dumps(item(E, next_edition=F)) + "\n")
    assert resume(archive, path) == (5, 0, 0)
    assert names(archive) == [A, B, C, D, E]
    assert describe_tables(archive)["editions"] == [[A, B, C], [D, E, F]]
    assert describe_tables(archive)["imports"] == [[], []]


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [lines[0].replace("en", "pt"), *lines[1:]],
        lambda lines: lines[1:],
        lambda lines: lines[:1],
        lambda lines: [lines[0], lines[1] + "x", *lines[2:]],
    ],
)
def test_a_file_whose_imported_lines_were_changed_is_refused_without_restart(
    archive: Archive, tmp_path: Path, change: Callable[[list[str]], list[str]]
) -> None:
    path = write(tmp_path / "items.jsonl", [item(A, language="en"), item(B), item(C)])
    begin(archive, path)
    good = path.read_text()
    path.write_text("\n".join(change(good.splitlines())))
    with pytest.raises(StorageError, match=r"the first 2 lines of .* were changed") as refused:
        resume(archive, path)
    assert "--restart" in str(refused.value)
    assert names(archive) == [A, B]
    path.write_text(good)
    with pytest.raises(RecordError, match="an item of the Archive already has"):
        resume(archive, path, restart=True)
    assert resume(archive, path, restart=True, on_conflict="update") == (1, 2, 0)
    assert names(archive) == [A, B, C]


def test_another_file_and_other_options_are_refused_while_an_import_is_unfinished(
    archive: Archive, tmp_path: Path
) -> None:
    path = write(tmp_path / "items.jsonl", [item(A), item(B), item(C)])
    other = write(tmp_path / "other.jsonl", [item(D)])
    begin(archive, path)
    with pytest.raises(StorageError, match=r"import of .*items\.jsonl was interrupted"):
        resume(archive, other)
    with pytest.raises(StorageError, match="started with --on-conflict error"):
        resume(archive, path, on_conflict="update")
    assert resume(archive, other, restart=True) == (1, 0, 0)
    assert names(archive) == [A, B, D]


def test_of_two_processes_that_resume_an_import_one_is_refused(
    archive: Archive, tmp_path: Path
) -> None:
    path = write(tmp_path / "items.jsonl", [item(A, next_edition=B), item(B), item(C), item(D)])
    results = []

    def overtake(done: int, total: int) -> None:
        if not results and names(archive) == [A, B]:
            results.append(resume(archive, path))

    with pytest.raises(StorageError, match="another process continues the import"):
        resume(archive, path, progress=overtake)
    assert results == [(4, 0, 0)]
    assert names(archive) == [A, B, C, D]


def test_an_identifier_twice_in_the_file_is_refused_also_when_resumed(
    archive: Archive, tmp_path: Path
) -> None:
    import_records(archive, [item(D)])
    path = write(tmp_path / "items.jsonl", [item(A), item(D), item(B), item(C), item(A)])
    begin(archive, path, 2, on_conflict="update")
    with pytest.raises(RecordError, match="is already in an earlier line") as refused:
        resume(archive, path, on_conflict="update")
    assert refused.value.line == 5


@pytest.mark.parametrize("phase", [Phase.ITEMS, Phase.LANGUAGES, Phase.TIES])
def test_another_import_without_resume_does_not_disturb_an_interrupted_one(
    archive: Archive, tmp_path: Path, phase: Phase
) -> None:
    path = write(tmp_path / "items.jsonl", [item(A, next_edition=E), item(B), item(C)])
    begin(archive, path, {Phase.ITEMS: 2, Phase.LANGUAGES: 3, Phase.TIES: 4}[phase])
    import_records(archive, [item(E, language="pt"), item(F, next_edition=E, language="en")][:1])
    assert resume(archive, path) == (3, 0, 0)
    assert describe_tables(archive)["editions"] == [[A, E]]


def test_standard_input_cannot_be_resumed(app: Flask, tmp_path: Path) -> None:
    archive = archive_of(app)
    path = write(tmp_path / "items.jsonl", [item(A)])
    importer = importing.Importer(
        archive.database, archive.served().id, archive.files_folder, resume=True
    )
    with path.open("rb") as stream, open_source("-", stream) as source:  # noqa: SIM117
        with pytest.raises(StorageError, match="can't be read again"):
            importer.run(source)


def test_the_progress_grows_to_the_total(app: Flask, tmp_path: Path) -> None:
    path = write(tmp_path / "items.jsonl", make_store(9, 40))
    for options in ({"dry_run": True}, {"resume": True}, {"resume": True, "on_conflict": "update"}):
        reported: list[tuple[int, int]] = []

        def progress(done: int, total: int, reported: list[tuple[int, int]] = reported) -> None:
            reported.append((done, total))

        import_file(archive_of(app), path, progress=progress, **options)
        assert reported == sorted(reported)
        assert reported[-1][0] == reported[-1][1]
        assert len({total for _, total in reported}) == 1


# --- an import that fails at its first line ------------------------------------------------------


def test_an_import_that_fails_at_the_first_line_can_be_started_with_other_options(
    archive: Archive, tmp_path: Path
) -> None:
    import_records(archive, [item(A)])
    path = write(tmp_path / "items.jsonl", [item(A), item(B)])
    before = dump(archive.database, ("ibi_import", "ibi_import_line"))
    with pytest.raises(RecordError, match=r"; see the option --on-conflict$"):
        import_file(archive, path, resume=True)
    assert dump(archive.database, ("ibi_import", "ibi_import_line")) == before
    result = import_file(archive, path, resume=True, on_conflict="skip")
    assert (result.added, result.skipped) == (1, 1)


def test_an_import_that_fails_at_the_first_line_does_not_block_another_file(
    archive: Archive, tmp_path: Path
) -> None:
    with pytest.raises(RecordError):
        import_file(archive, write(tmp_path / "wrong.jsonl", [{"rep": "x"}]), resume=True)
    other = write(tmp_path / "other.jsonl", [item(C)])
    assert import_file(archive, other, resume=True).added == 1


def test_an_import_that_cannot_continue_names_the_option_to_start_again(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH", 1)
    import_records(archive, [item(B)])
    path = write(tmp_path / "items.jsonl", [item(A), item(B)])
    with pytest.raises(RecordError, match="the lines 1 to 1 are imported"):
        import_file(archive, path, resume=True)
    with pytest.raises(StorageError, match="or start again with --restart"):
        import_file(archive, path, resume=True, on_conflict="skip")
    result = import_file(archive, path, resume=True, restart=True, on_conflict="skip")
    assert (result.added, result.skipped) == (0, 2)


def test_postgresql_knows_how_many_rows_were_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH", 2)
    with new_database("postgresql", tmp_path, ready=True) as uri:
        app = make_app(uri, tmp_path)
        archive = archive_of(app)
        archive.init()
        before = count_known_rows(archive.database, "ibi_item")
        resume(archive, write(tmp_path / "one.jsonl", [item(A)]))
        assert count_known_rows(archive.database, "ibi_item") == before
        resume(archive, write(tmp_path / "five.jsonl", [item(rep) for rep in (B, C, D, E, F)]))
        assert count_known_rows(archive.database, "ibi_item") == 7  # and the Archive service
        close(app)
