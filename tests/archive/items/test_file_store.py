"""The folder of stored files: repair, durability, locks, deletion."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from flask_ibi_archive.archive.items import files
from flask_ibi_archive.archive.items.files import Content, FileStore, measure
from flask_ibi_archive.errors import StorageError

DAY = 24 * 3600


@pytest.fixture
def folder(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "contents" / "of files")


def store(folder: FileStore, source: Path) -> Content:
    """Store a file."""
    with folder.staging() as staging:
        content = staging.add(source)
        staging.move_to_store(content)
    return content


def store_content(folder: FileStore, tmp_path: Path, content: bytes) -> Content:
    """Store a file with a certain content."""
    source = tmp_path / "source"
    source.write_bytes(content)
    return store(folder, source)


def list_files(folder: FileStore) -> list[Path]:
    return [path for path in folder.folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("damage", [b"", b"cont", b"CONTENT", b"content and more"])
def test_storing_a_file_again_repairs_a_damaged_one(
    folder: FileStore, tmp_path: Path, damage: bytes
) -> None:
    place = folder.path(store_content(folder, tmp_path, b"content").sha256)
    place.write_bytes(damage)
    store_content(folder, tmp_path, b"content")
    assert place.read_bytes() == b"content"


def test_storing_a_file_again_renews_its_modification_time(
    folder: FileStore, tmp_path: Path
) -> None:
    stored = store_content(folder, tmp_path, b"content")
    os.utime(folder.path(stored.sha256), (0, 0))
    store_content(folder, tmp_path, b"content")
    assert folder.path(stored.sha256).stat().st_mtime > DAY


def test_two_equal_files_can_be_staged_and_stored(folder: FileStore, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    with folder.staging() as staging:
        first, second = staging.add(tmp_path / "a"), staging.add(tmp_path / "a")
        staging.move_to_store(first)
        staging.move_to_store(second)
    assert measure(folder.path(first.sha256)) == first


def test_a_file_that_was_not_staged_cannot_be_stored(folder: FileStore) -> None:
    with folder.staging() as staging, pytest.raises(StorageError, match="No such file"):
        staging.move_to_store(Content("0" * 64, 1))


def test_every_folder_above_a_new_file_is_forced_to_the_disk_first(
    folder: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(files, "sync_folder", synced.append)
    stored = store_content(folder, tmp_path, b"content")
    place = folder.path(stored.sha256)
    above = [folder.folder.parent, folder.folder, place.parent.parent, place.parent]
    assert synced == above
    # another process that created the folders may not have forced them to the disk yet
    synced.clear()
    store_content(FileStore(folder.folder), tmp_path, b"content")
    assert synced == above
    synced.clear()
    store_content(folder, tmp_path, b"content")
    assert synced == [place.parent]


def test_walk_yields_stored_files_and_ignores_others(folder: FileStore, tmp_path: Path) -> None:
    assert list(folder.walk()) == []
    stored = sorted(store_content(folder, tmp_path, bytes([n])).sha256 for n in range(40))
    place = folder.path(stored[0])
    (place.parent / "notes.txt").write_text("x")
    (place.parent / ("f" * 64)).write_text("in the wrong place")
    (folder.folder / "notes").write_text("x")
    (folder.folder / ".new-killed").mkdir()
    assert sorted(file.sha256 for file in folder.walk()) == stored


@pytest.mark.parametrize(
    ("found", "is_intact"),
    [(b"content", True), (b"contenT", False), (b"con", False), (None, False)],
)
def test_has_intact_is_true_only_for_an_undamaged_file(
    folder: FileStore, tmp_path: Path, found: bytes | None, is_intact: bool
) -> None:
    stored = store_content(folder, tmp_path, b"content")
    folder.path(stored.sha256).unlink()
    if found is not None:
        folder.path(stored.sha256).write_bytes(found)
        os.utime(folder.path(stored.sha256), (0, 0))
    assert folder.has_undamaged_file(stored) is is_intact
    if is_intact:
        assert folder.path(stored.sha256).stat().st_mtime > DAY


def test_only_old_files_are_removed(folder: FileStore, tmp_path: Path) -> None:
    stored = store_content(folder, tmp_path, b"content")
    os.utime(folder.path(stored.sha256), (10, 10))
    folder.remove(stored.sha256, before=10)
    assert folder.path(stored.sha256).exists()
    for _ in range(2):
        folder.remove(stored.sha256, before=11)
        assert list(folder.walk()) == []


def test_a_staging_folder_is_stale_if_all_files_in_it_are_old(folder: FileStore) -> None:
    old, young = folder.folder / ".new-old", folder.folder / ".new-young"
    for path in (old, young):
        path.mkdir(parents=True)
        (path / hashlib.sha256(b"x").hexdigest()).write_bytes(b"x")
    for path in (old, *old.iterdir(), young):
        os.utime(path, (10, 10))
    assert folder.find_stale_stagings(before=11) == [old]
    assert folder.find_stale_stagings(before=10) == []


@pytest.mark.parametrize("content", [b"", b"x", bytes(range(256)) * 10_000])
def test_a_file_is_stored_under_its_checksum(
    folder: FileStore, tmp_path: Path, content: bytes
) -> None:
    source = tmp_path / "source"
    source.write_bytes(content)
    stored = store(folder, source)
    assert stored.sha256 == hashlib.sha256(content).hexdigest()
    assert stored.size == len(content)
    assert measure(source) == stored
    assert list_files(folder) == [folder.path(stored.sha256)]
    assert folder.path(stored.sha256).read_bytes() == content


def test_a_failed_copy_leaves_no_incomplete_file(
    folder: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"0123456789" * 10)
    copy = files.copy_and_measure

    def fail_midway(stream: Any, target: Any) -> Any:
        target.write(stream.read(50))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "copy_and_measure", fail_midway)
    with pytest.raises(StorageError, match="can't be written: No space left"):
        store(folder, source)
    assert list_files(folder) == []
    monkeypatch.setattr(files, "copy_and_measure", copy)
    assert store(folder, source).size == 100


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_file_that_could_not_be_forced_to_the_disk_is_not_stored(
    folder: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*parts: Any) -> None:
        raise OSError(5, "Input/output error")

    source = tmp_path / "source"
    source.write_bytes(b"content")
    if step == "fsync":
        monkeypatch.setattr(files.os, "fsync", fail)
    else:
        monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(StorageError, match=r"can't be written: Input/output error"):
        store(folder, source)
    assert list_files(folder) == []


@pytest.mark.parametrize("source", ["missing", "folder"])
def test_a_source_that_cannot_be_read_raises_OSError(
    folder: FileStore, tmp_path: Path, source: str
) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r"No such file|Is a directory"):
        store(folder, tmp_path / source)
    assert list_files(folder) == []


def test_a_source_that_fails_in_the_middle_raises_its_own_error(folder: FileStore) -> None:
    class Broken:
        def read(self, size: int, /) -> bytes:
            raise OSError(5, "Input/output error")

    with folder.staging() as staging, pytest.raises(OSError, match="Input/output error") as failure:
        staging.add_stream(Broken())
    assert not isinstance(failure.value, StorageError)
    assert list_files(folder) == []
