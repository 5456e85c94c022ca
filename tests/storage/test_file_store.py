"""The folder of stored files: repair, durability, locks, deletion."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from flask_ibi_archive.errors import StorageError
from flask_ibi_archive.storage import file_store
from flask_ibi_archive.storage.file_store import FileStore, measure
from flask_ibi_archive.storage.items import Content

DAY = 24 * 3600


@pytest.fixture
def folder(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "contents" / "of files")


def store(folder: FileStore, tmp_path: Path, content: bytes) -> Content:
    """Store a file."""
    source = tmp_path / "source"
    source.write_bytes(content)
    with folder.staging() as staging:
        taken = staging.add(source)
        staging.move_to_store(taken)
    return taken


@pytest.mark.parametrize("damage", [b"", b"cont", b"CONTENT", b"content and more"])
def test_storing_a_file_again_repairs_a_damaged_one(
    folder: FileStore, tmp_path: Path, damage: bytes
) -> None:
    place = folder.path(store(folder, tmp_path, b"content").sha256)
    place.write_bytes(damage)
    store(folder, tmp_path, b"content")
    assert place.read_bytes() == b"content"


def test_storing_a_file_again_renews_its_modification_time(
    folder: FileStore, tmp_path: Path
) -> None:
    taken = store(folder, tmp_path, b"content")
    os.utime(folder.path(taken.sha256), (0, 0))
    store(folder, tmp_path, b"content")
    assert folder.path(taken.sha256).stat().st_mtime > DAY


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
    monkeypatch.setattr(file_store, "sync_folder", synced.append)
    taken = store(folder, tmp_path, b"content")
    place = folder.path(taken.sha256)
    above = [folder.folder.parent, folder.folder, place.parent.parent, place.parent]
    assert synced == above
    # where another process made the folders, it may not have come to that yet
    synced.clear()
    store(FileStore(folder.folder), tmp_path, b"content")
    assert synced == above
    synced.clear()
    store(folder, tmp_path, b"content")
    assert synced == [place.parent]


def test_a_folder_that_cannot_be_forced_to_the_disk_is_an_error(
    folder: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(file_store, "sync_folder", fail)
    with pytest.raises(StorageError, match="can't be written: Input/output error"):
        store(folder, tmp_path, b"content")


def test_walk_yields_stored_files_in_order_and_ignores_others(
    folder: FileStore, tmp_path: Path
) -> None:
    assert list(folder.walk()) == []
    taken = sorted(store(folder, tmp_path, bytes([n])).sha256 for n in range(40))
    place = folder.path(taken[0])
    (place.parent / "notes.txt").write_text("x")
    (place.parent / ("f" * 64)).write_text("in the wrong place")
    (folder.folder / "notes").write_text("x")
    (folder.folder / ".new-killed").mkdir()
    assert [kept.sha256 for kept in folder.walk()] == taken


@pytest.mark.parametrize(
    ("there", "holds"), [(b"content", True), (b"contenT", False), (b"con", False), (None, False)]
)
def test_has_intact_is_true_for_an_undamaged_file_alone(
    folder: FileStore, tmp_path: Path, there: bytes | None, holds: bool
) -> None:
    taken = store(folder, tmp_path, b"content")
    folder.path(taken.sha256).unlink()
    if there is not None:
        folder.path(taken.sha256).write_bytes(there)
        os.utime(folder.path(taken.sha256), (0, 0))
    assert folder.has_intact(taken) is holds
    if holds:
        assert folder.path(taken.sha256).stat().st_mtime > DAY


def test_a_shared_lock_and_an_exclusive_lock_exclude_each_other(
    folder: FileStore, tmp_path: Path
) -> None:
    with folder.locked(exclusive=True):  # nothing there yet
        pass
    store(folder, tmp_path, b"content")
    other = FileStore(folder.folder)
    with folder.locked(), other.locked():
        for one, alone in ((other, True), (folder, True)):
            with (
                pytest.raises(StorageError, match="another backup or verify --prune is using"),
                one.locked(exclusive=alone),
            ):
                pass
    with (
        folder.locked(exclusive=True),
        pytest.raises(StorageError, match="another backup or verify --prune is using"),
        other.locked(),
    ):
        pass
    with other.locked(exclusive=True):
        pass


def test_only_old_files_are_removed(folder: FileStore, tmp_path: Path) -> None:
    taken = store(folder, tmp_path, b"content")
    assert folder.remove(taken.sha256, before=0) is None
    assert folder.path(taken.sha256).exists()
    os.utime(folder.path(taken.sha256), (10, 10))
    assert folder.remove(taken.sha256, before=10) is None
    assert folder.remove(taken.sha256, before=11) == 7
    assert folder.remove(taken.sha256, before=11) is None
    assert list(folder.walk()) == []


def test_a_staging_folder_is_stale_if_all_files_in_it_are_old(folder: FileStore) -> None:
    old, young = folder.folder / ".new-old", folder.folder / ".new-young"
    for path in (old, young):
        path.mkdir(parents=True)
        (path / hashlib.sha256(b"x").hexdigest()).write_bytes(b"x")
    for path in (old, *old.iterdir(), young):
        os.utime(path, (10, 10))
    assert folder.stale_stagings(before=11) == [old]
    assert folder.stale_stagings(before=10) == []
