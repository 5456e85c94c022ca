"""The folder of stored files: repair, durability, locks, deletion."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from flask_ibi_archive.archive.items import files
from flask_ibi_archive.archive.items.files import Content, FileStore, measure, read_source
from flask_ibi_archive.errors import StorageError

DAY = 24 * 3600


@pytest.fixture
def folder(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "contents" / "of files")


def store(folder: FileStore, source: Path) -> Content:
    """Store a file."""
    with folder.staging() as staging:
        content = read_source(source, staging.add_stream)
        staging.move_to_store(content)
    return content


def store_content(folder: FileStore, tmp_path: Path, content: bytes) -> Content:
    """Store a file with a certain content."""
    source = tmp_path / "source"
    source.write_bytes(content)
    return store(folder, source)


def list_files(folder: FileStore) -> list[Path]:
    return [path for path in folder.folder.rglob("*") if path.is_file()]


def test_storing_a_file_again_repairs_and_renews_it(folder: FileStore, tmp_path: Path) -> None:
    place = folder.path(store_content(folder, tmp_path, b"content").sha256)
    for found in (b"", b"cont", b"CONTENT", b"content and more", b"content"):
        place.write_bytes(found)
        os.utime(place, (0, 0))
        store_content(folder, tmp_path, b"content")
        assert place.read_bytes() == b"content"
        assert place.stat().st_mtime > DAY


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


def test_only_an_undamaged_file_is_renewed(folder: FileStore, tmp_path: Path) -> None:
    stored = store_content(folder, tmp_path, b"content")
    place = folder.path(stored.sha256)
    for found, is_intact in ((b"content", True), (b"contenT", False), (b"con", False)):
        place.write_bytes(found)
        os.utime(place, (0, 0))
        assert folder.has_undamaged_file(stored) is is_intact
        assert (place.stat().st_mtime > DAY) is is_intact
    place.unlink()
    assert not folder.has_undamaged_file(stored)


@pytest.mark.parametrize("content", [b"", b"x", bytes(range(256)) * 10_000])
def test_a_file_is_stored_under_its_checksum(
    folder: FileStore, tmp_path: Path, content: bytes
) -> None:
    stored = store_content(folder, tmp_path, content)
    assert stored == Content(hashlib.sha256(content).hexdigest(), len(content))
    assert measure(tmp_path / "source") == stored
    assert list_files(folder) == [folder.path(stored.sha256)]
    assert folder.path(stored.sha256).read_bytes() == content
    # it may be staged twice
    with folder.staging() as staging:
        for again in [read_source(tmp_path / "source", staging.add_stream) for _ in range(2)]:
            staging.move_to_store(again)
    assert measure(folder.path(stored.sha256)) == stored


@pytest.mark.parametrize("step", ["copy", "fsync", "replace"])
def test_a_failed_copy_leaves_no_file(
    folder: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail_midway(stream: Any, target: Any) -> Any:
        target.write(stream.read(5))
        fail()

    def fail(*parts: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        if step == "copy":
            patch.setattr(files, "copy_and_measure", fail_midway)
        elif step == "fsync":
            patch.setattr(files.os, "fsync", fail)
        else:
            patch.setattr(Path, "replace", fail)
        with pytest.raises(StorageError, match="can't be written: No space left"):
            store_content(folder, tmp_path, b"content")
    assert list_files(folder) == []
    assert store_content(folder, tmp_path, b"content").size == 7


def test_a_source_that_cannot_be_read_raises_its_error(folder: FileStore, tmp_path: Path) -> None:
    class Broken:
        def read(self, size: int, /) -> bytes:
            raise OSError(5, "Input/output error")

    for source in (tmp_path / "missing", tmp_path):
        with pytest.raises(OSError, match=r"No such file|Is a directory"):
            store(folder, source)
    with folder.staging() as staging, pytest.raises(OSError, match="Input/output error") as failure:
        staging.add_stream(Broken())
    assert not isinstance(failure.value, StorageError)
    assert list_files(folder) == []
